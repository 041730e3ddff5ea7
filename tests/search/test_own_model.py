"""Cost models of the user, as a search asks them."""

from collections.abc import Sequence
from typing import Any

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


@pytest.mark.parametrize(
    ("factor", "offset"),
    [(1.0, 0.0), (1e-6, 1e-6), (1e6, -1e9), (0.1, -1e9), (1e300, 0.0), (1e-60, 0.0), (1e-44, 0.0)],
)
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
    better = Scale(0.0, 0.1)  # whose mean is not 0.1 in floats
    model = searched(better)
    model.fit(PROGRAMS[:3], THROUGHPUTS[:3])
    better.offset += 1e-9
    mean = float(np.exp(np.log(THROUGHPUTS[:3]).mean()))
    assert model.opinions(PROGRAMS)[:, 0] == pytest.approx(mean, rel=1e-5)
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


def test_members_that_come_or_go_are_told() -> None:
    class Some(Scale):
        members = 3

        def opinions(self, programs: Sequence[Array]) -> Array:
            return np.ones((len(programs), self.members))

    some = Some(1.0)
    model = searched(some)
    model.fit(PROGRAMS, THROUGHPUTS)
    some.members = 2
    with pytest.raises(ConfigError, match=r"model scale: expected the scores of 3 members.* 2$"):
        model.opinions(PROGRAMS)
    model.fit(PROGRAMS, THROUGHPUTS)
    assert model.opinions(PROGRAMS).shape == (8, 2)


def test_a_property_that_fails_is_the_models_error() -> None:
    class Model(Scale):
        seed = property(lambda self: 1 // 0)

        def __init__(self) -> None:
            self.factor, self.offset = 1.0, 0.0

    with pytest.raises(ConfigError, match=r"seed failed at .*test_own_model.*ZeroDivisionError"):
        searched(Model())


def test_the_seed_of_the_run_is_told() -> None:
    model = Scale(1.0)
    searched(model, 5)
    assert model.seeds == [5]


def test_the_random_state_of_a_regressor_is_one_that_scikit_learn_takes() -> None:
    class Regressor:
        def get_params(self) -> dict[str, int]:
            return {"random_state": 0}

        def set_params(self, random_state: int) -> None:
            given.append(random_state)

        def fit(self, vectors: Array, targets: Array) -> None: ...

        def predict(self, vectors: Array) -> Array:
            return vectors[:, 0]

    given: list[int] = []
    for seed in (2**32 - 1, 2**32 + 7):
        own_model(Regressor(), "cost_model").seed(seed)
    assert given == [2**32 - 1, 7]


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


class Loud:
    """As arrays of a library that lets nobody look at those it learns with."""

    def __array__(self, *_: object, **__: object) -> Array:
        raise RuntimeError("call detach() first")


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (Loud(), r"\(Loud\): call detach\(\) first"),
        (np.ones(8) * 1j, "its elements are of the type complex128"),
        (np.zeros(8, "datetime64[s]"), r"its elements are of the type datetime64\[s\]"),
        (None, "found None$"),
        (1.0, r"found 1.0 \(float\)$"),
    ],
)
def test_what_is_no_score(answer: Any, message: str) -> None:
    class Other(Scale):
        def predict(self, programs: Sequence[Array]) -> Any:
            return answer

    with pytest.raises(ConfigError, match=f"(?s)^model scale: expected 8 scores, .*{message}"):
        searched(Other(1.0)).fit(PROGRAMS, THROUGHPUTS)


def test_a_name_is_told_as_it_was_and_shows_nothing_hidden() -> None:
    failing = Scale(1.0)
    failing.name = "a\x1b[31m\nb"
    model = searched(failing)
    failing.name = "other"
    failing.factor = None  # type: ignore[assignment]  # has it fail
    with pytest.raises(ConfigError, match=r"^model a\\x1b\[31m\\nb: predict failed at "):
        model.fit(PROGRAMS, THROUGHPUTS)


class Unseen(Scale):
    """It has no text."""

    def __repr__(self) -> str:
        raise RuntimeError("no text")


class Closed(Unseen):
    @property
    def predict(self) -> Any:
        raise RuntimeError("not fitted")


class Nameless(Unseen):
    name = " "


def test_objects_that_fail_when_they_are_looked_at() -> None:
    searched(Unseen(1.0)).fit(PROGRAMS, THROUGHPUTS)
    long = {"layers": [0] * 99}
    with pytest.raises(
        ConfigError, match=r"^cost_model \{'layers': \[0, [0, ]*\.\.\.: expected fit"
    ):
        own_model(long, "cost_model")
    with pytest.raises(
        ConfigError, match=r"^cost_model Closed: predict cannot be looked at: RuntimeError: not"
    ):
        own_model(Closed(1.0), "cost_model")
    with pytest.raises(ConfigError, match=r"^cost_model Nameless: .*; name \(text\) is missing$"):
        own_model(Nameless(1.0), "cost_model")
