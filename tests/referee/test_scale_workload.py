"""Smaller problems: inner lengths, remainders and windows stay."""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from pathlib import Path

import pytest

from autosched.referee.scale_workload import scaled
from autosched.state.steps import SplitStep, Step
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
