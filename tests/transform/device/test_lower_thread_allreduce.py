"""Reductions across threads, run by the interpreter for every shape of a block."""

from __future__ import annotations

import re

import numpy as np
import pytest

from autosched import te
from autosched.driver import lower_to_kernels
from autosched.errors import ScheduleError
from autosched.runtime.cuda_artifact import cuda_artifact
from autosched.te.lowering.to_prim_func import schedule_to_prim_func
from autosched.te.operations.tensor import Tensor
from autosched.te.schedule.schedule import Schedule
from autosched.tir import interp
from autosched.tir.function import PrimFunc
from autosched.tir.parser import parse_func
from autosched.tir.printer import to_text
from autosched.transform.device.lower_thread_allreduce import LowerThreadAllreduce
from autosched.transform.framework.passes import Sequential
from autosched.transform.from_te.storage_flatten import StorageFlatten
from autosched.transform.pipeline import GPU_PIPELINE

SUM = 'reducer("sum", [x: {t}], [y: {t}], [x + y], [{t}(0)])'
MAX = 'reducer("max", [x: {t}], [y: {t}], [max(x, y)], [{t}(-100)])'


def kernel(
    shape: dict[str, int], over: str, dtype: str = "float32", reducer: str = SUM, cond: str = "True"
) -> PrimFunc:
    """B[thread] = the reduction of A over the axes `over` (letters), for each thread."""
    axes = "".join(f"    launch(threadIdx.{axis}, {n})\n" for axis, n in shape.items())
    count = int(np.prod(list(shape.values())))
    place, stride = "0", 1
    for axis in "xyz":
        if axis in shape:
            place, stride = f"{place} + threadIdx.{axis} * {stride}", stride * shape[axis]
    names = ", ".join(f"threadIdx.{axis}" for axis in over)
    return parse_func(f"""\
def main(A: Buffer(({count},), {dtype}), B: Buffer(({count},), {dtype})):
    launch(blockIdx.x, 1)
{axes}\
    R = allocate((1,), {dtype}, "local")
    with attr({reducer.format(t=dtype)}, "reduce_scope", 0):
        tvm_thread_allreduce(uint32(1), A[{place}], {cond}, R[0], {names})
    B[{place}] = R[0]
""")


def values(count: int, dtype: str) -> np.ndarray:
    return np.random.default_rng(count).integers(-9, 10, count).astype(dtype)


def steps(func: PrimFunc) -> list[str]:
    """The shuffles, barriers and distances of the lowered function, in order."""
    text = to_text(LowerThreadAllreduce()(func))
    found = re.findall(
        r'shuffle_down\(.*?\], (\d+), 32|(shuffle)\(|sync\("(\w+)"\)|red_buf0\[.*\+ (\d+)\]', text
    )
    return ["".join(parts) for parts in found]


SHAPES = [
    ({"x": 32}, "x"),
    ({"x": 16, "y": 2}, "x"),
    ({"x": 10}, "x"),
    ({"x": 128}, "x"),
    ({"x": 33}, "x"),
    ({"x": 10, "y": 2}, "x"),
    ({"x": 2, "y": 16}, "y"),
    ({"x": 4, "y": 8, "z": 3}, "xy"),
    ({"x": 4, "y": 8, "z": 3}, "yz"),
    ({"x": 4, "y": 8, "z": 3}, "xz"),
    ({"x": 1, "y": 8}, "xy"),
    ({"x": 64, "y": 3}, "x"),
    ({"x": 96}, "x"),
    ({"x": 48, "y": 2}, "x"),
    ({"x": 1024}, "x"),
    ({"x": 1}, "x"),
    ({"x": 8, "y": 5}, "x"),
    ({"x": 64, "y": 2}, "xy"),
]


