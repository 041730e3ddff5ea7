"""The loops of a stage after some steps, as ids; the same steps give the same object.

Candidates of one task differ in where some loops are, not in most of their loops. The effect of a
step on a stage's loops is therefore computed once and cached on the state before the step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from autosched.features.batched.plan import FIRST_THREAD, Loops, UnsupportedError, common_first

Relations = tuple[tuple[int, int, int, int] | tuple[int, int, int], ...]
Kinds = tuple[tuple[int, int], ...]


class LoopState:
    """The loops of a stage after some steps.

    `leaves` are the loops by id, outermost first, `kinds` the annotations of some of them,
    `next_id` is the next free id. The axes are 0 to `axes` - 1. `unroll` is the loop with the
    unroll pragma, or -1. `threads` says whether a loop is bound to threads, `limited` whether the
    unroll limit has an effect: not on a loop bound to threads, nor on one that was split or fused
    later.
    """

    __slots__ = (
        "_after",
        "_loops",
        "_positions",
        "axes",
        "kinds",
        "leaves",
        "limited",
        "next_id",
        "relations",
        "threads",
        "unroll",
    )

    def __init__(
        self,
        axes: int,
        relations: Relations = (),
        leaves: tuple[int, ...] | None = None,
        kinds: Kinds = (),
        next_id: int | None = None,
        unroll: int = -1,
    ) -> None:
        self.axes, self.relations = axes, relations
        self.leaves = tuple(range(axes)) if leaves is None else leaves
        self.kinds, self.unroll = kinds, unroll
        self.next_id = axes if next_id is None else next_id
        self.threads = any(kind >= FIRST_THREAD for _, kind in kinds)
        self.limited = unroll in self.leaves and dict(kinds).get(unroll, 0) < FIRST_THREAD
        self._after: dict[tuple[Any, ...], LoopState] = {}
        self._positions: dict[int, int] = {}
        self._loops: Loops | None = None

    @classmethod
    def of(cls, loops: Loops) -> LoopState:
        """The loops of a plan as a state to be transformed further; it has no annotations."""
        made = sum(2 if len(relation) == 4 else 1 for relation in loops.relations)
        return cls(loops.axes, loops.relations, loops.leaves, next_id=loops.axes + made)

    @property
    def loops(self) -> Loops:
        """The loops as a plan has them."""
        if self._loops is None:
            kinds = dict(self.kinds)
            unroll = self.leaves.index(self.unroll) if self.limited else -1
            found = tuple([kinds.get(leaf, 0) for leaf in self.leaves])
            self._loops = Loops(self.axes, self.relations, self.leaves, found, unroll)
        return self._loops

    def position(self, leaf: int) -> int:
        """The position of the loop that stands for `leaf` after later splits and fusions.

        Raises UnsupportedError where there is none.
        """
        found = self._positions.get(leaf)
        if found is None:
            found = self._positions[leaf] = self._followed(leaf)
        return found

    def _followed(self, leaf: int) -> int:
        follow: dict[int, int] = {}
        for relation in self.relations:
            if len(relation) == 4:
                follow[relation[0]] = relation[2]
            else:
                follow[relation[1]] = relation[2]
        while leaf not in self.leaves:
            if leaf not in follow:
                raise UnsupportedError("computed at a loop that no longer exists")
            leaf = follow[leaf]
        return self.leaves.index(leaf)

    def _made(self, key: tuple[Any, ...], make: Callable[..., LoopState]) -> LoopState:
        found = self._after.get(key)
        if found is None:
            found = self._after[key] = make(self, *key[1:])
        return found

    def split(self, at: int, pieces: int, inner: bool) -> LoopState:
        """The state after `pieces` splits of the loop at position `at`, as the split step does
        them."""
        return self._made(("split", at, pieces, inner), _split)

    def fuse(self, ids: tuple[int, ...]) -> LoopState:
        """The state after the loops at the positions `ids` became one."""
        return self._made(("fuse", ids), _fuse)

    def reorder(self, after: tuple[int, ...]) -> LoopState:
        """The state with the loop at position `after[k]` at position k."""
        return self._made(("reorder", after), _reorder)

    def annotate(self, at: int, kind: int) -> LoopState:
        """The state with the annotation `kind` on the loop at position `at`."""
        return self._made(("annotate", at, kind), _annotate)

    def common_first(self, data: int) -> LoopState:
        """The state with the loops in lowering order; the first `data` axes are data axes."""
        return self._made(("common_first", data), _common_first)

    def limit(self, at: int) -> LoopState:
        """The state with the unroll limit on the loop at position `at`."""
        return self._made(("limit", at), _limit)


def _changed(state: LoopState, **parts: Any) -> LoopState:
    known: dict[str, Any] = {
        name: getattr(state, name)
        for name in ("axes", "relations", "leaves", "kinds", "next_id", "unroll")
    }
    return LoopState(**{**known, **parts})


def _split(state: LoopState, at: int, count: int, inner: bool) -> LoopState:
    rest, fresh = state.leaves[at], state.next_id
    relations, pieces = list(state.relations), []
    for _ in range(count):
        relations.append((rest, fresh, fresh + 1, int(inner)))
        rest, piece = (fresh, fresh + 1) if inner else (fresh + 1, fresh)
        pieces.append(piece)
        fresh += 2
    pieces.append(rest)
    leaves = list(state.leaves)
    leaves[at : at + 1] = reversed(pieces) if inner else pieces
    return _changed(state, relations=tuple(relations), leaves=tuple(leaves), next_id=fresh)


def _fuse(state: LoopState, ids: tuple[int, ...]) -> LoopState:
    if not ids or ids[-1] >= len(state.leaves) or ids != tuple(range(ids[0], ids[-1] + 1)):
        raise UnsupportedError("a fusion of no loops, or of loops that are not consecutive")
    relations, fresh = list(state.relations), state.next_id
    fused = state.leaves[ids[0]]
    for at in ids[1:]:
        relations.append((fused, state.leaves[at], fresh))
        fused, fresh = fresh, fresh + 1
    leaves = list(state.leaves)
    leaves[ids[0] : ids[-1] + 1] = [fused]
    return _changed(state, relations=tuple(relations), leaves=tuple(leaves), next_id=fresh)


def _reorder(state: LoopState, after: tuple[int, ...]) -> LoopState:
    if sorted(after) != list(range(len(state.leaves))):
        raise UnsupportedError("an order that does not list each loop once")
    return _changed(state, leaves=tuple([state.leaves[k] for k in after]))


def _annotate(state: LoopState, at: int, kind: int) -> LoopState:
    kinds = dict(state.kinds)
    if state.leaves[at] in kinds:
        raise UnsupportedError("a loop with two annotations")
    kinds[state.leaves[at]] = kind
    return _changed(state, kinds=tuple(kinds.items()))


def _limit(state: LoopState, at: int) -> LoopState:
    if state.unroll in state.leaves:
        raise UnsupportedError("two unroll limits")
    return _changed(state, unroll=state.leaves[at])


def _common_first(state: LoopState, data: int) -> LoopState:
    return _changed(state, leaves=tuple(common_first(state.loops, data)))
