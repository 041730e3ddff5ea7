"""Indices that are texts for some candidates."""

from __future__ import annotations

import numpy as np

from autosched.features.batched.forms import Ints
from autosched.features.batched.written import Written, either


def _numbers(*values: int) -> Ints:
    return np.array(values)


def test_a_loop_that_one_text_has_not_leaves_its_ends() -> None:
    """The first candidate reads A[t] in loops k and t, the second A[8 * k + t]."""
    k, t = 3, 5
    none, where = _numbers(0, 0), np.array([True, False])
    one = Written(where, (none, none), {t: (none, _numbers(239, 0))}, {t: _numbers(1, 0)})
    ends = {t: (none, _numbers(0, 7)), k: (none, _numbers(0, 31))}
    other = Written(~where, (none, none), ends, {t: _numbers(0, 1), k: _numbers(0, 8)})
    both = either(one, other, {k: 0, t: 1})
    assert both.where.all()
    assert [x.tolist() for x in both.ends[t]] == [[0, 0], [239, 7]]
    assert [x.tolist() for x in both.ends[k]] == [[0, 0], [239, 31]]
    assert both.strides[k].tolist() == [0, 8]
