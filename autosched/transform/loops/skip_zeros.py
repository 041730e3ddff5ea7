"""SkipZeros: a reduction leaves out the steps that are known to add zero.

before:
    def main(X: Buffer((10,), float32), K: Buffer((4,), float32), Y: Buffer((16, 1), float32)):
        for h in range(16):
            for r in range(4):
                Y[h, 0] = Y[h, 0] + if_then_else((h + r) % 2 == 0, X[(h + r) // 2], 0.0) * K[r]
after:
    def main(X: Buffer((10,), float32), K: Buffer((4,), float32), Y: Buffer((16, 1), float32)):
        for h in range(8):
            for r in range(2):
                Y[h * 2, 0] = Y[h * 2, 0] + X[h + r] * K[r * 2]
        for h_1 in range(8):
            for r_1 in range(2):
                Y[h_1 * 2 + 1, 0] = Y[h_1 * 2 + 1, 0] + X[h_1 + r_1 + 1] * K[r_1 * 2 + 1]
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, TypeAlias

from autosched.nest.loop_nest import InnerLoop, is_injective
from autosched.tir.copy_stmt import copy_stmt
from autosched.tir.dtype import int32
from autosched.tir.expr import BufferLoad, Call, Expr, Select, Var
from autosched.tir.function import PrimFunc
from autosched.tir.kinds import bits_of, nodes_with
from autosched.tir.linear import linear, sum_of
from autosched.tir.loops import count_from_zero
from autosched.tir.op import eq, floormod
from autosched.tir.stmt import (
    TRUE,
    AttrStmt,
    BufferStore,
    For,
    ForKind,
    IfThenElse,
    SeqStmt,
    Stmt,
    seq,
)
from autosched.tir.walk import all_exprs, distinct, free_vars, map_children, rewrite_expr, stmts
from autosched.transform.expressions.simplify import Simplify
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass
from autosched.transform.loops.known_zeros import (
    Pattern,
    Residue,
    known_patterns,
    stored_residues,
    zero_steps,
    zero_unless,
)
from autosched.transform.loops.residue_classes import (
    Class,
    Restriction,
    choices,
    constant_class,
    holds,
    iterations,
    periods,
    solved,
)

MOST_PHASES = 32
"""Most copies of a nest; a stride of 3 in three dimensions makes 27."""

_CHOICES = bits_of(Call, Select)


@dataclass(frozen=True)
class SkipZeros(FunctionPass):
    """Splits reductions by the remainders of their output indices and skips steps that add zero.

    A step is skipped if it adds a product with a factor that is known to be zero. The factor is an
    if_then_else whose condition asks for a remainder, or an element of a buffer that such values
    are stored to. Transposed convolutions thus do not multiply with inserted zeros. The other steps
    keep their order. A step is skipped whatever the other factor is: infinite or NaN weights meet
    only elements that exist, as at padded borders.

    Elements of such a buffer that are no longer read are no longer stored. Loops over the last
    dimension of the output and vectorised loops stay whole. Functions without such values, and
    functions whose arguments may overlap, stay as they are.
    """

    name: ClassVar[str] = "SkipZeros"

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        if not func.noalias or not _asks_for_remainders(func.body):
            return func
        simple = Simplify()(func)
        skipper = _Skipper(known_patterns(simple))
        body = skipper.stmt(simple.body)
        if body is simple.body:
            return func
        body = _sparse(body, skipper.unread(simple.body))
        return Simplify()(func.with_body(body))


def _asks_for_remainders(body: Stmt) -> bool:
    """Whether some stored value is zero unless an index has a certain remainder."""
    return any(
        True
        for s in stmts(body)
        if isinstance(s, BufferStore)
        for e in nodes_with(s.value, _CHOICES)
        if isinstance(e, Select | Call)
        for _ in zero_unless(e, {})
    )


Patterns: TypeAlias = Mapping[Var, Sequence[Pattern]]
Known: TypeAlias = tuple[Var, Pattern]


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A store and the loops around it, outermost first."""

    store: BufferStore
    loops: tuple[For, ...]

    def moves(self, dimension: int) -> tuple[dict[Var, InnerLoop], dict[Expr, int], int]:
        """Split the index of `dimension`: the loops that move it, its other terms, its constant."""
        constant, terms = linear(self.store.indices[dimension])
        moving = {}
        for loop in self.loops:
            stride = terms.pop(loop.loop_var, 0)
            if stride:
                moving[loop.loop_var] = InnerLoop(count_from_zero(loop), stride, ())
        return moving, terms, constant


