"""Divisors and factorizations, against their definitions."""

from __future__ import annotations

from itertools import product
from math import prod

import numpy as np
import pytest

from autosched import workloads
from autosched.search.factors import divisors, factorizations
from autosched.search.mutation import mutate_tile_size
from autosched.search.options import SearchOptions
from autosched.search.rules.protocol import Context
from autosched.state.dag import ComputeDAG
from autosched.state.steps import SplitStep
from autosched.target import HardwareParams


@pytest.mark.parametrize("n", [1, 2, 12, 36, 97, 360, 1000])
def test_divisors(n: int) -> None:
    assert divisors(n) == tuple(d for d in range(1, n + 1) if n % d == 0)


@pytest.mark.parametrize(
    ("extent", "parts", "limit"), [(12, 3, 64), (24, 2, 4), (7, 3, 2), (9, 1, 3)]
)
def test_factorizations(extent: int, parts: int, limit: int) -> None:
    expected = [
        f
        for f in product(divisors(extent), repeat=parts)
        if extent % prod(f) == 0 and f[-1] <= limit
    ]
    assert list(factorizations(extent, parts, limit)) == expected


def test_a_split_without_lengths_has_no_factor_to_move() -> None:
    dag = ComputeDAG(workloads.get("matmul").tensors(M=8, N=8, K=8))
    context = Context(dag, HardwareParams(8), False, SearchOptions())
    steps = (SplitStep(2, 0, 8, ()),)  # as a record may hold it
    assert mutate_tile_size(context, steps, np.random.default_rng(0)) is None
