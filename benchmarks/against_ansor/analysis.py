"""Sets of integers against Ansor's: solved conditions, values of expressions, regions of loops.

    python benchmarks/against_ansor/analysis.py --peer PYTHON [--cases N] [--weaker N]

A case draws variables with ranges and expressions over them (arithmetic.py), and asks for

- deduce_bound: the values of one variable for which a condition is certain;
- eval_set: the values of an expression while some variables are in their ranges;
- estimate_region_strict_bound, _lower_bound, _upper_bound: what loops access of a tensor.

Wrong is, and ends with exit code 1, what the points of the ranges contradict: a value in the
interval for which the condition fails, a value outside of the set, a box that is not what is
accessed, not inside of it or not around it. Where the peer's answer holds at all these points, and
has more values (deduce_bound, lower), fewer (eval_set, upper), or is there alone (strict), ours is
weaker: these are counted, with the first of each kind printed (`--weaker`: how many).

Known: a condition on part of a loop that is cut into digits (`i // 2` where i < 5), and one loop in
two dimensions, has no strict bound here. TVM takes `truncmod` for never negative, which makes its
sets smaller, at times rightly, and drops values where divisors are 0 or negative; of conditions on
several loops it takes those of which a dimension has one to hold always (`peer wrong`). That it
passes over conditions makes a strict bound rightly, too, where ours is None.
"""

from __future__ import annotations

import itertools
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from arithmetic import Cases, Point, value
from passes_nodes import Reader, Writer
from peer import Peer, PeerError, arguments

from autosched.arith import (
    Analyzer,
    IntSet,
    deduce_bound,
    estimate_region_lower_bound,
    estimate_region_strict_bound,
    estimate_region_upper_bound,
    eval_set,
)
from autosched.tir import expr as E  # noqa: N812
from autosched.tir import op
from autosched.tir.expr import Expr, Range, Var
from autosched.tir.walk import free_vars

FAR = 1 << 40
MOST = 3000
"""Points of all ranges together; cases with more are left out."""
REGIONS = {
    "strict": estimate_region_strict_bound,
    "lower": estimate_region_lower_bound,
    "upper": estimate_region_upper_bound,
}
Ends = tuple[Expr | None, Expr | None]
"""Of an interval; None is no end."""
Loops = Mapping[Var, tuple[int, int]]


def ends_of(found: IntSet) -> Ends | None:
    """None where there is no value."""
    if found.is_nothing:
        return None
    return (
        found.min_value if found.has_lower_bound else None,
        found.max_value if found.has_upper_bound else None,
    )


def read_ends(answer: Any) -> Ends | None:
    """The same of the peer's answer."""
    if answer == 0:
        return None
    low, high = (None if end is None else Reader(end[1]).at(end[0]) for end in answer)
    return low, high


def at(ends: Ends | None, point: Point) -> tuple[int, int]:
    """The interval where the variables that stay have these values; (1, 0) where it is empty."""
    if ends is None:
        return 1, 0
    low = -FAR if ends[0] is None else value(ends[0], point)
    high = FAR if ends[1] is None else value(ends[1], point)
    return (low, high) if low <= high else (1, 0)


def points(loops: Loops) -> Iterator[dict[str, int]]:
    """All values of the variables."""
    ranges = [range(low, low + n) for low, n in loops.values()]
    for values in itertools.product(*ranges):
        yield dict(zip((v.name for v in loops), values, strict=True))


def count(loops: Loops) -> int:
    """How many points there are."""
    total = 1
    for _, n in loops.values():
        total *= n
    return total


