"""CUDA C for GPUs: device functions become one source that includes no header.

    source = emit_cuda([kernel])
    Nvrtc(...).compile(source.text, "sm_80", statements=source.statements)

A device function is flat and has the thread axes of its launch as attributes; SplitHostDevice makes
it. Its parameters keep the order of the function. Scalars that are bools or floats of 8 or 16 bits
are passed as the unsigned integers of their bits.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from autosched.codegen.cuda_expr import HANDLERS
from autosched.codegen.cuda_float8 import float8_conversions
from autosched.codegen.cuda_prelude import prelude
from autosched.codegen.cuda_ptx import READ_POINTERS
from autosched.codegen.cuda_stmt import statement
from autosched.codegen.cuda_types import is_half, memory_type
from autosched.codegen.cuda_writer import Text, Writer
from autosched.codegen.llvm import check_symbol
from autosched.errors import CompileError
from autosched.tir.expr import BufferLoad, Call, Expr, IntImm, Var
from autosched.tir.function import PrimFunc
from autosched.tir.gpu import MOST_BLOCKS
from autosched.tir.jumps import deciding_variables
from autosched.tir.kinds import stored_in
from autosched.tir.stmt import Allocate, AttrStmt, BufferStore, Evaluate
from autosched.tir.walk import stmts, unique_exprs
from autosched.transform.device.shared_layout import product_tiles

MIN_BLOCKS = "min_blocks"
"""The attribute of a function that asks for this many blocks on a multiprocessor."""

_THREADS = ("threadIdx.x", "threadIdx.y", "threadIdx.z")
_BLOCKS = ("blockIdx.x", "blockIdx.y", "blockIdx.z")
_MOST = {
    **dict.fromkeys(("threadIdx.x", "threadIdx.y"), 1024),
    "threadIdx.z": 64,
    "blockIdx.x": 2**31 - 1,
    **dict.fromkeys(("blockIdx.y", "blockIdx.z"), MOST_BLOCKS),
}
_MOST_THREADS = 1024


@dataclass(frozen=True, slots=True)
class CudaSource:
    """CUDA C, and for each line (from 1) the statement that it was made from, if there is one."""

    text: str
    statements: dict[int, str]


@dataclass(frozen=True, slots=True)
class Launch:
    """The size of a launch: blocks and threads along x, y, z, and bytes of shared memory."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    static_shared: int
    dynamic_shared: int


def emit_cuda(kernels: Sequence[PrimFunc]) -> CudaSource:
    """The source of the device functions `kernels`, without their assertions.

    Raises CompileError for code that has no meaning on a GPU and for launches beyond its limits.
    """
    lines: list[str] = []
    origins: list[str] = []
    parts: set[str] = set()
    deciding = deciding_variables(*(kernel.body for kernel in kernels))
    for kernel in kernels:
        writer = _written(kernel, deciding)
        parts |= writer.parts
        lines += ["", *writer.lines]
        origins += ["", *writer.origins]
    head = prelude(parts) + float8_conversions(parts)
    body = "\n".join(lines if head else lines[1:])
    first = head.count("\n") + (1 if head else 0)
    found = {first + n: origin for n, origin in enumerate(origins) if origin}
    return CudaSource(f"{head}{body}\n", found)


def launch_of(kernel: PrimFunc) -> Launch:
    """The launch of a device function. Raises CompileError beyond the limits of every GPU."""
    extents = _extents(kernel)
    shared = {"shared": 0, "shared.dyn": 0}
    for s in stmts(kernel.body):
        if isinstance(s, Allocate) and s.buffer_var.scope in shared:
            count = math.prod(e.value for e in s.extents if isinstance(e, IntImm))
            shared[s.buffer_var.scope] += count * s.dtype.value_bytes
    grid = tuple(extents.get(tag, 1) for tag in _BLOCKS)
    block = tuple(extents.get(tag, 1) for tag in _THREADS)
    if math.prod(block) > _MOST_THREADS:
        raise CompileError(
            f"{kernel.name}: {math.prod(block)} threads in a block, at most {_MOST_THREADS} are "
            "possible",
            kind="illegal",
        )
    return Launch(
        (grid[0], grid[1], grid[2]),
        (block[0], block[1], block[2]),
        shared["shared"],
        shared["shared.dyn"],
    )


def _extents(kernel: PrimFunc) -> dict[str, int]:
    found: dict[str, int] = {}
    for s in stmts(kernel.body):
        if not isinstance(s, AttrStmt) or s.key != "thread_extent":
            continue
        tag = s.node.thread_tag or s.node.var.name
        where = f"{kernel.name}: the extent of {tag}"
        if tag not in _MOST:
            raise CompileError(f"{kernel.name}: {tag} is not an axis of a kernel launch")
        if not isinstance(s.value, IntImm):
            raise CompileError(f"{where} must be constant, found {s.value!r}")
        extent = s.value.value
        if extent > _MOST[tag] or extent < 1:
            limits = f"1 to {_MOST[tag]} are possible"
            raise CompileError(f"{where} is {extent}, {limits}", kind="illegal")
        if found.setdefault(tag, extent) != extent:
            raise CompileError(
                f"{where} is {found[tag]} in one place and {extent} in another; bind only loops of "
                f"the same length to {tag} (split them by the same factor)"
            )
    return found


