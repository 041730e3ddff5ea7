"""Random programs of blocks mean the same after every pass, and after the whole pipeline."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.tir.equal import structural_equal
from autosched.tir.parser import parse_func
from autosched.tir.printer import to_text
from autosched.transform.framework.passes import Sequential
from autosched.transform.pipeline import CPU_PIPELINE, FROM_BLOCKS, GPU_PIPELINE
from kit.block_programs import outputs
from kit.random_blocks import random_text

SEEDS = range(8)


@pytest.mark.parametrize("seed", SEEDS)
def test_every_pass_keeps_the_meaning(seed: int) -> None:
    text, passed = random_text(seed), "none yet"
    first = func = parse_func(text)
    wanted = outputs(first)
    try:
        for pass_ in FROM_BLOCKS:
            before, func, passed = func, pass_(func), pass_.name
            if func is not before:
                assert structural_equal(parse_func(to_text(func)), func)
                np.testing.assert_array_equal(outputs(func)[1], wanted[1])
        passed = "the pipeline"
        pipeline = GPU_PIPELINE if "thread_binding" in text else CPU_PIPELINE
        np.testing.assert_array_equal(outputs(Sequential(pipeline)(first))[1], wanted[1])
    except Exception as error:
        error.add_note(f"seed {seed}, after {passed}:\n{text}")
        raise


def test_these_programs_give_every_pass_work() -> None:
    changed = set()
    for seed in SEEDS[:4]:
        func = parse_func(random_text(seed))
        for pass_ in FROM_BLOCKS:
            before, func = func, pass_(func)
            changed |= {pass_} if func is not before else set()
    assert changed == set(FROM_BLOCKS)
