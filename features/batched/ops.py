"""What the stages of a plan compute: their stores, with indices in terms of the stages' axes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple

from autosched.features.autosched_1.within_bounds import value_within_bounds
from autosched.features.batched.padding import Padding, padding_of
from autosched.features.batched.plan import Factored, Plan, UnsupportedError, crosses
from autosched.features.batched.value_parts import (
    Border,
    asks_for_remainders,
    axes_outside_loads,
    borders_of,
    clamps,
    factors,
    own_at,
    parts_of_axes,
    simplified_value,
    undivided,
)
from autosched.features.walk.count import NUM_COUNTERS, count_ops
from autosched.state.replay import Replay
from autosched.state.steps import CacheReadStep, inserted_stages
from autosched.te.bounds.infer_bound import CONSTANT_READS, WHOLE_TILES
from autosched.te.lowering.reduction_update import assignments
from autosched.te.operations.operation import ComputeOp, PlaceholderOp, tensor_loads
from autosched.te.operations.tensor import Tensor
from autosched.te.relations import AttachType
from autosched.tir.constants import is_zero
from autosched.tir.expr import (
    Add,
    Call,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    Max,
    Min,
    ProducerLoad,
    Reduce,
    Select,
    Var,
)
from autosched.tir.stmt import ProducerStore
from autosched.tir.walk import pre_order
from autosched.transform.loops.known_zeros import Pattern, pattern_at, zero_unless

if TYPE_CHECKING:
    from autosched.state.dag import ComputeDAG
    from autosched.te.schedule.schedule import Schedule

_CHOICES = (Call, Max, Min, Select)
RF, AGAIN = 1 << 20, 1 << 23
"""Added to a stage's base: `RF` for the buffer of its partial results, `AGAIN` for that of the
partial results of these."""
PARTIAL, RESULT = 1 << 21, 1 << 22
"""Added to a stage's base: `PARTIAL` for the buffer of what each thread sums up, `RESULT` for the
buffer of the result of a reduction across threads."""
Indices = tuple[Expr, ...]
_ANY = Var("any")
"""Stands for the data pointer of a buffer, which does not matter here."""


@dataclass(frozen=True, eq=False)
class BufferType:
    """A buffer: name, bytes of an element, and shape; None for the extent of a factored loop."""

    name: str
    bytes: int
    shape: tuple[int | None, ...]


class Zeros(NamedTuple):
    """A value is zero unless sum(factor * axis) has a certain remainder modulo `modulus`.

    `terms` are the (axis, factor) pairs.
    """

    modulus: int
    terms: tuple[tuple[Expr, int], ...]


@dataclass(frozen=True, eq=False)
class StoreOps:
    """One store: its value, simplified (`original` is not), and every load in it, in order.

    `loads` leaves out loads of the stored element itself; `updates` is their number. `places` says
    which of all loads in the value the `loads` are. `counts` are the operations outside of indices.
    `conditional` tells that some of these operations depend on the axes, so that their number
    depends on the candidate. Then `parts` may have the original for each axis alone
    (`parts_of_axes`), `paddings` what of these parts is known without simplification, and `divided`
    tells that there are quotients or remainders in them. `into` is the buffer of one element that
    is stored to, where it is not the stage's buffer. `zeros` says where the term that a sum adds,
    or the stored value, is known to be zero. `keeps_conditions` tells that conditions ask for
    remainders. `borders` are in the value, or were in it before it was reduced to what it is inside
    of them.
    """

    is_init: bool
    value: Expr
    loads: tuple[tuple[int, Indices], ...]
    updates: int
    counts: tuple[int, ...]
    conditional: bool
    parts: tuple[Expr, ...] = ()
    paddings: tuple[Padding | None, ...] = ()
    into: int | None = None
    places: tuple[int, ...] = ()
    divided: bool = False
    zeros: tuple[Zeros, ...] = ()
    keeps_conditions: bool = False
    borders: tuple[Border, ...] = ()
    original: Expr = field(kw_only=True)

    @property
    def is_padding(self) -> bool:
        """Whether conditions on axes, without quotients, choose between a load and a constant."""
        return bool(self.parts) and not self.divided

    @property
    def divides(self) -> bool:
        """Whether there is a quotient or remainder in the index of a load."""
        return not all(undivided(index) for _, indices in self.loads for index in indices)

    @property
    def divisors(self) -> set[int]:
        """The constants that the indices of loads divide by."""
        parts = (e for _, indices in self.loads for index in indices for e in pre_order(index))
        divisions = (e.b for e in parts if isinstance(e, FloorDiv | FloorMod))
        return {divisor.value for divisor in divisions if isinstance(divisor, IntImm)}

    @cached_property
    def may_merge(self) -> tuple[tuple[int, int], ...]:
        """The pairs of loads that may be of one element.

        X[i, j + 1] and X[i, j + 2] never are.
        """
        numbered = enumerate((b, tuple(map(_and_constant, indices))) for b, indices in self.loads)
        return tuple(
            (a, b)
            for (a, (one, mine)), (b, (other, theirs)) in combinations(numbered, 2)
            if one == other
            and all(m == t or m[0] is not t[0] for m, t in zip(mine, theirs, strict=True))
        )

    def part_of(self, d: int) -> tuple[Expr, int] | None:
        """The part whose load has dimension d of the whole load, and the position of d in that
        load.

        None where no condition depends on the axis of the dimension.
        """
        assert isinstance(self.original, Call)
        load = self.original.args[1]
        assert isinstance(load, ProducerLoad)
        for part in self.parts:
            assert isinstance(part, Call) and isinstance(part.args[1], ProducerLoad)
            for k, index in enumerate(part.args[1].indices):
                if index is load.indices[d]:
                    return part, k
        return None


@dataclass(frozen=True, eq=False)
class StageOps:
    """One stage: its buffer, axes (the data axes first), their extents and its stores.

    The first `data` axes are data axes. In the partial stage of a factored reduction, the factored
    axes stand for leaves of the old one, and `origin` are the old axes, whose values follow from
    them. `scope` is the scope of its storage, empty where it follows from the threads around.
    `crosses` tells that threads share its reduction: its stores are the initialisation and the
    update of what each thread sums up, and the result. `whole` has for each data axis the tile of
    which a region has whole multiples (`WHOLE_TILES`); it is empty for most stages.
    """

    buffer: int
    axes: tuple[Var, ...]
    data: int
    extents: tuple[int | None, ...]
    stores: tuple[StoreOps, ...]
    is_output: bool
    origin: tuple[Var, ...] = ()
    origin_extents: tuple[int, ...] = ()
    scope: str = ""
    crosses: bool = False
    whole: tuple[int, ...] = ()
    constant_reads: bool = False
    _stand_ins: dict[tuple[str, int], Var] = field(default_factory=dict)

    def stand_in(self, what: str, k: int) -> Var:
        """The variable that stands in texts for `what` with id k of the old axes' loops."""
        return self._stand_ins.setdefault((what, k), Var(f"{what}{k}"))


