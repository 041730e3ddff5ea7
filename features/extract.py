"""Features of every stored buffer of a function: feature set `ansor-0.19`.

The walk and its numbers follow Ansor's extractor (spec/per_store_features.md); its quirks are
kept, each with a comment where it is reproduced.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from autosched.arith import eval_bound
from autosched.arith.const_int_bound import POS_INF
from autosched.errors import ScheduleError
from autosched.tir.buffer import Buffer
from autosched.tir.expr import BufferLoad, Expr, IntImm, IterVar, Var
from autosched.tir.function import PrimFunc
from autosched.tir.stmt import (
    Allocate,
    AttrStmt,
    BufferRealize,
    BufferStore,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
)
from autosched.tir.walk import child_stmts, direct_exprs, free_vars
from features.count import NUM_COUNTERS, NUM_FLOAT_COUNTERS, count_ops
from features.names import (
    BUFFER_WIDTH,
    CURVE_POINTS,
    LAUNCH,
    MAX_BUFFERS,
    NUM_FEATURES,
    POSITIONS,
    UNSCALED,
)
from features.scope import Access, BufferInfo, Loop, TouchTable, f32
from features.store import READ, READ_WRITE, WRITE, AccessFeatures, analyse_store

FeatureRows = npt.NDArray[np.float32]
_SCALED = np.setdiff1d(np.arange(NUM_FEATURES), UNSCALED)
_KINDS = (ForKind.VECTORIZED, ForKind.UNROLLED, ForKind.PARALLEL)
_THREADS = {
    "blockIdx.x": 1,
    "blockIdx.y": 2,
    "blockIdx.z": 3,
    "threadIdx.x": 4,
    "threadIdx.y": 5,
    "threadIdx.z": 6,
}
_VTHREAD = 7


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
    """One stored or allocated buffer."""

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


class _Extractor:
    def __init__(self, func: PrimFunc, cache_line_bytes: int) -> None:
        self._line = cache_line_bytes
        self._prod = 1.0
        self._loops: list[Loop] = []
        self._kinds: dict[ForKind, list[int]] = {kind: [] for kind in _KINDS}
        self._launch = [0.0] + [1.0] * (len(LAUNCH) - 1)
        self._step = 0
        # Quirk of `ansor-0.19`: a thread attribute takes over the table of the one left last.
        self._free_tables: list[TouchTable] = []
        self._env: dict[Var, tuple[int, int]] = {}
        self._buffers: dict[Var, BufferInfo] = {}
        self.rows: dict[Var, _Row] = {}
        for buffer in func.buffers:
            self._know(buffer)

    def _know(self, buffer: Buffer) -> BufferInfo:
        info = BufferInfo(
            tuple(s.value if isinstance(s, IntImm) else None for s in buffer.shape), buffer.dtype
        )
        self._buffers[buffer.data] = info
        return info

    def _row(self, data: Var) -> _Row:
        row = self.rows.get(data)
        if row is None:
            row = self.rows[data] = _Row()
        return row

    def visit(self, stmt: Stmt) -> None:
        match stmt:
            case SeqStmt(stmts):
                for s in stmts:
                    self.visit(s)
            case For():
                self._for(stmt)
            case BufferStore():
                self._store(stmt)
            case AttrStmt(node, key, value, body):
                self._note_loads(value)
                if key in ("thread_extent", "virtual_thread"):
                    self._thread(node, key, _constant(value), body)
                elif key == "pragma_auto_unroll_max_step":
                    before, self._step = self._step, _int16(_constant(value))
                    self.visit(body)
                    self._step = before
                else:
                    self.visit(body)
            case IfThenElse():
                self._note_loads(stmt.condition)
                self.visit(stmt.then_case)
                if stmt.else_case is not None:
                    self.visit(stmt.else_case)
            case LetStmt(var, value, body):
                self._env[var] = eval_bound(value, self._env)
                if not self._loops:
                    raise ScheduleError(f"features: let {var.name} stands outside all loops")
                self._loops[-1].lets.append((var, value))
                self._note_loads(value)
                self.visit(body)
            case BufferRealize(buffer, bounds, _, body):
                self._know(buffer)
                self.visit(body)
                extents = [_constant(r.extent) for r in bounds]
                self._allocation(buffer.data, buffer.dtype.bytes, extents)
            case Allocate():
                self._buffers[stmt.buffer_var] = BufferInfo(
                    tuple(_constant(e) for e in stmt.extents), stmt.dtype
                )
                self.visit(stmt.body)
                sizes = [_constant(e) for e in stmt.extents]
                self._allocation(stmt.buffer_var, stmt.dtype.bytes, sizes)
            case _:
                for expr in direct_exprs(stmt):
                    self._note_loads(expr)
                for child in child_stmts(stmt):
                    self.visit(child)

    def _note_loads(self, expr: Expr) -> None:
        if not isinstance(expr, BufferLoad | IntImm | Var):
            for child in expr.children():
                self._note_loads(child)
        elif isinstance(expr, BufferLoad):
            self._know(expr.buffer)

    def _for(self, stmt: For) -> None:
        self._note_loads(stmt.min)
        self._note_loads(stmt.extent)
        first = eval_bound(stmt.min, self._env)
        size = eval_bound(stmt.extent, self._env)
        if size == (1, 1):
            span = first
        else:
            span = (first[0], first[1] + size[1] - 1)
        known = self._env.get(stmt.loop_var)
        if known is not None and known != span:
            raise ScheduleError(
                f"features: loop variable {stmt.loop_var.name} is bound twice, "
                f"to {known} and to {span}"
            )
        self._env[stmt.loop_var] = span
        extent = 1 if size[1] == POS_INF else size[1]
        kind = self._kinds.get(stmt.kind)
        if kind is not None:
            kind.append(extent)
        self._nest(Loop(stmt.loop_var, extent, first, span, {}), stmt.body)
        if kind is not None:
            kind.pop()

    def _nest(self, loop: Loop, body: Stmt) -> None:
        self._prod = f32(self._prod * f32(loop.extent))
        self._loops.append(loop)
        self.visit(body)
        self._loops.pop()
        self._prod = f32(self._prod / f32(loop.extent))

    def _thread(self, node: IterVar, key: str, extent: int, body: Stmt) -> None:
        if key == "virtual_thread":
            slot = _VTHREAD
        elif node.var.name in _THREADS:
            slot = _THREADS[node.var.name]
        else:
            raise ScheduleError(f"features: unknown thread axis {node.var.name!r}")
        before = self._launch[slot]
        self._launch[slot] = before * extent if key == "virtual_thread" else float(extent)
        self._launch[0] = 1.0
        table = self._free_tables.pop() if self._free_tables else {}
        self._nest(Loop(node.var, extent, (0, 0), (0, extent - 1), table), body)
        self._free_tables.append(table)
        self._launch[slot] = before

    def _store(self, stmt: BufferStore) -> None:
        stored = self._know(stmt.buffer)
        row = self._row(stmt.buffer.data)
        counts = count_ops(stmt.value)
        for k, count in enumerate(counts):
            if count:
                row.counters[k] = f32(row.counters[k] + f32(self._prod * count))
        for kind, annotation in zip(_KINDS, row.annotations, strict=True):
            extents = self._kinds[kind]
            annotation.num = len(extents)
            annotation.len = extents[-1] if extents else 0
            if extents:
                annotation.prod = 1.0
                for extent in extents:
                    annotation.prod = f32(annotation.prod * extent)
        row.launch = list(self._launch)
        row.slots, row.curve = analyse_store(
            self._accesses(stmt, stored),
            self._loops,
            self._prod,
            sum(counts[:NUM_FLOAT_COUNTERS]),
            self._line,
        )
        row.outer = [self._prod, float(len(self._loops)), float(self._step)]

    def _accesses(self, stmt: BufferStore, stored: BufferInfo) -> list[Access]:
        """Every buffer of the store, in reverse order of appearance, the stored one last."""
        data = stmt.buffer.data
        found = {data: Access(data, stored, WRITE, [stmt.indices], frozenset())}
        stack: list[Expr] = [stmt.value]
        while stack:
            node = stack.pop()
            if isinstance(node, BufferLoad):
                access = found.get(node.buffer.data)
                if access is None:
                    info = self._know(node.buffer)
                    access = Access(node.buffer.data, info, READ, [], frozenset())
                    found[node.buffer.data] = access
                elif access.kind is WRITE:
                    access.kind = READ_WRITE
                if access.kind is not READ_WRITE:
                    access.indices.append(node.indices)
            stack.extend(reversed(node.children()))
        for access in found.values():
            access.used = frozenset[Var]().union(
                *(free_vars(e) for index in access.indices for e in index)
            )
        return list(reversed(found.values()))

    def _allocation(self, data: Var, element_bytes: int, extents: list[int]) -> None:
        row = self._row(data)
        volume = 1.0
        for extent in extents:
            volume = f32(volume * extent)
        row.allocation = [
            f32(volume * element_bytes),
            f32(volume * self._prod),
            self._prod,
            f32(row.outer[0] / self._prod),
        ]


def _constant(expr: Expr) -> int:
    return expr.value if isinstance(expr, IntImm) else 1


def _int16(value: int) -> int:
    return (value + 2**15) % 2**16 - 2**15


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
    extractor = _Extractor(func, cache_line_bytes)
    extractor.visit(func.body)
    rows = [row.columns(max_buffers) for row in reversed(extractor.rows.values())]
    result = np.array(rows, dtype=np.float32).reshape(len(rows), -1)
    return _slog(result) if log_scale else result


def _slog(rows: FeatureRows) -> FeatureRows:
    columns = _SCALED if rows.shape[1] == NUM_FEATURES else np.arange(rows.shape[1])
    values = rows[:, columns]
    rows[:, columns] = np.copysign(np.log2(np.abs(values) + np.float32(1)), values)
    return rows
