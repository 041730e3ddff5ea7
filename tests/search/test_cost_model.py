"""The models learn, rank, refuse what cannot be lowered, and can be saved."""

import numpy as np
import pytest

from autosched.errors import ConfigError
from autosched.search.cost_model import RandomModel, XGBoostModel, make_cost_model
from autosched.search.ranking_quality import prediction_quality


def programs(count, seed):
    """Programs of three rows whose time is the sum of a function of their rows.

    As in real features, many columns say much the same.
    """
    rng = np.random.default_rng(seed)
    rows = [np.tile(rng.random((3, 4), dtype=np.float32), 5) for _ in range(count)]
    times = np.array([float(sum(1 + 4 * (r[:, 0] > 0.5) + r[:, 1])) for r in rows])
    return rows, times.min() / times


@pytest.fixture(scope="module")
def model():
    found = XGBoostModel(seed=0, threads=1)
    found.fit(*programs(150, seed=0))
    return found


def test_it_ranks_what_it_has_not_seen(model):
    rows, speed = programs(80, seed=1)
    found = prediction_quality([float(s) for s in model.predict(rows)], list(1 / speed))
    assert found.rank_accuracy > 0.8


def test_a_program_of_zero_rows_scores_minus_infinity(model):
    rows, _ = programs(2, seed=2)
    scores = model.predict([rows[0], np.zeros((1, 20), np.float32), rows[1]])
    assert scores[1] == -np.inf
    assert np.isfinite(scores[[0, 2]]).all()
    assert len(model.predict([])) == 0


def test_the_same_seed_gives_the_same_model(model):
    other = XGBoostModel(seed=0, threads=1)
    other.fit(*programs(150, seed=0))
    rows, _ = programs(10, seed=3)
    np.testing.assert_array_equal(model.predict(rows), other.predict(rows))


def test_it_can_be_saved_and_loaded(model, tmp_path):
    model.save(tmp_path / "model.json")
    other = XGBoostModel()
    assert not other.trained
    other.load(tmp_path / "model.json")
    assert other.trained
    rows, _ = programs(10, seed=4)
    np.testing.assert_array_equal(model.predict(rows), other.predict(rows))


def test_what_cannot_be_saved_or_loaded(tmp_path):
    with pytest.raises(ConfigError, match="not been trained"):
        XGBoostModel().save(tmp_path / "model.json")
    (tmp_path / "text.json").write_text("no model")
    with pytest.raises(ConfigError, match=r"cannot read the cost model .*text\.json"):
        XGBoostModel().load(tmp_path / "text.json")


def test_the_random_model():
    model = RandomModel(seed=5)
    rows, speed = programs(20, seed=0)
    model.fit(rows, speed)
    scores = model.opinions(rows)
    assert not model.trained
    assert ((scores >= 0) & (scores < 1)).all()
    np.testing.assert_array_equal(scores, RandomModel(seed=5).opinions(rows))


def test_kinds():
    assert isinstance(make_cost_model("random", 0), RandomModel)
    assert isinstance(make_cost_model("xgboost", 0), XGBoostModel)
    with pytest.raises(ConfigError, match="expected xgboost or random"):
        make_cost_model("forest", 0)


def test_a_prediction_is_a_throughput_relative_to_the_best(model):
    rows, speed = programs(80, seed=1)
    assert abs(float(np.mean(np.log(model.predict(rows) / speed)))) < 0.2


def test_a_file_without_an_offset_is_refused(model, tmp_path):
    model.save(tmp_path / "model.json")
    text = (tmp_path / "model.json").read_text()
    (tmp_path / "other.json").write_text(text.replace('"offset"', '"other"'))
    with pytest.raises(ConfigError, match="not written by this version"):
        XGBoostModel().load(tmp_path / "other.json")


def test_a_model_of_other_features_is_refused(tmp_path):
    rows, speed = programs(20, seed=0)
    model = XGBoostModel()
    model.fit(rows, speed)
    model.save(tmp_path / "model.json", "autosched-1/1")
    XGBoostModel().load(tmp_path / "model.json", schema="autosched-1/1")
    with pytest.raises(
        ConfigError, match=r"expected ansor-0\.19/1; set cost_model\.features to auto"
    ):
        XGBoostModel().load(tmp_path / "model.json", schema="ansor-0.19/1")
