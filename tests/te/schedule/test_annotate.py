"""Annotations of loops: what they record and refuse."""

from collections.abc import Callable
from typing import Any

import pytest

from autosched import te
from autosched.errors import ScheduleError
from autosched.te.schedule.stage import Stage
from autosched.tir.expr import IterKind
from kit.tir import value_of


@pytest.fixture
def stage() -> Stage:
    A = te.placeholder((16, 16), name="A")
    k = te.reduce_axis((0, 16), "k")
    C = te.compute((16,), lambda i: te.sum(A[i, k], axis=k), name="C")
    return te.create_schedule(C.op)[C]


def test_annotations_are_recorded_on_the_loop(stage: Stage) -> None:
    i, k = stage.leaf_iter_vars
    stage.parallel(i)
    stage.unroll(k)
    assert stage.iter_var_attrs[i].iter_kind == IterKind.PARALLELIZED
    assert stage.iter_var_attrs[k].iter_kind == IterKind.UNROLLED
    stage.vectorize(i)
    assert stage.iter_var_attrs[i].iter_kind == IterKind.VECTORIZED


def test_bind_reduction_and_data_loops(stage: Stage) -> None:
    i, k = stage.leaf_iter_vars
    block, thread = te.thread_axis("blockIdx.x"), te.thread_axis("threadIdx.x")
    stage.bind(i, block)
    stage.bind(k, thread)
    assert stage.iter_var_attrs[i].bind_thread is block
    assert stage.iter_var_attrs[k].bind_thread is thread


def test_pragmas_keep_their_order(stage: Stage) -> None:
    i, k = stage.leaf_iter_vars
    stage.pragma(i, "auto_unroll_max_step", 16)
    stage.pragma(i, "unroll_explicit", 1)
    stage.pragma(i, "plain")
    values = [
        (key, value if value is None else value_of(value))
        for key, value in stage.iter_var_attrs[i].pragmas
    ]
    assert values == [("auto_unroll_max_step", 16), ("unroll_explicit", 1), ("plain", None)]
    stage.pragma(k, "unroll")
    assert stage.iter_var_attrs[k].iter_kind == IterKind.UNROLLED


def test_copies_do_not_share_annotations(stage: Stage) -> None:
    i, _ = stage.leaf_iter_vars
    stage.pragma(i, "first")
    copy = stage.copy()
    copy.pragma(i, "second")
    assert [key for key, _ in stage.iter_var_attrs[i].pragmas] == ["first"]
    assert [key for key, _ in copy.iter_var_attrs[i].pragmas] == ["first", "second"]


def test_storage_align_works_on_axes_that_are_no_loops_any_more() -> None:
    A = te.placeholder((16,), name="A")
    B = te.compute((16,), lambda i: A[i] * 2.0, name="B")
    stage = te.create_schedule(te.compute((16,), lambda i: B[i] + 1.0, name="C").op)[B]
    (i,) = stage.leaf_iter_vars
    stage.split(i, factor=4)
    stage.storage_align(i, 32, 1)
    attr = stage.iter_var_attrs[i]
    assert (attr.dim_align_factor, attr.dim_align_offset) == (32, 1)


def test_prefetch(stage: Stage) -> None:
    i, _ = stage.leaf_iter_vars
    (A,) = stage.op.inputs
    stage.prefetch(A, i, 2)
    ((tensor, offset),) = stage.iter_var_attrs[i].prefetch
    assert (tensor, value_of(offset)) == (A, 2)


