"""What competes: cost models of autosched, of scikit-learn's form, or of one's own."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from autosched import arguments
from autosched.errors import ConfigError
from autosched.features.ansor.rows import FeatureRows
from autosched.search.cost_model import Scores, XGBoostModel, consensus, numbers_of
from autosched.user_file import failure_in, load_object

Numbers = npt.NDArray[np.float64]


class Model(Protocol):
    """A cost model in the arena.

    `name` is what tables call it. A model that has `seed(number)` is told the number of each run.
    One that has `opinions(programs)`, the scores of several members (programs, members), is asked
    for them by the search `autosched`, which lets the members choose in turns.
    """

    name: str

    def fit(self, programs: Sequence[FeatureRows], throughputs: Numbers) -> None:
        """Learn anew from programs and their throughputs, relative to the best of each task.

        What an earlier call taught is forgotten.
        """

    def predict(self, programs: Sequence[FeatureRows]) -> Numbers:
        """A score for each program, higher for faster ones: (programs,)."""


class Boosted:
    """The model of `autosched tune`."""

    name = "xgboost"

    def __init__(self) -> None:
        self._seed = 0
        self._model = XGBoostModel()

    def seed(self, number: int) -> None:
        """Of the random draws of training."""
        self._seed = number

    def fit(self, programs: Sequence[FeatureRows], throughputs: Numbers) -> None:
        """Train from scratch."""
        self._model = XGBoostModel(self._seed)
        self._model.fit(programs, throughputs.tolist())

    def opinions(self, programs: Sequence[FeatureRows]) -> Scores:
        """What each member expects: (programs, members)."""
        return self._model.opinions(programs)

    def predict(self, programs: Sequence[FeatureRows]) -> Numbers:
        """What the members agree on."""
        return consensus(self.opinions(programs)).astype(float)


class Chance:
    """Scores drawn uniformly: what every model must beat."""

    name = "random"

    def __init__(self) -> None:
        self._rng = np.random.default_rng(0)

    def seed(self, number: int) -> None:
        """Of the draws."""
        self._rng = np.random.default_rng(number)

    def fit(self, programs: Sequence[FeatureRows], throughputs: Numbers) -> None:
        """Learns nothing."""

    def predict(self, programs: Sequence[FeatureRows]) -> Numbers:
        """Uniform draws."""
        return self._rng.random(len(programs))


class Estimator:
    """A regressor of scikit-learn's form, which sees one vector for each program.

    `vector` makes it of a program's rows. The target is the logarithm of the throughput.
    """

    def __init__(
        self, regressor: Any, name: str = "", vector: Callable[[FeatureRows], Numbers] | None = None
    ) -> None:
        self.name = name or type(regressor).__name__
        self._regressor = regressor
        self._vector = vector or program_vector

    def seed(self, number: int) -> None:
        """Becomes the `random_state` of the regressor and its parts (of a pipeline's steps)."""
        names = [
            name
            for name in self._regressor.get_params()
            if name == "random_state" or name.endswith("__random_state")
        ]
        if names:
            self._regressor.set_params(**dict.fromkeys(names, number))

    def fit(self, programs: Sequence[FeatureRows], throughputs: Numbers) -> None:
        """Scikit-learn's regressors start anew at each call."""
        self._regressor.fit(self._vectors(programs), np.log(throughputs))

    def predict(self, programs: Sequence[FeatureRows]) -> Numbers:
        """The regressor's own."""
        return np.asarray(self._regressor.predict(self._vectors(programs)), float)

    def _vectors(self, programs: Sequence[FeatureRows]) -> Numbers:
        return np.stack([self._vector(program) for program in programs])


def program_vector(rows: FeatureRows) -> Numbers:
    """Mean and largest value of each column, and the number of stores: (2 columns + 1,)."""
    exact = rows.astype(float)
    return np.concatenate([exact.mean(axis=0), exact.max(axis=0), [len(rows)]])


MODELS: dict[str, Callable[[], Model]] = {"xgboost": Boosted, "random": Chance}


def contestant(given: Any) -> Model:
    """A model from a name of MODELS, from `file.py:name` (the file is run), or from an object.

    An object has `fit`, `predict` and `name`, or is a regressor of scikit-learn's form, which has
    `get_params` instead of a name. Raises ConfigError that says what is missing.
    """
    if isinstance(given, str) and given in MODELS:
        return MODELS[given]()
    if isinstance(given, str):
        if ":" not in given:
            names = ", ".join(MODELS)
            raise ConfigError(f"model {given!r}: expected {names} or file.py:name")
        _, found = load_object(given, "model", "cost model")
        return _checked(_made(found, given) if isinstance(found, type) else found, given)
    return _checked(given, repr(given))


def _made(kind: type, where: str) -> Any:
    path, _, name = where.rpartition(":")
    try:
        return kind()
    except (Exception, SystemExit) as error:
        raise ConfigError(f"model: {failure_in(path, error, f'{name}()')}") from error


def _checked(model: Any, where: str) -> Model:
    missing = [
        f"{name}()" for name in ("fit", "predict") if not callable(getattr(model, name, None))
    ]
    if not missing and hasattr(model, "get_params") and not hasattr(model, "name"):
        return Estimator(model)
    if not isinstance(getattr(model, "name", None), str):
        missing.append("name (text)")
    if missing:
        raise ConfigError(
            f"model {where}: expected fit(programs, throughputs), predict(programs) and name, or a "
            f"regressor of scikit-learn; {', '.join(missing)} is missing"
        )
    found: Model = model
    return found


def tell_seed(model: Model, number: int) -> None:
    """Tell a model that has `seed` the number of a run. Raises ConfigError when that fails."""
    tell = getattr(model, "seed", None)
    if callable(tell):
        with _watched(model, "seed"):
            tell(number)


def fit(model: Model, programs: Sequence[FeatureRows], throughputs: Numbers) -> None:
    """Have the model learn anew. Raises ConfigError, which says where, when that fails."""
    with _watched(model, "fit"):
        model.fit(list(programs), throughputs.copy())


def opinions_of(model: Model, programs: Sequence[FeatureRows]) -> Scores:
    """The scores of a model's members: (programs, members); of one without members its own.

    Raises ConfigError when it fails, and when there is not a number for each program.
    """
    ask, name = getattr(model, "opinions", None), "opinions"
    if ask is None:
        ask, name = model.predict, "predict"
    with _watched(model, name):
        answered = ask(list(programs))
    expected = f"model {model.name}: expected {len(programs)} scores"
    try:
        found = numbers_of(answered)
    except (TypeError, ValueError, OverflowError) as error:
        raise ConfigError(f"{expected}, {arguments.found(answered)}: {error}") from error
    found = found[:, None] if found.ndim == 1 else found
    fits = found.ndim == 2 and len(found) == len(programs) and found.size > 0
    if not fits or (name == "predict" and found.shape[1] > 1) or np.isnan(found).any():
        raise ConfigError(
            f"{expected}, found an array of shape "
            f"{found.shape}{' with nan in it' if np.isnan(found).any() else ''}"
        )
    return found


@contextmanager
def _watched(model: Model, method: str) -> Iterator[None]:
    """What goes wrong inside is a ConfigError that names the model, its method and the place."""
    try:
        yield
    except (Exception, SystemExit) as error:
        if type(model) in MODELS.values():  # a mistake of ours
            raise
        frames = traceback.extract_tb(error.__traceback__)
        theirs = [frame for frame in frames if frame.filename != __file__]
        place = f"{theirs[0].filename}:{theirs[0].lineno}" if theirs else "the call"
        raise ConfigError(
            f"model {model.name}: {method} failed at {place}: {type(error).__name__}: {error}"
        ) from error
