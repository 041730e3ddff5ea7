"""The feature sets by name: what a cost model or a dataset can be made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from autosched.errors import ConfigError
from autosched.target import Target
from autosched.tir.function import PrimFunc
from features import names
from features.extract import FeatureRows, features_from_func
from features.meanings import meaning

ANSOR = names.SCHEMA
DEFAULT = ANSOR


@dataclass(frozen=True, slots=True)
class FeatureSet:
    """Named columns and the function that works them out.

    `extract` takes a function lowered by ScheduleOps and simplified, and returns float32 (stored
    buffers, len(columns)); `meaning` says in words what a column holds. `version` changes with
    the values or order of the columns.
    """

    name: str
    version: int
    groups: Mapping[str, Sequence[str]]
    extract: Callable[[PrimFunc, Target], FeatureRows]
    meaning: Callable[[str], str]

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(column for group in self.groups.values() for column in group)

    @property
    def schema(self) -> str:
        """`name/version`, as datasets and saved models carry it."""
        return f"{self.name}/{self.version}"


def _ansor(func: PrimFunc, target: Target) -> FeatureRows:
    return features_from_func(func, cache_line_bytes=target.hardware.cache_line_bytes)


FEATURE_SETS: dict[str, FeatureSet] = {
    ANSOR: FeatureSet(ANSOR, names.SCHEMA_VERSION, names.GROUPS, _ansor, meaning),
}


def feature_set(name: str) -> FeatureSet:
    """The set called `name`. Raises ConfigError naming those that exist."""
    found = FEATURE_SETS.get(name)
    if found is None:
        raise ConfigError(f"feature set {name!r} is unknown, expected {' or '.join(FEATURE_SETS)}")
    return found