@pytest.mark.parametrize("warp", [32, 1])
@pytest.mark.parametrize("dtype", ["float32", "int8", "float64", "float16"])
@pytest.mark.parametrize(("shape", "over"), SHAPES, ids=str)
def test_every_thread_gets_the_sum_of_its_group(
    shape: dict[str, int], over: str, dtype: str, warp: int
) -> None:
    count = int(np.prod(list(shape.values())))
    given, found = values(count, dtype), np.zeros(count, dtype)
    after = LowerThreadAllreduce(warp_size=warp)(kernel(shape, over, dtype))
    assert "allreduce" not in to_text(after)
    interp.run(after, [given, found], check_races=True)
    grid = given.reshape([shape.get(axis, 1) for axis in "zyx"])
    axes = tuple("zyx".index(axis) for axis in over)
    expected = np.broadcast_to(grid.sum(axes, keepdims=True, dtype=dtype), grid.shape)
    np.testing.assert_array_equal(found, expected.reshape(-1))


@pytest.mark.parametrize(
    ("shape", "over", "expected"),
    [
        ({"x": 32}, "x", ["16", "8", "4", "2", "1", "shuffle"]),
        ({"x": 16, "y": 2}, "x", ["8", "4", "2", "1", "shuffle"]),
        ({"x": 10}, "x", ["8", "4", "2", "1", "shuffle"]),
        ({"x": 128}, "x", ["16", "8", "4", "2", "1", "shared", "2", "1", "shared"]),
    ],
)
def test_steps_within_warps(shape: dict[str, int], over: str, expected: list[str]) -> None:
    assert steps(kernel(shape, over)) == expected


def test_steps_in_shared_memory_end_within_a_warp() -> None:
    found = steps(kernel({"x": 33}, "x"))
    assert found[:4] == ["shared", "shared", "32", "shared"]
    assert found[4:] == ["16", "warp", "8", "warp", "4", "warp", "2", "warp", "1", "warp", "shared"]


def test_groups_across_warps_take_no_step_within_one() -> None:
    assert "warp" not in steps(kernel({"x": 10, "y": 2}, "x"))


def test_whole_warps_meet_in_as_many_places_as_there_are_warps() -> None:
    text = to_text(LowerThreadAllreduce()(kernel({"x": 1024}, "x")))
    assert 'red_buf_staging0 = allocate((32,), float32, "shared")' in text
    assert 'red_result0 = allocate((1,), float32, "shared")' in text


def test_lanes_that_there_are_take_part() -> None:
    assert "uint32(1023)" in to_text(LowerThreadAllreduce()(kernel({"x": 10}, "x")))
    assert "uint32(4294967295)" in to_text(LowerThreadAllreduce()(kernel({"x": 128}, "x")))


@pytest.mark.parametrize("shape", [{"x": 32}, {"x": 128}, {"x": 33}], ids=str)
def test_other_reducers_and_conditions(shape: dict[str, int]) -> None:
    count = shape["x"]
    given, found = values(count, "float32"), np.zeros(count, np.float32)
    func = kernel(shape, "x", reducer=MAX, cond="threadIdx.x % 2 == 1")
    interp.run(LowerThreadAllreduce()(func), [given, found], check_races=True)
    np.testing.assert_array_equal(found, given[1::2].max())


ARGMAX = """\
def main(A: Buffer(({n},), float32), I: Buffer(({n},), int32), V: Buffer(({n},), float32)):
    launch(blockIdx.x, 1)
    launch(threadIdx.x, {n})
    R = allocate((1,), int32, "local")
    S = allocate((1,), float32, "local")
    with attr(reducer("argmax", [i: int32, x: float32], [j: int32, y: float32], \
[Select(x >= y, i, j), Select(x >= y, x, y)], [-1, -1000.0]), "reduce_scope", 0):
        tvm_thread_allreduce(uint32(2), threadIdx.x, A[threadIdx.x], True, R[0], S[0], threadIdx.x)
    I[threadIdx.x] = R[0]
    V[threadIdx.x] = S[0]
"""


