"""Loads, stores and addresses in CUDA C; vectors are accessed whole or not at all."""

from __future__ import annotations

from autosched.codegen.cuda_types import value_type, vector_type
from autosched.codegen.cuda_writer import Level, Text, Writer
from autosched.codegen.flat_access import only_index
from autosched.errors import CompileError
from autosched.tir.buffer import Buffer
from autosched.tir.expr import (
    Broadcast,
    BufferLoad,
    Call,
    Expr,
    IntImm,
    Let,
    Ramp,
    Select,
    Shuffle,
    Var,
)
from autosched.tir.op import add
from autosched.transform.device.alignment import is_aligned


def load(w: Writer, e: Expr) -> Text:
    """A scalar `buffer[index]`."""
    assert isinstance(e, BufferLoad)
    if e.dtype.lanes > 1:
        raise CompileError(f"a vector load inside an expression: split wide vectors first: {e!r}")
    if e.predicate is not None:
        raise CompileError(f"a load with a predicate cannot be compiled for CUDA: {e!r}")
    element = Text(_element(w, e.buffer, only_index(e.buffer, e.indices)))
    return Text(f"{element.text} != 0", Level.EQUAL) if e.dtype.is_bool else element


def store(w: Writer, buffer: Buffer, index: Expr, value: Expr) -> str:
    """The assignment of a scalar or a vector, without the semicolon."""
    if index.dtype.lanes == 1 and buffer.dtype.lanes == 1:
        return f"{_element(w, buffer, index)} = {w.text(value)}"
    place = f"*reinterpret_cast<{vector_type(value.dtype)}*>({_vector_address(w, buffer, index)})"
    return f"{place} = {vector(w, value)}"


def vector(w: Writer, e: Expr) -> str:
    """A vector: a variable, a load, a broadcast, a shuffle of scalars, or a choice between two.

    Raises CompileError for a computation on vectors, which SplitWideVectors takes apart.
    """
    w.use("vec")
    kind = vector_type(e.dtype)
    match e:
        case Var():
            return w.text(e)
        case BufferLoad(predicate=None):
            index = only_index(e.buffer, e.indices)
            return f"*reinterpret_cast<const {kind}*>({_vector_address(w, e.buffer, index)})"
        case Broadcast():
            return f"{kind}{{{{{', '.join([_lane_value(w, e.value)] * e.lanes)}}}}}"
        case Shuffle() if all(v.dtype.lanes == 1 for v in e.vectors):
            lanes = [e.vectors[i.value] for i in e.indices if isinstance(i, IntImm)]
            return f"{kind}{{{{{', '.join(_lane_value(w, lane) for lane in lanes)}}}}}"
        case Call(op="if_then_else", args=(condition, yes, no)) if condition.dtype.lanes == 1:
            return f"{w.operand(condition, Level.OR)} ? {vector(w, yes)} : {vector(w, no)}"
    raise CompileError(f"a computation on vectors: split wide vectors first: {e!r}")


def _lane_value(w: Writer, e: Expr) -> str:
    """A lane between braces, where C++ makes no `int`, as a choice of a constant is, narrower."""
    choice = isinstance(e, Select | Let) or (isinstance(e, Call) and e.op == "if_then_else")
    narrow = e.dtype.is_integral and not e.dtype.is_bool and e.dtype.bits < 32
    return f"({value_type(e.dtype)})({w.text(e)})" if choice and narrow else w.text(e)


def lane(w: Writer, e: Expr) -> Text:
    """One lane of a vector variable."""
    assert isinstance(e, Shuffle)
    match e.vectors, e.indices:
        case (Var() as source,), (IntImm(value=number),):
            return Text(f"{w.text(source)}.v[{number}]")
    raise CompileError(f"a computation on vectors: split wide vectors first: {e!r}")


def address_of(w: Writer, e: Expr) -> Text:
    """The address of an element of a buffer."""
    if not isinstance(e, BufferLoad):
        raise CompileError(f"address_of needs an element of a buffer, found {e!r}")
    index = only_index(e.buffer, e.indices)
    first = index.base if isinstance(index, Ramp) else index
    return Text(f"&{_element(w, e.buffer, first)}", Level.UNARY)


def _element(w: Writer, buffer: Buffer, index: Expr) -> str:
    if buffer.dtype.lanes > 1:
        raise CompileError(f"{buffer.name} holds vectors: split wide vectors first")
    return f"{_base(w, buffer)}[{w.text(_with_offset(buffer, index))}]"


def _with_offset(buffer: Buffer, index: Expr) -> Expr:
    return index if buffer.elem_offset is None else add(index, buffer.elem_offset)


def _base(w: Writer, buffer: Buffer) -> str:
    name, dtype = w.pointer(buffer)
    if dtype is buffer.dtype.element:
        return name
    return w.pointer_as(buffer.data, name, buffer.dtype)


def _vector_address(w: Writer, buffer: Buffer, index: Expr) -> str:
    if not is_aligned(buffer, index):
        raise CompileError(
            f"the vector access to {buffer.name} at {index!r} may be misaligned: split wide "
            "vectors first"
        )
    assert isinstance(index, Ramp)
    base = w.operand(_with_offset(buffer, index.base), Level.ADD)
    return f"{_base(w, buffer)} + {base}"
