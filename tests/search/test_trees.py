"""XGBoost's library called directly does what its Python package does, to the last bit.

Its random numbers come from one generator of the process, which new trees seed and those that
others began do not: one is trained after the other, each after new ones.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import xgboost

from autosched.search import trees
from autosched.search.trees import Rows, Trees, TreesError

PARAMETERS: dict[str, Any] = {
    "max_depth": 4,
    "eta": 0.3,
    "subsample": 0.8,
    "colsample_bynode": 0.5,
    "tree_method": "hist",
    "nthread": 1,
    "verbosity": 0,
    "seed": 3,
}
TARGETS = 3


@pytest.fixture
def values() -> Any:
    return np.random.default_rng(0).random((200, 7), dtype=np.float32)


def test_trees_for_an_objective_of_the_library(values: Any) -> None:
    target = values[:, 0] * 3 - values[:, 4]
    rows = Rows(values, labels=target)
    ours = Trees(PARAMETERS, rows)
    for number in range(10):
        ours.grow(rows, number)
    matrix = xgboost.DMatrix(values, label=target, nthread=1)
    theirs = xgboost.Booster(PARAMETERS, [matrix])
    for number in range(10):
        theirs.update(matrix, number)
    others = np.random.default_rng(1).random((50, 7), dtype=np.float32)
    assert ours.predict_values(others).tolist() == theirs.inplace_predict(others).tolist()
    assert ours.predict(rows).tolist() == theirs.predict(matrix).tolist()
    assert ours.predict_values(others).shape == (50,)
    assert ours.columns == 7
    gains = theirs.get_score(importance_type="total_gain")
    assert ours.gains() == {int(name[1:]): gain for name, gain in gains.items()}


def seed(values: Any) -> None:
    """Put the library's random numbers back."""
    rows = Rows(values, labels=values[:, 0])
    Trees(PARAMETERS, rows).grow(rows, 0)


def both_along(values: Any, rounds: int, begun: tuple[Any, Any] = (None, None)) -> tuple[Any, Any]:
    """Trees of several targets against a gradient, ours and theirs."""
    several = {**PARAMETERS, "num_target": TARGETS, "disable_default_eval_metric": 1}
    margins = np.tile(np.array([0.5, -1, 2], np.float32), (len(values), 1))
    wanted = values[:, :TARGETS] * 2
    zeros = np.zeros((len(values), TARGETS))

    def derivatives(predicted: Any) -> tuple[Any, Any]:
        return (predicted.reshape(wanted.shape) - wanted) * 0.7, np.full(wanted.shape, 0.7)

    seed(values)
    rows = Rows(values, labels=zeros, margins=margins)
    ours = Trees(several, rows, begun[0])
    for number in range(rounds):
        ours.grow_along(rows, number, *derivatives(ours.margins(rows)))
    seed(values)
    matrix = xgboost.DMatrix(values, label=zeros, base_margin=margins, nthread=1)
    theirs = xgboost.Booster(several, [matrix], model_file=begun[1])
    for number in range(rounds):
        theirs.update(matrix, number, lambda predicted, _: derivatives(predicted))
    assert ours.predict(rows).tolist() == theirs.predict(matrix).tolist()
    assert ours.predict(rows).shape == (len(values), TARGETS)
    return ours, theirs


def test_trees_against_a_gradient_and_more_on_top_of_them(values: Any) -> None:
    first = both_along(values, 6)
    both_along(values[::-1].copy(), 3, first)


def test_predictions_stay_when_others_are_made(values: Any) -> None:
    ours, _ = both_along(values, 2)
    margins = np.zeros((200, TARGETS))
    first = ours.predict(Rows(values, margins=margins))
    kept = first.tolist()
    ours.predict(Rows(values[::-1].copy(), margins=margins + 1))
    assert first.tolist() == kept


def test_rows_may_lie_apart(values: Any) -> None:
    apart = np.repeat(values, 2, axis=0)[::2]
    ours, _ = both_along(values, 2)
    assert ours.predict(Rows(apart, margins=np.zeros((200, TARGETS)))).tolist() == (
        ours.predict(Rows(values, margins=np.zeros((200, TARGETS)))).tolist()
    )


def test_the_file_is_the_one_of_the_package(values: Any) -> None:
    ours, theirs = both_along(values, 3)
    ours.note(offset="1.5", other="x")
    ours.note(other=None)
    theirs.set_attr(offset="1.5")
    assert ours.saved() == bytes(theirs.save_raw("json"))
    again = Trees({"nthread": 1})
    again.load(ours.saved())
    assert (again.noted("offset"), again.noted("other")) == ("1.5", None)
    assert again.saved() == ours.saved()


def test_without_rows_there_is_nothing_to_predict(values: Any) -> None:
    rows = Rows(values, labels=values[:, 0])
    made = Trees(PARAMETERS, rows)
    made.grow(rows, 0)
    assert made.predict_values(values[:0]).shape == (0,)


def test_what_xgboost_refuses_is_said() -> None:
    with pytest.raises(TreesError, match="Invalid model format"):
        Trees({}).load(b"{]")


def test_the_version_is_that_of_the_package() -> None:
    assert trees.version() == xgboost.__version__


def test_without_xgboost_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    trees._library.cache_clear()
    monkeypatch.setattr(trees, "find_spec", lambda _: None)
    with pytest.raises(ImportError, match="xgboost"):
        trees.load_library()
    trees._library.cache_clear()


def test_the_package_is_asked_where_the_library_is_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trees._library.cache_clear()
    monkeypatch.setattr(trees, "_LIBRARY", "no such file")
    trees.load_library()
    assert trees.version() == xgboost.__version__
    trees._library.cache_clear()


def test_neither_the_package_nor_scipy_is_imported() -> None:
    program = (
        "import sys, numpy as np; from autosched.search.cost_model import XGBoostModel\n"
        "XGBoostModel().fit([np.ones((1, 3), np.float32)] * 4, [1.0, 0.5, 0.2, 0.1])\n"
        "sys.exit(any(name in sys.modules for name in ('xgboost', 'scipy')))"
    )
    assert importlib.util.find_spec("scipy") is not None
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
