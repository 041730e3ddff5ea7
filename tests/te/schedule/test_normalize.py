"""normalize: inline, rebase, legalise attach."""

import pytest

from autosched import te
from autosched.errors import ScheduleError
from autosched.te.operations.tensor import Tensor
from autosched.te.relations import AttachType, Rebase
from autosched.te.schedule.schedule import Schedule
from autosched.tir.expr import FloatImm, Reduce
from kit.te import compute_of


def _chain() -> tuple[Tensor, Tensor, Tensor, Tensor, Schedule]:
    A = te.placeholder((16,), name="A")
    B = te.compute((16,), lambda i: A[i] + 1.0, name="B")
    C = te.compute((16,), lambda i: B[i] * B[15 - i], name="C")
    D = te.compute((16,), lambda i: C[i] - 3.0, name="D")
    return A, B, C, D, te.create_schedule(D.op)


def test_inlined_bodies_replace_loads_and_the_schedule_stays() -> None:
    A, B, C, D, s = _chain()
    s[B].compute_inline()
    s[C].compute_inline()
    n = s.normalize()
    (i,) = compute_of(D).axis
    assert compute_of(n[D]).body == ((A[i] + 1.0) * (A[15 - i.var] + 1.0) - 3.0,)
    assert n[B].attach_type is n[C].attach_type is AttachType.INLINED
    assert n.outputs == [n[D].op]
    assert s[D].op is D.op
    assert s[B].attach_type is AttachType.INLINE


def test_operations_are_inlined_once_for_all_schedules_that_inline_the_same() -> None:
    _A, B, C, D, s = _chain()
    s[B].compute_inline()
    other = te.create_schedule(D.op)
    other[B].compute_inline()
    other[D].split(compute_of(D).axis[0], factor=4)
    more = te.create_schedule(D.op)
    more[B].compute_inline()
    more[C].compute_inline()
    one, two, three = (each.normalize() for each in (s, other, more))
    assert one[D].op is two[D].op and one[C].op is two[C].op is not C.op
    assert three[D].op is not one[D].op


@pytest.mark.parametrize("tag", ["threadIdx.x", "blockIdx.y"])
@pytest.mark.parametrize("one", [True, False])
def test_one_thread_index_runs_one_loop_of_a_stage(tag: str, one: bool) -> None:
    _A, _B, _C, D, s = _chain()
    outer, inner = s[D].split(compute_of(D).axis[0], factor=4)
    thread = te.thread_axis(tag)
    s[D].bind(outer, thread)
    s[D].bind(inner, thread if one else te.thread_axis(tag))
    with pytest.raises(
        ScheduleError, match=rf"bind: stage D, axis i\.inner: {tag} runs loop i\.outer .* too"
    ):
        s.normalize()


def test_one_thread_index_runs_one_loop_of_a_reduction() -> None:
    A = te.placeholder((8, 8), name="A")
    k, m = te.reduce_axis((0, 8), "k"), te.reduce_axis((0, 8), "m")
    C = te.compute((1,), lambda i: te.sum(A[k, m], axis=[k, m]), name="C")
    s = te.create_schedule(C.op)
    s[C].bind(k, te.thread_axis("threadIdx.x"))
    s[C].bind(m, te.thread_axis("threadIdx.x"))
    with pytest.raises(ScheduleError, match=r"bind: stage C, axis m: threadIdx\.x runs loop k"):
        s.normalize()


def test_virtual_threads_are_as_many_as_their_axes() -> None:
    _A, _B, _C, D, s = _chain()
    outer, inner = s[D].split(compute_of(D).axis[0], factor=4)
    thread = te.thread_axis("vthread")
    s[D].bind(outer, thread)
    twice = s.copy()
    s[D].bind(inner, te.thread_axis("vthread"))
    s.normalize()
    twice[D].bind(inner, thread)
    with pytest.raises(ScheduleError, match=r"vthread runs loop .*another te\.thread_axis"):
        twice.normalize()


def test_inlining_between_stored_stages_rebuilds_what_follows() -> None:
    _A, B, C, D, s = _chain()
    s[B].compute_inline()
    n = s.normalize()
    assert n[C].op is not C.op
    assert n[D].op.inputs == (n[C].op.output(0),)
    assert n[C].leaf_iter_vars[0].var.name == "i"