def _leaves(s: Stmt, loops: tuple[For, ...] = ()) -> list[_Leaf] | None:
    """The stores in `s`; None if they are inside anything but counted loops, guards and pragmas."""
    match s:
        case BufferStore(predicate=None):
            return [_Leaf(s, loops)]
        case For() if count_from_zero(s) and s.kind is not ForKind.THREAD_BINDING:
            return _leaves(s.body, (*loops, s))
        case AttrStmt(key=key) if key.startswith("pragma_"):
            return _leaves(s.body, loops)
        case IfThenElse(condition, inner, None) if not any(
            isinstance(e, BufferLoad) for e in distinct(condition)
        ):
            return _leaves(inner, loops)
        case SeqStmt(parts):
            inside = [_leaves(part, loops) for part in parts]
            return None if None in inside else [leaf for each in inside for leaf in each or ()]
    return None


class _Skipper:
    """One walk; `_used` counts the loads of each buffer whose zeros are skipped, by pattern."""

    def __init__(self, patterns: Patterns) -> None:
        self._patterns = patterns
        self._used: Counter[Known] = Counter()

    def stmt(self, s: Stmt) -> Stmt:
        if isinstance(s, BufferStore) or (isinstance(s, For) and s.kind is ForKind.VECTORIZED):
            return s
        if isinstance(s, For) and s.kind is not ForKind.PARALLEL and count_from_zero(s):
            done = self._region(s)
            if done is not None:
                return done
        return map_children(s, self.stmt)

    def unread(self, body: Stmt) -> set[Known]:
        """The buffers whose elements outside of a pattern are no longer read, with that pattern."""
        loads = Counter(e.buffer.data for e in all_exprs(body) if isinstance(e, BufferLoad))
        return {known for known, count in self._used.items() if count == loads[known[0]]}

    def _region(self, root: For) -> Stmt | None:
        """Loops around stores to one buffer, copied for each remainder of the stored index.

        None if no step of them can be skipped.
        """
        leaves = _leaves(root)
        if not leaves or not all(map(_is_pointwise, leaves)):
            return None
        first = leaves[0].store.buffer
        stored = [leaf.store.buffer for leaf in leaves]
        if not all(b.data is first.data and b.is_laid_out_as(first) for b in stored):
            return None
        sums = [
            (leaf, found) for leaf in leaves if (found := zero_steps(leaf.store, self._patterns))
        ]
        if len(sums) != 1:
            return None
        ((leaf, found),) = sums
        plan = _plan_sum(leaf, found, leaves)
        if plan is None:
            return None
        self._used.update(residue.known for residue in plan.residues if residue.known)
        return plan.applied(root, leaves)


def _is_pointwise(leaf: _Leaf) -> bool:
    """Whether a store reads no element of its buffer but the one that it stores."""
    return all(
        e.indices == leaf.store.indices and e.buffer.is_laid_out_as(leaf.store.buffer)
        for e in distinct(leaf.store.value)
        if isinstance(e, BufferLoad) and e.buffer.data is leaf.store.buffer.data
    )


