"""Stage groups: membership, nesting, what they refuse."""

from typing import Any

import pytest

from autosched import te
from autosched.driver import lower
from autosched.errors import ScheduleError
from autosched.target import cpu_target
from autosched.te.bounds.infer_bound import infer_bound
from kit.tir import value_of


@pytest.fixture
def chain() -> tuple[Any, ...]:
    A = te.placeholder((16,), name="A")
    tensors = [A]
    for name in "BCDE":
        last = tensors[-1]
        tensors.append(te.compute((16,), lambda i, t=last: t[i] + 1.0, name=name, axis_names=["i"]))
    return te.create_schedule(tensors[-1].op), *tensors


def test_members_of_a_group(chain: tuple[Any, ...]) -> None:
    s, A, B, C, D, _E = chain
    g = s.create_group(outputs=C, inputs=A)
    assert [x.op.name for x in s.stages if x.group is g] == ["B", "C"]
    assert g.num_child_stages == 2
    assert s.groups == [g]
    g.compute_at(s[D], s[D].leaf_iter_vars[0])
    assert s[B].attach_spec() is g
    assert s[D].attach_spec() is s[D]


def test_placeholders_are_no_members(chain: tuple[Any, ...]) -> None:
    s, A, _B, C, D, E = chain
    g = s.create_group(outputs=C, inputs=A, include_inputs=True)
    assert [x.op.name for x in s.stages if x.group is g] == ["B", "C"]
    g.compute_at(s[D], s[D].leaf_iter_vars[0])
    assert value_of(infer_bound(s.normalize())[C.op.axis[0]].extent) == 1
    lower(s, [A, E], cpu_target(threads=1))


def test_groups_nest(chain: tuple[Any, ...]) -> None:
    s, A, B, C, D, _E = chain
    inner = s.create_group(outputs=C, inputs=B)
    outer = s.create_group(outputs=D, inputs=A)
    assert inner.group is outer
    assert (inner.num_child_stages, outer.num_child_stages) == (1, 3)
    assert s[C].group is inner
    middle = s.create_group(outputs=C, inputs=A)
    assert middle.group is outer
    assert inner.group is middle
    assert (middle.num_child_stages, outer.num_child_stages) == (2, 2)


def test_copies_of_groups_are_independent(chain: tuple[Any, ...]) -> None:
    s, A, B, C, D, _E = chain
    g = s.create_group(outputs=C, inputs=A)
    g.compute_at(s[D], s[D].leaf_iter_vars[0])
    t = s.copy()
    (h,) = t.groups
    assert h is not g
    assert t[B].group is h
    assert h.attach_stage is t[D]


def test_members_cannot_leave_their_group(chain: tuple[Any, ...]) -> None:
    s, A, B, C, D, _E = chain
    s.create_group(outputs=C, inputs=A)
    with pytest.raises(ScheduleError, match=r"compute_at: stage C.*D is outside of the stage's"):
        s[C].compute_at(s[D], s[D].leaf_iter_vars[0])
    s[B].compute_at(s[C], s[C].leaf_iter_vars[0])


def test_groups_are_not_computed_inside_themselves(chain: tuple[Any, ...]) -> None:
    s, A, B, C, D, _E = chain
    s.create_group(outputs=D, inputs=A)
    group = s.create_group(outputs=C, inputs=A)
    s.create_group(outputs=B, inputs=A).compute_at(s[C], s[C].leaf_iter_vars[0])
    for stage in (s[B], s[C]):
        why = f"compute_at: stage group.*stage {stage.name} is itself computed inside"
        with pytest.raises(ScheduleError, match=why):
            group.compute_at(stage, stage.leaf_iter_vars[0])
    group.compute_at(s[D], s[D].leaf_iter_vars[0])


def test_an_operation_is_no_tensor(chain: tuple[Any, ...]) -> None:
    s, A, _B, C, _D, _E = chain
    for outputs, inputs in ((C.op, A), (C, A.op), ([C, C.op], A)):
        with pytest.raises(ScheduleError, match=r"create_group: expected a tensor, .*`outputs`"):
            s.create_group(outputs=outputs, inputs=inputs)
    with pytest.raises(ScheduleError, match=r"current_tensor: expected a tensor, .*`outputs`"):
        s.current_tensor(C.op)


def test_overlapping_groups_are_refused(chain: tuple[Any, ...]) -> None:
    s, A, B, C, D, _E = chain
    g = s.create_group(outputs=C, inputs=A)
    with pytest.raises(ScheduleError, match=r"create_group: stage B: it belongs to a group of"):
        s.create_group(outputs=D, inputs=B)
    assert s.groups == [g]
    with pytest.raises(ScheduleError, match=r"create_group: stage B: no path leads from"):
        s.create_group(outputs=B, inputs=D)
