"""The stores of a padded copy after the passes, by rule: `border_copy.py` on numbers.

`border_trees.py` has the loops, `branch_facts.py` what is known in branches; here are the texts.
Where a condition left a loop, the program is simplified. Simplification never errs: conditions that
hold for some iterations of a branch and not for others stay as they are. So what comparisons and
indices count follows from the digits that are left of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import gcd
from typing import NamedTuple

from autosched.features.batched.autosched_1.border_copy import Copied
from autosched.features.batched.autosched_1.border_trees import (
    Asked,
    Axis,
    Border,
    Branches,
    Digit,
    Nest,
    Node,
    NoRuleError,
    Piece,
    Store,
    Tree,
    tree_of,
)
from autosched.features.batched.autosched_1.branch_facts import Known, known_at_first, values_of
from autosched.features.batched.autosched_1.branch_places import Place
from autosched.features.batched.forms import WHOLE
from autosched.features.walk.count import NUM_COUNTERS

_FLOAT_CALL, _INT_ADDSUB, _INT_MUL, _INT_DIVMOD, _INT_CMP, _INT_CALL, _BOOL_OP = (
    *(5, 8, 9, 10, 11),
    *(12, 14),
)


@lru_cache(maxsize=20_000)
def copies_by_rule(border: Border) -> tuple[Copied, ...] | None:
    """The stores in program order; None where the passes may do what has no rule here."""
    try:
        tree = tree_of(border)
        leaves = _Leaves(border, tree)
        leaves.visit(tree.root, (), 0, (), known_at_first(border, tree.hoisted))
    except NoRuleError:
        return None
    return tuple(leaves.found)


class _Operations(NamedTuple):
    """Of a sum of digits: its terms, products and divisions, and the vector instructions, without
    those of products that something is added to."""

    terms: int
    products: int
    divisions: int
    instructions: int


@lru_cache(maxsize=10_000)
def _operations(digits: tuple[Digit, ...]) -> _Operations:
    terms = len(digits)
    products = sum([digit.scale != 1 for digit in digits])
    divisions = sum([(digit.lower > 1) + (digit.upper > 0) for digit in digits])
    fused = 1 + max(products - 2, 0) if terms > 1 and products else 0
    return _Operations(terms, products, divisions, terms - 1 + products + divisions - fused)


class _Text(NamedTuple):
    """What is left of an axis: digits and a constant. Where that is not simplified, of how many
    digits the loop's variable has something added; `fixed`: one is a number."""

    digits: tuple[Digit, ...]
    constant: int
    added: int
    fixed: bool


