"""Scans on the threads of one kernel: who waits for whom between two steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest

from autosched import te
from autosched.errors import ScheduleError
from autosched.te.lowering.to_prim_func import schedule_to_prim_func
from autosched.te.operations.tensor import Tensor
from autosched.te.operations.tensor_intrin import TensorIntrin
from autosched.te.schedule.schedule import Schedule
from autosched.te.schedule.stage import Stage
from autosched.tir import interp
from autosched.tir.buffer import Buffer
from autosched.tir.dtype import handle
from autosched.tir.expr import Call, Expr, IterVar
from autosched.transform.framework.passes import Sequential
from autosched.transform.pipeline import GPU_PIPELINE
from kit.te import compute_of
from kit.types import Array

STEPS, ROWS, COLUMNS = 4, 3, 7
Bind = Callable[[Stage, list[IterVar]], None]


class Scan:
    """state[t, i, j] = X[t, i, j] + state[t - 1, i + down, j + right], indices going round."""

    def __init__(self, down: int = 0, right: int = 0, states: int = 1) -> None:
        self.moved = (-down, -right)
        shape = STEPS, ROWS, COLUMNS
        self.X = te.placeholder(shape, name="X")
        read = [te.placeholder(shape, name=f"state{k}") for k in range(states)]
        self.init = [
            te.compute((1, *shape[1:]), lambda _, i, j: self.X[0, i, j], name=f"init{k}")
            for k in range(states)
        ]

        def step(k: int) -> Callable[[Expr, Expr, Expr], Expr]:
            other = read[k - 1]  # of two states each reads the other one
            return lambda t, i, j: (
                other[
                    t - 1, (i + down) % ROWS if down else i, (j + right) % COLUMNS if right else j
                ]
                + self.X[t, i, j]
            )

        self.update = [te.compute(shape, step(k), name=f"update{k}") for k in range(states)]
        found = te.scan(self.init, self.update, read, [self.X], name="scan")
        self.results: list[Tensor] = [found] if states == 1 else found
        self.s: Schedule = te.create_schedule(self.results[0].op)

    def start(self, **extents: int) -> list[IterVar]:
        """The threads of the scan, by the axes of `extents`: b for blocks, t for threads."""
        tags = {"b": "blockIdx.x", "t": "threadIdx.x"}
        threads = [te.thread_axis((0, n), tags[key]) for key, n in extents.items()]
        self.s[self.results[0]].env_threads(threads)
        return threads

    def bind(self, bind: Bind, threads: list[IterVar], *, init: bool = True) -> None:
        for stage in (*self.update, *(self.init if init else ())):
            bind(self.s[stage], threads)

    def text(self) -> str:
        return repr(schedule_to_prim_func(self.s, [self.X, *self.results]))

    def check(self) -> None:
        """What the threads compute is right in whatever order they run."""
        func = schedule_to_prim_func(self.s, [self.X, *self.results])
        x = np.random.default_rng(0).integers(-4, 5, (STEPS, ROWS, COLUMNS)).astype(np.float32)
        found = [np.full_like(x, 77) for _ in self.results]
        interp.run(Sequential(GPU_PIPELINE)(func), [x, *found], check_races=True)
        wanted: list[Array] = [x[0]]
        for row in x[1:]:
            wanted.append(np.roll(wanted[-1], self.moved, (0, 1)) + row)
        for each in found:
            np.testing.assert_array_equal(each, np.stack(wanted))


def columns(stage: Stage, threads: list[IterVar]) -> None:
    stage.bind(compute_of(stage).axis[2], threads[-1])


def rows_and_columns(stage: Stage, threads: list[IterVar]) -> None:
    stage.bind(compute_of(stage).axis[1], threads[0])
    stage.bind(compute_of(stage).axis[2], threads[1])


def fused(stage: Stage, threads: list[IterVar]) -> None:
    outer, inner = stage.split(stage.fuse(*compute_of(stage).axis[1:]), factor=8)
    stage.bind(outer, threads[0])
    stage.bind(inner, threads[1])


def tail(stage: Stage, threads: list[IterVar]) -> None:
    outer, inner = stage.split(compute_of(stage).axis[2], factor=4)
    stage.bind(outer, threads[0])
    stage.bind(inner, threads[1])


def pairs(stage: Stage, threads: list[IterVar]) -> None:
    outer, _ = stage.split(compute_of(stage).axis[2], factor=2)
    stage.bind(outer, threads[-1])


BARRIER = 'tvm_storage_sync("shared")'


@pytest.mark.parametrize("states", [1, 2])
def test_a_step_waits_for_what_other_threads_stored(states: int) -> None:
    """The threads ran through all steps without meeting."""
    scan = Scan(right=1, states=states)
    scan.bind(columns, scan.start(t=COLUMNS))
    text = scan.text()
    assert text.count(BARRIER) == 1
    assert text.index("for scan.idx in range(3)") < text.index(BARRIER) < text.index("scan.idx + 1")
    scan.check()


@pytest.mark.parametrize("states", [1, 2])
@pytest.mark.parametrize(
    ("bind", "extents", "down", "right"),
    [
        (columns, {"t": COLUMNS}, 0, 0),
        (columns, {"t": COLUMNS}, 1, 0),
        (pairs, {"t": 4}, 0, 0),
        (rows_and_columns, {"b": ROWS, "t": COLUMNS}, 0, 0),
        (fused, {"b": 3, "t": 8}, 0, 0),
        (tail, {"b": 2, "t": 4}, 0, 0),
        (tail, {"b": 2, "t": 4}, 1, 0),
    ],
)
def test_threads_that_read_their_own_states_do_not_wait(
    bind: Bind, extents: dict[str, int], down: int, right: int, states: int
) -> None:
    scan = Scan(down, right, states)
    scan.bind(bind, scan.start(**extents))
    assert BARRIER not in scan.text()
    scan.check()


def test_threads_of_a_block_wait_for_each_other() -> None:
    scan = Scan(right=1)
    scan.bind(rows_and_columns, scan.start(b=ROWS, t=COLUMNS))
    assert BARRIER in scan.text()
    scan.check()


@pytest.mark.parametrize(
    ("bind", "extents", "down", "right"),
    [
        (rows_and_columns, {"b": ROWS, "t": COLUMNS}, 1, 0),
        (tail, {"b": 2, "t": 4}, 0, 1),
        (fused, {"b": 3, "t": 8}, 1, 0),
    ],
)
def test_blocks_cannot_wait_for_each_other(
    bind: Bind, extents: dict[str, int], down: int, right: int
) -> None:
    scan = Scan(down, right)
    scan.bind(bind, scan.start(**extents))
    message = (
        "schedule_ops: stage scan: a step reads what other blocks along blockIdx.x may have stored "
        "of scan in the steps before, .* leave out env_threads"
    )
    with pytest.raises(ScheduleError, match=message):
        scan.text()


def test_the_same_without_env_threads_is_a_kernel_for_each_step() -> None:
    scan = Scan(down=1)
    for stage in (*scan.init, *scan.update):
        own = [te.thread_axis("blockIdx.x"), te.thread_axis("threadIdx.x")]
        rows_and_columns(scan.s[stage], own)
    text = scan.text()
    assert BARRIER not in text
    assert "scan_step" not in text
    scan.check()


def test_first_steps_that_other_threads_stored() -> None:
    """Threads store pairs of first steps and single columns of the others."""
    scan = Scan()
    threads = scan.start(t=8)
    outer, _ = scan.s[scan.init[0]].split(compute_of(scan.init[0]).axis[2], nparts=8)
    scan.s[scan.init[0]].bind(outer, threads[0])
    whole = scan.s[scan.update[0]].fuse(*compute_of(scan.update[0]).axis[1:])
    _, inner = scan.s[scan.update[0]].split(whole, factor=8)
    scan.s[scan.update[0]].bind(inner, threads[0])
    assert BARRIER in scan.text()
    scan.check()


@pytest.mark.parametrize("init", [True, False])
def test_first_steps_that_all_threads_store(init: bool) -> None:
    scan = Scan()
    scan.bind(columns, scan.start(t=COLUMNS), init=init)
    assert (BARRIER in scan.text()) is not init
    scan.check()


@pytest.mark.parametrize("right", [0, 1])
def test_threads_that_all_store_all_states_wait_for_each_other(right: int) -> None:
    """No loop is bound: each thread stored what others were reading, the same again."""
    scan = Scan(right=right)
    scan.start(t=COLUMNS)
    assert BARRIER in scan.text()
    scan.check()


@pytest.mark.parametrize("stages", ["none", "update"])
def test_blocks_that_all_store_the_same_states_are_refused(stages: str) -> None:
    scan = Scan()
    threads = scan.start(b=ROWS, t=COLUMNS)
    if stages == "none":
        scan.bind(columns, threads)
    else:
        scan.bind(rows_and_columns, threads, init=False)
    message = (
        "schedule_ops: stage scan: all blocks along blockIdx.x store the same elements of scan and "
        "read them in the next step; bind to blockIdx.x an axis of the update and of the first"
    )
    with pytest.raises(ScheduleError, match=message):
        scan.text()


def test_a_predicate_leaves_out_threads_that_read() -> None:
    scan = Scan()
    threads = scan.start(t=COLUMNS)
    scan.bind(columns, threads)
    scan.s[scan.update[0]].set_store_predicate(threads[0].var < 100)
    assert BARRIER in scan.text()
    scan.check()


def test_a_predicate_that_leaves_out_blocks() -> None:
    """Block 0 alone stores what all blocks read."""
    scan = Scan()
    threads = scan.start(b=2, t=COLUMNS)
    scan.bind(columns, threads)
    scan.s[scan.update[0]].set_store_predicate(te.eq(threads[0].var, 0))
    with pytest.raises(ScheduleError, match=r"other blocks along blockIdx.x may have stored"):
        scan.text()


def _from_an_input(
    threads: list[IterVar], columns: int, bind: Bind
) -> tuple[Schedule, list[Tensor]]:
    """Running sums of `columns` columns, 0 for a vector, whose first step is an input."""
    row = (columns,) if columns else ()
    X, state = (te.placeholder((STEPS, *row), name=name) for name in ("X", "state"))
    first = te.placeholder((1, *row), name="first")
    update = te.compute((STEPS, *row), lambda t, *i: state(t - 1, *i) + X(t, *i), name="update")
    total = te.scan(first, update, state, [X], name="total")
    s = te.create_schedule(total.op)
    s[total].env_threads(threads)
    bind(s[update], threads)
    return s, [X, first, total]


def _parts(stage: Stage, threads: list[IterVar]) -> None:
    outer, inner = stage.split(compute_of(stage).axis[1], factor=4)
    stage.bind(outer, threads[0])
    if len(threads) > 1:
        stage.bind(inner, threads[1])


@pytest.mark.parametrize(
    ("tags", "columns"),
    [
        (["blockIdx.x"], 8),
        (["blockIdx.x", "threadIdx.x"], 8),
        (["threadIdx.x"], 8),
        (["blockIdx.x"], 0),
    ],
)
def test_blocks_do_not_all_copy_the_first_steps(tags: list[str], columns: int) -> None:
    """They did, at the same time, each for itself."""
    extents = [2, 4] if columns else [1]
    threads = [te.thread_axis((0, n), tag) for n, tag in zip(extents, tags, strict=False)]
    s, args = _from_an_input(threads, columns, _parts if columns else lambda *_: None)
    func = schedule_to_prim_func(s, args)
    assert repr(func).count("launch(") == len(tags) + ("blockIdx.x" in tags)
    rng = np.random.default_rng(0)
    x = rng.integers(-4, 5, (STEPS, columns) if columns else STEPS).astype(np.float32)
    first = rng.integers(-4, 5, x[:1].shape).astype(np.float32)
    found = np.zeros_like(x)
    interp.run(Sequential(GPU_PIPELINE)(func), [x, first, found], check_races=True)
    np.testing.assert_array_equal(found, np.concatenate([first, x[1:]]).cumsum(0))


def row_sum() -> TensorIntrin:
    """An instruction that adds two rows."""
    a, b = (te.placeholder((COLUMNS,), name=name) for name in "ab")
    c = te.compute((COLUMNS,), lambda i: a[i] + b[i], name="c")

    def call(ins: Sequence[Buffer], outs: Sequence[Buffer]) -> Expr:
        addresses = [Call(handle, "address_of", (buffer[0],)) for buffer in (*ins, *outs)]
        return te.call_extern("row_sum", *addresses)

    return te.decl_tensor_intrin(c.op, call, name="row_sum")


def test_what_an_instruction_reads_and_stores_is_not_known() -> None:
    scan = Scan()
    threads = scan.start(t=ROWS)
    scan.bind(lambda stage, threads: stage.bind(compute_of(stage).axis[1], threads[0]), threads)
    update = scan.update[0]
    scan.s[update].tensorize(compute_of(update).axis[2], row_sum())
    text = scan.text()
    assert text.index(BARRIER) < text.index("row_sum")


@pytest.mark.parametrize("count", [4, 8])
def test_threads_without_an_element_read_no_later_steps(count: int) -> None:
    """Along both axes fused they went on in the next step, whose states are no indices yet."""
    following, state = te.placeholder((9,), "int32"), te.placeholder((STEPS, ROWS), "int32")
    begin = te.placeholder((ROWS,), "int32")
    init = te.compute((1, ROWS), lambda _, i: begin[i], name="init")
    inner = te.compute((STEPS, ROWS), lambda t, i: following[state[t - 1, i]], name="inner")
    update = te.compute((STEPS, ROWS), lambda t, i: inner[t, i], name="update")
    chain = te.scan(init, update, state, [following, begin], name="chain")
    s = te.create_schedule(chain.op)
    threads = te.thread_axis((0, count), "threadIdx.x")
    s[chain].env_threads([threads])
    for stage in (s[init], s[update]):
        _, inside = stage.split(stage.fuse(*compute_of(stage).axis), factor=count)
        stage.bind(inside, threads)
    s[inner].compute_at(s[update], inside)
    func = Sequential(GPU_PIPELINE)(schedule_to_prim_func(s, [following, begin, chain]))
    table = np.random.default_rng(0).permutation(9).astype(np.int32)
    wanted = [np.arange(ROWS, dtype=np.int32)]
    for _ in range(1, STEPS):
        wanted.append(table[wanted[-1]])
    found = np.full((STEPS, ROWS), 1 << 30, np.int32)
    interp.run(func, [table, wanted[0], found], check_races=True)
    np.testing.assert_array_equal(found, wanted)
