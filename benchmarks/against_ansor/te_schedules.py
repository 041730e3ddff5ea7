"""Random programs and schedules of te, against TVM's te.

    python benchmarks/against_ansor/te_schedules.py --peer PYTHON [--cases N] [--show]

A case draws a program (te_programs.py) and steps of a schedule. Compared are which steps are
refused, the names of all stages and loops, the ranges that InferBound finds, the function that
ScheduleOps makes (loops, storage, conditions, stores), whether it is built, and what the built
function computes on the CPU; ours is compared with the program without a schedule, too, also where
it is for a GPU. Ranges, indices and conditions are the same where they are for drawn values of all
variables.

Deliberate differences, which are counted and are no failure (`DELIBERATE`): steps without effect
or meaning are refused at once (storage_align of an output, compute_at of a placeholder, a reduction
in parallel, ...); functions whose threads do not share what they need, or whose store has a
condition on a thread that is elsewhere, are refused; the peer refuses what a check of its own
cannot follow; ranges are narrower here where a part is read of a scan or of a second output;
conditions that follow from others are left out. Not compared: loops of a scan that are its
threads, which only the peer lists, and axes of it that are no loops, which only we list.
"""

from __future__ import annotations

import random
import re
import sys
import zlib
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import te_programs
from peer import Peer, PeerError, arguments
from te_programs import Scheduled, Step

from autosched import te
from autosched.driver import build, lower, schedule_ops
from autosched.errors import ScheduleError
from autosched.runtime.cpu import load
from autosched.target import cpu_target
from autosched.te.bounds.infer_bound import infer_bound
from autosched.te.operations.operation import ComputeOp, PlaceholderOp, ScanOp
from autosched.te.operations.tensor import Tensor
from autosched.te.relations import AttachType
from autosched.tir import expr, interp, stmt
from autosched.tir.expr import Expr, IntImm, IterKind, IterVar, Range

OTHERS = {
    "const": te.const,
    "select": te.select,
    "all": te.all,
    "floordiv": te.floordiv,
    "floormod": te.floormod,
}
DELIBERATE = (
    r"refused here only: (storage_align|compute_at|compute_inline|set_scope|double_buffer|bind"
    r"|parallel|set_store_predicate|compute_root|split|cache_read):.*(output|placeholder|reduc|scan"
    r"|several outputs|already bound|a opaque axis|own loops|a ordered axis|only te.compute)",
    r"function refused here only:.*(thread|block|fused with a reduction axis|update of a scan)",
    r"build refused here only: InjectDoubleBuffer",
    r"(refused|function refused|build refused) there only",
    r"narrower here|fewer conditions here|double_buffer of a scan",
)
"""Classes of differences where we are as we want to be."""
FACTORS = (1, 2, 3, 4, 5, 7, 8, 16)


