"""True strides: how far one iteration of a loop moves an access, in elements."""

from __future__ import annotations

from collections.abc import Sequence

from autosched.arith import eval_bound
from autosched.features.walk.scope import Access, Loop
from autosched.tir.expr import Add, Expr, FloorDiv, FloorMod, IntImm, Mul, Sub, Var
from autosched.tir.linear import combine, linear
from autosched.tir.walk import free_vars

Index = tuple[Expr, ...]


Coefficients = tuple[dict[Var, int], frozenset[Var], int]
"""An index as a linear form: the stride along each variable; the uneven variables, which occur in a
quotient or remainder, so that their stride holds for the first two iterations only; and the
constant part."""

_NONE = frozenset[Var]()


class Strides:
    """Strides of accesses along the loops of one store; each index expression is decomposed once.

    `known` holds the decomposed expressions. The stores of one function, whose loop variables have
    one range each, may share it.

    An affine part of an index contributes its coefficients. A part that is not affine (division,
    remainder) contributes the difference between the first two iterations of a loop, with the other
    loops at their first iteration.
    """

    def __init__(self, loops: Sequence[Loop], known: dict[Expr, Coefficients]) -> None:
        self._loops = loops
        self._known = known

    def along(self, access: Access) -> list[int]:
        """The stride of the first index tuple along each loop, in elements of the storage."""
        return self.of(access.indices[0], access)

    def of(self, index: Index, access: Access) -> list[int]:
        """The stride of the index tuple `index` along each loop, in elements of the storage."""
        total: dict[Var, int] = {}
        scale = 1
        extents = access.info.extents
        for d in range(len(index) - 1, -1, -1):
            for var, value in self.coefficients(index[d])[0].items():
                total[var] = total.get(var, 0) + scale * value
            scale *= extents[d] or 1
        return [total.get(loop.var, 0) for loop in self._loops]

    def constant(self, access: Access) -> int:
        """The constant part of the address of the first index tuple, in elements."""
        total, scale = 0, 1
        index, extents = access.indices[0], access.info.extents
        for d in range(len(index) - 1, -1, -1):
            total += self.coefficients(index[d])[2] * scale
            scale *= extents[d] or 1
        return total

    def uneven(self, access: Access) -> frozenset[Var]:
        """The variables that occur in a quotient or remainder of an index of the access."""
        found = _NONE
        for index in access.indices:
            for e in index:
                uneven = self.coefficients(e)[1]
                if uneven:
                    found |= uneven
        return found

    def coefficients(self, expr: Expr) -> Coefficients:
        """Decompose one index expression."""
        known = self._known.get(expr)
        if known is not None:
            return known
        found: dict[Var, int] = {}
        uneven, constant = _NONE, 0
        match expr:
            case IntImm(value):
                constant = value
            case Var():
                found[expr] = 1
            case Add(a, b) | Sub(a, b):
                one, first, constant = self.coefficients(a)
                other, second, more = self.coefficients(b)
                sign = 1 if type(expr) is Add else -1
                found.update(one)
                _add(found, other, sign)
                uneven = first | second if first or second else _NONE
                constant += sign * more
            case Mul(a, IntImm(value)) | Mul(IntImm(value), a):
                one, uneven, constant = self.coefficients(a)
                _add(found, one, value)
                constant *= value
            case _:
                found = self._differences(expr)
                uneven = free_vars(expr)
        result = self._known[expr] = found, uneven, constant
        return result

    def _differences(self, expr: Expr) -> dict[Var, int]:
        used = free_vars(expr)
        start = {loop.var: (loop.point[0],) * 2 for loop in self._loops}
        before = eval_bound(expr, start)[0]
        return {
            loop.var: eval_bound(expr, {**start, loop.var: (loop.point[0] + 1,) * 2})[0] - before
            for loop in self._loops
            if loop.extent > 1 and loop.var in used
        }


def _add(total: dict[Var, int], more: dict[Var, int], scale: int) -> None:
    for var, value in more.items():
        total[var] = total.get(var, 0) + scale * value


def flat_terms(index: Index, extents: Sequence[int | None]) -> dict[Expr, int]:
    """The address of `index` in storage of these extents, as coefficients of sub-expressions.

    Quotients and remainders that together make up a number are joined to that number:
        (x // 7) * 7 + x % 7                -> x
        x // 4 * 4 + x % 4 // 2 * 2 + x % 2 -> x
    """
    flat: tuple[int, dict[Expr, int]] = 0, {}
    scale = 1
    for d in range(len(index) - 1, -1, -1):
        flat = combine(flat, linear(index[d]), scale)
        scale *= extents[d] or 1
    terms = flat[1]
    if any(isinstance(term, FloorDiv | FloorMod) for term in terms):
        return _whole(terms)
    return terms


def _whole(terms: dict[Expr, int]) -> dict[Expr, int]:
    """Join terms that are adjacent digits (quotients and remainders) of one number."""
    digits: dict[tuple[Expr, int], tuple[int | None, int]] = {}
    rest: tuple[int, dict[Expr, int]] = 0, {}
    for term, factor in terms.items():
        number, low, high = _digits_of(term)
        if (low, high) == (1, None) or (number, low) in digits:
            rest = combine(rest, (0, {term: 1}), factor)
        else:
            digits[number, low] = high, factor
    for number, low in sorted(digits, key=lambda key: -key[1]):
        high, factor = digits[number, low]
        above = None if high is None else digits.get((number, high))
        if high is not None and above is not None and above[1] * low == factor * high:
            del digits[number, high]
            digits[number, low] = above[0], factor
    for (number, low), (high, factor) in digits.items():
        rest = combine(rest, linear(_from_digits(number, low, high)), factor)
    return rest[1]


def _digits_of(e: Expr) -> tuple[Expr, int, int | None]:
    """(x, low, high) such that `e` is (x mod high) // low; high is None without a remainder."""
    match e:
        case FloorDiv(a, IntImm(divisor)) if divisor > 0:
            number, low, high = _digits_of(a)
            return number, low * divisor, high
        case FloorMod(a, IntImm(divisor)) if divisor > 0:
            number, low, high = _digits_of(a)
            if high is None or high % (low * divisor) == 0:
                return number, low, low * divisor
    return e, 1, None


def _from_digits(number: Expr, low: int, high: int | None) -> Expr:
    if high is not None:
        number = FloorMod(number, IntImm(high, number.dtype))
    return number if low == 1 else FloorDiv(number, IntImm(low, number.dtype))