@dataclass(frozen=True, eq=False)
class ProgramOps:
    """All stages with loops, in order, and all buffers."""

    stages: tuple[StageOps, ...]
    buffers: dict[int, BufferType]

    @property
    def has_zeros(self) -> bool:
        """Whether some buffers are known to be zero except at certain remainders."""
        return any(store.zeros for stage in self.stages for store in stage.stores)


class _Maker:
    def __init__(self, dag: ComputeDAG, plan: Plan, within_bounds: bool, as_ansor: bool) -> None:
        self.within_bounds, self.as_ansor = within_bounds, as_ansor
        replay = Replay(dag.ops, dag.outputs).run(plan.op_steps)
        schedule: Schedule = replay.schedule.normalize_for_feature_extraction()
        if replay.schedule.stages != replay.stages:
            raise UnsupportedError("stages in another order than in the te schedule")
        bases = list(range(len(dag.ops)))
        for step in plan.op_steps:
            first = step.stage_id + isinstance(step, CacheReadStep)
            for k in range(inserted_stages(step)):
                bases.insert(first + k, len(bases))
        self.stage_of = dict(zip(bases, schedule.stages, strict=True))
        self.base_of = {s.op: b for b, s in self.stage_of.items()}
        self.buffers: dict[int, BufferType] = {}
        self.partials: list[tuple[Tensor, int]] = []
        for base, stage in self.stage_of.items():
            if isinstance(stage.op, ComputeOp | PlaceholderOp):
                if stage.attach_type is not AttachType.INLINED:
                    self.buffers[base] = _buffer(stage.op.output(0), stage.origin_op.output(0).name)
            else:
                raise UnsupportedError(f"an operation that is not a te.compute: {stage.op.name}")
            if not all(iv.dom is None or is_zero(iv.dom.min) for iv in stage.op.root_iter_vars):
                raise UnsupportedError("an axis that does not begin at 0")

    def plain(self, base: int) -> StageOps:
        stage = self.stage_of[base]
        op = stage.op
        assert isinstance(op, ComputeOp)
        if len(op.outputs) != 1:
            raise UnsupportedError("several outputs")
        axes = tuple(iv.var for iv in op.root_iter_vars)
        extents = tuple(_constant(iv.dom.extent) for iv in op.root_iter_vars if iv.dom is not None)
        body = op.body[0]
        own = op.output(0)
        if isinstance(body, Reduce):
            if not (isinstance(body.condition, IntImm) and body.condition.value):
                raise UnsupportedError("a reduction with a condition")
            stores = self.reduction(op, body, own)
        else:
            store, patterns = self.store(body, own, False), self.patterns(base)
            zeros = tuple([Zeros(pattern.modulus, ()) for pattern in patterns])
            stores = (replace(store, zeros=zeros),)
        known = (base, axes, len(op.axis), extents, stores, stage.is_output)
        whole, constant = op.attrs.get(WHOLE_TILES, ()), CONSTANT_READS in op.attrs
        return StageOps(*known, scope=stage.scope, whole=whole, constant_reads=constant)

    def reduction(self, op: ComputeOp, body: Reduce, own: Tensor) -> tuple[StoreOps, ...]:
        start = (body.init or body.combiner.identity)[body.value_index]
        update = assignments(op, body)
        assert isinstance(update, ProducerStore)
        store = self.store(update.value, own, False)
        store = replace(store, zeros=tuple(self.zeros_added(store.value, own)))
        return self.store(start, own, True), store

    def patterns(self, base: int) -> list[Pattern]:
        """Where the buffer of a stage is zero."""
        stage = self.stage_of.get(base)  # partial results have no stage here
        if stage is None or stage.is_output or base not in self.buffers:
            return []
        op = stage.op
        if not isinstance(op, ComputeOp):
            return []
        axes = [iv.var for iv in op.axis]
        found = [pattern_at(residue, axes) for residue in zero_unless(op.body[0], {})]
        return [pattern for pattern in found if pattern is not None]

    def zeros_added(self, value: Expr, own: Tensor) -> Iterator[Zeros]:
        """Where a sum that updates the stored element adds zero."""
        if not isinstance(value, Add):
            return
        for kept, term in ((value.a, value.b), (value.b, value.a)):
            if isinstance(kept, ProducerLoad) and kept.producer is own:
                for load in factors(term):
                    for pattern in self.patterns(self.buffer_of(load)):
                        residue = pattern.at(_ANY, load.indices)
                        yield Zeros(residue.modulus, tuple(residue.terms.items()))
                return

    def crossed(self, base: int) -> StageOps:
        """The stage of a reduction that threads share."""
        return self.shared(self.plain(base), base)

    def shared(self, stage: StageOps, base: int) -> StageOps:
        """`stage`, which has the reduction of `base`, as threads share it."""
        op = self.stage_of[base].op
        assert isinstance(op, ComputeOp)
        body = op.body[0]
        if not isinstance(body, Reduce) or body.init:
            raise UnsupportedError(
                "a cross-thread stage that is no reduction, or one with a start value"
            )
        partial, total = stage.buffer + PARTIAL, stage.buffer + RESULT
        size = self.buffers[stage.buffer].bytes
        self.buffers[partial] = BufferType("normal_reduce_temp0", size, (1,))
        self.buffers[total] = BufferType("reduce_temp0", size, (1,))
        own = op.output(0)
        start, update = (
            replace(store, into=partial, original=own_at(store.original, own, (IntImm(0),)))
            for store in stage.stores
        )
        element = IntImm(0)
        load = ((total, (element,)),)
        result = StoreOps(False, element, load, 0, (0,) * NUM_COUNTERS, False, original=element)
        return replace(stage, stores=(start, update, result), crosses=True)

    def store(self, original: Expr, own: Tensor, is_init: bool) -> StoreOps:
        given = original
        borders = borders_of(original)
        if self.within_bounds:
            original = value_within_bounds(original)
        value = simplified_value(original, self.as_ansor)
        if isinstance(value, ProducerLoad) and value.producer is own:
            raise UnsupportedError("a store of the value that is already there")
        loads = tensor_loads(value)
        if _places_read(given, self.as_ansor) - _places_read(value, self.as_ansor):
            raise UnsupportedError("a read that vanishes from the simplified value")
        if _chosen(original, self.as_ansor) - _chosen(value, self.as_ansor):
            raise UnsupportedError("a choice in an index that a condition decides")
        outside = axes_outside_loads(value)
        if (outside or original is not given) and not self.as_ansor:
            if any(clamps(index) for load in loads for index in load.indices):
                raise UnsupportedError("a choice between values with a clamped index")
        counts = count_ops(value)
        for load in loads:
            if any(isinstance(e, ProducerLoad) for i in load.indices for e in pre_order(i)):
                raise UnsupportedError("an index read from a tensor")
            for index in load.indices:
                counts = [a - b for a, b in zip(counts, count_ops(index), strict=True)]
        parts = parts_of_axes(original) if outside else ()
        return StoreOps(
            is_init,
            value,
            tuple((self.buffer_of(e), e.indices) for e in loads if e.producer is not own),
            sum(e.producer is own for e in loads),
            tuple(counts),
            bool(outside) or (is_init and bool(loads)),
            parts,
            tuple(map(padding_of, parts)),
            places=tuple(k for k, e in enumerate(loads) if e.producer is not own),
            divided=not all(map(undivided, parts)),
            keeps_conditions=bool(parts) and asks_for_remainders(original),
            borders=borders,
            original=original,
        )

    def buffer_of(self, load: ProducerLoad) -> int:
        for tensor, buffer in self.partials:
            if load.producer is tensor:
                return buffer
        return self.base_of[load.producer.op]

    def factored(self, base: int, factored: Factored) -> dict[str, StageOps]:
        """The stages of partial results and of the reductions over them, by part."""
        plain = self.plain(base)
        op = self.stage_of[base].op
        assert isinstance(op, ComputeOp)
        body, own = op.body[0], op.output(0)
        if not isinstance(body, Reduce):
            raise UnsupportedError("rfactor of a stage that is not a reduction")
        made = {leaf: Var(f"{op.name}.{k}") for k, leaf in enumerate(factored.made)}
        rest = [Var(f"{op.name}.{len(made) + k}") for k in range(len(factored.rest))]
        axes = {**dict(enumerate(plain.axes[: plain.data])), **made}
        extents = {**dict(enumerate(plain.extents[: plain.data])), **dict.fromkeys(made)}
        buffers = (base, base + RF, base + AGAIN)[: len(made) + 1]
        parts = ("repl", "middle")[: len(made)]
        found: dict[str, StageOps] = {}
        order = [leaf for leaf in factored.order if leaf not in made]
        for k, (leaf, part) in enumerate(zip(factored.made, parts, strict=True)):
            below = [other for other in factored.order if other not in factored.made[k + 1 :]]
            shape = tuple(extents[other] for other in below)
            known = self.buffers[buffers[k]]
            self.buffers[buffers[k + 1]] = BufferType(f"{known.name}.rf", known.bytes, shape)
            source = Tensor(op, 0, tuple(IntImm(e or 1) for e in shape), own.dtype)
            self.partials.append((source, buffers[k + 1]))
            over = Var(f"{op.name}.v")
            indices = tuple(over if other == leaf else axes[other] for other in below)
            again = Reduce(body.combiner, (ProducerLoad(source, indices),), (), None, 0, body.init)
            data = tuple(axes[other] for other in order)
            sums = _stored_at(self.reduction(op, again, own), own, data)
            stores = tuple([replace(s, value=own_at(s.value, own, data)) for s in sums])
            whole = tuple(extents[other] for other in order)
            kept = plain.is_output and not k
            found[part] = StageOps(
                *(buffers[k], (*data, over), len(data), (*whole, None), stores, kept)
            )
            order = below
        data = tuple(axes[leaf] for leaf in order)
        found["rf"] = StageOps(
            *(buffers[-1], (*data, *rest), len(data), (*shape, *[None] * len(rest))),
            *(_stored_at(plain.stores, own, data), False),
            *(plain.axes, tuple(e or 1 for e in plain.extents)),
        )
        return found