@pytest.mark.parametrize("n", [8, 32, 10, 128, 33, 96])
def test_two_values_that_belong_together(n: int) -> None:
    given = np.random.default_rng(n).permutation(n).astype(np.float32)
    where, largest = np.zeros(n, np.int32), np.zeros(n, np.float32)
    after = LowerThreadAllreduce()(parse_func(ARGMAX.format(n=n)))
    interp.run(after, [given, where, largest], check_races=True)
    np.testing.assert_array_equal(where, given.argmax())
    np.testing.assert_array_equal(largest, n - 1)


def of_bool(count: int, threads: int, name: str, limit: int) -> tuple[Schedule, list[Tensor]]:
    """For each of 6 rows of `count` values, whether any (all) of the first `limit` are true."""
    combine, neutral = {"any": (te.any, False), "all": (te.all, True)}[name]
    reducer = te.comm_reducer(combine, lambda dtype: te.const(neutral, dtype), name=name)
    A = te.placeholder((6, count), "bool", name="A")
    k = te.reduce_axis((0, count), "k")
    where = {} if limit == count else {"where": k < limit}
    B = te.compute((6,), lambda i: reducer(A[i, k], axis=k, **where), name="B")
    s = te.create_schedule(B.op)
    outer, inner = s[B].split(B.op.axis[0], factor=2)
    s[B].bind(outer, te.thread_axis("blockIdx.x"))
    s[B].bind(inner, te.thread_axis("threadIdx.y"))
    _, lane = s[B].split(k, factor=threads)
    s[B].bind(lane, te.thread_axis("threadIdx.x"))
    return s, [A, B]


@pytest.mark.parametrize(("count", "threads"), [(33, 33), (32, 32), (70, 16), (1, 1)])
@pytest.mark.parametrize("name", ["any", "all"])
@pytest.mark.parametrize("fewer", [0, 1])
def test_truth_values_are_reduced_as_they_are_stored(
    count: int, threads: int, name: str, fewer: int
) -> None:
    """Memory holds bool as int8; the interpreter runs the reduction before and after the pass."""
    limit = max(count - fewer, 1)
    func = schedule_to_prim_func(*of_bool(count, threads, name, limit))
    flat, lowered = StorageFlatten()(func), Sequential(GPU_PIPELINE)(func)
    if threads > 1:
        assert "bool(reduce_temp0[0])" in to_text(flat)
        assert f'red_buf0 = allocate(({2 * threads},), int8, "shared")' in to_text(lowered)
    rng = np.random.default_rng(count)
    given = rng.random((6, count)) < (0.5 / count if name == "any" else 1 - 0.5 / count)
    given[0], given[1] = False, True
    expected = given[:, :limit].any(1) if name == "any" else given[:, :limit].all(1)
    for version in (func, flat, lowered):
        found = ~expected
        interp.run(version, [given, found], check_races=True)
        np.testing.assert_array_equal(found, expected)
    assert cuda_artifact(lower_to_kernels(lowered), "main").source


def test_one_of_two_values_is_a_truth_value() -> None:
    A = te.placeholder((3, 40), "bool", name="A")
    B = te.placeholder((3, 40), name="B")
    k = te.reduce_axis((0, 40), "k")
    reducer = te.comm_reducer(
        lambda x, y: (te.any(x[0], y[0]), x[1] + y[1]),
        lambda truth, number: (te.const(False, truth), te.const(0, number)),
    )
    C, D = te.compute((3,), lambda i: reducer((A[i, k], B[i, k]), axis=k), name="C")
    s = te.create_schedule(C.op)
    s[C].bind(C.op.axis[0], te.thread_axis("blockIdx.x"))
    s[C].bind(k, te.thread_axis("threadIdx.x"))
    func = Sequential(GPU_PIPELINE)(schedule_to_prim_func(s, [A, B, C, D]))
    truths = np.zeros((3, 40), bool)
    truths[1, 38] = True
    numbers = np.arange(120, dtype=np.float32).reshape(3, 40)
    some, total = np.ones(3, bool), np.zeros(3, np.float32)
    interp.run(func, [truths, numbers, some, total], check_races=True)
    assert some.tolist() == [False, True, False]
    np.testing.assert_array_equal(total, numbers.sum(1))


