"""Apply the limits of a GPU to many candidates at once: which ones `verify_gpu` would refuse.

Sizes are compared where it is certain what the passes make of them. A kernel's shared memory is at
least what one of its stages reads, and at most the sum of all its buffers. In between, passes that
let buffers share memory decide, and the candidate is computed by itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from autosched.features.batched.context import Text
from autosched.features.batched.forms import Flags, Form, Ints, Term, fixed
from autosched.features.batched.mixed import Mixed
from autosched.features.batched.nest import Nest, Stage
from autosched.features.batched.one import signature, simplified
from autosched.features.batched.ops import StoreOps
from autosched.features.batched.plan import Plan, StagePlan
from autosched.features.batched.threads import around, pipelined_around, root_of
from autosched.features.batched.value_parts import axes_outside_loads
from autosched.state.iterator import ANNOTATION_TEXT, Annotation
from autosched.target import Target
from autosched.te.bounds.thread_scope import LOCAL, SHARED
from autosched.te.operations.operation import tensor_loads
from autosched.tir.expr import Call, Cast, Expr, ProducerLoad, Var
from autosched.tir.op import lt
from autosched.tir.walk import free_vars, pre_order

_COPIES = 16
"""Virtual threads from this number on become a loop
(`transform/device/inject_virtual_thread.py`)."""
_INDEX_BYTES = 4
_END = Var("end")


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a block, as in the fields of VerifyGPUCode."""

    threads: int
    virtual_threads: int
    shared: int
    local: int
    vector: int

    @staticmethod
    def of(target: Target, ansor: bool) -> Limits:
        """The limits of `target`; with `ansor`, Ansor's limits of memory (`driver.verify_gpu`)."""
        own = target.hardware
        return Limits(
            own.max_threads_per_block,
            own.max_vthread_extent,
            own.max_shared_memory_per_block if ansor else target.shared_memory_limit,
            own.max_local_memory_per_block if ansor else own.local_memory_limit,
            own.vector_unit_bytes,
        )


@dataclass(eq=False)
class Verdict:
    """Which candidates are refused, and for which ones only lowering can decide."""

    refused: Flags
    unsure: Flags


def refused_by_size(nest: Nest, plan: Plan, limits: Limits) -> Verdict:
    """Apply the limits on threads and memory."""
    count = nest.forms.count
    verdict = Verdict(np.zeros(count, bool), np.zeros(count, bool))
    kernels: dict[int, list[int]] = {}
    for s in range(len(plan.stages)):
        kernels.setdefault(root_of(plan, s), []).append(s)
    for stages in kernels.values():
        _threads(nest, stages, limits, verdict)
        _memory(nest, plan, stages, limits, verdict)
    return verdict


def _threads(nest: Nest, stages: list[int], limits: Limits, verdict: Verdict) -> None:
    by_tag: dict[int, list[Ints]] = {}
    for s in stages:
        loops = nest.stages[s].loops
        for slot, kind in zip(loops.slots, loops.threads, strict=True):
            if kind:
                by_tag.setdefault(kind, []).append(nest.forms.extents[slot])
    total = nest.forms.one
    for kind, extents in by_tag.items():
        tag = ANNOTATION_TEXT[kind]
        if kind == Annotation.VTHREAD:
            for extent in extents:
                verdict.refused |= (extent > limits.virtual_threads) & (extent >= _COPIES)
        elif tag.startswith("threadIdx"):
            for extent in extents[1:]:
                verdict.refused |= extent != extents[0]
            total = total * extents[0]
    verdict.refused |= total > limits.threads