class Text:
    """A function as lines that both sides write alike."""

    def __init__(self) -> None:
        self.names: dict[Any, str] = {}
        self.lines: list[Any] = []

    def name(self, var: expr.Var) -> str:
        return self.names.get(var, "".join(c if c.isalnum() else "_" for c in var.name))

    def bound(self, var: expr.Var) -> None:
        self.names.setdefault(var, f"v{len(self.names)}")

    def expr(self, e: Expr) -> str:
        match e:
            case expr.Min() | expr.Max():
                return f"{e.symbol}({self.all(e.a, e.b)})"
            case expr.Mod():
                return f"({self.expr(e.a)} %% {self.expr(e.b)})"
            case expr.BinaryExpr():
                return f"({self.expr(e.a)} {e.symbol} {self.expr(e.b)})"
            case expr.Not():
                return f"(not {self.expr(e.a)})"
            case expr.IntImm():
                return str(int(e.value))
            case expr.FloatImm():
                return repr(float(e.value))
            case expr.StringImm():
                return repr(e.value)
            case expr.Var():
                return self.name(e)
            case expr.Cast():
                return f"cast({str(e.dtype)!r}, {self.expr(e.value)})"
            case expr.Select():
                return f"ite({self.all(e.condition, e.true_value, e.false_value)})"
            case expr.BufferLoad():
                return f"load({self.all(*e.indices, first=repr(e.buffer.name))})"
            case expr.Call(op="if_then_else"):
                return f"ite({self.all(*e.args)})"
            case expr.Call(op="likely"):
                return f"likely({self.all(*e.args)})"
            case expr.Call():
                return f"call({self.all(*e.args, first=repr(e.op))})"
        return type(e).__name__

    def all(self, *parts: Expr, first: str = "") -> str:
        return ", ".join([*([first] if first else []), *map(self.expr, parts)])

    def ranges(self, bounds: Sequence[Range]) -> list[str]:
        return [self.expr(e) for r in bounds for e in (r.min, r.extent)]

    def stmt(self, s: stmt.Stmt, depth: int = 0) -> None:
        add = self.lines.append
        match s:
            case stmt.SeqStmt():
                for part in s.stmts:
                    self.stmt(part, depth)
            case stmt.For():
                ends = [self.expr(s.min), self.expr(s.extent)]
                self.bound(s.loop_var)
                name = self.name(s.loop_var)
                add([depth, "for", s.kind.value, s.loop_var.name, name, *ends])
                self.stmt(s.body, depth + 1)
            case stmt.IfThenElse():
                add([depth, "if", self.expr(s.condition)])
                self.stmt(s.then_case, depth + 1)
                if s.else_case is not None:
                    add([depth, "else"])
                    self.stmt(s.else_case, depth + 1)
            case stmt.BufferStore():
                value = self.expr(s.value)
                add([depth, "store", s.buffer.name, value, *map(self.expr, s.indices)])
            case stmt.BufferRealize():
                scope = s.buffer.scope or "global"
                add([depth, "realize", s.buffer.name, scope, *self.ranges(s.bounds)])
                self.stmt(s.body, depth + 1)
            case stmt.AttrStmt():
                node = s.node
                about = str(getattr(node, "name", ""))
                if isinstance(node, IterVar):
                    self.bound(node.var)
                    about = node.thread_tag or node.var.name
                value = "" if s.key == "reduce_scope" else self.expr(s.value)
                add([depth, "attr", s.key, "" if s.key == "reduce_scope" else about, value])
                self.stmt(s.body, depth + 1)
            case stmt.LetStmt():
                value = self.expr(s.value)
                self.bound(s.var)
                add([depth, "let", self.name(s.var), value])
                self.stmt(s.body, depth + 1)
            case stmt.AssertStmt():
                add([depth, "assert", self.expr(s.condition)])
                self.stmt(s.body, depth + 1)
            case stmt.Prefetch():
                add([depth, "prefetch", s.buffer.name, *self.ranges(s.bounds)])
            case stmt.Allocate():
                extents = [self.expr(e) for e in s.extents]
                add([depth, "allocate", s.buffer_var.name, str(s.dtype), *extents])
                self.stmt(s.body, depth + 1)
            case stmt.Evaluate():
                add([depth, "evaluate", self.expr(s.value)])
            case _:
                add([depth, type(s).__name__])


class _Numbers(dict[str, Any]):
    """Names of variables as numbers, each its own, for `eval`."""

    def __init__(self, draw: int) -> None:
        super().__init__()
        self.draw = draw

    def __missing__(self, name: str) -> int:
        if name in FUNCTIONS:
            raise KeyError(name)
        number = zlib.crc32(f"{name} {self.draw}".encode())
        return te_programs.N if name == "n" else number % (3, 9, 40)[self.draw % 3]


def _load(name: str, *indices: int) -> int:
    return zlib.crc32(repr((name, *indices)).encode()) % 23 - 5


FUNCTIONS = {
    "load": _load,
    "ite": lambda c, a, b: a if c else b,
    "cast": lambda t, a: a,
    "likely": lambda a: a,
    "call": lambda *a: _load(*a),
    "min": min,
    "max": max,
}


