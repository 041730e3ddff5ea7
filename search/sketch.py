"""Sketches: the loop structures of a task, their tile sizes still open.

docs/semantics/search.md has a table of the rules.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from enum import Enum, auto
from typing import NamedTuple

import numpy as np

from autosched.errors import ConfigError, ScheduleError
from autosched.search.rules.blocking import BLOCK_REDUCTION, KEEP_PACKED, PACK_OPERAND
from autosched.search.rules.column_slices import SLICE_COLUMNS
from autosched.search.rules.common import (
    ADD_CACHE_WRITE,
    ADD_RFACTOR,
    ALWAYS_INLINE,
    MULTI_LEVEL_TILING,
    MULTI_LEVEL_TILING_WITH_FUSION,
    SIMPLIFY_COMPUTE_WITH_CONST_TENSOR,
    SKIP_STAGE,
    structure,
)
from autosched.search.rules.custom import CheckedRule
from autosched.search.rules.fused_products import FUSE_PRODUCTS
from autosched.search.rules.fused_tiles import FUSE_TILES
from autosched.search.rules.gpu import (
    ADD_CACHE_READ,
    CROSS_THREAD_REDUCTION,
    SPECIAL_COMPUTE_LOCATION_GPU,
)
from autosched.search.rules.instruction import USE_INSTRUCTION
from autosched.search.rules.operand import KEEP_OPERAND
from autosched.search.rules.product_slices import SLICE_PRODUCT
from autosched.search.rules.protocol import Context, Decision, SketchRule
from autosched.search.rules.reduction_slices import SLICE_REDUCTION
from autosched.search.rules.space import (
    FUSE_INNER_ROWS,
    FUSE_ROWS,
    INLINE_BORDER,
    TILE_ELEMENTS,
    TILE_REDUCTION,
)
from autosched.search.rules.tensor_core import TENSOR_CORE
from autosched.search.rules.tiling import structure_problem, with_sampled_rfactor
from autosched.search.rules.transposing import PACK_TRANSPOSED
from autosched.search.rules.turned_tile import TURN_IN_SHARED
from autosched.state import queries
from autosched.state.state import State
from autosched.te.operations.operation import ComputeOp, Operation
from autosched.te.schedule.schedule import create_schedule
from autosched.tir.walk import free_vars
from autosched.user_warning import Tell, warn
from autosched.words import count

ANSOR_CPU_RULES: tuple[SketchRule, ...] = (
    ALWAYS_INLINE,
    SIMPLIFY_COMPUTE_WITH_CONST_TENSOR,
    ADD_RFACTOR,
    ADD_CACHE_WRITE,
    MULTI_LEVEL_TILING_WITH_FUSION,
    MULTI_LEVEL_TILING,
    SKIP_STAGE,
)
CPU_RULES: tuple[SketchRule, ...] = (
    KEEP_PACKED,
    FUSE_INNER_ROWS,
    KEEP_OPERAND,
    ANSOR_CPU_RULES[0],
    USE_INSTRUCTION,
    SLICE_COLUMNS,
    *ANSOR_CPU_RULES[1:4],
    BLOCK_REDUCTION,
    PACK_OPERAND,
    PACK_TRANSPOSED,
    INLINE_BORDER,
    FUSE_TILES,
    FUSE_PRODUCTS,
    FUSE_ROWS,
    *ANSOR_CPU_RULES[4:-1],
    TILE_REDUCTION,
    TILE_ELEMENTS,
    SKIP_STAGE,
)
ANSOR_GPU_RULES: tuple[SketchRule, ...] = (
    ADD_CACHE_READ,
    SPECIAL_COMPUTE_LOCATION_GPU,
    ALWAYS_INLINE,
    SIMPLIFY_COMPUTE_WITH_CONST_TENSOR,
    CROSS_THREAD_REDUCTION,
    ADD_CACHE_WRITE,
    MULTI_LEVEL_TILING_WITH_FUSION,
    MULTI_LEVEL_TILING,
    SKIP_STAGE,
)

GPU_RULES: tuple[SketchRule, ...] = (
    KEEP_PACKED,
    TENSOR_CORE,
    TURN_IN_SHARED,
    SLICE_REDUCTION,
    SLICE_PRODUCT,
    *ANSOR_GPU_RULES,
)


MOST_SKETCHES = 512
"""If there are more, all stages of a kind are treated alike: eight residual blocks had 66,564
sketches after 100 seconds, in 1.2 GB, of which no run draws more than a few."""
DRAWN_SKETCHES = 64
"""How many are kept at random if there still are more than MOST_SKETCHES: a sketch takes longer to
make the deeper a computation is."""
_MANY_SKETCHES = 4096
"""Where the space `ansor`, which has no limit, has more, the user is told: they take seconds."""


class _Way(NamedTuple):
    """How a stage was treated: the rule's name, and the index of one of the rule's results."""

    rule: str
    which: int


class _Unfinished(NamedTuple):
    """A state whose stages `stage_id` to 0 are still to be treated, in this order.

    `ways` maps each kind of stage to the way in which the last stage of the kind was treated.
    """

    state: State
    stage_id: int
    ways: Mapping[Hashable, _Way]

    @property
    def product_kinds(self) -> tuple[Hashable, ...]:
        """The kinds of this stage, if it is a product: all products of a kind are tiled alike.

        Products are of a kind if they compute the same of other tensors, or if the same result
        reads them element by element. Empty for a stage that is no product.
        """
        state, stage_id = self.state, self.stage_id
        if not queries.needs_multi_level_tiling(state, stage_id):
            return ()
        if queries.has_cache_write(state, stage_id):  # the way of its result, which has the kind
            return ()
        result = queries.elementwise_consumer(state, stage_id)
        own = _form_of(state.stages[stage_id].op)
        return (own,) if result < 0 else (state.stages[result].name, own)

    @property
    def every_kind(self) -> tuple[Hashable, ...]:
        """The kind of this stage, whatever it computes: its form, and whether it is a cache."""
        op = self.state.stages[self.stage_id].op
        if not isinstance(op, ComputeOp):
            return ()
        return ((_form_of(op), queries.has_cache_write(self.state, self.stage_id)),)


class _Alike(Enum):
    """Which stages are treated like earlier ones of their kind."""

    NONE = auto()
    PRODUCTS = auto()
    ALL = auto()

    def kinds(self, each: _Unfinished) -> tuple[Hashable, ...]:
        """The kinds of the next stage of a state; empty if it is not treated like others."""
        if self is _Alike.NONE:
            return ()
        return each.product_kinds if self is _Alike.PRODUCTS else each.every_kind


def _form_of(op: Operation) -> Hashable:
    """A key of what an operation computes, without the names of its tensors and axes."""
    assert isinstance(op, ComputeOp)
    axes = {axis.var: k for k, axis in enumerate(op.root_iter_vars)}
    extents = tuple(str(axis.dom) for axis in op.root_iter_vars)
    loads = op.loads
    used = tuple(
        (load.dtype, *(tuple(sorted(axes[v] for v in free_vars(e))) for e in load.indices))
        for load in loads
    )
    return extents, used


def _applied(
    rules: Sequence[SketchRule], context: Context, each: _Unfinished, kinds: tuple[Hashable, ...]
) -> list[_Unfinished]:
    """Apply the rules to the next stage, up to the first one that excludes the later ones."""
    state, stage_id, ways = each
    found: list[_Unfinished] = []
    for rule in rules:
        decision = rule.condition(context, state, stage_id)
        if decision is Decision.SKIP:
            continue
        try:
            made = rule.apply(context, state, stage_id)
        except ScheduleError:
            continue
        for k, pair in enumerate(made):
            after = {**ways, **dict.fromkeys(kinds, _Way(rule.name, k))}
            found.append(_Unfinished(*pair, after))
        if decision is Decision.APPLY_AND_SKIP_REST:
            break
    return found


def _next(
    rules: Sequence[SketchRule], context: Context, each: _Unfinished, alike: _Alike
) -> list[_Unfinished]:
    """Treat the next stage like the last one of its kind if possible, or else by all rules."""
    kinds = alike.kinds(each)
    way = next((each.ways[kind] for kind in kinds if kind in each.ways), None)
    found: list[_Unfinished] = []
    if way is not None:
        found = _applied([rule for rule in rules if rule.name == way.rule], context, each, kinds)
        if not found and way.rule == MULTI_LEVEL_TILING_WITH_FUSION.name:
            found = _applied([MULTI_LEVEL_TILING], context, each, kinds)
        if alike is _Alike.ALL:
            found = found[way.which : way.which + 1] or found
    return found or _applied(rules, context, each, kinds)


def _grown(
    context: Context, rules: Sequence[SketchRule], alike: _Alike, warning: Tell
) -> list[State]:
    """All sketches; none if they are too many and `alike` could be extended to all stages."""
    as_ansor, told = context.options.space == "ansor", False
    finished: list[State] = []
    most = MOST_SKETCHES
    work: list[_Unfinished] = [_Unfinished(context.dag.init_state, len(context.dag.ops) - 1, {})]
    while work:
        following: list[_Unfinished] = []
        for each in work:
            if each.stage_id < 0:
                finished.append(with_sampled_rfactor(each.state))
            else:
                following += _next(rules, context, each, alike)
        if as_ansor and not told and len(following) > _MANY_SKETCHES:
            told = True
            warning(_many(following))
        if len(following) > most and not as_ansor:
            if alike is _Alike.PRODUCTS:
                return []
            most = DRAWN_SKETCHES
            chosen = np.random.default_rng(0).choice(len(following), most, replace=False)
            following = [following[k] for k in sorted(chosen)]
        work = following
    return finished


def _many(unfinished: Sequence[_Unfinished]) -> str:
    """The warning that Ansor's space has many sketches, which may take minutes and gigabytes."""
    left = 1 + max(each.stage_id for each in unfinished)
    return (
        f"search.space ansor has {len(unfinished):,} sketches so far, with "
        f"{count(left, 'stage')} to go, and no limit; search.space autosched keeps at most "
        f"{MOST_SKETCHES}"
    )


