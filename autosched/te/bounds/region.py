"""Regions of tensors: sets of index values that consumers read, and the ranges that cover them.

As in Ansor, ranges are simplified without knowledge of the variables' domains: knowing them would
give other, equivalent expressions than Ansor's.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from autosched.arith import Analyzer, IntSet
from autosched.arith.interval_eval import eval_set
from autosched.te.bounds.affine import Unbound
from autosched.te.operations.operation import (
    ComputeOp,
    ExternOp,
    Operation,
    ScanOp,
    tensor_loads,
)
from autosched.te.operations.tensor_compute import TensorComputeOp
from autosched.tir.dtype import DType
from autosched.tir.expr import Expr, IntImm, IterVar, ProducerLoad, Range, Var
from autosched.tir.op import add, cast, const, ge, le, max_, min_, sub
from autosched.tir.walk import free_vars

if TYPE_CHECKING:
    from autosched.te.operations.tensor import Tensor

AxisSets = dict[IterVar, tuple[Range, IntSet]]
Needed = dict["Tensor", list[list[IntSet]]]


class Regions:
    """Ranges that cover sets of values, simplified without knowledge of the variables' domains."""

    def __init__(self) -> None:
        self.unbound = Unbound()
        self.simplify = self.unbound.simplify

    def cover(self, values: IntSet, default: Range) -> Range:
        """The range from the smallest to the largest value; `default` when a bound is missing."""
        return values.cover_range(default, self.simplify)

    def union(self, sets: Iterable[IntSet], default: Range) -> Range:
        """The range that covers all `sets`; `default` when one is unbounded or there are none."""
        unique = list(sets)
        if not unique:
            return default
        first = unique[0]
        if len(unique) == 1:
            return self.cover(first, default)
        if not all(s.has_lower_bound and s.has_upper_bound for s in unique):
            return default
        low, high = first.min_value, first.max_value
        if all(s.min_value is low and s.max_value is high for s in unique):
            return self.cover(first, default)
        for s in unique[1:]:
            low, high = min_(low, s.min_value), max_(high, s.max_value)
        return self.cover(IntSet.interval(self.simplify(low), self.simplify(high)), default)


def record_reads(
    op: Operation, known: AxisSets, needed: Needed, loops: Mapping[IterVar, Range] | None = None
) -> None:
    """Append to `needed`, per tensor and dimension, the sets of indices at which `op` reads it.

    Only tensors that are keys of `needed` count. `known` holds, for each axis of `op`, its range
    and the set of its values; `loops` the domains of the loops whose variables `known` mentions.
    """
    if isinstance(op, ComputeOp):
        _record_compute(op, known, needed, loops or {})
    elif isinstance(op, ScanOp):
        _record_scan(op, known, needed)
    elif isinstance(op, TensorComputeOp):
        _record_tensor_compute(op, known, needed, loops or {})
    elif isinstance(op, ExternOp):
        for tensor in op.inputs:
            if tensor in needed:
                for dim, extent in enumerate(tensor.shape):
                    whole = Range(const(0, extent.dtype), extent)
                    needed[tensor][dim].append(IntSet.from_range(whole))


def _record_compute(
    op: ComputeOp, known: AxisSets, needed: Needed, loops: Mapping[IterVar, Range]
) -> None:
    _record_loads(op.distinct_loads, known, needed, loops)


def _record_loads(
    loads: Iterable[ProducerLoad], known: AxisSets, needed: Needed, loops: Mapping[IterVar, Range]
) -> None:
    dom: dict[Var, IntSet] = {iv.var: values for iv, (_, values) in known.items()}
    analyzer: Analyzer | None = None
    for load in dict.fromkeys(load for load in loads if load.producer in needed):
        tensor = load.producer
        for dim, (index, extent) in enumerate(zip(load.indices, tensor.shape, strict=True)):
            values = dom.get(index) if isinstance(index, Var) else None
            if values is None or not _is_constant(values):
                if analyzer is None:
                    analyzer = _knowing(known, loops)
                if values is None or _mentions(values, dom):
                    values = eval_set(index, dom, analyzer)
            needed[tensor][dim].append(_within(values, extent, analyzer))


