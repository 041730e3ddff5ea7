"""`autosched tune`: search, measure, report."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autosched.cli.chosen import last_line, read
from autosched.cli.config import Config, load_config
from autosched.cli.console import (
    plain,
    print_json,
    rate_text,
    seconds_text,
    warn,
)
from autosched.cli.model import ModelFlags, make_learner, save_model
from autosched.cli.peer import Peer, peer_of, without_peer
from autosched.cli.progress import make_observer
from autosched.errors import AutoschedError, ConfigError
from autosched.measure.measurer import Measurer
from autosched.measure.records import Record, RecordLog
from autosched.search.featurize import Helper
from autosched.search.options import SearchOptions
from autosched.search.ranking_quality import Quality
from autosched.search.rules.custom import load_rules
from autosched.search.tuner import TuneOptions, Tuner, TuneResult
from autosched.task import Task

if TYPE_CHECKING:
    from autosched.cli.tune_many import ManyFlags

EXIT_NOTHING_VALID = 3
EXIT_INTERRUPTED = 130


@dataclass(frozen=True, slots=True)
class Overrides:
    """Flags of the command line that replace settings of the file; None keeps a setting."""

    trials: int | None = None
    target: str | None = None
    records: Path | None = None
    seed: int | None = None
    time_budget: float | None = None


@dataclass(frozen=True, slots=True)
class Yardsticks:
    """What the best kernel is held against: the machine's peak (operations a second) and NumPy.

    `missing` says why there is no comparison with NumPy; it is empty when there is one.
    """

    peak: float | None = None
    peer: Peer | None = None
    missing: str = ""


def run(
    config_paths: Sequence[Path],
    overrides: Overrides,
    model: ModelFlags,
    many: ManyFlags,
    *,
    fresh: bool,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Tune the workloads of the configuration files. Ends the process with interface.md's status.

    Several files are tuned together, with one record file.
    """
    configs = [_load(path, overrides) for path in config_paths]
    many.of(configs)
    if dry_run:
        from autosched.cli.dry_run import show_all

        tasks = [(config.task(), tune_options(config, overrides)) for config in configs]
        if not show_all(tasks, as_json=as_json):
            sys.exit(EXIT_NOTHING_VALID)
        return
    if len(configs) > 1:
        from autosched.cli.tune_many import run_many

        run_many(configs, overrides, model, many, fresh=fresh, as_json=as_json)
        return
    config = configs[0]
    task, options = config.task(), tune_options(config, overrides)
    path = overrides.records or config.records_path()
    path = unused(path) if fresh else path
    earlier = _earlier(path, task)
    result, yardsticks = _tune(config, task, options, path, earlier, model, quiet=as_json)
    report(result, path, yardsticks, as_json=as_json)
    if result.interrupted:
        sys.exit(EXIT_INTERRUPTED)
    if result.best is None:
        sys.exit(EXIT_NOTHING_VALID)


def _load(path: Path, overrides: Overrides) -> Config:
    config = load_config(path)
    if overrides.target is None:
        return config
    section = config.target.model_copy(update={"kind": overrides.target})
    return config.model_copy(update={"target": section})


def _tune(
    config: Config,
    task: Task,
    options: TuneOptions,
    path: Path,
    earlier: list[Record],
    model: ModelFlags,
    *,
    quiet: bool,
) -> tuple[TuneResult, Yardsticks]:
    if not quiet:
        note = f", continuing from {len(earlier)} records" if earlier else ""
        warn(f"tuning {task.name} on {task.target}{note}")
    section = config.measure
    helper = Helper()
    try:
        learner = make_learner(config.cost_model, model, options.seed, task.target.kind, helper)
        with (
            Measurer.create(
                workers=section.workers,
                build_timeout=section.build_timeout_s,
                options=section.run_options(),
                check=section.check,
            ) as measurer,
            make_observer(quiet=quiet, trials=options.trials, peak_of=measurer.peak) as observer,
        ):
            tuner = Tuner(
                task,
                options,
                measurer,
                RecordLog(path),
                earlier,
                observer,
                learner=learner,
                helper=helper,
            )
            result = tuner.run()
            yardsticks = Yardsticks(missing="the run was interrupted")
            if result.best is None:
                yardsticks = Yardsticks(missing="no candidate was measured successfully")
            elif not result.interrupted:
                yardsticks = _compare(task, measurer, result.best)
        save_model(learner, config.cost_model, model)
    finally:
        helper.close()
    return result, yardsticks


def _compare(task: Task, measurer: Measurer, best: Record) -> Yardsticks:
    """What is known of the best when Ctrl-C or a failure cuts this short: tuning is complete."""
    peak = peer = None
    missing = without_peer(task) or ""
    try:
        peak = measurer.peak(task)
        peer = peer_of(task, measurer, best)
    except AutoschedError as error:
        reason = last_line(str(error))
        missing = f"timing failed: {reason}; run it again when the cores are free"
    except KeyboardInterrupt:
        missing = missing or "interrupted"
    return Yardsticks(peak, peer, missing)