def same(a: str, b: str) -> bool:
    """Whether two expressions have the same values."""
    if a == b:
        return True
    for draw in range(40):
        try:
            names = _Numbers(draw)
            if eval(a, dict(FUNCTIONS), names) != eval(b, dict(FUNCTIONS), names):
                return False
        except (SyntaxError, AttributeError, ArithmeticError):
            return False
    return True


def alike(ours: Sequence[Any], theirs: Sequence[Any]) -> bool:
    """Whether two lines mean the same."""
    if ours == theirs:
        return True
    if len(ours) != len(theirs) or ours[:2] != theirs[:2]:
        return False
    return all(
        a == b or (isinstance(a, str) and isinstance(b, str) and same(a, b))
        for a, b in zip(ours[2:], theirs[2:], strict=True)
    )


class Draw:
    """Steps of one case; those that do not fit are kept aside."""

    def __init__(self, rng: random.Random, scheduled: Scheduled) -> None:
        self.rng, self.scheduled = rng, scheduled
        self.done: list[Step] = []
        self.refused: list[tuple[int, Step, str]] = []
        self.gpu = rng.random() < 0.3

    def some(self, count: int) -> None:
        for _ in range(count):
            step = self.step()
            if step is None:
                continue
            try:
                self.scheduled.apply(step)
                self.done.append(step)
            except ScheduleError as error:
                self.refused.append((len(self.done), step, str(error)))

    def step(self) -> Step | None:
        rng, stages = self.rng, self.scheduled.schedule.stages
        number = rng.randrange(len(stages))
        if isinstance(stages[number].op, PlaceholderOp) and rng.random() < 0.9:
            return None
        stage = stages[number]
        loops = len(self.scheduled.loops(stage))
        kinds = ["split"] * 4 + ["fuse", "reorder", "tile"] + ["compute_at"] * 3
        kinds += ["compute_inline", "cache_read", "cache_write", "rfactor", "rfactor"]
        kinds += ["vectorize", "unroll", "parallel", "set_scope", "double_buffer"]
        kinds += ["storage_align", "prefetch", "pragma", "compute_root"]
        if self.gpu:
            kinds += ["bind"] * 8 + ["set_store_predicate"]
            if isinstance(stage.op, ScanOp):
                kinds += ["env_threads"] * 10
        kind = rng.choice(kinds)
        if len(stages) > 11 and kind in ("cache_read", "cache_write", "rfactor"):
            return None
        loop = rng.randrange(loops) if loops else 0
        if kind in ("split", "fuse", "reorder", "tile", "vectorize", "unroll", "parallel") or (
            kind in ("rfactor", "bind", "prefetch", "pragma")
        ):
            if not loops:
                return None
        if kind == "split":
            if loops > 7:
                return None
            return [
                kind,
                number,
                loop,
                rng.choice(("factor", "factor", "nparts")),
                rng.choice(FACTORS),
            ]
        if kind == "fuse":
            return [kind, number, list(range(loop, min(loops, loop + rng.choice((2, 2, 3)))))]
        if kind == "reorder":
            return [kind, number, rng.sample(range(loops), rng.randrange(1, loops + 1))]
        if kind == "tile":
            return [
                kind,
                number,
                loop,
                rng.randrange(loops),
                rng.choice(FACTORS),
                rng.choice(FACTORS),
            ]
        if kind == "compute_at":
            readers = [
                k
                for k, s in enumerate(stages)
                if any(t in stage.op.outputs for t in s.op.inputs) or rng.random() < 0.02
            ]
            if not readers:
                return None
            parent = rng.choice(readers)
            around = len(self.scheduled.loops(stages[parent]))
            return [kind, number, parent, rng.randrange(around)] if around else None
        if kind == "cache_read":
            if not stage.op.outputs:
                return None
            output = rng.randrange(len(stage.op.outputs))
            tensor = stage.op.outputs[output]
            readers = [k for k, s in enumerate(stages) if tensor in s.op.inputs]
            some = rng.sample(readers, rng.randint(1, len(readers))) if readers else []
            return (
                [kind, number, output, rng.choice(("local", "global", "shared")), some]
                if some
                else None
            )
        if kind == "cache_write":
            return [kind, number, rng.choice(("local", "global")), len(stage.op.outputs)]
        if kind == "rfactor":
            reduced = [
                k for k, v in enumerate(self.scheduled.loops(stage)) if v.kind == IterKind.REDUCE
            ]
            if not reduced or rng.random() < 0.05:
                reduced = [loop]
            return [kind, number, rng.choice(reduced), rng.choice((0, 0, -1, 1))]
        if kind == "bind":
            tags = ("blockIdx.x", "threadIdx.x", "threadIdx.x", "threadIdx.y", "vthread")
            return [kind, number, loop, rng.choice(tags)]
        if kind == "set_scope":
            return [kind, number, rng.choice(("local", "shared", "global", ""))]
        if kind == "storage_align":
            axes = len(getattr(stage.op, "axis", ())) if isinstance(stage.op, ComputeOp) else 0
            if not axes:
                return None
            return [kind, number, rng.randrange(axes), rng.choice((1, 4, 8)), rng.choice((0, 1))]
        if kind == "prefetch":
            if not stage.op.inputs:
                return None
            return [kind, number, rng.randrange(len(stage.op.inputs)), loop, rng.choice((0, 1))]
        if kind == "pragma":
            return [kind, number, loop, "auto_unroll_max_step", 16]
        if kind == "set_store_predicate":
            return [kind, number, "threadIdx.x", rng.choice((1, 2, 8))]
        if kind == "env_threads":
            return [kind, number, "threadIdx.x", rng.choice((4, 8))]
        if kind in ("vectorize", "unroll", "parallel"):
            return [kind, number, loop]
        return [kind, number]


