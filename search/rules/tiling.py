"""Multi-level tiling, and following the tiling of another stage."""

from __future__ import annotations

import math

from autosched.errors import ScheduleError
from autosched.search.factors import divisors
from autosched.state.iterator import Annotation, Iterator, IterKind
from autosched.state.queries import NO_SPLIT_AT_INNER, stage_attr_names
from autosched.state.state import State
from autosched.state.steps import RfactorStep, SplitStep
from autosched.te.bounds.loop_length import MOST_ITERATIONS

_SPACE, _REDUCE = "S", "R"


def structure_problem(structure: str, *, is_gpu: bool) -> str:
    """Why the sketch rules cannot tile by `structure`, or an empty text.

    A consumer is fused after the third level of a GPU (blocks, virtual threads, threads), and
    after those of the first two levels of a CPU that are spatial; a spatial level must follow.
    """
    letters = structure.upper()
    if not letters or set(letters) - {_SPACE, _REDUCE}:
        return f"expected only the letters S and R, found {structure!r}"
    if _REDUCE not in letters:
        return f"expected at least one R, for the reduction loops, found {structure!r}"
    if is_gpu:
        fused = 3
        if letters[2:3] != _SPACE:
            return f"expected S as the third letter, as in SSSRRSRS, found {structure!r}"
    else:
        fused = max((k for k in (1, 2) if letters[k - 1 : k] == _SPACE), default=0)
    if letters.count(_SPACE) <= fused:
        example = "SSSRRSRS" if is_gpu else "SSRSRS"
        return f"expected at least {fused + 1} letters S, as in {example}, found {structure!r}"
    return ""


def multi_level_tile(state: State, stage_id: int, structure: str) -> tuple[State, list[int]]:
    """Tile the stage by a structure such as "SSRSRS".

    Returns the state and the ids of the SP steps of the spatial iterators, in order. Iterators
    that the operation names in `auto_scheduler_no_split_at_inner` stay whole, in front of the
    innermost level. Raises ScheduleError when the structure has other letters than S and R, or
    no level for a kind of iterator that the stage has.
    """
    structure = structure.upper()
    n_space, n_reduce = structure.count(_SPACE), structure.count(_REDUCE)
    if n_space + n_reduce != len(structure):
        raise ScheduleError(f"tiling structure {structure!r}: expected only the letters S and R")
    unsplit = stage_attr_names(state, stage_id, NO_SPLIT_AT_INNER)
    space: list[list[Iterator]] = [[] for _ in range(n_space)]
    reduce: list[list[Iterator]] = [[] for _ in range(n_reduce)]
    whole: dict[IterKind, list[Iterator]] = {IterKind.SPATIAL: [], IterKind.REDUCTION: []}
    split_ids: list[int] = []
    for it in state.stages[stage_id].iters:
        levels = space if it.kind is IterKind.SPATIAL else reduce
        if it.kind not in whole:
            raise ScheduleError(f"multi-level tiling: iterator {it.name} is {it.kind.name.lower()}")
        if not levels:
            raise ScheduleError(
                f"tiling structure {structure!r} has no level for the {it.kind.name.lower()} "
                f"iterator {it.name}"
            )
        if it.name in unsplit:
            whole[it.kind].append(it)
            continue
        pieces = [it]
        if len(levels) > 1:
            if it.kind is IterKind.SPATIAL:
                split_ids.append(len(state.steps))
            state, pieces = state.split(stage_id, it, [None] * (len(levels) - 1))
        for level, piece in zip(levels, pieces, strict=True):
            level.append(piece)
    space[-1][:0] = whole[IterKind.SPATIAL]
    if reduce:
        reduce[-1][:0] = whole[IterKind.REDUCTION]
    take = {_SPACE: iter(space), _REDUCE: iter(reduce)}
    order = [it for letter in structure for it in next(take[letter])]
    return state.reorder(stage_id, order), split_ids


