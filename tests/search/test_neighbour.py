"""A neighbour of a candidate is another legal one that is like it."""

import numpy as np
import pytest

from autosched.search import neighbour as module
from autosched.search.neighbour import neighbour
from autosched.search.space import SearchSpace
from autosched.search.structure import form_of
from autosched.state.steps import SplitStep, Step
from autosched.task import Task


def test_neighbours_are_legal_and_near(space: SearchSpace) -> None:
    rng = np.random.default_rng(0)
    changed = elsewhere = 0
    for steps in space.sample(rng, 8)[:8]:
        for _ in range(8):
            found = space.mutated(rng, steps)
            space.context.dag.infer_bound_of(found)  # raises where it is illegal
            changed += found != steps
            elsewhere += form_of(found) != form_of(steps)
            numbers = [k for k, (a, b) in enumerate(zip(steps, found, strict=False)) if a != b]
            if form_of(found) == form_of(steps):
                assert len(numbers) <= 1
    assert changed > 32  # of 64
    if not space.context.is_gpu and any(len(sketch.stages) > 3 for sketch in space.sketches):
        assert elsewhere  # a stage, or the parallel loop


def test_a_candidate_that_nothing_can_be_changed_of_is_its_own_neighbour() -> None:
    space = SearchSpace(Task.from_expression("B[i] = A[i] + 1", {"A": (1,)}))
    (steps,) = space.sample(np.random.default_rng(0), 1)[:1]
    plain: tuple[Step, ...] = tuple(step for step in steps if isinstance(step, SplitStep))
    assert neighbour(space.context, plain, np.random.default_rng(0)) == plain


def test_what_cannot_be_applied_is_no_neighbour(
    space: SearchSpace, monkeypatch: pytest.MonkeyPatch
) -> None:
    (steps,) = space.sample(np.random.default_rng(0), 1)[:1]
    wrong = (*steps, SplitStep(99, 0, 8, (2,)))
    monkeypatch.setattr(module, "restructured", lambda *_: wrong)
    monkeypatch.setattr(module, "_RESTRUCTURED", 1.0)
    assert neighbour(space.context, steps, np.random.default_rng(0)) == steps