class Comparison:
    """What was found so far."""

    def __init__(self, peer: Peer, weaker: int) -> None:
        self.peer, self.shown = peer, weaker
        self.counts: Counter[str] = Counter()
        self.wrong = 0

    def note(self, kind: str, text: str) -> None:
        self.counts[kind] += 1
        if kind.startswith("WRONG"):
            self.wrong += 1
        if kind.startswith("WRONG") or self.counts[kind] <= self.shown:
            print(f"{kind}: {text}", flush=True)

    def case(self, seed: int) -> None:
        """One question of each sort."""
        rng = random.Random(seed)
        cases = Cases(rng, "int32")
        if count(cases.loops) > MOST:
            return
        loops = ", ".join(f"{v.name} in [{a}, {a + n})" for v, (a, n) in cases.loops.items())
        ask: tuple[Callable[[str, random.Random, Cases], None], ...]
        ask = (self.deduce, self.values, self.region)
        for question in ask:
            question(f"seed {seed}, {loops}", rng, cases)

    def parted(self, rng: random.Random, loops: Loops, without: Var | None) -> tuple[Loops, Loops]:
        """Those that have all their values, and those that stay."""
        moving = {v for v in loops if v is not without and rng.random() < 0.7}
        own = {v: r for v, r in loops.items() if v in moving}
        return own, {v: r for v, r in loops.items() if v not in moving and v is not without}

    # -- conditions

    def deduce(self, head: str, rng: random.Random, cases: Cases) -> None:
        """Values for which a condition is certain."""
        condition = cases.condition(2)
        inside = [v for v in cases.loops if v in free_vars(condition)]
        if not inside:
            return
        var = rng.choice(inside)
        relax, stay = self.parted(rng, cases.loops, var)
        head += f": {var.name} of {condition!r}, whatever {', '.join(v.name for v in relax)}"
        sets = {v: _interval(*r) for v, r in cases.loops.items()}
        ours = ends_of(deduce_bound(var, condition, sets, {v: sets[v] for v in relax}))
        low, n = cases.loops[var]
        certain: list[tuple[Point, set[int]]] = []
        for point in points(stay):
            certain.append((point, {
                x
                for x in range(low, low + n)
                if all(value(condition, {**point, var.name: x, **p}) for p in points(relax))
            }))  # fmt: skip

        def taken(ends: Ends | None) -> int | None:
            """How many values an answer has; None where one is not certain."""
            total = 0
            for point, good in certain:
                first, last = at(ends, point)
                values = [x for x in range(low, low + n) if first <= x <= last]
                if not good.issuperset(values):
                    return None
                total += len(values)
            return total

        own = taken(ours)
        if own is None:
            self.note("WRONG deduce_bound", f"{head}: {_text(ours)}")
            return
        writer = Writer()
        rows = {v: writer.row(v) for v in cases.loops}
        root = writer.row(condition)
        hint = [[rows[v], *r] for v, r in cases.loops.items()]
        given = [[rows[v], *r] for v, r in relax.items()]
        theirs = self.asked("deduce", writer.table, root, rows[var], hint, given)
        self.compare("deduce_bound", head, ours, theirs, own, taken, more=True)

    # -- values

    def values(self, head: str, rng: random.Random, cases: Cases) -> None:
        """The values of an expression."""
        e = cases.index(3)
        if isinstance(e, E.IntImm):
            return
        moving, stay = self.parted(rng, cases.loops, None)
        head += f": {e!r} for all {', '.join(v.name for v in moving)}"
        analyzer = Analyzer()
        for v, (first, n) in stay.items():
            analyzer.bind(v, Range(op.const(first), op.const(n)))
        ours = ends_of(eval_set(e, {v: _interval(*r) for v, r in moving.items()}, analyzer))
        reached: list[tuple[Point, int, int]] = []
        for point in points(stay):
            found = [value(e, {**point, **p}) for p in points(moving)]
            reached.append((point, min(found), max(found)))

        def wide(ends: Ends | None) -> int | None:
            """How many values an answer has; None where some value is not among them."""
            total = 0
            for point, least, most in reached:
                first, last = at(ends, point)
                if least < first or most > last:
                    return None
                total += min(last - first, FAR)
            return total

        own = wide(ours)
        if own is None:
            self.note("WRONG eval_set", f"{head}: {_text(ours)}")
            return
        writer = Writer()
        rows = {v: writer.row(v) for v in cases.loops}
        root = writer.row(e)
        own_rows, others = ([[rows[v], *r] for v, r in part.items()] for part in (moving, stay))
        theirs = self.asked("int_set", writer.table, root, own_rows, others)
        self.compare("eval_set", head, ours, theirs, own, wide, more=False)

    def asked(self, *question: Any) -> Any:
        """The peer's interval; its message where it has none."""
        try:
            return read_ends(self.peer.ask(*question))
        except PeerError as error:
            return str(error)

    def compare(
        self, kind: str, head: str, ours: Any, theirs: Any, own: int,
        size: Callable[[Ends | None], int | None], *, more: bool,
    ) -> None:  # fmt: skip
        """Which answer says more."""
        self.counts[f"{kind}: cases"] += 1
        if isinstance(theirs, str):
            self.counts[f"{kind}: peer refused"] += 1
            return
        try:
            other = size(theirs)
        except (KeyError, AssertionError) as error:
            self.note(f"{kind}: peer's answer has no value", f"{head}: {_text(theirs)}: {error!r}")
            return
        if other is None:
            self.counts[f"{kind}: peer wrong"] += 1
        elif other != own:
            weaker = (other > own) == more
            text = f"{head}\n    ours:   {_text(ours)}\n    theirs: {_text(theirs)}"
            self.note(f"{kind}: {'weaker' if weaker else 'stronger'}", text if weaker else head)

    # -- regions

    def region(self, head: str, rng: random.Random, cases: Cases) -> None:
        """What loops access."""
        box = [
            Range(self.place(rng, cases), op.const(rng.choice((1, 1, 1, 2, 4))))
            for _ in range(rng.choice((1, 1, 2, 2, 3)))
        ]
        when = self.predicate(rng, cases)
        head += ": " + ", ".join(f"[{r.min!r}, +{r.extent!r})" for r in box) + f" if {when!r}"
        accessed: set[tuple[int, ...]] = set()
        for point in points(cases.loops):
            if value(when, point):
                starts = [value(r.min, point) for r in box]
                ranges = [range(s, s + r.extent.value) for s, r in zip(starts, box, strict=True)]  # type: ignore[attr-defined]  # constants
                accessed.update(itertools.product(*ranges))
        if not accessed:
            return
        domain = {v: Range(op.const(a), op.const(n)) for v, (a, n) in cases.loops.items()}
        writer = Writer()
        rows = [[writer.row(r.min), writer.row(r.extent)] for r in box]
        condition = writer.row(when)
        ranges_of = [[writer.row(v), *r] for v, r in cases.loops.items()]
        for kind, function in REGIONS.items():
            found = function(box, domain, when)
            ours = None if found is None else [at(ends_of(s), {}) for s in found]
            own = self.judge(kind, ours, accessed)
            if own is None:
                self.note(f"WRONG {kind} region", f"{head}: {ours}")
                continue
            try:
                answer = self.peer.ask("region", kind, writer.table, rows, condition, ranges_of)
                theirs = None if answer is None else [at(read_ends(s), {}) for s in answer]
            except (PeerError, KeyError) as error:
                self.counts[f"{kind} region: peer refused: {type(error).__name__}"] += 1
                continue
            self.counts[f"{kind} region: cases"] += 1
            other = self.judge(kind, theirs, accessed)
            if other is None:
                self.counts[f"{kind} region: peer wrong"] += 1
            elif other != own:
                result = "weaker" if other > own else "stronger"
                self.note(f"{kind} region: {result}", f"{head}: here {ours}, there {theirs}")

    def judge(
        self, kind: str, box: list[tuple[int, int]] | None, accessed: set[tuple[int, ...]]
    ) -> int | None:
        """How much a box says, None where it is not true."""
        if box is None:
            return 0 if kind != "upper" else -FAR
        size = 1
        for low, high in box:
            size *= min(high - low + 1, FAR)
        if kind == "upper":
            around = all(
                low <= x <= high
                for each in accessed
                for x, (low, high) in zip(each, box, strict=True)
            )
            return -size if around else None
        if size > len(accessed):
            return None
        every = itertools.product(*(range(low, high + 1) for low, high in box))
        if not all(each in accessed for each in every):
            return None
        if kind == "strict":
            return 1 if size == len(accessed) else None
        return size

    def place(self, rng: random.Random, cases: Cases) -> Expr:
        """An index as schedules make them."""
        kind = rng.randrange(8)
        if kind < 3:
            return cases.fused()
        if kind < 5:
            part = rng.choice((op.floordiv, op.floormod))
            return part(cases.fused(), abs(_constant(cases.factor())))
        if kind < 7:
            return op.add(rng.choice(list(cases.loops)), cases.constant())
        return cases.index(2)

    def predicate(self, rng: random.Random, cases: Cases) -> Expr:
        """Mostly conditions of splits that do not divide."""
        kind = rng.randrange(6)
        if kind < 2:
            return op.const(True)
        if kind < 5:
            first = op.lt(cases.fused(), rng.choice((3, 5, 10, 20, 50, 100)))
            return first if kind < 4 else op.and_(first, op.ge(cases.fused(), rng.choice((1, 2))))
        return cases.condition(1)


def _constant(e: Any) -> int:
    return int(e.value)


def _interval(low: int, n: int) -> IntSet:
    return IntSet.interval(op.const(low), op.const(low + n - 1))


def _text(ends: Ends | None) -> str:
    return "nothing" if ends is None else f"[{ends[0]!r}, {ends[1]!r}]"


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--weaker", type=int, default=0, help="print so many of each kind")
    options = parser.parse_args()
    with Peer(options.peer, "arithmetic_worker.py") as peer:
        comparison = Comparison(peer, options.weaker)
        for seed in range(options.seed, options.seed + options.cases):
            comparison.case(seed)
    for kind, n in sorted(comparison.counts.items()):
        print(f"{kind} {n}")
    print(f"{options.cases} cases, {comparison.wrong} wrong")
    return bool(comparison.wrong)


if __name__ == "__main__":
    sys.exit(main())
