"""Conditions on one axis, of splits and of the tensor: which of them are left."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from autosched.features.batched.autosched_1.cut_trees import Condition, UncutError
from autosched.features.batched.autosched_1.left_trees import Variable
from autosched.features.batched.autosched_1.partition import Trees

_BLOCK, _ROUND, _STEP, _LANE = (Variable((0, k), False) for k in range(4))
_EXTENTS = (10, 2, 16, 4)


def _implies(one: Condition, other: Condition) -> bool:
    extents = [np.array([extent]) for extent in _EXTENTS]
    stages = {0: SimpleNamespace(loops=SimpleNamespace(slots=range(4)))}
    nest = SimpleNamespace(stages=stages, forms=SimpleNamespace(extents=extents))
    return Trees._implies(cast(Any, SimpleNamespace(_nest=nest)), one, other, 0)


def _below(limit: int, **factors: int) -> Condition:
    names = {"block": _BLOCK, "round": _ROUND, "step": _STEP, "lane": _LANE}
    return Condition(tuple([(names[name], by) for name, by in factors.items()]), 1 - limit)


_SPLIT = _below(25, round=16, step=1)
"""Of a tile of 100: (round * 16 + step) * 4 + lane."""


def test_what_splits_imply_is_gone() -> None:
    assert _implies(_SPLIT, _below(1000, block=100, round=64, step=4, lane=1))
    assert not _implies(_SPLIT, _below(990, block=100, round=64, step=4, lane=1))


def test_other_loops_are_another_matter() -> None:
    assert not _implies(_SPLIT, _below(30, block=4, lane=1))
    assert not _implies(_SPLIT, Condition(((_ROUND, -16), (_STEP, -1)), 3))


def test_what_is_hard_to_tell_has_no_rule() -> None:
    with pytest.raises(UncutError):  # no multiple
        _implies(_SPLIT, _below(1000, block=100, round=64, step=8))
    with pytest.raises(UncutError):  # the other way round
        _implies(_SPLIT, _below(20, round=16, step=1))
