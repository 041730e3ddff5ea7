"""Functions of autosched's TIR as a table of nodes in JSON, and back.

Every node is a row, its kind and then its fields: numbers of other rows, in lists where there are
several, or plain values. Variables and buffers are rows of their own, so that they keep identity.
`passes_worker.py` reads and writes the same table on the side of TVM.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from autosched.tir import expr, stmt
from autosched.tir.buffer import Buffer
from autosched.tir.dtype import DType
from autosched.tir.function import PrimFunc
from autosched.tir.iteration import IterKind

Table = list[list[Any]]
ITER_KINDS = [value for name, value in vars(IterKind).items() if name.isupper()]
FOR_KINDS = list(stmt.ForKind)
_NAMES = "Add Sub Mul Div Mod FloorDiv FloorMod Min Max EQ NE LT LE GT GE And Or"
BINARY: dict[str, Callable[[Any, Any], Any]] = {
    name: getattr(expr, name) for name in _NAMES.split(" ")
}


class UnknownNodeError(Exception):
    """A node that has no row."""


class Writer:
    """Writes rows of nodes that it has not met."""

    def __init__(self) -> None:
        self.table: Table = []
        self.numbers: dict[int, int] = {}
        self.kept: list[Any] = []

    def many(self, nodes: Any) -> list[int]:
        """Their rows."""
        return [self.row(node) for node in nodes]

    def ranges(self, ranges: Any) -> list[list[int]]:
        """Their bounds' rows."""
        return [self.many((r.min, r.extent)) for r in ranges]

    def row(self, node: Any) -> int:
        """The number of its row; -1 of None."""
        if node is None:
            return -1
        if id(node) not in self.numbers:
            fields = self.fields(node)
            self.numbers[id(node)] = len(self.table)
            self.table.append(fields)
            self.kept.append(node)
        return self.numbers[id(node)]

    def fields(self, n: Any) -> list[Any]:
        """Its row."""
        kind = type(n).__name__
        row, many = self.row, self.many
        match n:
            case expr.Var():
                element = None if n.element is None else str(n.element)
                return [kind, n.name, str(n.dtype), element, n.scope]
            case expr.IntImm():
                return [kind, n.value, str(n.dtype)]
            case expr.FloatImm():
                return [kind, float(n.value).hex(), str(n.dtype)]
            case expr.StringImm():
                return [kind, n.value]
            case expr.BinaryExpr():
                return [kind, *many((n.a, n.b))]
            case expr.Not():
                return [kind, row(n.a)]
            case expr.Cast():
                return [kind, str(n.dtype), row(n.value)]
            case expr.Select():
                return [kind, *many((n.condition, n.true_value, n.false_value))]
            case expr.BufferLoad(predicate=None):
                return [kind, row(n.buffer), many(n.indices)]
            case expr.Let():
                return [kind, *many((n.var, n.value, n.body))]
            case expr.Call():
                return [kind, str(n.dtype), n.op, many(n.args)]
            case expr.Ramp():
                return [kind, *many((n.base, n.stride)), n.lanes]
            case expr.Broadcast():
                return [kind, row(n.value), n.lanes]
            case expr.Shuffle():
                return [kind, many(n.vectors), many(n.indices)]
            case Buffer():
                start = row(n.elem_offset)
                layout = [many(n.shape), many(n.strides), start]
                rest = [n.data_alignment, n.offset_factor, list(n.axis_separators)]
                return [kind, row(n.data), str(n.dtype), *layout, n.name, *rest]
            case expr.IterVar():
                dom = [] if n.dom is None else self.ranges([n.dom])
                return [kind, dom, row(n.var), ITER_KINDS.index(n.kind), n.thread_tag]
            case expr.CommReducer():
                return [kind, *map(many, (n.lhs, n.rhs, n.result, n.identity))]
            case stmt.LetStmt():
                return [kind, *many((n.var, n.value, n.body))]
            case stmt.AttrStmt():
                node = n.node if isinstance(n.node, str) else row(n.node)
                return [kind, node, n.key, *many((n.value, n.body))]
            case stmt.AssertStmt():
                return [kind, row(n.condition), n.message, row(n.body)]
            case stmt.BufferStore(predicate=None):
                return [kind, *many((n.buffer, n.value)), many(n.indices)]
            case stmt.BufferRealize():
                return [kind, row(n.buffer), self.ranges(n.bounds), *many((n.condition, n.body))]
            case stmt.Allocate():
                shape = [row(n.buffer_var), str(n.dtype), many(n.extents)]
                return [kind, *shape, *many((n.condition, n.body)), _constants(n.annotations)]
            case stmt.DeclBuffer():
                return [kind, *many((n.buffer, n.body))]
            case stmt.SeqStmt():
                return [kind, many(n.stmts)]
            case stmt.IfThenElse():
                return [kind, *many((n.condition, n.then_case, n.else_case))]
            case stmt.Evaluate():
                return [kind, row(n.value)]
            case stmt.For():
                head = many((n.loop_var, n.min, n.extent))
                number = FOR_KINDS.index(n.kind)
                body = many((n.body, n.thread_binding))
                return [kind, *head, number, *body, _constants(n.annotations)]
            case stmt.While():
                return [kind, *many((n.condition, n.body))]
        raise UnknownNodeError(kind)


