"""Lower a stage with given loops by itself, for its indices and for regions computed in it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from autosched import te
from autosched.arith import Analyzer
from autosched.features.batched.axis_text import AxisText, StageText, terms_of
from autosched.features.batched.plan import FIRST_THREAD, Loops
from autosched.features.walk.count import count_ops
from autosched.features.walk.regions import IndexBounds
from autosched.features.walk.scope import Loop
from autosched.state.iterator import ANNOTATION_TEXT
from autosched.te.bounds.infer_bound import infer_bound
from autosched.te.lowering.to_prim_func import schedule_to_prim_func
from autosched.te.schedule.stage import Stage
from autosched.tir.constants import is_zero
from autosched.tir.equal import structural_equal
from autosched.tir.expr import Call, Expr, IntImm, IterVar, Range, Var
from autosched.tir.op import const
from autosched.tir.stmt import AttrStmt, BufferStore, For, IfThenElse
from autosched.tir.walk import free_vars, stmts, substitute
from autosched.transform.expressions.simplify import Simplify


def written_out(
    loops: Loops, numbers: Sequence[int], sizes: Sequence[int], as_ansor: bool
) -> StageText:
    """The index texts of a stage with these loops, whose extents are `sizes`.

    `numbers` are the extents of its axes, then the factors of its splits. Indices are simplified
    `as_ansor`, or as autosched's own pass does.
    """
    tensor = te.compute(tuple(numbers[: loops.axes]), lambda *axes: const(0.0), name="S")
    schedule = te.create_schedule(tensor.op)
    _scheduled(schedule[tensor], loops, numbers)
    func = schedule_to_prim_func(schedule.normalize_for_feature_extraction(), [tensor])
    around: list[tuple[bool, Var, int]] = []
    conditions: list[Expr] = []
    indices: tuple[Expr, ...] = ()
    raw = next(s.indices for s in stmts(func.body) if isinstance(s, BufferStore))
    for s in stmts(Simplify(as_ansor=as_ansor)(func).body):
        if isinstance(s, For):
            around.append((False, s.loop_var, _value(s.extent)))
        elif isinstance(s, AttrStmt) and s.key in ("thread_extent", "virtual_thread"):
            around.append((True, s.node.var, _value(s.value)))
        elif isinstance(s, IfThenElse):
            found = s.condition
            likely = isinstance(found, Call) and found.op == "likely"
            conditions.append(found.args[0] if isinstance(found, Call) and likely else found)
        elif isinstance(s, BufferStore):
            indices = s.indices
    variables = _variables(loops, sizes, around)
    pairs = zip(raw, indices, strict=True)
    axes = tuple(_axis(whole, text, variables, sizes) for whole, text in pairs)
    return StageText(tuple(numbers), variables, tuple(sizes), tuple(conditions), axes)


@lru_cache(maxsize=20_000)
def region_start(loops: Loops, stage: StageText, scales: tuple[tuple[int, int], ...]) -> Expr:
    """The start of the region of a stage that is computed in `stage`, which has these loops.

    The inner stage is read at a sum of axes (by number) times scales, given as `scales`. Bound
    inference simplifies the start step by step.
    """
    axes = stage.key[: loops.axes]
    shape = (sum(scale * (axes[k] - 1) for k, scale in scales) + 1,)
    read = te.compute(shape, lambda place: const(0.0), name="P")
    tensor = te.compute(
        axes, lambda *own: read(sum((own[k] * scale for k, scale in scales), const(0))), name="S"
    )
    schedule = te.create_schedule(tensor.op)
    leaves = _scheduled(schedule[tensor], loops, stage.key)
    schedule[read].set_scope("local")
    schedule[read].compute_at(schedule[tensor], leaves[-1])
    normalized = schedule.normalize_for_feature_extraction()
    bounds = infer_bound(normalized)
    inside = next(s for s in normalized.stages if s.op.name == "P")
    names: dict[Var, Expr] = {}
    attrs = schedule[tensor].iter_var_attrs
    for leaf, var in zip(leaves, stage.variables, strict=True):
        thread = attrs[leaf].bind_thread if leaf in attrs else None
        names[(thread or leaf).var] = const(0) if var is None else var
    (place,) = inside.op.root_iter_vars
    return substitute(bounds[place].min, names)


@lru_cache(maxsize=20_000)
def differing(loops: Loops, stage: StageText, axis: int, as_ansor: bool) -> bool:
    """Whether an axis of `stage`, which has these loops, is written otherwise in such a region."""
    analyzer = Analyzer(as_ansor=as_ansor)
    for var, size in zip(stage.variables, stage.sizes, strict=True):
        if var is not None:
            analyzer.bind(var, Range(const(0), const(size)))
    again = analyzer.simplify(region_start(loops, stage, ((axis, 1),)))
    return not structural_equal(again, stage.axes[axis].text)


def _scheduled(stage: Stage, loops: Loops, numbers: Sequence[int]) -> list[IterVar]:
    """Give a stage these loops; return its leaves."""
    known: dict[int, IterVar] = dict(enumerate(stage.op.root_iter_vars))
    split = loops.axes
    for relation in loops.relations:
        if len(relation) == 4:
            parent, outer, inner, sized_inner = relation
            factor, nparts = (numbers[split], None) if sized_inner else (None, numbers[split])
            known[outer], known[inner] = stage.split(known[parent], factor, nparts)
            split += 1
        else:
            parts = known[relation[0]], known[relation[1]]
            rest = [leaf for leaf in stage.leaf_iter_vars if leaf not in parts]
            stage.reorder(*parts, *rest)  # the steps' reorders, which do that, are left out here
            known[relation[2]] = stage.fuse(*parts)
    stage.reorder(*(known[leaf] for leaf in loops.leaves))
    for leaf, kind in zip(loops.leaves, loops.kinds, strict=True):
        if kind >= FIRST_THREAD:
            stage.bind(known[leaf], te.thread_axis(ANNOTATION_TEXT[kind]))
    return [known[leaf] for leaf in loops.leaves]


def _variables(
    loops: Loops, sizes: Sequence[int], around: Sequence[tuple[bool, Var, int]]
) -> tuple[Var | None, ...]:
    """The variable of each loop; None for a loop that runs once, unless it is a thread axis."""
    variables: list[Var | None] = []
    waiting = iter(around)
    for kind, size in zip(loops.kinds, sizes, strict=True):
        thread = kind >= FIRST_THREAD
        if not thread and size == 1:
            variables.append(None)
            continue
        found, var, extent = next(waiting)
        assert found == thread and extent == size
        variables.append(var)
    return tuple(variables)


def _axis(raw: Expr, text: Expr, variables: Sequence[Var | None], sizes: Sequence[int]) -> AxisText:
    there = [(var, size) for var, size in zip(variables, sizes, strict=True) if var is not None]
    still = [Loop(var, 1, (0, 0), (0, 0), {}) for var, _ in there]
    running = [Loop(var, size, (0, 0), (0, size - 1), {}) for var, size in there]
    start = IndexBounds(still).levels(text)[0]
    levels = iter(IndexBounds(running).levels(text))
    ends: list[tuple[int, int]] = []
    for var in variables:
        ends.append((0, 0) if var is None else next(levels))
    for k in range(len(ends) - 1, -1, -1):
        if variables[k] is None:
            ends[k] = ends[k + 1] if k + 1 < len(ends) else start
    used = free_vars(text)
    return AxisText(
        raw,
        text,
        tuple(terms_of(text)),
        start,
        tuple(ends),
        tuple(var is not None and var in used for var in variables),
        tuple(count_ops(text)),
        is_zero(text) and bool(free_vars(raw)),
    )


def _value(e: Expr) -> int:
    assert isinstance(e, IntImm)
    return e.value
