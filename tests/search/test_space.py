"""Sketches beyond Ansor's: where they appear, what they look like, that they compute the same."""

from typing import Any

import numpy as np
import pytest

from autosched import te
from autosched.driver import build_steps, lower_steps
from autosched.measure.check import compare
from autosched.referee.check import Verdict, check_candidate
from autosched.runtime.cpu import load
from autosched.search.options import SearchOptions
from autosched.search.rules.protocol import Context
from autosched.search.space import SearchSpace
from autosched.state import queries
from autosched.state.dag import ComputeDAG
from autosched.state.iterator import IterKind
from autosched.state.stage import ComputeAt
from autosched.state.state import State
from autosched.target import HardwareParams, cpu_target
from autosched.task import Task
from kit.sketches import SPACES, assert_right, sketches_of

NEW = [
    ("C[j] = sum(i, A[i, j])", "SRS"),
    ("C[j] = max(i, A[i, j])", "SRS"),
    ("C[i, k] = sum(j, A[i, j, k])", "SRS"),
    ("C[k] = sum(i, j, A[i, j, k])", "SRS"),
    ("C[i, x] = sum(r, A[i, x + r])", "SRS"),
    ("C[i, x] = max(h, r, A[i + h, x + 2*r])", "SRS"),
    ("C[j, i] = A[i, j]", "SS"),
    ("C[k, i, j] = A[i, j, k]", "SS"),
    ("C[i, j] = A[i, j]", "SS"),
    ("C[i, j] = exp(A[i, j]) + 1", "SS"),
    ("D[i, j] = A[i, j] * 2; C[j, i] = max(D[i, j], 0)", "SS"),
    ("C[x, i] = A[i, 2*x]", "SS"),
]
UNCHANGED = [
    "C[i] = sum(j, A[i, j])",  # contiguous along the reduction: lanes are parts of one sum
    "C[i, x] = sum(r, A[i, 3*x + r])",  # neighbours in the result are none in memory
    "B[i, j] = A[i, j] + 1; D[i] = sum(j, B[i, j]); C[i] = D[i] / 2",  # the rows are no output's
]
ROWS = [
    "D[i] = sum(j, A[i, j]); C[i, j] = A[i, j] / D[i]",
    "M[i] = max(k, A[i, k]); E[i, j] = exp(A[i, j] - M[i]); S[i] = sum(k, E[i, k]); "
    "C[i, j] = E[i, j] / S[i]",
]


def task_of(expr: str) -> Task:
    shapes = {"A": [6, 5, 24] if "A[i, j, k]" in expr else [12, 40]}
    if "r, A" in expr:  # a window, of what the shapes of both leave
        shapes["C"] = [10 if "i + h" in expr else 12, 13 if "3*x" in expr else 34]
    return Task.from_expression(expr, shapes)


def texts(states: tuple[State, ...]) -> list[str]:
    return [state.to_str() for state in states]


@pytest.mark.parametrize(("expr", "levels"), NEW)
def test_a_tiled_structure_beside_ansors(expr: str, levels: str) -> None:
    task = task_of(expr)
    old, new = (texts(sketches_of(task, space)) for space in SPACES)
    (added,) = [text for text in new if text not in old]
    assert [text for text in new if text in old] == old
    loops = [line.split()[1] for line in added.splitlines() if line.split()[0] == "for"]
    suffixes = ["".join(c for c in name if c.isdigit()) for name in loops]
    spatial_first = [s for s in suffixes if s]
    assert spatial_first == sorted(spatial_first) and set(spatial_first) == {"0", "1"}
    reductions = [k for k, s in enumerate(suffixes) if not s]
    assert bool(reductions) == ("R" in levels)
    if reductions:  # between the outer and the inner spatial loops
        assert suffixes[reductions[0] - 1] == "0" and suffixes[reductions[-1] + 1] == "1"