def generate_sketches(
    context: Context, custom_rules: Sequence[SketchRule] = (), warning: Tell = warn
) -> list[State]:
    """All sketches of a task; custom rules are tried before the built-in ones.

    In the space `ansor` they are Ansor's, in its order; where they are very many, `warning` is
    called before all are made. Elsewhere on CPUs, without custom rules,
    products of a kind (`product_kinds`) are tiled alike where possible: with all combinations of
    their tilings, six products in a result would have 4,096 sketches. If there still are more than
    MOST_SKETCHES, all stages that compute the same are treated alike. If that is not enough either,
    DRAWN_SKETCHES of them are kept at random, the same ones for equal tasks.

    A built-in rule that turns out to be illegal for a stage is skipped (Ansor fails). Raises
    ConfigError when the tiling structure is invalid, or a custom rule fails or leaves no sketch,
    and ScheduleError if a stage reads outside of a tensor, because it has no schedule.
    """
    create_schedule(context.dag.outputs)
    is_gpu = context.is_gpu
    problem = structure_problem(structure(context), is_gpu=is_gpu)
    if problem:
        raise ConfigError(f"{'gpu' if is_gpu else 'cpu'}_multi_level_tiling_structure: {problem}")
    as_ansor = context.options.space == "ansor"
    cpu_rules = ANSOR_CPU_RULES if as_ansor else CPU_RULES
    gpu_rules = ANSOR_GPU_RULES if as_ansor else GPU_RULES
    rules = (*map(CheckedRule, custom_rules), *(gpu_rules if is_gpu else cpu_rules))
    if is_gpu or as_ansor or custom_rules:
        finished = _grown(context, rules, _Alike.NONE, warning)
    else:
        finished = _grown(context, rules, _Alike.PRODUCTS, warning)
        finished = finished or _grown(context, rules, _Alike.ALL, warning)
    if not finished:
        names = ", ".join(rule.name for rule in custom_rules)
        raise ConfigError(f"the sketch rules {names} leave no sketch: every result list is empty")
    return finished