def _stored_at(
    stores: Iterable[StoreOps], own: Tensor, axes: tuple[Var, ...]
) -> tuple[StoreOps, ...]:
    """Stores into partial results, or into sums of them, which have other axes than `own`.

    Their values keep the old axes, `origin`, where partial results read themselves.
    """
    return tuple([replace(s, original=own_at(s.original, own, axes)) for s in stores])


def _places_read(value: Expr, as_ansor: bool) -> Counter[Tensor]:
    """At how many places the value reads each tensor that a stage computes."""
    loads = [e for e in tensor_loads(value) if isinstance(e.producer.op, ComputeOp)]
    found = {(e.producer, repr(simplified_value(e, as_ansor))) for e in loads}
    return Counter(producer for producer, _ in found)


def _chosen(value: Expr, as_ansor: bool) -> set[str]:
    """The reads of tensors that stages compute at an index with a choice or a limit.

    InferBound takes both sides of it, whatever the conditions around the read say.
    """
    return {
        repr(simplified_value(load, as_ansor))
        for load in tensor_loads(value)
        if isinstance(load.producer.op, ComputeOp)
        and any(isinstance(e, _CHOICES) for index in load.indices for e in pre_order(index))
    }


def _and_constant(index: Expr) -> tuple[Expr | None, int]:
    """The index without the constant that it adds, and that constant."""
    match index:
        case IntImm(value):
            return None, value
        case Add(rest, IntImm(value)):
            return rest, value
    return index, 0