def test_what_is_computed_from_sums_follows_their_tiles() -> None:
    """A moving average need not write its sums to memory and read them again."""
    task = Task.from_expression("C[x] = sum(r, A[x + r]) / 9", {"A": [1000], "C": [992]})
    old, new = (sketches_of(task, space) for space in SPACES)
    (added,) = [state for state in new if state.to_str() not in texts(old)]
    _, sums, result = added.stages
    assert sums.compute_at is ComputeAt.ITER and len(sums.iters) == 3
    assert [it.name for it in result.iters] == ["x.0", "x.1"]


@pytest.mark.parametrize("expr", UNCHANGED)
def test_other_operators_keep_ansors_sketches(expr: str) -> None:
    task = task_of(expr)
    assert texts(sketches_of(task, "ansor")) == texts(sketches_of(task, "autosched"))


@pytest.mark.parametrize("expr", ROWS)
def test_all_stages_of_a_row_are_computed_together(expr: str) -> None:
    """They stay where the sketch has placed them: the row is the only loop at the top."""
    task = task_of(expr)
    old, new = (sketches_of(task, space) for space in SPACES)
    (added,) = [state for state in new if state.to_str() not in texts(old)]
    places = [stage.compute_at for stage in added.stages]
    assert places.count(ComputeAt.ITER) == len(places) - 2  # all but A and C
    space = SearchSpace(task)
    for steps in space.sample(np.random.default_rng(0), 8, sketch=added):
        assert [stage.compute_at for stage in space.context.dag.state_of(steps).stages] == places


@pytest.mark.parametrize(
    ("expr", "shape", "loops"),
    [
        ("D[j] = sum(i, A[i, j]); C[i, j] = A[i, j] / D[j]", [12, 40], "j.0 i j.1"),
        (
            "M[b, j] = max(i, A[b, i, j]); E[b, i, j] = exp(A[b, i, j] - M[b, j]); "
            "S[b, j] = sum(i, E[b, i, j]); C[b, i, j] = E[b, i, j] / S[b, j]",
            [3, 7, 20],
            "b j.0 i j.1",
        ),
        (
            "D[c] = sum(n, h, A[n, c, h]); C[n, c, h] = A[n, c, h] - D[c]",
            [3, 8, 20],
            "c.0 c.1 n h",
        ),
        ("D[i] = sum(j, k, A[i, j, k]); C[i, j, k] = A[i, j, k] - D[i]", [8, 3, 20], "i.0 i.1 j k"),
    ],
)
def test_rows_lie_along_any_axes(expr: str, shape: list[int], loops: str) -> None:
    """The axes that no reduction goes through come first; columns stay beside one another."""
    task = Task.from_expression(expr, {"A": shape})
    fused = [
        state
        for state in sketches_of(task, "autosched")
        if [stage.compute_at for stage in state.stages].count(ComputeAt.ITER)
        == len(state.stages) - 2
    ]
    assert fused
    for state in fused:
        *stages, last = state.stages
        assert " ".join(it.name for it in last.iters) == loops
        for stage in stages:
            kinds = [it.kind for it in stage.iters]
            if IterKind.REDUCTION in kinds and loops.endswith("j.1"):
                assert kinds[-1] is IterKind.SPATIAL
    assert_right(task, fused, 6)


@pytest.mark.parametrize(
    "expr",
    [
        "D[i] = sum(j, A[i, j]); C[i, j] = A[i, j] / D[i] / D[j]",  # of all rows in each
        "D[z] = sum(i, j, A[i, j] + 0 * z); C[i, j] = A[i, j] / D[0]",
    ],
)
def test_what_a_whole_array_is_needed_for_has_no_rows(expr: str) -> None:
    shapes = {"A": [12, 12], "D": [1]} if "D[z]" in expr else {"A": [12, 12]}
    sketches = sketches_of(Task.from_expression(expr, shapes), "autosched")
    sums = [stage for state in sketches for stage in state.stages if stage.op.name == "D"]
    assert sums and all(stage.compute_at is not ComputeAt.ITER for stage in sums)


