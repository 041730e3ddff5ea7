"""Cost models of the user: an object with three members, a regressor, or a file that has one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from autosched import arguments
from autosched.errors import ConfigError
from autosched.features.ansor.rows import FeatureRows
from autosched.search.cost_model import COST_MODELS, CostModel, Scores, numbers_of
from autosched.user_file import load_made, require_no_class, tell_seed, watched
from autosched.words import count, shortened, told, visible

Numbers = npt.NDArray[np.float64]
_LARGEST = 40.0  # logarithm of a relative throughput; keeps exp finite in float32
_SEEDS = 2**32  # of scikit-learn's random_state


class Model(Protocol):
    """A cost model of the user, for `autosched.tune` and the arena.

    `name` is the name of the model in tables and errors. Two more methods are optional.
    `seed(number)` is called with the seed of each run. `opinions(programs)` returns the scores of
    several members, (programs, members), and is called instead of `predict`; in the search the
    members then choose in turns.
    """

    name: str

    def fit(self, programs: Sequence[FeatureRows], throughputs: Numbers) -> None:
        """Learn from programs and their throughputs, relative to the best of each task.

        Each call starts from scratch.
        """

    def predict(self, programs: Sequence[FeatureRows]) -> Numbers:
        """A score for each program, higher for faster ones: (programs,)."""


class Estimator:
    """A model made of a regressor of scikit-learn's form, which sees one vector for each program.

    `vector` makes this vector of a program's rows. The target is the logarithm of the throughput.
    """

    def __init__(
        self, regressor: Any, name: str = "", vector: Callable[[FeatureRows], Numbers] | None = None
    ) -> None:
        self.name = name or type(regressor).__name__
        self._regressor = regressor
        self._vector = vector or program_vector

    def seed(self, number: int) -> None:
        """Set the `random_state` of the regressor and of its parts (such as a pipeline's steps)."""
        names = [
            name
            for name in self._regressor.get_params()
            if name == "random_state" or name.endswith("__random_state")
        ]
        if names:
            self._regressor.set_params(**dict.fromkeys(names, number % _SEEDS))

    def fit(self, programs: Sequence[FeatureRows], throughputs: Numbers) -> None:
        """Fit the regressor; those of scikit-learn start from scratch at each call."""
        self._regressor.fit(self._vectors(programs), np.log(throughputs))

    def predict(self, programs: Sequence[FeatureRows]) -> Numbers:
        """The predictions of the regressor: (programs,)."""
        return np.asarray(self._regressor.predict(self._vectors(programs)), float)

    def _vectors(self, programs: Sequence[FeatureRows]) -> Numbers:
        return np.stack([self._vector(program) for program in programs])


def program_vector(rows: FeatureRows) -> Numbers:
    """Mean and largest value of each column, and the number of stores: (2 columns + 1,)."""
    exact = rows.astype(float)
    return np.concatenate([exact.mean(axis=0), exact.max(axis=0), [len(rows)]])


class WatchedModel:
    """A user's model whose answers are checked and whose exceptions become ConfigErrors.

    The error names the model, the method and the line. The model gets programs that it cannot write
    to. `name` is the name that the model had when this object was made.
    """

    def __init__(self, model: Model) -> None:
        self._model = model
        self.name = model.name
        self._shown = f"model {visible(self.name)}"

    def seed(self, number: int) -> None:
        """Tell the model the seed of a run, if it has a method `seed`."""
        tell_seed(self._model, number, self._shown)

    def fit(self, programs: Sequence[FeatureRows], throughputs: Sequence[float] | Numbers) -> None:
        """Have the model learn from scratch."""
        with watched(f"{self._shown}: fit"):
            self._model.fit([unchangeable(each) for each in programs], np.array(throughputs))

    def opinions(self, programs: Sequence[FeatureRows]) -> Numbers:
        """The scores of the members: (programs, members), or (programs, 1) without members."""
        with watched(f"{self._shown}: opinions"):
            ask, name = getattr(self._model, "opinions", None), "opinions"
        with watched(f"{self._shown}: {'predict' if ask is None else name}"):
            if ask is None:
                ask, name = self._model.predict, "predict"
            answered = ask([unchangeable(each) for each in programs])
        expected = f"{self._shown}: expected {len(programs)} scores"
        try:
            found = numbers_of(answered)
        except TypeError as error:
            raise ConfigError(f"{expected}, {arguments.found(answered)}: {error}") from error
        if not found.ndim:
            raise ConfigError(f"{expected}, {arguments.found(answered)}")
        found = found[:, None] if found.ndim == 1 else found
        fits = found.ndim == 2 and len(found) == len(programs) and found.size > 0
        if not fits or (name == "predict" and found.shape[1] > 1) or np.isnan(found).any():
            raise ConfigError(
                f"{expected}, found an array of shape "
                f"{found.shape}{' with nan in it' if np.isnan(found).any() else ''}"
            )
        return found


class OwnCostModel:
    """A user's model as the cost model of a search, which reads scores as throughputs.

    The scores of a user's model may have any scale. They are shifted and scaled to logarithms of
    throughputs, with the mean and the spread of those that the model last learned from.
    """

    def __init__(self, model: WatchedModel, seed: int = 0) -> None:
        self.model = model
        model.seed(seed)
        self._unit, self._shift, self._slope = 1.0, 0.0, 0.0  # from scores to logarithms
        self._members = 0
        self.trained = False

    def prepare(self) -> None:
        """Do nothing: there is nothing to prepare."""

    def fit(self, programs: Sequence[FeatureRows], throughputs: Sequence[float]) -> None:
        """Have the model learn from scratch, and find the scale of its scores."""
        self.model.fit(programs, throughputs)
        self.trained = True
        answered = self.model.opinions(programs)
        self._members = answered.shape[1]
        scores, logs = answered[np.isfinite(answered)], np.log(throughputs)
        self._unit = float(np.abs(scores).max(initial=0.0)) or 1.0  # so that no square overflows
        scores = scores / self._unit
        center, spread = (scores.mean(), scores.std()) if scores.size else (0.0, 0.0)
        self._slope = float((logs.std() or 1.0) / (spread or 1.0))
        self._shift = float(logs.mean() - self._slope * center)

    def opinions(self, programs: Sequence[FeatureRows]) -> Scores:
        """The throughputs that members predict: (programs, members); -inf where a score is -inf."""
        scores = self.model.opinions(programs)
        if scores.shape[1] != self._members:
            raise ConfigError(
                f"model {visible(self.model.name)}: expected the scores of "
                f"{count(self._members, 'member')}, as after fit, found {scores.shape[1]}"
            )
        with np.errstate(over="ignore"):
            logs = self._shift + self._slope * (scores / self._unit)
        logs = np.clip(logs, -_LARGEST, _LARGEST)
        return np.where(scores == -np.inf, scores, np.exp(logs)).astype(np.float32)


def own_model(given: Any, where: str) -> WatchedModel:
    """The checked model of `given`: an object, or the text `file.py:name` (the file is run).

    An object has `fit`, `predict` and `name`, or is a regressor of scikit-learn's form, which has
    `get_params` instead of a name. Raises ConfigError that begins with `where`.
    """
    require_no_class(given, where)
    if not isinstance(given, str):
        return _checked(given, f"{where} {_shown(given)}")
    problem = spec_problem(given)
    if problem:
        raise ConfigError(f"{where}: {problem}")
    return _checked(load_made(given, where, "cost model"), f"{where} {given}")


def spec_problem(text: str) -> str:
    """Why `text` means no cost model; empty if it is in COST_MODELS or `file.py:name`."""
    if text in COST_MODELS or ":" in text:
        return ""
    return f"expected {', '.join(COST_MODELS)} or file.py:name, found {text!r}"


def any_cost_model(given: Any, where: str) -> str | CostModel | WatchedModel:
    """Check what a user gives as a cost model.

    A name of COST_MODELS, `file.py:name` (the file is not run yet) and an object that is a whole
    `CostModel` are returned as they are, other objects as `own_model` makes them. Raises
    ConfigError that begins with `where`.
    """
    if isinstance(given, str):
        if problem := spec_problem(given):
            raise ConfigError(f"{where}: {problem}")
        return given
    members = ("trained", "prepare", "fit", "opinions")
    if not isinstance(given, type) and all(hasattr(given, name) for name in members):
        whole: CostModel = given
        return whole
    return own_model(given, where)


def _checked(model: Any, where: str) -> WatchedModel:
    fit, predict, name, parameters = (
        _member(model, each, where) for each in ("fit", "predict", "name", "get_params")
    )
    methods = (("fit()", fit), ("predict()", predict))
    missing = [shown for shown, method in methods if not callable(method)]
    if not missing and name is None and callable(parameters):
        return WatchedModel(Estimator(model))
    if not isinstance(name, str) or not name.strip():
        missing.append("name (text)")
    if missing:
        raise ConfigError(
            f"{where}: expected fit(programs, throughputs), predict(programs) and name, or a "
            f"regressor of scikit-learn; {', '.join(missing)} is missing"
        )
    return WatchedModel(model)


def _shown(given: object) -> str:
    """The model in messages: its repr, cut to 60 characters, or its class where repr fails."""
    try:
        text = repr(given)
    except Exception:
        return type(given).__name__
    return visible(shortened(text, 60))


def _member(model: Any, name: str, where: str) -> Any:
    """The attribute `name` of the model, None if it has none; ConfigError if reading it fails."""
    try:
        return getattr(model, name, None)
    except Exception as error:
        raise ConfigError(f"{where}: {name} cannot be looked at: {told(error)}") from error


def unchangeable(program: FeatureRows) -> FeatureRows:
    """A read-only view of a program's rows: a model that writes to it fails."""
    seen = program.view()
    seen.flags.writeable = False
    return seen