def test_inlining_into_a_reduction_with_several_outputs() -> None:
    A = te.placeholder((4, 8), name="A")
    B = te.compute((4, 8), lambda i, j: A[i, j] * 2.0, name="B")
    k = te.reduce_axis((0, 8), "k")
    both = te.comm_reducer(
        lambda x, y: (x[0] + y[0], te.max(x[1], y[1])),
        lambda t, u: (te.const(0, t), te.min_value(u)),
    )
    C, _ = te.compute((4,), lambda i: both((B[i, k], B[i, k]), axis=k), name="C")
    s = te.create_schedule(C.op)
    s[B].compute_inline()
    first, second = compute_of(s.normalize()[C]).body
    assert isinstance(first, Reduce) and isinstance(second, Reduce)
    assert first.source == second.source == (A[C.op.axis[0], k] * 2.0,) * 2


def test_constant_matrices_cost_nothing_in_features() -> None:
    A, _B, _C, _, _ = _chain()
    M = te.compute((16,), lambda i: te.const(0.5), name="M", attrs={"const_matrix": True})
    E = te.compute((16,), lambda i: M[i] * A[i], name="E")
    s = te.create_schedule(E.op)
    s[M].compute_inline()
    (i,) = E.op.axis
    assert compute_of(s.normalize()[E]).body == (0.5 * A[i],)
    assert compute_of(s.normalize_for_feature_extraction()[E]).body == (1.0 * A[i],)
    assert isinstance(M.op.body[0], FloatImm)


def test_rebase_moves_loops_annotations_and_attach_points() -> None:
    _A, _B, C, D, s = _chain()
    (i,) = s[D].leaf_iter_vars
    s[C].compute_at(s[D], i)
    s[D].unroll(i)
    n = s.normalize()
    (new,) = n[D].leaf_iter_vars
    (relation,) = n[D].relations
    assert isinstance(relation, Rebase)
    assert (relation.parent, relation.rebased) == (i, new)
    assert new.var.name == "i"
    assert n[D].iter_var_attrs[new] is s[D].iter_var_attrs[i]
    assert n[C].attach_ivar is new
    assert n[D].all_iter_vars == [i]
    again = n.normalize()
    assert again[D].leaf_iter_vars == [new]
    assert again[D].relations == [relation]


def test_split_and_thread_bound_axes_are_not_rebased() -> None:
    _A, _B, C, D, s = _chain()
    s[D].bind(compute_of(D).axis[0], te.thread_axis("blockIdx.x"))
    s[C].split(compute_of(C).axis[0], factor=4)
    n = s.normalize()
    assert n[D].relations == []
    assert len(n[C].relations) == 1


def test_attach_points_follow_split_and_fuse() -> None:
    A = te.placeholder((4, 4), name="A")
    B = te.compute((4, 4), lambda i, j: A[i, j] + 1.0, name="B")
    C = te.compute((4, 4), lambda i, j: B[i, j] * 2.0, name="C")
    s = te.create_schedule(C.op)
    i, j = s[C].leaf_iter_vars
    s[B].compute_at(s[C], j)
    fused = s[C].fuse(i, j)
    _, inner = s[C].split(fused, factor=2)
    assert s.normalize()[B].attach_ivar is inner
    assert s[B].attach_ivar is j


def test_attached_to_an_inlined_stage() -> None:
    _A, B, C, _D, s = _chain()
    s[B].compute_at(s[C], s[C].leaf_iter_vars[0])
    s[C].compute_inline()
    with pytest.raises(ScheduleError, match=r"inline: stage C: stage B is computed inside it"):
        s.normalize()


def test_a_prefetch_of_an_inlined_stage() -> None:
    _A, B, C, _D, s = _chain()
    s[C].prefetch(B, compute_of(C).axis[0], 1)
    s[B].compute_inline()
    with pytest.raises(ScheduleError, match="prefetch: stage C, axis i: B is inlined and has no"):
        s.normalize()


def test_an_extern_reader_needs_its_input_stored() -> None:
    A = te.placeholder((4,), name="A")
    B = te.compute((4,), lambda i: A[i], name="B")
    E = te.extern((4,), [B], lambda i, o: te.call_extern("f", i[0].data, o[0].data), name="E")
    s = te.create_schedule(E.op)
    s[B].compute_inline()
    with pytest.raises(
        ScheduleError, match=r"compute_inline: stage B: E is not a te.compute and reads it"
    ):
        s.normalize()
