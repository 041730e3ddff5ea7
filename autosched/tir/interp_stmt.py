"""Compiles statements to Python source: the upper half of the interpreter's compiler.

Statements outside of kernels become plain Python loops over scalars. Inside the outermost
thread_extent, one Python statement acts for all threads at once, under a mask of those that run:
a condition or loop bound that differs between threads narrows the mask.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from autosched.tir import interp_host
from autosched.tir import interp_kernel as kernel
from autosched.tir.buffer import Buffer
from autosched.tir.constants import is_zero
from autosched.tir.dtype import DType
from autosched.tir.expr import BufferLoad, Call, Expr, IntImm, IterKind, IterVar, Var
from autosched.tir.interp_access import (
    ZERO,
    aligned_strides,
    compact_strides,
    flat_index,
    product,
    watched_index,
)
from autosched.tir.interp_block import block, block_realize, match_sources
from autosched.tir.interp_call import SHUFFLES
from autosched.tir.interp_expr import ExprCompiler
from autosched.tir.interp_memory import InterpreterError, Storage
from autosched.tir.interp_ptx import TYPED_POINTERS
from autosched.tir.interp_threads import Run
from autosched.tir.interp_value import ATOM, SUM, TERM, Memory, Place, Value, is_settled
from autosched.tir.kinds import stored_in
from autosched.tir.op import add
from autosched.tir.stmt import (
    Allocate,
    AllocateConst,
    AssertStmt,
    AttrStmt,
    Block,
    BlockRealize,
    BufferRealize,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    Prefetch,
    SeqStmt,
    Stmt,
    While,
)
from autosched.tir.walk import stmts, unique_exprs

_DEEPEST = 12  # the most nested loops in one Python function; CPython allows 20


class StmtCompiler(ExprCompiler):
    """Compiles a function's body to the lines of one Python function."""

    def __init__(self, body: Stmt, run: Run) -> None:
        super().__init__(run)
        self.lines: list[str] = []
        self.origins: list[Stmt | None] = []
        self.parameters: set[Buffer] = set()
        self.threads: dict[str, Value] = {}
        self.kernel_start, self.kernel_indent = 0, ""
        self.tags: dict[Var, str] = {}
        self.scopes: list[str] = []
        self.align: dict[Buffer, dict[int, tuple[int, int]]] = {}
        self.reducer: Any = None
        self._view_types = _view_types(body)
        self.written = stored_in(body)
        matches = [m for s in stmts(body) if isinstance(s, Block) for m in s.match_buffers]
        self.written |= match_sources(matches, self.written)
        self.output_storages: dict[str, Storage] = {}
        self.outputs = () if run.watch is None else run.watch.outputs
        self._depth = 0
        self._loops = 0

    # -- lines of source

    def emit(self, line: str) -> None:
        """Append one line at the current indentation."""
        self.lines.append(" " * self._depth + line)
        self.origins.append(self.current)

    def start_kernel(self) -> None:
        """Start a kernel: hoisted expressions are inserted at this line from now on."""
        self.kernel_start, self.kernel_indent = len(self.lines), " " * self._depth
        for table in (self.thread_vars, self.threads_alone, self.hoisted_parts, self.hoisted):
            table.clear()

    def before_statements(self, line: str) -> None:
        """Add a line to the start of the kernel."""
        self.lines.insert(self.kernel_start, self.kernel_indent + line)
        self.origins.insert(self.kernel_start, None)
        self.kernel_start += 1

    @contextmanager
    def inside(self, head: str, loop: bool = False) -> Iterator[None]:
        """A context that emits an indented block below `head`.

        Loops nested deeper than _DEEPEST go to functions of their own: Python limits nesting.
        """
        self.emit(head)
        self._depth += 1
        self._loops += loop
        if self._loops > _DEEPEST:
            name, loops = self.fresh("f"), self._loops
            self.emit(f"def {name}():")
            self._depth, self._loops = self._depth + 1, 0
            yield
            self.emit("pass")
            self._depth, self._loops = self._depth - 1, loops
            self.emit(f"{name}()")
        else:
            yield
            self.emit("pass")
        self._loops -= loop
        self._depth -= 1

    def assign(self, value: Value, prefix: str = "v") -> Value:
        """`value` assigned to a Python variable, unless it is a name or a nonzero constant."""
        if value.strength == ATOM and (value.text.isidentifier() or value.low == value.high != 0):
            return value
        name = self.fresh(prefix)
        self.emit(f"{name} = {value.text}")
        return value._replace(text=name, strength=ATOM)

    def stmt(self, stmt: Stmt) -> None:
        """Compile one statement."""
        rule = _RULES.get(type(stmt))
        if rule is None:
            raise InterpreterError(f"{type(stmt).__name__} cannot be run:\n{stmt!r}")
        before, self.current = self.current, stmt
        rule(self, stmt)
        self.current = before

    # -- memory

    def bind_memory(self, var: Var, name: str, dtype: DType, size: Value, text: str) -> Memory:
        """Bind pointer `var` to the Storage that `text` gives, with a view for each type used."""
        scope = self.storage_scope(var.scope)
        plain = not self.in_kernel or scope.startswith("global")
        rank = "global" if plain else scope.partition(".")[0]
        memory = Memory(name, self.fresh(""), dtype, size, plain, rank)
        first = memory.storage(dtype)
        self.emit(f"{first} = {text}")
        for element in sorted({dtype.element, *self._view_types.get(var, ())}, key=str):
            if element is not dtype.element:
                view = self.constant(element.numpy)
                self.emit(f"{memory.storage(element)} = {first}.view({view})")
            if plain:
                self.emit(f"{memory.array(element)} = {memory.storage(element)}.flat")
        self.memory[var] = memory
        return memory

    def bind_place(self, var: Var, name: str) -> None:
        """Bind pointer `var` to the Python variable `name`, and to the memory that it points to."""
        self.names[var] = Value(name)
        types = self._view_types.get(var)
        if types:
            dtype = var.element or min(types, key=str)
            text = f"memory_at({name}, {self.type_name(dtype.element)}, {var.name!r})"
            memory = self.bind_memory(var, var.name, dtype, Value(""), text)
            typed = self.fresh("v")
            first = memory.storage(dtype)
            self.emit(f"{typed} = {name} if is_null({name}) else Pointer({first}, 0)")
            self.names[var] = Value(typed)

    def storage_scope(self, scope: str) -> str:
        """`scope`; if it is empty, the scope that StorageFlatten will infer."""
        if scope or not self.scopes:
            return scope or "global"
        return "shared" if self.scopes[-1].startswith("blockIdx") else "local"

    def allocate(self, var: Var, name: str, dtype: DType, extents: Sequence[Value]) -> Memory:
        """Allocate fresh storage for product(extents) values of `dtype`, and bind `var` to it."""
        scope = self.storage_scope(var.scope)
        fields = f"{name!r}, ({''.join(e.text + ', ' for e in extents)}), {dtype.lanes}"
        fields += f", {self.type_name(dtype.element)}"
        known = product(extents)
        size = Value("", low=known.low * dtype.lanes, high=known.high * dtype.lanes)
        if self.in_kernel:
            text = f"L.allocate({fields}, {scope!r}, {self._cell_bytes(var, dtype)})"
        else:
            text = f"RUN.allocate({fields}, {self._cell_bytes(var, dtype)})"
        return self.bind_memory(var, name, dtype, size, text)

    def _cell_bytes(self, var: Var, dtype: DType) -> int:
        """The bytes of the smallest type as which the memory of `var` is accessed."""
        types = self._view_types.get(var) or {dtype}
        smallest: int = min(t.bytes for t in types)
        return smallest

    def realize(self, buffer: Buffer, ranges: Sequence[tuple[Expr, Expr]]) -> None:
        """Allocate fresh storage for a region of `buffer`: (min, extent) per dimension."""
        lows = tuple(self.assign(self.expr(low)) for low, _ in ranges)
        extents = tuple(self.assign(self.expr(extent)) for _, extent in ranges)
        uniform = tuple(
            e._replace(text=f"int(numpy_max({e.text}))", varying=False) if e.varying else e
            for e in extents
        )
        uniform = tuple(self.assign(e) for e in uniform)
        strides, sizes = compact_strides(uniform), uniform
        if buffer in self.align:
            strides = aligned_strides(uniform, self.align.pop(buffer))
            sizes = (product((uniform[0], strides[0])),)
        memory = self.allocate(buffer.data, buffer.name, buffer.dtype, sizes)
        self.places[buffer] = Place(
            buffer.name, memory, buffer.dtype, lows, extents, strides, complete=True
        )

    def parameter(self, buffer: Buffer, storage: Storage, shape: Sequence[int]) -> None:
        """Bind a buffer of the function's signature to the caller's array in `storage`."""
        name = self.constant(storage)
        if buffer.data in self.written or buffer.name in self.outputs:
            fresh = buffer.name in self.outputs
            cell = self._cell_bytes(buffer.data, buffer.dtype)
            self.run.shadow(storage, cell, initialised=not fresh)
            if fresh:
                self.output_storages[buffer.name] = storage
        extents = tuple(Value(str(n), low=n, high=n) for n in shape)
        size = Value("", low=storage.size, high=storage.size)
        memory = self.bind_memory(buffer.data, buffer.name, buffer.dtype, size, name)
        zeros = (ZERO,) * len(extents)
        strides = tuple(map(self.expr, buffer.strides)) or compact_strides(extents)
        offset = None if buffer.elem_offset is None else self.expr(buffer.elem_offset)
        self.places[buffer] = Place(
            buffer.name,
            memory,
            buffer.dtype,
            zeros,
            extents,
            strides,
            complete=True,
            offset=None if offset is None or offset.text == "0" else offset,
        )
        self.parameters.add(buffer)

    # -- statements

    def _seq(self, stmt: SeqStmt) -> None:
        for part in stmt.stmts:
            self.stmt(part)

    def _store(self, stmt: BufferStore) -> None:
        if stmt.predicate is not None and stmt.value.dtype.lanes == 1:
            one = BufferStore(stmt.buffer, stmt.value, stmt.indices)
            self._if(IfThenElse(stmt.predicate, one))
            return
        place = self.place(stmt.buffer)
        value = self.expr(stmt.value)
        outer, self.mask = self.mask, self.masked(stmt.predicate)
        mask, index = self.mask, flat_index(self, place, stmt.indices)
        self.mask = outer
        lanes = stmt.value.dtype.lanes
        wanted = place.dtype.lanes * (stmt.indices[-1].dtype.lanes if stmt.indices else 1)
        if lanes != wanted or stmt.value.dtype.element is not place.dtype.element:
            raise InterpreterError(
                f"a value of type {stmt.value.dtype} is stored where {place.name} takes "
                f"{place.dtype.with_lanes(wanted)}:\n{stmt!r}"
            )
        if self.watched:
            index = watched_index(self, place, index, stmt.buffer, stmt.indices, mask, store=True)
        if place.memory.plain and lanes == 1 and not (value.varying or index.varying):
            text = index.text
            if self.watched:
                text = f"{place.storage}.noted_store({text}, {mask})"
            self.emit(f"{place.memory.array(place.dtype)}[{text}] = {value.text}")
            return
        self.emit(f"{place.storage}.store({index.text}, {value.text}, {mask})")
        if self.watched and isinstance(stmt.value, Call) and stmt.value.op in SHUFFLES:
            self.emit(f"{place.storage}.forget({index.text}, L.poisoned, {mask})")

    def _for(self, stmt: For) -> None:
        if stmt.kind is ForKind.THREAD_BINDING and stmt.thread_binding is not None:
            tag = stmt.thread_binding.thread_tag
            var, body = stmt.loop_var, stmt.body
            if not is_zero(stmt.min):
                var = Var(var.name, var.dtype)
                body = LetStmt(stmt.loop_var, add(var, stmt.min), body)
            iv = IterVar(None, var, IterKind.THREAD, tag)
            key = "virtual_thread" if tag.startswith("vthread") else "thread_extent"
            self.stmt(AttrStmt(iv, key, stmt.extent, body))
            return
        low, extent = self.expr(stmt.min), self.expr(stmt.extent)
        high = max(low.low, low.high + extent.high - 1)
        name = self.fresh("i")
        if low.varying or extent.varying:
            self._ragged(stmt, self.assign(low), self.assign(extent), Value(name, high=high))
            return
        if low.text == "0":
            bounds = extent.text
        elif low.low == low.high and extent.low == extent.high:
            bounds = f"{low.text}, {low.low + extent.low}"
        else:
            low = self.assign(low)
            bounds = f"{low.text}, {low.at(SUM)} + {extent.at(TERM)}"
        self.names[stmt.loop_var] = Value(name, ATOM, False, low.low, high)
        with self.inside(f"for {name} in range({bounds}):", loop=True):
            if self.watched:
                self.emit("RUN.tick()")
            self.stmt(stmt.body)

    def _ragged(self, stmt: For, low: Value, extent: Value, var: Value) -> None:
        """Compile a loop whose bounds differ between threads: each drops out when it is done."""
        outer, step = self.mask, self.fresh("i")
        head = f"for {step} in range(longest({extent.text}, {outer})):"
        with self.inside(head, loop=True):
            self.mask = self.fresh("m")
            self.emit(f"{self.mask} = narrow({outer}, {step} < {extent.text})")
            self.emit(f"{var.text} = {low.text} + {step}")
            self.names[stmt.loop_var] = var._replace(varying=low.varying, low=low.low)
            self.stmt(stmt.body)
            self.mask = outer

    def _if(self, stmt: IfThenElse) -> None:
        condition = self.expr(stmt.condition)
        if is_settled(condition):
            taken = stmt.then_case if condition.low else stmt.else_case
            if taken is not None:
                self.stmt(taken)
            return
        if not condition.varying:
            with self.inside(f"if {condition.text}:"):
                self.stmt(stmt.then_case)
            if stmt.else_case is not None:
                with self.inside("else:"):
                    self.stmt(stmt.else_case)
            return
        condition = self.assign(condition, "q")
        self._masked(condition.text, stmt.then_case)
        if stmt.else_case is not None:
            self._masked(f"logical_not({condition.text})", stmt.else_case)

    def _masked(self, condition: str, body: Stmt) -> None:
        outer, self.mask = self.mask, self.fresh("m")
        self.emit(f"{self.mask} = narrow({outer}, {condition})")
        with self.inside(f"if {self.mask} is not None:"):
            self.stmt(body)
        self.mask = outer

    def _while(self, stmt: While) -> None:
        condition = self.expr(stmt.condition)
        if not condition.varying:
            with self.inside(f"while {condition.text}:", loop=True):
                self.stmt(stmt.body)
            return
        outer, self.mask = self.mask, self.fresh("m")
        self.emit(f"{self.mask} = {outer}")
        condition = self.expr(stmt.condition)
        head = f"while ({self.mask} := narrow({self.mask}, {condition.text})) is not None:"
        with self.inside(head, loop=True):
            self.stmt(stmt.body)
        self.mask = outer

    def _let_stmt(self, stmt: LetStmt) -> None:
        if isinstance(stmt.value, Call) and stmt.value.op == "nd_mem_alloc_with_scope":
            self._allocate(interp_host.allocation(stmt, stmt.value))
            return
        value = self.expr(stmt.value)
        if value.varying or stmt.value.dtype.lanes > 1:
            value = value._replace(text=f"array({value.text})")
        name = self.fresh("v")
        self.emit(f"{name} = {value.text}")
        if stmt.var.dtype.is_handle and not self.in_kernel:
            self.bind_place(stmt.var, name)
        else:
            self.names[stmt.var] = value._replace(text=name, strength=ATOM)
        self.stmt(stmt.body)

    def _attr(self, stmt: AttrStmt) -> None:
        if stmt.key == "thread_extent" and isinstance(stmt.node, IterVar):
            kernel.thread_extent(self, stmt, stmt.node)
        elif stmt.key == "virtual_thread" and isinstance(stmt.node, IterVar):
            var, extent = stmt.node.var, stmt.value
            around = self.names.get(var)  # an outer statement may have bound the same axis
            self.stmt(For(var, IntImm(0, var.dtype), extent, ForKind.SERIAL, stmt.body))
            if around is not None:
                self.names[var] = around
        elif stmt.key == "reduce_scope":
            before, self.reducer = self.reducer, stmt.node
            self.stmt(stmt.body)
            self.reducer = before
        elif stmt.key == "buffer_dim_align" and isinstance(stmt.node, Buffer):
            assert isinstance(stmt.value, Call)
            dim, factor, offset = (int(a.value) for a in stmt.value.args if isinstance(a, IntImm))
            self.align.setdefault(stmt.node, {})[dim] = (factor, offset)
            self.stmt(stmt.body)
        else:
            self.stmt(stmt.body)

    def _realize(self, stmt: BufferRealize) -> None:
        if stmt.buffer not in self.parameters:
            self.realize(stmt.buffer, [(r.min, r.extent) for r in stmt.bounds])
        self.stmt(stmt.body)

    def _allocate(self, stmt: Allocate) -> None:
        extents = [self.assign(self.expr(e)) for e in stmt.extents]
        self.allocate(stmt.buffer_var, stmt.buffer_var.name, stmt.dtype, extents)
        self.stmt(stmt.body)

    def _allocate_const(self, stmt: AllocateConst) -> None:
        data = stmt.data.astype(stmt.dtype.numpy).reshape(-1)
        name = self.constant(Storage(stmt.buffer_var.name, data))
        size = Value("", low=data.size, high=data.size)
        outside, self.in_kernel = self.in_kernel, False
        self.bind_memory(stmt.buffer_var, stmt.buffer_var.name, stmt.dtype, size, name)
        self.in_kernel = outside
        self.stmt(stmt.body)

    def _decl(self, stmt: DeclBuffer) -> None:
        self.stmt(stmt.body)

    def _assert(self, stmt: AssertStmt) -> None:
        condition = self.expr(stmt.condition)
        self.emit(f"check({condition.text}, {self.mask}, {stmt.message!r})")
        self.stmt(stmt.body)

    def _prefetch(self, stmt: Prefetch) -> None:
        self.emit("pass")

    def _evaluate(self, stmt: Evaluate) -> None:
        value = stmt.value
        if isinstance(value, Call) and value.op in kernel.STATEMENT_CALLS:
            kernel.STATEMENT_CALLS[value.op](self, value)
        elif isinstance(value, IntImm):
            self.emit("pass")
        else:
            self.emit(self.expr(value).text)


