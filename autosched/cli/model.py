"""The cost model of a run: made, warm-started, loaded and saved as the user asked."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from autosched.cli.chosen import read
from autosched.cli.config import CostModelSection
from autosched.cli.console import count, warn
from autosched.errors import ConfigError
from autosched.features.sets import feature_set
from autosched.search.cost_model import XGBoostModel, make_cost_model
from autosched.search.featurize import Helper
from autosched.search.learner import Learner
from autosched.search.pretrained import start_pretrained
from autosched.search.warm_start import warm_start


@dataclass(frozen=True, slots=True)
class ModelFlags:
    """Flags of the command line about the cost model."""

    load: Path | None = None
    save: Path | None = None
    warm_start: Sequence[Path] = ()


def make_learner(
    section: CostModelSection, flags: ModelFlags, seed: int, kind: str, helper: Helper
) -> Learner:
    """The model of a configuration, with what the flags add. ConfigError when a file is wrong.

    `cost_model.file` is loaded when it exists; a file given by --load-model must exist. Without
    either the model that comes with autosched is, unless `cost_model.pretrained` is false.
    """
    model = make_cost_model(section.kind, seed)
    wanted = flags.load or (Path(section.file) if section.file else None)
    if not isinstance(model, XGBoostModel):
        if wanted is not None or flags.save is not None or flags.warm_start:
            raise ConfigError(
                f"the cost model {section.kind!r} learns nothing, so it cannot be loaded, saved or "
                "warm-started; set cost_model.kind to xgboost"
            )
        return Learner(model)
    if wanted is not None and (flags.load is not None or wanted.exists()):
        chosen = feature_set(section.features)
        model.load(wanted, len(chosen.columns), chosen.schema)
    elif section.pretrained:
        start_pretrained(model, kind, section.features)
    target = _saved_to(section, flags)
    if target is not None:
        _require_writable(target)
    learner = Learner(model)
    _warm_start(learner, flags.warm_start, kind, helper, section.features)
    return learner


def _require_writable(target: Path) -> None:
    """Raise ConfigError unless `target` may be replaced: saving would replace a device, too."""
    if target.exists() and not target.is_file():
        found = "a folder" if target.is_dir() else "a device or pipe"
        raise ConfigError(f"cannot write the cost model {target}: it is {found}; give a file")
    if not os.access(target.parent, os.W_OK):
        raise ConfigError(f"cannot write the cost model {target}: give a file in a folder of yours")


def _warm_start(
    learner: Learner, paths: Sequence[Path], kind: str, helper: Helper, features: str
) -> None:
    used = 0
    for path in paths:
        found = warm_start(learner, read(path).records, kind, helper, features)
        for problem in found.problems:
            warn(f"warning: {path}: {problem}; not learned from")
        used += found.records
        records, tasks = count(found.records, "record"), count(found.tasks, "task")
        warn(f"warm start from {path}: {records} of {tasks}")
    if paths and not used:
        names = ", ".join(map(str, paths))
        raise ConfigError(
            f"--warm-start: nothing in {names} can be learned from; expected valid records of a "
            f"task on {kind}"
        )


def _saved_to(section: CostModelSection, flags: ModelFlags) -> Path | None:
    """Where the trained model goes, if anywhere."""
    return flags.save or (Path(section.file) if section.file else None)


def save_model(learner: Learner, section: CostModelSection, flags: ModelFlags) -> None:
    """Write the trained model to --save-model or `cost_model.file`, if either was given."""
    path = _saved_to(section, flags)
    if path is None or not isinstance(learner.model, XGBoostModel):
        return
    learner.refresh()
    if not learner.trained:
        warn(f"warning: the cost model was not trained, so {path} was not written")
        return
    learner.model.save(path, feature_set(section.features).schema)
    warn(f"cost model saved to {path}")
