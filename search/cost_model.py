"""Cost models: predict a score, higher for faster programs, from the feature rows of a program."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from autosched.errors import ConfigError
from autosched.features.ansor.rows import FeatureRows
from autosched.needed import XGBOOST, needed
from autosched.output_file import FileKind, replacing, require_replaceable
from autosched.search.model_file import ModelFileError, checked_model, read_most, unpacked
from autosched.words import last_line

Scores = npt.NDArray[np.float32]
MEMBERS = 8
COST_MODELS = ("xgboost", "random")
_LARGEST = 40.0  # logarithm of a relative time; keeps exp finite
_SEEDS = 2**63  # XGBoost's seed is a signed integer of 64 bits


class CostModel(Protocol):
    """A model that learns from measured programs and predicts the scores of others."""

    @property
    def trained(self) -> bool:
        """Whether the model has learned something, so that its `opinions` can be used."""

    def prepare(self) -> None:
        """Start slow preparations, such as imports, in the background; returns at once."""

    def fit(self, programs: Sequence[FeatureRows], throughputs: Sequence[float]) -> None:
        """Learn from rows and throughputs, which are relative to the best of a program's task."""

    def opinions(self, programs: Sequence[FeatureRows]) -> Scores:
        """The score that each member predicts, higher for faster programs: (programs, members)."""


class RandomModel:
    """Scores drawn uniformly: the baseline of every search."""

    trained = False

    def __init__(self, seed: int = 0) -> None:
        self._rng = np.random.default_rng(seed)

    def prepare(self) -> None:
        """Do nothing: there is nothing to prepare."""

    def fit(self, programs: Sequence[FeatureRows], throughputs: Sequence[float]) -> None:
        """Do nothing: the scores stay random."""

    def opinions(self, programs: Sequence[FeatureRows]) -> Scores:
        """Uniform draws: (programs, 1)."""
        return self._rng.random((len(programs), 1), dtype=np.float32)


