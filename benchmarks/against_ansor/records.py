"""Records and workload keys, Ansor's read here and ours read by Ansor.

    python benchmarks/against_ansor/records.py --peer PYTHON [--cases N] [--count N]

A case draws a built-in operator, whose key is its name and arguments or (as for layers of a model)
a hash and shapes, a graph (programs.py, typed_programs.py) or a product whose second operand may be
stored otherwise, a target with options, its host, limits and a layout.

- The peer samples and mutates candidates and writes lines with results of all kinds. Read here,
  they must be the same states as text, with the same results, and be the same lines when written
  again. The hash of the DAG must be the key, also with operands stored as a candidate reads them.
- Candidates of the space `ansor` are drawn here for a target and written as Ansor's lines with
  results of our own. Read by the peer they must be the same states, of the key, limits and layout
  that were meant, with the same times and the number of the error, and be the same lines when it
  writes them again: but for times, of which it keeps six digits.

Known to differ, and no defect: the peer's own additions to targets, such as `-max_num_threads`.
What it folds although it loses NaN, and `max(x, x)`, are in the hash of a graph.
"""

from __future__ import annotations

import json
import random
import sys
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import programs
import states
import typed_programs
from peer import Peer, PeerError, arguments

from autosched import workloads
from autosched.errors import ConfigError, ScheduleError
from autosched.layout import LayoutOption
from autosched.measure import ansor_log
from autosched.measure.result import Failure, MeasureResult
from autosched.measure.workload_keys import Computation, WorkloadKeys
from autosched.search.options import SearchOptions
from autosched.search.space import SearchSpace
from autosched.state.dag import ComputeDAG
from autosched.state.layout_rewrite import rewrite_layout
from autosched.state.steps import Step, steps_from_json
from autosched.target import HardwareParams, Target
from autosched.task import Task

HEAD = "\n".join(
    [
        "from autosched import te",
        *[f"{name} = te.{name}" for name in programs.NAMES if name != "te"],
        "def computation():\n",
    ]
)
"""Of a file that declares a program: names that it uses are te's."""
TARGETS = {
    "cpu": (
        "llvm",
        "llvm -mcpu=skylake-avx512",
        "llvm -mcpu=core-avx2 -num-cores=4 -libs=mkl",
        "llvm -mtriple=aarch64-linux-gnu -mattr=+neon,+dotprod",
    ),
    "cuda": ("cuda -arch=sm_80", "cuda -arch=sm_61 -max_num_threads=512", "nvidia/nvidia-a100"),
}
ADDED = ("-max_num_threads", "-thread_warp_size", "-mtriple", "-arch=sm_50")
"""What the peer adds to a target."""
HOSTS = ("", "", "llvm", "llvm -mcpu=core-avx2")
CPU = (64, 64, 0, 0, 0, 0, 0)
FAILURES = tuple(
    (stage, kind)
    for stage in ("lower", "compile", "load", "run", "check")
    for kind in ("error", "illegal", "timeout", "crash", "wrong_answer", "memory", "lost")
)


PRODUCTS = (
    ("({m}, {k})", "({k}, {n})", "({m}, {n})", "i, j", "A[i, r] * B[r, j]"),
    ("({m}, {k})", "({n}, {k})", "({m}, {n})", "i, j", "A[i, r] * B[j, r]"),
    ("(2, {m}, {k})", "(2, {k}, {n})", "(2, {m}, {n})", "b, i, j", "A[b, i, r] * B[b, r, j]"),
    ("({m} + {k} - 1, 3)", "({k}, 3, {n})", "({m}, {n})", "i, j", "A[i + r, q] * B[r, q, j]"),
)
"""Shapes of A, of B, whose layout is free, and of the result, its axes and what is added up."""


class Differences:
    """What was compared and what differs."""

    def __init__(self, show: int) -> None:
        self.show, self.compared, self.differing = show, 0, 0
        self.where = ""

    def same(self, what: str, ours: Any, theirs: Any) -> bool:
        """Whether the two are equal; the first few that are not are printed."""
        self.compared += 1
        if ours == theirs:
            return True
        self.differing += 1
        if self.differing <= self.show:
            print(f"-- {self.where}: {what}\nours:\n{ours}\ntheirs:\n{theirs}\n", flush=True)
        return False


