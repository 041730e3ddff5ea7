"""Cost models: from the rows of a program to a score, higher for faster programs."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from autosched.errors import ConfigError
from features.extract import FeatureRows

Scores = npt.NDArray[np.float32]


class CostModel(Protocol):
    """Learns from measured programs; predicts others."""

    @property
    def trained(self) -> bool: ...
    def prepare(self) -> None: ...
    def fit(self, programs: Sequence[FeatureRows], throughputs: Sequence[float]) -> None: ...
    def predict(self, programs: Sequence[FeatureRows]) -> Scores: ...


class RandomModel:
    """Scores drawn uniformly: the baseline of every search."""

    trained = False

    def __init__(self, seed: int = 0) -> None:
        self._rng = np.random.default_rng(seed)

    def prepare(self) -> None:
        """Needs no preparation."""

    def fit(self, programs: Sequence[FeatureRows], throughputs: Sequence[float]) -> None:
        """Learns nothing."""

    def predict(self, programs: Sequence[FeatureRows]) -> Scores:
        return self._rng.random(len(programs), dtype=np.float32)


class XGBoostModel:
    """Gradient-boosted trees over rows; a program's score is the sum over its rows.

    Ansor's pack-sum objective: every row of a program gets the gradient of (sum - y)^2 weighted
    by y, the program's throughput relative to the best of its task. Parameters are Ansor's except
    the number of rounds: its early stopping watches the training error, which a few hundred
    programs reach long before 10000 rounds (30, 60 and 300 ranked unseen candidates of matmul and
    conv2d_nhwc equally well after 32 and 64 trials, and so did other depths and rates). One thread
    trains on a few hundred rows in 60 ms; several on a busy machine took up to 3 s.
    """

    _PARAMS: dict[str, Any] = {
        "max_depth": 10,
        "gamma": 0.001,
        "min_child_weight": 0,
        "eta": 0.2,
        "verbosity": 0,
        "disable_default_eval_metric": 1,
        "tree_method": "hist",
        "max_bin": 64,
    }

    def __init__(self, seed: int = 0, *, rounds: int = 60, threads: int = 1) -> None:
        self._rounds = rounds
        self._params = {**self._PARAMS, "seed": seed, "nthread": threads}
        self._booster: Any = None
        self._loaded: Any = None

    @property
    def trained(self) -> bool:
        return self._booster is not None

    def prepare(self) -> None:
        """Import XGBoost in the background; that takes some two seconds."""
        threading.Thread(target=import_module, args=("xgboost",), daemon=True).start()

    def fit(self, programs: Sequence[FeatureRows], throughputs: Sequence[float]) -> None:
        """Train from scratch, or on top of a loaded model.

        `throughputs` are relative to the best of the program's task, in [0, 1].
        """
        import xgboost

        if not programs:
            return
        rows, pack = _stack(programs)
        y = np.asarray(throughputs, np.float32)

        def objective(predicted: Scores, _: Any) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
            sums = np.bincount(pack, weights=predicted, minlength=len(y))
            weight = y[pack]
            return (sums - y)[pack] * weight, weight

        matrix = xgboost.DMatrix(rows, label=y[pack])
        self._booster = xgboost.train(
            {**self._params, "base_score": 0.0},
            matrix,
            self._rounds,
            obj=objective,
            xgb_model=self._loaded,
        )

    def predict(self, programs: Sequence[FeatureRows]) -> Scores:
        """The score of each program; -inf for one whose rows are all zero (not lowerable)."""
        import xgboost

        if not programs:
            return np.zeros(0, np.float32)
        rows, pack = _stack(programs)
        per_row = self._booster.predict(xgboost.DMatrix(rows))
        scores = np.bincount(pack, weights=per_row, minlength=len(programs)).astype(np.float32)
        empty = np.array([not p.any() for p in programs])
        scores[empty] = -np.inf
        return scores

    def save(self, path: Path | str, schema: str = "") -> None:
        """Write the model as JSON (XGBoost's own format), replacing the file in one go.

        `schema` names the feature set and its version; the file keeps it.
        """
        if self._booster is None:
            raise ConfigError("the cost model has not been trained; there is nothing to save")
        self._booster.set_attr(feature_set=schema or None)
        path = Path(path)
        partial = path.with_name(path.name + ".part")
        try:
            partial.write_bytes(self._booster.save_raw("json"))
            partial.replace(path)
        except OSError as error:
            raise ConfigError(f"cannot write the cost model {path}: {error.strerror}") from error

    def load(self, path: Path | str, num_features: int | None = None, schema: str = "") -> None:
        """Read a model written by `save`; later training corrects it rather than starting over.

        Raises ConfigError when it cannot be read, was not made for `num_features` columns, or
        names another feature set than `schema`.
        """
        import xgboost

        booster = xgboost.Booster()
        try:
            booster.load_model(bytearray(Path(path).read_bytes()))
        except OSError as error:
            raise ConfigError(f"cannot read the cost model {path}: {error.strerror}") from error
        except xgboost.core.XGBoostError as error:
            reason = str(error).strip().splitlines()[-1]
            raise ConfigError(
                f"cannot read the cost model {path}: it is not XGBoost's JSON ({reason})"
            ) from error
        found = booster.attr("feature_set")
        if schema and found is not None and found != schema:
            raise ConfigError(
                f"the cost model {path} is for the features {found}, expected {schema}; set "
                f"cost_model.features to {found.partition('/')[0]}, or give another file"
            )
        if num_features is not None and booster.num_features() != num_features:
            raise ConfigError(
                f"the cost model {path} is for {booster.num_features()} features, expected "
                f"{num_features}"
            )
        self._booster = self._loaded = booster


def _stack(programs: Sequence[FeatureRows]) -> tuple[FeatureRows, npt.NDArray[np.int64]]:
    """All rows, and the program each belongs to."""
    counts = [len(p) for p in programs]
    return np.concatenate(programs), np.repeat(np.arange(len(programs)), counts)


def make_cost_model(kind: str, seed: int) -> CostModel:
    """The model of a configuration's `cost_model.kind`."""
    if kind == "random":
        return RandomModel(seed)
    if kind == "xgboost":
        return XGBoostModel(seed)
    raise ConfigError(f"cost model {kind!r} is unknown, expected xgboost or random")
