"""Integer arithmetic against Ansor's: simplification, bounds, residues, solving, regions.

    python benchmarks/against_ansor/arithmetic.py --peer PYTHON [--cases N] [--weaker N]

A case draws variables with ranges, an expression over them, in the shapes that schedules and
padding make, and perhaps a condition that holds. Wrong is, and ends with exit code 1, what differs
from evaluation at the points of the ranges: simplified expressions, values outside of bounds and of
residues. That the peer's result is stronger (a constant, fewer nodes, a narrower bound, finer
residues) is counted by kind, with the first of each kind printed (`--weaker`: how many).

Deliberate differences. What is divided by 0 is 0 here and undefined in TVM, which makes 1 of
`i // i`; such cases are counted as `peer wrong, or by 0`. So are those where TVM's result has other
values: it drops a rest that may be negative (`i * 32 + k < 32` with k from -1 on becomes `i < 1`).
"""

from __future__ import annotations

import itertools
import random
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from passes_nodes import Reader, Writer
from peer import Peer, PeerError, arguments

from autosched.arith import Analyzer
from autosched.tir import expr as E  # noqa: N812
from autosched.tir import op
from autosched.tir.expr import Expr, Range, Var

POINTS = 400
EXTENTS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 14, 16, 28, 32)
FACTORS = (2, 2, 3, 4, 4, 5, 6, 7, 8, 8, 9, 12, 14, 16, 28, 32, 49, 64, 98)

Point = Mapping[str, int]
Loops = dict[Var, tuple[int, int]]
"""Of each variable its least value and how many there are."""


