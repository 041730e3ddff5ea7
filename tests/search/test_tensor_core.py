"""The sketch rule for tensor cores: where it applies, and that what it draws computes right."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autosched.codegen.nvrtc import load_nvrtc
from autosched.driver import cuda_source
from autosched.errors import ConfigError, ScheduleError
from autosched.features.autosched_1.names import COLUMNS
from autosched.features.lowering import features_of_steps
from autosched.measure import ansor_log
from autosched.measure.check import Tolerance, compare
from autosched.measure.result import MeasureResult
from autosched.measure.tolerance import tolerances
from autosched.referee.check import Verdict, check_candidate
from autosched.referee.device_pipeline import device_function
from autosched.referee.scale_workload import scaled
from autosched.search.mutation import restructured
from autosched.search.options import SearchOptions
from autosched.search.rules.protocol import Context
from autosched.search.space import SearchSpace
from autosched.search.structure import Steps
from autosched.state.python_schedule import python_schedule
from autosched.state.state import State
from autosched.state.steps import (
    MatrixTilesStep,
    RfactorStep,
    SplitStep,
    steps_from_json,
    steps_to_json,
)
from autosched.target import cuda_target, make_target
from autosched.task import Task
from autosched.te.intrin.registry import available
from autosched.te.lowering.to_prim_func import schedule_to_prim_func
from autosched.tir import interp

FILE = """\
from autosched import te

def product(M, N, K, dtype, total, bias=False):
    A = te.placeholder((M, K), dtype, "A")
    B = te.placeholder((K, N), dtype, "B")
    k = te.reduce_axis((0, K), "k")
    sides = lambda i, j: (A[i, k].astype(total), B[k, j].astype(total))
    C = te.compute((M, N), lambda i, j: te.sum(sides(i, j)[0] * sides(i, j)[1], axis=k), "C")
    if not bias:
        return [A, B, C]
    D = te.placeholder((N,), total, "bias")
    return [A, B, D, te.compute((M, N), lambda i, j: C[i, j] + D[j], "out")]

def product_reference(inputs, **_):
    wide = [x.astype("float64") for x in inputs]
    return [wide[0] @ wide[1] + (wide[2] if len(wide) == 3 else 0)]
