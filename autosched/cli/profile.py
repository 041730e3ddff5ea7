"""`autosched lower --profile`: the time of a recorded candidate, loop by loop."""

from __future__ import annotations

from pathlib import Path

from autosched.cli.chosen import chosen, on_this_machine, task_of
from autosched.cli.console import plain, seconds_text, warn
from autosched.cli.profile_process import Profiling, profile_of
from autosched.driver import lower_steps
from autosched.errors import ConfigError, MeasureError
from autosched.measure.records import Record
from autosched.measure.workload_keys import WorkloadKeys
from autosched.runtime.cpu import build_artifact
from autosched.runtime.profile import Profile, profiled_code
from autosched.state.layout_rewrite import LayoutRewrite, rewrite_layout
from autosched.task import Task
from autosched.tir.function import PrimFunc
from autosched.transform.framework.context import PassContext
from autosched.transform.loops.serialize_loops import SerializeLoops
from autosched.words import count
from autosched.workloads.workload import shape_of

_DISTURBED = 0.05  # fraction of a call's time
_WIDEST = 60  # characters of a loop in the table


def run(record: str, depth: int, *, serial: bool, keys: WorkloadKeys | None = None) -> None:
    """Build the candidate `record` (FILE or FILE:N) with timed loops, run it, and print a table.

    Loops inside at most `depth` others are timed. Loops inside a parallel one are not, unless
    `serial` runs parallel loops on one thread. Raises ConfigError for a candidate that is not for a
    CPU, and MeasureError for one that fails: it runs in a process of its own.
    """
    if depth < 0:
        raise ConfigError(f"--profile-depth {depth}: expected 0 or more")
    found = _record(record, keys)
    task = task_of(found)
    if task.target.is_gpu:
        raise ConfigError(
            f"--profile {record}: it is a candidate for {task.target}; profiles are taken on CPUs"
        )
    task = on_this_machine(task)
    rewritten = rewrite_layout(task.dag, found.steps, task.layout)
    outputs = task.tensors[-task.num_outputs :]
    func = _lowered(task, rewritten, None, serial=serial)
    request = Profiling(
        profiled_code(_lowered(task, rewritten, depth, serial=serial), task.target),
        build_artifact(func, task.target).with_layouts(rewritten.changes),
        task.inputs(),
        [(shape_of(t), t.dtype.numpy) for t in outputs],
    )
    profile, bare = _profiled(request, record, found, task.target.threads)
    plain("\n".join(_table(task, profile)))
    longer = profile.seconds / bare - 1
    plain(f"a call without this timing takes {seconds_text(bare)}")
    if longer > _DISTURBED:
        warn(
            f"note: the timing itself makes a call {longer:.0%} longer, mostly in loops that run "
            "often; a smaller --profile-depth times fewer loops"
        )
    if any("in parallel(" in part.text for part in profile.parts):
        warn("note: nothing in a parallel loop is timed; --profile-serial runs it on one thread")


def _profiled(
    request: Profiling, record: str, found: Record, threads: int
) -> tuple[Profile, float]:
    calls = 10 * threads * found.result.cost if found.result.valid else 0.0
    try:
        return profile_of(request, calls)
    except MeasureError as error:
        where = f"--profile {record}: the candidate failed when it ran: {error}"
        raise MeasureError(where, stage=error.stage, kind=error.kind) from None


def _record(record: str, keys: WorkloadKeys | None) -> Record:
    path, colon, number = record.rpartition(":")
    if colon and number.removeprefix("-").isdecimal():  # -1 is the last, as for --index
        return chosen(Path(path), int(number), "--profile FILE:N:", keys)[0]
    return chosen(Path(record), "best", "--profile FILE:N:", keys)[0]


def _lowered(task: Task, made: LayoutRewrite, depth: int | None, *, serial: bool) -> PrimFunc:
    """The function of a candidate, with timed loops if `depth` is given."""
    config: dict[str, object] = {}
    if serial:
        config["tir.add_lower_pass"] = [[3, SerializeLoops()]]
    if depth is not None:
        config |= {
            "tir.instrument_lwp": True,
            "tir.instr_siblings": False,
            "tir.lwp_max_depth": depth,
            "tir.lwp_min_height": 0,
            "tir.reset_start_id": True,
        }
    with PassContext(config=config), task.lowering.context():
        return lower_steps(made.dag, made.steps, task.target, task.function_name)


def _table(task: Task, profile: Profile) -> list[str]:
    rows = [("id", "loop", "stores", "calls", "total", "share")]
    for part in profile.parts:
        rows.append(
            (
                str(part.number),
                "  " * part.depth + _shortened(part.text),
                ", ".join(part.stores),
                f"{part.calls:.0f}",
                seconds_text(part.seconds),
                f"{part.seconds / profile.seconds:.1%}",
            )
        )
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    left = (1, 2)  # columns of words
    lines = [f"{task.name} on {task.target}, per call of {count(profile.calls, 'call')}"]
    for row in rows:
        cells = (
            text.ljust(width) if k in left else text.rjust(width)
            for k, (text, width) in enumerate(zip(row, widths, strict=True))
        )
        lines.append("  ".join(cells).rstrip())
    return lines


def _shortened(text: str) -> str:
    """The head of a loop; the middle of a long one is left out."""
    return text if len(text) <= _WIDEST else f"{text[: _WIDEST - 33]}...{text[-30:]}"
