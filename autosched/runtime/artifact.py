"""What code generation hands to another process: object code and how to call it."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import Any

from autosched.codegen.llvm import assertion_messages, size_variables
from autosched.errors import CompileError, MeasureError
from autosched.layout import LayoutChange
from autosched.tir.dtype import DType
from autosched.tir.expr import BufferLoad, Call, Expr, IntImm, StringImm, Var
from autosched.tir.function import PrimFunc
from autosched.tir.stmt import BufferStore, Evaluate
from autosched.tir.walk import all_exprs, pre_order, stmts

_MAGIC = b"ASCPU001"


@dataclass(frozen=True, slots=True)
class ParamSpec:
    """One parameter: an array (`shape` is a tuple) or a scalar (`shape` is None).

    A dimension is an int or the name of a size variable, which all arrays that name it must agree
    on. `alignment` is in bytes. `is_output` says that the function writes the array. `layout`
    is set when the array is expected in another order than its tensor has; `shape` is the new one.
    """

    name: str
    dtype: str
    shape: tuple[int | str, ...] | None
    alignment: int = 1
    is_output: bool = False
    layout: LayoutChange | None = None

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> ParamSpec:
        """From the fields by name."""
        shape, layout = data["shape"], data.get("layout")
        shape = None if shape is None else tuple(shape)
        layout = None if layout is None else LayoutChange.from_json(layout)
        return cls(**{**data, "shape": shape, "layout": layout})


@dataclass(frozen=True, slots=True)
class CpuArtifact:
    """Object code with its signature. `object_code` may be loaded by any process on this machine.

    `sizes` are the size variables passed after the parameters, `messages` what the function's
    assertions say, `externs` the functions outside that it calls, `threads` the threads of its
    parallel loops.
    """

    object_code: bytes
    symbol: str
    params: tuple[ParamSpec, ...]
    sizes: tuple[str, ...] = ()
    messages: tuple[str, ...] = ()
    externs: tuple[str, ...] = ()
    threads: int = 1

    def with_layouts(self, changes: Iterable[LayoutChange]) -> CpuArtifact:
        """The same code, its parameters marked as stored in the order of `changes`."""
        params = list(self.params)
        for change in changes:
            params[change.position] = replace(params[change.position], layout=change)
        return replace(self, params=tuple(params))

    def to_bytes(self) -> bytes:
        """A self-contained byte string: magic, length of the header, JSON header, object code."""
        header = {
            "symbol": self.symbol,
            "params": [asdict(p) for p in self.params],
            "sizes": self.sizes,
            "messages": self.messages,
            "externs": self.externs,
            "threads": self.threads,
        }
        text = json.dumps(header).encode()
        return _MAGIC + struct.pack("<Q", len(text)) + text + self.object_code

    @classmethod
    def from_bytes(cls, data: bytes) -> CpuArtifact:
        """The inverse of `to_bytes`. Raises MeasureError (stage load) for anything else."""
        if data[:8] != _MAGIC:
            raise MeasureError("not a compiled CPU kernel: the first bytes differ", stage="load")
        (length,) = struct.unpack_from("<Q", data, 8)
        header = json.loads(data[16 : 16 + length])
        params = tuple(map(ParamSpec.from_json, header["params"]))
        return cls(
            data[16 + length :],
            header["symbol"],
            params,
            tuple(header["sizes"]),
            tuple(header["messages"]),
            tuple(header["externs"]),
            header["threads"],
        )


def artifact_of(func: PrimFunc, object_code: bytes, threads: int) -> CpuArtifact:
    """The artifact of `func` compiled to `object_code`."""
    written = _written(func)
    params = tuple(_param(func, var, written) for var in func.params)
    sizes = tuple(v.name for v in size_variables(func))
    messages = assertion_messages(func)
    return CpuArtifact(object_code, func.name, params, sizes, messages, _externs(func), threads)


def _externs(func: PrimFunc) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for e in all_exprs(func.body):
        if isinstance(e, Call) and e.op in ("call_extern", "call_pure_extern"):
            name = e.args[0]
            if isinstance(name, StringImm):
                found[name.value] = None
    return tuple(found)


def _written(func: PrimFunc) -> set[Var]:
    """The pointers that the function stores through, or passes to a call that may."""
    found = {s.buffer.data for s in stmts(func.body) if isinstance(s, BufferStore)}
    for s in stmts(func.body):
        if isinstance(s, Evaluate):
            for e in pre_order(s.value):
                if isinstance(e, BufferLoad):
                    found.add(e.buffer.data)
                elif isinstance(e, Var) and e.dtype.is_handle:
                    found.add(e)
    return found


def _param(func: PrimFunc, var: Var, written: set[Var]) -> ParamSpec:
    buffer = func.buffer_map.get(var)
    if buffer is None:
        if var.dtype.is_handle:
            raise CompileError(f"the parameter {var.name} is a pointer without a buffer")
        return ParamSpec(var.name, var.dtype.name, None)
    if buffer.strides:
        raise CompileError(
            f"the parameter {buffer.name} has strides; only compact row-major arrays are passed"
        )
    shape = tuple(_dimension(e) for e in buffer.shape)
    name = buffer.dtype.element.name
    return ParamSpec(buffer.name, name, shape, DType(name).bytes, buffer.data in written)


def _dimension(extent: Expr) -> int | str:
    match extent:
        case IntImm(v):
            return v
        case Var(name):
            return name
    raise CompileError(f"a parameter's dimension must be a constant or a variable: {extent!r}")