class XGBoostModel:
    """Gradient-boosted trees over rows; the time of a program is the sum of its rows' times.

    The trees predict the logarithm of a row's time, relative to the fastest program of the task;
    the loss is the squared error of log(sum of exp), weighted by throughput as in Ansor. Ansor
    adds up the throughputs of rows instead of their times. Trained on 16 and 48 random programs of
    each of eight operators, Ansor's model ranked 0.69 and 0.71 of the pairs of 350 others
    correctly, this one 0.73 and 0.76. Most of that is due to shallow trees that each see a part of
    the rows and columns, because measured programs are few and columns are hundreds. Trained on
    seven operators, it ranked 0.73 of the pairs of the eighth operator correctly, Ansor's 0.63.

    Each member weights the programs by another random draw (a Bayesian bootstrap); where few
    programs support a prediction, members differ. The members are the targets of one booster. One
    thread trains it in 100 to 250 ms; several on a busy machine took up to 3 s.
    """

    _PARAMS: dict[str, Any] = {
        "max_depth": 5,
        "eta": 0.15,
        "subsample": 0.8,
        "min_child_weight": 0,
        "gamma": 0.001,
        "verbosity": 0,
        "disable_default_eval_metric": 1,
        "tree_method": "hist",
        "max_bin": 64,
        "num_target": MEMBERS,
    }

    def __init__(
        self, seed: int = 0, *, rounds: int = 60, columns: float = 0.15, threads: int = 1
    ) -> None:
        """`columns` is the share of the columns that each node of a tree chooses from."""
        self._rounds = rounds
        self._seed = seed
        own = {"seed": seed % _SEEDS, "nthread": threads, "colsample_bynode": columns}
        self._params = {**self._PARAMS, **own}
        self._booster: Any = None
        self._loaded: Any = None

    @property
    def trained(self) -> bool:
        """Whether the model has trees, trained or loaded."""
        return self._booster is not None

    def prepare(self) -> None:
        """Import XGBoost in the background; that takes some two seconds."""
        threading.Thread(target=_import, daemon=True).start()

    def fit(self, programs: Sequence[FeatureRows], throughputs: Sequence[float]) -> None:
        """Train from scratch, or on top of a loaded model.

        `throughputs` are relative to the best of the program's task, in (0, 1].
        """
        xgboost = needed("xgboost", XGBOOST)

        if not programs:
            return
        throughput = np.asarray(throughputs)[:, None]
        target = -np.log(throughput)
        if self._loaded is None:
            offset = float(target.mean())
        else:  # the loaded model's times are relative to another best program than these are
            self._booster = self._loaded
            expected = -np.log(self.opinions(programs).astype(float))
            offset = _offset(self._loaded) + float((target - expected).mean())
        matrix, pack = _matrix(programs, offset, self._params["nthread"])
        matrix.set_label(np.zeros((len(pack), MEMBERS)))  # tells XGBoost the number of targets
        draw = np.random.default_rng(self._seed).exponential(size=(len(programs), MEMBERS))
        weights = throughput * draw

        def objective(predicted: Scores, _: Any) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
            times, totals = _times(predicted, pack, len(programs))
            hessian = times / totals[pack] * weights[pack]
            return (np.log(totals) - target)[pack] * hessian, hessian

        if self._loaded is None:
            booster = xgboost.Booster(self._params, [matrix])
        else:  # copies all trees by a slice: Booster(model_file=...) takes fifteen times as long
            booster = self._loaded[:]
            booster.set_param(self._params)
        for number in range(self._rounds):  # train() takes 5 ms more at its end
            booster.update(matrix, number, objective)
        booster.set_attr(offset=repr(offset))
        self._booster = booster

    def opinions(self, programs: Sequence[FeatureRows]) -> Scores:
        """The throughputs that members predict, relative to the best known: (programs, members).

        -inf for a program whose rows are all zero.
        """
        if not programs:
            return np.zeros((0, MEMBERS), np.float32)
        matrix, pack = _matrix(programs, _offset(self._booster), self._params["nthread"])
        _, totals = _times(self._booster.predict(matrix), pack, len(programs))
        scores = 1 / totals
        scores[[not program.any() for program in programs]] = -np.inf
        return scores.astype(np.float32)

    def predict(self, programs: Sequence[FeatureRows]) -> Scores:
        """The geometric mean of the members' predictions: (programs,)."""
        return consensus(self.opinions(programs))

    def gains(self) -> dict[int, float]:
        """How much the splits by each column lowered the loss, summed over all trees.

        Columns without a split are missing. Raises ConfigError when there are no trees.
        """
        if self._booster is None:
            raise ConfigError("the cost model has not been trained; it has no splits")
        found = self._booster.get_score(importance_type="total_gain")
        return {int(name.removeprefix("f")): float(gain) for name, gain in found.items()}

    def save(self, path: Path | str, schema: str = "", *, overwrite: bool = False) -> None:
        """Write the model as JSON (XGBoost's own format), replacing an earlier file atomically.

        A file whose name ends in .gz is compressed. `schema` names the feature set and its version
        and is stored in the file. Raises ConfigError when there is no model to write, when it
        cannot be written, and when `path` exists and is no cost model, unless `overwrite` is set.
        """
        if self._booster is None:
            raise ConfigError("the cost model has not been trained; there is nothing to save")
        self._booster.set_attr(feature_set=schema or None)
        path = Path(path)
        require_replaceable(path, FileKind.MODEL, overwrite=overwrite)
        try:
            raw = bytes(self._booster.save_raw("json"))
            with replacing(path) as partial:
                partial.write_bytes(gzip.compress(raw, mtime=0) if path.suffix == ".gz" else raw)
        except OSError as error:
            raise ConfigError(f"cannot write the cost model {path}: {error.strerror}") from error

    def load(
        self,
        path: Path | str,
        num_features: int | None = None,
        schema: str = "",
        *,
        checked: bool = True,
    ) -> None:
        """Read a model written by `save`; later training adds trees to it.

        The whole content is checked before it is handed to XGBoost, which checks nothing; `checked`
        is false for files that come with autosched. Raises ConfigError when the file cannot be
        read, was not made for `num_features` columns, or names another feature set than `schema`.
        """
        xgboost = needed("xgboost", XGBOOST)

        booster = xgboost.Booster({"nthread": self._params["nthread"]})
        try:
            with Path(path).open("rb") as file:  # a device file may be endless: read a limit
                raw = read_most(file)
            text = checked_model(raw, MEMBERS) if checked else unpacked(raw)
            _load_with(booster, text, self._params["nthread"])
        except ModelFileError as error:
            raise ConfigError(f"cannot read the cost model {path}: {error}") from error
        except OSError as error:
            raise ConfigError(f"cannot read the cost model {path}: {error.strerror}") from error
        except xgboost.core.XGBoostError as error:
            reason = last_line(str(error))
            raise ConfigError(
                f"cannot read the cost model {path}: XGBoost {xgboost.__version__} does not take "
                f"it ({reason})"
            ) from error
        found = booster.attr("feature_set")
        if schema and found is not None and found != schema:
            name = found.partition("/")[0]
            other = f"set cost_model.features to {name}, or give another file"
            same = schema.startswith(f"{name}/")  # in another version
            raise ConfigError(
                f"the cost model {path} is for the features {found}, expected {schema}; "
                f"{'train it again' if same else other}"
            )
        if num_features is not None and booster.num_features() != num_features:
            raise ConfigError(
                f"the cost model {path} is for {booster.num_features()} features, expected "
                f"{num_features}"
            )
        if booster.attr("offset") is None:
            raise ConfigError(
                f"the cost model {path} was not written by this version of autosched; "
                "train it again"
            )
        self._booster = self._loaded = booster


