"""TVMScript-like text of everything in the IR, stable and readable at every stage.

    def main(A: Buffer((16, 16), float32), B: Buffer((16,), float32)):
        realize(B.local[0:4], "local")
        for i in parallel(4):
            B.local[i] = 0.0
            for k in range(16):
                B.local[i] = B.local[i] + A[i, k]

Distinct variables or buffers with one name get suffixes `_1`, `_2`, ... . Statements that only
wrap a body (realize, allocate, launch, attr, let) stand on a line of their own when nothing
follows their body, else they open a `with` block. A view of memory that already carries a name is
declared below the place where the memory is bound: `A_1 = view(A, (256,), float32)`.
"""

from __future__ import annotations

import sys
from typing import Any

from autosched.tir import expr_core, function
from autosched.tir import stmt as stmt_module
from autosched.tir.buffer import Buffer
from autosched.tir.dtype import DType
from autosched.tir.expr import BufferLoad, CommReducer, Expr, IntImm, IterVar, Range, Var
from autosched.tir.function import IRModule, PrimFunc
from autosched.tir.printer_expr import ExprPrinter
from autosched.tir.stmt import (
    Allocate,
    AllocateConst,
    AssertStmt,
    AttrStmt,
    Block,
    BlockRealize,
    BufferRealize,
    BufferRegion,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    MatchBufferRegion,
    Prefetch,
    ProducerRealize,
    ProducerStore,
    SeqStmt,
    Stmt,
    While,
)
from autosched.tir.walk import all_exprs, stmts


def to_text(node: object) -> str:
    """The text of an expression, statement, function, module, buffer, range or iter variable."""
    match node:
        case IRModule():
            parts = (StmtPrinter().func(f, name) for name, f in node.functions.items())
            return "\n\n".join(parts)
        case PrimFunc():
            return StmtPrinter().func(node, node.name)
        case Stmt():
            return "\n".join(StmtPrinter().lines(node))
        case Buffer():
            return StmtPrinter().declaration(node)
        case IterVar():
            return ExprPrinter().iter_var(node)
        case BufferRegion():
            printer = ExprPrinter()
            return printer.region(printer.buffer(node.buffer), node.region)
        case Expr() | Range() | CommReducer():
            return ExprPrinter().value(node)
    return str(node)


