"""decl_tensor_intrin: what it accepts."""

from collections.abc import Callable

import pytest

from autosched import te
from autosched.te.operations.tensor import Tensor
from autosched.tir.buffer import Buffer
from autosched.tir.expr import Expr
from autosched.tir.stmt import Evaluate


def _dot(n: int = 8) -> Tensor:
    a, b = te.placeholder((n,), name="a"), te.placeholder((n,), name="b")
    k = te.reduce_axis((0, n), "k")
    result: Tensor = te.compute((1,), lambda i: te.sum(a[k] * b[k], axis=k), name="c")
    return result


def _call(name: str) -> Callable[[list[Buffer], list[Buffer]], Expr]:
    return lambda ins, outs: te.call_extern(name, *(b.data for b in (*ins, *outs)))


def test_body_only_and_with_init_and_update() -> None:
    c = _dot()
    whole = te.decl_tensor_intrin(c.op, _call("dot"), name="dot")
    assert isinstance(whole.body, Evaluate)
    assert (whole.reduce_init, whole.reduce_update) == (None, None)
    assert [b.name for b in whole.buffers] == ["a", "b", "c"]
    assert all(b.elem_offset is not None for b in whole.buffers)
    parts = te.decl_tensor_intrin(
        c.op, lambda i, o: (_call("dot")(i, o), _call("zero")([], o), _call("add")(i, o))
    )
    assert parts.reduce_init is not None
    assert parts.reduce_update is not None


def test_refusals() -> None:
    c = _dot()
    with pytest.raises(ValueError, match="one to three"):
        te.decl_tensor_intrin(c.op, lambda i, o: [])
    with pytest.raises(ValueError, match="needs reduce_update"):
        te.decl_tensor_intrin(c.op, lambda i, o: (_call("a")(i, o), _call("b")(i, o)))
    with pytest.raises(ValueError, match=r"expected a te.compute"):
        te.decl_tensor_intrin(c.op.inputs[0].op, _call("a"))
    d = te.compute((4,), lambda i: c[0] + i.astype("float32"), name="d")
    with pytest.raises(ValueError, match="d is not a reduction"):
        te.decl_tensor_intrin(d.op, lambda i, o: (_call("a")(i, o), None, _call("b")(i, o)))


def test_tensorize_marks_the_loop() -> None:
    c = _dot()
    intrin = te.decl_tensor_intrin(c.op, _call("dot"))
    stage = te.create_schedule(c.op)[c]
    stage.tensorize(stage.leaf_iter_vars[0], intrin)
    assert stage.iter_var_attrs[stage.leaf_iter_vars[0]].tensor_intrin is intrin