@dataclass(frozen=True, slots=True)
class _Plan:
    """A way to restrict the loops around `leaf` so that all `residues` hold.

    `outputs` has the periods of the variables that move the store, and `steps` those of the other
    variables. `solved` has the variables whose class follows from a residue with outer variables.
    The generated code tests the value of the outer variables in each of the residues `asked`.
    """

    leaf: _Leaf
    residues: tuple[Residue, ...]
    outputs: Mapping[Var, int]
    steps: Mapping[Var, int]
    solved: Mapping[Var, Residue]
    asked: tuple[Residue, ...]

    @property
    def copies(self) -> int:
        """The number of copies of the statement."""
        asked = math.prod([residue.modulus for residue in self.asked])
        return math.prod(self.outputs.values()) * asked

    def applied(self, root: Stmt, leaves: Sequence[_Leaf]) -> Stmt:
        """`root`, which contains all `leaves`, without the iterations that are not needed."""
        if not self.asked:
            made = [phase.stmt(root) for phase in self.phases(leaves)]
            return seq(*made[:1], *(copy_stmt(s, {}) for s in made[1:]))
        residue, *others = self.asked
        variables = {loop.loop_var for loop in self.leaf.loops}
        inside: dict[Expr, int] = {t: f for t, f in residue.terms.items() if t in variables}
        outside = {t: f for t, f in residue.terms.items() if t not in variables}
        known = floormod(sum_of(outside, 0, int32), residue.modulus)
        result: Stmt | None = None
        for value in range(residue.modulus):
            decided = replace(residue, constant=residue.constant + value, terms=inside)
            residues = tuple([decided if r is residue else r for r in self.residues])
            case = replace(self, residues=residues, asked=tuple(others)).applied(root, leaves)
            case = case if result is None else copy_stmt(case, {})
            result = case if result is None else IfThenElse(eq(known, value), case, result)
        assert result is not None, "there are at least two remainders"
        return result

    def phases(self, leaves: Iterable[_Leaf]) -> Iterator[Restriction]:
        """One restriction of all `leaves` for each choice of remainders of the outputs."""
        alike = {var: _alike(self.leaf, var, leaves) for var in self.outputs}
        for starts in choices(self.outputs):
            classes = {
                other: constant_class(starts[var], self.outputs[var], other)
                for var, others in alike.items()
                for other in others
            }
            yield self.restriction(classes, starts)

    def restriction(self, classes: Mapping[Var, Class], starts: Mapping[Var, int]) -> Restriction:
        """The steps that count for the outputs in `classes`, whose remainders are `starts`."""
        inside = {*self.steps, *self.solved}
        at = next((s for s in self.leaf.loops if s.loop_var in inside), self.leaf.store)
        return Restriction(
            classes,
            at,
            list(self._alternatives(starts)),
            self.leaf.store,
            _where_all_hold(self.leaf.store, self.residues),
        )

    def _alternatives(self, starts: Mapping[Var, int]) -> Iterator[Mapping[Var, Class]]:
        extents = {loop.loop_var: count_from_zero(loop) for loop in self.leaf.loops}
        fixed = [r for r in self.residues if r not in self.solved.values()]
        for steps in choices(self.steps):
            every = {**starts, **steps}
            if not all(holds(residue, every) for residue in fixed):
                continue
            found = {v: constant_class(steps[v], period, v) for v, period in self.steps.items()}
            found |= {v: solved(residue, v, every) for v, residue in self.solved.items()}
            if all(iterations(extents[v], chosen) > 0 for v, chosen in found.items()):
                yield found


def _plan_sum(leaf: _Leaf, found: Sequence[Residue], leaves: Sequence[_Leaf]) -> _Plan | None:
    """The plan of a reduction; None if no residue can be met, or only with too many copies."""
    last = len(leaf.store.indices) - 1
    others = {s.loop_var for other in leaves if other is not leaf for s in other.loops}
    moving = {v for index in leaf.store.indices for v in free_vars(index)}
    steps = [s.loop_var for s in leaf.loops if s.loop_var not in moving | others and _is_scalar(s)]
    contiguous = free_vars(leaf.store.indices[last])
    outputs = [
        s.loop_var
        for s in leaf.loops
        if s.loop_var in moving - contiguous and _is_scalar(s) and _alike(leaf, s.loop_var, leaves)
    ]
    plan = _plan(leaf, found, outputs, steps)
    return plan if plan.residues and plan.copies <= MOST_PHASES else None


