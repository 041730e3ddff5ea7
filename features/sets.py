"""The feature sets by name: what a cost model or a dataset can be made of."""

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
from autosched.features.row_names import in_order_of_store, in_reverse
from autosched.target import Target
from autosched.tir.function import PrimFunc

ANSOR = names.SCHEMA
AUTOSCHED_1 = autosched_1_names.SCHEMA
DEFAULT = ANSOR
"""What rows, datasets and tables hold unless another set is named."""

FeatureSetName = Literal["ansor-0.19", "autosched-1"]
TUNING: FeatureSetName = "autosched-1"
"""What the cost model of `tune` learns from unless another set is named."""


@dataclass(frozen=True, slots=True)
class FeatureSet:
    """Named columns and the function that works them out.

    `extract` takes a function lowered by ScheduleOps and simplified, and returns float32 (stored
    buffers, len(columns)); `buffers` names the buffer of each row, `meaning` says in words what a
    column holds. `version` changes with the values or order of the columns.
    """

    name: str
    version: int
    groups: Mapping[str, Sequence[str]]
    extract: Callable[[PrimFunc, Target], FeatureRows]
    meaning: Callable[[str], str]
    buffers: Callable[[PrimFunc], list[str]]

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
    ANSOR: FeatureSet(ANSOR, names.SCHEMA_VERSION, names.GROUPS, _ansor, meaning, in_reverse),
    AUTOSCHED_1: FeatureSet(
        AUTOSCHED_1,
        autosched_1_names.SCHEMA_VERSION,
        autosched_1_names.GROUPS,
        autosched_1.features_from_func,
        autosched_1_names.meaning,
        in_order_of_store,
    ),
}


def feature_set(name: str) -> FeatureSet:
    """The set called `name`. Raises ConfigError naming those that exist."""
    found = FEATURE_SETS.get(name)
    if found is None:
        raise ConfigError(f"feature set {name!r} is unknown, expected {' or '.join(FEATURE_SETS)}")
    return found