def test_the_rows_behind_a_stage_to_be_tiled_are_computed_together() -> None:
    """Those of an attention, in all sketches: its trials are for the tiles of the products."""
    task = Task.from_workload("transpose_batch_matmul_softmax", B=1, S=13, H=2, D=5)
    rows = ("maxelem", "exp", "expsum")

    def is_fused(state: State) -> bool:
        found = [s.compute_at is ComputeAt.ITER for s in state.stages if s.op.name in rows]
        return found == [True] * len(rows)

    old, new = (sketches_of(task, space) for space in SPACES)
    assert not any(map(is_fused, old)) and new and all(map(is_fused, new))
    space = SearchSpace(task)
    inputs = task.inputs(seed=1)
    (want,) = task.reference(inputs)
    for steps in space.sample(np.random.default_rng(0), 3)[:3]:
        assert is_fused(space.context.dag.state_of(steps))
        got = np.empty_like(want)
        load(build_steps(task.dag, steps, task.target))(*inputs, got)
        assert compare("norm", got, want) is None, steps


@pytest.mark.parametrize("expr", [*(case[0] for case in NEW), *ROWS])
def test_a_gpu_keeps_ansors_sketches(expr: str) -> None:
    task = task_of(expr)
    old, new = (texts(sketches_of(task, space, gpu=True)) for space in SPACES)
    assert [text for text in new if "storage_offset" not in text] == old  # but tiles to turn


@pytest.mark.parametrize("expr", [*(case[0] for case in NEW), *ROWS])
def test_samples_compute_the_reference(expr: str) -> None:
    task = task_of(expr)
    inputs = task.inputs(seed=1)
    (want,) = task.reference(inputs)
    for steps in SearchSpace(task).sample(np.random.default_rng(2), 6):
        got = np.empty_like(want)
        load(build_steps(task.dag, steps, task.target))(*inputs, got)
        assert compare("C", got, want) is None, steps


TWICE = {
    "C[i, j] = sum(k, A[i, k] * A[j, k])": [70, 40],
    "C[i, j] = sum(k, A[i, k] * A[k, j])": [60, 60],
    "C[i, j] = sum(k, A[k, i] * A[k, j])": [31, 50],
    "C[b, i, j] = sum(k, A[b, i, k] * A[b, j, k])": [3, 33, 20],
    "C[i, j] = sum(k, (A[i, k] - A[j, k]) ** 2)": [50, 17],
    "C[i, j] = A[i] * A[j]": [90],
}
"""Tensors that are read in two roles, and their shapes."""


@pytest.mark.parametrize("expr", TWICE)
def test_products_of_a_tensor_with_itself_are_tiled(expr: str) -> None:
    """Ansor leaves them as they are; a product of 1024x1024 took 2.6 times as long as NumPy's."""
    task = Task.from_expression(expr, {"A": TWICE[expr]})
    old, new = (
        max([step.code for step in sketch.steps].count("SP") for sketch in sketches_of(task, space))
        for space in SPACES
    )
    assert old <= 1  # a factored reduction
    assert new >= 2
    assert_right(task, SearchSpace(task).sketches, 1, seed=3)


@pytest.mark.parametrize("expr", TWICE)
def test_a_gpu_fetches_no_tensor_that_is_read_in_two_roles(expr: str) -> None:
    """It would be all rows between those of the two."""
    task = Task.from_expression(expr, {"A": TWICE[expr]}, target="cuda")
    space = SearchSpace(task)
    codes = [step.code for sketch in space.sketches for step in sketch.steps]
    assert "CHR" not in codes
    assert "CHW" in codes
    (steps, *_) = space.sample(np.random.default_rng(0), 1)
    assert check_candidate(task, steps, seconds=60).verdict is Verdict.AGREES


