"""Prints everything in the IR as TVMScript-like text, stable and readable at every stage.

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
`parser.py` reads the text of a function back.
"""

from __future__ import annotations

import sys
from typing import Any

from autosched.tir import expr_core, function
from autosched.tir import stmt as stmt_module
from autosched.tir.buffer import Buffer
from autosched.tir.expr import CommReducer, Expr, IntImm, IterKind, IterVar, Range
from autosched.tir.function import IRModule, PrimFunc
from autosched.tir.printer_decl import DeclPrinter, is_whole, type_text
from autosched.tir.printer_expr import ExprPrinter, quoted
from autosched.tir.stmt import (
    NOP_VALUE,
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


def to_text(node: object) -> str:
    """The text of an expression, statement, function, module, buffer, range or iter variable."""
    match node:
        case IRModule():
            parts = [StmtPrinter().func(f, name) for name, f in node.functions.items()]
            if node.attrs:
                parts.insert(0, f"module_attrs({StmtPrinter().attribute(node.attrs)})")
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


_THREADS = {"thread_extent": "launch", "virtual_thread": "virtual_thread"}


class StmtPrinter(DeclPrinter):
    """Prints statements as lines; see `to_text`."""

    def func(self, func: PrimFunc, name: str) -> str:
        """The text of a function called `name`."""
        sizes = self.sizes(func)
        params = ", ".join(self.param(p, func.buffer_map.get(p)) for p in func.params)
        self.find_views(func)
        lines = [f"def {name}{sizes}({params}):"]
        attrs = {"global_symbol": None, **func.attrs}
        texts = [
            f"{key}={self.attribute(value)}"
            for key, value in sorted(attrs.items())
            if (key, value) != ("global_symbol", name)
        ]
        if texts:
            lines.append(f"    attrs({', '.join(texts)})")
        for param in func.params:
            buffer = func.buffer_map.get(param)
            lines += _indent(self.view_lines(param if buffer is None else buffer.data))
        return "\n".join(lines + _indent(self.lines(func.body)))

    # -- statements

    def lines(self, stmt: Stmt, tail: bool = True) -> list[str]:
        """The lines of `stmt`; `tail` says that no statement follows it at this indentation."""
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
                return [self._evaluate(value)]
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

    def _evaluate(self, value: Expr) -> str:
        if value is NOP_VALUE:
            return "pass"
        return f"evaluate({self.expr(value)})" if isinstance(value, IntImm) else self.expr(value)

    def _wrapper(self, stmt: Any, tail: bool) -> list[str]:
        around = self._names.get(stmt.buffer) if isinstance(stmt, DeclBuffer) else None
        head, inside = self._wrapper_head(stmt)
        inside = [*inside, *self.lines(stmt.body)]
        if around is not None:
            self._names[stmt.buffer] = around
        return [head, *inside] if tail else [f"with {head}:", *_indent(inside)]

    def _wrapper_head(self, stmt: Stmt) -> tuple[str, list[str]]:
        """The line of a statement that wraps a body, and the declarations of views after it."""
        match stmt:
            case LetStmt(var, value):
                text = self.expr(value)
                return f"{self.var(var)}: {type_text(var)} = {text}", self.view_lines(var)
            case AttrStmt():
                return self._attr(stmt), []
            case AssertStmt(condition, message):
                return f"assert {self.expr(condition)}, {quoted(message)}", []
            case BufferRealize():
                return self._realize(stmt)
            case ProducerRealize(producer, bounds, condition, _, scope):
                text = self.region(self.producer(producer), bounds)
                fields = [text, f'"{scope}"', *self._condition(condition)]
                return f"realize({', '.join(fields)})", []
            case Allocate(var, dtype, extents, condition):
                fields = [self.shape(extents), str(dtype), f'"{var.scope}"']
                if var.element is not dtype:
                    fields.append(f"element={var.element}")
                fields += self._condition(condition) + self._annotations(stmt.annotations)
                name = self.var(var)
                return f"{name} = allocate({', '.join(fields)})", self.view_lines(var, stmt)
            case AllocateConst(var, dtype, extents, data):
                values = self.attribute(data.ravel().tolist())
                fields = [self.shape(extents), str(dtype), values]
                if (var.element, var.scope) != (dtype, "global"):
                    fields.append(f"pointer={type_text(var)}")
                name = self.var(var)
                return f"{name} = constant({', '.join(fields)})", self.view_lines(var, stmt)
            case DeclBuffer(buffer):
                self.var(buffer.data)
                if buffer not in self._names or buffer in self._declared:
                    self._names[buffer] = self.fresh(buffer.name)
                self._declared.add(buffer)  # a second declaration is another buffer
                fields = self.view(buffer)
                if type_text(buffer.data) != f"pointer({buffer.dtype})":
                    fields.append(f"pointer={type_text(buffer.data)}")
                head = f"{self.buffer(buffer)} = declare({', '.join(fields)})"
                return head, self.view_lines(buffer.data)
        raise TypeError(f"not a statement: {type(stmt).__name__}")

    def _realize(self, stmt: BufferRealize) -> tuple[str, list[str]]:
        buffer, name = stmt.buffer, self.buffer(stmt.buffer)
        fields = [self.region(name, stmt.bounds), str(buffer.dtype), f'"{buffer.scope}"']
        if not is_whole(buffer, tuple((r.min, r.extent) for r in stmt.bounds)):
            fields.append(f"shape={self.shape(buffer.shape)}")
        fields += self.pointer_fields(buffer, name) + self.layout_fields(buffer)
        fields += self._condition(stmt.condition)
        return f"realize({', '.join(fields)})", self.view_lines(buffer.data)

    def _condition(self, condition: Expr) -> list[str]:
        if isinstance(condition, IntImm) and condition.value:
            return []
        return [f"condition={self.expr(condition)}"]

    def _annotations(self, annotations: dict[str, Any]) -> list[str]:
        if not annotations:
            return []
        return [f"annotations={self.attribute(dict(sorted(annotations.items())))}"]

    def _attr(self, stmt: AttrStmt) -> str:
        value = self.expr(stmt.value)
        if stmt.key in _THREADS and isinstance(stmt.node, IterVar):
            return f"{_THREADS[stmt.key]}({', '.join(self._thread(stmt.node, stmt.value))})"
        node = self.node(stmt.node)
        if stmt.key.startswith("pragma_"):
            return f"pragma({node}, {quoted(stmt.key.removeprefix('pragma_'))}, {value})"
        return f"attr({node}, {quoted(stmt.key)}, {value})"

    def _thread(self, iv: IterVar, extent: Expr) -> list[str]:
        name = self.var(iv.var)
        fields = [name, self.expr(extent), *self.iter_fields(iv, name)]
        if iv.kind != IterKind.THREAD:
            fields.append(f'kind="{iv.kind}"')
        if iv.var.dtype is not extent.dtype:
            fields.append(f"dtype={iv.var.dtype}")
        return fields

    def _loop_domain(self, loop: For) -> str:
        parts = [self.expr(loop.extent)]
        if loop.min is not IntImm(0, loop.extent.dtype):
            parts = list(self.ends(Range(loop.min, loop.extent)))
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
            body.append(f"{self.buffer(buffer)} = alloc({', '.join(self.own_fields(buffer))})")
            body += self.view_lines(buffer.data)
        for match in block.match_buffers:
            body += [self._match(match), *self.view_lines(match.buffer.data)]
        if block.init is not None:
            body += ["with init():", *_indent(self.lines(block.init))]
        body += self.lines(block.body)
        bare = "" if realize else ", realized=False"
        return [f"with block({quoted(block.name_hint)}{bare}):", *_indent(body)]

    def _match(self, match: MatchBufferRegion) -> str:
        source = self.region(self.buffer(match.source.buffer), match.source.region)
        name = self.buffer(match.buffer)
        new = [v for v in match.variables() if v not in self._names]
        bound = f"[{', '.join(f'{self.var(v)}: {type_text(v)}' for v in new)}]" if new else ""
        return f"{name} = match{bound}({', '.join([source, *self.own_fields(match.buffer)])})"


def _indent(lines: list[str]) -> list[str]:
    return ["    " + line for line in lines]


# Nodes need this module to print themselves, but it imports them.
for _module in (expr_core, stmt_module, function):
    vars(_module)["_printer"] = sys.modules[__name__]
