"""`autosched tune`: search, measure, report."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from autosched.cli.config import Config, load_config
from autosched.cli.console import (
    err,
    out,
    plain,
    print_json,
    rate_text,
    seconds_text,
    warn,
)
from autosched.cli.peer import Peer, peer_of
from autosched.cli.progress import make_observer
from autosched.errors import ConfigError
from autosched.task import Task
from measure.measurer import Measurer
from measure.records import Record, RecordLog, read_log
from search.options import SearchOptions
from search.tuner import TuneOptions, Tuner, TuneResult

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


def run(
    config_path: Path, overrides: Overrides, *, fresh: bool, dry_run: bool, as_json: bool
) -> None:
    """Tune the workload of a configuration file. Ends the process with interface.md's status."""
    config = load_config(config_path)
    if overrides.target is not None:
        section = config.target.model_copy(update={"kind": overrides.target})
        config = config.model_copy(update={"target": section})
    task = config.task()
    options = _options(config, overrides)
    if dry_run:
        from autosched.cli.dry_run import show_candidates

        show_candidates(task, options)
        return
    path = overrides.records or config.records_path()
    path = _unused(path) if fresh else path
    earlier = _earlier(path, task)
    result, peer = _tune(config, task, options, path, earlier, quiet=as_json)
    report(result, path, peer, as_json=as_json)
    if result.interrupted:
        sys.exit(EXIT_INTERRUPTED)
    if result.best is None:
        sys.exit(EXIT_NOTHING_VALID)


def _tune(
    config: Config,
    task: Task,
    options: TuneOptions,
    path: Path,
    earlier: list[Record],
    *,
    quiet: bool,
) -> tuple[TuneResult, Peer | None]:
    if not quiet:
        note = f", continuing from {len(earlier)} records" if earlier else ""
        err.print(f"tuning {task.name} on {task.target}{note}", markup=False)
    section = config.measure
    with (
        Measurer.create(
            workers=section.workers,
            build_timeout=section.build_timeout_s,
            options=section.run_options(),
            check=section.check,
        ) as measurer,
        make_observer(quiet=quiet) as observer,
    ):
        tuner = Tuner(task, options, measurer, RecordLog(path), earlier, observer)
        result = tuner.run()
        peer = None
        if result.best is not None and not result.interrupted:
            peer = peer_of(task, measurer, result.best)
    return result, peer


def _options(config: Config, overrides: Overrides) -> TuneOptions:
    section = config.search
    ansor = {name: getattr(section, name) for name in SearchOptions.__dataclass_fields__}
    return TuneOptions(
        trials=overrides.trials or section.trials,
        batch=section.batch,
        seed=section.seed if overrides.seed is None else overrides.seed,
        time_budget_s=overrides.time_budget or section.time_budget_s,
        early_stopping=section.early_stopping,
        cost_model=config.cost_model.kind,
        search=SearchOptions(**ansor),
    )


def _earlier(path: Path, task: Task) -> list[Record]:
    """The records of this task in `path`. ConfigError when it holds only other tasks' records."""
    if not path.exists():
        return []
    contents = read_log(path)
    for problem in contents.problems:
        warn(f"warning: {problem}")
    mine = [r for r in contents.records if r.task["key"] == task.key]
    if contents.records and not mine:
        other = contents.records[0].task["workload"]
        raise ConfigError(
            f"{path} holds records of another task ({_workload_text(other)}); expected "
            f"{task.name}. Give another file with --records, or start a new one with --fresh"
        )
    return mine


def _workload_text(workload: dict[str, Any]) -> str:
    from autosched.workloads.source import source_from_json

    try:
        return source_from_json(workload).title
    except ConfigError:
        return str(workload)


def _unused(path: Path) -> Path:
    """`path`, or the first of name-2, name-3 ... that does not exist."""
    number = 2
    candidate = path
    while candidate.exists():
        candidate = path.with_stem(f"{path.stem}-{number}")
        number += 1
    return candidate


def report(result: TuneResult, path: Path, peer: Peer | None, *, as_json: bool) -> None:
    """Print what was found: the best kernel, its rate, failures and where the records are."""
    if as_json:
        print_json(_summary(result, path, peer))
        return
    progress, best = result.progress, result.best
    if progress.failures:
        counts = ", ".join(f"{n} x {kind}" for kind, n in progress.failures.most_common())
        out.print(f"failures: {counts}", markup=False)
        _show_reasons(result)
    if best is None:
        warn("error: no candidate was measured successfully; the reasons are above")
        return
    rate = rate_text(progress.flops_per_second(best))
    checked = "checked against NumPy" if best.result.checked else "not checked"
    out.print(f"best      {seconds_text(best.result.cost)}  {rate}  ({checked})", markup=False)
    if peer is not None:
        out.print(f"peer      {peer.text}", markup=False)
    if progress.quality:
        last = progress.quality[-1]
        out.print(
            f"model     rank accuracy {last.rank_accuracy:.2f}, top-8 recall "
            f"{last.top8_recall:.2f} in the last round",
            markup=False,
        )
    spent = ", ".join(f"{name} {s:.1f} s" for name, s in progress.seconds.items())
    per_trial = progress.elapsed / max(1, progress.done)
    out.print(
        f"trials    {progress.done} ({progress.valid} valid) in {progress.elapsed:.1f} s, "
        f"{per_trial:.2f} s each: {spent}",
        markup=False,
    )
    out.print(f"records   {path}", markup=False)
    out.print(f"next      autosched replay {path}", markup=False)
    if result.reason != "all trials were used":
        warn(f"stopped: {result.reason}")


def _show_reasons(result: TuneResult) -> None:
    """One example message of every kind of failure."""
    shown: set[str] = set()
    for record in result.records:
        failure = record.result.failure
        if failure is None or f"{failure.stage} {failure.kind}" in shown:
            continue
        shown.add(f"{failure.stage} {failure.kind}")
        first = failure.message.strip().splitlines()[-1]
        plain(f"  {failure.stage} {failure.kind}, for example: {first}")


def _summary(result: TuneResult, path: Path, peer: Peer | None) -> dict[str, Any]:
    progress, best = result.progress, result.best
    return {
        "task": result.task.to_json(),
        "trials": progress.done,
        "valid": progress.valid,
        "failures": dict(progress.failures),
        "seconds": {**progress.seconds, "total": progress.elapsed},
        "best": None
        if best is None
        else {
            "seconds": best.result.cost,
            "flops_per_second": progress.flops_per_second(best),
            "checked": best.result.checked,
            "steps": best.to_json()["steps"],
        },
        "peer": None if peer is None else peer.to_json(),
        "quality": [q.to_json() for q in progress.quality],
        "records": str(path),
        "interrupted": result.interrupted,
        "reason": result.reason,
    }