@pytest.mark.parametrize(("stride", "padding"), [(2, 1), (1, 2), (1, 0)])
def test_a_window_asks_for_the_border_itself(stride: int, padding: int) -> None:
    """Without a copy of the padded input; where nothing is padded there is nothing to ask for."""
    task = Task.from_workload(
        "max_pool2d_nchw", N=1, C=2, H=9, W=37, K=3, stride=stride, padding=padding
    )
    old, new = (sketches_of(task, space) for space in SPACES)
    added = [state for state in new if state.to_str() not in texts(old)]
    assert len(added) == (padding > 0) + (stride == 1)  # windows that slide are tiled, too
    inputs = task.inputs(seed=1)
    inputs[0].flat[::7] = np.nan
    (want,) = task.reference(inputs)
    for sketch in added:
        (steps,) = SearchSpace(task).sample(np.random.default_rng(0), 1, sketch=sketch)
        got = np.empty_like(want)
        load(build_steps(task.dag, steps, task.target))(*inputs, got)
        np.testing.assert_array_equal(got, want)


def test_a_depthwise_convolution_asks_for_the_border_itself() -> None:
    """Other convolutions, which use an element for many channels, do not."""
    image: dict[str, Any] = {"N": 1, "H": 9, "W": 13, "stride": 1, "padding": 1}
    task = Task.from_workload("depthwise_conv2d_nhwc", K=3, C=20, **image)
    (inlined,) = (s for s in sketches_of(task, "autosched") if s.stages[1].is_inlined)
    inputs = task.inputs(seed=1)
    (want,) = task.reference(inputs)
    for steps in SearchSpace(task).sample(np.random.default_rng(0), 2, sketch=inlined)[:2]:
        got = np.empty_like(want)
        load(build_steps(task.dag, steps, task.target))(*inputs, got)
        assert compare("Y", got, want) is None, steps
    other = Task.from_workload("conv2d_nhwc", KH=3, KW=3, CI=4, CO=20, **image)
    assert not any(s.stages[1].is_inlined for s in sketches_of(other, "autosched"))


def test_many_stages_that_read_the_two_before_them() -> None:
    """There are 10**12 ways from the last to the first."""
    stages = [f"T{k}[i, j] = T{k - 1}[i, j] + T{k - 2}[i, j]" for k in range(2, 60)]
    text = "; ".join(["T1[i, j] = T0[i, j] * 2", *stages])
    task = Task.from_expression(text, {"T0": (32, 48)})
    inlined = task.dag.init_state
    for stage in range(2, 59):
        inlined = inlined.compute_inline(stage)
    last = len(inlined.stages) - 1
    assert queries.producers(inlined, last) == [0, 1]
    assert queries.consumers(inlined, 1) == [last]
    assert task.dag.access.common_outer_iterators_to(0, last) == 2
    (steps,) = SearchSpace(task).sample(np.random.default_rng(0), 1)
    (first,) = task.inputs(seed=1)
    (want,) = task.reference([first])
    got = np.empty_like(want)
    load(build_steps(task.dag, steps, task.target))(first, got)
    assert compare("T59", got, want) is None


def test_inlining_ends_in_ansors_space_too() -> None:
    """Inlined one into the other, the last of these stages would read the first 10**8 times."""
    stages = [f"T{k}[i, j] = T{k - 1}[i, j] + T{k - 2}[i, j]" for k in range(2, 40)]
    text = "; ".join(["T1[i, j] = T0[i, j] * 2", *stages])
    task = Task.from_expression(text, {"T0": (32, 48)})
    (sketch,) = sketches_of(task, "ansor")
    assert [stage.is_inlined for stage in sketch.stages].count(False) == 9
    assert_right(task, [sketch], each=1)


def test_no_tile_goes_around_a_sum_that_ends_where_an_element_says() -> None:
    """All candidates were refused: the loops that the length depends on were not around it."""
    a, b = te.placeholder((12, 40), name="A"), te.placeholder((40, 24), name="B")

    def element(i: Any, j: Any) -> Any:
        k = te.reduce_axis((0, i + 1), "k")
        return te.sum(a[i, k] * b[k, j], axis=k)

    dag = ComputeDAG([a, b, te.compute((12, 24), element, name="C")])
    context = Context(dag, HardwareParams(8), False, SearchOptions())
    candidates = SearchSpace.of(context).sample(np.random.default_rng(0), 8)
    assert candidates
    for steps in candidates:
        lower_steps(dag, steps, cpu_target())
