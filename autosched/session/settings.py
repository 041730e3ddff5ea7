"""All settings of a tuning run beside its tasks, for Python and for the command line."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from autosched import arguments
from autosched.arguments import PathLike
from autosched.errors import ConfigError
from autosched.features.sets import FEATURE_SETS, TUNING
from autosched.measure.cluster.connect import require_address
from autosched.measure.gpu_pool import ALL
from autosched.measure.measurer import CHECKS
from autosched.measure.run_options import RunOptions
from autosched.measure.workload_keys import WorkloadKeys
from autosched.search.allocation import STRATEGIES, AllocationOptions
from autosched.search.cost_model import CostModel
from autosched.search.objective import Objective, own_objective
from autosched.search.options import OURS, SearchOptions
from autosched.search.own_model import Model, any_cost_model
from autosched.search.own_policy import Policy, Tools, own_policies
from autosched.search.progress import Observer
from autosched.search.rules.custom import rules_of
from autosched.search.rules.protocol import SketchRule
from autosched.search.tuner import TuneOptions
from autosched.session.model import ModelOptions
from autosched.session.named_workloads import workload_keys
from autosched.session.reading import unused
from autosched.session.session import Job, MeasureOptions, Messages, Session
from autosched.task import Task

Value = TypeVar("Value")
_DEFAULT_TRIALS = 64


@dataclass(frozen=True, kw_only=True)
class TuneSettings:
    """The settings of a run: the arguments of `autosched.tune`, as an object to keep.

    Raises ConfigError, which names the setting, for a value of a wrong type or size.

    Attributes:
        trials: candidates to measure, of all tasks together; default: 64 for each.
        records: every result is appended to this file; records of the tasks that it holds already
            are learned from and not measured again. A file of another kind is refused.
        fresh: do not continue from `records`: if it exists, write a new file, `mm-2.jsonl`.
        force: let `records` and `save_model` replace files of other kinds.
        seed: the seed of every random draw.
        batch: candidates measured between two rounds of search.
        time_budget_s: stop after the round in which this is reached.
        early_stopping: stop (with several tasks: leave a task) after so many trials without a new
            best.
        cost_model: xgboost, random, `file.py:name` of a model of one's own, or the model itself: an
            object like `autosched.search.own_model.Model`, a regressor of scikit-learn, or a whole
            `autosched.search.cost_model.CostModel`.
        features: the feature set that the cost model learns from.
        pretrained: start from the cost model that comes with autosched, where there is one.
        load_model: a saved cost model to start from instead.
        save_model: file for the trained cost model, which replaces a cost model only.
        warm_start: record files of other tasks to train the cost model on.
        workloads: what lines of Ansor's logs with an unknown workload key compute: a Task, or one
            for each key.
        search: the parameters of the search.
        sketch_rules: rules that are tried before the built-in ones, see docs/searching.md.
        policy: the search itself: autosched, or a policy of one's own: its class, which is called
            with the tools of each task (`autosched.search.own_policy.Policy`), or `file.py:name`.
        measure: how long each candidate is timed.
        workers: processes that build candidates; default: one for each core, from 2 to 8; for
            GPUs one for each hardware thread but one, at most 16.
        devices: GPUs that measure: numbers or UUIDs, or "all"; default: CUDA's first.
        share: measure on a GPU on which other processes compute.
        hosts: a Ray cluster whose nodes build and measure (docs/ray.md): ray://HOST:PORT,
            HOST:PORT, auto (the cluster of this machine) or local.
        build_timeout_s: seconds after which building one candidate is given up.
        check: which candidates are compared with NumPy: each new best, all or none.
        weights: the weights of several tasks, one for each.
        strategy: gradient or round-robin: which of several tasks gets the next round.
        objective: what a run of several tasks minimises instead of the weighted sum of their times:
            a function of the list of their best times in seconds, or `file.py:name`.
        observer: called with the progress and the new records after every phase and batch.
        progress: show how far the run is, as the command line does; default: in a notebook, and
            where standard error is a terminal.
        compare: at the end compare the best with NumPy and with the machine's measured peak, which
            takes some seconds: `peer` and `peak` of the result's entries.
    """

    trials: int | None = None
    records: PathLike | None = None
    fresh: bool = False
    force: bool = False
    seed: int = 0
    batch: int = 16
    time_budget_s: float | None = None
    early_stopping: int | None = None
    cost_model: str | Model | CostModel | Any = "xgboost"
    features: str = TUNING
    pretrained: bool = True
    load_model: PathLike | None = None
    save_model: PathLike | None = None
    warm_start: PathLike | Sequence[PathLike] = ()
    workloads: Task | Mapping[str, Task] | WorkloadKeys | None = None
    search: SearchOptions | None = None
    sketch_rules: Sequence[SketchRule] = ()
    policy: str | Callable[[Tools], Policy] = OURS
    measure: RunOptions | None = None
    workers: int | None = None
    devices: Sequence[int | str] | str = ()
    share: bool = False
    hosts: str | None = None
    build_timeout_s: float = 15.0
    check: str = "best"
    weights: Sequence[float] | None = None
    strategy: str = "gradient"
    objective: str | Objective | None = None
    observer: Observer | None = None
    progress: bool | None = None
    compare: bool = False

    def __post_init__(self) -> None:
        _optional(self.trials, _from_one, "trials")
        _optional(self.records, arguments.file_path, "records")
        arguments.flag("fresh", self.fresh)
        arguments.flag("force", self.force)
        arguments.flag("compare", self.compare)
        _optional(self.progress, arguments.flag, "progress")
        arguments.one_of("strategy", self.strategy, STRATEGIES)
        if self.observer is not None and not callable(self.observer):
            raise ConfigError(
                "observer: expected a function (progress, records), "
                f"{arguments.found(self.observer)}"
            )
        if self.objective is not None and self.weights is not None:
            raise ConfigError(
                "objective: a function of the times takes the place of their weighted sum; leave "
                "out weights, or have the function weigh them"
            )
        if not isinstance(self.objective, str):
            own_objective(self.objective, "objective")
        self.options()
        self.model_options()
        self.measure_options()

    def options(self) -> TuneOptions:
        """How each task is searched."""
        example = "SearchOptions(eps_greedy=0.1)"
        return TuneOptions(
            trials=self.trials or _DEFAULT_TRIALS,
            batch=_from_one("batch", self.batch),
            seed=arguments.integer("seed", self.seed, 0),
            time_budget_s=_optional(self.time_budget_s, arguments.positive, "time_budget_s"),
            early_stopping=_optional(self.early_stopping, _from_one, "early_stopping"),
            features=arguments.one_of("features", self.features, list(FEATURE_SETS)),
            search=_options("search", self.search, SearchOptions(), example),
            sketch_rules=rules_of(self.sketch_rules),
            policy=own_policies(self.policy, "policy"),
        )

    def model_options(self) -> ModelOptions:
        """The cost model of the run."""
        return ModelOptions(
            model=any_cost_model(self.cost_model, "cost_model"),
            pretrained=arguments.flag("pretrained", self.pretrained),
            load=_optional(self.load_model, arguments.file_path, "load_model"),
            save=_optional(self.save_model, arguments.file_path, "save_model"),
            warm_start=arguments.file_paths("warm_start", self.warm_start),
            keys=workload_keys(self.workloads),
        )

    def measure_options(self) -> MeasureOptions:
        """How candidates are built, run and checked."""
        example = "RunOptions(min_repeat_ms=50)"
        return MeasureOptions(
            run=_options("measure", self.measure, RunOptions(), example),
            workers=_optional(self.workers, _from_one, "workers"),
            build_timeout_s=arguments.positive("build_timeout_s", self.build_timeout_s),
            check=arguments.one_of("check", self.check, CHECKS),
            devices=_devices(self.devices),
            share=arguments.flag("share", self.share),
            hosts="" if self.hosts is None else _address(self.hosts),
        )

    def record_file(self) -> Path | None:
        """The file that results are written to; with `fresh` one that does not exist yet."""
        path = None if self.records is None else Path(self.records)
        return unused(path) if self.fresh and path is not None else path

    def session(self, jobs: Sequence[Job], messages: Messages, trials: int | None) -> Session:
        """The session of a run with these settings.

        `trials` are those of all jobs together; default: the sum of the jobs'. Raises ConfigError
        when a file is wrong.
        """
        for job in jobs:
            if job.options.policy is not None:
                job.options.policy.load()
        return Session(
            jobs,
            trials=trials,
            allocation=AllocationOptions(
                self.strategy, objective=own_objective(self.objective, "objective")
            ),
            records=self.record_file(),
            model=self.model_options(),
            measure=self.measure_options(),
            messages=messages,
            overwrite=self.force,
        )


def _devices(devices: Any) -> Sequence[int | str] | str:
    several = isinstance(devices, list | tuple)
    if devices == ALL or (several and all(isinstance(each, int | str) for each in devices)):
        return tuple(devices) if several else ALL
    raise ConfigError(f"devices: expected a list of GPUs, or {ALL!r}, {arguments.found(devices)}")


def _address(hosts: Any) -> str:
    return require_address("hosts", hosts if isinstance(hosts, str) else repr(hosts))


def _from_one(name: str, value: Any) -> int:
    return arguments.integer(name, value, 1)


def _optional(value: Any, check: Callable[[str, Any], Value], name: str) -> Value | None:
    return None if value is None else check(name, value)


def _options(name: str, value: Value | None, default: Value, example: str) -> Value:
    return default if value is None else arguments.instance(name, value, type(default), example)
