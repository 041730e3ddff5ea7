"""The result of code generation for a CPU: object code and how to call it, also as bytes."""

from __future__ import annotations

import json
import keyword
import re
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from autosched import arguments
from autosched.codegen.llvm import assertion_messages, size_variables
from autosched.errors import CompileError, MeasureError
from autosched.layout import LayoutChange
from autosched.tir.dimension import Dimension, as_dimension, unsolvable
from autosched.tir.dtype import DType, int32
from autosched.tir.expr import BufferLoad, Call, Expr, IntImm, StringImm, Var
from autosched.tir.function import PrimFunc
from autosched.tir.kinds import bits_of, exprs_with, stored_in
from autosched.tir.stmt import Evaluate
from autosched.tir.walk import distinct, stmts
from autosched.words import count, numbered

_FAMILY = b"ASCPU"
_MAGIC = _FAMILY + b"002"
_LENGTHS = struct.Struct("<LQL")  # bytes of the header, bytes of header and code, checksum of both


@dataclass(frozen=True, slots=True)
class ParamSpec:
    """One parameter: an array (`shape` is a tuple) or a scalar (`shape` is None).

    - `shape`: each dimension is an int, the name of a size, or an expression of such names
      (`tir/dimension.py`). All arrays and scalars that name a size must agree on it.
    - `alignment`: the required alignment of the address, in bytes.
    - `is_output`: the function writes the array.
    - `layout`: set when the array is expected in another storage order than its tensor has; `shape`
      is then the new one.
    - `most`: how many elements the kernel's indices can address; 0 where the shape is constant.
    """

    name: str
    dtype: str
    shape: tuple[Dimension, ...] | None
    alignment: int = 1
    is_output: bool = False
    layout: LayoutChange | None = None
    most: int = 0

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> ParamSpec:
        """Create it from a dictionary of its fields."""
        shape, layout = data["shape"], data.get("layout")
        shape = None if shape is None else tuple(shape)
        layout = None if layout is None else LayoutChange.from_json(layout)
        return cls(**{**data, "shape": shape, "layout": layout})


@dataclass(frozen=True, slots=True)
class CpuArtifact:
    """Object code with its signature; any process on this machine may load `object_code`.

    - `symbol`: the name of the function.
    - `params`: its parameters.
    - `sizes`: the size variables that are passed after the parameters.
    - `messages`: the messages of the function's assertions.
    - `externs`: the external functions that it calls.
    - `threads`: the number of threads of its parallel loops.
    """

    object_code: bytes
    symbol: str
    params: tuple[ParamSpec, ...]
    sizes: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()
    externs: tuple[str, ...] = ()
    threads: int = 1

    @property
    def parallel(self) -> bool:
        """Whether the code has parallel loops: it refers to the function that launches them."""
        return b"autosched_parallel_launch" in self.object_code

    def with_layouts(self, changes: Iterable[LayoutChange]) -> CpuArtifact:
        """The same code with the parameters marked as stored in the order of `changes`."""
        params = list(self.params)
        for change in changes:
            params[change.position] = replace(params[change.position], layout=change)
        return replace(self, params=tuple(params))

    def to_bytes(self) -> bytes:
        """A self-contained byte string: magic, lengths and checksum, JSON header, object code."""
        header = {
            "symbol": self.symbol,
            "params": [asdict(p) for p in self.params],
            "sizes": self.sizes,
            "messages": self.messages,
            "externs": self.externs,
            "threads": self.threads,
        }
        text = json.dumps(header).encode()
        rest = text + self.object_code
        return _MAGIC + _LENGTHS.pack(len(text), len(rest), _checksum(len(text), rest)) + rest

    @classmethod
    def from_bytes(cls, data: bytes | bytearray | memoryview) -> CpuArtifact:
        """The inverse of `to_bytes`.

        Raises MeasureError (stage load) for anything else: other bytes, missing or changed bytes, a
        kernel of another version of autosched.
        """
        if not isinstance(data, bytes | bytearray | memoryview):
            raise _unreadable(f"expected bytes, {arguments.found(data)}")
        data = bytes(data)
        if not data.startswith(_FAMILY):
            raise _unreadable("the first bytes differ")
        start = len(_MAGIC) + _LENGTHS.size
        if len(data) >= len(_MAGIC) and not data.startswith(_MAGIC):
            raise _unreadable("it was made by another version of autosched; build it again")
        if len(data) < start:
            raise _unreadable(f"it ends after {count(len(data), 'byte')}")
        length, size, checksum = _LENGTHS.unpack_from(data, len(_MAGIC))
        rest = data[start:]
        if len(rest) != size:
            raise _unreadable(f"expected {start + size} bytes, found {len(data)}")
        if _checksum(length, rest) != checksum:
            raise _unreadable("its checksum is wrong, so some of its bytes were changed")
        header = json.loads(rest[:length])
        params = tuple(map(ParamSpec.from_json, header["params"]))
        return cls(
            rest[length:],
            header["symbol"],
            params,
            tuple(header["sizes"]),
            tuple(header["messages"]),
            tuple(header["externs"]),
            header["threads"],
        )