def _quotient(x: int, y: int) -> int:
    return 0 if y == 0 else (abs(x) // abs(y) if (x < 0) == (y < 0) else -(abs(x) // abs(y)))


BINARY: dict[type[Expr], Any] = {
    E.Add: lambda x, y: x + y,
    E.Sub: lambda x, y: x - y,
    E.Mul: lambda x, y: x * y,
    E.Div: _quotient,
    E.Mod: lambda x, y: x - y * _quotient(x, y) if y else 0,
    E.FloorDiv: lambda x, y: x // y if y else 0,
    E.FloorMod: lambda x, y: x % y if y else 0,
    E.Min: min,
    E.Max: max,
    E.EQ: lambda x, y: int(x == y),
    E.NE: lambda x, y: int(x != y),
    E.LT: lambda x, y: int(x < y),
    E.LE: lambda x, y: int(x <= y),
    E.GT: lambda x, y: int(x > y),
    E.GE: lambda x, y: int(x >= y),
    E.And: lambda x, y: int(bool(x and y)),
    E.Or: lambda x, y: int(bool(x or y)),
}
CALLS: dict[str, Any] = {
    "likely": lambda x: x,
    "if_then_else": lambda c, x, y: x if c else y,
    "bitwise_and": lambda x, y: x & y,
    "bitwise_or": lambda x, y: x | y,
    "bitwise_xor": lambda x, y: x ^ y,
    "bitwise_not": lambda x: ~x,
    "shift_left": lambda x, y: x << y,
    "shift_right": lambda x, y: x >> y,
}


def value(e: Any, point: Point, lane: int = 0) -> int:
    """The value of a lane; what is divided by 0 is 0."""

    def of(x: Expr) -> int:
        return value(x, point, lane)

    match e:
        case E.IntImm():
            return int(e.value)
        case E.Var():
            return point[e.name]
        case E.BinaryExpr():
            return int(BINARY[type(e)](of(e.a), of(e.b)))
        case E.Not():
            return int(not of(e.a))
        case E.Select():
            return of(e.true_value) if of(e.condition) else of(e.false_value)
        case E.Cast():
            return int(bool(of(e.value))) if e.dtype.is_bool else of(e.value)
        case E.Ramp():
            return of(e.base) + of(e.stride) * lane
        case E.Broadcast():
            return of(e.value)
        case E.Let():
            return value(e.body, {**point, e.var.name: of(e.value)}, lane)
        case E.Call():
            return int(CALLS[e.op](*map(of, e.args)))
    raise AssertionError(f"no value of {e!r}")


def size(e: Any) -> int:
    """How many nodes it has."""
    return 1 + sum(map(size, e.children()))


class Cases:
    """Random expressions over `loops`."""

    def __init__(self, rng: random.Random, dtype: str) -> None:
        self.rng, self.dtype = rng, dtype
        self.loops: Loops = {}
        for name in "ijkv"[: rng.randint(1, 4)]:
            low = rng.choice((0, 0, 0, 0, 0, -1, 1, 3, -7))
            self.loops[Var(name, dtype)] = low, rng.choice(EXTENTS)

    def constant(self) -> Expr:
        return op.const(self.rng.choice((0, 1, 1, 2, 3, -1, -2, 5, *FACTORS)), self.dtype)

    def factor(self) -> Expr:
        sign = -1 if self.rng.random() < 0.06 else 1
        return op.const(self.rng.choice(FACTORS) * sign, self.dtype)

    def fused(self) -> Expr:
        """A sum that loops nested in each other make, each split by the length of the next."""
        loops = list(self.loops.items())
        self.rng.shuffle(loops)
        index: Expr = loops[0][0]
        for var, (_, extent) in loops[1 : self.rng.randint(1, len(loops))]:
            by = extent if self.rng.random() < 0.75 else self.rng.choice(FACTORS)
            index = op.add(op.mul(index, by), var)
        return index

    def index(self, depth: int) -> Expr:
        rng = self.rng
        if depth <= 0:
            return rng.choice(list(self.loops)) if rng.random() < 0.8 else self.constant()
        kind = rng.randrange(24)
        if kind < 5:
            return self.fused()
        a = self.index(depth - 1)
        if kind < 9:
            return op.floordiv(a, self.factor())
        if kind < 13:
            return op.floormod(a, self.factor())
        if kind < 15:
            return op.mul(a, self.factor())
        if kind < 16:
            return rng.choice((op.truncdiv, op.truncmod))(a, self.factor())
        if kind < 19:
            return op.add(a, self.index(depth - 1))
        if kind < 20:
            return op.sub(a, self.index(depth - 1))
        if kind < 21:
            return rng.choice((op.min_, op.max_))(a, self.index(depth - 1))
        if kind < 22:
            branch = rng.choice((op.select, op.if_then_else))
            return branch(self.condition(depth - 1), a, self.index(depth - 1))
        if kind < 23:
            return op.add(a, self.constant())
        other = self.index(depth - 2)
        kinds = (op.floordiv, op.floormod, op.mul, op.bitwise_and, op.bitwise_xor, op.bitwise_or)
        do = rng.choice(kinds)
        if do in (op.floordiv, op.floormod) and isinstance(other, E.IntImm) and other.value == 0:
            return a
        return do(a, other)

    def condition(self, depth: int) -> Expr:
        rng = self.rng
        kind = rng.randrange(12)
        if depth > 0 and kind < 4:
            both = rng.choice((op.and_, op.and_, op.or_))
            return both(self.condition(depth - 1), self.condition(depth - 1))
        if depth > 0 and kind == 4:
            return op.not_(self.condition(depth - 1))
        compare = rng.choice((op.lt, op.lt, op.lt, op.le, op.gt, op.ge, op.ge, op.eq, op.ne))
        right = self.constant() if rng.random() < 0.6 else self.index(depth - 1)
        return compare(self.index(depth), right)

    def vector(self) -> Expr:
        rng, lanes = self.rng, self.rng.choice((2, 4, 8))
        var = rng.choice(list(self.loops))
        scaled = op.mul(var, rng.choice((1, lanes, lanes, 3)))
        a: Expr = E.Ramp(scaled, op.const(rng.choice((1, 1, 2, 3, -1)), self.dtype), lanes)
        for _ in range(rng.randint(1, 3)):
            other = self.factor() if rng.random() < 0.7 else self.index(1)
            do = rng.choice((op.add, op.mul, op.floordiv, op.floormod, op.sub, op.min_, op.max_))
            a = do(a, E.Broadcast(other, lanes))
        if rng.random() < 0.3:
            compare = rng.choice((op.lt, op.ge, op.eq))
            a = compare(a, E.Broadcast(self.constant(), lanes))
        return a

    def points(self) -> Iterator[dict[str, int]]:
        ranges = [range(low, low + n) for low, n in self.loops.values()]
        names = [v.name for v in self.loops]
        total = 1
        for r in ranges:
            total *= len(r)
        if total <= POINTS:
            for values in itertools.product(*ranges):
                yield dict(zip(names, values, strict=True))
        else:
            for _ in range(POINTS):
                yield {n: self.rng.choice(r) for n, r in zip(names, ranges, strict=True)}

    def agree(self, a: Expr, b: Expr, given: Expr | None) -> bool:
        """Whether both have the same values where `given` holds."""
        lanes = range(b.dtype.lanes)
        return all(
            value(a, p, lane) == value(b, p, lane)
            for p in self.points()
            if given is None or value(given, p)
            for lane in lanes
        )


class Comparison:
    """What was found so far."""

    def __init__(self, peer: Peer, weaker: int) -> None:
        self.peer, self.shown = peer, weaker
        self.wrong: list[str] = []
        self.counts: Counter[str] = Counter()

    def bad(self, text: str) -> None:
        self.wrong.append(text)
        print(f"WRONG {text}")

    def note(self, kind: str, text: str) -> None:
        self.counts[kind] += 1
        if self.counts[kind] <= self.shown:
            print(f"{kind}: {text}")

    def case(self, seed: int) -> None:
        rng = random.Random(seed)
        cases = Cases(rng, rng.choice(("int32", "int32", "int32", "int64")))
        kind = rng.randrange(8)
        e = cases.vector() if kind == 0 else cases.condition(3) if kind < 3 else cases.index(4)
        given = cases.condition(1) if rng.random() < 0.4 else None
        if isinstance(e, E.IntImm) or (given is not None and isinstance(given, E.IntImm)):
            return
        points = [p for p in cases.points() if given is None or value(given, p)]
        loops = ", ".join(f"{v.name} in [{a}, {a + n})" for v, (a, n) in cases.loops.items())
        head = f"seed {seed}: {e!r} with {loops}" + (f" if {given!r}" if given is not None else "")
        if not points:
            return
        lanes = e.dtype.lanes
        values = [[value(e, p, lane) for lane in range(lanes)] for p in points]
        flat = {x for v in values for x in v}
        found: dict[str, Expr] = {}
        for name, as_ansor in (("simple", False), ("as_ansor", True)):
            analyzer = Analyzer(as_ansor)
            for var, (low, n) in cases.loops.items():
                analyzer.bind(var, Range(op.const(low, var.dtype), op.const(n, var.dtype)))
            entered = () if given is None else analyzer.enter(given)
            bound, residues = analyzer.const_int_bound(e), analyzer.modular_set(e)
            found[name] = analyzer.simplify(e)
            if name == "simple":
                found["canonical"] = analyzer.canonical_simplify(e)
                found["rewrite"] = analyzer.rewrite_simplify(e)
            else:
                found["as_ansor"] = found[name]
            analyzer.leave(entered)
        for name, result in found.items():
            for point, expected in zip(points, values, strict=True):
                if [value(result, point, lane) for lane in range(lanes)] != expected:
                    self.bad(f"{name} {head}: {result!r}, at {point}")
                    break
        if min(flat) < bound[0] or max(flat) > bound[1]:
            self.bad(f"bound {head}: {bound}, but {min(flat)}..{max(flat)}")
        coeff, base = residues
        if any(x != base if coeff == 0 else x % coeff != base for x in flat):
            self.bad(f"residues {head}: {residues}")
        self.against(head, cases, e, given, found, bound, residues, flat)

    def against(
        self, head: str, cases: Cases, e: Expr, given: Any, found: Any, bound: Any, residues: Any,
        flat: set[int],
    ) -> None:  # fmt: skip
        writer = Writer()
        root, when = writer.row(e), writer.row(given)
        ranges = [[writer.row(v), *r] for v, r in cases.loops.items()]
        try:
            peer = self.peer.ask("analyse", writer.table, root, when, ranges)
        except PeerError as error:
            self.note("peer refused", f"{head}: {error}")
            return
        row, table = peer["simple"]
        theirs = Reader(table).at(row)
        self.counts["cases"] += 1
        ours = found["simple"]
        if repr(theirs) == repr(found["as_ansor"]):
            self.counts["same text"] += 1
        if not cases.agree(theirs, e, given):
            self.counts["peer wrong, or by 0"] += 1
            return
        mine, other = size(ours), size(theirs)
        outcome = f"{head}\n    ours:   {ours!r}\n    theirs: {theirs!r}"
        if isinstance(theirs, E.IntImm) and not isinstance(ours, E.IntImm):
            constant = "truth" if e.dtype.is_bool else "constant"
            if flat == {theirs.value}:
                self.note(f"weaker: {constant}", outcome)
        elif other < mine:
            self.note("weaker: shorter" + (" vector" if e.dtype.lanes > 1 else ""), outcome)
        elif mine < other:
            self.counts["stronger: shorter"] += 1
        if "bound" not in peer or e.dtype.is_bool:
            return
        low, high = peer["bound"]
        if (low > bound[0] or high < bound[1]) and low <= min(flat) and high >= max(flat):
            self.note("weaker: bound", f"{head}: {tuple(bound)}, theirs {low, high}")
        coeff, base = peer["residues"]
        sound = all(x == base if coeff == 0 else (x - base) % coeff == 0 for x in flat)
        if sound and (residues[0] != 0) and (coeff == 0 or abs(coeff) > residues[0]):
            self.note("weaker: residues", f"{head}: {tuple(residues)}, theirs {coeff, base}")


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--weaker", type=int, default=0, help="print so many of each kind")
    options = parser.parse_args()
    with Peer(options.peer, "arithmetic_worker.py") as peer:
        comparison = Comparison(peer, options.weaker)
        for seed in range(options.seed, options.seed + options.cases):
            comparison.case(seed)
    counts = ", ".join(f"{kind}: {n}" for kind, n in sorted(comparison.counts.items()))
    print(f"{options.cases} cases, {len(comparison.wrong)} wrong; {counts}")
    return bool(comparison.wrong)


if __name__ == "__main__":
    sys.exit(main())
