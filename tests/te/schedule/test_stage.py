"""Stages: what a fresh one, a copy and a reset one hold."""

from autosched import te
from autosched.te.relations import AttachType
from autosched.te.schedule.stage import Stage
from kit.te import compute_of


def _stage() -> Stage:
    A = te.placeholder((8, 4), name="A")
    B = te.compute((8, 4), lambda i, j: A[i, j] + 1.0, name="B")
    return te.create_schedule(B.op)[B]


def test_a_fresh_stage() -> None:
    stage = _stage()
    assert stage.name == "B"
    assert stage.leaf_iter_vars == stage.all_iter_vars == list(compute_of(stage).axis)
    assert (stage.attach_type, stage.scope) == (AttachType.GROUP_ROOT, "")
    assert repr(stage) == "Stage(B: i, j)"
    assert stage.attach_spec() is stage


def test_a_copy_has_every_field_and_lists_of_its_own() -> None:
    stage = _stage()
    copy = stage.copy()
    for field in Stage.__slots__:
        assert getattr(copy, field) == getattr(stage, field), field
    copy.split(copy.leaf_iter_vars[0], factor=2)
    copy.unroll(copy.leaf_iter_vars[0])
    assert stage.relations == []
    assert stage.leaf_iter_vars == list(compute_of(stage).axis)
    assert stage.iter_var_attrs == {}


def test_reset_keeps_what_is_known_of_the_axes() -> None:
    stage = _stage()
    stage.is_output = False
    i, j = stage.leaf_iter_vars
    stage.storage_align(i, 8, 1)
    _, inner = stage.split(j, factor=2)
    stage.unroll(inner)
    stage.reset_loops(stage.op)
    assert stage.leaf_iter_vars == stage.all_iter_vars == [i, j]
    assert stage.relations == []
    assert list(stage.iter_var_attrs) == [i]
