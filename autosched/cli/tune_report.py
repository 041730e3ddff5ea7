"""The report on one tuned task: text or JSON."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from autosched.cli.console import labelled, plain, print_json, rate_text, say, seconds_text, warn
from autosched.measure.flush import flush_text
from autosched.measure.records import Record
from autosched.measure.steady import interval
from autosched.search.progress import Progress, TuneResult
from autosched.search.ranking_quality import Quality
from autosched.session.yardsticks import Yardsticks
from autosched.task import Task
from autosched.words import in_shell, last_line
from autosched.workloads.winograd import faster_convolution


def report(
    result: TuneResult, path: Path, known: Yardsticks, others: str = "", *, as_json: bool
) -> None:
    """Print the result: the best kernel, its rate, failures and the record file.

    `others` tells what records of other CPUs were used for.
    """
    if as_json:
        print_json({**summary(result, path, known), "other_cpus": others or None})
        return
    if others:
        labelled("others", others)
    progress, best = result.progress, result.best
    if progress.failures:
        counts = ", ".join(f"{n} x {kind}" for kind, n in progress.failures.most_common())
        say(f"failures: {counts}")
        show_reasons(result)
    if best is None:
        warn(_nothing(result))
        return
    _show_best(result, best, known)
    if progress.quality:
        labelled("model", f"{quality_text(progress.quality[-1])} in the last round")
    spent = ", ".join(f"{name} {s:.1f} s" for name, s in progress.seconds.items())
    labelled("trials", _trials_text(progress))
    labelled("time", spent)
    _show_faster(result.task)
    plain(f"records   {path}")
    if not result.failed:  # the file may be empty, and the reason says how to go on
        plain(next_line([progress.task], path))
    if result.reason != "all trials were used":
        warn(f"stopped: {result.reason}")


def _show_best(result: TuneResult, best: Record, known: Yardsticks) -> None:
    """The time of the best kernel, and what was found about it: how sure, how right, how good."""
    rate = rate_text(result.progress.flops_per_second(best), known.peak)
    checked = "checked against NumPy" if best.result.checked else "not checked"
    shown = (seconds_text(best.result.cost), rate, f"({checked})")
    labelled("best", "  ".join(filter(None, shown)))
    low, high = map(seconds_text, interval(best.result.seconds))
    labelled("interval", f"{low} to {high} (95%)")
    again = None if known.final is None else known.final.again
    if known.final is not None and known.final.race is not None:
        labelled("race", known.final.race.text)
    if best.result.cache_flush:
        labelled(
            "caches", f"emptied before each call: {flush_text(best.result.cache_flush)} written"
        )
    seen = best.result.seen
    if seen is not None:
        labelled("check", seen.text)
        if seen.warning:
            warn(f"warning: {seen.warning}")
    if again is not None:
        unreliable = f"; {again.remark}" if again.remark else ""
        labelled("again", f"{seconds_text(again.seconds)} at the end of the run{unreliable}")
    if known.peer is not None:
        labelled("peer", known.peer.text)
        if known.peer.warning:
            warn(f"warning: {known.peer.warning}")
    else:
        labelled("peer", f"not compared with NumPy: {known.missing}")


def _show_faster(task: Task) -> None:
    """Name the workload that computes what `task` does in less time, if there is one."""
    faster = _faster(task)
    if faster is not None:
        sizes = " ".join(f"{name}={size}" for name, size in faster["args"].items())
        labelled(
            "faster",
            f"`autosched tune {faster['op']} {sizes}` computes the same of weights that "
            "autosched.winograd_weights transforms, often in less than half of the time",
        )


def next_line(tasks: Sequence[Task], path: Path) -> str:
    """The next command to type; with --trust if the records name Python files."""
    trust = " --trust" if any(task.runs_code for task in tasks) else ""
    return f"next      autosched replay {in_shell(path)}{trust}"


def quality_text(quality: Quality) -> str:
    """`rank accuracy 0.68, top-8 recall 0.75`; the recall only for more than eight candidates."""
    text = f"rank accuracy {quality.rank_accuracy:.2f}"
    return text + (f", top-8 recall {quality.top8_recall:.2f}" if quality.candidates > 8 else "")


def _faster(task: Task) -> dict[str, Any] | None:
    """The workload that computes what `task` does in less time."""
    return faster_convolution(task.workload.to_json()) if task.target.kind == "cpu" else None


def _trials_text(progress: Progress) -> str:
    """`64 (64 valid) in 3.8 s, 0.06 s each, 0.02 s of it outside measuring`."""
    text = f"{progress.done} ({progress.valid} valid) in {progress.elapsed:.1f} s"
    if not progress.done:
        return text
    each, outside = progress.elapsed / progress.done, progress.outside_measuring / progress.done
    return f"{text}, {each:.2f} s each, {outside:.2f} s of it outside measuring"


def _nothing(result: TuneResult) -> str:
    """The reason why there is no best candidate."""
    if result.interrupted:
        return "interrupted before a candidate was measured successfully"
    if not result.records:
        return f"error: nothing was measured: {result.reason}"
    return "error: no candidate was measured successfully; the reasons are above"


def show_reasons(result: TuneResult) -> None:
    """Print one example message for every kind of failure."""
    shown: set[str] = set()
    for record in result.records:
        failure = record.result.failure
        if failure is None or f"{failure.stage} {failure.kind}" in shown:
            continue
        shown.add(f"{failure.stage} {failure.kind}")
        example = last_line(failure.message)
        say(f"{failure.stage} {failure.kind}, for example: {example}", "  ")


def summary(result: TuneResult, path: Path, known: Yardsticks) -> dict[str, Any]:
    """The JSON object for one task."""
    progress, best, final = result.progress, result.best, known.final
    race = None if final is None else final.race
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
            "interval": list(interval(best.result.seconds)),
            "flops_per_second": progress.flops_per_second(best),
            "checked": best.result.checked,
            "cache_flush": best.result.cache_flush,
            "check": None if best.result.seen is None else best.result.seen.to_json(),
            "steps": best.to_json()["steps"],
        },
        "peak_flops_per_second": known.peak,
        "again": None if final is None else final.again.to_json(),
        "race": None if final is None or race is None else race.to_json(final.again.seconds),
        "peer": None if known.peer is None else known.peer.to_json(),
        "peer_missing": known.missing or None,
        "faster": _faster(result.task),
        "quality": [q.to_json() for q in progress.quality],
        "records": str(path),
        "interrupted": result.interrupted,
        "reason": result.reason,
    }
