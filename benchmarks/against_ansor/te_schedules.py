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
condition on a thread that is elsewhere or is inlined, are refused; the peer refuses what a check of
its own cannot follow; ranges are narrower here where a part is read of a scan or of a second
output; conditions that follow from others are left out. Not compared: loops of a scan that are its
threads, which only the peer lists, and axes of it that are no loops, which only we list.
"""

from __future__ import annotations

import random
import re
import sys
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import programs
import te_programs
from peer import Peer, PeerError, arguments
from te_lines import Lines, alike, fewer_conditions, inside
from te_programs import Scheduled, Step
from te_steps import Draw

from autosched import te
from autosched.driver import build, lower, schedule_ops
from autosched.errors import ScheduleError
from autosched.runtime.cpu import load
from autosched.target import cpu_target
from autosched.te.bounds.infer_bound import infer_bound
from autosched.te.operations.tensor import Tensor
from autosched.te.relations import AttachType
from autosched.tir import interp
from autosched.tir.expr import IntImm

DELIBERATE = (
    r"refused here only: (storage_align|compute_at|compute_inline|set_scope|double_buffer|bind"
    r"|parallel|set_store_predicate|compute_root|split|cache_read):.*(output|placeholder|reduc|scan"
    r"|several outputs|already bound|a opaque axis|own loops|a ordered axis|only te.compute)",
    r"function refused here only:.*(thread|block|fused with a reduction axis|update of a scan"
    r"|has a store predicate)",
    r"build refused here only: InjectDoubleBuffer",
    r"(refused|function refused|build refused) there only",
    r"narrower here|fewer conditions here|double_buffer of a scan",
)
"""Classes of differences where we are as we want to be."""


def made(text: str) -> tuple[list[Tensor], int]:
    """The arguments that the program makes, and how many of them are inputs."""
    names = te_programs.names_for(programs.NAMES)
    exec(text, names)
    return names["tensors"], names["count"]


def ours(scheduled: Scheduled, tensors: Sequence[Tensor]) -> list[Any]:
    """Ranges and lines, as the worker's `bounds`."""
    sch = scheduled.schedule
    normal = sch.normalize()
    found = infer_bound(normal)
    plain, text = Lines(), Lines()
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
            narrower = different and all(inside(a[1:], b[1:]) for _, a, b in different)
            self.note("narrower here" if narrower else "bounds", *different)
            return
        self.counts["bounds equal"] += 1
        a, b = mine[1], theirs[1]
        wrong = [(x, y) for x, y in zip(a, b, strict=False) if not alike(x, y)]
        if wrong or len(a) != len(b):
            what = "fewer conditions here" if fewer_conditions(a, b) else "function"
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
