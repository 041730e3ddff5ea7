"""Rows by name; every column of every set has a group and a meaning."""

import numpy as np
import pytest

from autosched.errors import ConfigError
from autosched.features.frame import as_dicts, as_frame
from autosched.features.sets import FEATURE_SETS, feature_set


@pytest.mark.parametrize("name", FEATURE_SETS)
def test_columns(name):
    chosen = FEATURE_SETS[name]
    assert len(set(chosen.columns)) == len(chosen.columns)
    meanings = [chosen.meaning(column) for column in chosen.columns]
    assert all(meanings)
    assert not any("{" in text for text in meanings)


def test_rows_by_name():
    rows = np.arange(2 * 164, dtype=np.float32).reshape(2, 164)
    assert as_dicts(rows)[1]["float_addsub"] == 165
    assert as_frame(rows)["auto_unroll_max_step"].tolist() == [163, 327]
    assert list(as_frame(rows, group="allocation").columns) == [
        "alloc_size",
        "alloc_prod",
        "alloc_outer_prod",
        "alloc_inner_prod",
    ]


def test_the_groups_of_ansors_set():
    sizes = {group: len(names) for group, names in feature_set("ansor-0.19").groups.items()}
    assert sizes == {
        "computation": 57,
        "buffer access": 90,
        "arithmetic intensity": 10,
        "allocation": 4,
        "outer scope": 3,
    }


def test_an_unknown_set_is_refused():
    with pytest.raises(ConfigError, match=r"feature set 'x' is unknown, expected ansor-0\.19"):
        feature_set("x")
