"""`autosched.tune`: a session as a function call."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from autosched import arguments
from autosched.errors import ConfigError, MeasureError
from autosched.features.sets import FEATURE_SETS, TUNING
from autosched.measure.measurer import CHECKS
from autosched.measure.runner import RunOptions
from autosched.search.allocation import STRATEGIES
from autosched.search.cost_model import COST_MODELS, CostModel, require_cost_model
from autosched.search.options import SearchOptions
from autosched.search.rules.custom import require_rule
from autosched.search.rules.protocol import SketchRule
from autosched.search.task_scheduler import ScheduleResult
from autosched.search.tuner import Observer, TuneOptions
from autosched.session.model import ModelOptions
from autosched.session.race import Final
from autosched.session.session import Job, MeasureOptions, Messages, Session
from autosched.session.tuned import Tuned
from autosched.task import Task

PathLike = str | os.PathLike[str]
Value = TypeVar("Value")
_DEFAULT_TRIALS = 64


def tune(
    task: Task | Sequence[Task],
    *,
    trials: int | None = None,
    records: PathLike | None = None,
    seed: int = 0,
    batch: int = 16,
    time_budget_s: float | None = None,
    early_stopping: int | None = None,
    cost_model: str | CostModel = "xgboost",
    features: str = TUNING,
    pretrained: bool = True,
    load_model: PathLike | None = None,
    save_model: PathLike | None = None,
    warm_start: PathLike | Sequence[PathLike] = (),
    search: SearchOptions | None = None,
    sketch_rules: Sequence[SketchRule] = (),
    measure: RunOptions | None = None,
    workers: int = 2,
    build_timeout_s: float = 15.0,
    check: str = "best",
    weights: Sequence[float] | None = None,
    strategy: str = "gradient",
    observer: Observer | None = None,
) -> Tuned:
    """Measure candidates of a task, or of several that share the trials, and return the best.

    Ctrl-C ends the run and loses nothing: the result holds what was measured until then and says
    `interrupted`. What is noteworthy beside that (skipped lines of a file, a model that could not
    be saved) is a Python warning. At the end the fastest of each task are raced, and the winner
    is the best: `race` of the result's entries says against what. Without rivals it is timed once
    more. `again` says what it took then, and whether the recorded time is reliable.

        >>> import autosched
        >>> task = autosched.Task.from_workload("matmul", M=16, N=16, K=16)
        >>> result = autosched.tune(task, trials=4)
        >>> kernel = result.best.build()

    Args:
        task: a Task or a list of them; several are tuned together with one cost model.
        trials: candidates to measure, of all tasks together; default: 64 for each.
        records: every result is appended to this file; records of the tasks that it holds already
            are learned from and not measured again. A file of another kind is refused.
        seed: of every random draw.
        batch: candidates measured between two rounds of search.
        time_budget_s: stop after the round in which this is reached.
        early_stopping: stop (a task of several: leave it) after so many trials without a new best.
        cost_model: xgboost, random or any object of `autosched.search.cost_model.CostModel`.
        features: the feature set that the cost model learns from.
        pretrained: start from the cost model that comes with autosched, where there is one.
        load_model: a saved cost model to start from instead.
        save_model: file for the trained cost model, which replaces a cost model only.
        warm_start: record files of other tasks to train the cost model on.
        search: the parameters of the search.
        sketch_rules: tried before the built-in ones, see docs/searching.md.
        measure: how long each candidate is timed.
        workers: processes that build candidates.
        build_timeout_s: after which building one candidate is given up.
        check: which candidates are compared with NumPy: each new best, all or none.
        weights: of several tasks, one for each.
        strategy: gradient or round-robin: which of several tasks gets the next round.
        observer: called with the progress and the new records after every phase and batch.

    Raises:
        ConfigError: an argument or a file is wrong.
        MeasureError: no candidate of any task was valid, and the run was not interrupted.
    """
    tasks = _tasks(task)
    weighted = _weights(weights, len(tasks))
    total = arguments.integer("trials", trials, 1) if trials is not None else None
    options = TuneOptions(
        trials=total or _DEFAULT_TRIALS,
        batch=arguments.integer("batch", batch, 1),
        seed=arguments.integer("seed", seed, 0),
        time_budget_s=_optional(time_budget_s, arguments.positive, "time_budget_s"),
        early_stopping=_optional(early_stopping, _from_one, "early_stopping"),
        features=arguments.one_of("features", features, list(FEATURE_SETS)),
        search=_options("search", search, SearchOptions(), "SearchOptions(eps_greedy=0.1)"),
        sketch_rules=_rules(sketch_rules),
    )
    model = ModelOptions(
        model=_model(cost_model),
        pretrained=arguments.flag("pretrained", pretrained),
        load=_optional(load_model, arguments.file_path, "load_model"),
        save=_optional(save_model, arguments.file_path, "save_model"),
        warm_start=_paths("warm_start", warm_start),
    )
    measuring = MeasureOptions(
        run=_options("measure", measure, RunOptions(), "RunOptions(min_repeat_ms=50)"),
        workers=arguments.integer("workers", workers, 1),
        build_timeout_s=arguments.positive("build_timeout_s", build_timeout_s),
        check=arguments.one_of("check", check, CHECKS),
    )
    if observer is not None and not callable(observer):
        raise ConfigError(
            f"observer: expected a function (progress, records), {arguments.found(observer)}"
        )
    session = Session(
        [Job(each, options, weight) for each, weight in zip(tasks, weighted, strict=True)],
        trials=total,
        strategy=arguments.one_of("strategy", strategy, STRATEGIES),
        records=_optional(records, arguments.file_path, "records"),
        model=model,
        measure=measuring,
        messages=Messages(warning=_warn, other_file="Give another file for the records"),
    )
    return _run(session, observer)


def _run(session: Session, observer: Observer | None) -> Tuned:
    result: ScheduleResult | None = None
    finals: Mapping[str, Final | None] = {}
    interrupted = False
    try:
        with session:
            result = session.run(observer)
            if result.failed:
                _warn(f"the run ended early: {result.reason}")
            finals = session.finals(result)
            try:
                session.save_model()
            except ConfigError as error:  # the results are worth more
                _warn(str(error))
    except KeyboardInterrupt:
        result, interrupted = result or session.before(), True
    tuned = Tuned.of(result, interrupted=interrupted, finals=finals)
    if not tuned.interrupted and not any(found.found for found in tuned):
        raise MeasureError("; ".join(found.problem for found in tuned), stage="run")
    return tuned


def _tasks(task: Any) -> list[Task]:
    if isinstance(task, Task):
        return [task]
    wanted = 'a Task or a list of them, e.g. Task.from_workload("matmul", M=512, N=512, K=512)'
    if not isinstance(task, list | tuple) or not task:
        raise ConfigError(f"task: expected {wanted}, {arguments.found(task)}")
    for index, each in enumerate(task):
        if not isinstance(each, Task):
            raise ConfigError(f"task[{index}]: expected a Task, {arguments.found(each)}")
    return list(task)


def _weights(weights: Any, tasks: int) -> list[float]:
    if weights is None:
        return [1.0] * tasks
    if not isinstance(weights, list | tuple) or len(weights) != tasks:
        raise ConfigError(
            f"weights: expected a list of {tasks}, one for each task, {arguments.found(weights)}"
        )
    return [arguments.positive(f"weights[{k}]", weight) for k, weight in enumerate(weights)]


def _model(cost_model: Any) -> str | CostModel:
    if isinstance(cost_model, str):
        return arguments.one_of("cost_model", cost_model, COST_MODELS)
    return require_cost_model("cost_model", cost_model)


def _rules(rules: Any) -> tuple[SketchRule, ...]:
    if not isinstance(rules, list | tuple):
        raise ConfigError(f"sketch_rules: expected a list of rules, {arguments.found(rules)}")
    for index, rule in enumerate(rules):
        require_rule(rule, f"number {index}")
    return tuple(rules)


def _paths(name: str, paths: Any) -> tuple[Path, ...]:
    if isinstance(paths, list | tuple):
        return tuple(arguments.file_path(f"{name}[{k}]", p) for k, p in enumerate(paths))
    return (arguments.file_path(name, paths),)


def _from_one(name: str, value: Any) -> int:
    return arguments.integer(name, value, 1)


def _optional(value: Any, check: Callable[[str, Any], Value], name: str) -> Value | None:
    return None if value is None else check(name, value)


def _options(name: str, value: Value | None, default: Value, example: str) -> Value:
    return default if value is None else arguments.instance(name, value, type(default), example)


def _warn(text: str) -> None:
    warnings.warn(text, stacklevel=4)