def made(text: str) -> tuple[list[Tensor], int]:
    """The arguments that the program makes, and how many of them are inputs."""
    names = te_programs.names_for(te, OTHERS)
    exec(text, names)
    return names["tensors"], names["count"]


def ours(scheduled: Scheduled, tensors: Sequence[Tensor]) -> list[Any]:
    """Ranges and lines, as the worker's `bounds`."""
    sch = scheduled.schedule
    normal = sch.normalize()
    found = infer_bound(normal)
    plain, text = Text(), Text()
    ranges = []
    for stage in normal.stages:
        if stage.attach_type is AttachType.INLINED:
            continue
        leaves = scheduled.loops(stage)
        axes = [iv for iv in (*stage.all_iter_vars, *leaves) if iv in found]
        rows = [
            [iv.var.name, plain.expr(found[iv].min), plain.expr(found[iv].extent)] for iv in axes
        ]
        ranges.append([stage.op.name, rows])
    func = schedule_ops(sch, tensors)
    text.stmt(func.body)
    return [ranges, text.lines, str(func)]


class Comparison:
    """Counts of what differs, by class, with the first seeds of each."""

    peer: Peer

    def __init__(self, show: bool, counts: Counter[str], seeds: dict[str, list[int]]) -> None:
        self.show, self.counts, self.seeds = show, counts, seeds
        self.seed = 0

    def note(self, what: str, *details: Any) -> None:
        self.counts[what] += 1
        seeds = self.seeds.setdefault(what, [])
        if len(seeds) < 6:
            seeds.append(self.seed)
        if self.show:
            print(f"seed {self.seed}: {what}", *details, sep="\n    ")

    def case(self, peer: Peer, seed: int) -> None:
        """One program and its schedule."""
        self.peer, self.seed = peer, seed
        rng = random.Random(seed)
        text = te_programs.drawn(rng)
        try:
            tensors, count = made(text)
            scheduled = Scheduled(te, [t.op for t in tensors[count:]])
        except (ScheduleError, ValueError) as error:
            self.note("program refused here: " + _class(str(error)), text)
            return
        self.peer.ask("start", text)
        draw = Draw(rng, scheduled)
        draw.some(rng.randrange(0, 14))
        if self.show:
            print(f"---- seed {seed}", text, *draw.done, sep="\n")
        for place, step, message in draw.refused:
            try:
                self.peer.ask("loops", [*draw.done[:place], step])
            except PeerError as error:
                self.counts["refused by both"] += 1
                if self.show:
                    print("refused by both:", message, "|", error)
                continue
            self.note(f"refused here only: {step[0]}: {_class(message)}", step, message)
        try:
            theirs = self.peer.ask("loops", draw.done)
        except PeerError as error:
            self.first_refused(draw.done, error)
            return
        mine = [
            [s.op.name, [v.var.name for v in scheduled.loops(s)]] for s in scheduled.schedule.stages
        ]
        if mine != theirs:
            self.note("loops", mine, theirs)
            return
        self.function(draw, text, tensors, count)

    def first_refused(self, steps: list[Step], error: PeerError) -> None:
        for place in range(1, len(steps) + 1):
            try:
                self.peer.ask("loops", steps[:place])
            except PeerError as found:
                kind = steps[place - 1][0]
                self.note(f"refused there only: {kind}: {_class(str(found))}", steps[place - 1])
                return

    def function(self, draw: Draw, text: str, tensors: list[Tensor], count: int) -> None:
        mine: Any = None
        theirs: Any = None
        why_mine = why_theirs = ""
        try:
            mine = ours(draw.scheduled, tensors)
        except ScheduleError as error:
            why_mine = str(error)
        try:
            theirs = self.peer.ask("bounds", draw.done)
        except PeerError as error:
            why_theirs = str(error)
        if why_mine and why_theirs:
            self.counts["function refused by both"] += 1
            return
        if why_mine:
            self.note("function refused here only: " + _class(why_mine), why_mine)
            return
        if why_theirs:
            self.note("function refused there only: " + _class(why_theirs), why_theirs)
        else:
            self.bounds(mine, theirs)
        self.values(draw, text, tensors, count)

    def bounds(self, mine: Any, theirs: Any) -> None:
        different = [
            (stage, a, b)
            for (stage, rows), (_, others) in zip(mine[0], theirs[0], strict=False)
            for a, b in zip(rows, others, strict=False)
            if not alike(["", "", *a], ["", "", *b])
        ]
        if different or [len(r) for _, r in mine[0]] != [len(r) for _, r in theirs[0]]:
            narrower = different and all(_inside(a[1:], b[1:]) for _, a, b in different)
            self.note("narrower here" if narrower else "bounds", *different)
            return
        self.counts["bounds equal"] += 1
        a, b = mine[1], theirs[1]
        wrong = [(x, y) for x, y in zip(a, b, strict=False) if not alike(x, y)]
        if wrong or len(a) != len(b):
            what = "fewer conditions here" if _fewer_conditions(a, b) else "function"
            doubled = [sum(x[2:3] == ["double_buffer_scope"] for x in lines) for lines in (a, b)]
            what = "double_buffer of a scan" if doubled[0] > doubled[1] else what
            self.note(what, *(wrong[:1] or [(len(a), len(b))]), mine[2], theirs[2])
            return
        self.counts["function equal"] += 1

    def values(self, draw: Draw, text: str, tensors: list[Tensor], count: int) -> None:
        target = cpu_target()
        sch = draw.scheduled.schedule
        numbers = np.random.default_rng(self.seed)
        inputs = []
        for t in tensors[:count]:
            shape = [d.value if isinstance(d, IntImm) else te_programs.N for d in t.shape]
            inputs.append(numbers.integers(-6, 12, shape).astype(t.dtype.numpy))
        plain, _ = made(text)
        want = _run(
            schedule_ops(te.create_schedule([t.op for t in plain[count:]]), plain), plain, inputs
        )
        try:
            found = _run(schedule_ops(sch, tensors), tensors, inputs)
        except ScheduleError as error:
            self.note("interpreter: " + _class(str(error)), error)
            return
        except Exception as error:
            self.note("interpreter: " + _class(repr(error)), repr(error))
            return
        if any(step[0] == "set_store_predicate" for step in draw.done):
            return  # not everything is stored
        if not _equal(want, found):
            self.note("wrong values of our function", schedule_ops(sch, tensors))
            return
        if any(step[0] in ("bind", "env_threads") for step in draw.done):
            return
        why = there = ""
        try:
            kernel = load(build(sch, tensors, target))
            got = _places(tensors, len(inputs))
            kernel(*inputs, *got)
        except ScheduleError as error:
            why = str(error)
        try:
            theirs = self.peer.ask("values", draw.done, [x.tolist() for x in inputs])
        except PeerError as error:
            there = str(error)
        if why and there:
            self.counts["build refused by both"] += 1
        elif why:
            self.note("build refused here only: " + _class(why), why)
        elif there:
            self.note("build refused there only: " + _class(there), there)
        if not why:
            if not _equal(want, got):
                self.note("wrong values of our kernel", lower(sch, tensors, target))
            elif not there and not _equal(want, theirs):
                self.note("wrong values of theirs")
            elif not there:
                self.counts["values equal"] += 1


