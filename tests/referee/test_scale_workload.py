"""Smaller problems: inner lengths, remainders and windows stay."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from pathlib import Path

import pytest

from autosched.referee.scale_workload import scaled
from autosched.state.steps import FuseStep, MatrixTilesStep, SplitStep, Step
from autosched.task import Task

Candidate = Callable[[str, int], tuple[Task, tuple[Step, ...]]]


def axes(task: Task, steps: tuple[Step, ...]) -> list[tuple[int, int, bool]]:
    """(length, inner product, whether reduced) of the axes that the steps split."""
    state, found = task.dag.init_state, []
    for step in steps:
        if isinstance(step, SplitStep):
            it = state.stages[step.stage_id].iters[step.iter_id]
            if it.extent is not None and "@" not in it.name:
                inner = prod(length or 1 for length in step.lengths)
                found.append((it.extent, inner, it.kind.name == "REDUCTION"))
        state = state.apply(step)
    return found


@pytest.mark.parametrize(
    ("workload", "number"),
    [("matmul", 3), ("matmul", 17), ("conv2d_nhwc", 16), ("conv1d_nlc", 0), ("conv3d_ndhwc", 0)],
)
def test_tiles_and_remainders_stay(golden: Candidate, workload: str, number: int) -> None:
    task, steps = golden(workload, number)
    found = scaled(task, steps)
    assert found is not None
    small, small_steps = found
    assert small.dag.flop_count < task.dag.flop_count
    for (before, inner, reduced), (after, same, _) in zip(
        axes(task, steps), axes(small, small_steps), strict=True
    ):
        assert inner == same
        assert after % inner == before % inner
        assert after // inner >= min(before // inner, 3 if reduced else 2)


def test_windows_strides_and_padding_stay(golden: Candidate) -> None:
    task, steps = golden("conv2d_nhwc", 16)
    found = scaled(task, steps)
    assert found is not None
    before = task.to_json()["workload"]["args"]
    after = found[0].to_json()["workload"]["args"]
    assert {k: before[k] for k in ("KH", "KW", "stride", "padding", "dilation", "groups")} == {
        k: after[k] for k in ("KH", "KW", "stride", "padding", "dilation", "groups")
    }


def test_fused_axes_keep_tiles_and_at_least_half_of_the_rest() -> None:
    """Two rows of two remained, of which tiles of 32 and more had a few elements."""
    task = Task.from_workload("add_relu", target="cuda", M=64, N=100)
    fused: tuple[Step, ...] = (FuseStep(2, (0, 1)),)
    for inner, least in ((32, 64), (33, 79)):
        found = scaled(task, (*fused, SplitStep(2, 0, 6400, (inner,), True)))
        assert found is not None
        m, n = (found[0].to_json()["workload"]["args"][name] for name in "MN")
        assert least <= m * n < 100 and (m * n % inner == 0) == (inner == 32)
        smallest = scaled(task, (*fused, SplitStep(2, 0, 6400, (inner,), True)), least=True)
        assert smallest is not None and smallest[0].name == "add_relu(M=2, N=2)"


def test_rows_of_a_product_on_tensor_cores_are_tiles_together() -> None:
    """Of a convolution's tile of 64 rows only 4 remained, and 27 of 32 terms."""
    sizes = {"N": 1, "H": 28, "W": 28, "CI": 64, "CO": 64, "KH": 3, "KW": 3}
    types = {"in_dtype": "float16", "weight_dtype": "float16"}
    args = {**sizes, **types, "stride": 1, "padding": 1}
    task = Task.from_json_workload({"op": "conv2d_nhwc", "args": args}, "cuda")
    tiles = MatrixTilesStep(3, 3, "mma.m16n8k16.f16", (64, 64, 32, 32, 32), 2, True)
    found = scaled(task, (tiles,))
    assert found is not None
    args = found[0].to_json()["workload"]["args"]
    assert 128 <= args["H"] * args["W"] < 28 * 28 and args["H"] * args["W"] % 64 >= 8
    assert 9 * args["CI"] % 32 == 0 and args["CO"] == 64


def test_extents_in_the_steps_are_the_new_ones(golden: Candidate) -> None:
    task, steps = golden("matmul", 3)
    found = scaled(task, steps)
    assert found is not None
    small, small_steps = found
    k = small.to_json()["workload"]["args"]["K"]
    assert k < task.to_json()["workload"]["args"]["K"]
    recorded = [s.extent for s in small_steps if isinstance(s, SplitStep)]
    assert k in recorded and None in recorded  # cooperative fetches are known after bounds only


def test_nothing_shrinks_below_its_tiles() -> None:
    task = Task.from_workload("matmul", target="cuda", M=2, N=2, K=3)
    assert scaled(task, ()) is None


def test_functions_of_a_file_are(tmp_path: Path) -> None:
    """Their sizes are arguments, too."""
    file = tmp_path / "doubled.py"
    file.write_text(
        "from autosched import te\n"
        "def doubled(N):\n"
        "    A = te.placeholder((N,), name='A')\n"
        "    return A, te.compute((N,), lambda i: A[i] * 2, 'B')\n"
    )
    workload = {"python": f"{file}:doubled", "args": {"N": 512}}
    found = scaled(Task.from_json_workload(workload, "cuda"), ())
    assert found is not None
    assert found[0].workload.to_json()["args"] == {"N": 2}


def test_arguments_that_are_no_sizes_stay(tmp_path: Path) -> None:
    """Every number below a seed was tried, for minutes."""
    file = tmp_path / "plus.py"
    file.write_text(
        "from pathlib import Path\n"
        "from autosched import te\n"
        "def plus(N, number):\n"
        "    with Path(__file__).with_name('calls').open('a') as calls:\n"
        "        calls.write('.')\n"
        "    A = te.placeholder((N,), name='A')\n"
        "    return A, te.compute((N,), lambda i: A[i] + number, 'B')\n"
    )
    workload = {"python": f"{file}:plus", "args": {"N": 8, "number": 500}}
    found = scaled(Task.from_json_workload(workload, "cuda"), ())
    assert found is not None
    assert found[0].workload.to_json()["args"] == {"N": 2, "number": 500}
    assert len((tmp_path / "calls").read_text()) < 50


def test_expressions_are_not_scaled() -> None:
    task = Task.from_expression("B[i] = A[i] * 2", {"A": [512]}, target="cuda")
    assert scaled(task, ()) is None
