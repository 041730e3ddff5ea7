"""te.extern: outputs, types and buffers."""

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from autosched import te
from autosched.driver import build, lower
from autosched.runtime.cpu import load, register_extern
from autosched.target import cpu_target
from autosched.te.operations.operation import ExternOp
from autosched.tir import interp
from autosched.tir.buffer import Buffer
from autosched.tir.dtype import DType
from autosched.tir.expr import Expr
from autosched.tir.stmt import Evaluate


def _copy_bytes(source: int, target: int, size: int) -> int:
    ctypes.memmove(target, source, size)
    return 0


def _copy_elements(source: Any, target: Any, size: int) -> int:
    target[: size // target.itemsize] = source[: size // target.itemsize]
    return 0


_COPY = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)
register_extern("copy_bytes", _COPY(_copy_bytes))
interp.register_extern("copy_bytes", _copy_elements)


def _call(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Expr:
    return te.call_extern("f", *(b.data for b in (*ins, *outs)))


def test_one_output_takes_the_type_of_the_inputs() -> None:
    A = te.placeholder((4,), "float16", name="A")
    B = te.extern((4, 2), [A], _call, name="B")
    assert (str(B.dtype), [e.value for e in B.shape]) == ("float16", [4, 2])
    assert isinstance(B.op.body, Evaluate)
    assert B.op.inputs == (A,)
    assert (B.op.input_buffers[0].name, B.op.output_buffers[0].name) == ("A", "B")
    assert B.op.root_iter_vars == ()


def test_several_outputs() -> None:
    A = te.placeholder((4,), name="A")
    B, C = te.extern([(4,), (2, 2)], [A], _call, dtype=["float32", "int32"], name="B")
    assert B.op is C.op
    assert (str(C.dtype), C.name) == ("int32", "B.v1")


def test_an_unclear_type_is_refused() -> None:
    A, B = te.placeholder((4,), "int32"), te.placeholder((4,), "float32")
    with pytest.raises(ValueError, match="the type of the output is not clear"):
        te.extern((4,), [A, B], _call)
    with pytest.raises(ValueError, match="2 outputs, 1 types"):
        te.extern([(4,), (4,)], [A], _call, dtype=["int32"])


def test_caching_an_input_of_an_extern() -> None:
    A = te.placeholder((4,), name="A")
    E = te.extern((4,), [A], _call, name="E")
    s = te.create_schedule(E.op)
    cached = s.cache_read(A, "global", [E])
    assert s[E].op.inputs == (cached,)
    copy = s[E].op
    assert isinstance(copy, ExternOp)
    assert copy.input_buffers == E.op.input_buffers


def test_forms_of_arguments() -> None:
    A = te.placeholder((4,), name="A")
    B = te.extern((4,), A, _call, dtype=np.float16)
    assert B.op.inputs == (A,) and B.dtype == "float16"
    with pytest.raises(ValueError, match=r"te\.extern E: the function returned no statement"):
        te.extern((4,), [A], lambda ins, outs: None, name="E")
    with pytest.raises(ValueError, match=r"no statement and no call, found 5 \(int\)"):
        te.extern((4,), [A], lambda ins, outs: 5)
    assert te.extern(4, [A], _call).shape == B.shape  # as in te.placeholder


def _copied(start: int) -> Callable[[Sequence[Buffer], Sequence[Buffer]], Expr]:
    def call(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Expr:
        source, target = ins[0].access_ptr("r", offset=start), outs[0].access_ptr("w", offset=start)
        return te.call_extern("copy_bytes", source, target, (36 - start) * ins[0].dtype.bytes)

    return call


@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float8_e5m2", "bool", "int8", "int64"])
@pytest.mark.parametrize("start", [0, 9])
def test_access_pointers_say_what_is_only_read(dtype: str, start: int) -> None:
    A = te.placeholder((4, 9), dtype, name="A")
    B = te.extern((4, 9), [A], _copied(0), name="B")
    C = te.extern((4, 9), [B], _copied(start), name="C")
    args = te.create_schedule(C.op), [A, C], cpu_target()
    kernel = load(build(*args))
    a = np.random.default_rng(0).integers(0, 2, (4, 9)).astype(DType(dtype).numpy)
    a.flags.writeable = False
    rows = slice(start // 9, None)
    np.testing.assert_array_equal(kernel(a)[rows], a[rows])  # C is made, A may be read-only
    out = np.zeros_like(a)
    interp.run(lower(*args), [a, out])
    np.testing.assert_array_equal(out[rows], a[rows])
