"""Feature set `autosched-1`: a matmul by hand, the accidents of Ansor's put right, properties."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from autosched import te, workloads
from autosched.driver import lower_for_features
from autosched.errors import ScheduleError
from autosched.features.autosched_1.names import COLUMNS, GROUPS, SCALED, meaning
from autosched.features.autosched_1.rows import features_from_func
from autosched.state.dag import ComputeDAG
from autosched.state.steps import steps_from_json
from autosched.target import HardwareParams, Target
from autosched.te.lowering.to_prim_func import schedule_to_prim_func
from autosched.te.operations.tensor import Tensor
from autosched.te.schedule.schedule import Schedule
from autosched.tir.function import PrimFunc
from autosched.transform.expressions.simplify import Simplify
from kit.golden_lines import golden_candidates
from kit.te import compute_of

CPU = Target(
    "cpu", HardwareParams(2), 2, "cascadelake", vector_bytes=64, caches=(2**15, 2**20, 2**25)
)
CUDA = Target("cuda", HardwareParams.default("cuda"), arch="sm_80")


def matmul_relu(
    schedule: Callable[[Schedule, Tensor, Tensor], None] = lambda sch, c, d: None,
) -> PrimFunc:
    A = te.placeholder((64, 64), name="A")
    B = te.placeholder((64, 64), name="B")
    k = te.reduce_axis((0, 64), name="k")
    C = te.compute((64, 64), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    D = te.compute((64, 64), lambda i, j: te.max(C[i, j], te.const(0.0)), name="D")
    sch = te.create_schedule(D.op)
    schedule(sch, C, D)
    return Simplify()(schedule_to_prim_func(sch, [A, B, D]))


def rows_of(func: PrimFunc, target: Target = CPU) -> list[dict[str, np.float64]]:
    """Each row as {column: unscaled value}."""
    found = []
    for row in features_from_func(func, target).astype(float):
        row[list(SCALED)] = 2.0 ** row[list(SCALED)] - 1
        found.append(dict(zip(COLUMNS, row, strict=True)))
    return found


def assert_values(row: Mapping[str, np.float64], **expected: float) -> None:
    found = {name: row[name.replace("__", ".")] for name in expected}
    assert found == pytest.approx(expected, rel=1e-4)


def test_columns_are_named_once_and_explained() -> None:
    assert len(set(COLUMNS)) == len(COLUMNS) == sum(map(len, GROUPS.values()))
    assert all(meaning(column) for column in COLUMNS)


def test_a_sum_of_products_is_multiply_adds() -> None:
    c, d = rows_of(matmul_relu())
    assert_values(c, float_mad=64**3, float_addsub=0, float_mul=0, outer_prod=64**3, num_loops=3)
    assert_values(d, float_mad=0, float_cmp=64**2, num_loops=2)


def test_slots_of_the_matmul() -> None:
    c, _ = rows_of(matmul_relu())
    assert_values(
        c,
        B0__bytes=64**3 * 4,
        B0__unique_bytes=64**2 * 4,
        B0__lines=64**3,  # a column of B for every i and j
        B0__unique_lines=256,
        B0__reuse_type__kLoopMultipleRead=1,
        B0__reuse_ct=64,
        B0__stride=64,
        B1__lines=4 * 64**2,  # a row of A for every i and j
        B1__stride=1,
        B2__acc_type__kReadWrite=1,
        B2__lines=64**2,
        B2__stride=0,
        B3__bytes=0,
    )


@pytest.mark.parametrize(
    ("l1", "lines"),
    [
        (48, 3 * 256),  # everything fits
        (32, 3 * 256),  # B and a row of A and C fit
        (8, 256 + 256 + 64 * 256),  # a row and a column fit: B is loaded for every i
        (2, 64**2 + 4 * 64**2 + 64 * 64**2),  # not even those
    ],
)
def test_traffic_into_l1(l1: int, lines: int) -> None:
    """Computed by hand in test_locality; the initialisation of C moves its 256 lines as well."""
    target = replace(CPU, caches=(l1 * 1024, 2**20, 2**25))
    c, _ = rows_of(matmul_relu(), target)
    assert_values(c, l1_traffic=(lines + 256) * 64, l2_traffic=(3 * 256 + 256) * 64)
    assert_values(c, l1_intensity=2 * 64**3 / ((lines + 256) * 64))


def test_operations_beyond_the_exact_numbers_of_a_float_have_a_curve() -> None:
    """Twice 715827882 squared is less than the float next to it."""
    n = 715827882
    a, b = te.placeholder((n,), name="a"), te.placeholder((n,), name="b")
    k = te.reduce_axis((0, n), name="k")
    c = te.compute((n,), lambda i: te.sum(a[i] * b[k], axis=k), name="c")
    func = Simplify()(schedule_to_prim_func(te.create_schedule(c.op), [a, b, c]))
    (row,) = rows_of(func)
    curve = [row[f"arith_intensity_curve_{point}"] for point in range(10)]
    assert all(0 < low <= high for low, high in pairwise(curve))


def test_the_register_tile_spans_what_the_nest_holds_alone() -> None:
    def fused(sch: Schedule, c: Tensor, d: Tensor) -> None:
        outer, _ = sch[d].split(compute_of(d).axis[0], factor=8)
        sch[c].compute_at(sch[d], outer)

    alone, _ = rows_of(matmul_relu())
    under, _ = rows_of(matmul_relu(fused))
    assert_values(alone, nest_depth=3, nest_iterations=64**3, lanes=1)
    assert_values(under, nest_depth=3, nest_iterations=8 * 64**2, num_loops=4)
    assert alone["accumulators"] > 1
    assert alone["register_share"] <= 1


def annotated(sch: Schedule, c: Tensor, d: Tensor) -> None:
    i, j = compute_of(d).axis
    sch[d].vectorize(j)
    sch[d].parallel(i)
    sch[c].unroll(compute_of(c).reduce_axis[0])


def test_positions_of_annotated_loops() -> None:
    c, d = rows_of(matmul_relu(annotated))
    assert_values(d, vec_type__kPosInnerSpatial=1, vec_len=64, vec_excess=4)
    assert_values(d, parallel_type__kPosOuterSpatial=1, parallel_len=64, parallel_balance=1)
    assert_values(c, unroll_type__kPosInnerReduce=1, parallel_balance=0.5, vec_num=0)


def test_lanes_follow_the_vectorised_loop() -> None:
    _, d = rows_of(matmul_relu(annotated))
    assert_values(d, B0__lanes__contiguous=1, B1__lanes__contiguous=1, lanes_contiguous=1)
    c, _ = rows_of(matmul_relu())
    assert_values(c, lanes_contiguous=1 / 3, lanes_invariant=1 / 3, lanes_strided=1 / 3)


def shared_fetch() -> PrimFunc:
    """C = A transposed, by blocks of 32 x 8 threads, A fetched into shared memory first."""
    A = te.placeholder((256, 256), name="A")
    C = te.compute((256, 256), lambda i, j: A[j, i], name="C")
    sch = te.create_schedule(C.op)
    shared = sch.cache_read(A, "shared", [C])
    io, ii = sch[C].split(C.op.axis[0], factor=8)
    jo, ji = sch[C].split(C.op.axis[1], factor=32)
    sch[C].reorder(io, jo, ii, ji)
    sch[C].bind(io, te.thread_axis("blockIdx.y"))
    sch[C].bind(jo, te.thread_axis("blockIdx.x"))
    sch[C].bind(ii, te.thread_axis("threadIdx.y"))
    sch[C].bind(ji, te.thread_axis("threadIdx.x"))
    sch[shared].compute_at(sch[C], jo)
    a, b = compute_of(shared).axis  # 32 x 8 elements
    sch[shared].bind(a, te.thread_axis("threadIdx.x"))
    sch[shared].bind(b, te.thread_axis("threadIdx.y"))
    return Simplify()(schedule_to_prim_func(sch, [A, C]))


def slot(row: Mapping[str, np.float64], scope: str) -> str:
    return next(f"B{b}" for b in range(5) if row[f"B{b}.scope.{scope}"])


def test_conflicts_and_transactions_of_a_transpose() -> None:
    fetch, c = rows_of(shared_fetch(), CUDA)
    # Neighbouring threads of the fetch read elements of A that are a row apart.
    assert_values(fetch, **{f"{slot(fetch, 'global')}__sectors": 32})
    assert_values(fetch, is_gpu=1, block_threads=256, blocks=256, warp_fill=1)
    # C[y, x] = shared[x, y]: x strides over rows of 8 elements, so that every fourth thread is on
    # the same bank and 8 words meet in one; C itself is written contiguously.
    assert_values(
        c, **{f"{slot(c, 'shared')}__bank_conflicts": 8, f"{slot(c, 'global')}__sectors": 4}
    )
    assert_values(c, shared_bytes=32 * 8 * 4, occupancy=1)


def test_a_fetch_names_the_kernels_threads_again() -> None:
    """256 elements for each of 256 blocks, however often the thread axes are named."""
    fetch, _ = rows_of(shared_fetch(), CUDA)
    assert_values(fetch, outer_prod=256 * 256)


def cases() -> dict[tuple[str, str], list[dict[str, Any]]]:
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for line in golden_candidates("ansor_v06.jsonl.gz"):
        if line["features"]:
            found.setdefault((line["workload"], line["target"]), []).append(line)
    return {key: of_key[:: max(1, len(of_key) // 2)][:2] for key, of_key in found.items()}


CASES = cases()


@pytest.mark.parametrize("case", sorted(CASES), ids="-".join)
def test_properties_of_sampled_candidates(case: tuple[str, str]) -> None:
    workload, kind = case
    target = CPU if kind == "cpu" else CUDA
    shares = sorted(set(range(len(COLUMNS))) - set(SCALED))
    for line in CASES[case]:
        dag = ComputeDAG(workloads.get(workload).tensors(**line["args"]))
        try:
            func = lower_for_features(dag, steps_from_json(line["steps"]), target)
        except ScheduleError:  # beyond the limits of a GPU
            continue
        rows = features_from_func(func, target)
        assert rows.dtype == np.float32
        assert rows.shape[1] == len(COLUMNS)
        assert np.isfinite(rows).all()
        assert (rows >= 0).all()
        assert (rows[:, shares] <= 4).all()
        assert rows[:, COLUMNS.index("is_gpu")].tolist() == [float(kind == "cuda")] * len(rows)
        assert rows[:, COLUMNS.index("cycles_share")].sum() == pytest.approx(1, abs=1e-3)
        np.testing.assert_array_equal(rows, features_from_func(func, target))