class _Leaves:
    """Goes through a tree; `found` are its stores."""

    def __init__(self, border: Border, tree: Tree) -> None:
        self._border, self._hoisted, self._grown = border, tree.hoisted, tree.grown
        self._own = len(border.kinds)
        self._nests = 0
        self.found: list[Copied] = []

    def visit(
        self,
        node: Node,
        loops: tuple[tuple[int, int, int], ...],
        floor: int,
        guards: tuple[int, ...],
        known: Known,
    ) -> None:
        """`loops` are those around the node: which, extent and number."""
        if isinstance(node, Nest):
            own = (*loops, (node.loop, node.extent, self._nests))
            self._nests += 1
            self.visit(node.body, own, floor, guards, known)
        elif isinstance(node, Store):
            self.found.append(self._store(node, loops, floor, guards, known))
        elif isinstance(node, Branches):
            test = known.left_of(node.test)
            if isinstance(test, bool):
                self.visit(node.then if test else node.other, loops, floor, guards, known)
            else:
                depth = len(loops)
                guards = (*guards, depth)
                self.visit(node.then, loops, depth, guards, known.where(test, True))
                self.visit(node.other, loops, depth, guards, known.where(test, False))
        else:
            for one in node.nodes:
                self.visit(one, loops, len(loops), guards, known)

    def _store(
        self,
        store: Store,
        loops: tuple[tuple[int, int, int], ...],
        floor: int,
        guards: tuple[int, ...],
        known: Known,
    ) -> Copied:
        texts = [self._text(k, store.pieces, known) for k in range(len(self._border.axes))]
        left = store.left
        if left is not None and self._hoisted:
            left = self._undecided(left, texts, store.pieces, known)
        extents, nodes, asked = [0] * self._own, [0] * self._own, [False] * self._own
        for loop, extent, number in loops:
            extents[loop] = -1 if extent == self._border.extents[loop] else extent
            nodes[loop] = number
        for axis, _ in left or ():
            for digit in texts[axis].digits:
                if digit.loop < self._own:
                    asked[digit.loop] = True
        counts, weight = self._counted(left, texts)
        border = self._border
        stored: Place = ()
        loaded: Place = ()
        if border.placed:
            stored = tuple([_place(text, 0) for text in texts])
            if left is not None:
                loaded = tuple([_place(texts[axis], by) for axis, by in border.loaded])
        elif known.changes:
            raise NoRuleError  # of the other indices
        return Copied(
            left is not None,
            bool(left),
            tuple(extents),
            tuple(nodes),
            tuple(asked),
            floor,
            guards,
            tuple(counts),
            weight,
            True,
            self._hoisted,
            known.share(),
            stored,
            loaded,
            {str(loop): loop for loop in range(len(border.extents))} if stored else {},
            self._grown,
        )

    def _text(self, number: int, pieces: Sequence[Piece], known: Known) -> _Text:
        axis, digits = self._border.axes[number], known.digits(number)
        constant, added, fixed = axis.base, 0, False
        for digit in digits:
            if digit.loop < self._own and digit.lower == 1 and not digit.upper:
                start, extent = pieces[digit.loop]
                constant += start * digit.scale
                added += start != 0
                fixed = fixed or not extent
        if fixed:
            own, numbers = self._own, [loop for loop, piece in enumerate(pieces) if not piece[1]]
            digits = tuple([d for d in digits if d.loop >= own or d.loop not in numbers])
        return _Text(digits, constant, 0 if self._hoisted else added, fixed)

    def _undecided(
        self,
        left: Sequence[Asked],
        texts: Sequence[_Text],
        pieces: Sequence[Piece],
        known: Known,
    ) -> tuple[Asked, ...] | None:
        """The conditions that simplification leaves; None where one never holds."""
        found = []
        for axis, upper in left:
            text, of = texts[axis], self._border.axes[axis]
            around = known.around[axis]
            _, least, most = around.values
            for digit in text.digits:
                if digit.loop < self._own:
                    whole = digit.lower == 1 and not digit.upper
                    extent = pieces[digit.loop][1] if whole else values_of(self._border, digit)
                    most += digit.scale * (extent - 1)
            limit = ((of.end if upper else of.first) or 0) - text.constant
            holds, fails = (
                (most < limit, least >= limit) if upper else (least >= limit, most < limit)
            )
            if (holds or fails) and around.limits and not around.zero:
                raise NoRuleError  # simplification may find it, or not
            if fails:
                return None
            if holds:
                continue
            if _changed(of, text) and not _stays(text.digits, limit, upper):
                raise NoRuleError
            found.append((axis, upper))
        return tuple(found)

    def _counted(
        self, left: Sequence[Asked] | None, texts: Sequence[_Text]
    ) -> tuple[list[int], float]:
        """The operations of the value, and its instructions besides loads."""
        counts = [0] * NUM_COUNTERS
        if left is None:
            return counts, 1.0
        for axis, by in self._border.loaded:
            text = texts[axis]
            if text.fixed and not self._hoisted:
                raise NoRuleError
            constant = text.constant if self._hoisted else self._border.axes[axis].base
            _count(text, constant + by, counts)
        if not left:
            return counts, 1.0
        weight = 1.0 + self._border.is_float
        for axis, _ in left:
            _count(texts[axis], 0, counts)
            weight += 1 + _operations(texts[axis].digits).instructions + texts[axis].added
        counts[_INT_CMP] += len(left)
        counts[_BOOL_OP] += len(left) - 1
        counts[_FLOAT_CALL if self._border.is_float else _INT_CALL] += 1
        return counts, weight + len(left) - 1


def _count(text: _Text, constant: int, counts: list[int]) -> None:
    """Add the operations of a text with this constant."""
    terms, products, divisions, _ = _operations(text.digits)
    if terms:
        counts[_INT_ADDSUB] += terms - 1 + (constant != 0) + text.added
        counts[_INT_MUL] += products
        counts[_INT_DIVMOD] += divisions


def _place(text: _Text, by: int) -> tuple[int, tuple[tuple[str, int, int, int], ...]]:
    digits = [(str(d.loop), d.lower, d.upper or WHOLE, d.scale) for d in text.digits]
    return text.constant + by, tuple(digits)


def _changed(axis: Axis, text: _Text) -> bool:
    return text.digits != axis.digits or text.constant != axis.base


def _stays(digits: Sequence[Digit], limit: int, upper: bool) -> bool:
    """Whether simplification leaves a comparison of these digits with a limit as it is
    (`padding.plain_counts`), which neither always nor never holds."""
    above = [digit.scale for digit in digits if digit.scale != 1]
    ones = [digit.loop for digit in digits if digit.scale == 1]
    every = gcd(*[digit.scale for digit in digits])
    divided = any(digit.lower > 1 for digit in digits)
    if len(set(above)) < len(above) or len(set(ones)) < len(ones):
        return False
    if len(digits) < 2 and (every != 1 or divided):
        return False
    return gcd(gcd(*above) or 1, limit) == 1
