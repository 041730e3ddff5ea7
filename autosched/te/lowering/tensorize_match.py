"""Matches the inner loops of a stage against the computation of a tensor intrinsic."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from autosched.arith import Analyzer
from autosched.arith.interval_eval import eval_set
from autosched.arith.intset import IntSet
from autosched.errors import ScheduleError
from autosched.te.bounds.region import Regions
from autosched.te.operations.operation import ComputeOp
from autosched.te.operations.tensor import Tensor
from autosched.te.operations.tensor_intrin import TensorIntrin
from autosched.tir.buffer import Buffer
from autosched.tir.constants import is_one
from autosched.tir.expr import (
    EQ,
    NE,
    Add,
    And,
    BinaryExpr,
    Expr,
    IterVar,
    Max,
    Min,
    Mul,
    Or,
    ProducerLoad,
    Range,
    Reduce,
    Var,
)
from autosched.tir.op import add, cast, const, sub
from autosched.tir.walk import combine, free_vars, loads, substitute, uses

Bound = tuple[Buffer, Tensor, Sequence[Range]]


class Match:
    """The match of an intrinsic with `op`, the operation of a stage; ScheduleError if they differ.

    `region` is the range of each axis of `op` within the tensorized loops. Leading axes that the
    intrinsic lacks must have extent 1 in it. After construction, `values` maps the variables of
    `op` to expressions in the intrinsic's axes, `sizes` the intrinsic's symbolic sizes to extents,
    `loads` each input of the intrinsic to a load of `op`, and `scalars` its scalar parameters to
    values.
    """

    def __init__(
        self, op: ComputeOp, intrin: TensorIntrin, region: Mapping[IterVar, Range], where: str
    ) -> None:
        assert isinstance(intrin.op, ComputeOp)
        self.op = op
        self.intrin = intrin
        self.region = region
        self.where = where
        self.analyzer = Analyzer()
        self.values: dict[Var, Expr] = {}
        self.sizes: dict[Var, Expr] = {}
        self.loads: dict[Tensor, ProducerLoad] = {}
        self.scalars: dict[Var, Expr] = {}
        self._pair("data", op.axis, intrin.op.axis)
        self._pair("reduction", op.reduce_axis, intrin.op.reduce_axis)
        for iv in intrin.op.root_iter_vars:
            self.analyzer.bind(iv.var, self._domain(iv))
        if len(op.body) != len(intrin.op.body):
            raise self._refusal(f"it has {len(intrin.op.body)} outputs, expected {len(op.body)}")
        for mine, theirs in zip(op.body, intrin.op.body, strict=True):
            self._body(mine, theirs)
        for param in intrin.scalar_params:
            if param not in self.scalars:
                raise self._refusal(
                    f"its scalar {param.name} does not occur in what it computes, so that nothing "
                    "says which value it has; call the intrinsic in te.compute instead"
                )

    def _refusal(self, why: str) -> ScheduleError:
        return ScheduleError(f"{self.where}: {why}")

    def _pair(self, kind: str, axes: Sequence[IterVar], theirs: Sequence[IterVar]) -> None:
        missing = len(axes) - len(theirs)
        if missing < 0:
            raise self._refusal(
                f"the intrinsic has {len(theirs)} {kind} axes, the stage {len(axes)}"
            )
        for iv in axes[:missing]:
            dom = self.region[iv]
            if not is_one(dom.extent):
                raise self._refusal(
                    f"axis {iv.var.name} runs through {dom!r} inside the intrinsic, which lacks it"
                )
            self.values[iv.var] = dom.min
        for iv, other in zip(axes[missing:], theirs, strict=True):
            dom, declared = self.region[iv], other.dom
            assert declared is not None
            extent = declared.extent
            if isinstance(extent, Var):
                extent = self.sizes.setdefault(extent, cast(extent.dtype, dom.extent))
            if not self.analyzer.can_prove_equal(extent, cast(extent.dtype, dom.extent)):
                raise self._refusal(
                    f"axis {iv.var.name} has extent {dom.extent!r} inside, the intrinsic's "
                    f"{other.var.name} {extent!r}"
                )
            index = sub(cast(iv.var.dtype, other.var), cast(iv.var.dtype, declared.min))
            self.values[iv.var] = add(index, dom.min)

    def _body(self, mine: Expr, theirs: Expr) -> None:
        if isinstance(mine, Reduce) and isinstance(theirs, Reduce):
            left, right = mine.combiner, theirs.combiner
            same_sizes = len(left.lhs) == len(right.lhs)
            if not same_sizes or combine(left, right.lhs, right.rhs) != right.result:
                raise self._refusal("the reductions combine in different ways")
            if mine.condition is not theirs.condition or mine.init != theirs.init:
                raise self._refusal("the reductions differ in condition or init")
            for a, b in zip(mine.source, theirs.source, strict=True):
                self._same(substitute(a, self.values), substitute(b, self.sizes))
        else:
            self._same(substitute(mine, self.values), substitute(theirs, self.sizes))

    def _same(self, mine: Expr, theirs: Expr) -> None:
        """Check that both expressions compute the same; record matching loads and scalars."""
        if theirs in self.intrin.scalar_params:
            assert isinstance(theirs, Var)
            self._scalar(mine, theirs)
            return
        if isinstance(mine, ProducerLoad) and isinstance(theirs, ProducerLoad):
            self._load(mine, theirs)
            return
        if mine is theirs and not _reads(mine):
            return
        if mine.dtype.is_int and not _reads(mine) and not _reads(theirs):
            if self.analyzer.can_prove_equal(mine, theirs):
                return
        below, others = mine.children(), theirs.children()
        alike = type(mine) is type(theirs) and mine.dtype is theirs.dtype
        if alike and type(mine) in _COMMUTATIVE:
            self._pair_up(_operands(mine), _operands(theirs), mine, theirs)
        elif alike and len(below) == len(others) and below and _label(mine) == _label(theirs):
            for a, b in zip(below, others, strict=True):
                self._same(a, b)
        elif not (mine.dtype.is_int and self.analyzer.can_prove_equal(mine, theirs)):
            raise self._differs(mine, theirs)

    def _pair_up(self, operands: list[Expr], others: list[Expr], mine: Expr, theirs: Expr) -> None:
        """Find an order of `operands` in which each computes the same as its partner in `others`.

        ScheduleError when there is none. `mine` and `theirs` are the whole expressions, for errors.
        """
        if len(operands) != len(others):
            raise self._differs(mine, theirs)
        if not operands:
            return
        first, *rest = others
        refusal: ScheduleError | None = None
        tried = operands if len(operands) <= _MAX_EXCHANGED else operands[:1]
        for k, operand in enumerate(tried):
            known, scalars = dict(self.loads), dict(self.scalars)
            try:
                self._same(operand, first)
                self._pair_up(operands[:k] + operands[k + 1 :], rest, mine, theirs)
                return
            except ScheduleError as error:
                refusal = refusal or error
                self.loads, self.scalars = known, scalars
        assert refusal is not None, "there are operands"
        raise refusal

    def _scalar(self, mine: Expr, param: Var) -> None:
        """Record `mine` as the value of scalar parameter `param`.

        ScheduleError when it varies with the intrinsic's axes, or has another type or value.
        """
        inside = {iv.var for iv in self.intrin.op.root_iter_vars}
        if mine.dtype is not param.dtype or uses(mine, inside):
            raise self._refusal(
                f"its scalar {param.name} ({param.dtype}) cannot be {mine!r} ({mine.dtype}), which "
                "changes inside or is of another type"
            )
        known = self.scalars.setdefault(param, mine)
        if known is not mine:
            raise self._refusal(f"its scalar {param.name} would be both {known!r} and {mine!r}")

    def _differs(self, mine: Expr, theirs: Expr) -> ScheduleError:
        return self._refusal(f"the stage computes {mine!r} where the intrinsic does {theirs!r}")

    def _load(self, mine: ProducerLoad, theirs: ProducerLoad) -> None:
        known = self.loads.setdefault(theirs.producer, mine)
        if known.producer is not mine.producer:
            raise self._refusal(
                f"its input {theirs.producer.name} would be both {known.producer.name} and "
                f"{mine.producer.name}"
            )
        region = self._read(known)
        missing = len(mine.indices) - len(theirs.indices)
        if missing < 0:
            raise self._refusal(f"{mine!r} has fewer dimensions than {theirs!r}")
        for k, index in enumerate(mine.indices):
            low = region[k].min
            expected = low if k < missing else add(low, theirs.indices[k - missing])
            if not self.analyzer.can_prove_equal(index, expected):
                raise self._refusal(
                    f"the stage reads {mine!r} where the intrinsic reads {theirs!r}, with "
                    f"dimension {k} from {low!r} on"
                )

    def _read(self, load: ProducerLoad) -> list[Range]:
        """The region that `load` covers while the intrinsic's axes cover their domains."""
        assert isinstance(self.intrin.op, ComputeOp)
        sets = {iv.var: IntSet.from_range(self._domain(iv)) for iv in self.intrin.op.root_iter_vars}
        regions = Regions()
        found = []
        for index, extent in zip(load.indices, load.producer.shape, strict=True):
            if _reads(index) and free_vars(index).isdisjoint(sets):
                found.append(Range(index, const(1, index.dtype)))  # data, but the same throughout
                continue
            default = Range(sub(extent, extent), extent)
            found.append(regions.cover(eval_set(index, sets), default))
        return found

    def _domain(self, iv: IterVar) -> Range:
        assert iv.dom is not None
        return Range(substitute(iv.dom.min, self.sizes), substitute(iv.dom.extent, self.sizes))

    def bindings(self) -> Iterator[Bound]:
        """The tensor and region that each buffer of the intrinsic stands for."""
        for tensor, buffer in zip(self.intrin.inputs, self.intrin.buffers, strict=False):
            load = self.loads[tensor]
            yield buffer, load.producer, self._read(load)
        yield from self.output_bindings(self.region)

    def output_bindings(self, region: Mapping[IterVar, Range]) -> Iterator[Bound]:
        """The tensor and region that each output buffer stands for, with the axes in `region`."""
        outputs = self.intrin.buffers[len(self.intrin.inputs) :]
        for tensor, buffer in zip(self.op.outputs, outputs, strict=True):
            yield buffer, tensor, [region[iv] for iv in self.op.axis]


_COMMUTATIVE = (Add, Mul, Min, Max, EQ, NE, And, Or)


_MAX_EXCHANGED = 6
"""Operations with more operands are compared in the given order: there are too many others."""


def _reads(e: Expr) -> bool:
    return next(loads(e), None) is not None


def _operands(e: Expr) -> list[Expr]:
    """The operands of a commutative operation; nested integer sums and products are flattened.

    Floats are not flattened: operands may be exchanged, but regrouping would round differently.
    """
    assert isinstance(e, BinaryExpr)
    if not isinstance(e, Add | Mul) or not e.dtype.is_integral:
        return [e.a, e.b]
    found: list[Expr] = []
    for side in (e.a, e.b):
        found += _operands(side) if type(side) is type(e) else [side]
    return found


def _label(e: Expr) -> object:
    """The name of a call's function; None for nodes that class, type and children identify."""
    return getattr(e, "op", None)
