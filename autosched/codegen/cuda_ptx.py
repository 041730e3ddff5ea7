"""Calls that are instructions of PTX: guarded loads, asynchronous copies, tensor cores."""

from __future__ import annotations

from autosched.codegen.cuda_memory import address_of
from autosched.codegen.cuda_types import is_half, memory_type
from autosched.codegen.cuda_writer import Handler, Text, Writer
from autosched.errors import CompileError
from autosched.tir.dtype import DType
from autosched.tir.expr import BufferLoad, Call, Expr, IntImm, Var

READ_POINTERS = {"ptx_cp_async": (2,)}
"""The arguments of calls that are pointers which are only read through."""


def _ldg32(w: Writer, e: Expr) -> Text:
    assert isinstance(e, Call)
    target, condition, load, at = e.args
    if not isinstance(load, BufferLoad):
        raise CompileError(f"ptx_ldg32 takes a load, found {load!r}")
    to = f"&{_element(w, target, at, load.dtype)}"
    return w.call("ldg32", to, w.text(condition), address_of(w, load).text)


def _cp_async(w: Writer, e: Expr) -> Text:
    assert isinstance(e, Call)
    target, to, source, at, size = e.args[:5]
    w.use("cp_async")
    bytes_ = _constant(e, size)
    where = f"&{_element(w, target, to, None)}"
    if len(e.args) == 5:
        return Text(f"cp_async<{bytes_}>({where}, &{_element(w, source, at, None)}, true)")
    base = _pointer(w, source)[0]
    return Text(f"cp_async_if<{bytes_}>({where}, {base}, {w.text(at)}, {w.text(e.args[5])})")


def _commit(w: Writer, e: Expr) -> Text:
    w.use("cp_async_groups")
    return Text("cp_async_commit()")


def _wait(w: Writer, e: Expr) -> Text:
    assert isinstance(e, Call)
    w.use("cp_async_groups")
    return Text(f"cp_async_wait<{_constant(e, e.args[0])}>()")


def _pointer(w: Writer, e: Expr) -> tuple[str, DType]:
    """A pointer that a call gets, and the type of the elements it points to."""
    found = w.pointers.get(e) if isinstance(e, Var) else None
    if found is None:
        raise CompileError(f"the pointer {e!r} is used where it is not allocated")
    return found


def _element(w: Writer, pointer: Expr, offset: Expr, dtype: DType | None) -> str:
    """The element `offset` behind a pointer, as one of `dtype` (None: as it is)."""
    name, own = _pointer(w, pointer)
    if dtype is not None and dtype is not own:
        if is_half(dtype):
            w.use(memory_type(dtype))
        name = f"reinterpret_cast<{memory_type(dtype)}*>({name})"
    return f"{name}[{w.text(offset)}]"


def _constant(e: Call, value: Expr) -> int:
    if not isinstance(value, IntImm):
        raise CompileError(f"{e.op} needs a constant, found {value!r}: {e!r}")
    return value.value


PTX_CALLS: dict[str, Handler] = {
    "ptx_ldg32": _ldg32,
    "ptx_cp_async": _cp_async,
    "ptx_commit_group": _commit,
    "ptx_wait_group": _wait,
}