def _view_types(body: Stmt) -> dict[Var, set[DType]]:
    """The element types as which the memory of each pointer is accessed."""
    found: dict[Var, set[DType]] = {}
    for stmt in stmts(body):
        if isinstance(stmt, BufferStore):
            found.setdefault(stmt.buffer.data, set()).add(stmt.buffer.dtype.element)
    for expr in unique_exprs(body):
        if isinstance(expr, BufferLoad):
            found.setdefault(expr.buffer.data, set()).add(expr.buffer.dtype.element)
        elif isinstance(expr, Call) and expr.op in TYPED_POINTERS:
            for k in TYPED_POINTERS[expr.op]:
                pointer = expr.args[k]
                if isinstance(pointer, Var):
                    found.setdefault(pointer, set()).add(expr.dtype.element)
        elif isinstance(expr, Call) and expr.op == "tvm_access_ptr":
            kind, pointer = expr.args[:2]
            if isinstance(pointer, Var):
                found.setdefault(pointer, set()).add(kind.dtype.element)
    return found


_RULES: dict[type[Stmt], Callable[[StmtCompiler, Any], None]] = {
    SeqStmt: StmtCompiler._seq,
    BufferStore: StmtCompiler._store,
    For: StmtCompiler._for,
    IfThenElse: StmtCompiler._if,
    While: StmtCompiler._while,
    LetStmt: StmtCompiler._let_stmt,
    AttrStmt: StmtCompiler._attr,
    BufferRealize: StmtCompiler._realize,
    Allocate: StmtCompiler._allocate,
    AllocateConst: StmtCompiler._allocate_const,
    DeclBuffer: StmtCompiler._decl,
    AssertStmt: StmtCompiler._assert,
    Prefetch: StmtCompiler._prefetch,
    Evaluate: StmtCompiler._evaluate,
    BlockRealize: block_realize,
    Block: block,
}
