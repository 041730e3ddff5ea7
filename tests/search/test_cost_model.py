"""The models learn, rank, refuse what cannot be lowered, and can be saved."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autosched.errors import ConfigError
from autosched.search.cost_model import (
    MEMBERS,
    RandomModel,
    XGBoostModel,
    consensus,
    make_cost_model,
)
from autosched.search.ranking_quality import prediction_quality
from kit.types import Array


def programs(count: int, seed: int) -> tuple[list[Array], Any]:
    """Programs of three rows whose time is the sum of a function of their rows.

    As in real features, many columns say much the same.
    """
    rng = np.random.default_rng(seed)
    rows = [np.tile(rng.random((3, 4), dtype=np.float32), 5) for _ in range(count)]
    times = np.array([float(sum(1 + 4 * (r[:, 0] > 0.5) + r[:, 1])) for r in rows])
    return rows, times.min() / times


@pytest.fixture(scope="module")
def model() -> XGBoostModel:
    found = XGBoostModel(seed=0, threads=1)
    found.fit(*programs(150, seed=0))
    return found


def test_it_ranks_what_it_has_not_seen(model: XGBoostModel) -> None:
    rows, speed = programs(80, seed=1)
    found = prediction_quality([float(s) for s in model.predict(rows)], list(1 / speed))
    assert found is not None and found.rank_accuracy > 0.8


def test_a_program_of_zero_rows_scores_minus_infinity(model: XGBoostModel) -> None:
    rows, _ = programs(2, seed=2)
    scores = model.predict([rows[0], np.zeros((1, 20), np.float32), rows[1]])
    assert scores[1] == -np.inf
    assert np.isfinite(scores[[0, 2]]).all()
    assert len(model.predict([])) == 0


def test_the_same_seed_gives_the_same_model(model: XGBoostModel) -> None:
    other = XGBoostModel(seed=0, threads=1)
    other.fit(*programs(150, seed=0))
    rows, _ = programs(10, seed=3)
    np.testing.assert_array_equal(model.predict(rows), other.predict(rows))


def test_a_seed_may_have_any_number_of_bits() -> None:
    rows, speed = programs(20, seed=1)
    for seed in (2**63 - 1, 2**63, 2**64 + 1):
        model = XGBoostModel(seed=seed, threads=1)
        model.fit(rows, speed)
        assert model.trained


def test_it_can_be_saved_and_loaded(model: XGBoostModel, tmp_path: Path) -> None:
    model.save(tmp_path / "model.json")
    other = XGBoostModel()
    assert not other.trained
    other.load(tmp_path / "model.json")
    assert other.trained
    rows, _ = programs(10, seed=4)
    np.testing.assert_array_equal(model.predict(rows), other.predict(rows))


def test_what_cannot_be_saved_or_loaded(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="not been trained"):
        XGBoostModel().save(tmp_path / "model.json")
    (tmp_path / "text.json").write_text("no model")
    with pytest.raises(ConfigError, match=r"cannot read the cost model .*text\.json"):
        XGBoostModel().load(tmp_path / "text.json")


def test_the_random_model() -> None:
    model = RandomModel(seed=5)
    rows, speed = programs(20, seed=0)
    model.fit(rows, speed)
    scores = model.opinions(rows)
    assert not model.trained
    assert ((scores >= 0) & (scores < 1)).all()
    np.testing.assert_array_equal(scores, RandomModel(seed=5).opinions(rows))


def test_kinds() -> None:
    assert isinstance(make_cost_model("random", 0), RandomModel)
    assert isinstance(make_cost_model("xgboost", 0), XGBoostModel)
    with pytest.raises(ConfigError, match="expected xgboost or random"):
        make_cost_model("forest", 0)


def test_a_prediction_is_a_throughput_relative_to_the_best(model: XGBoostModel) -> None:
    rows, speed = programs(80, seed=1)
    assert abs(float(np.mean(np.log(model.predict(rows) / speed)))) < 0.2


def test_a_file_without_an_offset_is_refused(model: XGBoostModel, tmp_path: Path) -> None:
    model.save(tmp_path / "model.json")
    text = (tmp_path / "model.json").read_text()
    (tmp_path / "other.json").write_text(text.replace('"offset"', '"other"'))
    with pytest.raises(ConfigError, match="not written by this version"):
        XGBoostModel().load(tmp_path / "other.json")


def test_a_model_of_other_features_is_refused(tmp_path: Path) -> None:
    rows, speed = programs(20, seed=0)
    model = XGBoostModel()
    model.fit(rows, speed)
    model.save(tmp_path / "model.json", "autosched-1/1")
    XGBoostModel().load(tmp_path / "model.json", schema="autosched-1/1")
    with pytest.raises(
        ConfigError, match=r"expected ansor-0\.19/1; set cost_model\.features to auto"
    ):
        XGBoostModel().load(tmp_path / "model.json", schema="ansor-0.19/1")
    with pytest.raises(ConfigError, match=r"autosched-1/1, expected autosched-1/2; train it again"):
        XGBoostModel().load(tmp_path / "model.json", schema="autosched-1/2")


def test_what_matters_gains_most(model: XGBoostModel) -> None:
    """The time is of column 0 above all; columns repeat every four."""
    sums = [0.0] * 4
    for column, gain in model.gains().items():
        assert 0 <= column < 20
        sums[column % 4] += gain
    assert sums[0] > 2 * sum(sums[1:])
    with pytest.raises(ConfigError, match="has not been trained"):
        XGBoostModel().gains()


def test_the_members_differ(model: XGBoostModel) -> None:
    """Each has its own opinion of a program it has not seen, and of which of two is faster."""
    rows, _ = programs(60, seed=6)
    opinions = np.log(model.opinions(rows))
    assert opinions.shape == (60, MEMBERS)
    assert opinions.std(axis=1).min() > 1e-4
    orders = {tuple(np.argsort(member)) for member in opinions.T}
    assert len(orders) == MEMBERS


def test_fast_programs_weigh_more() -> None:
    """Of programs with the same features, one fast and one ten times slower, the fast one counts
    ten times: the geometric mean of the times, which equal weights would give, is 0.32."""
    same = np.ones((1, 20), np.float32)
    model = XGBoostModel(seed=1, threads=1)
    model.fit([same] * 200, [1.0, 0.1] * 100)
    (found,) = model.predict([same])
    assert found == pytest.approx(10 ** (-1 / 11), rel=0.15)


def test_the_times_of_rows_add_up() -> None:
    """Every row has its share of the time: what two, four and six slow rows in eight cost."""
    kinds = np.repeat(np.eye(2, dtype=np.float32), 10, axis=1)  # the second takes ten times longer
    rows = [kinds[[0] * (8 - n) + [1] * n] for n in (0, 1, 3, 5, 7, 8) for _ in range(30)]
    times = np.array([float(np.mean([1 + 9 * row[-1] for row in program])) for program in rows])
    model = XGBoostModel(seed=0, threads=1)
    model.fit(rows, list(times.min() / times))
    found = 1 / model.predict([kinds[[0] * (8 - n) + [1] * n] for n in (0, 2, 4, 6, 8)])
    np.testing.assert_allclose(found, np.array([8, 26, 44, 62, 80]) / 8, rtol=0.15)


def test_the_consensus_is_the_geometric_mean() -> None:
    opinions = np.array([[0.25, 1.0], [-np.inf, -np.inf], [0.5, 0.5]], np.float32)
    np.testing.assert_allclose(consensus(opinions), [0.5, -np.inf, 0.5])


def test_a_program_that_some_members_take_for_illegal_is_the_slowest_legal_one() -> None:
    opinions = np.array([[-np.inf, 1.0], [1.0, -np.inf], [0.5, 0.5]], np.float32)
    np.testing.assert_allclose(consensus(opinions), [1e-15, 1e-15, 0.5], rtol=1e-5)


def test_the_members_differ_where_few_programs_tell() -> None:
    """Each draws its own weights: of four contradictory programs they make different things, of
    four hundred the same."""
    same = np.ones((1, 20), np.float32)
    spread = {}
    for pairs in (2, 200):
        model = XGBoostModel(seed=0, threads=1)
        model.fit([same] * (2 * pairs), [1.0, 0.25] * pairs)
        spread[pairs] = np.log(model.opinions([same])).std()
    assert spread[2] > 0.1
    assert spread[200] < 0.05
