"""`autosched records diff`: compare the same tasks in two files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from autosched import records
from autosched.cli.console import (
    plain,
    print_json,
    rate_text,
    say,
    seconds_text,
    text_width,
    warning,
)
from autosched.cli.files import require_files
from autosched.cli.named import tell_unused, workload_keys
from autosched.cli.records_shown import interval_text
from autosched.cli.table import table
from autosched.records.diff import Difference, Side
from autosched.words import count

if TYPE_CHECKING:
    from autosched.records.raced import Raced

_HEAD = ("", "time", "95% interval", "rate", "candidates", "record")


def diff(
    a: Path,
    b: Path,
    *,
    race: bool = False,
    share: bool = False,
    as_json: bool = False,
    workloads: Sequence[str] = (),
) -> None:
    """Print a comparison for each task in both files, and the tasks in only one of them.

    With `race` the two best candidates also race on this machine; `share` allows a GPU in use by
    others.
    """
    require_files(("A", a), ("B", b))
    keys = workload_keys(workloads)
    found = records.diff(a, b, keys=keys, warning=warning)
    tell_unused(keys)
    races = records.race(found, share=share, warning=warning) if race else [None] * len(found.tasks)
    both = list(zip(found.tasks, races, strict=True))
    if as_json:
        print_json(
            {
                "a": str(a),
                "b": str(b),
                "tasks": [_json(each, raced) for each, raced in both],
                "only_a": [task.key for task in found.only_a],
                "only_b": [task.key for task in found.only_b],
            }
        )
        return
    say(f"A is {a}, B is {b}; {count(len(found.tasks), 'task')} in both")
    for each, raced in both:
        _describe(each)
        if raced is not None and not each.same_best:
            say(_raced_text(raced), "    ")
    for name, path, tasks in (("A", a, found.only_a), ("B", b, found.only_b)):
        if tasks:
            plain(f"\nonly in {name} ({path}):")
            for task in tasks:
                plain(f"    {task.name}")


def _describe(found: Difference) -> None:
    a, b = found.a, found.b
    plain(f"\n{a.group.entry.name}")
    rows = [_row("A", a), _row("B", b)]
    width = text_width()
    for line in table(_HEAD, rows, width and width - 4, ("candidates", "rate")):
        plain(f"    {line}")
    for text in _machines(a, b):
        say(text, "    ")
    say(_verdict(found), "    ")
    if found.common:
        alike = "" if found.agreement is None else f", rank correlation {found.agreement:.2f}"
        ratio = f"B takes {found.median:.2f} of A's time (median){alike}"
        say(f"{count(found.common, 'candidate')} with a time in both: {ratio}", "    ")
    if found.same_best:
        say("the best is the same candidate in both", "    ")
    else:
        for name, other, seconds in zip("AB", "BA", found.best_elsewhere, strict=True):
            if seconds is not None:
                say(f"{name}'s best takes {seconds_text(seconds)} in {other}", "    ")
    for what, (one, other) in {**found.target, **found.changed}.items():
        say(f"{what}: {one} in A, {other} in B", "    ")


def _json(found: Difference, raced: Raced | None) -> dict[str, Any]:
    entry = found.to_json()
    return entry if raced is None else {**entry, "race": raced.to_json()}


def _raced_text(raced: Raced) -> str:
    """The result of the race, in one line."""
    if raced.seconds is None or raced.interval is None:
        return f"no race: {raced.why}"
    (a, b), (low, high) = map(seconds_text, raced.seconds), raced.interval
    end = f"{raced.faster.upper()} is faster" if raced.faster else "neither is faster"
    took = f"B takes {raced.ratio:.3f} of A's time ({low:.3f} to {high:.3f}, 95%)"
    return f"in turns on this machine, {count(raced.visits, 'visit')}: {a} and {b}, {took}: {end}"


def _row(name: str, side: Side) -> tuple[str, ...]:
    candidates, best = str(side.group.candidates), side.best
    if best is None:
        return (name, "none valid", "", "", candidates, "")
    rate = rate_text(best.flops_per_second or 0.0)
    time, index = seconds_text(best.place.seconds), str(best.place.index)
    return (name, time, interval_text(best), rate, candidates, index)


def _machines(a: Side, b: Side) -> list[str]:
    """Where and how the two were measured."""
    texts = [
        side.group.machine.text + (", with empty caches" if side.group.cache_flush else "")
        for side in (a, b)
    ]
    if texts[0] == texts[1]:
        return [f"both measured on {texts[0]}"]
    return [f"A measured on {texts[0]}", f"B measured on {texts[1]}"]


def _verdict(found: Difference) -> str:
    """One sentence that compares the two best candidates."""
    a, b = found.a.best, found.b.best
    if a is None or b is None or found.ratio is None:
        return "nothing to compare: one of them has no valid record"
    if found.a.group.cache_flush != found.b.group.cache_flush:
        return "times are not comparable: one was taken with empty caches"
    if not found.apart:
        return f"no clear difference: B takes {found.ratio:.2f} of A's time, the intervals overlap"
    if found.ratio < 1:
        return f"B's best is {a.seconds / b.seconds:.2f} times as fast as A's"
    return f"A's best is {found.ratio:.2f} times as fast as B's"
