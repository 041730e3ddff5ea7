"""Parses statements."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from autosched.tir.constants import is_whole
from autosched.tir.dtype import handle, int32
from autosched.tir.expr import BufferLoad, Expr, IntImm, IterKind, IterVar, Var
from autosched.tir.parser_decl import DeclParser
from autosched.tir.parser_tokens import Token
from autosched.tir.stmt import (
    NOP_VALUE,
    TRUE,
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
    SeqStmt,
    Stmt,
    While,
)

Around = Callable[[Stmt], Stmt]
"""Wraps the statements that follow a line in the statement that the line begins."""

_KINDS = {"range": ForKind.SERIAL, **{k.value: k for k in ForKind if k is not ForKind.SERIAL}}


class StmtParser(DeclParser):
    """Parses statements."""

    def suite(self, after: str) -> Stmt:
        """Parse `:` and the indented statements below it."""
        self._open_suite(after)
        return self._close_suite(self.block())

    def _open_suite(self, after: str) -> None:
        self.expect(":", f"after {after}")
        self._end_line()
        self.kind("INDENT", "an indented line")

    def _close_suite(self, body: Stmt) -> Stmt:
        self.kind("DEDENT", "the end of the indented lines")
        return body

    def _end_line(self) -> None:
        self.kind("NEWLINE", "the end of the line")

    def block(self) -> Stmt:
        """Parse statements up to the end of their indentation; there must be at least one."""
        parts: list[Stmt] = []
        while self.token.kind not in ("DEDENT", "END"):
            if self._declares("view"):
                self._view_line()
            elif self._is_head():
                around = self._head()
                self._end_line()
                parts.append(around(self.block()))
                break
            else:
                parts.append(self._statement())
        if not parts:
            raise self.error(f"expected a statement, found {self.token}")
        return parts[0] if len(parts) == 1 else SeqStmt(tuple(parts))

    # -- statements of one line, loops and branches

    def _statement(self) -> Stmt:
        if self.accept("for"):
            return self._for()
        if self.accept("if"):
            return self._if()
        if self.accept("while"):
            return While(self.condition(self.expr), self.suite("the condition of a loop"))
        if self.accept("with"):
            return self._with()
        result = self._simple()
        self._end_line()
        return result

    def _for(self) -> For:
        name = self.name("a loop variable")
        self.expect("in", "after a loop variable")
        kind = self.name("a kind of loop")
        if kind.text not in _KINDS:
            raise self.error(f"expected one of {', '.join(_KINDS)}, found {kind}", kind)
        self.expect("(", "after the kind of a loop")
        low, extent = self._domain()
        fields = self.fields("a loop", "thread", "annotations")
        tag = fields.get("thread")
        thread = None if tag is None else IterVar(None, Var(tag), IterKind.THREAD, tag)
        var = self.bind(name, extent.dtype)
        body = self.suite("the head of a loop")
        notes = fields.get("annotations", {})
        return For(var, low, extent, _KINDS[kind.text], body, thread, notes)

    def _domain(self) -> tuple[Expr, Expr]:
        """Parse `extent` or `min, min + extent`; return the min and the extent."""
        start = self.token
        first = self.expr()
        if not is_whole(first):
            raise self.error(f"expected an integer for a loop, found {first.dtype}", start)
        named = self.ahead(1).kind == "NAME" and self.ahead(2).text == "="
        if named or not self.accept(","):
            return IntImm(0, first.dtype), first
        token = self.token
        return first, self.extent_between(first, self.expr(), token)

    def _if(self) -> IfThenElse:
        condition = self.condition(self.expr)
        then_case = self.suite("a condition")
        other = self.suite("`else`") if self.accept("else") else None
        return IfThenElse(condition, then_case, other)

    def _with(self) -> Stmt:
        if self.accept("block", "("):
            return self._block()
        if not self._is_head():
            raise self.error(f"expected a statement with a body after `with`, found {self.token}")
        return self._head()(self.suite("the head of a statement"))

    def _simple(self) -> Stmt:
        if self.accept("pass"):
            return Evaluate(NOP_VALUE)
        if self.accept("evaluate", "("):
            value = self.expr()
            self.expect(")", "after the value")
            return Evaluate(value)
        if self.accept("store", "("):
            return self._masked_store()
        start = self._at
        if self.accept("prefetch", "(") and self.ahead(1).text == "[":
            region = self._try_region()
            if region is not None:
                return Prefetch(region.buffer, region.region)
        self._at = start
        token, value = self.token, self.expr()
        if not self.accept("="):
            return Evaluate(value)
        return self._stored(token, value, None)

    def _try_region(self) -> BufferRegion | None:
        """Parse a region and the closing parenthesis; None if the arguments are not a region."""
        depth, ahead = 0, 1
        while self.ahead(ahead).kind not in ("NEWLINE", "END"):
            depth += (self.ahead(ahead).text == "[") - (self.ahead(ahead).text == "]")
            ahead += 1
            if depth == 0:
                break
        if self.ahead(ahead).text != ")":
            return None
        region = self.region()
        self.expect(")", "after a region")
        return region

    def _masked_store(self) -> Stmt:
        token, target = self.token, self.expr()
        self.expect(",", "after the place of a store")
        return self._stored(token, target, self.predicate)

    def _stored(self, token: Token, target: Expr, mask: Callable[[], Expr] | None) -> BufferStore:
        if not isinstance(target, BufferLoad) or target.predicate is not None:
            raise self.error(f"a value is stored in a buffer, found {target!r}", token)
        at, value = self.token, self.expr()
        if value.dtype is not target.dtype:
            name = target.buffer.name
            raise self.error(f"`{name}` takes {target.dtype} here, found {value.dtype}", at)
        predicate = None if mask is None else mask()
        return BufferStore(target.buffer, value, target.indices, predicate)

    # -- lines that wrap the statements after them

    def _declares(self, *kinds: str) -> bool:
        """Whether the next tokens are `name = kind(`."""
        return self.ahead(1).text == "=" and self.ahead(2).text in kinds and self._calls(2)

    def _binds(self) -> bool:
        """Whether the next tokens are `name = match[`."""
        ahead = [self.ahead(k).text for k in (1, 2, 3)]
        return ahead == ["=", "match", "["]

    def _calls(self, ahead: int) -> bool:
        return self.ahead(ahead).kind == "NAME" and self.ahead(ahead + 1).text == "("

    def _is_head(self) -> bool:
        if self.peek("assert") or (self.token.kind == "NAME" and self.ahead(1).text == ":"):
            return not self.peek("else")
        if self._declares("allocate", "constant", "declare"):
            return True
        return self._calls(0) and self.token.text in _HEADS

    def _head(self) -> Around:
        if self.accept("assert"):
            condition = self.expr()
            self.expect(",", "after the condition of an assertion")
            message = self.string("a message")
            return lambda body: AssertStmt(condition, message, body)
        name = self.name("a statement")
        if self.accept(":"):
            return self._let_line(name)
        if self.accept("("):
            return _HEADS[name.text](self, name)
        self.expect("=", "after a name")
        made = self.next()
        self.expect("(", f"after `{made.text}`")
        return {"allocate": self._allocate, "constant": self._constant, "declare": self._decl}[
            made.text
        ](name)

    def _view_line(self) -> None:
        name = self.name("a buffer")
        self._at += 3
        self.view(name)
        self._end_line()

    def _let_line(self, name: Token) -> Around:
        var = self.typed(name)
        self.expect("=", "after the type of a variable")
        value = self.expr()
        return lambda body: LetStmt(var, value, body)

    def _thread(self, key: str) -> Around:
        name = self.name("a thread axis")
        self.expect(",", "after the thread axis")
        extent = self.expr()
        fields = self.fields("a thread axis", "tag", "dom", "kind", "dtype")
        var = self.bind(name, fields.get("dtype", extent.dtype))
        iv = self.iter_var(var, fields.get("kind", IterKind.THREAD), name.text, fields)
        return lambda body: AttrStmt(iv, key, extent, body)

    def _attr(self, prefix: str) -> Around:
        node = self.node()
        self.expect(",", "after what an attribute is about")
        key = self.string("the key of an attribute")
        self.expect(",", "after the key of an attribute")
        value = self.expr()
        self.expect(")", "after an attribute")
        return lambda body: self.attr(AttrStmt(node, prefix + key, value, body))

    def _realize(self) -> Around:
        name = self.name("a buffer")
        bounds = self.ranges()
        self.expect(",", "after a region")
        dtype = self.dtype()
        self.expect(",", "after the type of a buffer")
        scope = self.string("a storage scope")
        known = ("shape", "data", "element", "strides", "elem_offset", "align", "offset_factor")
        fields = self.fields("realize", *known, "axis_separators", "condition")
        shape = fields.get("shape", tuple(r.extent for r in bounds))
        buffer = self.declare(name, shape, dtype, scope, fields)
        condition = fields.get("condition", TRUE)
        return lambda body: BufferRealize(buffer, bounds, condition, body)

    def _allocate(self, name: Token) -> Around:
        extents = self.sizes()
        self.expect(",", "after the shape of an allocation")
        dtype = self.dtype()
        self.expect(",", "after the type of an allocation")
        scope = self.string("a storage scope")
        fields = self.fields("allocate", "element", "condition", "annotations")
        element = fields.get("element", dtype)
        var = self.bind(name, handle, lambda: Var(name.text, handle, element=element, scope=scope))
        if name.text not in self.buffers:
            self.view_of(name, var, extents, dtype, {})
        condition, notes = fields.get("condition", TRUE), fields.get("annotations", {})
        return lambda body: Allocate(var, dtype, extents, condition, body, notes)

    def _constant(self, name: Token) -> Around:
        extents = self.shape()
        self.expect(",", "after the shape of a constant")
        dtype = self.dtype()
        self.expect(",", "after the type of a constant")
        start = self.token
        values = self.attribute()
        fields = self.fields("constant", "pointer")
        shape = [e.value for e in extents if isinstance(e, IntImm)]
        data = np.array(values, dtype.numpy)
        if data.size != np.prod(shape, dtype=int):
            raise self.error(f"expected as many values as {shape} has elements", start)
        var = self.bind_pointer(name, dtype, fields.get("pointer"))
        if name.text not in self.buffers:
            self.view_of(name, var, extents, dtype, {})
        return lambda body: AllocateConst(var, dtype, extents, data.reshape(shape), body)

    def _decl(self, name: Token) -> Around:
        buffer = self.view_fields(name)
        return lambda body: DeclBuffer(buffer, body)

    # -- blocks

    def _block(self) -> Stmt:
        hint = self.string("the name of a block")
        realized = self.fields("a block", "realized").get("realized", True)
        self._open_suite("the head of a block")
        parts: dict[str, Any] = {"where": TRUE, "reads": (), "writes": (), "annotations": {}}
        axes: list[tuple[IterVar, Expr | None]] = []
        block = Block((), (), (), hint, Evaluate(NOP_VALUE))
        while True:
            if self.ahead(1).text == "=" and self.ahead(2).text.startswith("axis."):
                axes.append(self._axis())
            elif self._calls(0) and self.token.text in parts:
                self._block_line(parts)
            elif self._declares("alloc"):
                block.alloc_buffers += (self._alloc(),)
            elif self._declares("match") or self._binds():
                block.match_buffers += (self._match(),)
            elif self._declares("view"):
                self._view_line()
            elif self.accept("with", "init", "(", ")"):
                block.init = self.suite("the head of an initial block")
            else:
                break
        block.iter_vars = tuple(iv for iv, _ in axes)
        block.reads, block.writes = parts["reads"], parts["writes"]
        block.annotations = parts["annotations"]
        block.body = self._close_suite(self.block())
        values = tuple(value for _, value in axes if value is not None)
        return BlockRealize(values, parts["where"], block) if realized else block

    def _axis(self) -> tuple[IterVar, Expr | None]:
        """Parse `vi = axis.data_par(0:16, i)`; return the iteration variable and its value."""
        name = self.name("a variable")
        self._at += 1
        kind = self.next().text.removeprefix("axis.")
        self.expect("(", "after the kind of an axis")
        dom = None if self.peek(",") or self.peek(")") else self.range()
        value = self.expr() if self.accept(",") else None
        self.expect(")", "after an axis")
        self._end_line()
        typical = value.dtype if value is not None else int32
        var = self.bind(name, dom.min.dtype if dom is not None else typical)
        return IterVar(dom, var, kind), value

    def _block_line(self, parts: dict[str, Any]) -> None:
        """Parse `where(...)`, `reads(...)`, `writes(...)` or `annotations(...)` into `parts`."""
        key = self.next().text
        self._at += 1
        if key in ("reads", "writes"):
            regions: list[BufferRegion] = []
            self.list_of(lambda: regions.append(self.region()), ")")
            parts[key] = tuple(regions)
        else:
            parts[key] = self.expr() if key == "where" else self.attribute()
            self.expect(")", f"after `{key}`")
        self._end_line()

    def _alloc(self) -> Any:
        name = self.name("a buffer")
        self._at += 3
        buffer, _ = self.own_buffer(name, "alloc")
        self._end_line()
        return buffer

    def _match(self) -> MatchBufferRegion:
        name = self.name("a buffer")
        self._at += 2
        if self.accept("["):
            self.list_of(self.declared, "]")
        self.expect("(", "before the region that a buffer matches")
        source = self.region()
        self.expect(",", "after a region")
        buffer, _ = self.own_buffer(name, "match")
        self._end_line()
        return MatchBufferRegion(buffer, source)


_HEADS: dict[str, Callable[[StmtParser, Token], Around]] = {
    "attr": lambda p, _: p._attr(""),
    "launch": lambda p, _: p._thread("thread_extent"),
    "pragma": lambda p, _: p._attr("pragma_"),
    "realize": lambda p, _: p._realize(),
    "virtual_thread": lambda p, _: p._thread("virtual_thread"),
}
