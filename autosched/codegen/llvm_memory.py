"""Addresses, loads and stores of flat buffers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from autosched.codegen.flat_access import only_index
from autosched.codegen.llvm_builder import FunctionBuilder
from autosched.codegen.llvm_guarded import gather, guarded_load, guarded_store, scatter
from autosched.codegen.llvm_masks import is_masked, masked_load, masked_store
from autosched.codegen.llvm_module import Terms
from autosched.codegen.llvm_types import llvm_type, memory_type, splat
from autosched.errors import CompileError
from autosched.tir.buffer import Buffer
from autosched.tir.dtype import DType, bool_
from autosched.tir.expr import Broadcast, BufferLoad, Call, Expr, FloatImm, IntImm, Ramp, Var
from autosched.tir.lanes import lane_offsets
from autosched.tir.linear import combine, linear

MOST_DEALT, LEAST_DEALT = 4, 4
"""Largest stride with which lanes are shuffled out of contiguous vectors, and fewest lanes.

Each vector takes a load and a shuffle, which is one cycle or two. A gather loads every lane
separately (Intel 64 and IA-32 Architectures Optimization Reference Manual, on AVX2 gathers).
"""


def base_pointer(b: FunctionBuilder, data: Var) -> str:
    """The register of a pointer variable. Raises CompileError when it is not in scope."""
    pointer = b.pointers.get(data)
    if pointer is None:
        pointer = b.values.get(data)
    if pointer is None:
        raise CompileError(f"the buffer {data.name} is used where it is not allocated")
    return pointer


def address(b: FunctionBuilder, buffer: Buffer, index: Expr) -> str:
    """The address of `buffer[index]` for a scalar index.

    Terms are added outermost variable first, so that each partial address is computed once, in the
    loop that defines its last variable, and the constant part stays in the addressing mode. The
    product of an innermost loop's variable with its factor is added up from round to round.
    """
    element = memory_type(buffer.dtype)
    constant, terms = linear(index)
    if buffer.elem_offset is not None:
        more, others = linear(buffer.elem_offset)
        constant, terms = combine((constant, terms), (more, others), 1)
    ordered = tuple(terms.items())
    if len(ordered) > 1:
        regions = {region: i for i, region in enumerate(b.regions)}
        places = [regions[b.region_of(t)] if b.is_pure(t) else len(regions) for t, _ in ordered]
        ordered = tuple(ordered[i] for i in sorted(range(len(places)), key=places.__getitem__))
    pointer = _partial(b, buffer.data, element, ordered)
    if constant == 0:
        return pointer
    return b.emit(f"getelementptr {element}, ptr {pointer}, i64 {constant}")


def _partial(b: FunctionBuilder, data: Var, element: str, terms: Terms) -> str:
    if not terms:
        return base_pointer(b, data)
    term, factor = terms[-1]
    saved = b.at
    pure = b.is_pure(term)
    region = b.region_of(term) if pure else b.inner
    data_depth = b.depth.get(data)
    if data_depth is not None and b.regions.index(region) < data_depth:
        region = b.regions[data_depth]
    key = (data, element, terms)
    known = region.pointers.get(key) if pure else None
    if known is not None:
        return known
    start = _partial(b, data, element, terms[:-1])
    offset = b.multiple(term, factor)
    if offset is None:
        offset = b.wide_value(term)
        b.at = region
        if factor != 1:
            offset = b.emit(f"mul nsw i64 {offset}, {factor}")
    b.at = region
    pointer = b.emit(f"getelementptr {element}, ptr {start}, i64 {offset}")
    b.at = saved
    if pure:
        region.pointers[key] = pointer
    return pointer


# -- loads ------------------------------------------------------------------------------------


def load(b: FunctionBuilder, e: BufferLoad) -> str:
    """`buffer[index]`, or the register of an earlier load of it.

    Lanes where the predicate or the enclosing mask is false are not read, unless they were already.
    """
    index = only_index(e.buffer, e.indices)
    known = b.inner.loads.get(e.buffer.data)
    if known is not None and (found := known.get(e)) is not None:
        return found
    result = _load(b, e, index)
    if b.mask is None:
        b.inner.loads.setdefault(e.buffer.data, {})[e] = result
    return result


def _load(b: FunctionBuilder, e: BufferLoad, index: Expr) -> str:
    buffer, lanes = e.buffer, index.dtype.lanes
    mask = mask_of(b, e.predicate, lanes)
    align = buffer.dtype.bytes
    if buffer.dtype.lanes > 1:
        if lanes > 1:
            raise CompileError(f"a vector index into the buffer of vectors {buffer.name}")
        return b.emit(
            f"load {memory_type(e.dtype)}, ptr {address(b, buffer, index)}, align {align}"
        )
    memory = memory_type(e.dtype)
    match index:
        case Ramp(base, IntImm(1), _) if mask is None and is_masked(b, buffer, lanes):
            raw = masked_load(b, buffer, address(b, buffer, base), lanes)
        case Ramp(base, IntImm(1), _) if mask is None:
            raw = b.emit(f"load {memory}, ptr {address(b, buffer, base)}, align {align}")
        case Ramp(base, IntImm(1), _) if mask is not None:
            raw = guarded_load(b, buffer, address(b, buffer, base), lanes, mask)
        case Ramp(base, IntImm(-1), _) if mask is None:
            start = address(b, buffer, base - (lanes - 1))
            whole = b.emit(f"load {memory}, ptr {start}, align {align}")
            order = ", ".join(f"i32 {i}" for i in range(lanes - 1, -1, -1))
            raw = b.emit(
                f"shufflevector {memory} {whole}, {memory} poison, <{lanes} x i32> <{order}>"
            )
        case Ramp(base, IntImm(stride), _) if mask is None and _deals(stride, lanes):
            raw = _dealt_load(b, buffer, base, stride, lanes)
        case Broadcast(scalar, _) if mask is None:
            element = memory_type(buffer.dtype)
            one = b.emit(f"load {element}, ptr {address(b, buffer, scalar)}, align {align}")
            raw = spread(b, one, element, lanes)
        case _ if lanes == 1 and mask is None:
            raw = b.emit(f"load {memory}, ptr {address(b, buffer, index)}, align {align}")
        case _ if lanes == 1:
            raw = _guarded_scalar(b, buffer, index, mask)
        case _ if mask is None and (known := lane_offsets(index)) and _is_in_runs(known[1]):
            raw = _load_of_runs(b, buffer, *known)
        case _ if mask is None and known is not None and _is_near(known[1]):
            raw = _load_of_neighbours(b, buffer, *known)
        case _:
            raw = _gather(b, buffer, index, mask)
    return from_memory(b, raw, e.dtype)


def load_or_constant(b: FunctionBuilder, e: Call) -> str | None:
    """`if_then_else(condition, load of neighbours, constant)` for a scalar condition on indices.

    None for any other value. Where the condition fails, the vector is read from a constant in
    memory: that takes no branch, and all uses of the value share one load.

        if_then_else(1 <= i, A[i - 1:i + 15], 0.0)   ->   load (1 <= i ? &A[i - 1] : &zeros)
    """
    condition, value, other = e.args
    if condition.dtype.lanes > 1 or b.mask is not None or not isinstance(value, BufferLoad):
        return None
    match value.indices, other:
        case (Ramp(base, IntImm(1), _),), Broadcast(IntImm() | FloatImm() as element, _):
            buffer = value.buffer
        case _:
            return None
    pure = b.is_pure(base) and b.is_pure(condition)
    if not pure or value.predicate is not None or buffer.dtype.lanes > 1 or e.dtype.is_bool:
        return None
    known = b.inner.loads.setdefault(buffer.data, {})
    if e not in known:
        memory, align = memory_type(e.dtype), buffer.dtype.bytes
        constant = b.module.constant(f"{memory} {splat(element.value, e.dtype)}", align)
        test, where = b.value(condition), address(b, buffer, base)
        chosen = b.emit(f"select i1 {test}, ptr {where}, ptr {constant}")
        raw = b.emit(f"load {memory}, ptr {chosen}, align {align}")
        known[e] = from_memory(b, raw, e.dtype)
    return known[e]


def _deals(stride: int, lanes: int) -> bool:
    """Whether every `stride`-th element is better read by loads of all elements."""
    return 1 < stride <= MOST_DEALT and lanes >= LEAST_DEALT


def _dealt_load(b: FunctionBuilder, buffer: Buffer, base: Expr, stride: int, lanes: int) -> str:
    """Every `stride`-th element from `base` on, shuffled out of contiguous vectors.

    The vectors have a power of two of lanes, because LLVM splits others. The last vector ends with
    the last element that is wanted, so that nothing behind it is read.

        A[ramp(i, 2, 4)]   ->   shuffle(A[i:i + 4], A[i + 3:i + 7], (0, 2, 5, 7))
    """
    width = 1 << (lanes - 1).bit_length()
    kind, align = memory_type(buffer.dtype.with_lanes(width)), buffer.dtype.bytes
    last = stride * (lanes - 1) + 1 - width
    result, known = "poison", 0
    for start in (*range(0, last, width), last):
        where = address(b, buffer, base + start)
        vector = b.emit(f"load {kind}, ptr {where}, align {align}")
        within = range(known, min(lanes, (start + width - 1) // stride + 1))
        order = [*range(known), *(width + lane * stride - start for lane in within)]
        known = within.stop
        size = lanes if known == lanes else width
        numbers = [f"i32 {i}" for i in order] + ["i32 poison"] * (size - len(order))
        result = b.emit(
            f"shufflevector {kind} {result}, {kind} {vector}, <{size} x i32> <{', '.join(numbers)}>"
        )
    return result


def _runs(offsets: Sequence[int]) -> list[tuple[int, int]]:
    """(first lane, number of lanes) of each run of lanes that are consecutive in memory."""
    starts = [0, *(i for i in range(1, len(offsets)) if offsets[i] != offsets[i - 1] + 1)]
    return [(a, z - a) for a, z in zip(starts, [*starts[1:], len(offsets)], strict=True)]


def _is_in_runs(offsets: Sequence[int]) -> bool:
    """Whether lanes come in runs of two or more on average, so that it pays to load by runs."""
    return 2 * len(_runs(offsets)) <= len(offsets)


def _load_of_runs(b: FunctionBuilder, buffer: Buffer, base: Expr, offsets: Sequence[int]) -> str:
    """Lanes at known offsets, by one load for each run of consecutive elements.

    A[i + (0, 1, 28, 29)]   ->   shuffle(A[i:i + 2], A[i + 28:i + 30], (0, 1, 2, 3))
    """
    lanes = len(offsets)
    kind, align = memory_type(buffer.dtype.with_lanes(lanes)), buffer.dtype.bytes
    result = "poison"
    for first, count in _runs(offsets):
        part = memory_type(buffer.dtype.with_lanes(count))
        where = address(b, buffer, base + offsets[first])
        run = b.emit(f"load {part}, ptr {where}, align {align}")
        if count == 1:
            result = b.emit(f"insertelement {kind} {result}, {part} {run}, i32 {first}")
            continue
        spread_out = [f"i32 {i}" if i < count else "i32 poison" for i in range(lanes)]
        wide = b.emit(
            f"shufflevector {part} {run}, {part} poison, <{lanes} x i32> <{', '.join(spread_out)}>"
        )
        order = [lanes + i - first if first <= i < first + count else i for i in range(lanes)]
        places = ", ".join(f"i32 {i}" for i in order)
        result = b.emit(f"shufflevector {kind} {result}, {kind} {wide}, <{lanes} x i32> <{places}>")
    return result


def _is_near(offsets: Sequence[int]) -> bool:
    """Whether the lanes span at least two elements, and no more than two vectors have."""
    return 0 < max(offsets) - min(offsets) < 2 * len(offsets)


def _load_of_neighbours(
    b: FunctionBuilder, buffer: Buffer, base: Expr, offsets: Sequence[int]
) -> str:
    """Lanes out of all elements from the first lane's to the last lane's, both of which are read.

    The vectors have a power of two of lanes, because LLVM splits others: one, or two that overlap.

        A[i + (0, 0, 1, 1, 2, 2)]   ->   shuffle(A[i:i + 2], A[i + 1:i + 3], (0, 0, 1, 1, 3, 3))
    """
    low = min(offsets)
    span = max(offsets) - low + 1
    width = 1 << (span.bit_length() - 1)
    kind, align = memory_type(buffer.dtype.with_lanes(width)), buffer.dtype.bytes
    parts = [
        b.emit(f"load {kind}, ptr {address(b, buffer, base + (low + start))}, align {align}")
        for start in sorted({0, span - width})
    ]
    first, second = parts[0], parts[1] if len(parts) > 1 else "poison"
    lanes = [x - low if x - low < width else x - low + 2 * width - span for x in offsets]
    order = ", ".join(f"i32 {lane}" for lane in lanes)
    return b.emit(f"shufflevector {kind} {first}, {kind} {second}, <{len(lanes)} x i32> <{order}>")


def from_memory(b: FunctionBuilder, raw: str, dtype: DType) -> str:
    """The register of a value from memory: bytes of bool become i1."""
    if not dtype.is_bool:
        return raw
    return b.emit(
        f"icmp ne {memory_type(dtype)} {raw}, {'0' if dtype.lanes == 1 else 'zeroinitializer'}"
    )


def spread(b: FunctionBuilder, scalar: str, element: str, lanes: int) -> str:
    """The vector of `lanes` copies of a register."""
    kind = f"<{lanes} x {element}>"
    first = b.emit(f"insertelement {kind} poison, {element} {scalar}, i32 0")
    return b.emit(f"shufflevector {kind} {first}, {kind} poison, <{lanes} x i32> zeroinitializer")


def mask_of(b: FunctionBuilder, predicate: Expr | None, lanes: int) -> str | None:
    """The register of the lanes that may touch memory; None if all may."""
    outer = None
    if b.mask is not None:
        register, width = b.mask
        if width == lanes:
            outer = register
        elif width == 1:
            outer = spread(b, register, "i1", lanes)
        else:
            # A narrower access is made if any lane of the wider condition holds.
            outer = any_lane(b, register, width)
            outer = outer if lanes == 1 else spread(b, outer, "i1", lanes)
    if predicate is None:
        return outer
    own = b.value(predicate)
    if predicate.dtype.lanes == 1 and lanes > 1:
        own = spread(b, own, "i1", lanes)
    if outer is None:
        return own
    return b.emit(f"and {llvm_type(bool_.with_lanes(lanes))} {own}, {outer}")


def any_lane(b: FunctionBuilder, register: str, lanes: int) -> str:
    """Whether any lane of a vector of truth values holds."""
    return b.call(f"llvm.vector.reduce.or.v{lanes}i1", "i1", [(f"<{lanes} x i1>", register)])


def _guarded_scalar(b: FunctionBuilder, buffer: Buffer, index: Expr, mask: str | None) -> str:
    # Read element 0 instead of the element that may not be read: no branch, and no fault.
    element = memory_type(buffer.dtype)
    where = address(b, buffer, index)
    safe = b.emit(f"select i1 {mask}, ptr {where}, ptr {base_pointer(b, buffer.data)}")
    return b.emit(f"load {element}, ptr {safe}, align {buffer.dtype.bytes}")


def _lane_addresses(b: FunctionBuilder, buffer: Buffer, index: Expr) -> str:
    """The vector of addresses of a vector index."""
    lanes = index.dtype.lanes
    element = memory_type(buffer.dtype)
    wide = f"<{lanes} x i64>"
    if isinstance(index, Ramp) and isinstance(index.stride, IntImm):
        base = address(b, buffer, index.base)
        steps = ", ".join(f"i64 {i * index.stride.value}" for i in range(lanes))
        return b.emit(f"getelementptr {element}, ptr {base}, {wide} <{steps}>")
    offsets = b.value(index)
    if index.dtype.bits < 64:
        extend = "zext" if index.dtype.code == "uint" else "sext"
        offsets = b.emit(f"{extend} {llvm_type(index.dtype)} {offsets} to {wide}")
    if buffer.elem_offset is not None:
        base = address(b, buffer, IntImm(0))
    else:
        base = base_pointer(b, buffer.data)
    return b.emit(f"getelementptr {element}, ptr {base}, {wide} {offsets}")


def _each_address(b: FunctionBuilder, buffer: Buffer, index: Expr) -> Iterator[str]:
    """The address of each lane of a vector index.

    Lanes at known offsets from one base use the constant parts of addressing modes. Each address
    taken out of a vector of addresses would cost an extraction.
    """
    known = lane_offsets(index)
    if known is not None:
        base, offsets = known
        for offset in offsets:
            yield address(b, buffer, base + offset)
        return
    pointers, lanes = _lane_addresses(b, buffer, index), index.dtype.lanes
    for lane in range(lanes):
        yield b.emit(f"extractelement <{lanes} x ptr> {pointers}, i32 {lane}")


def _is_worth_one(b: FunctionBuilder, buffer: Buffer, index: Expr) -> bool:
    """Whether one instruction for scattered lanes is as fast as one instruction for each lane.

    It is not on AMD's Zen if the lanes are at known distances (Software Optimization Guide for the
    AMD Zen4 Microarchitecture, 2.11.2): 16 lanes of a gather take twice as long as loads, and
    elements that overlapping vectors share are loaded once. On an Emerald Rapids candidates of
    strided poolings, softmax and transpositions take 1.0 to 1.9 times as long with loads (one of a
    depthwise convolution with stride 2, whose vectors overlap, 0.4 times).
    """
    if buffer.dtype.bytes < 4 or index.dtype.lanes < 4:
        return False
    return not b.module.slow_gathers or lane_offsets(index) is None


def _gather(b: FunctionBuilder, buffer: Buffer, index: Expr, mask: str | None) -> str:
    lanes = index.dtype.lanes
    element = memory_type(buffer.dtype)
    kind = f"<{lanes} x {element}>"
    align = buffer.dtype.bytes
    if mask is not None or (b.module.has_gather and _is_worth_one(b, buffer, index)):
        return gather(b, buffer, _lane_addresses(b, buffer, index), lanes, mask)
    result = "poison"
    for lane, pointer in enumerate(_each_address(b, buffer, index)):
        one = b.emit(f"load {element}, ptr {pointer}, align {align}")
        result = b.emit(f"insertelement {kind} {result}, {element} {one}, i32 {lane}")
    return result


# -- stores -----------------------------------------------------------------------------------


def store(
    b: FunctionBuilder, buffer: Buffer, index: Expr, stored: str, dtype: DType, mask: str | None
) -> None:
    """Stores `stored`, of type `dtype`, to `buffer[index]`, in lane order."""
    if dtype.is_bool:
        stored = b.emit(f"zext {llvm_type(dtype)} {stored} to {memory_type(dtype)}")
    kind, align, lanes = memory_type(dtype), buffer.dtype.bytes, index.dtype.lanes
    match index:
        case Ramp(base, IntImm(1), _) if mask is None and is_masked(b, buffer, lanes):
            masked_store(b, buffer, address(b, buffer, base), stored, lanes)
        case Ramp(base, IntImm(1), _) if mask is None:
            b.line(f"store {kind} {stored}, ptr {address(b, buffer, base)}, align {align}")
        case Ramp(base, IntImm(1), _) if mask is not None:
            guarded_store(b, buffer, address(b, buffer, base), stored, lanes, mask)
        case _ if lanes == 1:
            b.line(f"store {kind} {stored}, ptr {address(b, buffer, index)}, align {align}")
        case _:
            _scatter(b, buffer, index, stored, mask)
    b.forget(buffer.data)


def _scatter(
    b: FunctionBuilder, buffer: Buffer, index: Expr, stored: str, mask: str | None
) -> None:
    lanes, align = index.dtype.lanes, buffer.dtype.bytes
    element = memory_type(buffer.dtype)
    kind = f"<{lanes} x {element}>"
    if mask is not None or (b.module.has_scatter and _is_worth_one(b, buffer, index)):
        scatter(b, buffer, _lane_addresses(b, buffer, index), stored, lanes, mask)
        return
    for lane, pointer in enumerate(_each_address(b, buffer, index)):
        one = b.emit(f"extractelement {kind} {stored}, i32 {lane}")
        b.line(f"store {element} {one}, ptr {pointer}, align {align}")
