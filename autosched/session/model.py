"""The cost model of a session: made or given, loaded, warm-started, saved."""

from __future__ import annotations

import os
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from autosched.errors import ConfigError
from autosched.features.sets import feature_set
from autosched.measure.records import Record
from autosched.measure.workload_keys import WorkloadKeys
from autosched.search.cost_model import (
    COST_MODELS,
    CostModel,
    RandomModel,
    XGBoostModel,
    make_cost_model,
)
from autosched.search.featurize import Helper
from autosched.search.learner import Learner
from autosched.search.own_model import OwnCostModel, WatchedModel, own_model
from autosched.search.pretrained import start_pretrained
from autosched.search.warm_start import warm_start
from autosched.session.believed import believed
from autosched.session.reading import each_once, is_same_file, read_records
from autosched.user_warning import Tell
from autosched.words import count, visible


@dataclass(frozen=True, slots=True)
class ModelOptions:
    """Which cost model a session has, what it starts from, and where it is saved.

    `model` is a name, `file.py:name`, the user's model, or a whole `CostModel`, which is used as it
    is. A model that is made by name starts from the file `load`, otherwise from the model that
    comes with autosched, if `pretrained` is set and there is one. `warm_start` are record files of
    other tasks to train it on; `keys` names the computations of Ansor's lines whose workload keys
    are not built in. `save` is the file for the trained model.
    """

    model: str | CostModel | WatchedModel = "xgboost"
    pretrained: bool = True
    load: Path | None = None
    save: Path | None = None
    warm_start: Sequence[Path] = ()
    keys: WorkloadKeys | None = None


@dataclass(frozen=True, slots=True)
class Known:
    """The records that a run learns from without a warm start.

    These are the records of its `tasks` (their keys) in its own `file`.
    """

    file: Path | None = None
    tasks: Collection[str] = ()

    def left_out_of(self, path: Path, records: Sequence[Record]) -> list[Record]:
        """The records of the file `path` without those known."""
        if not is_same_file(path, self.file):
            return list(records)
        return [record for record in records if record.task["key"] not in self.tasks]


def make_learner(
    options: ModelOptions,
    features: str,
    seed: int,
    kind: str,
    helper: Helper,
    info: Tell,
    warning: Tell,
    known: Known | None = None,
) -> Learner:
    """Make the model for `features` and a `kind` of target; a warm start leaves out `known`.

    Raises ConfigError when a file is wrong or the model cannot be loaded, saved or warm-started.
    """
    named = isinstance(options.model, str)
    model = _made(options.model, seed)
    _require_possible(model, options)
    if isinstance(model, XGBoostModel):
        if options.load is not None:
            chosen = feature_set(features)
            model.load(options.load, len(chosen.columns), chosen.schema)
        elif named and options.pretrained:
            start_pretrained(model, kind, features)
    if options.save is not None:
        _require_writable(options.save)
    learner = Learner(model)
    _warm_start(learner, options, kind, helper, features, info, warning, known or Known())
    return learner


def save_model(
    learner: Learner, options: ModelOptions, features: str, *, overwrite: bool = False
) -> bool:
    """Train on everything there is and write the model, if `options` say so.

    Returns whether it was written; it is not if there was nothing to train it on. Raises
    ConfigError when the file cannot be written, or is of another kind and `overwrite` is not set.
    """
    if options.save is None or not isinstance(learner.model, XGBoostModel):
        return False
    learner.refresh(at_last=True)
    if not learner.trained:
        return False
    learner.model.save(options.save, feature_set(features).schema, overwrite=overwrite)
    return True


def _made(model: str | CostModel | WatchedModel, seed: int) -> CostModel:
    if isinstance(model, str) and model in COST_MODELS:
        return make_cost_model(model, seed)
    if isinstance(model, str):  # the user's file is run once, here
        model = own_model(model, "cost_model")
    return OwnCostModel(model, seed) if isinstance(model, WatchedModel) else model


def _require_possible(model: CostModel, options: ModelOptions) -> None:
    if isinstance(model, XGBoostModel):
        return
    if isinstance(model, RandomModel):
        if options.load is not None or options.save is not None or options.warm_start:
            raise ConfigError(
                "the cost model 'random' learns nothing, so it cannot be loaded, saved or "
                "warm-started; set cost_model.kind to xgboost"
            )
    elif options.load is not None or options.save is not None:
        name = model.model.name if isinstance(model, OwnCostModel) else type(model).__name__
        name = visible(name)
        raise ConfigError(
            f"autosched cannot load or save the cost model {name}; do it in your own code, before "
            "and after the run"
        )


def _require_writable(target: Path) -> None:
    """Raise ConfigError unless files can be written in the folder of `target`."""
    if not os.access(target.parent, os.W_OK):
        raise ConfigError(f"cannot write the cost model {target}: choose a folder you can write to")


def _warm_start(
    learner: Learner,
    options: ModelOptions,
    kind: str,
    helper: Helper,
    features: str,
    info: Tell,
    warning: Tell,
    known: Known,
) -> None:
    used, continued, paths = 0, 0, each_once(options.warm_start, warning)
    for path in paths:
        contents = read_records(path, warning, options.keys)
        others = known.left_out_of(path, contents.records)
        own = len(contents.records) - len(others)
        beside = f", beside {count(own, 'record')} that the run continues from" if own else ""
        records = believed(path, others, warning)
        found = warm_start(learner, records, kind, helper, features, contents.environments, warning)
        for problem in found.problems:
            warning(f"{path}: {problem}; not learned from")
        used += found.records
        continued += own
        info(
            f"warm start from {path}: {count(found.records, 'record')} of "
            f"{count(found.tasks, 'task')}{beside}"
        )
    for source in () if options.keys is None else options.keys.unused:
        warning(f"--workload {source}: no line has such a workload key; it was not used")
    if paths and not used and not continued:
        names = ", ".join(map(str, paths))
        hold = "holds" if len(paths) == 1 else "hold"
        raise ConfigError(
            f"warm start: {names} {hold} nothing to learn from; expected valid records of a task "
            f"on {kind}"
        )
