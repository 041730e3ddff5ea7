"""te.extern: outputs, types and buffers."""

from collections.abc import Sequence

import numpy as np
import pytest

from autosched import te
from autosched.te.operations.operation import ExternOp
from autosched.tir.buffer import Buffer
from autosched.tir.expr import Expr
from autosched.tir.stmt import Evaluate


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
