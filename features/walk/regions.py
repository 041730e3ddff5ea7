"""The region of a buffer that a store touches under each of its loops."""

from __future__ import annotations

from collections.abc import Sequence

from autosched.arith import eval_bound
from autosched.features.walk.scope import Access, Loop
from autosched.tir.expr import Add, Expr, IntImm, Mul, Sub, Var
from autosched.tir.walk import free_vars

Bounds = tuple[int, int]
_INT32 = 1 << 32
_HALF = 1 << 31


class IndexBounds:
    """Bounds of index expressions at each loop level; each expression is evaluated once a store.

    At level i, the loops outside loop i stand at their first iteration; loop i and the loops inside
    it run through all iterations.
    """

    def __init__(self, loops: Sequence[Loop]) -> None:
        self._loops = loops
        self._memo: dict[Expr, list[Bounds]] = {}
        self._levels = {loop.var: i for i, loop in enumerate(loops)}
        self._varying = any(loop.size is not None for loop in loops)
        self._plain = len(self._levels) == len(loops) and not (
            self._varying or any(loop.lets for loop in loops)
        )

    def levels(self, expr: Expr) -> list[Bounds]:
        """(lower, upper) bounds of `expr` at each level from 0 (outermost) to n-1."""
        found = self._memo.get(expr)
        if found is None:
            found = self._affine(expr) if self._plain else None
            if found is None:
                found = self._general(expr)
            self._memo[expr] = found
        return found

    def _affine(self, expr: Expr) -> list[Bounds] | None:
        terms: dict[Var, int] = {}
        constant = _collect(expr, 1, terms)
        if constant is None or not terms.keys() <= self._levels.keys():
            return None
        low = high = constant
        for var, scale in terms.items():
            first, last = self._loops[self._levels[var]].point
            low += scale * (first if scale >= 0 else last)
            high += scale * (last if scale >= 0 else first)
        result: list[Bounds] = [(0, 0)] * len(self._loops)
        for i in range(len(self._loops) - 1, -1, -1):
            loop = self._loops[i]
            scale = terms.get(loop.var, 0)
            if scale > 0:
                low += scale * (loop.span[0] - loop.point[0])
                high += scale * (loop.span[1] - loop.point[1])
            elif scale < 0:
                low += scale * (loop.span[1] - loop.point[1])
                high += scale * (loop.span[0] - loop.point[0])
            result[i] = (low, high)
        return result

    def _general(self, expr: Expr) -> list[Bounds]:
        env: dict[Var, Bounds] = {loop.var: loop.point for loop in self._loops}
        used = free_vars(expr)
        result: list[Bounds] = [(0, 0)] * len(self._loops)
        last: Bounds | None = None
        for i in range(len(self._loops) - 1, -1, -1):
            loop = self._loops[i]
            env[loop.var] = loop.span
            for inner in self._loops[i:]:
                if self._varying:
                    env[inner.var] = inner.span_at(env)
                for var, value in inner.lets:
                    env[var] = eval_bound(value, env)
            if last is None or loop.var in used or not self._plain:
                last = eval_bound(expr, env)
            result[i] = last
        return result


def _collect(expr: Expr, scale: int, terms: dict[Var, int]) -> int | None:
    # A variable that occurs twice is refused: the interval analysis, whose result must be
    # reproduced, treats every occurrence as independent.
    match expr:
        case IntImm(value):
            return scale * value
        case Var():
            if expr in terms:
                return None
            terms[expr] = scale
            return 0
        case Add(a, b) | Sub(a, b):
            left = _collect(a, scale, terms)
            if left is None:
                return None
            right = _collect(b, scale if type(expr) is Add else -scale, terms)
            return None if right is None else left + right
        case Mul(a, IntImm(value)) | Mul(IntImm(value), a):
            return None if value == 0 else _collect(a, scale * value, terms)
    return None


def first_extents(loops: Sequence[Loop]) -> list[int]:
    """The extent of each loop while the loops around it stand at their first iteration."""
    if all(loop.size is None for loop in loops):
        return [loop.extent for loop in loops]
    env = {loop.var: loop.point for loop in loops}
    return [loop.extent_at(env) for loop in loops]


def touch(accesses: Sequence[Access], loops: Sequence[Loop]) -> tuple[list[int], list[list[int]]]:
    """Record what this store touches in the touch table of every enclosing loop.

    Returns the bytes touched per loop, innermost first, and for each access the extents of its
    region at the outermost loop.
    """
    bounds = IndexBounds(loops)
    memory = [0] * len(loops)
    outermost: list[list[int]] = []
    for access in accesses:
        dims = _dimensions(access, bounds)
        eb = access.info.bytes
        extents: list[int] = []
        for i in range(len(loops) - 1, -1, -1):
            extents = [_extent(dim[i]) for dim in dims]
            size = 1
            for extent in extents:
                size *= extent
            size = max(size, 0)
            loops[i].table.setdefault(access.data, []).append((size, eb))
            memory[len(loops) - 1 - i] += size * eb
        outermost.append(extents)
    return memory, outermost


def region_sizes(access: Access, bounds: IndexBounds, count: int) -> list[list[int]]:
    """The extents that `access` covers at levels 0 to `count`, which is a single iteration."""
    dims: list[list[int]] = []
    for levels in _dimensions(access, bounds):
        dim = [high - low + 1 for low, high in levels]
        if dim and (min(dim) < 1 or max(dim) > _HALF):
            dim = [min(max(extent, 1), _HALF) for extent in dim]
        dims.append(dim)
    regions = [list(region) for region in zip(*dims, strict=True)] if dims else [[]] * count
    return [*regions, [1] * len(dims)]


def _dimensions(access: Access, bounds: IndexBounds) -> list[list[Bounds]]:
    """For each dimension, (lower, upper) at each level, over all index tuples of the access."""
    return [
        _union([bounds.levels(index[d]) for index in access.indices])
        for d in range(len(access.indices[0]))
    ]


def _union(levels: list[list[Bounds]]) -> list[Bounds]:
    if len(levels) == 1:
        return levels[0]
    return [
        (min(b[0] for b in at_level), max(b[1] for b in at_level))
        for at_level in zip(*levels, strict=True)
    ]


def _extent(bounds: Bounds) -> int:
    """The extent as an int32, as Ansor truncates it."""
    value = bounds[1] - bounds[0] + 1
    return value if -_HALF <= value < _HALF else (value + _HALF) % _INT32 - _HALF