def _record_tensor_compute(
    op: TensorComputeOp, known: AxisSets, needed: Needed, loops: Mapping[IterVar, Range]
) -> None:
    _record_loads(op.loads(), known, needed, loops)
    dom: dict[Var, IntSet] = {iv.var: values for iv, (_, values) in known.items()}
    analyzer = _knowing(known, loops)
    for region in op.call.regions:
        if region.tensor not in needed:
            continue
        for dim, (r, extent) in enumerate(zip(region.ranges, region.tensor.shape, strict=True)):
            low = eval_set(r.min, dom, analyzer)
            high = eval_set(sub(add(r.min, r.extent), 1), dom, analyzer)
            values = IntSet.interval(low.min_value, high.max_value)
            needed[region.tensor][dim].append(_within(values, extent, analyzer))


def _knowing(known: AxisSets, loops: Mapping[IterVar, Range]) -> Analyzer:
    """An analyzer that knows the ranges of the axes in `known`, and the loops that these mention.

    It proves signs, and (in `_within`) that a tensor's shape is within the set that is read.
    """
    analyzer = Analyzer(as_ansor=True)
    mentioned: set[Var] = set()
    for dom, values in known.values():
        mentioned.update(free_vars(dom.min), free_vars(values.min_value))
    for iv, dom in loops.items():
        if iv.var in mentioned:
            analyzer.bind(iv.var, dom, override=True)
    for iv, (dom, _) in known.items():
        analyzer.bind(iv.var, dom, override=True)
    return analyzer


def _mentions(values: IntSet, dom: dict[Var, IntSet]) -> bool:
    """True when the ends of `values` depend on another axis or on memory (a ragged reduction)."""
    ends = values.min_value, values.max_value
    if not (free_vars(ends[0]) | free_vars(ends[1])).isdisjoint(dom):
        return True
    return any(tensor_loads(e) for e in ends)


def _is_constant(values: IntSet) -> bool:
    return isinstance(values.min_value, IntImm) and isinstance(values.max_value, IntImm)


def _within(values: IntSet, extent: Expr, analyzer: Analyzer | None) -> IntSet:
    """`values`, or [0, extent) when that is provably contained in `values` or nothing is known."""
    values = _as_numbers(values, extent.dtype)
    lower, upper = values.has_lower_bound, values.has_upper_bound
    zero, last = const(0, extent.dtype), sub(extent, 1)
    if not lower and not upper:
        return IntSet.interval(zero, last)
    if not (lower and upper):
        return values
    low, high = values.min_value, values.max_value
    if isinstance(low, IntImm) and low.value > 0:
        return values
    if isinstance(high, IntImm) and isinstance(last, IntImm) and last.value > high.value:
        return values
    if isinstance(low, IntImm) and isinstance(high, IntImm) and isinstance(last, IntImm):
        return IntSet.interval(zero, last)
    analyzer = analyzer or Analyzer(as_ansor=True)
    if analyzer.const_int_bound(low).max_value > 0:
        return values  # `low` may be positive: the proof below would fail
    if analyzer.can_prove(ge(zero, low)) and analyzer.can_prove(le(last, high)):
        return IntSet.interval(zero, last)
    return values


def _as_numbers(values: IntSet, dtype: DType) -> IntSet:
    """`values` of an index that is unsigned or of few bits, cast to `dtype`.

    In the index's own type an expression such as `low - 1` would wrap.
    """
    low, high = values.min_value, values.max_value
    if low.dtype.is_index and high.dtype.is_index:
        return values
    if values.is_single_point:
        return IntSet.single_point(cast(dtype, low))
    return IntSet.interval(
        cast(dtype, low) if values.has_lower_bound else low,
        cast(dtype, high) if values.has_upper_bound else high,
    )


def _record_scan(op: ScanOp, known: AxisSets, needed: Needed) -> None:
    axis = 0
    for init, update in zip(op.init, op.update, strict=True):
        if init in needed:
            first = Range(const(0, init.shape[0].dtype), init.shape[0])
            needed[init][0].append(IntSet.from_range(first))
        if update in needed:
            needed[update][0].append(known[op.scan_axis][1])
        for dim in range(1, len(update.shape)):
            values = known[op.spatial_axis[axis]][1]
            axis += 1
            for tensor in (init, update):
                if tensor in needed:
                    needed[tensor][dim].append(values)
