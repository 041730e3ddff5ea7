"""Sketches: the loop structures of a task, their tile sizes still open.

docs/semantics/search.md has a table of the rules.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from autosched.errors import ConfigError, ScheduleError
from autosched.search.rules.blocking import BLOCK_REDUCTION, KEEP_PACKED, PACK_OPERAND
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
from autosched.search.rules.gpu import (
    ADD_CACHE_READ,
    CROSS_THREAD_REDUCTION,
    SPECIAL_COMPUTE_LOCATION_GPU,
)
from autosched.search.rules.instruction import USE_INSTRUCTION
from autosched.search.rules.operand import KEEP_OPERAND
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
    *ANSOR_CPU_RULES[1:4],
    BLOCK_REDUCTION,
    PACK_OPERAND,
    PACK_TRANSPOSED,
    INLINE_BORDER,
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
    *ANSOR_GPU_RULES,
)


class _Unfinished(NamedTuple):
    """A state whose stages up to `stage_id` are to come.

    `ways` has the rule that tiled what is fused into a stage, or could be, by the name of that.
    """

    state: State
    stage_id: int
    ways: Mapping[str, str]

    @property
    def result(self) -> str | None:
        """The stage that reads this one, to be tiled, element by element."""
        if not queries.needs_multi_level_tiling(self.state, self.stage_id):
            return None
        found = queries.elementwise_consumer(self.state, self.stage_id)
        return None if found < 0 else self.state.stages[found].name


def _as_before(
    rules: Sequence[SketchRule], context: Context, each: _Unfinished
) -> list[SketchRule]:
    """What tiles the stage as the first of those that the same stage reads, which only one can be
    fused into."""
    way = each.ways.get(each.result or "")
    if way == MULTI_LEVEL_TILING_WITH_FUSION.name:
        way = (ADD_CACHE_WRITE if context.is_gpu else MULTI_LEVEL_TILING).name
    return [rule for rule in rules if rule.name == way]


def _applied(rules: Sequence[SketchRule], context: Context, each: _Unfinished) -> list[_Unfinished]:
    """What the rules make of a stage, up to one that is not to be followed by others."""
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
        result = each.result
        after = ways if result is None else {result: rule.name, **ways}
        found += [_Unfinished(*pair, after) for pair in made]
        if decision is Decision.APPLY_AND_SKIP_REST:
            break
    return found


def generate_sketches(context: Context, custom_rules: Sequence[SketchRule] = ()) -> list[State]:
    """All sketches of a task; custom rules are tried before the built-in ones.

    In the space `ansor` they are Ansor's, in its order. Elsewhere, without custom rules, stages
    that one result reads element by element are tiled in the same way where they can be: with each
    way of one beside each of another, six products in a result would have 4,096 sketches.

    A built-in rule that turns out to be illegal for a stage is passed over (Ansor fails). Raises
    ConfigError when the tiling structure is invalid, or a custom rule fails or leaves no sketch.
    """
    dag, is_gpu = context.dag, context.is_gpu
    problem = structure_problem(structure(context), is_gpu=is_gpu)
    if problem:
        raise ConfigError(f"{'gpu' if is_gpu else 'cpu'}_multi_level_tiling_structure: {problem}")
    as_ansor = context.options.space == "ansor"
    cpu_rules = ANSOR_CPU_RULES if as_ansor else CPU_RULES
    gpu_rules = ANSOR_GPU_RULES if as_ansor else GPU_RULES
    rules = (*map(CheckedRule, custom_rules), *(gpu_rules if is_gpu else cpu_rules))
    finished: list[State] = []
    work: list[_Unfinished] = [_Unfinished(dag.init_state, len(dag.ops) - 1, {})]
    while work:
        following: list[_Unfinished] = []
        for each in work:
            if each.stage_id < 0:
                finished.append(with_sampled_rfactor(each.state))
                continue
            alike = [] if as_ansor or custom_rules else _as_before(rules, context, each)
            following += _applied(alike, context, each) or _applied(rules, context, each)
        work = following
    if not finished:
        names = ", ".join(rule.name for rule in custom_rules)
        raise ConfigError(f"the sketch rules {names} leave no sketch: every result list is empty")
    return finished