def _memory(nest: Nest, plan: Plan, stages: list[int], limits: Limits, verdict: Verdict) -> None:
    shared, local = nest.forms.zero, nest.forms.zero
    least, largest = nest.forms.zero, nest.forms.zero
    read: dict[int, Ints] = {}
    for s in stages:
        stage = nest.stages[s]
        size = _elements(nest, stage, plan.stages[s])
        size = size * nest.ops.buffers[stage.ops.buffer].bytes
        if nest.ranks[s] == SHARED:
            t = pipelined_around(plan, s)
            if t >= 0:  # at most one tile per iteration (`device/inject_software_pipeline.py`)
                loop = nest.stages[t].loops.slots[plan.stages[t].pipelined]
                size = size * np.minimum(nest.tiles[t], nest.forms.extents[loop])
            shared = shared + size
            for reader in _readers(nest, stage.ops.buffer):
                read[reader] = read.get(reader, nest.forms.zero) + size
        elif nest.ranks[s] == LOCAL:
            for t, k, kind in around(plan, s):
                if kind == Annotation.VTHREAD:
                    size = size * nest.forms.extents[nest.stages[t].loops.slots[k]]
            local = local + size
            largest = np.maximum(largest, size)
    for together in read.values():
        least = np.maximum(least, together)
    verdict.refused |= (least > limits.shared) | (largest > limits.local)
    verdict.unsure |= (shared > limits.shared) | (local + 64 > limits.local)


def _elements(nest: Nest, stage: Stage, plan: StagePlan) -> Ints:
    """The elements of a stage's storage, including the gaps that aligned strides leave."""
    aligned = {axis: (factor, offset) for axis, factor, offset in plan.aligned}
    size = nest.forms.one
    for axis in range(len(stage.extents) - 1, -1, -1):
        if axis in aligned:
            factor, offset = aligned[axis]
            size = size + (offset - size) % factor
        size = size * stage.extents[axis]
    return size


def _readers(nest: Nest, buffer: int) -> list[int]:
    return [
        s
        for s, stage in nest.stages.items()
        if any(load == buffer for store in stage.ops.stores for load, _ in store.loads)
    ]


def with_wide_vectors(nest: Nest, limits: Limits) -> Flags:
    """Where a vector access is too wide; marks candidates bad where only lowering can decide."""
    verdict = _refused_by_vectors(nest, limits)
    nest.forms.refuse(verdict.unsure & ~verdict.refused, "a vector that may exceed the limit")
    return verdict.refused & ~nest.forms.bad


def _refused_by_vectors(nest: Nest, limits: Limits) -> Verdict:
    """Apply the limit on the width of vector accesses."""
    forms = nest.forms
    verdict = Verdict(np.zeros(forms.count, bool), np.zeros(forms.count, bool))
    for s, stage in nest.stages.items():
        loops = stage.loops
        for k, slot in enumerate(loops.slots):
            vector = loops.kinds[k] == Annotation.VECTORIZE
            lanes = np.where(vector, forms.extents[slot], 1)
            if not (lanes * 8 > limits.vector).any():
                continue
            own = nest.ops.buffers[stage.ops.buffer].bytes
            wide = (lanes > 1) & (lanes * own > limits.vector)
            widest = max(own, _INDEX_BYTES, *map(_widest, stage.ops.stores))
            some = (lanes > 1) & (lanes * widest > limits.vector)
            plain = len(stage.ops.stores) == 1 and not _holds(nest, s)
            serial, unsure = _scalarised(nest, stage, k, slot, some)
            certain = ~unsure & plain
            verdict.refused |= wide & certain & ~serial
            verdict.unsure |= some & ~(certain & (serial | wide))
    return verdict


def _holds(nest: Nest, s: int) -> bool:
    """Whether other stages are computed in stage s."""
    return any((inside.get(s, nest.forms.full(-1)) >= 0).any() for inside in nest.inside)


def _widest(store: StoreOps) -> int:
    """The largest element in bytes that the value loads or converts to."""
    kinds = [e for e in pre_order(store.value) if isinstance(e, ProducerLoad | Cast)]
    return max((e.dtype.bytes for e in kinds if not e.dtype.is_bool), default=1)