def _checksum(length: int, rest: bytes) -> int:
    """The CRC of the header's length, the header and the code."""
    return zlib.crc32(rest, length)


def _unreadable(why: str) -> MeasureError:
    return MeasureError(f"not a compiled CPU kernel: {why}", stage="load")


def artifact_of(func: PrimFunc, object_code: bytes, threads: int) -> CpuArtifact:
    """The artifact of `func` compiled to `object_code`."""
    params = params_of(func, written(func))
    names = _size_names(func)
    sizes = tuple(names[v] for v in size_variables(func))
    _check_solvable(params, set(names.values()) - set(sizes))
    messages = assertion_messages(func)
    return CpuArtifact(object_code, func.name, params, sizes, messages, _externs(func), threads)


def params_of(func: PrimFunc, written: set[Var]) -> tuple[ParamSpec, ...]:
    """The parameters that callers of `func` pass.

    Those through whose pointers in `written` the function stores are outputs. An array that is
    named as another parameter gets a number behind its name (A, A_1).

    Raises CompileError for a pointer without a buffer and for an array with strides.
    """
    names = _size_names(func)
    return tuple(_named_apart([_param(func, var, written, names) for var in func.params]))


def _named_apart(params: Sequence[ParamSpec]) -> Iterator[ParamSpec]:
    """The parameters, of which arrays have names that no parameter before them and no size has."""
    every = {p.name for p in params}
    taken = {p.name for p in params if p.shape is None}
    for p in params:
        if p.shape is not None:
            name = numbered(p.name, every) if p.name in taken else p.name
            every.add(name)
            taken.add(name)
            p = replace(p, name=name)
        yield p


def _size_names(func: PrimFunc) -> dict[Var, str]:
    """Unique identifiers for the scalar parameters and the size variables."""
    scalars = [v for v in func.params if v not in func.buffer_map]
    names: dict[Var, str] = {}
    taken: set[str] = set()
    for var in (*scalars, *size_variables(func)):
        base = name = re.sub(r"\W", "_", var.name) or "size"
        count = 0
        while name in taken or not name.isidentifier() or keyword.iskeyword(name):
            count += 1
            name = f"{base}_{count}" if base.isidentifier() else f"size_{base}_{count}"
        taken.add(name)
        names[var] = name
    return names


def _check_solvable(params: tuple[ParamSpec, ...], given: set[str]) -> None:
    dimensions = [(d, p.name) for p in params for d in p.shape or ()]
    found = unsolvable([d for d, _ in dimensions], given)
    if found is not None:
        size, dimension = found
        where = next(name for d, name in dimensions if d == dimension)
        raise CompileError(
            f"the size {size} cannot be computed from the dimension {dimension} of {where}; make "
            f"{size} an argument of the function, or a dimension of one of its arrays"
        )


def _externs(func: PrimFunc) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for e in exprs_with(func.body, bits_of(Call)):
        if isinstance(e, Call) and e.op in ("call_extern", "call_pure_extern"):
            name = e.args[0]
            if isinstance(name, StringImm):
                found[name.value] = None
    return tuple(found)


def written(func: PrimFunc) -> set[Var]:
    """The pointers through which the function stores, or which it passes to a call that may.

    A pointer of a `tvm_access_ptr` that is only read through is left out, as are prefetches.
    """
    calls = [s.value for s in stmts(func.body) if isinstance(s, Evaluate)]
    return stored_in(func.body).union(*map(_given, calls))


def _given(call: Expr) -> Iterator[Var]:
    """The pointers in `call` that are written through, as far as it says."""
    for e in distinct(call, _may_write):
        if isinstance(e, Var) and e.dtype.is_handle:
            yield e
        elif isinstance(e, Call) and e.op == "address_of":
            yield from (a.buffer.data for a in e.args if isinstance(a, BufferLoad))


def _may_write(e: Expr) -> Sequence[Expr]:
    """The sub-expressions of `e` without a pointer that is only read through."""
    match e:
        case Call("tvm_access_ptr", (kind, _, *others, IntImm(mask))) if not mask & 2:
            return (kind, *others)
        case Call("prefetch", (_, *options)):
            return options
    return e.children()


def _param(func: PrimFunc, var: Var, written: set[Var], names: Mapping[Var, str]) -> ParamSpec:
    buffer = func.buffer_map.get(var)
    if buffer is None:
        if var.dtype.is_handle:
            raise CompileError(f"the parameter {var.name} is a pointer without a buffer")
        return ParamSpec(names[var], var.dtype.name, None)
    if buffer.strides:
        raise CompileError(
            f"the parameter {buffer.name} has strides; only compact row-major arrays are passed"
        )
    try:
        shape = tuple(as_dimension(e, names) for e in buffer.shape)
    except ValueError as error:
        raise CompileError(f"parameter {buffer.name}: {error}") from None
    name = buffer.dtype.element.name
    index = max((e.dtype for e in buffer.shape), key=lambda dtype: dtype.bits, default=int32)
    most = 0 if all(isinstance(e, IntImm) for e in buffer.shape) else int(index.max_value)
    is_output = buffer.data in written
    return ParamSpec(buffer.name, name, shape, DType(name).bytes, is_output, most=most)