def _inside(inner: Sequence[str], outer: Sequence[str]) -> bool:
    """Whether one range (first, length) is a part of another, for drawn values."""
    for draw in range(40):
        names = _Numbers(draw)
        low, length = (eval(e, dict(FUNCTIONS), names) for e in inner)
        first, count = (eval(e, dict(FUNCTIONS), names) for e in outer)
        whole = re.fullmatch(r"\d+", outer[0]) and not re.fullmatch(r"\d+", inner[0])
        if length > count or (not whole and not first <= low <= low + length <= first + count):
            return False
    return True


def _fewer_conditions(ours: Sequence[Any], theirs: Sequence[Any]) -> bool:
    """Whether the lines mean the same but for conditions, of which ours are some."""
    plain = [[line[1:] for line in lines if line[1] != "if"] for lines in (ours, theirs)]
    if len(plain[0]) != len(plain[1]) or len(ours) > len(theirs):
        return False
    return all(alike([0, *a], [0, *b]) for a, b in zip(*plain, strict=True))


def _places(tensors: Sequence[Tensor], count: int) -> list[Any]:
    """Arrays for the results."""
    outputs = []
    for t in tensors[count:]:
        shape = [d.value if isinstance(d, IntImm) else te_programs.N for d in t.shape]
        outputs.append(np.zeros(shape, t.dtype.numpy))
    return outputs


