"""The interpreter: defines the meaning of a function of the IR, at every stage of lowering.

`run` executes a function on NumPy arrays. All threads of a kernel advance in lockstep, statement
by statement, so that a kernel without barriers computes what its schedule describes. A `Watch`
additionally checks for races, reads of uninitialised memory, and more. Every access is checked
against the region realised (or the memory allocated) for it. Fresh memory holds NaN (-1 for
integers), integers wrap, and floats are rounded to their type after every operation.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from autosched import arguments
from autosched.errors import ConfigError
from autosched.tir import interp_host
from autosched.tir.buffer import Buffer
from autosched.tir.dimension import as_dimension, solve
from autosched.tir.expr import Call, Expr, StringImm, Var
from autosched.tir.function import PrimFunc
from autosched.tir.interp_host import EndOfFunction, Pointer
from autosched.tir.interp_memory import (
    AccessError,
    Array,
    InterpreterError,
    Mask,
    RaceError,
    Storage,
    combine_masks,
    nothing,
    thread_mask,
)
from autosched.tir.interp_stmt import StmtCompiler
from autosched.tir.interp_threads import Run, Threads
from autosched.tir.interp_value import Value
from autosched.tir.interp_watch import Watch
from autosched.tir.printer import to_text
from autosched.tir.walk import free_vars, unique_exprs

__all__ = ["AccessError", "InterpreterError", "RaceError", "Watch", "register_extern", "run"]

_SOURCE_NAME = "<interpreted function>"
_externs: dict[str, Callable[..., Any]] = {}


def register_extern(name: str, fn: Callable[..., Any]) -> None:
    """Register `fn` as the function that call_extern and call_packed of `name` call.

    Pointers are passed as NumPy views (1-D from the address on, or shaped for
    tvm_stack_make_array), strings as str, scalars as Python or NumPy scalars. Raises ConfigError
    for a name that is no text, and for what cannot be called.
    """
    named = arguments.text("register_extern: name", name, "f")
    _externs[named] = arguments.function(f"register_extern {named}", fn, "lambda x: x + 1")


def run(
    func: PrimFunc,
    arrays: Sequence[Any],
    *,
    check_races: bool | None = None,
    eager_select: bool = False,
    watch: Watch | None = None,
) -> Any:
    """Execute `func` on one array or scalar per parameter; outputs are written in place.

    Returns the value of the `ret` that ends the function, or None. A pointer parameter without a
    buffer takes a host object of `interp_host.py`.

    `check_races` looks for accesses to shared, warp and global memory that no barrier orders; None
    means only when the function has barriers, since schedules have none before ThreadSync.
    `eager_select` checks the accesses in both values of a Select, both of which are executed after
    RewriteUnsafeSelect; without it only those of the chosen value. `watch` replaces `check_races`
    and asks for more checks (`interp_watch.py`). Raises ValueError for arguments that do not fit,
    ConfigError for objects of other types, and InterpreterError, with thread and statement as
    notes, for behaviour that is undefined.
    """
    arguments.instance("interp.run: func", func, PrimFunc, "lower(schedule, [A, B], target)")
    if not isinstance(arrays, Sequence):
        raise ConfigError(f"interp.run: arrays: expected a list, {arguments.found(arrays)}")
    if watch is not None:
        arguments.instance("interp.run: watch", watch, Watch)
    scopes = {
        e.args[0].value
        for e in unique_exprs(func.body)
        if isinstance(e, Call) and e.op == "tvm_storage_sync" and isinstance(e.args[0], StringImm)
    }
    if watch is None and (scopes if check_races is None else check_races):
        watch = Watch(initialised=False, is_vector=lambda buffer, index: False)
    state = Run(watch, "warp" in scopes)
    compiler = StmtCompiler(func.body, state)
    compiler.eager_select = eager_select
    copies = _bind(compiler, func, arrays)
    try:
        compiler.stmt(func.body)
    except InterpreterError as error:
        error.add_note(f"in function {func.name}")
        raise
    compiler.globals.update(_RUNTIME, RUN=state)
    source = "\n".join(["def main():", *(" " + line for line in compiler.lines), " pass"])
    scope: dict[str, Any] = compiler.globals
    exec(compile(source, _SOURCE_NAME, "exec"), scope)
    if watch is not None:
        watch.start()
    result = None
    try:
        with np.errstate(all="ignore"):
            scope["main"]()
    except EndOfFunction as end:
        result = end.value
    except Exception as error:
        _note_statement(error, compiler)
        raise
    if watch is not None:
        watch.written = {
            name: storage.shadow.bits[:: storage.flat.dtype.itemsize // storage.shadow.cell_bytes]
            for name, storage in compiler.output_storages.items()
            if storage.shadow is not None and storage.shadow.bits is not None
        }
    for original, copy in copies:
        original[...] = copy.reshape(original.shape)
    return result


def _bind(
    compiler: StmtCompiler, func: PrimFunc, arrays: Sequence[Any]
) -> list[tuple[Array, Array]]:
    """Bind the parameters; return (array, contiguous copy) for arrays that are not contiguous."""
    if len(arrays) != len(func.params):
        names = ", ".join(p.name for p in func.params)
        raise ValueError(
            f"{func.name} takes {len(func.params)} arguments ({names}), found {len(arrays)}"
        )
    copies = []
    bound: list[tuple[Buffer, Array, Array]] = []
    for param, value in zip(func.params, arrays, strict=True):
        buffer = func.buffer_map.get(param)
        if buffer is None and param.element is None:
            if param.dtype.is_handle:
                compiler.bind_place(param, compiler.constant(value))
            else:
                compiler.names[param] = _scalar(compiler, param, value)
            continue
        if not isinstance(value, np.ndarray):
            raise ValueError(f"parameter {param.name} of {func.name} takes an array")
        if isinstance(value, np.ma.MaskedArray):
            raise ValueError(
                f"parameter {param.name} of {func.name} takes an array without a mask; pass its "
                ".filled(VALUE), or its .data"
            )
        flat = np.ascontiguousarray(value).reshape(-1)
        if not np.shares_memory(flat, value) and value.size:
            copies.append((value, flat))
        if buffer is not None:
            bound.append((buffer, value, flat))
        else:
            _bind_pointer(compiler, param, flat)
    for buffer, value, _ in bound:
        _bind_shape(compiler, buffer, value)
    _bind_sizes(compiler, func, [(buffer, value) for buffer, value, _ in bound])
    for buffer, value, flat in bound:
        _check_shape(compiler, func, buffer, value)
        padded = _padded(compiler, buffer, value)
        if padded is not None:
            flat, elements = padded
            copies.append((value, elements))
        compiler.parameter(buffer, Storage(buffer.name, flat), value.shape)
    return copies


def _padded(compiler: StmtCompiler, buffer: Buffer, value: Array) -> tuple[Array, Array] | None:
    """Memory with the strides and the offset of `buffer` that holds the elements of `value`.

    Returns the memory and a view of its elements in the shape of `value`; None if the layout is
    compact.
    """
    fields = [compiler.expr(e).text for e in buffer.strides]
    strides = [int(eval(text, compiler.globals)) for text in fields]
    offset = 0
    if buffer.elem_offset is not None:
        offset = int(eval(compiler.expr(buffer.elem_offset).text, compiler.globals))
    compact = [int(np.prod(value.shape[k + 1 :])) for k in range(value.ndim)]
    if (not strides or strides == compact or not value.size) and offset == 0:
        return None
    strides = strides or compact
    size = strides[0] * value.shape[0] if value.ndim else 1
    memory = nothing(offset + size, value.dtype)
    steps = [stride * value.itemsize for stride in strides]
    elements = np.lib.stride_tricks.as_strided(memory[offset:], value.shape, steps)
    elements[...] = value
    return memory, elements


def _bind_pointer(compiler: StmtCompiler, param: Var, flat: Array) -> None:
    assert param.element is not None
    name = compiler.constant(Storage(param.name, flat))
    size = Value("", low=flat.size, high=flat.size)
    compiler.bind_memory(param, param.name, param.element, size, name)


def _scalar(compiler: StmtCompiler, var: Var, value: Any) -> Value:
    if var.dtype.is_float:
        return Value(compiler.constant(var.dtype.numpy.type(value)))
    number = int(value)
    if not var.dtype.min_value <= number <= var.dtype.max_value:
        raise ValueError(f"{number} does not fit parameter {var.name} of type {var.dtype}")
    text = str(bool(number)) if var.dtype.is_bool else str(number)
    return Value(text if number >= 0 else f"({number})", low=number, high=number)


def _bind_shape(compiler: StmtCompiler, buffer: Buffer, value: Array) -> None:
    """Bind the symbolic sizes of `buffer` that are not parameters themselves."""
    sizes: list[tuple[Expr, int]] = list(zip(buffer.shape, value.shape, strict=False))
    steps = [1]
    for n in reversed(value.shape[1:]):
        steps.append(steps[-1] * n)
    sizes += zip(buffer.strides, reversed(steps), strict=False)
    if buffer.elem_offset is not None:
        sizes.append((buffer.elem_offset, 0))
    for size, number in sizes:
        if isinstance(size, Var) and size not in compiler.names:
            compiler.names[size] = _scalar(compiler, size, number)


def _bind_sizes(
    compiler: StmtCompiler, func: PrimFunc, bound: Sequence[tuple[Buffer, Array]]
) -> None:
    """Bind the sizes that must be solved from dimensions such as n + 2."""
    variables = {v for b, _ in bound for e in b.shape for v in free_vars(e)}
    missing = [v for v in variables if v not in compiler.names]
    if not missing:
        return
    names = {v: f"v{k}" for k, v in enumerate(sorted(variables, key=lambda v: v.name))}
    known = {
        names[v]: int(eval(compiler.names[v].text, compiler.globals))
        for v in variables
        if v in compiler.names
    }
    pairs = [
        (as_dimension(e, names), n)
        for b, value in bound
        for e, n in zip(b.shape, value.shape, strict=False)
    ]
    solve(pairs, known)
    for v in missing:
        if names[v] not in known:
            raise ValueError(
                f"{func.name}: the size {v.name} cannot be told from the shapes of the arrays; "
                "make it a parameter"
            )
        compiler.names[v] = _scalar(compiler, v, known[names[v]])


def _check_shape(compiler: StmtCompiler, func: PrimFunc, buffer: Buffer, value: Array) -> None:
    compiler.type_name(buffer.dtype.element)  # raises for custom types that are not lowered
    lanes = buffer.dtype.lanes
    expected = buffer.dtype.numpy
    compatible = value.dtype == expected or ({value.dtype.name, expected.name} == {"bool", "int8"})
    sizes = [compiler.expr(s) for s in buffer.shape]
    shape = tuple(
        int(eval(s.text, compiler.globals))
        for s in sizes  # symbolic sizes are constants by now
    )
    if not compatible or (value.shape != shape and lanes == 1):
        raise ValueError(
            f"{func.name}: {buffer.name} is {buffer.dtype} of shape {shape}, "
            f"found an array of {value.dtype} of shape {value.shape}"
        )


def _note_statement(error: Exception, compiler: StmtCompiler) -> None:
    """Attach the statement that was running to `error`, found by the line of generated source."""
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if frame.filename == _SOURCE_NAME and frame.lineno is not None:
            line = frame.lineno - 2
            origin = compiler.origins[line] if 0 <= line < len(compiler.origins) else None
            if origin is not None:
                error.add_note("in the statement\n" + to_text(origin))
                if isinstance(error, InterpreterError):
                    error.stmt = origin
            return


# -- functions that generated code calls


def _extern(args: Sequence[Any], threads: Threads | None, mask: Mask) -> Any:
    """Call an external function once, or in a kernel once for every running thread."""
    name, *rest = args
    fn = _externs.get(name)
    if fn is None:
        raise InterpreterError(f"external function {name!r} is not known; use register_extern")

    def call(thread: int) -> Any:
        values = []
        for a in rest:
            if isinstance(a, Pointer):
                a = a.array(thread)
            elif isinstance(a, np.ndarray) and a.ndim:
                a = a.reshape(-1)[thread if a.size > 1 else 0]
            values.append(a)
        result = fn(*values)
        return 0 if result is None else result

    if threads is None:
        return call(0)
    active = np.broadcast_to(thread_mask(mask), threads.count)
    return np.array([call(t) if active[t] else 0 for t in range(threads.count)])


def _narrow(mask: Mask, condition: Any) -> Mask | None:
    """The mask of the threads of `mask` where `condition` holds; True for all, None for none."""
    result = combine_masks(mask, np.asarray(condition, dtype=bool))
    if not result.any():
        return None
    return True if mask is True and result.all() else result


def _longest(extent: Any, mask: Mask) -> int:
    """The largest number of iterations `extent` of any running thread."""
    extent = np.asarray(extent)
    if mask is not True:
        extent = np.where(thread_mask(mask), extent, 0)
    return int(extent.max(initial=0))


def _check(condition: Any, mask: Mask, message: str) -> None:
    """Execute an AssertStmt: InterpreterError when `condition` is false for a running thread."""
    failed = np.logical_not(np.asarray(condition, dtype=bool))
    if combine_masks(thread_mask(mask), failed).any():
        raise InterpreterError(f"assertion failed: {message}")


_RUNTIME: dict[str, Any] = {
    **interp_host.RUNTIME,
    "array": np.array,
    "check": _check,
    "extern": _extern,
    "longest": _longest,
    "narrow": _narrow,
    "numpy_max": np.max,
}
