"""Schedules as a whole: creation, copying, replacement of operations."""

from collections.abc import Callable
from typing import Any

import pytest

from autosched import te
from autosched.errors import ScheduleError
from autosched.te.operations.tensor import Tensor
from autosched.te.schedule.schedule import Schedule
from autosched.tir.expr import Expr, Var
from kit.te import compute_of


def _matmul_relu() -> tuple[Tensor, ...]:
    A = te.placeholder((8, 4), name="A")
    B = te.placeholder((4, 8), name="B")
    k = te.reduce_axis((0, 4), "k")
    C = te.compute((8, 8), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    D = te.compute((8, 8), lambda i, j: te.max(C[i, j], 0.0), name="D")
    return A, B, C, D


def _names(schedule: Schedule) -> list[str]:
    return [stage.op.name for stage in schedule.stages]


def test_stages_are_in_post_order_and_outputs_marked() -> None:
    _A, _B, C, D = _matmul_relu()
    s = te.create_schedule(D)
    assert _names(s) == ["A", "B", "C", "D"]
    assert [stage.is_output for stage in s.stages] == [False, False, False, True]
    assert s[C] is s[C.op] is s.stages[2]
    assert s[C].leaf_iter_vars == list(C.op.root_iter_vars)


def test_several_outputs_one_of_which_is_read() -> None:
    _A, _B, C, D = _matmul_relu()
    s = te.create_schedule([C.op, D.op])
    assert s.outputs == [C.op, D.op]
    assert [stage.is_output for stage in s.stages] == [False, False, True, True]
    with pytest.raises(ScheduleError, match="is not in this schedule; its stages are A, B"):
        s[[C, D]]  # type: ignore[index]  # a list is refused
    with pytest.raises(ScheduleError, match="no operation given"):
        te.create_schedule([])


def test_only_tensors_and_operations_are_scheduled() -> None:
    _A, _B, _C, D = _matmul_relu()
    for given in (None, "D", [D, 3]):
        with pytest.raises(ScheduleError, match="create_schedule: expected tensors or operations"):
            te.create_schedule(given)  # type: ignore[arg-type]  # what is refused


def test_a_stage_computed_in_another_schedule_is_refused() -> None:
    _A, _B, C, D = _matmul_relu()
    s, other = te.create_schedule(D), te.create_schedule(D)
    s[C].compute_at(other[D], compute_of(D).axis[0])
    with pytest.raises(
        ScheduleError, match=r"compute_at: stage C, axis i: stage D, .* belongs to another schedule"
    ):
        s.normalize()


def test_copies_are_independent() -> None:
    _A, _B, C, D = _matmul_relu()
    s = te.create_schedule(D)
    s[C].compute_at(s[D], s[D].leaf_iter_vars[1])
    t = s.copy()
    assert t[C] is not s[C]
    assert t[C].attach_stage is t[D]
    t[C].split(compute_of(C).axis[0], factor=2)
    t.cache_write(C, "local")
    t[D].unroll(t[D].leaf_iter_vars[0])
    assert _names(s) == ["A", "B", "C", "D"]
    assert s[C].leaf_iter_vars == list(C.op.root_iter_vars)
    assert s[D].iter_var_attrs == {}
    assert s[C].op is C.op


def test_stages_are_found_by_original_and_by_new_operations() -> None:
    _A, _B, C, D = _matmul_relu()
    s = te.create_schedule(D)
    CL = s.cache_write(C, "local")
    assert s[C] is s[s[C].op]
    assert s[C].origin_op is C.op
    assert s.current_tensor(C).op.inputs == (CL,)
    assert s[D].op.inputs == (s.current_tensor(C),)
    assert s.outputs == [s[D].op]


U = te.placeholder((8,), "uint8", name="U")


@pytest.mark.parametrize(
    ("index", "elements"),
    [
        (lambda i, k: -1, "-1..-1"),
        (lambda i, k: 8, r"8\.\.8"),
        (lambda i, k: i + 1, r"1\.\.8"),
        (lambda i, k: i + k, r"0\.\.9"),
        (lambda i, k: -i, r"-7\.\.0"),
        (lambda i, k: U[i] + te.const(9, "int32"), r"9\.\.264"),
    ],
)
def test_a_read_outside_of_a_tensor_is_refused(index: Any, elements: str) -> None:
    """It read whatever lay beside the array."""
    A, k = te.placeholder((8,), name="A"), te.reduce_axis((0, 3), "k")
    B = te.compute((8,), lambda i: te.sum(A[index(i, k)], axis=k), name="B")
    C = te.compute((8,), lambda i: B[i] + 1.0, name="C")
    message = (
        f"create_schedule: B reads A at .*, elements {elements} of an axis of length 8; choose"
    )
    with pytest.raises(ScheduleError, match=message):
        te.create_schedule(C.op)


def test_reads_that_may_be_inside_are_not_refused() -> None:
    A, n, k = te.placeholder((8,), name="A"), te.var("n"), te.reduce_axis((0, 3), "k")
    V = te.placeholder((n,), name="V")
    functions: list[Callable[[Var], Expr]] = [
        lambda i: te.if_then_else(i > 0, A[i - 1], 0.0),
        lambda i: te.sum(A[i + k], axis=k, where=i + k < 8),
        lambda i: A[i + n - 8],
        lambda i: A[te.cast("int32", A[i]) + 9],
        lambda i: A[(i + 3) % 8],
        lambda i: V[i + 1],
    ]
    tensors = [te.compute((8,), function, name="B") for function in functions]
    for tensor in (*tensors, te.compute((0,), lambda i: A[i + 9], name="B")):
        op = compute_of(tensor)
        assert te.create_schedule(op).stages[-1].op is op and op.reads_inside


def test_a_step_of_a_scan_begins_later_than_its_axis() -> None:
    X, state = (te.placeholder((8, 4), name=name) for name in ("X", "state"))
    init = te.compute((1, 4), lambda _, i: X[0, i])
    update = te.compute((8, 4), lambda t, i: state[t - 1, i] + X[t - 1, i])
    schedule = te.create_schedule(te.scan(init, update, state, [X]).op)
    assert {init.op, update.op} < {stage.op for stage in schedule.stages}
    assert not any(compute_of(tensor).reads_inside for tensor in (init, update))  # nobody knows