def test_a_result_that_has_no_place() -> None:
    text = to_text(kernel({"x": 32}, "x")).replace("True, R[0],", "True, R[0] + 1.0,")
    func = parse_func(text)
    with pytest.raises(ScheduleError, match=r"stores its result in R\[0\] \+ .*, not a load"):
        LowerThreadAllreduce()(func)
    with pytest.raises(interp.InterpreterError, match=r"stores its result in .*, not a load"):
        interp.run(func, [np.zeros(32, np.float32), np.zeros(32, np.float32)])


def test_a_reduction_that_is_repeated_has_no_race() -> None:
    for n in (33, 64):
        func = parse_func(f"""\
def main(A: Buffer(({4 * n},), float32), B: Buffer((4,), float32)):
    launch(threadIdx.x, {n})
    R = allocate((1,), float32, "local")
    for i in range(4):
        with attr({SUM.format(t="float32")}, "reduce_scope", 0):
            tvm_thread_allreduce(uint32(1), A[i * {n} + threadIdx.x], True, R[0], threadIdx.x)
        if threadIdx.x == 0:
            B[i] = R[0]
""")
        given, found = values(4 * n, "float32"), np.zeros(4, np.float32)
        interp.run(LowerThreadAllreduce()(func), [given, found], check_races=True)
        np.testing.assert_array_equal(found, given.reshape(4, n).sum(1))


def refused(old: str, new: str) -> str:
    func = parse_func(to_text(kernel({"x": 32}, "x")).replace(old, new))
    with pytest.raises(ScheduleError) as caught:
        LowerThreadAllreduce()(func)
    return str(caught.value)


def test_an_extent_that_is_not_constant() -> None:
    func = to_text(kernel({"x": 32}, "x")).replace("float32)):", "float32), n: int32):")
    func = func.replace("launch(threadIdx.x, 32)", "launch(threadIdx.x, n)")
    with pytest.raises(ScheduleError, match=r"the extent of threadIdx.x must be constant, found n"):
        LowerThreadAllreduce()(parse_func(func))


def test_an_empty_reduction() -> None:
    A = te.placeholder((4, 0), name="A")
    k = te.reduce_axis((0, 0), "k")
    B = te.compute((4,), lambda i: te.sum(A[i, k], axis=k), name="B")
    s = te.create_schedule(B.op)
    s[B].bind(B.op.axis[0], te.thread_axis("blockIdx.x"))
    s[B].bind(k, te.thread_axis("threadIdx.x"))
    with pytest.raises(ScheduleError, match=r"threadIdx.x has the extent 0, so that no thread"):
        Sequential(GPU_PIPELINE)(schedule_to_prim_func(s, [A, B]))


def test_a_block_with_threads_that_the_reduction_does_not_know() -> None:
    text = "\n    with launch(threadIdx.y, 2):\n        B[threadIdx.y] = 0.0"
    where = "    with attr(reducer("
    message = refused(where, text.lstrip("\n") + "\n" + where)
    assert "main: a reduction outside of the axis threadIdx.y of its block" in message


@pytest.mark.parametrize("condition", ["threadIdx.x < 4", "A[0] < 1.0"])
def test_a_reduction_that_not_all_threads_meet(condition: str) -> None:
    where = "    with attr(reducer("
    lines = to_text(kernel({"x": 32}, "x")).split("\n")
    at = next(n for n, line in enumerate(lines) if line.startswith(where))
    lines[at : at + 2] = [f"    if {condition}:", *(f"    {line}" for line in lines[at : at + 2])]
    with pytest.raises(ScheduleError, match="which not all threads of a block meet alike"):
        LowerThreadAllreduce()(parse_func("\n".join(lines)))


def test_without_a_reduction_nothing_changes() -> None:
    text = "def main(A: Buffer((8,), float32)):\n    launch(threadIdx.x, 8)\n"
    func = parse_func(text + "    A[threadIdx.x] = 0.0\n")
    assert LowerThreadAllreduce()(func) is func
