"""The cost model of a run: made, warm-started, loaded and saved as the user asked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from autosched.cli.config import CostModelSection
from autosched.cli.console import err, warn
from autosched.errors import ConfigError
from features.names import FEATURE_NAMES
from measure.records import read_log
from search.cost_model import XGBoostModel, make_cost_model
from search.featurize import Helper
from search.learner import Learner
from search.warm_start import warm_start


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

    `cost_model.file` is loaded when it exists; a file given by --load-model must exist.
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
        model.load(wanted, len(FEATURE_NAMES))
    learner = Learner(model)
    for path in flags.warm_start:
        contents = read_log(path)
        for problem in contents.problems:
            warn(f"warning: {problem}")
        found = warm_start(learner, contents.records, kind, helper)
        for problem in found.problems:
            warn(f"warning: {path}: {problem}; not learned from")
        err.print(
            f"warm start from {path}: {found.records} records of {found.tasks} tasks", markup=False
        )
    return learner


def save_model(learner: Learner, section: CostModelSection, flags: ModelFlags) -> None:
    """Write the trained model to --save-model or `cost_model.file`, if either was given."""
    path = flags.save or (Path(section.file) if section.file else None)
    if path is None or not isinstance(learner.model, XGBoostModel):
        return
    learner.refresh()
    if not learner.trained:
        warn(f"warning: the cost model was not trained, so {path} was not written")
        return
    learner.model.save(path)
    err.print(f"cost model saved to {path}", markup=False)
