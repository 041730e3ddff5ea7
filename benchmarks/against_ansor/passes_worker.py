"""TVM's lowering passes on tables of nodes (`passes_nodes.py`); runs in the peer alone."""

from __future__ import annotations

import worker  # isort: skip  # before TVM

import signal
from collections.abc import Sequence
from typing import Any

import tvm
from tvm import tir

TIME = 30  # seconds of passes; then the process ends
_NAMES = "Add Sub Mul Div Mod FloorDiv FloorMod Min Max EQ NE LT LE GT GE And Or"
BINARY = _NAMES.split(" ")


class Reader:
    """TVM's nodes of rows."""

    def __init__(self, table: list[list[Any]]) -> None:
        self.nodes: list[Any] = []
        for row in table:
            self.nodes.append(self.node(*row))

    def at(self, number: int) -> Any:
        """The node of a row; None of -1."""
        return None if number < 0 else self.nodes[number]

    def all(self, numbers: Sequence[int]) -> list[Any]:
        """The nodes of rows."""
        return [self.at(n) for n in numbers]

    def node(self, kind: str, *f: Any) -> Any:
        """The node of a row whose fields are `f`."""
        at, every = self.at, self.all
        if kind in (*BINARY, "Not", "Select", "Let"):
            return getattr(tir, kind)(*every(f))
        if kind in ("LetStmt", "DeclBuffer", "IfThenElse", "Evaluate", "While"):
            return getattr(tir, kind)(*every(f))
        if kind in ("Var", "SizeVar"):
            name, dtype, element, scope = f
            if element is not None:
                element = tvm.ir.PrimType(element)
                return tir.Var(name, tvm.ir.PointerType(element, scope))
            return getattr(tir, kind)(name, dtype)
        if kind == "IntImm":
            return tir.IntImm(f[1], f[0])
        if kind == "FloatImm":
            return tir.FloatImm(f[1], float.fromhex(f[0]))
        if kind == "StringImm":
            return tir.StringImm(f[0])
        if kind == "Cast":
            return tir.Cast(f[0], at(f[1]))
        if kind == "BufferLoad":
            return tir.BufferLoad(at(f[0]), every(f[1]))
        if kind == "Call":
            return tir.Call(f[0], tvm.ir.Op.get(f"tir.{f[1]}"), every(f[2]))
        if kind == "Ramp":
            return tir.Ramp(at(f[0]), at(f[1]), f[2])
        if kind == "Broadcast":
            return tir.Broadcast(at(f[0]), f[1])
        if kind == "Shuffle":
            return tir.Shuffle(every(f[0]), every(f[1]))
        if kind == "Buffer":
            data, dtype, shape, strides, start, name, alignment, factor, separators = f
            return tir.decl_buffer(
                every(shape),
                dtype,
                name,
                data=at(data),
                strides=every(strides) or None,
                elem_offset=tir.IntImm("int32", 0) if start < 0 else at(start),
                data_alignment=alignment,
                offset_factor=factor,
                axis_separators=separators,
            )
        if kind == "IterVar":
            dom = tvm.ir.Range.from_min_extent(*every(f[0][0])) if f[0] else None
            return tir.IterVar(dom, at(f[1]), f[2], f[3])
        if kind == "CommReducer":
            return tir.CommReducer(*map(every, f))
        if kind == "AttrStmt":
            node = f[0] if isinstance(f[0], str) else at(f[0])
            if node is None:
                node = tir.IntImm("int32", 0)
            return tir.AttrStmt(node, f[1], at(f[2]), at(f[3]))
        if kind == "AssertStmt":
            return tir.AssertStmt(at(f[0]), tir.StringImm(f[1]), at(f[2]))
        if kind == "BufferStore":
            return tir.BufferStore(at(f[0]), at(f[1]), every(f[2]))
        if kind == "BufferRealize":
            bounds = [tvm.ir.Range.from_min_extent(*every(r)) for r in f[1]]
            return tir.BufferRealize(at(f[0]), bounds, at(f[2]), at(f[3]))
        if kind == "Allocate":
            return tir.Allocate(at(f[0]), f[1], every(f[2]), at(f[3]), at(f[4]), f[5])
        if kind == "SeqStmt":
            return tir.SeqStmt(every(f[0]))
        if kind == "For":
            var, low, extent, number, body, binding, annotations = f
            head = at(var), at(low), at(extent), number
            return tir.For(*head, at(body), at(binding), annotations)
        raise ValueError(f"no node {kind}")