def _is_scalar(loop: For) -> bool:
    return loop.kind is not ForKind.VECTORIZED and not loop.annotations


def _plan(
    leaf: _Leaf, found: Iterable[Residue], outputs: Sequence[Var], steps: Sequence[Var]
) -> _Plan:
    """The plan with all residues that depend on no loops but those over `outputs` and `steps`."""
    inside = {loop.loop_var for loop in leaf.loops}
    usable = {*outputs, *steps}
    kept = [
        residue
        for residue in found
        if all(t in usable or inside.isdisjoint(free_vars(t)) for t in residue.terms)
    ]
    solved_by: dict[Var, Residue] = {}
    asked: list[Residue] = []
    for residue in list(kept):
        if usable.issuperset(residue.terms):
            continue
        var = _solvable(residue, steps, [r for r in kept if r is not residue], leaf)
        if var is not None:
            solved_by[var] = residue
        elif not usable.isdisjoint(residue.terms):
            asked.append(residue)
        else:
            kept.remove(residue)
    return _Plan(
        leaf,
        tuple(kept),
        periods(kept, outputs),
        periods(kept, [v for v in steps if v not in solved_by]),
        solved_by,
        tuple(asked),
    )


def _solvable(
    residue: Residue, steps: Sequence[Var], others: Iterable[Residue], leaf: _Leaf
) -> Var | None:
    """The innermost of `steps` whose class follows from the residue; None if there is none.

    Every class of it has the same number of iterations, and no other residue depends on it.
    """
    extents = {loop.loop_var: count_from_zero(loop) for loop in leaf.loops}
    taken = {term for other in others for term in other.terms}
    for var in reversed(steps):
        factor = residue.terms.get(var, 0)
        if math.gcd(factor, residue.modulus) == 1 and var not in taken:
            return var if extents[var] % residue.modulus == 0 else None
    return None


def _alike(leaf: _Leaf, var: Var, leaves: Iterable[_Leaf]) -> list[Var]:
    """The variable of each of `leaves` that moves over the stored elements as `var` does in `leaf`.

    Empty if the index of an element does not determine which iterations store it.
    """
    found: list[Var] = []
    (dimension, *more) = [
        k for k, index in enumerate(leaf.store.indices) if var in free_vars(index)
    ]
    moving, terms, constant = leaf.moves(dimension)
    if more or var not in moving or not is_injective(tuple(moving.values())):
        return []
    for other in leaves:
        theirs, other_terms, other_constant = other.moves(dimension)
        same = [v for v, loop in theirs.items() if loop == moving[var]]
        if (
            (other_terms, other_constant) != (terms, constant)
            or sorted(theirs.values()) != sorted(moving.values())
            or len(same) != 1
            or any(s.loop_var is same[0] and not _is_scalar(s) for s in other.loops)
        ):
            return []
        found += same
    return found


def _where_all_hold(store: BufferStore, residues: Iterable[Residue]) -> BufferStore:
    """The store with the conditions of all `residues`, which hold, replaced by true."""
    sources = {residue.source for residue in residues}
    return store.with_(
        value=rewrite_expr(store.value, lambda node: TRUE if node in sources else None)
    )


# -- stores that nothing reads any more ------------------------------------------------------------


def _sparse(s: Stmt, unread: Collection[Known]) -> Stmt:
    """`s` without stores of elements outside the patterns `unread`, which nothing reads."""
    if not unread or isinstance(s, BufferStore):
        return s
    leaves = _leaves(s) if isinstance(s, For) else None
    if leaves is None or len(leaves) != 1:
        return map_children(s, lambda child: _sparse(child, unread))
    (leaf,) = leaves
    data = leaf.store.buffer.data
    found = [r for r, known in stored_residues(leaf.store) if known and (data, known) in unread]
    plan = _plan(leaf, found, (), [loop.loop_var for loop in leaf.loops if _is_scalar(loop)])
    return plan.applied(s, leaves) if plan.residues and plan.copies <= MOST_PHASES else s