def _scalarised(nest: Nest, stage: Stage, k: int, slot: int, asked: Flags) -> tuple[Flags, Flags]:
    """Where the vectorised loop `slot` becomes a serial one, and where that is not certain.

    It does where a condition depends on the lane. The result only holds for the candidates `asked`.
    """
    forms, mixed = nest.forms, stage.loops.mixed
    serial, unsure = np.zeros(forms.count, bool), np.zeros(forms.count, bool)
    for store in stage.ops.stores:
        outside = axes_outside_loads(store.value)
        choices = [e for e in pre_order(store.value) if _is_choice(e)]
        if outside and not _is_choice(store.value):
            unsure |= True
        if any(tensor_loads(choice.children()[0]) for choice in choices):
            unsure |= True  # the element that the condition loads may depend on the lane
        elif _is_choice(store.value):
            if (asked & ~unsure).any():
                text = stage.context.text(store.value.children()[0])
                serial |= _by_lane(nest, slot, text, asked & ~unsure)
            if len(choices) > 1:
                for var in outside & stage.axes.keys():
                    unsure |= _uses(nest, stage.axes[var], slot) & ~serial
    for d in range(stage.ops.data):  # 8 <= t * 8 + lane is 1 <= t, and 1 <= t * 8 + lane is not
        for condition in stage.context.of_region(d):
            unsure |= condition.where & _uses(nest, condition.value, slot)
    if mixed is not None:
        found = [
            any(entry.variables[k] in free_vars(condition) for condition in entry.conditions)
            for entry in mixed.entries
        ]
        serial |= mixed.where & np.array(found)[mixed.which]
        unsure |= _compared(nest, stage, mixed, k, slot, asked & ~serial & ~unsure)
    return serial, unsure


def _is_choice(e: Expr) -> bool:
    return isinstance(e, Call) and e.op == "if_then_else"


def _compared(nest: Nest, stage: Stage, mixed: Mixed, k: int, slot: int, asked: Flags) -> Flags:
    """Where an axis that loops mix may be compared, lane by lane, with the end of the tensor.

    A stage that is computed in parts compares an axis whose text alone reaches beyond the part,
    since what the conditions around it prove is no longer known there. An axis that conditions make
    0 is compared, too, and the comparison does not know that it is 0.
    """
    forms = nest.forms
    found = np.zeros(forms.count, bool)
    for d, (low, extent, shape) in enumerate(stage.context.data):
        var = stage.ops.axes[d]
        value = stage.axes[var]
        part = ~(fixed(low) & (low.base == 0) & (extent == shape))
        hidden = asked & part & mixed.hidden(d, k)
        whole = Term(forms.one, forms.whole, hidden.astype(np.int64))
        value = forms.add(value, Form({mixed.slots[d]: (whole,)}, forms.zero))
        here = asked & part & mixed.beyond(d) & _uses(nest, value, slot)
        own = frozenset(stage.loops.slots)
        text = Text(lt(var, _END), {var: value, _END: Form({}, shape)}, (), own)
        found |= _by_lane(nest, slot, text, here | hidden)
    return found


def _by_lane(nest: Nest, slot: int, text: Text, asked: Flags) -> Flags:
    """Where the simplified text still depends on the loop `slot`.

    1 <= (t * 8 + lane) // 16 becomes 16 <= t * 8 + lane, while the axis itself is t // 2;
    t * 8 + lane < 16 becomes t < 2.
    """
    found = np.zeros(nest.forms.count, bool)
    known: dict[tuple[int, ...], bool] = {}
    for n in np.flatnonzero(asked).tolist():
        loops = {s: s for s in range(len(nest.forms.extents))}
        key = signature(nest.forms, text.axes, n, loops)
        if key not in known:
            condition, variables = simplified(nest.forms, text, n)
            known[key] = variables.get(slot) in free_vars(condition)
        found[n] = known[key]
    return found


def _uses(nest: Nest, form: Form, slot: int) -> Flags:
    """Where the loop `slot` is in the form, perhaps in the text of an axis.

    Conditions on the elements that a stage reads are texts of the loops around it, not of its own.
    """
    forms = nest.forms
    found = np.zeros(forms.count, bool)
    for other, term in form.every():
        if other == slot:
            found |= term.scale != 0
        elif other in forms.virtual:
            mixed, axis = forms.virtual[other]
            if slot in mixed.leaves:
                k = mixed.leaves.index(slot)
                used = np.array([entry.axes[axis].used[k] for entry in mixed.entries])
                found |= (term.scale != 0) & used[mixed.which]
    return found