def tune_options(config: Config, overrides: Overrides) -> TuneOptions:
    """The settings of a configuration, with the flags that replace them."""
    section = config.search
    ansor = {name: getattr(section, name) for name in SearchOptions.__dataclass_fields__}
    return TuneOptions(
        trials=overrides.trials or section.trials,
        batch=section.batch,
        seed=section.seed if overrides.seed is None else overrides.seed,
        time_budget_s=overrides.time_budget or section.time_budget_s,
        early_stopping=section.early_stopping,
        cost_model=config.cost_model.kind,
        features=config.cost_model.features,
        search=SearchOptions(**ansor),
        sketch_rules=load_rules(section.sketch_rules),
    )


def _earlier(path: Path, task: Task) -> list[Record]:
    """The records of this task in `path`. ConfigError when it holds only other tasks' records."""
    if not path.is_file():
        return []
    contents = read(path)
    mine = [r for r in contents.records if r.task["key"] == task.key]
    if contents.records and not mine:
        other = _identity(contents.records[0].task)
        raise ConfigError(
            f"{path} holds records of another task ({other}); expected "
            f"{_identity(task.to_json())}. Give another file with --records, or start a new one "
            "with --fresh"
        )
    return mine


def _identity(entry: dict[str, Any]) -> str:
    """All that makes a task differ from another: workload, kind of target, threads, hardware."""
    try:
        task = Task.from_json(entry)
    except ConfigError:
        return str(entry["workload"])
    hardware = task.target.hardware.as_list()
    return f"{task.name} on {task.target.kind}, {task.target.threads} threads, limits {hardware}"


def unused(path: Path) -> Path:
    """`path`, or the first of name-2, name-3 ... that does not exist."""
    number = 2
    candidate = path
    while candidate.exists():
        candidate = path.with_stem(f"{path.stem}-{number}")
        number += 1
    return candidate


def report(result: TuneResult, path: Path, known: Yardsticks, *, as_json: bool) -> None:
    """Print what was found: the best kernel, its rate, failures and where the records are."""
    if as_json:
        print_json(summary(result, path, known))
        return
    progress, best = result.progress, result.best
    if progress.failures:
        counts = ", ".join(f"{n} x {kind}" for kind, n in progress.failures.most_common())
        plain(f"failures: {counts}")
        show_reasons(result)
    if best is None:
        warn(_nothing(result))
        return
    rate = rate_text(progress.flops_per_second(best), known.peak)
    checked = "checked against NumPy" if best.result.checked else "not checked"
    plain(f"best      {seconds_text(best.result.cost)}  {rate}  ({checked})")
    if known.peer is not None:
        plain(f"peer      {known.peer.text}")
    else:
        plain(f"peer      not compared with NumPy: {known.missing}")
    if progress.quality:
        plain(f"model     {quality_text(progress.quality[-1])} in the last round")
    spent = ", ".join(f"{name} {s:.1f} s" for name, s in progress.seconds.items())
    trials = max(1, progress.done)
    plain(
        f"trials    {progress.done} ({progress.valid} valid) in {progress.elapsed:.1f} s, "
        f"{progress.elapsed / trials:.2f} s each, "
        f"{progress.outside_measuring / trials:.2f} s of it outside measuring",
    )
    plain(f"time      {spent}")
    plain(f"records   {path}")
    plain(f"next      autosched replay {path}")
    if result.reason != "all trials were used":
        warn(f"stopped: {result.reason}")


def quality_text(quality: Quality) -> str:
    """`rank accuracy 0.68, top-8 recall 0.75`; of eight candidates or less all are recalled."""
    text = f"rank accuracy {quality.rank_accuracy:.2f}"
    return text + (f", top-8 recall {quality.top8_recall:.2f}" if quality.candidates > 8 else "")


def _nothing(result: TuneResult) -> str:
    """Why there is no best candidate."""
    if result.interrupted:
        return "interrupted before a candidate was measured successfully"
    if not result.records:
        return f"error: nothing was measured: {result.reason}"
    return "error: no candidate was measured successfully; the reasons are above"


def show_reasons(result: TuneResult) -> None:
    """One example message of every kind of failure."""
    shown: set[str] = set()
    for record in result.records:
        failure = record.result.failure
        if failure is None or f"{failure.stage} {failure.kind}" in shown:
            continue
        shown.add(f"{failure.stage} {failure.kind}")
        first = failure.message.strip().splitlines()[-1]
        plain(f"  {failure.stage} {failure.kind}, for example: {first}")


def summary(result: TuneResult, path: Path, known: Yardsticks) -> dict[str, Any]:
    """The JSON object of one task."""
    progress, best = result.progress, result.best
    return {
        "task": result.task.to_json(),
        "trials": progress.done,
        "valid": progress.valid,
        "failures": dict(progress.failures),
        "seconds": {**progress.seconds, "total": progress.elapsed},
        "seconds_outside_measuring": progress.outside_measuring,
        "best": None
        if best is None
        else {
            "seconds": best.result.cost,
            "flops_per_second": progress.flops_per_second(best),
            "checked": best.result.checked,
            "steps": best.to_json()["steps"],
        },
        "peak_flops_per_second": known.peak,
        "peer": None if known.peer is None else known.peer.to_json(),
        "peer_missing": known.missing or None,
        "quality": [q.to_json() for q in progress.quality],
        "records": str(path),
        "interrupted": result.interrupted,
        "reason": result.reason,
    }
