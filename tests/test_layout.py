"""Layout options and changes as data."""

import json
from collections.abc import Sequence

import numpy as np
import pytest

from autosched.errors import ConfigError
from autosched.layout import LayoutChange, LayoutOption

CHANGE = LayoutChange("B", 1, (8, 32), ((1, 4), (1, 4), (0, 8), (1, 2)), "8k32j", "4j4j8k2j")


@pytest.mark.parametrize("value", ["pre-transformed", 2, LayoutOption.FOR_PRE_TRANSFORMED])
def test_an_option_by_name_and_by_number(value: LayoutOption | int | str) -> None:
    assert LayoutOption.parse(value) is LayoutOption.FOR_PRE_TRANSFORMED
    assert LayoutOption.parse(value).text == "pre-transformed"


@pytest.mark.parametrize("value", ["packed", 3, -1, True, None, [], 1.0, "2"])
def test_another_option_is_refused(value: float | str | Sequence[object] | None) -> None:
    with pytest.raises(ConfigError, match="layout_rewrite: expected one of none, insert-"):
        LayoutOption.parse(value)


def test_transform_puts_every_element_where_its_digits_say() -> None:
    array = np.arange(8 * 32).reshape(8, 32)
    stored = CHANGE.transform(array)
    assert stored.shape == CHANGE.new_shape == (4, 4, 8, 2)
    assert stored.flags.c_contiguous
    for j0 in range(4):
        for j1 in range(4):
            for k in range(8):
                for j2 in range(2):
                    assert stored[j0, j1, k, j2] == array[k, j0 * 8 + j1 * 2 + j2]


def test_another_shape_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"B must have shape \(8, 32\), found \(32, 8\)"):
        CHANGE.transform(np.zeros((32, 8)))


def test_a_change_survives_json() -> None:
    assert LayoutChange.from_json(json.loads(json.dumps(CHANGE.to_json()))) == CHANGE