def _buffer(tensor: Tensor, name: str) -> BufferType:
    """The buffer that a tensor is lowered to; its name is that of its stage before rfactor."""
    return BufferType(name, tensor.dtype.bytes, tuple(_constant(e) for e in tensor.shape))


def _constant(e: Expr) -> int:
    if not isinstance(e, IntImm):
        raise UnsupportedError("an extent that is not constant")
    return e.value


def ops_of(
    dag: ComputeDAG, plan: Plan, within_bounds: bool = False, as_ansor: bool = True
) -> ProgramOps:
    """The stores and buffers of the stages of `plan`; `within_bounds`, inside of all borders.

    Values are simplified `as_ansor`, or as autosched's own pass does. Raises UnsupportedError.
    """
    maker = _Maker(dag, plan, within_bounds, as_ansor)
    parts: dict[int, dict[str, StageOps]] = {}
    stages: list[StageOps] = []
    for stage in plan.stages:
        crossed = crosses(stage.loops, stage.data)
        if stage.factored is None:
            stages.append((maker.crossed if crossed else maker.plain)(stage.base))
            continue
        if stage.base not in parts:
            parts[stage.base] = maker.factored(stage.base, stage.factored)
        ops = parts[stage.base][stage.part]
        if crossed and stage.part != "rf":
            raise UnsupportedError("a sum of partial results across threads")
        stages.append(maker.shared(ops, stage.base) if crossed else ops)
    return ProgramOps(tuple(stages), maker.buffers)