class StmtPrinter(ExprPrinter):
    """Turns statements into lines; see `to_text`."""

    def __init__(self) -> None:
        super().__init__()
        self._views: dict[Var, list[Buffer]] = {}

    # -- functions and declarations

    def func(self, func: PrimFunc, name: str) -> str:
        """The text of a function called `name`."""
        params = []
        for param in func.params:
            buffer = func.buffer_map.get(param)
            if buffer is None:
                params.append(f"{self.var(param)}: {_type_text(param)}")
            else:
                params.append(self.declaration(buffer))
                if param is not buffer.data:
                    self.alias(param, self.buffer(buffer))
        self._views = _views(func)
        lines = [f"def {name}({', '.join(params)}):"]
        attrs = {k: v for k, v in sorted(func.attrs.items()) if (k, v) != ("global_symbol", name)}
        if attrs:
            text = ", ".join(f"{key}={self.value(value)}" for key, value in attrs.items())
            lines.append(f"    attrs({text})")
        for buffer in func.buffers:
            lines += _indent(self._view_lines(buffer.data))
        for param in func.params:
            if param not in func.buffer_map:
                lines += _indent(self._view_lines(param))
        return "\n".join(lines + _indent(self.lines(func.body)))

    def declaration(self, buffer: Buffer) -> str:
        """`name: Buffer(shape, dtype, ...)` with whatever is not the default."""
        name = self.buffer(buffer)
        return f"{name}: Buffer({', '.join(self._fields(buffer))})"

    def _fields(self, buffer: Buffer) -> list[str]:
        fields = [self.shape(buffer.shape), str(buffer.dtype)]
        if buffer.scope not in ("", "global"):
            fields.append(f'scope="{buffer.scope}"')
        if buffer.strides:
            fields.append(f"strides={self.shape(buffer.strides)}")
        if buffer.elem_offset is not None:
            offset = buffer.elem_offset
            if not isinstance(offset, IntImm) or offset.value != 0:
                fields.append(f"elem_offset={self.expr(offset)}")
        return fields

    def _view_lines(self, data: Var) -> list[str]:
        lines = []
        for buffer in self._views.pop(data, ()):
            if buffer not in self._names and self.buffer(buffer) != self.var(data):
                lines.append(self._view(buffer))
        return lines

    def _view(self, buffer: Buffer) -> str:
        data = self.var(buffer.data)
        return f"{self.buffer(buffer)} = view({', '.join([data, *self._fields(buffer)])})"

    # -- statements

    def lines(self, stmt: Stmt, tail: bool = True) -> list[str]:
        """The lines of `stmt`; `tail` says that nothing follows it at this indentation."""
        match stmt:
            case SeqStmt(parts):
                last = len(parts) - 1
                return [t for k, s in enumerate(parts) for t in self.lines(s, tail and k == last)]
            case For():
                head = f"for {self.var(stmt.loop_var)} in {self._loop_domain(stmt)}:"
                return [head, *_indent(self.lines(stmt.body))]
            case BufferStore():
                return [self._store(stmt)]
            case IfThenElse():
                return self._if(stmt)
            case Evaluate(value):
                return ["pass"] if isinstance(value, IntImm) else [self.expr(value)]
            case ProducerStore(producer, value, indices):
                target = self.producer(producer) + self.indices(indices)
                return [f"{target} = {self.expr(value)}"]
            case While(condition, body):
                return [f"while {self.expr(condition)}:", *_indent(self.lines(body))]
            case Prefetch(buffer, bounds):
                return [f"prefetch({self.region(self.buffer(buffer), bounds)})"]
            case BlockRealize():
                return self._block(stmt.block, stmt)
            case Block():
                return self._block(stmt, None)
            case _:
                return self._wrapper(stmt, tail)

    def _wrapper(self, stmt: Any, tail: bool) -> list[str]:
        head, inside = self._wrapper_head(stmt)
        if tail:
            return [head, *inside, *self.lines(stmt.body)]
        return [f"with {head}:", *_indent([*inside, *self.lines(stmt.body)])]

    def _wrapper_head(self, stmt: Stmt) -> tuple[str, list[str]]:
        """The line of a statement that wraps a body, and the declarations that follow it."""
        match stmt:
            case LetStmt(var, value):
                text = self.expr(value)
                return f"{self.var(var)}: {_type_text(var)} = {text}", []
            case AttrStmt():
                return self._attr(stmt), []
            case AssertStmt(condition, message):
                return f'assert {self.expr(condition)}, "{message}"', []
            case BufferRealize(buffer, bounds, condition):
                name = self.buffer(buffer)
                fields = [self.region(name, bounds), str(buffer.dtype), f'"{buffer.scope}"']
                if buffer.strides:
                    fields.append(f"strides={self.shape(buffer.strides)}")
                fields += self._condition(condition)
                return f"realize({', '.join(fields)})", self._view_lines(buffer.data)
            case ProducerRealize(producer, bounds, condition, _, scope):
                text = self.region(self.producer(producer), bounds)
                fields = [text, f'"{scope}"', *self._condition(condition)]
                return f"realize({', '.join(fields)})", []
            case Allocate(var, dtype, extents, condition):
                fields = [self.shape(extents), str(dtype), f'"{var.scope or "global"}"']
                fields += self._condition(condition) + self._annotations(stmt.annotations)
                name = self.var(var)
                return f"{name} = allocate({', '.join(fields)})", self._view_lines(var)
            case AllocateConst(var, dtype, extents, data):
                values = f"{data.size} values"
                name = self.var(var)
                head = f"{name} = constant({self.shape(extents)}, {dtype}, {values})"
                return head, self._view_lines(var)
            case DeclBuffer(buffer):
                self.var(buffer.data)
                if buffer not in self._names:
                    self._names[buffer] = self.fresh(buffer.name)
                return self._view(buffer), []
        raise TypeError(f"not a statement: {type(stmt).__name__}")

    def _condition(self, condition: Expr) -> list[str]:
        if isinstance(condition, IntImm) and condition.value:
            return []
        return [f"condition={self.expr(condition)}"]

    def _annotations(self, annotations: dict[str, Any]) -> list[str]:
        if not annotations:
            return []
        items = ", ".join(f'"{k}": {self.value(v)}' for k, v in sorted(annotations.items()))
        return [f"annotations={{{items}}}"]

    def _attr(self, stmt: AttrStmt) -> str:
        value = self.expr(stmt.value)
        if stmt.key in ("thread_extent", "virtual_thread") and isinstance(stmt.node, IterVar):
            name, tag = self.var(stmt.node.var), stmt.node.thread_tag
            head = "launch" if stmt.key == "thread_extent" else "virtual_thread"
            return f"{head}({name}, {value}{f', tag={tag}' if tag not in ('', name) else ''})"
        node = self.value(stmt.node)
        if stmt.key.startswith("pragma_"):
            return f'pragma({node}, "{stmt.key[len("pragma_") :]}", {value})'
        return f'attr({node}, "{stmt.key}", {value})'

    def _loop_domain(self, loop: For) -> str:
        parts = [self.expr(loop.extent)]
        if not isinstance(loop.min, IntImm) or loop.min.value != 0:
            stop = self.range(Range(loop.min, loop.extent)).partition(":")[2]
            parts = [self.expr(loop.min), stop]
        if loop.thread_binding is not None:
            parts.append(f'thread="{loop.thread_binding.thread_tag}"')
        parts += self._annotations(loop.annotations)
        name = "range" if loop.kind is ForKind.SERIAL else loop.kind.value
        return f"{name}({', '.join(parts)})"

    def _store(self, stmt: BufferStore) -> str:
        target, value = self.buffer(stmt.buffer) + self.indices(stmt.indices), self.expr(stmt.value)
        if stmt.predicate is None:
            return f"{target} = {value}"
        return f"store({target}, {value}, predicate={self.expr(stmt.predicate)})"

    def _if(self, stmt: IfThenElse) -> list[str]:
        lines = [f"if {self.expr(stmt.condition)}:", *_indent(self.lines(stmt.then_case))]
        if stmt.else_case is not None:
            lines += ["else:", *_indent(self.lines(stmt.else_case))]
        return lines

    def _block(self, block: Block, realize: BlockRealize | None) -> list[str]:
        body = []
        values = realize.iter_values if realize else (None,) * len(block.iter_vars)
        for iv, value in zip(block.iter_vars, values, strict=True):
            bound = "" if value is None else f", {self.expr(value)}"
            dom = "" if iv.dom is None else self.range(iv.dom)
            body.append(f"{self.var(iv.var)} = axis.{iv.kind}({dom}{bound})")
        if realize and not (isinstance(realize.predicate, IntImm) and realize.predicate.value):
            body.append(f"where({self.expr(realize.predicate)})")
        for label, regions in (("reads", block.reads), ("writes", block.writes)):
            texts = [self.region(self.buffer(r.buffer), r.region) for r in regions]
            body.append(f"{label}({', '.join(texts)})")
        if block.annotations:
            body.append(self._annotations(block.annotations)[0].replace("=", "(", 1) + ")")
        for buffer in block.alloc_buffers:
            body.append(f"{self.buffer(buffer)} = alloc({', '.join(self._fields(buffer))})")
        body += [self._match(m) for m in block.match_buffers]
        if block.init is not None:
            body += ["with init():", *_indent(self.lines(block.init))]
        body += self.lines(block.body)
        return [f'with block("{block.name_hint}"):', *_indent(body)]

    def _match(self, match: MatchBufferRegion) -> str:
        source = self.region(self.buffer(match.source.buffer), match.source.region)
        name = self.buffer(match.buffer)
        return f"{name} = match({', '.join([source, *self._fields(match.buffer)])})"


