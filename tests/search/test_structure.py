"""Structures: candidates of one differ in numbers only, those of two in something else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from autosched.search.population import Structures
from autosched.search.structure import Steps, kept_splits
from autosched.state.steps import PragmaStep, SplitStep, Step
from kit.types import MakeSpace, MakeTask


def without_numbers(steps: Steps) -> Steps:
    """The steps with tile lengths of 1 and unroll limits of 0, but where a structure keeps them."""
    kept = kept_splits(steps)
    blank: list[Step] = list(steps)
    for k, step in enumerate(steps):
        if isinstance(step, SplitStep) and k not in kept:
            blank[k] = replace(step, lengths=(1,) * len(step.lengths))
        elif isinstance(step, PragmaStep) and step.unroll_limit is not None:
            blank[k] = replace(step, pragma="auto_unroll_max_step$0")
    return tuple(blank)


@pytest.mark.parametrize("name", ["matmul", "softmax", "conv2d_nhwc"])
def test_a_structure_is_what_is_left_without_numbers(
    name: str, target: str, make_space: MakeSpace, make_task: MakeTask
) -> None:
    space = make_space(make_task(name, target))
    # A GPU's limits make each sample cost ten times as much.
    samples = space.sample(np.random.default_rng(4), 48 if target == "cpu" else 20)
    structures = Structures()
    numbers = structures.rows(samples).structures.tolist()
    texts = [without_numbers(steps) for steps in samples]
    assert len(set(zip(numbers, texts, strict=True))) == len(set(numbers)) == len(set(texts))
    assert 1 < len(set(numbers)) < len(samples)