def main() -> int:
    """Print what differs and a summary; 1 where something does."""
    parser = arguments(__doc__)
    parser.add_argument("--count", type=int, default=6, help="candidates of a case")
    parser.add_argument("--show", type=int, default=5, help="differences to print")
    options = parser.parse_args()
    found = Differences(options.show)
    left = 0
    for seed in range(options.seed, options.seed + options.cases):
        rng = random.Random(seed)
        with Peer(options.peer, "records_worker.py") as peer:
            try:
                case(rng, seed, options.count, peer, found)
            except PeerError as error:
                print(f"{found.where}: not compared: {error}", flush=True)
                left += 1
    print(
        f"{options.cases} cases, {left} of them left out: {found.differing} of "
        f"{found.compared} comparisons differ"
    )
    return 1 if found.differing else 0


def case(rng: random.Random, seed: int, count: int, peer: Peer, found: Differences) -> None:
    """Both directions for one operator or graph."""
    kind = rng.choice(("cpu", "cuda"))
    hardware = states.hardware_of(rng, kind)
    about = {
        "target": rng.choice(TARGETS[kind]),
        "host": rng.choice(HOSTS),
        "hardware": hardware,
        "layout": rng.choice((None, 0, 1, 2)),
    }
    form = rng.choice(("built_in", "built_in", "hashed", "program", "layout"))
    if form == "layout":
        layouts(rng, seed, count, peer, found)
        return
    if form == "program":
        text = rng.choice((programs, typed_programs)).drawn(seed)
        found.where = f"seed {seed}: a program for {about}\n{text}"
        lines = peer.ask(form, text, about, count, seed)
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "declared.py"
            body = "".join(f"    {line}\n" for line in text.splitlines())
            file.write_text(f"{HEAD}{body}    return tensors\n")
            for line in lines:
                task = Task.from_python(f"{file}:computation", target=_target(kind, hardware))
                theirs_read(line, Computation.of("a file", task), task, found)
        return
    name, args = states.arguments_of(rng)
    found.where = f"seed {seed}: {name} {args}, {form}, for {about}"
    named: dict[str, Any] = dict(zip(workloads.get(name).args, args, strict=False))
    try:
        task = Task.from_workload(name, target=_target(kind, hardware), **named)
    except ConfigError as error:  # a window that is all border
        raise PeerError(f"not asked: {error}") from error
    for line in peer.ask(form, name, args, about, count, seed):
        computation = Computation.of("a configuration", task) if form == "hashed" else None
        theirs_read(line, computation, task, found)
    ours_read(rng, task, args, count, peer, found)


def layouts(rng: random.Random, seed: int, count: int, peer: Peer, found: Differences) -> None:
    """Keys of a product whose second operand is stored as its candidates read it."""
    a, b, c, axes, term = rng.choice(PRODUCTS)
    sums = "[r, q]" if "q" in term else "[r]"
    sizes = {name: rng.choice(states.SIZES) for name in "mnk"}
    text = f"""\
A = te.placeholder({a}, name='A')
B = te.placeholder({b}, name='B')
r, q = te.reduce_axis((0, {{k}}), name='r'), te.reduce_axis((0, 3), name='q')
attrs = {{{{'layout_free_placeholders': [B]}}}}
C = te.compute({c}, lambda {axes}: te.sum({term}, axis={sums}), name='C', attrs=attrs)
tensors = [A, B, C]
""".format(**sizes)
    found.where = f"seed {seed}: a layout\n{text}"
    about = {"target": "llvm", "host": "", "hardware": [4, *CPU], "layout": None}
    dag = ComputeDAG(programs.tensors(text))
    for line in peer.ask("rewritten", text, about, count, seed):
        steps = steps_from_json(line["steps"])
        stored = rewrite_layout(dag, steps, LayoutOption.FOR_PRE_TRANSFORMED)
        found.same("key of a layout", stored.dag.hash_key(), line["key"])


def _target(kind: str, hardware: list[int]) -> Target:
    return Target(kind, HardwareParams.from_list(hardware), max(hardware[0], 1))