REFUSED: dict[str, tuple[Callable[..., object], str]] = {
    "vectorize reduction": (
        lambda s, i, k: s.vectorize(k),
        r"vectorize: stage C, axis k: a reduce axis",
    ),
    "parallel reduction": (
        lambda s, i, k: s.parallel(k),
        r"parallel: stage C, axis k: a reduce axis",
    ),
    "bind to a loop": (lambda s, i, k: s.bind(i, k), r"bind: .*expected a te.thread_axis"),
    "bind unknown": (
        lambda s, i, k: s.bind(i, te.thread_axis("laneIdx")),
        r"bind: stage C, axis i: unknown thread tag 'laneIdx'",
    ),
    "bind to a pipeline": (
        lambda s, i, k: s.bind(i, te.thread_axis("pipeline")),
        r"bind: stage C, axis i: unknown thread tag 'pipeline'; the tags are blockIdx.x",
    ),
    "foreign axis": (
        lambda s, i, k: s.unroll(te.reduce_axis((0, 2), "z")),
        r"unroll: stage C, axis z: it is not an axis",
    ),
    "prefetch unread": (
        lambda s, i, k: s.prefetch(te.placeholder((4,), name="P"), i, 1),
        r"prefetch: stage C, axis i: the stage does not read P",
    ),
    "prefetch no tensor": (
        lambda s, i, k: s.prefetch(s.op, i, 1),
        r"prefetch: stage C, axis i: expected a tensor it reads, found ComputeOp",
    ),
    "prefetch a fraction": (
        lambda s, i, k: s.prefetch(s.op.inputs[0], i, 1.5),
        r"prefetch: stage C, axis i: offset: expected an integer .*, found 1.5 \(float\)",
    ),
    "align None": (
        lambda s, i, k: s.storage_align(i, None, 0),
        r"storage_align: stage C, axis i: factor and offset are .*, found None, 0",
    ),
    "align negative": (
        lambda s, i, k: s.storage_align(i, -1, 0),
        r"storage_align: stage C, axis i: factor and offset are non-negative",
    ),
    "align foreign": (
        lambda s, i, k: s.storage_align(te.reduce_axis((0, 2), "z"), 8, 0),
        r"storage_align: stage C, axis z: it is not an axis",
    ),
    "align a tensor": (
        lambda s, i, k: s.storage_align(s.op.output(0), 8, 0),
        r"storage_align: stage C, axis Tensor\(C.*: it is not an axis",
    ),
    "align: a variable": (
        lambda s, i, k: s.storage_align(i.var, 8, 0),
        r"storage_align: stage C, axis i: it is not an axis",
    ),
    "pragma: a list": (
        lambda s, i, k: s.pragma(i, "mine", []),
        r"pragma: stage C, axis i: mine: expected an expression or a number, found list \[\]",
    ),
    "align a reduction": (
        lambda s, i, k: s.storage_align(k, 8, 0),
        r"storage_align: stage C, axis k: it is not one dimension of its tensor",
    ),
    "align an output": (
        lambda s, i, k: s.storage_align(i, 8, 0),
        r"storage_align: stage C, axis i: callers determine how an output is stored; align a stage",
    ),
    "pragma without a name": (
        lambda s, i, k: s.pragma(i, 3),
        r"pragma: stage C: key: expected a name, found 3 \(int\)",
    ),
    "tensorize": (lambda s, i, k: s.tensorize(i, "mma"), r"expected a tensor intrinsic"),
    "tensorize: an instruction": (
        lambda s, i, k: s.tensorize(i, te.tensor_instruction("vpdpbusd.ymm")),
        r"a tensor intrinsic, found .{,75}; choose one by name: compute, pack_b$",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_change_nothing(stage: Stage, name: str) -> None:
    act, message = REFUSED[name]
    with pytest.raises(ScheduleError, match=message):
        act(stage, *stage.leaf_iter_vars)
    assert stage.iter_var_attrs == {}


def test_a_pragma_without_a_number_changes_nothing(stage: Stage) -> None:
    with pytest.raises(ScheduleError, match="read its elements"):
        stage.pragma(stage.leaf_iter_vars[0], "mine", stage.op.output(0))  # type: ignore[arg-type]
    assert stage.iter_var_attrs == {}


def test_binding_twice_is_refused(stage: Stage) -> None:
    i, _ = stage.leaf_iter_vars
    stage.bind(i, te.thread_axis("blockIdx.x"))
    with pytest.raises(ScheduleError, match=r"axis i: already bound to blockIdx.x"):
        stage.bind(i, te.thread_axis("threadIdx.x"))


def test_what_has_no_effect_on_a_scan_is_refused() -> None:
    X, state = (te.placeholder((8, 6), name=name) for name in ("X", "state"))
    init = te.compute((1, 6), lambda _, i: X[0, i], name="init")
    update = te.compute((8, 6), lambda t, i: state[t - 1, i] + X[t, i], name="update")
    scan = te.scan(init, update, state, name="scan")
    s = te.create_schedule(te.compute((8, 6), lambda i, j: scan[i, j], name="out"))
    (i,) = scan.op.spatial_axis
    for annotate in (
        s[scan].vectorize,
        s[scan].parallel,
        s[scan].unroll,
        lambda iv: s[scan].pragma(iv, "unroll_explicit", 1),
    ):
        with pytest.raises(
            ScheduleError, match=r"axis scan.out0.i1: a scan has no loop of its own"
        ):
            annotate(i)
    with pytest.raises(ScheduleError, match=r"stage scan, .*: the tensors of a scan cannot be"):
        s[scan].storage_align(i, 8, 1)
    with pytest.raises(ScheduleError, match="stage update, axis i: the update of a scan stores in"):
        s[update].storage_align(update.op.axis[1], 8, 1)
    with pytest.raises(ScheduleError, match=r"set_scope: stage update: .*set the scope of that"):
        s[update].set_scope("shared")
    with pytest.raises(ScheduleError, match="stage scan: a scan stores nothing itself"):
        s[scan].set_store_predicate(te.var("x") < 3)
    s[scan].set_scope("shared")


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("import_llvm", "int f();", "no pragma 'import_llvm'; call the function with te.call"),
        ("parallel_launch_point", None, r"autosched has no pragma .*; s\[C\]\.parallel\(axis\)"),
        ("auto_unroll_max_steps", 16, "is not known; write 'auto_unroll_max_step'"),
        ("auto_unroll_max_step", 16.5, "takes a whole number, found 16.5"),
        ("unroll_explicit", None, "unroll_explicit takes a whole number, found None"),
    ],
)
def test_pragmas_that_nothing_would_read_are_refused(
    stage: Stage, key: str, value: Any, message: str
) -> None:
    i = stage.leaf_iter_vars[0]
    with pytest.raises(ScheduleError, match=f"pragma: stage .*, axis i: .*{message}"):
        stage.pragma(i, key, value)
    assert i not in stage.iter_var_attrs
    stage.pragma(i, "of_my_own_pass")
