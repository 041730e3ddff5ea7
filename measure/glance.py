"""Read record lines only as far as a summary needs: a third of the time of a full read.

A line of a valid result that is exactly as this program writes it is matched as text. Everything
that matches is a whole record that `Record.from_json` accepts. Any other line is read in full, so
both ways of reading a file skip the same lines.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from autosched.errors import ConfigError
from autosched.measure.log_lines import log_lines
from autosched.measure.records import LogContents, Record, parsed, record_of
from autosched.measure.result import MOST_SECONDS, lower_quartile
from autosched.measure.workload_keys import WorkloadKeys
from autosched.state.steps import step_from_json

_TEXT = r'"[^"\\\x00-\x1f]*+"'
_NAME = r'"[ !#-\[\]-~]*+"'
_SECONDS = r"(?:0|[1-9]\d{0,8}+)(?:\.\d{1,25}+)?+(?:e-\d{1,3}+)?+"
_NUMBER = r"-?+(?:0|[1-9]\d{0,14}+)(?:\.\d{1,25}+)?+(?:e[-+]\d{1,2}+)?+"
_SCALAR = rf"(?:{_NUMBER}|{_TEXT}|null|true|false)"


def _object(value: str) -> str:
    return rf"\{{(?:{_TEXT}:{value}(?:,{_TEXT}:{value})*+)?+\}}"


def _value(depth: int) -> str:
    """A pattern of JSON values without escapes, nested at most `depth` deep."""
    if not depth:
        return _SCALAR
    inner = _value(depth - 1)
    return rf"(?:{_SCALAR}|{_object(inner)}|\[(?:{inner}(?:,{inner})*+)?+\])"


_HEAD = '{"schema":2,"task":"'
_STEPS = '","steps":[["'
_RESULT = ']],"result":{"seconds":['
# First group: times whose numeric order is that of their texts, once their common exponent is cut
# off. Any other times match the third group of _REST.
_SORTED = r"0\.\d{1,25}+(?:,0\.\d{1,25}+)*+|[1-9]\.\d{1,25}+(e-\d\d)(?:,[1-9]\.\d{1,25}+\2)*+"
_REST = re.compile(
    rf'(?:({_SORTED})|({_SECONDS}(?:,{_SECONDS})*+))\],"error":null,"build_seconds":{_SECONDS},'
    rf'"total_seconds":{_SECONDS},"checked":(?:true|false)'
    rf'(?:,"check":\{{"telling":{_NUMBER},"error":{_NUMBER},"tolerance":{_NUMBER}\}})?+'
    rf'(?:,"cache_flush":([1-9]\d{{0,14}}))?+(?:,"device":{_object(_value(2))})?+'
    rf'(?:,"disturbed":[1-9]\d{{0,14}}+)?+(?:,"host":{_NAME})?+\}},'
    rf'"search":({_object(_value(1))}),"environment":({_TEXT}),"time":{_TEXT}\}}[ \t\n\r]*+',
    re.ASCII,
)
_MOST_KNOWN = 1 << 16


@dataclass(slots=True)
class Glance:
    """A record of a valid result, as far as it was read.

    - `task`: the task's entry.
    - `least_cost`: a lower bound of its seconds per call, as `MeasureResult.cost` defines them.
    - `cache_flush`: as of MeasureResult.
    - `environment`: the hash of its environment.
    """

    task: dict[str, Any]
    least_cost: float
    cache_flush: int
    environment: str
    _line: str
    _contents: LogContents

    def whole(self) -> Record:
        """Read the rest of the record."""
        record = Record.from_json(parsed(self._line), self._contents.tasks)
        return replace(record, environment=self.environment)


def glances(
    path: Path | str, contents: LogContents, keys: WorkloadKeys | None = None
) -> Iterator[Glance | Record]:
    """The records of `path` one at a time, most of them at a glance, none of them kept.

    For `contents`, `keys` and the errors raised, see `stream_log`. Records of races come whole.
    """
    path = Path(path)
    known: set[str] = set()
    for number, line in log_lines(path, contents.problems):
        found = _glance(line, contents, known) or record_of(path, number, line, contents, keys)
        if found is not None:
            yield found


def _glance(line: str, contents: LogContents, known: set[str]) -> Glance | None:
    """The record of a line, or None where the line must be read in full.

    `known` holds texts of valid steps without their leading `["`; steps of this line are added.
    """
    if not line.startswith(_HEAD):
        return None
    at = line.find(_STEPS)
    end = line.find(_RESULT, at)
    name = line[len(_HEAD) : at]
    task = contents.tasks.get(name)
    if task is None or not name.isalnum() or at < 0 or end < 0:
        return None
    rest = _REST.fullmatch(line, end + len(_RESULT))
    if rest is None or '"race":' in rest[5]:
        return None
    least, quartile = _ends(rest[1], rest[2] or "") if rest[1] else _of(rest[3])
    if not 0.0 < least <= quartile <= MOST_SECONDS:
        return None
    steps = line[at + len(_STEPS) : end].split('],["')
    if not known.issuperset(steps) and not _learn(steps, known):
        return None
    environment = contents.environment_of(rest[6][1:-1])
    return Glance(task, quartile, int(rest[4] or 0), environment, line, contents)


def _ends(times: str, exponent: str) -> tuple[float, float]:
    """The least of `times`, and a lower bound of their lower quartile.

    The numeric order of the times is the order of their texts.
    """
    ordered = sorted(times[: len(times) - len(exponent)].split(f"{exponent},"))
    quartile = ordered[(len(ordered) - 1) // 4]
    return float(ordered[0] + exponent), float(quartile + exponent)


def _of(times: str) -> tuple[float, float]:
    seconds = [*map(float, times.split(","))]
    if max(seconds) > MOST_SECONDS:
        return 0.0, 0.0
    return min(seconds), lower_quartile(seconds)


def _learn(steps: list[str], known: set[str]) -> bool:
    """Whether all texts are valid steps; `known` gains them."""
    for step in steps:
        try:
            step_from_json(json.loads(f'["{step}]'))
        except (ValueError, RecursionError, ConfigError):
            return False
    if len(known) >= _MOST_KNOWN:
        known.clear()
    known.update(steps)
    return True
