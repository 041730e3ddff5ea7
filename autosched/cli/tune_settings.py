"""Settings of a tuning session, from the command line and configuration files."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from autosched.cli.config import Config
from autosched.cli.console import warn, warning
from autosched.cli.files import require_files, require_named
from autosched.cli.named import workload_keys
from autosched.errors import ConfigError
from autosched.measure.cluster.connect import require_address
from autosched.measure.records import LogContents, stream_log
from autosched.output_file import require_apart
from autosched.search.allocation import STRATEGIES
from autosched.search.options import SearchOptions
from autosched.search.rules.custom import load_rules
from autosched.session.reading import unused
from autosched.session.session import Job, Messages, Session
from autosched.session.settings import TuneSettings
from autosched.task import Task
from autosched.words import count

_REPLACE = "give another file, or --force to replace it"
_OTHER_FILE = "Give another file with --records, or start a new one with --fresh"


@dataclass(frozen=True, slots=True)
class Overrides:
    """Command line flags that replace settings of the file; None keeps a setting."""

    trials: int | None = None
    target: str | None = None
    records: Path | None = None
    seed: int | None = None
    time_budget: float | None = None
    share: bool = False
    hosts: str | None = None


@dataclass(frozen=True, slots=True)
class ModelFlags:
    """Command line flags about the cost model."""

    load: Path | None = None
    save: Path | None = None
    warm_start: Sequence[Path] = ()
    workloads: Sequence[str] = ()

    def files(self, config: Config) -> tuple[Path | None, Path | None]:
        """(file to load, file to save); `cost_model.file` is saved, and loaded if it exists.

        Raises ConfigError if one of the model's files is a folder.
        """
        file = None if config.cost_model.file is None else Path(config.cost_model.file)
        named = (
            ("--load-model", self.load),
            ("--save-model", self.save),
            ("cost_model.file", file),
            *(("--warm-start", path) for path in self.warm_start),
        )
        require_files(*((name, path) for name, path in named if path is not None))
        existing = file if file is not None and file.exists() else None
        return self.load or existing, self.save or file


@dataclass(frozen=True, slots=True)
class ManyFlags:
    """Command line flags that only matter for several tasks."""

    strategy: str = "gradient"
    weights: str | None = None
    objective: str | None = None

    def of(self, configs: Sequence[Config]) -> list[float]:
        """The weight of each task. Raises ConfigError if a flag is wrong, also for one task."""
        if self.strategy not in STRATEGIES:
            raise ConfigError(
                f"--strategy {self.strategy!r}: expected one of {', '.join(STRATEGIES)}"
            )
        if self.objective is not None:
            self._require_no_weights(configs)
        if self.weights is None:
            return [config.weight for config in configs]
        try:
            weights = [float(part) for part in self.weights.split(",")]
        except ValueError:
            weights = []
        if len(weights) != len(configs) or not all(0 < w < float("inf") for w in weights):
            expected = count(len(configs), "positive number")
            raise ConfigError(
                f"--weights {self.weights!r}: expected {expected} with commas between, one for "
                "each configuration"
            )
        return weights

    def _require_no_weights(self, configs: Sequence[Config]) -> None:
        weighted = [f"the weight of {c.name}" for c in configs if c.weight != 1]
        if self.weights is not None:
            weighted.insert(0, "--weights")
        if weighted:
            raise ConfigError(
                "--objective: a function of the times takes the place of their weighted sum; leave "
                f"out {weighted[0]}, or have the function weigh them"
            )


def on_hosts(config: Config, hosts: str | None) -> Config:
    """The configuration, for the cluster given by --ray, if any."""
    if hosts is None:
        return config
    require_address("--ray", hosts)
    target = config.target.model_copy(update={"hosts": hosts})
    return config.model_copy(update={"target": target})


def settings_of(
    config: Config,
    overrides: Overrides | None = None,
    model: ModelFlags | None = None,
    *,
    many: ManyFlags | None = None,
    records: Path | None = None,
    force: bool = False,
) -> TuneSettings:
    """The settings for `autosched.tune` from a configuration and the flags that override it."""
    overrides, model, many = overrides or Overrides(), model or ModelFlags(), many or ManyFlags()
    section, measure = config.search, config.measure
    ansor = {name: getattr(section, name) for name in SearchOptions.__dataclass_fields__}
    load_model, save_model = model.files(config)
    return TuneSettings(
        trials=overrides.trials or section.trials,
        records=records,
        force=force,
        seed=section.seed if overrides.seed is None else overrides.seed,
        batch=section.batch,
        time_budget_s=overrides.time_budget or section.time_budget_s,
        early_stopping=section.early_stopping,
        cost_model=config.cost_model.kind,
        features=config.cost_model.features,
        pretrained=config.cost_model.pretrained,
        load_model=load_model,
        save_model=save_model,
        warm_start=tuple(model.warm_start),
        workloads=workload_keys(model.workloads),
        search=SearchOptions(**ansor),
        sketch_rules=load_rules(section.sketch_rules),
        policy=section.policy,
        measure=measure.run_options(),
        workers=measure.workers,
        devices=measure.devices,
        share=overrides.share,
        build_timeout_s=measure.build_timeout_s,
        check=measure.check,
        hosts=config.target.hosts,
        strategy=many.strategy,
        objective=many.objective,
    )


def session_of(
    configs: Sequence[Config],
    overrides: Overrides,
    model: ModelFlags,
    many: ManyFlags,
    records: Path,
    *,
    force: bool,
) -> Session:
    """The session that tunes the configurations together. Raises ConfigError.

    With `force` it may replace files of other kinds.
    """
    _same_settings(configs, overrides)
    weights = many.of(configs)
    settings = [
        settings_of(config, overrides, model, many=many, records=records, force=force)
        for config in configs
    ]
    jobs = [
        Job(config.task(), own.options(), weight)
        for config, own, weight in zip(configs, settings, weights, strict=True)
    ]
    messages = Messages(warn, warning, _OTHER_FILE, _REPLACE)
    return settings[0].session(jobs, messages, overrides.trials)


def records_path(configs: Sequence[Config], overrides: Overrides, *, fresh: bool) -> Path:
    """The record file of the run; with `fresh` one that does not exist yet.

    If nobody named a file and the default one belongs to other tasks (say, a size was changed), it
    is left alone. The run then gets a file with the tasks' key in its name, which a later run
    continues.
    """
    path = overrides.records or _given_path(configs)
    require_named(("--records", path))
    if fresh:
        return unused(path or _default_path(configs))
    return path or own_file(_default_path(configs), [config.task() for config in configs])


def require_unread(paths: Sequence[Path], records: Path, model: Path | None) -> None:
    """Raise ConfigError if a configuration of this run would be overwritten, even with --force."""
    require_apart(
        [("the record file", records), ("the saved cost model", model)],
        [("a configuration of this run", path) for path in paths],
    )


def own_file(path: Path, tasks: Sequence[Task]) -> Path:
    """`path`, or `<stem>-<key>.jsonl` if `path` holds only records of other tasks."""
    keys = [task.key for task in tasks]
    if not path.is_file():
        return path
    found = False
    for record in stream_log(path, LogContents()):
        if record.task["key"] in keys:
            return path
        found = True
    if not found:
        return path
    digest = hashlib.sha256("".join(sorted(keys)).encode()).hexdigest()
    own = path.with_stem(f"{path.stem}-{(keys[0] if len(keys) == 1 else digest)[:8]}")
    names = ", ".join(task.name for task in tasks)
    warn(f"note: {path} holds records of other tasks; those of {names} are in {own}")
    return own


def _given_path(configs: Sequence[Config]) -> Path | None:
    """The record file that the configurations name, None if they name none."""
    given = {config.records for config in configs if config.records is not None}
    if len(given) > 1:
        raise ConfigError("the configurations name different record files; give one by --records")
    return Path(given.pop()) if given else None


def _default_path(configs: Sequence[Config]) -> Path:
    if len(configs) == 1:
        return configs[0].records_path()
    names = [config.name for config in configs]
    if len(names) > 3:
        names = [names[0], f"{len(names) - 1}-more"]
    return Path("+".join(names) + ".jsonl")


def _same_settings(configs: Sequence[Config], overrides: Overrides) -> None:
    """Raise ConfigError unless all configurations share the settings that exist once per run.

    These are the cost model, the section `measure`, the batch size, the time budget and the hosts.
    """
    first = configs[0]
    shared = {"batch": "--set search.batch=16", "time_budget_s": "--time-budget"}
    if overrides.time_budget is not None:
        del shared["time_budget_s"]
    for config in configs[1:]:
        for key in ("cost_model", "measure"):
            if getattr(config, key) != getattr(first, key):
                raise ConfigError(
                    f"{config.name}: the section {key!r} differs from that of {first.name}; tasks "
                    "that are tuned in one run share it"
                )
        for key, flag in shared.items():
            if getattr(config.search, key) != getattr(first.search, key):
                raise ConfigError(
                    f"{config.name}: search.{key} differs from that of {first.name}; tasks that "
                    f"are tuned in one run share it ({flag} gives one for all)"
                )
        if config.target.hosts != first.target.hosts:
            raise ConfigError(
                f"{config.name}: target.hosts differs from that of {first.name}; tasks that are "
                "tuned in one run share it (--ray gives one for all)"
            )
