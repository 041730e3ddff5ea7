"""The cost models that compete: those of autosched and of the user."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from autosched.features.ansor.rows import FeatureRows
from autosched.search.batch_choice import Opinions
from autosched.search.cost_model import RandomModel, Scores, XGBoostModel
from autosched.search.own_model import WatchedModel, own_model

Numbers = npt.NDArray[np.float64]


class Player(Protocol):
    """The interface of a cost model to the arena."""

    @property
    def name(self) -> str:
        """The name of the model in tables."""

    def seed(self, number: int) -> None:
        """Begin a run with this seed."""

    def fit(self, programs: Sequence[FeatureRows], throughputs: Numbers) -> None:
        """Learn from scratch from programs and throughputs, relative to the best of each task."""

    def opinions(self, programs: Sequence[FeatureRows]) -> Opinions:
        """The score that each member predicts, higher for faster programs: (programs, members)."""


class Boosted:
    """The model of `autosched tune`."""

    name = "xgboost"

    def __init__(self) -> None:
        self._seed = 0
        self._model = XGBoostModel()

    def seed(self, number: int) -> None:
        """Set the seed of the random draws of training."""
        self._seed = number

    def fit(self, programs: Sequence[FeatureRows], throughputs: Numbers) -> None:
        """Train from scratch."""
        self._model = XGBoostModel(self._seed)
        self._model.fit(programs, throughputs.tolist())

    def opinions(self, programs: Sequence[FeatureRows]) -> Scores:
        """The score that each member predicts: (programs, members)."""
        return self._model.opinions(programs)


class Chance:
    """Scores drawn uniformly: what every model must beat."""

    name = "random"

    def __init__(self) -> None:
        self._model = RandomModel()

    def seed(self, number: int) -> None:
        """Set the seed of the draws."""
        self._model = RandomModel(number)

    def fit(self, programs: Sequence[FeatureRows], throughputs: Numbers) -> None:
        """Do nothing: the scores stay random."""

    def opinions(self, programs: Sequence[FeatureRows]) -> Scores:
        """Uniform draws: (programs, 1)."""
        return self._model.opinions(programs)


MODELS: dict[str, Callable[[], Player]] = {"xgboost": Boosted, "random": Chance}


def contestant(given: Any) -> Player:
    """A model from a name of MODELS, from `file.py:name` (the file is run), or from an object.

    An object has `fit`, `predict` and `name`, or is a regressor of scikit-learn's form, which has
    `get_params` instead of a name. Raises ConfigError that says what is missing.
    """
    if isinstance(given, Boosted | Chance | WatchedModel):
        return given
    if isinstance(given, str) and given in MODELS:
        return MODELS[given]()
    return own_model(given, "model")