def theirs_read(
    line: dict[str, Any], computation: Computation | None, task: Task, found: Differences
) -> None:
    """A line of Ansor's, read and written here."""
    keys = WorkloadKeys(other=computation) if computation else None
    try:
        entry, steps, result, when = ansor_log.parse(json.loads(line["line"]), keys)
    except ConfigError as error:
        found.same("a line is refused", str(error), line["line"])
        return
    if computation is not None:
        found.same("hash", task.dag.hash_key(), line["key"])
    try:
        text = task.dag.infer_bound_of(steps).to_str()
    except ScheduleError as error:
        text = str(error)
    found.same("state", text, line["state"])
    seconds = int(np.datetime64(when.removesuffix("+00:00")).astype("datetime64[s]").astype(int))
    found.same("line", ansor_log.format_line(entry, steps, result, seconds), line["line"])


def ours_read(
    rng: random.Random, task: Task, args: list[int], count: int, peer: Peer, found: Differences
) -> None:
    """Lines of ours, read and written by the peer."""
    space = SearchSpace(task, SearchOptions(space="ansor"))
    draw = np.random.default_rng(rng.randrange(1 << 30))
    sampled = space.sample(draw, count)[:count]
    for steps in [*sampled, *[space.mutated(draw, steps) for steps in sampled]]:
        try:
            text = task.dag.infer_bound_of(steps).to_str()
        except ScheduleError:
            continue
        one_of_ours(rng, task, args, steps, text, peer, found)


def one_of_ours(
    rng: random.Random,
    task: Task,
    args: list[int],
    steps: tuple[Step, ...],
    text: str,
    peer: Peer,
    found: Differences,
) -> None:
    """A candidate with a result, as a line."""
    target = replace(task.target, cpu=rng.choice(("", "skylake-avx512", "znver4")))
    if task.target.is_gpu:
        target = replace(task.target, arch=rng.choice(("", "sm_70", "sm_90a")))
    written = replace(task, target=target)
    if task.layout_free and not task.target.is_gpu:
        written = replace(written, layout=rng.choice(list(LayoutOption)))
    result, when = _result(rng), rng.randrange(1 << 31)
    line = ansor_log.format_line(written.to_json(), steps, result, when)
    try:
        read = peer.ask("read", line)
    except PeerError as error:
        found.same("the peer cannot read a line", line, str(error))
        return
    same = found.same
    same("key", [task.workload.to_json()["op"], *args], json.loads(read["key"])[: len(args) + 1])
    same("hardware", task.target.hardware.as_list(), json.loads(read["again"])["i"][0][2])
    same("state", text, read["state"])
    same("error", _error(result), read["error"])
    same("times", list(result.seconds) if result.valid else [1e10], read["costs"])
    same("spent", result.total_seconds, read["spent"])
    same("time", when, read["time"])
    wanted = {"cpu": 1, "cuda": 0}[task.target.kind]
    if written.layout != LayoutOption.NO_REWRITE:
        wanted = int(written.layout)
    same("layout", wanted, read["layout"])
    same("again", _six_digits(line), _six_digits(read["again"]))


def _error(result: MeasureResult) -> int:
    """Ansor's number of an error."""
    if result.failure is None:
        return 0
    stage, kind = result.failure.stage, result.failure.kind
    if kind == "timeout":
        return 6 if stage in ("lower", "compile") else 7
    if (stage, kind) == ("run", "crash"):
        return 8
    if stage == "check":
        return 5 if kind == "wrong_answer" else 8
    return {"lower": 1, "compile": 2, "load": 3, "run": 4}[stage]


def _six_digits(line: str) -> Any:
    """What a line says, its times as Ansor writes them; without what it adds to targets."""
    data = json.loads(line)
    costs, error, spent, when = data["r"]
    data["r"] = [[float(f"{cost:g}") for cost in costs], error, float(f"{spent:g}"), when]
    words = data["i"][0][1].split()
    data["i"][0][1] = [w for w in words if not w.startswith(ADDED)]
    return data


def _result(rng: random.Random) -> MeasureResult:
    seconds = tuple(rng.lognormvariate(-8, 4) for _ in range(rng.randint(1, 24)))
    spent = rng.choice((0.0, 2.0, rng.random() * 100))
    if rng.random() < 0.5:
        return MeasureResult(seconds, total_seconds=spent, checked=rng.random() < 0.5)
    stage, kind = rng.choice(FAILURES)
    return MeasureResult(
        rng.choice(((), seconds)), Failure(stage, kind, "why"), total_seconds=spent
    )


if __name__ == "__main__":
    sys.exit(main())