def follow_tiling(state: State, stage_id: int, split_ids: list[int], n_split: int) -> State:
    """Split the stage's spatial iterators like the SP steps `split_ids`, into n_split + 1 levels.

    Unrolling and vectorising stay on the innermost piece, parallel on the outermost. Iterators
    that stay whole join the innermost level at their place among the pieces.
    """
    unsplit = stage_attr_names(state, stage_id, NO_SPLIT_AT_INNER)
    levels: list[list[Iterator]] = [[] for _ in range(n_split + 1)]
    follow = iter(split_ids)
    for it in state.stages[stage_id].iters:
        if it.kind is not IterKind.SPATIAL:
            raise ScheduleError(f"follow tiling: iterator {it.name} is not spatial")
        if it.name in unsplit:
            levels[-1].append(it)
            continue
        source = next(follow, None)
        if source is None:
            raise ScheduleError(f"follow tiling: no split to follow for iterator {it.name}")
        state, pieces = state.follow_split(stage_id, it, source, n_split)
        state, pieces = _keep_annotation(state, stage_id, it, pieces)
        for level, piece in zip(levels, pieces, strict=True):
            level.append(piece)
    if next(follow, None) is not None:
        raise ScheduleError("follow tiling: more splits to follow than splittable iterators")
    return state.reorder(stage_id, [it for level in levels for it in level])


def _keep_annotation(
    state: State, stage_id: int, it: Iterator, pieces: list[Iterator]
) -> tuple[State, list[Iterator]]:
    match it.annotation:
        case Annotation.UNROLL:
            state, pieces[-1] = state.unroll(stage_id, pieces[-1])
        case Annotation.VECTORIZE:
            state, pieces[-1] = state.vectorize(stage_id, pieces[-1])
        case Annotation.PARALLEL:
            state, pieces[0] = state.parallel(stage_id, pieces[0])
    return state, pieces


def iters_of(state: State, stage_id: int, kind: IterKind) -> list[Iterator]:
    """The iterators of a kind, in order."""
    return [it for it in state.stages[stage_id].iters if it.kind is kind]


def fuse_reductions(
    state: State, stage_id: int, *, as_ansor: bool = False
) -> tuple[State, Iterator]:
    """Fuse the reduction iterators of the stage, if more than one; returns the result.

    If all have too many iterations for one loop, the neighbours with the most iterations that fit
    are fused, and the others stay. Ansor fuses all, which then is a ScheduleError.
    """
    reductions = iters_of(state, stage_id, IterKind.REDUCTION)
    run = reductions if as_ansor else _longest_run(reductions)
    return (state, run[0]) if len(run) == 1 else state.fuse(stage_id, run)


def _longest_run(iters: list[Iterator]) -> list[Iterator]:
    """The neighbouring iterators with the most iterations in all that fit one loop."""
    ends = range(len(iters), 0, -1)
    runs = [iters[start:end] for end in ends for start in range(end)]  # the first one has all
    fitting = [run for run in runs if _iterations(run) <= MOST_ITERATIONS]
    return max(fitting, key=_iterations)


def _iterations(iters: list[Iterator]) -> int:
    return math.prod(it.extent_or_unknown for it in iters)


def in_slices(state: State, stage_id: int, axis: Iterator, writer: int) -> State:
    """Sum slices of an axis in a stage of their own, the number of slices to be drawn later.

    The stage that adds them up goes into the innermost loop of its reader `writer`, unless it is
    `writer` itself.
    """
    least = divisors(axis.extent_or_unknown)[1]
    state, (outer, _) = state.split(stage_id, axis, [least], inner_to_outer=False)
    state, _ = state.rfactor(stage_id, outer, 0)
    if writer == stage_id:
        return state
    return state.compute_at(stage_id + 1, writer + 1, state.stages[writer + 1].iters[-1])


def with_sampled_rfactor(state: State) -> State:
    """Open the length of the split before every rfactor step, to be drawn later."""
    steps = list(state.steps)
    opened = False
    for k, step in enumerate(steps):
        before = steps[k - 1] if k else None
        if isinstance(step, RfactorStep) and isinstance(before, SplitStep):
            steps[k - 1] = before.with_lengths((None,))
            opened = True
    return state.with_steps(steps, concrete=False) if opened else state