def _indent(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


def _type_text(var: Var) -> str:
    dtype: DType | str = var.dtype
    if var.element is not None:
        scope = f', "{var.scope}"' if var.scope not in ("", "global") else ""
        dtype = f"pointer({var.element}{scope})"
    return str(dtype)


def _views(func: PrimFunc) -> dict[Var, list[Buffer]]:
    """Buffers accessed but declared nowhere, by the pointer they view, in order of first use."""
    found: dict[Buffer, None] = {}
    declared: set[Buffer] = set(func.buffer_map.values())
    for stmt in stmts(func.body):
        if isinstance(stmt, BufferStore):
            found.setdefault(stmt.buffer)
        elif isinstance(stmt, DeclBuffer | BufferRealize):
            declared.add(stmt.buffer)
        elif isinstance(stmt, Block):
            declared.update(stmt.alloc_buffers)
            declared.update(m.buffer for m in stmt.match_buffers)
    for expr in all_exprs(func.body):
        if isinstance(expr, BufferLoad):
            found.setdefault(expr.buffer)
    views: dict[Var, list[Buffer]] = {}
    for buffer in found:
        if buffer not in declared:
            views.setdefault(buffer.data, []).append(buffer)
    return views


# Nodes print themselves through this module, which is built on them.
for _module in (expr_core, stmt_module, function):
    vars(_module)["_printer"] = sys.modules[__name__]