def _written(kernel: PrimFunc, deciding: frozenset[Var]) -> Writer:
    check_symbol(kernel.name)
    launch = launch_of(kernel)
    tiles = bool(product_tiles(kernel.body))
    w = Writer(HANDLERS, _vector_pointers(kernel), tiles, deciding)
    if w.names.new(kernel.name) != kernel.name:
        raise CompileError(f"the kernel name {kernel.name!r} means something else in CUDA C")
    parameters, conversions = _parameters(w, kernel)
    threads = str(math.prod(launch.block))
    if MIN_BLOCKS in kernel.attrs:
        threads += f", {kernel.attrs[MIN_BLOCKS]}"
    shared = f"{launch.static_shared} bytes shared (static)"
    if launch.dynamic_shared:
        shared += f", {launch.dynamic_shared} (dynamic)"
    head = [
        f"// grid {launch.grid}, block {launch.block}, {shared}",
        f'extern "C" __global__ void __launch_bounds__({threads}) {kernel.name}(',
        *(f"    {p}{',' if p is not parameters[-1] else ') {'}" for p in parameters),
    ]
    if not parameters:
        head[-1] += ") {"
    for text in conversions:
        w.line(text)
    statement(w, kernel.body)
    w.lines = [*head, *w.lines, "}"]
    w.origins = [kernel.name] * len(head) + [
        f"{kernel.name} / {origin}" if origin else kernel.name for origin in (*w.origins, "")
    ]
    return w


def _parameters(w: Writer, kernel: PrimFunc) -> tuple[list[str], list[str]]:
    """The declarations of the parameters, and of variables that are made from them at the top."""
    written = written_pointers(kernel)
    alone = "__restrict__ " if kernel.noalias else ""
    declared: list[str] = []
    conversions: list[str] = []
    for var in kernel.params:
        buffer = kernel.buffer_map.get(var)
        name = w.names.new(var.name if buffer is None else buffer.name)
        if var.dtype.is_handle:
            if buffer is None:
                raise CompileError(f"the parameter {var.name} is a pointer without a buffer")
            kind, dtype = memory_type(buffer.dtype), buffer.dtype.element
            if is_half(dtype):
                w.use(kind)
            w.pointers[buffer.data] = (name, dtype)
            const = "" if buffer.data in written else "const "
            if const:
                w.read_only.add(buffer.data)
            declared.append(f"{const}{kind}* {alone}{name}")
        elif is_half(var.dtype) or var.dtype.is_bool:
            bits = w.names.new(f"{var.name}_bits")
            kind = w.type(var.dtype)
            declared.append(f"unsigned {'short' if var.dtype.bits == 16 else 'char'} {bits}")
            value = f"{bits} != 0" if var.dtype.is_bool else f"{kind}{{{bits}}}"
            conversions.append(f"const {kind} {name} = {value};")
            w.values[var] = Text(name)
        else:
            declared.append(f"{w.type(var.dtype)} {name}")
            w.values[var] = Text(name)
    return declared, conversions


def written_pointers(kernel: PrimFunc) -> set[Var]:
    """The pointers that the kernel stores through, or passes to a call that may."""
    found = stored_in(kernel.body)
    for s in stmts(kernel.body):
        if isinstance(s, Evaluate):
            found |= _given(s.value)
    return found


def _given(e: Expr) -> set[Var]:
    """The pointers in `e` that a call may write through."""
    read = READ_POINTERS.get(e.op, ()) if isinstance(e, Call) else ()
    found = {e} if isinstance(e, Var) and e.dtype.is_handle else set()
    for k, child in enumerate(e.children()):
        if k not in read:
            found |= _given(child)
            if isinstance(child, BufferLoad) and isinstance(e, Call) and e.op == "address_of":
                found.add(child.buffer.data)
    return found


def _vector_pointers(kernel: PrimFunc) -> frozenset[Var]:
    """The pointers through which vectors are loaded or stored."""
    found: set[Var] = set()
    for e in unique_exprs(kernel.body):
        if isinstance(e, BufferLoad) and e.dtype.lanes > 1:
            found.add(e.buffer.data)
    for s in stmts(kernel.body):
        if isinstance(s, BufferStore) and s.indices[-1].dtype.lanes > 1:
            found.add(s.buffer.data)
    return frozenset(found)
