"""The feature sets by name, from which cost models and datasets choose."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from autosched.errors import ConfigError
from autosched.features.ansor import names
from autosched.features.ansor.meanings import meaning
from autosched.features.ansor.rows import FeatureRows, features_from_func
from autosched.features.autosched_1 import names as autosched_1_names
from autosched.features.autosched_1 import rows as autosched_1
from autosched.features.walk.scope import BufferInfo
from autosched.features.walk.visitor import Nest
from autosched.target import Target
from autosched.tir.expr import Var
from autosched.tir.function import PrimFunc
from autosched.tir.stmt import BufferStore

ANSOR = names.SCHEMA
AUTOSCHED_1 = autosched_1_names.SCHEMA
DEFAULT = ANSOR
"""The feature set of rows, datasets and tables unless another one is named."""

FeatureSetName = Literal["ansor-0.19", "autosched-1"]
TUNING: FeatureSetName = "autosched-1"
"""The feature set that the cost model of `tune` learns from unless another one is named."""


@dataclass(frozen=True, slots=True)
class Rows:
    """The feature rows of a candidate, and the name of the stored buffer of each row."""

    values: FeatureRows
    buffers: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.buffers)


@dataclass(frozen=True, slots=True)
class FeatureSet:
    """Named columns and the functions that compute them.

    `extract` takes a function lowered by ScheduleOps and simplified (with `as_ansor`, lowered as
    Ansor lowers it) and returns float32 (stored buffers, len(columns)). `with_buffers` returns the
    same rows and the name of each row's buffer. `meaning` describes a column in words. `version`
    changes with the values or the order of the columns.
    """

    name: str
    version: int
    groups: Mapping[str, Sequence[str]]
    extract: Callable[[PrimFunc, Target], FeatureRows]
    meaning: Callable[[str], str]
    with_buffers: Callable[[PrimFunc, Target], tuple[FeatureRows, list[str]]]
    as_ansor: bool

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of all columns, in order."""
        return tuple(column for group in self.groups.values() for column in group)

    @property
    def schema(self) -> str:
        """`name/version`, as written into datasets and saved models."""
        return f"{self.name}/{self.version}"


def _ansor(func: PrimFunc, target: Target) -> FeatureRows:
    return features_from_func(func, cache_line_bytes=target.hardware.cache_line_bytes)


class _Names:
    """Visitor that collects the names of buffers in the order of their first appearance."""

    def __init__(self) -> None:
        self.known: dict[Var, str] = {}

    def store(self, stmt: BufferStore, nest: Nest) -> None:
        self.known.setdefault(stmt.buffer.data, stmt.buffer.name)

    def allocation(self, data: Var, info: BufferInfo, extents: list[int], nest: Nest) -> None:
        self.known.setdefault(data, info.name or data.name)


def _ansor_with_buffers(func: PrimFunc, target: Target) -> tuple[FeatureRows, list[str]]:
    """The rows of the buffers that are stored to or allocated, last first, and their names."""
    names = _Names()
    Nest(func, names)
    return _ansor(func, target), list(reversed(names.known.values()))


FEATURE_SETS: dict[str, FeatureSet] = {
    ANSOR: FeatureSet(
        ANSOR,
        names.SCHEMA_VERSION,
        names.GROUPS,
        _ansor,
        meaning,
        _ansor_with_buffers,
        as_ansor=True,
    ),
    AUTOSCHED_1: FeatureSet(
        AUTOSCHED_1,
        autosched_1_names.SCHEMA_VERSION,
        autosched_1_names.GROUPS,
        autosched_1.features_from_func,
        autosched_1_names.meaning,
        autosched_1.features_and_buffers,
        as_ansor=False,
    ),
}


def feature_set(name: str) -> FeatureSet:
    """The feature set called `name`. Raises ConfigError naming the known sets if there is none."""
    found = FEATURE_SETS.get(name)
    if found is None:
        raise ConfigError(f"feature set {name!r} is unknown, expected {' or '.join(FEATURE_SETS)}")
    return found
