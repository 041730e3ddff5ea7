"""Apply the limits of a GPU to many candidates at once: which ones `verify_gpu` would refuse.

Sizes are compared where it is certain what the passes make of them. A kernel's shared memory is at
least what one of its stages reads, and at most the sum of all its buffers. In between, passes that
let buffers share memory decide, and the candidate is computed by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from autosched.features.batched.context import Text
from autosched.features.batched.forms import Flags, Form, Ints, Term, fixed
from autosched.features.batched.mixed import Mixed
from autosched.features.batched.mixed_index import deep_in
from autosched.features.batched.nest import Nest, Stage
from autosched.features.batched.one import signature, simplified
from autosched.features.batched.ops import StoreOps
from autosched.features.batched.plan import Plan, StagePlan
from autosched.features.batched.stores import Store, own_indices
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
    strides = _strides(nest, stage.extents, plan.aligned)
    return strides[0] * stage.extents[0] if strides else nest.forms.one


def _strides(
    nest: Nest, shape: Sequence[Ints], aligned: Sequence[tuple[int, int, int]]
) -> list[Ints]:
    """The strides of the axes of memory of this shape; `aligned` is that of a StagePlan."""
    known = {axis: (factor, offset) for axis, factor, offset in aligned}
    found: list[Ints] = []
    size = nest.forms.one
    for axis in range(len(shape) - 1, -1, -1):
        if axis in known:
            factor, offset = known[axis]
            size = size + (offset - size) % factor
        found.append(size)
        size = size * shape[axis]
    return found[::-1]


def _readers(nest: Nest, buffer: int) -> list[int]:
    return [
        s
        for s, stage in nest.stages.items()
        if any(load == buffer for store in stage.ops.stores for load, _ in store.loads)
    ]


def with_wide_vectors(nest: Nest, plan: Plan, stores: Sequence[Store], limits: Limits) -> Flags:
    """Where a vector access is too wide; marks candidates bad where only lowering can decide."""
    verdict = _refused_by_vectors(nest, plan, stores, limits)
    nest.forms.refuse(verdict.unsure & ~verdict.refused, "a vector that may exceed the limit")
    return verdict.refused & ~nest.forms.bad


def _refused_by_vectors(nest: Nest, plan: Plan, stores: Sequence[Store], limits: Limits) -> Verdict:
    """Apply the limits on the width of vector accesses, and of indices that no vector has."""
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
            widest = max(own, *map(_widest, stage.ops.stores))
            some = (lanes > 1) & (lanes * widest > limits.vector)
            index = (lanes > 1) & (lanes * _INDEX_BYTES > limits.vector)
            plain = len(stage.ops.stores) == 1 and not _holds(nest, s)
            serial, unsure = _scalarised(nest, stage, k, slot, some | index)
            certain = ~unsure & plain
            if (index & ~wide).any():
                apart = _apart(
                    nest, plan, [store for store in stores if store.stage is stage], slot
                )
                wide |= index & apart.refused & ~apart.unsure
                some |= index & (apart.refused | apart.unsure)
            verdict.refused |= wide & certain & ~serial
            verdict.unsure |= some & ~(certain & (serial | wide))
            verdict.unsure |= index & ~certain
    return verdict


def _apart(nest: Nest, plan: Plan, stores: Sequence[Store], slot: int) -> Verdict:
    """Where the elements of some access lie evenly apart along the loop `slot`, or may do so.

    The index of such a vector counts as a vector (`VerifyGPUCode`), unlike that of elements side by
    side or in rows: i * 512 + lane and (lane // 4) * 512 + lane % 4, but i + lane * 512.
    """
    forms = nest.forms
    none = np.zeros(forms.count, bool)
    found = Verdict(none, none)
    memory = {buffer: _strides(nest, shape, ()) for buffer, shape in nest.shapes.items()}
    for s, stage in nest.stages.items():
        memory[stage.ops.buffer] = _strides(nest, stage.extents, plan.stages[s].aligned)
    for store in stores:
        slots = store.stage.loops.slots
        buffers = [store.buffer, *(buffer for buffer, _ in store.ops.loads)]
        indices = [own_indices(forms, store), *store.loaded]
        for number, (buffer, index) in enumerate(zip(buffers, indices, strict=True), -1):
            if buffer not in memory:
                return Verdict(none, ~none)
            one = _apart_at(nest, index, memory[buffer], slot)
            found = Verdict(found.refused | one.refused, found.unsure | one.unsure)
            for d, form in enumerate(index):
                found.unsure |= deep_in(forms, form, slots, as_ansor=True)
                if (number, d) in store.texts:
                    found.unsure |= store.texts[number, d][0]
    return found


def _apart_at(nest: Nest, index: Sequence[Form], strides: Sequence[Ints], slot: int) -> Verdict:
    """The same of the access at `index` to memory of these strides.

    What cannot be told: digits of the lane that together are all of it may be written as such or
    not, and (t * 518 + lane) % 28 may be a multiple of 7 and the lane. A quotient is the same for
    all lanes, or else they are in rows.
    """
    forms = nest.forms
    number, first, cuts = forms.zero, forms.zero, forms.zero
    divided, unsure = np.zeros(forms.count, bool), np.zeros(forms.count, bool)
    digits = []
    for form, of_axis in zip(index, strides, strict=True):
        for other, term in form.every():
            whole = term.upper >= forms.extents[other]
            if other in forms.virtual:
                along = _along(*forms.virtual[other], slot) * (term.scale != 0)
                divided = divided | (along[1] > 0)
                cuts = cuts + along[2]
                unsure = unsure | (along[2] > 0) & (term.scale * of_axis != 1)
                term = Term(forms.one, forms.whole, term.scale * along[0])
            elif other != slot:
                continue
            stride = term.scale * of_axis
            number = number + (stride != 0)
            first = np.where((stride != 0) & (term.lower == 1), stride, first)
            digits.append((term, stride, whole))
    even = first != 0
    for term, stride, whole in digits:
        even &= (stride == 0) | (stride == first * term.lower) & (whole | (number > 1))
    apart = even & (first != 1)
    unsure |= (cuts > 1) | (cuts > 0) & (number > 0) | apart & ((number > 1) | divided)
    return Verdict(apart & ~unsure, unsure)


def _along(mixed: Mixed, axis: int, slot: int) -> Ints:
    """`AxisText.along` of the loop `slot` for all candidates, as three rows."""
    found = np.zeros((3, len(mixed.which)), np.int64)
    if slot in mixed.leaves:
        k = mixed.leaves.index(slot)
        each = [entry.axes[axis].along(entry.variables[k]) for entry in mixed.entries]
        found[:, mixed.where] = np.array(each, np.int64).T[:, mixed.which[mixed.where]]
    return found


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
    found = _in_text(nest, form, slot)
    for term in form.terms.get(slot, ()):
        found |= term.scale != 0
    return found


def _in_text(nest: Nest, form: Form, slot: int) -> Flags:
    """Where the loop `slot` is in the text of an axis that is in the form."""
    forms = nest.forms
    found = np.zeros(forms.count, bool)
    for other, term in form.every():
        if other in forms.virtual:
            mixed, axis = forms.virtual[other]
            if slot in mixed.leaves:
                k = mixed.leaves.index(slot)
                used = np.array([entry.axes[axis].used[k] for entry in mixed.entries])
                found |= (term.scale != 0) & used[mixed.which]
    return found
