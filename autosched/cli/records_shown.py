"""`autosched records top` and `best`: show candidates as tables."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

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
from autosched.cli.files import require_records
from autosched.cli.named import tell_unused, workload_keys
from autosched.cli.table import table
from autosched.measure.flush import flush_text
from autosched.records.standings import Group
from autosched.records.top import Found, group_json
from autosched.words import count

_TOP = ("rank", "time", "95% interval", "rate", "vs best", "race", "checked", "record")
_BEST = ("task", "time", "95% interval", "rate", "candidates", "checked", "record", "measured on")


def top(
    number: int, sources: Sequence[Path], *, as_json: bool = False, workloads: Sequence[str] = ()
) -> None:
    """Print the best candidates of each task and machine, one table for each."""
    require_records(*sources)
    keys = workload_keys(workloads)
    groups = records.top(sources, number, keys=keys, warning=warning)
    tell_unused(keys)
    if as_json:
        print_json(
            {
                "files": [str(path) for path in sources],
                "groups": [
                    {**group_json(found[0].group), "top": [each.to_json() for each in found]}
                    for found in groups
                ],
            }
        )
        return
    if not groups:
        plain("no valid record")
    for place, found in enumerate(groups):
        if place:
            plain("")
        group = found[0].group
        say(f"{group.entry.name} on {group.machine.text}")
        say(f"{count(group.candidates, 'candidate')}, {group.valid} valid{_cold(group)}")
        if group.entry.problem:
            say(f"cannot be rebuilt: {group.entry.problem}")
        best = found[0].place.seconds
        rows = [
            (
                str(each.rank),
                seconds_text(each.place.seconds),
                interval_text(each),
                rate_text(each.flops_per_second or 0.0),
                f"{each.place.seconds / best:.2f}x" if each.rank > 1 else "",
                each.race,
                each.place.record.result.checked_text,
                _where(each, sources),
            )
            for each in found
        ]
        for line in table(_TOP, rows, text_width(), ("95% interval", "checked", "vs best", "rate")):
            plain(line)


def best(sources: Sequence[Path], *, as_json: bool = False, workloads: Sequence[str] = ()) -> None:
    """Print the best candidate of each task, one line for each."""
    require_records(*sources)
    keys = workload_keys(workloads)
    found = records.best(sources, keys=keys, warning=warning)
    tell_unused(keys)
    if as_json:
        tasks = [{**group_json(each.group), "best": each.to_json()} for each in found]
        print_json({"files": [str(path) for path in sources], "tasks": tasks})
        return
    if not found:
        plain("no valid record")
        return
    machines = {each.group.machine for each in found}
    rows = [
        (
            each.group.entry.name + _cold(each.group),
            seconds_text(each.place.seconds),
            interval_text(each),
            rate_text(each.flops_per_second or 0.0),
            str(each.group.candidates),
            each.place.record.result.checked_text,
            _where(each, sources),
            each.group.machine.text if len(machines) > 1 else "",
        )
        for each in found
    ]
    width = text_width()
    for line in table(_BEST, rows, width, ("95% interval", "checked", "candidates")):
        plain(line)
    if len(machines) == 1:
        say(f"measured on {found[0].group.machine.text}")


def interval_text(found: Found) -> str:
    """`1.2 ms to 1.3 ms`: the 95% confidence interval of the time."""
    low, high = map(seconds_text, found.interval)
    return f"{low} to {high}"


def _where(found: Found, sources: Sequence[Path]) -> str:
    """The record for `autosched lower --record`; only the number if there is one file."""
    place = found.place
    return f"{place.path}:{place.index}" if len(sources) > 1 else str(place.index)


def _cold(group: Group) -> str:
    if not group.cache_flush:
        return ""
    return f", with empty caches ({flush_text(group.cache_flush)} written)"