"""


@pytest.fixture(scope="module")
def make(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """(sizes, types, arch) -> a task."""
    path: Path = tmp_path_factory.mktemp("workload") / "product.py"
    path.write_text(FILE)

    def task(m: int, n: int, k: int, arch: str = "sm_80", **args: Any) -> Task:
        given = {"dtype": "float16", "total": "float32", "M": m, "N": n, "K": k, **args}
        workload = {"python": f"{path}:product", "args": given}
        return Task.from_json_workload(workload, cuda_target(arch))

    return task


def with_tensor_cores(sketches: tuple[State, ...]) -> list[State]:
    return [s for s in sketches if any(isinstance(step, MatrixTilesStep) for step in s.steps)]


def test_where_it_applies(make: Any) -> None:
    for arch, args, wanted in (
        ("sm_80", {}, ["mma.m16n8k16.f16"]),
        ("sm_90", {"dtype": "bfloat16"}, ["wgmma.m64k64.bf16", "mma.m16n8k16.bf16"]),
        ("sm_100", {}, ["mma.m16n8k16.f16"]),
        ("sm_90", {"dtype": "int8", "total": "int32"}, ["wgmma.m64k128.s8", "mma.m16n8k32.s8"]),
        ("sm_75", {}, []),
        ("sm_80", {"dtype": "float32"}, []),
        ("sm_80", {"total": "float16"}, []),
    ):
        sketches = SearchSpace(make(64, 64, 64, arch, **args)).sketches
        found = with_tensor_cores(sketches)
        steps = [step for s in found for step in s.steps]
        names = [step.instruction for step in steps if isinstance(step, MatrixTilesStep)]
        assert names == wanted
        assert len(sketches) > len(found)
    task = make(64, 64, 64)
    options = SearchOptions(space="ansor")
    context = Context(task.dag, task.target.hardware, True, options, available(task.target))
    assert not with_tensor_cores(SearchSpace.of(context).sketches)


@pytest.mark.parametrize(("column", "applies"), [("1", False), ("2*j", False), ("63-j", True)])
def test_products_of_which_a_part_is_read_have_no_tensor_cores(column: str, applies: bool) -> None:
    """Fragments are stored as a whole, and elements that nobody reads have no memory."""
    width = 64 if applies else 32
    text = f"C[i,j] = sum(k, float32(A[i,k]) * float32(B[k,j])); D[i,j] = C[i,{column}] * 2.0"
    shapes = {"A": (64, 64), "B": (64, 64), "C": (64, 64), "D": (64, width)}
    dtype = {"A": "float16", "B": "float16"}
    task = Task.from_expression(text, shapes, dtype=dtype, target=make_target("cuda"))
    space = SearchSpace(task)
    assert bool(with_tensor_cores(space.sketches)) == applies
    for steps in space.sample(np.random.default_rng(0), 6):
        cuda_source(task.dag, steps, task.target)


def test_products_before_transforms_are_not_rounded_to_tf32() -> None:
    """44 of 54 such candidates of a Winograd convolution were wrong beyond its tolerance."""
    sizes: dict[str, Any] = {"N": 1, "H": 8, "W": 8, "CI": 8, "CO": 8}
    target = cuda_target("sm_80", tf32=True)
    winograd = Task.from_workload("conv2d_winograd_nhwc", target=target, **sizes)
    product = "T[m, n] = sum(k, A[m, k] * B[k, n])"
    shapes = {"A": [32, 16], "B": [16, 32]}
    behind = "w[r] = [1, -2, 1]; Y[m, n] = sum(r, T[m, n + r] * w[r])"
    filtered = Task.from_expression(f"{product}; {behind}", shapes, target=target)
    plain = Task.from_expression(f"{product}; Y[m, n] = T[m, n] * 2", shapes, target=target)
    found = [
        any(
            isinstance(step, MatrixTilesStep) and "tf32" in step.instruction
            for sketch in SearchSpace(task).sketches
            for step in sketch.steps
        )
        for task in (winograd, filtered, plain)
    ]
    assert found == [False, False, True]


def test_tf32_for_who_asks() -> None:
    """Never by itself; with it the task is another, and errs by more than float32 may."""
    args: dict[str, Any] = {"M": 40, "N": 24, "K": 72}
    exact = Task.from_workload("matmul", target=cuda_target(), **args)
    assert not with_tensor_cores(SearchSpace(exact).sketches)
    task = Task.from_workload("matmul", target=cuda_target(tf32=True), **args)
    (sketch,) = with_tensor_cores(SearchSpace(task).sketches)
    (step,) = sketch.steps
    assert isinstance(step, MatrixTilesStep) and step.instruction == "mma.m16n8k8.tf32"
    assert task.key != exact.key and "tf32 allowed" in task.name
    assert Task.from_json(task.to_json()) == task and "tf32" not in exact.to_json()["target"]
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal(s, np.float32) for s in ((40, 72), (72, 24)))
    (want,) = task.reference([a, b])
    (allowed,), (usual,) = (tolerances(t, [a, b], [want]) for t in (task, exact))
    found = np.zeros((40, 24), np.float32)
    filled = replace(step, sizes=(32, 32, 16, 16, 16), stages=2)
    func = schedule_to_prim_func(*task.dag.apply_steps([filled]))
    interp.run(device_function(func), [a, b, found])
    assert compare("C", found, want, usual) is not None
    assert compare("C", found, want, allowed) is None
    with pytest.raises(ConfigError, match=r"target\.tf32: expected a target of kind cuda"):
        make_target("cpu", tf32=True)


def legal(task: Task, steps: Steps) -> bool:
    try:
        features_of_steps(task.dag, steps, task.target, "autosched-1", False)
    except ScheduleError:
        return False
    return True


@pytest.mark.parametrize(
    ("sizes", "args"),
    [
        ((17, 40, 33), {}),
        ((17, 1, 31), {"dtype": "int8", "total": "int32"}),
        ((20, 24, 40), {"bias": True}),
    ],
    ids=["odd", "int8, a column", "bias"],
)
def test_samples_and_mutants_compute_it(
    make: Any, sizes: tuple[int, int, int], args: dict[str, Any]
) -> None:
    task = make(*sizes, **args)
    space, rng = SearchSpace(task), np.random.default_rng(3)
    (sketch,) = with_tensor_cores(space.sketches)
    first = space.sample(rng, 1, lambda each: [legal(task, s) for s in each], sketch=sketch)[0]
    second = next(m for m in (restructured(space.context, first, rng) for _ in range(20)) if m)
    assert first != second
    for steps in (first,) if args else (first, second):
        assert check_candidate(task, steps, seconds=60).verdict is Verdict.AGREES
        for name in ("ansor-0.19", "autosched-1"):
            rows = features_of_steps(task.dag, steps, task.target, name, False)
            assert len(rows) == 7 and np.isfinite(rows).all()


IMAGE = {"N": 1, "H": 9, "W": 7, "CI": 20, "CO": 24, "KH": 3, "KW": 3, "stride": 2, "padding": 1}
POINTS = {**IMAGE, "KH": 1, "KW": 1, "padding": 0}
OPERATORS: dict[str, tuple[str, dict[str, Any], str]] = {
    "requantised, strided and padded": (
        "conv2d_nhwc_requantised",
        {**IMAGE, "in_dtype": "uint8", "weight_dtype": "int8", "x_zero": 3, "y_zero": 7},
        "mma.m16n8k32.u8.s8",
    ),
    "requantised": (
        "dense_requantised",
        {"M": 17, "N": 1, "K": 31, "in_dtype": "int8", "weight_dtype": "uint8"},
        "mma.m16n8k32.s8.u8",
    ),
    "1x1": ("conv2d_nhwc", {**POINTS, "in_dtype": "uint8"}, "mma.m16n8k32.u8"),
    "strided and padded": ("conv2d_nhwc", {**IMAGE, "in_dtype": "float16"}, "mma.m16n8k16.f16"),
    "batches": (
        "batch_matmul",
        {"B": 2, "M": 17, "N": 33, "K": 31, "dtype": "bfloat16", "acc_dtype": "float32"},
        "mma.m16n8k16.bf16",
    ),
}


@pytest.mark.parametrize("case", OPERATORS)
def test_operators(case: str) -> None:
    """Odd sizes of the built-in operators; whole numbers are equal bit for bit."""
    name, args, wanted = OPERATORS[case]
    task = Task.from_workload(name, target=cuda_target("sm_80"), **args)
    space = SearchSpace(task)
    (sketch,) = with_tensor_cores(space.sketches)
    (steps,) = space.sample(np.random.default_rng(0), 1, sketch=sketch)
    assert [s.instruction for s in steps if isinstance(s, MatrixTilesStep)] == [wanted]
    assert check_candidate(task, steps, seconds=60).verdict is Verdict.AGREES
    if "k32" in wanted:
        inputs = task.inputs()
        assert tolerances(task, inputs, task.reference(inputs)) == [Tolerance(0)]


@pytest.mark.parametrize("case", ["strided and padded", "batches", "requantised"])
def test_operators_of_warpgroups(case: str) -> None:
    name, args, _ = OPERATORS[case]
    task = Task.from_workload(name, target=cuda_target("sm_90"), **args)
    space, rng = SearchSpace(task), np.random.default_rng(1)
    sketch, _ = with_tensor_cores(space.sketches)
    (steps,) = space.sample(rng, 1, lambda each: [legal(task, s) for s in each], sketch=sketch)
    mutant = next(m for m in (restructured(space.context, steps, rng) for _ in range(50)) if m)
    for each in (steps, mutant):
        assert check_candidate(task, each, seconds=60).verdict is Verdict.AGREES
        for features in ("ansor-0.19", "autosched-1"):
            rows = features_of_steps(task.dag, each, task.target, features, False)
            assert np.isfinite(rows).all()


def test_draws_of_warpgroups_fit(make: Any) -> None:
    """What threads hold in the registers of a block, tiles of all stages in its memory."""
    task = make(1024, 1024, 1024, "sm_90")
    space, rng = SearchSpace(task), np.random.default_rng(0)
    sketch, _ = with_tensor_cores(space.sketches)
    drawn = [steps[0] for steps in space.sample(rng, 40, sketch=sketch)]
    for _ in range(40):
        changed = restructured(space.context, (drawn[-1],), rng)
        drawn += changed or ()
    assert len(set(drawn)) > 20
    for step in drawn:
        assert isinstance(step, MatrixTilesStep)
        m, n, k, warp_m, warp_n = step.sizes
        assert (warp_m, warp_n) == (16, n) and 2 * m * (n // 2 + 40) <= 65536
        assert (m + n) * k * 2 * step.stages <= 224 * 1024


def test_long_sums_of_few_elements_are_shared_by_blocks(make: Any) -> None:
    """A sketch of two kernels beside the other: slices of the sum, and what adds them up."""
    for sizes in ((20, 24, 1000), (1024, 512, 1056)):
        assert len(with_tensor_cores(SearchSpace(make(*sizes)).sketches)) == 1
    args: dict[str, Any] = {"M": 20, "N": 24, "K": 1056, "in_dtype": "float16"}
    task = Task.from_workload("dense_bias_relu", target=cuda_target(), **args)
    space, rng = SearchSpace(task), np.random.default_rng(2)
    _, sketch = with_tensor_cores(space.sketches)
    (steps,) = space.sample(rng, 1, lambda each: [legal(task, s) for s in each], sketch=sketch)
    split = steps[[type(step) for step in steps].index(RfactorStep) - 1]
    assert isinstance(split, SplitStep) and split.lengths[0]
    slices = split.lengths[0]
    assert 1 < slices <= 64
    other = restructured(space.context, steps, rng)
    assert other is not None and split in other and other != steps
    assert check_candidate(task, steps, seconds=60).verdict is Verdict.AGREES
    source = cuda_source(task.dag, steps, task.target)
    assert [kernel.grid[2] for kernel in source.kernels] == [slices, 1]
    kernels = load_nvrtc("sm_80").compile(source.source, "sm_80").resources.values()
    assert [(used.stack, used.spill_loads) for used in kernels] == [(0, 0), (0, 0)]
    small = scaled(task, steps)
    assert small is not None  # of each slice whole tiles and the rest of one stay
    block_k = next(s.sizes[2] for s in steps if isinstance(s, MatrixTilesStep))
    shorter = small[0].workload.to_json()["args"]["K"]
    assert shorter % slices == 0 and shorter // slices % block_k == 1056 // slices % block_k


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_as_many_batches_as_there_are(arch: str) -> None:
    """A launch has at most 65,535 blocks along z, where batches are otherwise."""
    args: dict[str, Any] = {"B": 70000, "M": 16, "N": 40, "K": 16, "in_dtype": "float16"}
    task = Task.from_workload("batch_matmul", target=cuda_target(arch), **args)
    space, rng = SearchSpace(task), np.random.default_rng(0)
    sketch = with_tensor_cores(space.sketches)[0]
    (steps,) = space.sample(rng, 1, lambda each: [legal(task, s) for s in each], sketch=sketch)
    ((x, *others),) = [kernel.grid for kernel in cuda_source(task.dag, steps, task.target).kernels]
    assert x >= 70000 and others == [1, 1]


def test_slices_may_have_one_term_of_an_axis() -> None:
    """A slice for each channel of a window: of the axis that is cut nothing is left inside."""
    args: dict[str, Any] = {
        "N": 1,
        "D": 5,
        "H": 4,
        "W": 4,
        "CI": 16,
        "CO": 17,
        "K": 4,
        "stride": 3,
        "padding": 1,
    }
    types = {"dtype": "float16", "acc_dtype": "float32"}
    task = Task.from_workload("conv3d_ndhwc", target=cuda_target(), **args, **types)
    space, rng = SearchSpace(task), np.random.default_rng(0)
    (sketch,) = [s for s in with_tensor_cores(space.sketches) if isinstance(s.steps[0], SplitStep)]
    drawn = space.sample(rng, 60, lambda each: [legal(task, s) for s in each], sketch=sketch)
    splits = [steps[0] for steps in drawn]
    whole = [
        s for s, cut in zip(drawn, splits) if isinstance(cut, SplitStep) and cut.lengths == (16,)
    ]
    assert len(whole) > 3
    assert check_candidate(task, whole[0], seconds=60).verdict is Verdict.AGREES


def test_rows_of_tensor_cores(make: Any) -> None:
    """Warps of 32 lanes, fragments in registers, tiles of all stages, cycles of mma.sync."""
    task = make(64, 64, 128)
    step = MatrixTilesStep(2, 2, "mma.m16n8k16.f16", (32, 32, 32, 16, 16), 2, True)
    two, four = (
        2.0 ** features_of_steps(task.dag, [each], task.target, "autosched-1", False) - 1
        for each in (step, replace(step, stages=4))
    )

    def column(name: str) -> list[float]:
        return [float(value) for value in two[:, COLUMNS.index(name)]]

    tiles = 2 * 32 * 32 * 2
    shared = [float(rows[0, COLUMNS.index("shared_bytes")]) for rows in (two, four)]
    assert shared == pytest.approx([2 * tiles + 32 * 32 * 4, 4 * tiles + 32 * 32 * 4], rel=1e-4)
    assert column("block_threads") == pytest.approx([128] * 7, rel=1e-4)
    assert column("local_bytes")[0] == pytest.approx((256 * 2 + 256 * 2 + 256 * 4) / 32, rel=1e-4)
    # Rows: sums, tiles of A and B, their fragments, the result in shared memory, the result.
    sums, a, b, a_fragment, _, tile, result = range(7)
    products = 64 * 64 * 128
    assert column("compute_cycles")[sums] == pytest.approx(
        products / 32 / 16 + 64 * 64 / 32, rel=1e-3
    )
    in_memory = [k for k, moved in enumerate(column("l3_traffic")) if moved]
    assert in_memory == [a, b, result]
    assert column("l1_traffic")[a_fragment] == pytest.approx(products / 16 * 2, rel=1e-3)
    assert column("l1_traffic")[sums] == 0
    assert column("l1_traffic")[tile] == pytest.approx(64 * 64 * 4, rel=1e-3)


def test_records_replays_and_programs(make: Any) -> None:
    task = make(40, 24, 64, bias=True)
    sizes = (32, 32, 32, 16, 16)
    steps = (MatrixTilesStep(2, 4, "mma.m16n8k16.f16", sizes, 3, True),)
    written = steps_to_json(steps)
    assert written == [["XM", 2, 4, "mma.m16n8k16.f16", list(sizes), 3, 1]]
    assert steps_from_json(written) == steps
    state = task.dag.infer_bound_of(steps)
    names = ["A", "B", "C.a", "C.b", "C.a.frag", "C.b.frag", "C.acc", "C.tile", "C", "bias", "out"]
    assert [stage.name for stage in state.stages] == names
    assert "C.acc mma.m16n8k16.f16, 3 stages, swizzled" in state.to_str()
    assert "tensorize mi (0,16)" in state.to_str() and state.stages[8].is_inlined
    program = python_schedule(task.dag, steps)
    assert 'te.MatrixTile(32, 32, 32, 16, 16, 3, True), "mma.m16n8k16.f16", out)' in program
    with pytest.raises(ConfigError, match="the step XM, which Ansor does not have"):
        ansor_log.format_line(task.to_json(), steps, MeasureResult((1.0,)), 0)
    with pytest.raises(ConfigError, match="expected an array of 5 integers"):
        steps_from_json([["XM", 2, 4, "mma.m16n8k16.f16", [32, 32], 3, 1]])
    split, _ = task.dag.init_state.split(2, task.dag.init_state.stages[2].iters[0], [4])
    with pytest.raises(ScheduleError, match="the loops of C were changed before"):
        split.apply(steps[0])
