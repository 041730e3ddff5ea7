"""Expressions as LLVM registers: one handler per node class."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

from autosched.codegen import llvm_arith, llvm_call, llvm_division, llvm_memory
from autosched.codegen.llvm_builder import FunctionBuilder
from autosched.codegen.llvm_types import iota, llvm_type, scalar_type, splat
from autosched.errors import CompileError
from autosched.tir.expr import (
    EQ,
    GE,
    GT,
    LE,
    LT,
    NE,
    Add,
    And,
    Broadcast,
    BufferLoad,
    Call,
    Cast,
    Div,
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    Ramp,
    Select,
    Shuffle,
    StringImm,
    Sub,
)
from autosched.tir.kinds import bits_of, kinds

_SHUFFLE = bits_of(Shuffle)


def _broadcast(b: FunctionBuilder, e: Broadcast) -> str:
    if isinstance(e.value, IntImm | FloatImm):
        return splat(e.value.value, e.dtype)
    if isinstance(e.value, BufferLoad) and b.mask is None:
        # Shared like the load itself: the same element is spread once per region.
        scalar = b.value(e.value)
        known = b.inner.loads.setdefault(e.value.buffer.data, {})
        if e not in known:
            known[e] = _spread(b, e, scalar)
        return known[e]
    return _spread(b, e, b.value(e.value))


def _spread(b: FunctionBuilder, e: Broadcast, scalar: str) -> str:
    kind = llvm_type(e.dtype)
    first = b.emit(f"insertelement {kind} poison, {llvm_type(e.value.dtype)} {scalar}, i32 0")
    return b.emit(f"shufflevector {kind} {first}, {kind} poison, <{e.lanes} x i32> zeroinitializer")


def _ramp(b: FunctionBuilder, e: Ramp) -> str:
    kind = llvm_type(e.dtype)
    base = b.value(Broadcast(e.base, e.lanes))
    if isinstance(e.stride, IntImm):
        return b.emit(f"add {kind} {base}, {iota(e.dtype, e.stride.value)}")
    stride = b.value(Broadcast(e.stride, e.lanes))
    steps = b.emit(f"mul {kind} {stride}, {iota(e.dtype, 1)}")
    return b.emit(f"add {kind} {base}, {steps}")


def _select(b: FunctionBuilder, e: Select) -> str:
    condition = b.value(e.condition)
    first, second = b.value(e.true_value), b.value(e.false_value)
    kind = llvm_type(e.dtype)
    return b.emit(
        f"select {llvm_type(e.condition.dtype)} {condition}, {kind} {first}, {kind} {second}"
    )


def _not(b: FunctionBuilder, e: Not) -> str:
    return b.emit(f"xor {llvm_type(e.dtype)} {b.value(e.a)}, {splat(1, e.dtype)}")


def _let(b: FunctionBuilder, e: Let) -> str:
    with _whole_vectors(b) if kinds(e.body) & _SHUFFLE else nullcontext():
        value = b.bound_value(e.var, e.value)
    b.bind(e.var, value)
    return b.value(e.body)


@contextmanager
def _whole_vectors(b: FunctionBuilder) -> Iterator[None]:
    """Inside, vectors are read whole if any lane of the enclosing mask holds."""
    outer = b.mask
    if outer is not None and outer[1] > 1:
        b.mask = (llvm_memory.any_lane(b, *outer), 1)
    yield
    b.mask = outer


def _shuffle_two(b: FunctionBuilder, e: Shuffle) -> str:
    """A shuffle of two vectors of one type, which is one instruction of LLVM's."""
    kind = llvm_type(e.vectors[0].dtype)
    first, second = (b.value(v) for v in e.vectors)
    numbers = ", ".join(f"i32 {i.value}" for i in e.indices if isinstance(i, IntImm))
    mask = f"<{len(e.indices)} x i32> <{numbers}>"
    result = b.emit(f"shufflevector {kind} {first}, {kind} {second}, {mask}")
    if e.dtype.lanes > 1:
        return result
    return b.emit(f"extractelement <1 x {scalar_type(e.dtype)}> {result}, i32 0")


