"""Sketches: the loop structures of a task, their tile sizes still open.

docs/semantics/search.md has a table of the rules.
"""

from __future__ import annotations

from collections.abc import Sequence

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


def generate_sketches(context: Context, custom_rules: Sequence[SketchRule] = ()) -> list[State]:
    """All sketches of a task; custom rules are tried before the built-in ones.

    In the space `ansor` they are Ansor's, in its order.

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
    work = [(dag.init_state, len(dag.ops) - 1)]
    while work:
        following: list[tuple[State, int]] = []
        for state, stage_id in work:
            if stage_id < 0:
                finished.append(with_sampled_rfactor(state))
                continue
            for rule in rules:
                decision = rule.condition(context, state, stage_id)
                if decision is Decision.SKIP:
                    continue
                try:
                    following += rule.apply(context, state, stage_id)
                except ScheduleError:
                    continue
                if decision is Decision.APPLY_AND_SKIP_REST:
                    break
        work = following
    if not finished:
        names = ", ".join(rule.name for rule in custom_rules)
        raise ConfigError(f"the sketch rules {names} leave no sketch: every result list is empty")
    return finished
