"""compute_at, compute_inline, compute_root, and how results are stored."""

from collections.abc import Callable

import pytest

from autosched import te
from autosched.errors import ScheduleError
from autosched.te.operations.tensor import Tensor
from autosched.te.relations import AttachType
from autosched.te.schedule.schedule import Schedule


@pytest.fixture
def chain() -> tuple[Schedule, Tensor, Tensor, Tensor, Tensor]:
    A = te.placeholder((16,), name="A")
    B = te.compute((16,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((16,), lambda i: B[i] * 2.0, name="C")
    D = te.compute((16,), lambda i: C[i] - 3.0, name="D")
    s = te.create_schedule(D.op)
    return s, A, B, C, D


def test_compute_at_and_back(chain: tuple[Schedule, Tensor, Tensor, Tensor, Tensor]) -> None:
    s, _, B, C, _ = chain
    (i,) = s[C].leaf_iter_vars
    s[B].compute_at(s[C], i)
    assert s[B].attach_type is AttachType.SCOPE
    assert (s[B].attach_stage, s[B].attach_ivar) == (s[C], i)
    s[B].compute_root()
    assert s[B].attach_type is AttachType.GROUP_ROOT
    assert (s[B].attach_stage, s[B].attach_ivar) == (None, None)


def test_inline_drops_the_attach_point(
    chain: tuple[Schedule, Tensor, Tensor, Tensor, Tensor],
) -> None:
    s, _, B, C, _ = chain
    s[B].compute_at(s[C], s[C].leaf_iter_vars[0])
    s[B].compute_inline()
    assert (s[B].attach_type, s[B].attach_stage) == (AttachType.INLINE, None)


def test_storage(chain: tuple[Schedule, Tensor, Tensor, Tensor, Tensor]) -> None:
    s, _, B, _, _ = chain
    s[B].set_scope("shared.dyn")
    s[B].double_buffer()
    s[B].set_store_predicate(te.var("x") < 3)
    assert (s[B].scope, s[B].is_double_buffered) == ("shared.dyn", True)


def _reduction() -> tuple[Schedule, Tensor, Tensor]:
    A = te.placeholder((4, 4), name="A")
    k = te.reduce_axis((0, 4), "k")
    R = te.compute((4,), lambda i: te.sum(A[i, k], axis=k), name="R")
    M, N = te.compute((4,), lambda i: (R[i] + 1.0, R[i] + 2.0), name="M")
    E = te.compute((4,), lambda i: M[i] + N[i], name="E")
    s = te.create_schedule(E.op)
    return s, R, M


REFUSED: dict[str, tuple[Callable[..., object], str]] = {
    "self": (
        lambda s, A, B, C, D: s[B].compute_at(s[B], s[B].leaf_iter_vars[0]),
        r"compute_at: stage B, axis i: a stage cannot be computed inside its own loops",
    ),
    "output": (
        lambda s, A, B, C, D: s[D].compute_at(s[C], s[C].leaf_iter_vars[0]),
        r"compute_at: stage D, axis i: an output must stay at the root",
    ),
    "not a leaf": (
        lambda s, A, B, C, D: s[B].compute_at(s[C], s[D].leaf_iter_vars[0]),
        r"compute_at: stage C, axis i: it is not an axis of this stage",
    ),
    "no stage": (
        lambda s, A, B, C, D: s[B].compute_at(C, s[C].leaf_iter_vars[0]),
        r"compute_at: stage B: expected the stage of a consumer, .* found Tensor",
    ),
    "placeholder": (
        lambda s, A, B, C, D: s[A].compute_at(s[B], s[B].leaf_iter_vars[0]),
        r"compute_at: stage A: a placeholder is not computed",
    ),
    "inline output": (
        lambda s, A, B, C, D: s[D].compute_inline(),
        r"compute_inline: stage D: an output must be stored",
    ),
    "unknown scope": (
        lambda s, A, B, C, D: s[B].set_scope("shred"),
        r"set_scope: stage B: unknown scope 'shred'; the scopes are global, local",
    ),
    "output scope": (
        lambda s, A, B, C, D: s[D].set_scope("local"),
        r"set_scope: stage D: an output must be stored in global, found local",
    ),
    "double output": (lambda s, A, B, C, D: s[D].double_buffer(), r"double_buffer: stage D"),
    "predicate": (
        lambda s, A, B, C, D: s[B].set_store_predicate(te.var("x")),
        r"set_store_predicate: stage B: .* is not a condition",
    ),
    "predicate True": (
        lambda s, A, B, C, D: s[B].set_store_predicate(True),
        r"set_store_predicate: stage B: expected a condition, .* found True \(bool\)",
    ),
    "scope None": (
        lambda s, A, B, C, D: s[B].set_scope(None),
        r"set_scope: stage B: unknown scope None; the scopes are",
    ),
    "scopes": (
        lambda s, A, B, C, D: s[B].set_scope(["local"]),
        r"set_scope: stage B: unknown scope \['local'\]; the scopes are",
    ),
    "scope of an input": (
        lambda s, A, B, C, D: s[A].set_scope("shared"),
        r"set_scope: stage A: a placeholder is not computed; cache_read copies it",
    ),
    "input twice": (
        lambda s, A, B, C, D: s[A].double_buffer(),
        r"double_buffer: stage A: a placeholder is not computed",
    ),
    "predicate of an input": (
        lambda s, A, B, C, D: s[A].set_store_predicate(te.var("x") < 3),
        r"set_store_predicate: stage A: a placeholder is not computed",
    ),
    "scope of a group": (
        lambda s, A, B, C, D: s.create_group(C, B).set_scope("shared"),
        r"set_scope: stage group: a group stores nothing itself",
    ),
    "env threads None": (
        lambda s, A, B, C, D: s[B].env_threads(None),
        r"env_threads: stage B: expected a te.thread_axis or a list of them, found None",
    ),
    "env threads": (
        lambda s, A, B, C, D: s[B].env_threads(te.thread_axis((0, 4), "threadIdx.x")),
        r"env_threads: stage B: only a scan",
    ),
    "unknown op": (
        lambda s, A, B, C, D: s[te.placeholder((4,), name="Z")],
        r"Z.* is not in this schedule; its stages are A, B, C, D",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_change_nothing(
    chain: tuple[Schedule, Tensor, Tensor, Tensor, Tensor], name: str
) -> None:
    act, message = REFUSED[name]
    s = chain[0]
    with pytest.raises(ScheduleError, match=message):
        act(*chain)
    assert all(x.attach_type is AttachType.GROUP_ROOT and x.scope == "" for x in s.stages)


def test_attach_cycles_are_refused(chain: tuple[Schedule, Tensor, Tensor, Tensor, Tensor]) -> None:
    s, _, B, C, _D = chain
    s[B].compute_at(s[C], s[C].leaf_iter_vars[0])
    with pytest.raises(ScheduleError, match=r"compute_at: stage C.*B is itself computed inside"):
        s[C].compute_at(s[B], s[B].leaf_iter_vars[0])


def test_reductions_and_several_outputs_cannot_be_inlined() -> None:
    s, R, M = _reduction()
    with pytest.raises(ScheduleError, match="compute_inline: stage R: a reduction"):
        s[R].compute_inline()
    with pytest.raises(ScheduleError, match="compute_inline: stage M: it has several outputs"):
        s[M].compute_inline()


def test_a_comparison_is_a_condition(
    chain: tuple[Schedule, Tensor, Tensor, Tensor, Tensor],
) -> None:
    s, _, B, _, _ = chain
    x = te.thread_axis((0, 8), "threadIdx.x")
    s[B].set_store_predicate(x == 0)
    assert s[B].store_predicate is te.eq(x, 0)