def _run(func: Any, tensors: Sequence[Tensor], inputs: Sequence[Any]) -> list[Any]:
    outputs = _places(tensors, len(inputs))
    interp.run(func, [*inputs, *outputs])
    return outputs


def _equal(one: Sequence[Any], other: Sequence[Any]) -> bool:
    return all(
        np.array_equal(np.asarray(a), np.asarray(b)) for a, b in zip(one, other, strict=True)
    )


def _class(message: str) -> str:
    """A message without its names and numbers."""
    text = re.sub(r"\b(\w+: )?stage \S+", "stage", message)
    return re.sub(r"[A-Za-z_]*\d[\w.]*|'[^']*'", "#", text)[:150]


def main() -> int:
    """The comparison; 1 where something differs."""
    parser = arguments(__doc__)
    parser.add_argument("--show", action="store_true", help="everything of each case")
    options = parser.parse_args()
    counts, seeds = Counter[str](), dict[str, list[int]]()
    comparison = Comparison(options.show, counts, seeds)
    todo = list(range(options.seed, options.seed + options.cases))
    while todo:
        with Peer(options.peer, "te_schedules_worker.py") as peer:
            try:
                while todo:
                    comparison.case(peer, todo.pop(0))
            except SystemExit as end:  # another one goes on
                comparison.note("refused there only: the peer ended", end)
    different = {what: n for what, n in counts.items() if what in seeds and not _deliberate(what)}
    for what, count in counts.most_common():
        mark = "DIFFERENT " if what in different else ""
        print(f"{count:5} {mark}{what}", *seeds.get(what, ()))
    print(f"{options.cases} cases, {sum(different.values())} differences that are not deliberate")
    return 1 if different else 0


def _deliberate(what: str) -> bool:
    return any(re.match(pattern, what) for pattern in DELIBERATE)


if __name__ == "__main__":
    sys.exit(main())
