"""Structural equality and hashing, up to the names and identities of bound variables and buffers.

Both reduce a node to a sequence of tokens, in which a bound variable or buffer is represented by
the number of its binding. Two nodes are equal if their sequences are.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any

from autosched.tir.buffer import Buffer
from autosched.tir.expr import (
    BinaryExpr,
    BufferLoad,
    Call,
    Cast,
    CommReducer,
    Expr,
    FloatImm,
    IntImm,
    IterVar,
    Let,
    ProducerLoad,
    Range,
    Reduce,
    Shuffle,
    StringImm,
    Var,
)
from autosched.tir.function import IRModule, PrimFunc
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
    For,
    IfThenElse,
    LetStmt,
    MatchBufferRegion,
    Prefetch,
    ProducerRealize,
    ProducerStore,
    SeqStmt,
    Stmt,
)
from autosched.tir.walk import child_stmts, direct_exprs


def structural_equal(a: Any, b: Any, map_free_vars: bool = False) -> bool:
    """Whether two expressions, statements, functions or modules are equal up to bound names.

    Bound variables and buffers are matched pairwise. Free ones must be the same objects, or, with
    `map_free_vars`, are matched in the order of their first use.
    """
    return a is b or _tokens(a, map_free_vars) == _tokens(b, map_free_vars)


def structural_hash(node: Any, map_free_vars: bool = False) -> int:
    """A hash that agrees with `structural_equal` in this process."""
    return hash(tuple(_tokens(node, map_free_vars)))


def _tokens(node: Any, map_free_vars: bool) -> list[object]:
    writer = _Writer(map_free_vars)
    writer.write(node)
    return writer.tokens


class _Writer:
    """Appends the tokens of nodes to `tokens`."""

    def __init__(self, map_free_vars: bool) -> None:
        self.tokens: list[object] = []
        self._numbers: dict[Any, int] = {}
        self._count = 0
        self._map_free_vars = map_free_vars

    def bind(self, var: Var) -> None:
        """Number a variable where it is bound."""
        self._number(var)
        self.tokens += ("bind", var.dtype, var.element, var.scope)

    def write(self, node: Any) -> None:
        """Append the tokens of any object in the IR."""
        rule = _RULES.get(type(node))
        if rule is not None:
            rule(self, node)
        elif isinstance(node, Var):
            self._var(node)
        elif isinstance(node, BinaryExpr):
            self.tokens.append(type(node))
            self.write(node.a)
            self.write(node.b)
        elif isinstance(node, Expr):
            self.tokens += (type(node), node.dtype)
            self.all(node.children())
        elif isinstance(node, Stmt):
            self.tokens.append(type(node))
            self.all((*direct_exprs(node), *child_stmts(node)))
        elif isinstance(node, tuple | list):
            self.all(tuple(node))
        elif isinstance(node, dict):
            for key in sorted(node, key=str):
                self.tokens.append(key)
                self.write(node[key])
        else:
            self.tokens.append(node if isinstance(node, Hashable) else id(node))

    def all(self, nodes: tuple[Any, ...]) -> None:
        """Append the number of nodes, then the tokens of each."""
        self.tokens.append(len(nodes))
        for node in nodes:
            self.write(node)

    def _number(self, thing: Any) -> None:
        self._numbers[thing] = self._count
        self._count += 1

    def _itself(self, e: Expr) -> None:
        """Append a token by identity, for an expression that equals no other.

        The token is not the expression itself, as expressions cannot be compared with numbers.
        """
        self.tokens.append((Expr, id(e)))

    # -- expressions

    def _var(self, var: Var) -> None:
        number = self._numbers.get(var)
        if number is None:
            if not self._map_free_vars:
                self._itself(var)
                return
            self.bind(var)
            number = self._numbers[var]
        self.tokens.append(number)

    def _constant(self, e: IntImm | FloatImm | StringImm) -> None:
        self._itself(e)  # constants are interned

    def buffer(self, buffer: Buffer) -> None:
        """Append the number of a buffer, after its fields if this is its first occurrence."""
        number = self._numbers.get(buffer)
        if number is None:
            self.tokens += ("buffer", buffer.dtype, buffer.data_alignment, buffer.offset_factor)
            self.tokens.append(buffer.axis_separators)
            self._var(buffer.data)
            self.all(buffer.shape)
            self.all(buffer.strides)
            self.write(buffer.elem_offset)
            self._number(buffer)
            number = self._numbers[buffer]
        self.tokens.append(number)

    def _bind_buffer(self, buffer: Buffer) -> None:
        if buffer not in self._numbers:
            if buffer.data not in self._numbers:
                self.bind(buffer.data)
            self.buffer(buffer)

    def _load(self, e: BufferLoad) -> None:
        self.tokens.append(BufferLoad)
        self.buffer(e.buffer)
        self.all(e.children())

    def _producer_load(self, e: ProducerLoad) -> None:
        self.tokens += (ProducerLoad, e.producer)
        self.all(e.indices)

    def _call(self, e: Call) -> None:
        self.tokens += (Call, e.dtype, e.op)
        self.all(e.args)

    def _cast(self, e: Cast) -> None:
        self.tokens += (Cast, e.dtype)
        self.write(e.value)

    def _let(self, e: Let) -> None:
        self.tokens.append(Let)
        self.write(e.value)
        self.bind(e.var)
        self.write(e.body)

    def _shuffle(self, e: Shuffle) -> None:
        self.tokens.append(Shuffle)
        self.all(e.vectors)
        self.all(e.indices)

    def _reduce(self, e: Reduce) -> None:
        self.tokens += (Reduce, e.value_index, len(e.axis))
        for iv in e.axis:
            self._iter_var(iv)
        self.write(e.combiner)
        for part in (e.source, e.init, (e.condition,)):
            self.all(part)

    def _iter_var(self, iv: IterVar) -> None:
        """Append an iteration variable; binds its variable unless that is bound already."""
        self.tokens += (iv.kind, iv.thread_tag)
        self.write(iv.dom)
        if iv.var not in self._numbers:
            self.bind(iv.var)
        self._var(iv.var)

    def _reducer(self, r: CommReducer) -> None:
        for var in (*r.lhs, *r.rhs):
            self.bind(var)
        self.all(r.result)
        self.all(r.identity)

    def _range(self, r: Range) -> None:
        self.write(r.min)
        self.write(r.extent)

    # -- statements

    def _let_stmt(self, s: LetStmt) -> None:
        self.tokens.append(LetStmt)
        self.write(s.value)
        self.bind(s.var)
        self.write(s.body)

    def _for(self, s: For) -> None:
        self.tokens += (For, s.kind)
        self.write(s.min)
        self.write(s.extent)
        self.bind(s.loop_var)
        self.write(s.thread_binding)
        self.write(s.annotations)
        self.write(s.body)

    def _attr(self, s: AttrStmt) -> None:
        self.tokens += (AttrStmt, s.key)
        var = s.node.var if isinstance(s.node, IterVar) else None
        binds = var is not None and var not in self._numbers
        if s.key == "buffer_dim_align" and isinstance(s.node, Buffer):
            self._bind_buffer(s.node)  # the attribute stands outside the realization of its buffer
        if isinstance(s.node, Var) and s.node not in self._numbers and _is_of_loop(s.node, s.body):
            self._number(s.node)  # a pragma stands outside the loop that binds its variable
        self.write(s.node)
        self.write(s.value)
        self.write(s.body)
        if binds:  # another stage may bind the same thread axis again after this statement
            del self._numbers[var]

    def _assert(self, s: AssertStmt) -> None:
        self.tokens += (AssertStmt, s.message)
        self.write(s.condition)
        self.write(s.body)

    def _store(self, s: BufferStore) -> None:
        self.tokens.append(BufferStore)
        self.buffer(s.buffer)
        self.all(s.indices)
        self.write(s.value)
        self.write(s.predicate)

    def _realize(self, s: BufferRealize) -> None:
        self.tokens.append(BufferRealize)
        self._bind_buffer(s.buffer)
        self.buffer(s.buffer)
        self.all(s.bounds)
        self.write(s.condition)
        self.write(s.body)

    def _producer_store(self, s: ProducerStore) -> None:
        self.tokens += (ProducerStore, s.producer)
        self.all(s.indices)
        self.write(s.value)

    def _producer_realize(self, s: ProducerRealize) -> None:
        self.tokens += (ProducerRealize, s.producer, s.scope)
        self.all(s.bounds)
        self.write(s.condition)
        self.write(s.body)

    def _allocate(self, s: Allocate) -> None:
        self.tokens += (Allocate, s.dtype)
        self.all(s.extents)
        self.write(s.condition)
        self.write(s.annotations)
        self.bind(s.buffer_var)
        self.write(s.body)

    def _allocate_const(self, s: AllocateConst) -> None:
        self.tokens += (AllocateConst, s.dtype, s.data.tobytes())
        self.all(s.extents)
        self.bind(s.buffer_var)
        self.write(s.body)

    def _decl(self, s: DeclBuffer) -> None:
        self.tokens.append(DeclBuffer)
        # Every declaration binds a buffer anew, even if the object is bound already.
        around = self._numbers.pop(s.buffer, None)
        self._bind_buffer(s.buffer)
        self.buffer(s.buffer)
        self.write(s.body)
        if around is not None:
            self._numbers[s.buffer] = around

    def _if(self, s: IfThenElse) -> None:
        self.tokens.append(IfThenElse)
        self.write(s.condition)
        self.write(s.then_case)
        self.write(s.else_case)

    def _seq(self, s: SeqStmt) -> None:
        self.tokens.append(SeqStmt)
        self.all(s.stmts)

    def _prefetch(self, s: Prefetch) -> None:
        self.tokens.append(Prefetch)
        self.buffer(s.buffer)
        self.all(s.bounds)

    def _region(self, r: BufferRegion) -> None:
        self.buffer(r.buffer)
        self.all(r.region)

    def _match(self, m: MatchBufferRegion) -> None:
        self._region(m.source)
        for var in m.variables():
            if var not in self._numbers:
                self.bind(var)
        self._bind_buffer(m.buffer)
        self.buffer(m.buffer)

    def _block_realize(self, s: BlockRealize) -> None:
        self.tokens.append(BlockRealize)
        self.all(s.iter_values)
        self.write(s.predicate)
        self.write(s.block)

    def _block(self, s: Block) -> None:
        self.tokens.append(Block)
        self.all(s.iter_vars)
        for buffer in s.alloc_buffers:
            self._bind_buffer(buffer)
        for part in (s.reads, s.writes, s.match_buffers):
            self.all(part)
        self.write(s.annotations)
        self.write(s.init)
        self.write(s.body)

    # -- functions

    def _func(self, f: PrimFunc) -> None:
        self.tokens += (PrimFunc, len(f.params))
        for param in f.params:
            self.bind(param)
        free, self._map_free_vars = self._map_free_vars, True  # shapes bind the sizes in them
        for param in f.params:
            if param in f.buffer_map:
                self.tokens.append(self._numbers[param])
                self._bind_buffer(f.buffer_map[param])
        self._map_free_vars = free
        self.write(f.attrs)
        self.write(f.body)

    def _module(self, m: IRModule) -> None:
        self.tokens.append(IRModule)
        for name in sorted(m.functions):
            self.tokens.append(name)
            self.write(m.functions[name])
        self.write(m.attrs)


def _is_of_loop(var: Var, s: Stmt) -> bool:
    """Whether `s`, inside any attributes, is the loop that binds `var`."""
    while isinstance(s, AttrStmt):
        s = s.body
    return isinstance(s, For) and s.loop_var is var


_RULES: dict[type, Callable[[_Writer, Any], None]] = {
    IntImm: _Writer._constant,
    FloatImm: _Writer._constant,
    StringImm: _Writer._constant,
    BufferLoad: _Writer._load,
    ProducerLoad: _Writer._producer_load,
    Call: _Writer._call,
    Cast: _Writer._cast,
    Let: _Writer._let,
    Shuffle: _Writer._shuffle,
    Reduce: _Writer._reduce,
    Buffer: _Writer.buffer,
    IterVar: _Writer._iter_var,
    CommReducer: _Writer._reducer,
    Range: _Writer._range,
    LetStmt: _Writer._let_stmt,
    For: _Writer._for,
    AttrStmt: _Writer._attr,
    AssertStmt: _Writer._assert,
    BufferStore: _Writer._store,
    BufferRealize: _Writer._realize,
    ProducerStore: _Writer._producer_store,
    ProducerRealize: _Writer._producer_realize,
    Allocate: _Writer._allocate,
    AllocateConst: _Writer._allocate_const,
    DeclBuffer: _Writer._decl,
    IfThenElse: _Writer._if,
    SeqStmt: _Writer._seq,
    Prefetch: _Writer._prefetch,
    BufferRegion: _Writer._region,
    MatchBufferRegion: _Writer._match,
    BlockRealize: _Writer._block_realize,
    Block: _Writer._block,
    PrimFunc: _Writer._func,
    IRModule: _Writer._module,
}
