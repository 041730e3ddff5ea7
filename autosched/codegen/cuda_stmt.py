"""Statements as CUDA C: one handler per node class."""

from __future__ import annotations

import math
from collections.abc import Callable

from autosched.codegen import cuda_memory
from autosched.codegen.cuda_types import is_half, memory_type, value_type, vector_type
from autosched.codegen.cuda_writer import Level, Text, Writer
from autosched.codegen.flat_access import only_index
from autosched.errors import CompileError
from autosched.tir.constants import is_one
from autosched.tir.expr import Call, IntImm, StringImm
from autosched.tir.gpu import WARP
from autosched.tir.jumps import is_sum
from autosched.tir.op import add, const
from autosched.tir.stmt import (
    Allocate,
    AllocateConst,
    AssertStmt,
    AttrStmt,
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
from autosched.tir.walk import written_out
from autosched.tir.warpgroup_matrix import TILE_ALIGNMENT
from autosched.transform.device.alignment import WIDEST

_WITHOUT_MEANING = frozenset(
    (
        *("reduce_scope", "volatile_scope", "storage_alignment", "realize_scope", "target"),
        "async_scope",  # copies that were not made asynchronous are plain stores
        *("fragment_shape", "fragment_layout"),
    )
)
_DYNAMIC_ALIGNMENT = 128


def statement(w: Writer, stmt: Stmt) -> None:
    """Writes `stmt`. Raises CompileError for statements that lowering should have removed."""
    handler = _HANDLERS.get(type(stmt))
    if handler is None:
        raise CompileError(
            f"{type(stmt).__name__} reached CUDA code generation: run the lowering passes first"
        )
    handler(w, stmt)


def _seq(w: Writer, stmt: SeqStmt) -> None:
    for part in stmt.stmts:
        statement(w, part)


# -- threads and annotations ------------------------------------------------------------------


def _attr(w: Writer, stmt: AttrStmt) -> None:
    if stmt.key == "thread_extent":
        tag = stmt.node.thread_tag or stmt.node.var.name
        single = is_one(stmt.value)
        w.values[stmt.node.var] = Text("0") if single else Text(f"(int){tag}", Level.UNARY)
    elif stmt.key == "virtual_thread" or stmt.key.startswith("pragma_"):
        raise CompileError(
            f"the attribute {stmt.key} of {stmt.node!r} reached CUDA code generation: run the "
            "lowering passes first"
        )
    elif stmt.key not in _WITHOUT_MEANING:
        raise CompileError(f"the attribute {stmt.key} has no meaning in CUDA code")
    statement(w, stmt.body)


def _evaluate(w: Writer, stmt: Evaluate) -> None:
    value = stmt.value
    if isinstance(value, IntImm):
        return
    if isinstance(value, Call) and value.op == "tvm_storage_sync":
        if w.multiplies_tiles:
            w.use("wgmma")
            w.line("wgmma_fence_stores();", "barrier")
        w.line(_barrier(value), "barrier")
    elif not (isinstance(value, Call) and value.op == "prefetch"):
        w.line(f"{w.text(value)};", "evaluate")


def _barrier(e: Call) -> str:
    scope = e.args[0].value if isinstance(e.args[0], StringImm) else ""
    if scope.startswith("shared"):
        return "__syncthreads();"
    if scope == "warp":
        return "__syncwarp();"
    raise CompileError(
        f"a barrier of scope {scope!r}: blocks cannot wait for each other, cut the kernel in two"
    )


# -- storage ----------------------------------------------------------------------------------


def _allocate(w: Writer, stmt: Allocate) -> None:
    var, scope = stmt.buffer_var, stmt.buffer_var.scope
    extents = [e.value for e in stmt.extents if isinstance(e, IntImm)]
    if len(extents) != len(stmt.extents):
        raise CompileError(f"the size of {var.name} must be constant, found {stmt.extents!r}")
    fragment = scope.startswith("wmma.")
    if scope not in ("local", "shared", "shared.dyn") and not fragment:
        raise CompileError(
            f"{var.name} is allocated in {scope or 'global'} memory inside a kernel, which has "
            "only shared and local memory to give"
        )
    name, element = w.names.new(var.name), stmt.dtype.element
    kind = memory_type(element)
    if is_half(element):
        w.use(kind)
    w.pointers[var] = (name, element)
    origin = f"allocate {var.name}"
    if scope == "shared.dyn":
        alignment = TILE_ALIGNMENT if w.multiplies_tiles else _DYNAMIC_ALIGNMENT
        space = f"extern __shared__ __align__({alignment})"
        w.line(f"{space} unsigned char {name}[];", origin)
        if kind != "unsigned char":
            typed = w.names.new(f"{var.name}_data")
            w.line(f"{kind}* const {typed} = reinterpret_cast<{kind}*>({name});", origin)
            w.pointers[var] = (typed, element)
    else:
        count = math.prod(extents) * stmt.dtype.lanes
        if fragment:  # what one of the 32 lanes holds
            count //= WARP
        # Vector accesses need memory that is aligned for them.
        aligned = f"__align__({TILE_ALIGNMENT if w.multiplies_tiles else WIDEST}) "
        space = f"__shared__ {aligned}" if scope == "shared" else ""
        if scope == "local" and var in w.vector_pointers:
            space = aligned
        w.line(f"{space}{kind} {name}[{count}];", origin)
    statement(w, stmt.body)


def _allocate_const(w: Writer, stmt: AllocateConst) -> None:
    dtype = stmt.dtype.element
    if is_half(dtype):
        w.use(memory_type(dtype))
    constants = [w.text(const(v, dtype)) for v in stmt.data.reshape(-1).tolist()]
    name = w.names.new(stmt.buffer_var.name)
    w.pointers[stmt.buffer_var] = (name, dtype)
    w.read_only.add(stmt.buffer_var)
    aligned = f"__align__({WIDEST}) " if stmt.buffer_var in w.vector_pointers else ""
    head = f"static const {aligned}{memory_type(dtype)} {name}[{len(constants)}]"
    w.line(f"{head} = {{{', '.join(constants)}}};", f"constant {stmt.buffer_var.name}")
    statement(w, stmt.body)


def _body(w: Writer, stmt: DeclBuffer | AssertStmt) -> None:
    statement(w, stmt.body)


def _let(w: Writer, stmt: LetStmt) -> None:
    name, dtype = w.names.new(stmt.var.name), stmt.var.dtype
    origin = f"let {stmt.var.name}"
    if dtype.lanes > 1:
        with w.exact_for(stmt.var):
            value = cuda_memory.vector(w, stmt.value)
        w.line(f"const {vector_type(dtype)} {name} = {value};", origin)
    else:
        value = w.bound_value(stmt.var, stmt.value).text
        w.line(f"const {w.type(dtype)} {name} = {value};", origin)
    w.values[stmt.var] = Text(name)
    statement(w, stmt.body)


MOST_WRITTEN = 1 << 17
"""The most operations of a stored value: source code has a value again at each place that uses it.

NVRTC would take minutes for as many.
"""


def _store(w: Writer, stmt: BufferStore) -> None:
    operations = written_out(stmt.value)
    if operations > MOST_WRITTEN:
        raise CompileError(
            f"the value that is stored to {stmt.buffer.name} has {operations:.3g} operations when "
            f"it is written out, at most {MOST_WRITTEN} are compiled; compute what it uses more "
            "than once in tensors of their own"
        )
    index = only_index(stmt.buffer, stmt.indices)
    with w.exact_for(None if is_sum(stmt) else stmt.buffer.data):
        text = cuda_memory.store(w, stmt.buffer, index, stmt.value)
    if stmt.predicate is not None:
        if stmt.predicate.dtype.lanes > 1:
            raise CompileError(f"a store with a mask: split wide vectors first: {stmt!r}")
        text = f"if ({w.text(stmt.predicate)}) {text}"
    w.line(f"{text};", f"{stmt.buffer.name}[...] = ...")


# -- control flow -----------------------------------------------------------------------------


def _if(w: Writer, stmt: IfThenElse) -> None:
    if stmt.condition.dtype.lanes > 1:
        raise CompileError(f"a vector condition in an if statement: {stmt.condition!r}")
    with w.block(f"if ({w.text(stmt.condition)})", "if"):
        statement(w, stmt.then_case)
    if stmt.else_case is not None:
        with w.block("else", "else"):
            statement(w, stmt.else_case)


def _while(w: Writer, stmt: While) -> None:
    with w.block(f"while ({w.text(stmt.condition)})", "while"):
        statement(w, stmt.body)


def _for(w: Writer, stmt: For) -> None:
    var, origin = stmt.loop_var, f"for {stmt.loop_var.name}"
    if stmt.kind not in (ForKind.SERIAL, ForKind.UNROLLED):
        raise CompileError(
            f"the loop {var.name} is {stmt.kind.value}: run the lowering passes first"
        )
    low, high = w.text(stmt.min), w.operand(add(stmt.min, stmt.extent), Level.SHIFT)
    name, kind = w.names.new(var.name), value_type(var.dtype)
    w.values[var] = Text(name)
    if stmt.kind is ForKind.UNROLLED:
        w.line("#pragma unroll", origin)
    with w.block(f"for ({kind} {name} = {low}; {name} < {high}; ++{name})", origin):
        statement(w, stmt.body)


def _prefetch(w: Writer, stmt: Prefetch) -> None:
    """Write nothing: a prefetch is a hint, which a GPU's caches have no use for."""


_HANDLERS: dict[type[Stmt], Callable[..., None]] = {
    SeqStmt: _seq,
    AttrStmt: _attr,
    DeclBuffer: _body,
    LetStmt: _let,
    Evaluate: _evaluate,
    BufferStore: _store,
    IfThenElse: _if,
    AssertStmt: _body,
    While: _while,
    For: _for,
    Prefetch: _prefetch,
    Allocate: _allocate,
    AllocateConst: _allocate_const,
}