class Writer:
    """Rows of TVM's nodes."""

    def __init__(self) -> None:
        self.table: list[list[Any]] = []
        self.numbers: dict[Any, int] = {}
        self.kept: list[Any] = []

    def many(self, nodes: Any) -> list[int]:
        """Their rows."""
        return [self.row(node) for node in nodes]

    def row(self, node: Any) -> int:
        """The number of its row; -1 of None."""
        if node is None:
            return -1
        key = node.handle.value
        if key not in self.numbers:
            fields = self.fields(node)
            self.numbers[key] = len(self.table)
            self.table.append(fields)
            self.kept.append(node)
        return self.numbers[key]

    def fields(self, n: Any) -> list[Any]:
        """Its row."""
        kind = type(n).__name__
        row, many = self.row, self.many
        if kind in BINARY:
            return [kind, row(n.a), row(n.b)]
        if kind in ("Var", "SizeVar"):
            pointer = n.type_annotation
            if isinstance(pointer, tvm.ir.PointerType) and isinstance(
                pointer.element_type, tvm.ir.PrimType
            ):
                return ["Var", n.name, "handle", pointer.element_type.dtype, pointer.storage_scope]
            return [kind, n.name, n.dtype, None, ""]
        if kind == "IntImm":
            return [kind, int(n.value), n.dtype]
        if kind == "FloatImm":
            return [kind, float(n.value).hex(), n.dtype]
        if kind == "StringImm":
            return [kind, n.value]
        if kind == "Not":
            return [kind, row(n.a)]
        if kind == "Cast":
            return [kind, n.dtype, row(n.value)]
        if kind == "Select":
            return [kind, *many((n.condition, n.true_value, n.false_value))]
        if kind == "BufferLoad":
            return [kind, row(n.buffer), many(n.indices)]
        if kind == "Let":
            return [kind, *many((n.var, n.value, n.body))]
        if kind == "Call":
            return [kind, n.dtype, n.op.name.removeprefix("tir."), many(n.args)]
        if kind == "Ramp":
            return [kind, *many((n.base, n.stride)), int(n.lanes)]
        if kind == "Broadcast":
            return [kind, row(n.value), int(n.lanes)]
        if kind == "Shuffle":
            return [kind, many(n.vectors), many(n.indices)]
        if kind == "Buffer":
            start = n.elem_offset
            if isinstance(start, tir.IntImm) and start.value == 0:
                start = None
            layout = [many(n.shape), many(n.strides), row(start)]
            separators = [int(s) for s in n.axis_separators]
            rest = [int(n.data_alignment), int(n.offset_factor), separators]
            return [kind, row(n.data), n.dtype, *layout, n.name, *rest]
        if kind == "IterVar":
            dom = [] if n.dom is None else [many((n.dom.min, n.dom.extent))]
            return [kind, dom, row(n.var), int(n.iter_type), n.thread_tag]
        if kind == "CommReducer":
            return [kind, *map(many, (n.lhs, n.rhs, n.result, n.identity_element))]
        return self.of_statement(kind, n)

    def of_statement(self, kind: str, n: Any) -> list[Any]:
        """The row of a statement."""
        row, many = self.row, self.many
        if kind == "LetStmt":
            return [kind, *many((n.var, n.value, n.body))]
        if kind == "AttrStmt":
            node = n.node
            if isinstance(node, tvm.runtime.String | str):
                return [kind, str(node), n.attr_key, *many((n.value, n.body))]
            if isinstance(node, tvm.target.Target | tir.IntImm):
                node = None
            return [kind, row(node), n.attr_key, *many((n.value, n.body))]
        if kind == "AssertStmt":
            return [kind, row(n.condition), n.message.value, row(n.body)]
        if kind == "BufferStore":
            return [kind, *many((n.buffer, n.value)), many(n.indices)]
        if kind == "BufferRealize":
            bounds = [many((r.min, r.extent)) for r in n.bounds]
            return [kind, row(n.buffer), bounds, *many((n.condition, n.body))]
        if kind == "Allocate":
            shape = [row(n.buffer_var), n.dtype, many(n.extents)]
            return [kind, *shape, *many((n.condition, n.body)), _constants(n.annotations)]
        if kind == "DeclBuffer":
            return [kind, *many((n.buffer, n.body))]
        if kind == "SeqStmt":
            return [kind, many(n.seq)]
        if kind == "IfThenElse":
            return [kind, *many((n.condition, n.then_case, n.else_case))]
        if kind == "Evaluate":
            return [kind, row(n.value)]
        if kind == "For":
            head = many((n.loop_var, n.min, n.extent))
            body = many((n.body, n.thread_binding))
            return [kind, *head, int(n.kind), *body, _constants(n.annotations)]
        if kind == "While":
            return [kind, *many((n.condition, n.body))]
        raise ValueError(f"no row for {kind}")


