"""Every column of every feature set has a group and a meaning, every row a buffer."""

import pytest

from autosched.driver import lower_for_features
from autosched.errors import ConfigError
from autosched.features.sets import FEATURE_SETS, feature_set
from autosched.task import Task


@pytest.mark.parametrize("name", FEATURE_SETS)
def test_columns(name: str) -> None:
    chosen = FEATURE_SETS[name]
    assert len(set(chosen.columns)) == len(chosen.columns)
    meanings = [chosen.meaning(column) for column in chosen.columns]
    assert all(meanings)
    assert not any("{" in text for text in meanings)


def test_the_groups_of_ansors_set() -> None:
    sizes = {group: len(names) for group, names in feature_set("ansor-0.19").groups.items()}
    assert sizes == {
        "computation": 57,
        "buffer access": 90,
        "arithmetic intensity": 10,
        "allocation": 4,
        "outer scope": 3,
    }


def test_an_unknown_set_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"feature set 'x' is unknown, expected ansor-0\.19"):
        feature_set("x")


def test_every_row_has_the_name_of_its_buffer() -> None:
    """Ansor's rows begin with what is stored last."""
    task = Task.from_workload("dense_bias_relu", M=8, N=8, K=8)
    func = lower_for_features(task.dag, (), task.target)
    stored = ["T", "U", "relu"]
    for name, expected in (("ansor-0.19", stored[::-1]), ("autosched-1", stored)):
        chosen = FEATURE_SETS[name]
        assert chosen.buffers(func) == expected
        assert len(chosen.extract(func, task.target)) == len(expected)