def _shuffle_four(b: FunctionBuilder, e: Shuffle) -> str:
    """A shuffle of four vectors of one type, which are put together first.

    LLVM makes ten instructions of a shuffle that interleaves four rows of bytes. AVX512-VBMI has
    one instruction for it. An empty statement of inline assembly hides the order from LLVM, which
    would split the shuffle again.
    """
    lanes, scalar = e.vectors[0].dtype.lanes, scalar_type(e.dtype)
    parts = [b.value(v) for v in e.vectors]
    while len(parts) > 1:
        kind, order = f"<{lanes} x {scalar}>", ", ".join(f"i32 {k}" for k in range(2 * lanes))
        mask = f"<{2 * lanes} x i32> <{order}>"
        pairs = zip(parts[::2], parts[1::2], strict=True)
        parts = [b.emit(f"shufflevector {kind} {x}, {kind} {y}, {mask}") for x, y in pairs]
        lanes *= 2
    kind = f"<{lanes} x {scalar}>"
    numbers = [i.value for i in e.indices if isinstance(i, IntImm)]
    if b.module.permutes_bytes and (lanes, e.dtype.lanes, scalar) == (64, 64, "i8"):
        name = b.module.declare("llvm.x86.avx512.permvar.qi.512", f"{kind} @({kind}, {kind})")
        order = ", ".join(f"i8 {k}" for k in numbers)
        places = b.emit(f'call {kind} asm "", "=v,0"({kind} <{order}>)')
        return b.emit(f"call {kind} {name}({kind} {parts[0]}, {kind} {places})")
    order = ", ".join(f"i32 {k}" for k in numbers)
    mask = f"<{len(numbers)} x i32> <{order}>"
    result = b.emit(f"shufflevector {kind} {parts[0]}, {kind} poison, {mask}")
    return result if e.dtype.lanes > 1 else b.emit(f"extractelement <1 x {scalar}> {result}, i32 0")


def _shuffle(b: FunctionBuilder, e: Shuffle) -> str:
    with _whole_vectors(b):  # the mask is about the lanes of the result
        return _shuffled(b, e)


def _shuffled(b: FunctionBuilder, e: Shuffle) -> str:
    types = {v.dtype for v in e.vectors}
    constant = all(isinstance(index, IntImm) for index in e.indices)
    if len(e.vectors) == 2 and len(types) == 1 and e.vectors[0].dtype.lanes > 1 and constant:
        return _shuffle_two(b, e)
    if len(e.vectors) == 4 and len(types) == 1 and e.vectors[0].dtype.lanes > 1 and constant:
        return _shuffle_four(b, e)
    scalar = scalar_type(e.dtype)
    lanes = [(v, i) for v in e.vectors for i in range(v.dtype.lanes)]
    result = "poison"
    for position, index in enumerate(e.indices):
        if not isinstance(index, IntImm):
            raise CompileError(f"a shuffle needs constant lane numbers, found {index!r}")
        vector, lane = lanes[index.value]
        one = b.value(vector)
        if vector.dtype.lanes > 1:
            one = b.emit(f"extractelement {llvm_type(vector.dtype)} {one}, i32 {lane}")
        if e.dtype.lanes == 1:
            return one
        kind = llvm_type(e.dtype)
        result = b.emit(f"insertelement {kind} {result}, {scalar} {one}, i32 {position}")
    return result


def _string(b: FunctionBuilder, e: StringImm) -> str:
    text = e.value.encode() + b"\0"
    name = f"@text.{len(b.module.globals)}"
    body = "".join(f"\\{byte:02X}" for byte in text)
    b.module.globals.append(f'{name} = private constant [{len(text)} x i8] c"{body}"')
    return name


HANDLERS: dict[type[Expr], Callable[..., str]] = {
    **dict.fromkeys((Add, Sub, Mul, And, Or), llvm_arith.binary),
    **dict.fromkeys((EQ, NE, LT, LE, GT, GE), llvm_arith.compare),
    Div: llvm_division.divide,
    Mod: llvm_division.remainder,
    FloorDiv: llvm_division.floor_divide,
    FloorMod: llvm_division.floor_remainder,
    Min: llvm_arith.extremum,
    Max: llvm_arith.extremum,
    Cast: llvm_arith.cast,
    Call: llvm_call.call,
    BufferLoad: llvm_memory.load,
    Broadcast: _broadcast,
    Ramp: _ramp,
    Select: _select,
    Not: _not,
    Let: _let,
    Shuffle: _shuffle,
    StringImm: _string,
}
