"""Cost models of the user, as a search asks them."""

from collections.abc import Sequence

import numpy as np
import pytest

from autosched.errors import ConfigError
from autosched.search.own_model import OwnCostModel, any_cost_model, own_model
from kit.types import Array

PROGRAMS = [np.full((2, 3), k, np.float32) for k in range(8)]
THROUGHPUTS = [2.0 ** (k - 7) for k in range(8)]


class Scale:
    """Right, in its own unit: the first feature times a factor, and an offset."""

    name = "scale"

    def __init__(self, factor: float, offset: float = 0.0) -> None:
        self.factor, self.offset = factor, offset
        self.seeds: list[int] = []

    def seed(self, number: int) -> None:
        self.seeds.append(number)

    def fit(self, programs: Sequence[Array], throughputs: Array) -> None:
        assert isinstance(throughputs, np.ndarray) and len(programs) == len(throughputs)

    def predict(self, programs: Sequence[Array]) -> Array:
        return np.array([self.factor * float(each[0, 0]) + self.offset for each in programs])


def searched(model: object, seed: int = 0) -> OwnCostModel:
    return OwnCostModel(own_model(model, "cost_model"), seed)


@pytest.mark.parametrize(("factor", "offset"), [(1.0, 0.0), (1e-6, 1e-6), (1e6, -1e9)])
def test_scores_of_any_scale_are_read_as_throughputs(factor: float, offset: float) -> None:
    """The search weighs parents and new candidates by ratios of throughputs."""
    model = searched(Scale(factor, offset))
    assert not model.trained
    model.fit(PROGRAMS, THROUGHPUTS)
    assert model.trained
    assert model.opinions(PROGRAMS)[:, 0] == pytest.approx(THROUGHPUTS, rel=0.02)
    better = np.full((2, 3), 9, np.float32)
    assert model.opinions([better])[0, 0] == pytest.approx(4.0, rel=0.02)


def test_a_model_without_an_opinion_ranks_nothing() -> None:
    model = searched(Scale(0.0, 7.0))
    model.fit(PROGRAMS, THROUGHPUTS)
    answered = model.opinions(PROGRAMS)
    assert answered.shape == (8, 1) and len(set(answered[:, 0].tolist())) == 1
    model.fit(PROGRAMS[:1], [1.0])
    assert np.isfinite(model.opinions(PROGRAMS)).all()


def test_infinite_scores_are_the_best_and_the_illegal() -> None:
    class Infinite(Scale):
        def predict(self, programs: Sequence[Array]) -> Array:
            found = super().predict(programs)
            found[0], found[-1] = -np.inf, np.inf
            return found

    model = searched(Infinite(1.0))
    model.fit(PROGRAMS, THROUGHPUTS)
    answered = model.opinions(PROGRAMS)[:, 0]
    assert answered[0] == -np.inf
    assert np.isfinite(answered[1:]).all() and answered.argmax() == 7


def test_members_are_asked_instead_of_predict() -> None:
    class Two(Scale):
        def opinions(self, programs: Sequence[Array]) -> Array:
            found = self.predict(programs)
            return np.stack([found, -found], axis=1)

    model = searched(Two(1.0))
    model.fit(PROGRAMS, THROUGHPUTS)
    answered = model.opinions(PROGRAMS)
    assert answered.shape == (8, 2)
    assert answered[:, 0].argmax() == 7 and answered[:, 1].argmax() == 0


def test_the_seed_of_the_run_is_told() -> None:
    model = Scale(1.0)
    searched(model, 5)
    assert model.seeds == [5]


def test_programs_cannot_be_written_to() -> None:
    class Writing(Scale):
        def fit(self, programs: Sequence[Array], throughputs: Array) -> None:
            programs[0][:] = 0

    with pytest.raises(ConfigError, match=r"model scale: fit failed at .*read-only"):
        searched(Writing(1.0)).fit(PROGRAMS, THROUGHPUTS)
    assert PROGRAMS[1].all()


def test_names_and_whole_models_are_taken_as_they_are() -> None:
    whole = searched(Scale(1.0))
    assert any_cost_model(whole, "cost_model") is whole
    assert any_cost_model("random", "cost_model") == "random"
