"""Compiles kernels to Python source: launches, barriers and reductions across threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from autosched.tir.expr import (
    BufferLoad,
    Call,
    Cast,
    CommReducer,
    Expr,
    IntImm,
    IterVar,
    StringImm,
    Var,
)
from autosched.tir.interp_access import flat_index
from autosched.tir.interp_memory import InterpreterError
from autosched.tir.interp_ptx import PTX_CALLS
from autosched.tir.interp_threads import BLOCK_TAGS, THREAD_TAGS
from autosched.tir.interp_value import ATOM, Value
from autosched.tir.stmt import AttrStmt, For, ForKind, Stmt
from autosched.tir.walk import stmts

if TYPE_CHECKING:
    from autosched.tir.interp_stmt import StmtCompiler


def thread_extent(c: StmtCompiler, stmt: AttrStmt, iv: IterVar) -> None:
    """Compile a thread axis: the outermost launches the kernel, the others refer to its axes."""
    tag = iv.thread_tag or iv.var.name
    if not c.in_kernel:
        _launch(c, stmt)
        return
    if tag not in c.threads:
        raise InterpreterError(f"unknown thread axis {tag!r} in\n{stmt!r}")
    c.names[iv.var] = c.threads[tag]
    c.thread_vars.add(iv.var)
    c.tags[iv.var] = tag
    c.scopes.append(tag)
    c.stmt(stmt.body)
    c.scopes.pop()


def _launch(c: StmtCompiler, stmt: AttrStmt) -> None:
    extents = {tag: c.expr(extent) for tag, extent in _extents(stmt).items()}
    name, grid = c.fresh("kernel"), c.fresh("grid")
    items = ", ".join(f"{tag!r}: {v.text}" for tag, v in extents.items())
    c.emit(f"{grid} = {{{items}}}")
    with c.inside(f"def {name}(L):"):
        c.threads = {tag: _coordinate(c, tag, v) for tag, v in extents.items()}
        c.in_kernel = True
        c.start_kernel()
        c.stmt(stmt)
        c.in_kernel = False
    c.emit(f"RUN.launch({name}, {grid})")
    c.threads = {}


def _coordinate(c: StmtCompiler, tag: str, extent: Value) -> Value:
    if extent.low == extent.high == 1:
        return Value("0")
    name = c.fresh("t")
    c.emit(f"{name} = L.coordinate({tag!r})")
    return Value(name, ATOM, True, 0, extent.high - 1)


def _extents(root: Stmt) -> dict[str, Expr]:
    """The extent of each thread axis used in a kernel, by tag.

    InterpreterError when a tag has two extents.
    """
    found: dict[str, Expr] = {}
    for stmt in stmts(root):
        if isinstance(stmt, AttrStmt) and stmt.key == "thread_extent":
            tag = stmt.node.thread_tag or stmt.node.var.name
            extent = stmt.value
        elif isinstance(stmt, For) and stmt.kind is ForKind.THREAD_BINDING:
            assert stmt.thread_binding is not None
            tag, extent = stmt.thread_binding.thread_tag, stmt.extent
            if tag.startswith("vthread"):
                continue
        else:
            continue
        if tag not in THREAD_TAGS and tag not in BLOCK_TAGS:
            raise InterpreterError(f"unknown thread axis {tag!r}")
        first = found.setdefault(tag, extent)
        same = first is extent or (
            isinstance(first, IntImm) and isinstance(extent, IntImm) and first.value == extent.value
        )
        if not same:
            raise InterpreterError(
                f"one kernel uses {tag} with the extents {first!r} and {extent!r}; they must agree"
            )
    return found


def _storage_sync(c: StmtCompiler, call: Call) -> None:
    scope = call.args[0]
    if not c.in_kernel:
        raise InterpreterError("tvm_storage_sync outside of a kernel")
    assert isinstance(scope, StringImm)
    c.emit(f"L.barrier({scope.value!r}, {c.mask})")


def _allreduce(c: StmtCompiler, call: Call) -> None:
    count_, *rest = call.args
    reducer = c.reducer
    if not isinstance(count_, IntImm) or not isinstance(reducer, CommReducer):
        raise InterpreterError(f"tvm_thread_allreduce outside of a reduce_scope: {call!r}")
    n = count_.value
    values = [c.expr(v).text for v in rest[:n]]
    condition = c.expr(rest[n]).text
    targets = [_target(c, load) for load in rest[n + 1 : 2 * n + 1]]
    tags = [c.tags[v] for v in rest[2 * n + 1 :] if isinstance(v, Var)]
    if not c.in_kernel:
        raise InterpreterError(f"tvm_thread_allreduce outside of a kernel: {call!r}")
    identity = [c.expr(v) for v in reducer.identity]
    types = [c.constant(v.dtype.numpy) for v in reducer.identity]
    neutral = [f"asarray({v.text}, {t})" for v, t in zip(identity, types, strict=True)]
    fields = [
        _combiner(c, reducer),
        *(f"[{', '.join(part)}]" for part in (neutral, values, targets)),
        repr(tags),
        condition,
        c.mask,
    ]
    c.emit(f"L.allreduce({', '.join(fields)})")


def _combiner(c: StmtCompiler, reducer: CommReducer) -> str:
    names = []
    for var in (*reducer.lhs, *reducer.rhs):
        name = c.fresh("x")
        bounds = (var.dtype.min_value, var.dtype.max_value) if var.dtype.is_integral else (0, 0)
        c.names[var] = Value(name, ATOM, True, int(bounds[0]), int(bounds[1]))
        names.append(name)
    mask, c.mask = c.mask, "True"
    with c.inside_lambda(*names):
        results = "".join(f"{c.expr(r).text}, " for r in reducer.result)
    c.mask = mask
    return f"lambda {', '.join(names)}: ({results})"


def _target(c: StmtCompiler, target: Expr) -> str:
    load = target.value if isinstance(target, Cast) else target  # a bool is loaded as int8
    if not isinstance(load, BufferLoad):
        raise InterpreterError(f"tvm_thread_allreduce stores its result in {target!r}, not a load")
    place = c.place(load.buffer)
    return f"({place.storage}, {flat_index(c, place, load.indices).text})"


def _nothing(c: StmtCompiler, call: Call) -> None:
    c.emit("pass")


STATEMENT_CALLS: dict[str, Callable[[StmtCompiler, Call], None]] = {
    "tvm_storage_sync": _storage_sync,
    "tvm_thread_allreduce": _allreduce,
    "prefetch": _nothing,
    "start_profile_intrinsic": _nothing,
    "end_profile_intrinsic": _nothing,
    **PTX_CALLS,
}