def _load_with(booster: Any, text: bytes, threads: int) -> None:
    """Load the model with `threads` OpenMP threads.

    The booster's own thread count takes effect at its first training only. OpenMP threads that the
    main thread starts do not exist in a forked child, which would wait for them. A thread count
    that is set in a thread also holds for later calls of NumPy and PyTorch in that thread, so it is
    set in a new one.
    """
    xgboost = needed("xgboost", XGBOOST)

    def load() -> None:
        with xgboost.config_context(nthread=threads):
            booster.load_model(bytearray(text))

    with ThreadPoolExecutor(1) as other:
        other.submit(load).result()


def _import() -> None:
    with suppress(ConfigError):  # `fit` and `load` report a missing package
        needed("xgboost", XGBOOST)


def numbers_of(answered: object) -> npt.NDArray[np.float64]:
    """The answer of a model as an array of floats; TypeError with the reason if it is none."""
    try:
        found = np.asarray(answered)
        numbers = None if found.dtype.kind in "cMm" else found.astype(float)
    except Exception as error:  # arrays of other libraries may raise anything
        raise TypeError(str(error)) from error
    if numbers is None:
        raise TypeError(f"its elements are of the type {found.dtype}")
    return numbers


def consensus(opinions: Scores) -> Scores:
    """The geometric mean over members: (programs,); -inf where all members predict -inf."""
    legal = (opinions > -np.inf).any(axis=1)
    scores = np.full(len(opinions), -np.inf, np.float32)
    scores[legal] = np.exp(np.log(np.maximum(opinions[legal], 1e-30)).mean(axis=1))
    return scores


def _offset(booster: Any) -> float:
    """The logarithm of the relative time of an average program, to which the trees add."""
    return float(booster.attr("offset"))


def _matrix(
    programs: Sequence[FeatureRows], offset: float, threads: int
) -> tuple[Any, npt.NDArray[np.int64]]:
    """The matrix of all rows, and the index of each row's program: (rows,).

    The base margin of a row is its share of the time of an average program, whose logarithm is
    `offset`.
    """
    xgboost = needed("xgboost", XGBOOST)

    counts = np.array([len(program) for program in programs])
    pack = np.repeat(np.arange(len(programs)), counts)
    start = np.repeat((offset - np.log(counts))[pack][:, None], MEMBERS, axis=1)
    matrix = xgboost.DMatrix(np.concatenate(programs), base_margin=start, nthread=threads)
    return matrix, pack


def _times(
    predicted: Scores, pack: npt.NDArray[np.int64], programs: int
) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """The relative times of all rows, (rows, members), and of all programs, (programs, members)."""
    times = np.exp(np.clip(predicted.reshape(len(pack), MEMBERS), -_LARGEST, _LARGEST))
    totals = np.zeros((programs, MEMBERS))
    np.add.at(totals, pack, times)
    return times, totals


def make_cost_model(kind: str, seed: int) -> CostModel:
    """Make the model that `cost_model.kind` of a configuration names; ConfigError if unknown."""
    if kind == "random":
        return RandomModel(seed)
    if kind == "xgboost":
        return XGBoostModel(seed)
    raise ConfigError(f"cost model {kind!r} is unknown, expected {' or '.join(COST_MODELS)}")