def _constants(annotations: Any) -> dict[str, Any]:
    found = {}
    for key, value in (annotations or {}).items():
        value = getattr(value, "value", value)
        found[str(key)] = value if isinstance(value, int | float) else str(value)
    return found


def read(data: dict[str, Any]) -> tir.PrimFunc:
    """TVM's function of a table."""
    reader = Reader(data["nodes"])
    params = reader.all(data["params"])
    buffers = {p: reader.at(b) for p, b in zip(params, data["buffers"], strict=True) if b >= 0}
    func = tir.PrimFunc(params, reader.at(data["body"]), buffer_map=buffers)
    attrs = {"global_symbol": "main", **data["attrs"]}
    for key, value in attrs.items():
        if key == "target":
            value = tvm.target.Target(value)
        elif isinstance(value, bool):
            value = tir.IntImm("bool", value)
        func = func.with_attr(key, value)
    return func


def write(func: tir.PrimFunc) -> dict[str, Any]:
    """A table of TVM's function."""
    writer = Writer()
    params = writer.many(func.params)
    buffers = [writer.row(func.buffer_map.get(p, None)) for p in func.params]
    body = writer.row(func.body)
    return {"nodes": writer.table, "params": params, "buffers": buffers, "body": body}


def apply(data: dict[str, Any], passes: list[list[Any]], config: dict[str, Any]) -> Any:
    """The function after passes, each a name and its arguments; its table and its text."""
    signal.alarm(TIME)
    func = read(data)
    with tvm.transform.PassContext(config=config):
        mod = tvm.IRModule({"main": func})
        for name, *arguments in passes:
            mod = getattr(tir.transform, name)(*arguments)(mod)
    answer = [write(mod["main"]), mod["main"].script()]
    signal.alarm(0)
    return answer


def text(data: dict[str, Any]) -> str:
    """TVM's own text of the function."""
    return str(read(data).script())


def verify_gpu(data: dict[str, Any], limits: dict[str, int]) -> bool:
    """Whether the function keeps the limits of a GPU."""
    return bool(tir.analysis.verify_gpu_code(read(data), limits))


def verify_memory(data: dict[str, Any]) -> bool:
    """Whether no memory is accessed from where it cannot be."""
    return bool(tir.analysis.verify_memory(read(data)))


if __name__ == "__main__":
    worker.serve(apply=apply, text=text, verify_gpu=verify_gpu, verify_memory=verify_memory)
