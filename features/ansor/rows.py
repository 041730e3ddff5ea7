"""Features of every stored buffer of a function: feature set `ansor-0.19`.

The walk and the values follow Ansor's extractor. Its quirks are kept, each with a comment where it
is reproduced.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from autosched.features.ansor.names import (
    BUFFER_WIDTH,
    CURVE_POINTS,
    LAUNCH,
    MAX_BUFFERS,
    NUM_FEATURES,
    POSITIONS,
    UNSCALED,
)
from autosched.features.ansor.slots import AccessFeatures, analyse_store
from autosched.features.walk.access import accesses_of
from autosched.features.walk.count import NUM_COUNTERS, NUM_FLOAT_COUNTERS, count_ops
from autosched.features.walk.scope import BufferInfo, f32
from autosched.features.walk.visitor import Nest
from autosched.tir.expr import Var
from autosched.tir.function import PrimFunc
from autosched.tir.stmt import BufferStore, ForKind

FeatureRows = npt.NDArray[np.float32]
_SCALED = np.setdiff1d(np.arange(NUM_FEATURES), UNSCALED)
_RUNS = np.split(_SCALED, np.flatnonzero(np.diff(_SCALED) > 1) + 1)
_KINDS = (ForKind.VECTORIZED, ForKind.UNROLLED, ForKind.PARALLEL)


@dataclass(slots=True)
class _Annotation:
    """Vectorised, unrolled or parallel loops around the last store of a buffer."""

    num: int = 0
    prod: float = 0.0  # kept from an earlier store when a later one has no such loop
    len: int = 0

    def columns(self) -> list[float]:
        # Quirk of `ansor-0.19`: the position is None or Mixed, never one of the other six.
        position = POSITIONS[-1] if self.num else POSITIONS[0]
        return [self.num, self.prod, self.len, *(float(p == position) for p in POSITIONS)]


@dataclass(slots=True)
class _Row:
    """The features of one stored or allocated buffer."""

    counters: list[float] = field(default_factory=lambda: [0.0] * NUM_COUNTERS)
    annotations: tuple[_Annotation, ...] = field(
        default_factory=lambda: (_Annotation(), _Annotation(), _Annotation())
    )
    launch: list[float] = field(default_factory=lambda: [0.0] * len(LAUNCH))
    slots: list[AccessFeatures] = field(default_factory=list)
    curve: list[float] = field(default_factory=lambda: [0.0] * CURVE_POINTS)
    allocation: list[float] = field(default_factory=lambda: [0.0] * 4)
    outer: list[float] = field(default_factory=lambda: [0.0] * 3)

    def columns(self, max_buffers: int) -> list[float]:
        row = list(self.counters)
        for annotation in self.annotations:
            row += annotation.columns()
        row += self.launch
        ordered = sorted(self.slots, key=lambda s: (-s.lines, -s.bytes))[:max_buffers]
        for slot in ordered:
            row += slot.columns()
        row += [0.0] * (BUFFER_WIDTH * (max_buffers - len(ordered)))
        return row + self.curve + self.allocation + self.outer


class _Ansor:
    """Visitor that collects one row per buffer, in the order of the first stores."""

    def __init__(self, cache_line_bytes: int) -> None:
        self._line = cache_line_bytes
        self.rows: dict[Var, _Row] = {}

    def _row(self, data: Var) -> _Row:
        row = self.rows.get(data)
        if row is None:
            row = self.rows[data] = _Row()
        return row

    def store(self, stmt: BufferStore, nest: Nest) -> None:
        row = self._row(stmt.buffer.data)
        counts = count_ops(stmt.value)
        for k, count in enumerate(counts):
            if count:
                row.counters[k] = f32(row.counters[k] + f32(nest.prod * count))
        for kind, annotation in zip(_KINDS, row.annotations, strict=True):
            extents = [loop.extent for loop in nest.loops if loop.kind is kind]
            annotation.num = len(extents)
            annotation.len = extents[-1] if extents else 0
            if extents:
                annotation.prod = 1.0
                for extent in extents:
                    annotation.prod = f32(annotation.prod * extent)
        row.launch = list(nest.launch)
        row.slots, row.curve = analyse_store(
            accesses_of(stmt, nest),
            nest.loops,
            nest.prod,
            sum(counts[:NUM_FLOAT_COUNTERS]),
            self._line,
        )
        row.outer = [nest.prod, float(len(nest.loops)), float(nest.step)]

    def allocation(self, data: Var, info: BufferInfo, extents: list[int], nest: Nest) -> None:
        row = self._row(data)
        volume = 1.0
        for extent in extents:
            volume = f32(volume * extent)
        row.allocation = [
            f32(volume * info.bytes),
            f32(volume * nest.prod),
            nest.prod,
            f32(row.outer[0] / nest.prod),
        ]


def features_from_func(
    func: PrimFunc,
    *,
    cache_line_bytes: int = 64,
    max_buffers: int = MAX_BUFFERS,
    log_scale: bool = True,
) -> FeatureRows:
    """The features of `func` as it stands (lowered by ScheduleOps, simplified, not flattened).

    Returns float32 (stored buffers, 164), a row per buffer that is stored to or allocated, in
    reverse order of first store; columns as `names.FEATURE_NAMES`. Raises ScheduleError for a
    loop variable bound twice with different bounds or an unknown thread axis.
    """
    ansor = _Ansor(cache_line_bytes)
    # Quirk of `ansor-0.19`: a thread attribute takes over the touch table of the thread attribute
    # that the walk left last.
    Nest(func, ansor, recycle_tables=True)
    rows = [row.columns(max_buffers) for row in reversed(ansor.rows.values())]
    result = np.array(rows, dtype=np.float32).reshape(len(rows), -1)
    return log_scaled(result) if log_scale else result


def log_scaled(rows: FeatureRows) -> FeatureRows:
    """Scale `rows` in place to log2(x + 1), except one-hot columns and `is_gpu`; return them."""
    columns = _SCALED if rows.shape[1] == NUM_FEATURES else np.arange(rows.shape[1])
    values = rows[:, columns]
    rows[:, columns] = np.copysign(np.log2(np.abs(values) + np.float32(1)), values)
    return rows


def log_scale_columns(table: FeatureRows) -> None:
    """Scale `table`, (buffers, 164, candidates), in place as `log_scaled` scales rows."""
    for run in _RUNS:
        values = table[:, run[0] : run[-1] + 1]
        found = np.abs(values)
        found += np.float32(1)
        np.copysign(np.log2(found, out=found), values, out=values)