def _constants(annotations: dict[str, Any]) -> dict[str, Any]:
    return {k: getattr(v, "value", v) for k, v in annotations.items()}


def write(func: PrimFunc, **attrs: Any) -> dict[str, Any]:
    """The function in JSON; `attrs` alone are its attributes."""
    writer = Writer()
    params = writer.many(func.params)
    buffers = [writer.row(func.buffer_map.get(p)) for p in func.params]
    body = writer.row(func.body)
    return {
        "nodes": writer.table, "params": params, "buffers": buffers, "body": body, "attrs": attrs
    }  # fmt: skip


def _type(text: str) -> DType:
    return DType(text.replace("uint1x", "boolx") if text != "uint1" else "bool")


class Reader:
    """Nodes of rows."""

    def __init__(self, table: Table) -> None:
        self.nodes: list[Any] = []
        for row in table:
            self.nodes.append(self.node(*row))

    def at(self, number: int) -> Any:
        """The node of a row; None of -1."""
        return None if number < 0 else self.nodes[number]

    def all(self, numbers: Sequence[int]) -> tuple[Any, ...]:
        """The nodes of rows."""
        return tuple(map(self.at, numbers))

    def node(self, kind: str, *f: Any) -> Any:
        """The node of a row whose fields are `f`."""
        at, every = self.at, self.all
        if kind in BINARY:
            return BINARY[kind](*every(f))
        match kind:
            case "Var" | "SizeVar":
                element = None if f[2] is None else _type(f[2])
                return getattr(expr, kind)(f[0], _type(f[1]), element=element, scope=f[3])
            case "IntImm":
                return expr.IntImm(f[0], _type(f[1]))
            case "FloatImm":
                return expr.FloatImm(float.fromhex(f[0]), _type(f[1]))
            case "StringImm":
                return expr.StringImm(f[0])
            case "Not" | "Select" | "Let":
                return getattr(expr, kind)(*every(f))
            case "Cast":
                return expr.Cast(_type(f[0]), at(f[1]))
            case "BufferLoad":
                return expr.BufferLoad(at(f[0]), every(f[1]))
            case "Call":
                return expr.Call(_type(f[0]), f[1], every(f[2]))
            case "Ramp":
                return expr.Ramp(at(f[0]), at(f[1]), f[2])
            case "Broadcast":
                return expr.Broadcast(at(f[0]), f[1])
            case "Shuffle":
                return expr.Shuffle(every(f[0]), every(f[1]))
            case "Buffer":
                layout = every(f[2]), every(f[3]), at(f[4])
                return Buffer(at(f[0]), _type(f[1]), *layout, f[5], f[6], f[7], tuple(f[8]))
            case "IterVar":
                dom = expr.Range(*every(f[0][0])) if f[0] else None
                return expr.IterVar(dom, at(f[1]), ITER_KINDS[f[2]], f[3])
            case "CommReducer":
                lhs, rhs, result, identity = map(every, f)
                return expr.CommReducer(lhs, rhs, result, identity)
            case "LetStmt" | "DeclBuffer" | "IfThenElse" | "Evaluate" | "While":
                return getattr(stmt, kind)(*every(f))
            case "AttrStmt":
                node = f[0] if isinstance(f[0], str) else at(f[0])
                return stmt.AttrStmt(node, f[1], at(f[2]), at(f[3]))
            case "AssertStmt":
                return stmt.AssertStmt(at(f[0]), f[1], at(f[2]))
            case "BufferStore":
                return stmt.BufferStore(at(f[0]), at(f[1]), every(f[2]))
            case "BufferRealize":
                bounds = tuple(expr.Range(*every(r)) for r in f[1])
                return stmt.BufferRealize(at(f[0]), bounds, at(f[2]), at(f[3]))
            case "Allocate":
                return stmt.Allocate(at(f[0]), _type(f[1]), every(f[2]), at(f[3]), at(f[4]), f[5])
            case "SeqStmt":
                return stmt.seq(*every(f[0]))
            case "For":
                var, low, extent = every(f[:3])
                loop_kind = FOR_KINDS[f[3]]
                return stmt.For(var, low, extent, loop_kind, at(f[4]), at(f[5]), f[6])
        raise UnknownNodeError(kind)


def read(data: dict[str, Any]) -> PrimFunc:
    """The function that `write`, or the peer, wrote."""
    reader = Reader(data["nodes"])
    params = reader.all(data["params"])
    buffers = {p: reader.at(b) for p, b in zip(params, data["buffers"], strict=True) if b >= 0}
    return PrimFunc(params, reader.at(data["body"]), buffers, {"global_symbol": "main"})
