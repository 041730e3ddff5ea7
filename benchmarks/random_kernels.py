"""Check random kernels: candidates of all workloads, expressions, programs, graphs, statements.

    python benchmarks/random_kernels.py                     # 2,000 to 5,000 of each kind
    python benchmarks/random_kernels.py --candidates 300 --expressions 1500 --seed 1
    python benchmarks/random_kernels.py --only graph --seconds 300 --seed 2 --target cuda
    python benchmarks/random_kernels.py --candidates 600 --expressions 600 --gpu

Each kernel is built, run once as a checked run is (with guards around the arguments, and outputs
filled with wrong values) and compared with the reference, which NumPy computes in float64 or exact
integers. Sizes are odd, and types vary.

Programs (`tests/kit/random_programs.py`) have values of all types with one exact result, at NaN,
infinities, subnormals and the limits of integers, in random schedules. Graphs
(`tests/kit/random_graphs.py`, which lists their contents) have stages of any shape, in schedules of
all primitives. Statements (`tests/kit/random_statements.py`) are loops that carry values, given as
text, compared with the interpreter. Programs and graphs with even numbers are compiled for the CPU
and run next to memory without access rights. Those with odd numbers are for a GPU and run in the
interpreter. Statements are for CPUs with this CPU's features, and with some of them.

A table says how many were run, refused by a message, and wrong. The exit status is 1 when any was
wrong, or made the process die or hang. The options that repeat such a kernel (--seed S --repeat
KIND:NUMBER) are printed; the repetition prints its steps and its text, too. With --gpu, candidates
and expressions are compiled for the GPU of this machine and run there.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import count
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from autosched.cpu_cores import hardware_threads
from autosched.driver import build_cuda, build_steps, lower_for_features
from autosched.errors import AutoschedError, CompileError, ConfigError, MeasureError, ScheduleError
from autosched.measure.gpu_runner import GpuRunner
from autosched.measure.result import Failure
from autosched.measure.run import make_handler as make_runner
from autosched.process.worker import Handler, Worker
from autosched.search.options import SearchOptions
from autosched.search.rules import blocking
from autosched.search.space import SearchSpace
from autosched.state.steps import Step
from autosched.target import cpu_target, cuda_target
from autosched.task import Task
from autosched.workloads import WORKLOADS, Workload

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from kit.random_graphs import random_trial, try_graph
from kit.random_programs import Outcome as Tried
from kit.random_programs import try_program
from kit.random_statements import random_statements, try_statements

LIMIT = 120.0
Draw = random.Random
Steps = tuple[Step, ...]
Request = tuple[str, int, int]  # kind, seed and number
Outcome = tuple[str, str, str]  # (group for counting; right, refused or wrong; reason)
COUNTS = {
    "candidate": 2000,
    "expression": 5000,
    "program": 2000,
    "graph": 4000,
    "statement": 4000,
}
TRIED: dict[str, Callable[[int, int, bool], Tried]] = {
    "program": try_program,
    "graph": try_graph,
    "statement": lambda seed, number, gpu: try_statements(seed, number),
}
"""By kind, the function that tries one kernel: (seed, number, for a GPU) to an outcome."""
OF_TENSORS = ("program", "graph")
TARGETS = ("cpu", "cuda")
_WINDOWED = {"H": 13, "W": 13, "L": 20, "D": 7, "CI": 9, "CO": 9, "C": 9, "N": 2, "B": 3}


def workload(draw: Draw) -> dict[str, Any]:
    """A built-in workload with odd sizes and any of its types."""
    name = draw.choice(sorted(WORKLOADS))
    known = WORKLOADS[name]
    windows = "conv" in name or "pool" in name
    types = some_types(draw, known)
    most = 7 if types.get("dtype") == "float16" else 40  # intermediate results round by 5e-4 each
    while True:
        args: dict[str, Any] = {}
        for key, default in known.args.items():
            if key in ("stride", "padding", "dilation"):
                args[key] = draw.choice((0, 1, 2) if key == "padding" else (1, 1, 2, 3))
            elif windows and key in ("K", "KH", "KW"):
                args[key] = draw.randrange(1, 5)
            elif default is None:
                args[key] = draw.randrange(1, _WINDOWED.get(key, 9) if windows else most)
        try:
            known.tensors(**args, **types)
        except ConfigError:  # the window is larger than its image
            continue
        return {"op": name, "args": {**args, **types}}


def some_types(draw: Draw, known: Workload) -> dict[str, str]:
    """One type for everything, or types for some of the inputs, sums and outputs."""
    rules = known.types
    if rules.dtypes and draw.random() < 0.5:
        return {"dtype": draw.choice(rules.dtypes)}
    while True:
        names = [name for name in rules.names if name != "dtype" and draw.random() < 0.6]
        types = {name: draw.choice(rules.allowed(name)) for name in names}
        try:
            rules.resolve(known.name, types)
        except ConfigError:  # the type of the sums cannot hold the summands
            continue
        if types.get("acc_dtype") == "float16" and "int" in types.get("in_dtype", ""):
            continue  # 25 products of 255 and 255 overflow to infinity
        return types


def value(draw: Draw, depth: int, whole: bool, reads: tuple[str, ...]) -> str:
    """A random value over `reads`: of integers, or of floats without discontinuous operations."""
    if depth == 0 or draw.random() < 0.15:
        number = draw.choice((1, 2, 3, -5, 7, 100)) if whole else draw.choice((0.5, 2.0, -1.25, 3))
        return draw.choice((*reads, *reads, str(number)))
    a, b = (value(draw, depth - 1, whole, reads) for _ in range(2))
    read, other = draw.choice(reads), draw.choice(reads)
    shared = [
        *(f"({a} + {b})", f"({a} - {b})", f"({a}) * {read}", f"max({a}, {b})", f"min({a}, {b})"),
        *(f"-({a})", f"({a} if {read} < {other} else {b})", f"where({read} >= 0, {a}, {b})"),
        *(f"clip({a}, -3, 5)", f"abs({a})", f"({a} if i < 3 else {b})"),
    ]
    exact = [
        *(f"({a}) // {draw.choice((2, 3, -3, 7))}", f"({a}) % {draw.choice((2, 3, -3, 7))}"),
        *(f"({a} & {b})", f"({a} | {b})", f"({a} ^ {b})", f"~({a})", f"({a} << {read})"),
        *(f"({a} >> {draw.randrange(5)})", f"int8({a})", f"int16({a})", f"({a}) // {read}"),
    ]
    smooth = [
        *(f"({a}) / (abs({b}) + 1)", f"sqrt(abs({a}))", f"exp(min({a}, 2))", f"tanh({a})"),
        *(f"sigmoid({a})", f"floor({read})", f"sin({read})", f"log(abs({a}) + 1)", f"erf({read})"),
    ]
    return draw.choice(shared + (exact if whole else smooth))


def expression(draw: Draw) -> dict[str, Any]:
    """One or two statements over two matrices and a vector."""
    rows, columns, inner = (draw.randrange(1, 14) for _ in range(3))
    dtype = draw.choice(("int64", "int32", "int8", "uint8", "float64", "float32", "float32"))
    whole = "int" in dtype
    reads = ("A[i, k]", "B[k, j]", "b[j]")
    reducer = draw.choice(("sum", "sum", "max", "min"))
    text = f"C[i, j] = {reducer}(k, {value(draw, draw.randrange(4), whole, reads)} + 0 * A[i, k])"
    text += " + 0 * (B[0, j] + b[j] + A[i, 0])"
    if draw.random() < 0.4:
        text += f"\nD[i, j] = {value(draw, draw.randrange(3), whole, ('C[i, j]', 'b[j]'))}"
        text += " + 0 * (C[i, j] + b[j])"
    shapes = {"A": [rows, inner], "B": [inner, columns], "b": [columns]}
    return {"expr": text, "shapes": shapes, "dtype": dtype}


def dilated(draw: Draw) -> dict[str, Any]:
    """A convolution over an image with zeros between its elements and around it."""
    dims = range(draw.choice((1, 1, 2, 2, 3)))
    sizes = [draw.randrange(1, 6 if len(dims) > 1 else 14) for _ in dims]
    strides, borders = ([draw.randrange(n, 5 - n) for _ in dims] for n in (1, 0))
    spread = [(n - 1) * s + 1 for n, s in zip(sizes, strides)]
    windows = [draw.randrange(1, min(6, n + 2 * b) + 1) for n, b in zip(spread, borders)]
    inner, outer = draw.randrange(1, 6), draw.randrange(1, 18)
    outputs, steps = [f"i{d}" for d in dims], [f"r{d}" for d in dims]
    apart = draw.random() < 0.6
    at = outputs if apart else [f"({i} + {r})" for i, r in zip(outputs, steps)]
    conditions = [
        f"({a} - {b}) % {s} == 0 and {a} >= {b} and {a} < {b + n}"
        for a, b, s, n in zip(at, borders, strides, spread)
    ]
    index = ", ".join(f"({a} - {b}) // {s}" for a, b, s in zip(at, borders, strides))
    image = f"X[{index}, c] if {' and '.join(conditions)} else 0"
    read = ", ".join(f"{i} + {r}" for i, r in zip(outputs, steps))
    factor = f"P[{read}, c]" if apart else f"({image})"
    text = f"Y[{', '.join(outputs)}, o] = sum({', '.join(steps)}, c, "
    text += f"{factor} * K[{', '.join(steps)}, c, o])"
    if apart:
        text = f"P[{', '.join(outputs)}, c] = {image}\n{text}"
    padded = [n + 2 * b for n, b in zip(spread, borders)]
    shapes = {
        "X": [*sizes, inner],
        "K": [*windows, inner, outer],
        "Y": [*(n - k + 1 for n, k in zip(padded, windows)), outer],
        **({"P": [*padded, inner]} if apart else {}),
    }
    return {"expr": text, "shapes": shapes, "dtype": draw.choice(("float32", "float64", "int32"))}


def computation(draw: Draw, kind: str) -> tuple[str, dict[str, Any]]:
    """A random computation as JSON, and the group under which it is counted."""
    if kind == "candidate":
        data = workload(draw)
    else:
        data = dilated(draw) if draw.random() < 0.2 else expression(draw)
    return str(data.get("op") or data["dtype"]), data


def candidate(draw: Draw, task: Task, number: int) -> Steps:
    """A random candidate within the limits of a GPU; no steps if none was drawn."""
    space = SearchSpace(task, SearchOptions(space=draw.choice(("ansor", "autosched"))))
    found = space.sample(
        np.random.default_rng(number), 1, lambda each: [is_legal(task, steps) for steps in each]
    )
    return found[0] if found else ()


def is_legal(task: Task, steps: Steps) -> bool:
    """Whether the candidate is within the limits of a GPU; always for a CPU."""
    try:
        if task.target.is_gpu:
            lower_for_features(task.dag, steps, task.target, ansor_limits=False)
    except ScheduleError:
        return False
    return True


def make_handler() -> Handler:
    """The handler of a process that may die: maps (kind, seed, number) to an outcome."""
    runner = make_runner()
    # so that operands of these sizes are packed, too
    blocking.LEAST_BYTES, blocking.LEAST_REUSE = 0, 1

    def handle(request: Request) -> Outcome:
        kind, seed, number = request
        if kind in TRIED:
            found = TRIED[kind](seed, number, target_of(kind, number) == "cuda")
            return found.group, found.what, found.why
        draw = Draw(f"{seed} {kind} {number}")
        group, data = computation(draw, kind)
        target = cpu_target(threads=draw.choice((1, 2)))
        steps: Steps = ()
        try:
            task = Task.from_json_workload(data, target)
            _ = task.dag
            if kind == "candidate" or draw.random() < 0.3:
                steps = candidate(draw, task, number)
            artifact = build_steps(task.dag, steps, target).to_bytes()
        except (ConfigError, ScheduleError, CompileError) as error:
            return group, "refused", f"{data}: {error}"
        try:
            runner(("drop",))
            runner(("task", task.to_json()))
            runner(("load", 0, artifact))
            runner(("check", 0))
        except AutoschedError as error:
            return group, "wrong", f"{data}: {steps}: {error}"
        return group, "right", ""

    return handle


def target_of(kind: str, number: int) -> str:
    """The target of a request: every other program and graph is for a GPU."""
    return TARGETS[number % 2 if kind in OF_TENSORS else 0]


def built_for_gpu(request: Request, arch: str) -> bytes | Outcome:
    """The artifact of a request, or its outcome if it has none."""
    kind, seed, number = request
    draw = Draw(f"{seed} {kind} {number}")
    group, data = computation(draw, kind)
    try:
        task = Task.from_json_workload(data, cuda_target(arch))
        steps = candidate(draw, task, number)
        if not steps:
            return group, "refused", f"{data}: no candidate was drawn"
        artifact = build_cuda(task.dag, steps, task.target, task.function_name)
    except (ConfigError, ScheduleError, CompileError) as error:
        return group, "refused", f"{data}: {error}"
    return artifact.to_bytes()


def on_cpu(requests: Iterable[Request]) -> Iterator[tuple[Request, Outcome]]:
    """The outcomes of the requests, one after another, from a process that may die."""
    worker = Worker("random_kernels:make_handler")
    try:
        for request in requests:
            try:
                yield request, worker.call(request, LIMIT, "run")
            except MeasureError as error:
                yield request, ("(process)", "wrong", f"{error.kind}: {str(error)[-1500:]}")
    finally:
        worker.stop()


def on_gpu(requests: list[Request]) -> Iterator[tuple[Request, Outcome]]:
    """The outcomes of the requests on the GPU of this machine."""
    gpu = GpuRunner(share=True)
    with ProcessPoolExecutor(hardware_threads(), get_context("spawn")) as pool:
        try:
            arch = "sm_{}{}".format(*gpu.open()["capability"])
            built = pool.map(partial(built_for_gpu, arch=arch), requests)
            for request, found in zip(requests, built, strict=True):
                if not isinstance(found, bytes):
                    yield request, found
                    continue
                kind, seed, number = request
                group, data = computation(Draw(f"{seed} {kind} {number}"), kind)
                task = Task.from_json_workload(data, cuda_target(arch))
                gpu.reference(task)
                failure = gpu.check(task, found)
                wrong = isinstance(failure, Failure)
                yield request, (group, "wrong" if wrong else "right", f"{data}: {failure}")
        finally:
            gpu.close()


def chosen(options: argparse.Namespace) -> Iterator[Request]:
    """The requested number of each kind, or all kinds in turns until the seconds are over."""
    kinds = [k for k in COUNTS if k in options.only and not (options.gpu and k in TRIED)]
    end = time.monotonic() + (options.seconds or 0.0)
    wanted = {kind: getattr(options, f"{kind}s") for kind in kinds}
    if options.seconds is None:
        every = ((kind, number) for kind, most in wanted.items() for number in range(most))
    else:
        every = ((kind, number) for number in count() for kind in kinds if wanted[kind])
    for kind, number in every:
        if options.seconds is not None and time.monotonic() > end:
            return
        if options.gpu or target_of(kind, number) in options.target:
            yield kind, options.seed, number


def repeat(kind: str, seed: int, number: int, gpu: bool) -> None:
    """Run one kernel in this process.

    A graph's steps and program, or the program of statements, are printed first.
    """
    if kind == "graph":
        try:
            print(random_trial(seed, number, target_of(kind, number) == "cuda"))
        except ScheduleError as error:
            print(error)
    elif kind == "statement":
        print(random_statements(random.Random(f"{seed} {number}")).text)
    one = (kind, seed, number)
    print(*(found for _, found in on_gpu([one])) if gpu else make_handler()(one))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for kind, most in COUNTS.items():
        parser.add_argument(f"--{kind}s", type=int, default=most)
    parser.add_argument("--only", nargs="+", choices=COUNTS, default=list(COUNTS), metavar="KIND")
    parser.add_argument("--target", nargs="+", choices=TARGETS, default=TARGETS)
    parser.add_argument("--seconds", type=float, help="all kinds in turns, however many")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--repeat", help="KIND:NUMBER of one, which is run in this process")
    parser.add_argument("--gpu", action="store_true", help="run them on the GPU of this machine")
    options = parser.parse_args()
    if options.repeat:
        kind, _, text = options.repeat.partition(":")
        if kind not in COUNTS or not text.isdecimal():
            parser.error(
                f"--repeat {options.repeat}: expected one of {', '.join(COUNTS)}, :, and a number"
            )
        if options.gpu and kind in TRIED:
            parser.error(f"{kind}s do not run on a GPU: leave out --gpu")
        repeat(kind, options.seed, int(text), options.gpu)
        return 0
    if options.gpu and options.seconds is not None:
        parser.error("--seconds goes without --gpu: say how many")
    counts: dict[tuple[str, str], Counter[str]] = defaultdict(Counter)
    refused: Counter[str] = Counter()
    wrong: list[str] = []
    start = time.perf_counter()
    outcomes = on_gpu(list(chosen(options))) if options.gpu else on_cpu(chosen(options))
    for (kind, seed, number), (group, what, text) in outcomes:
        counts[kind, group][what] += 1
        if what == "wrong":
            wrong.append(f"--seed {seed} --repeat {kind}:{number}: {text}")
            print(wrong[-1], file=sys.stderr, flush=True)
        elif what == "refused":
            refused[text.rpartition(": ")[2][:80]] += 1
    print(f"{'kind':12}{'of':34}{'right':>7}{'refused':>9}{'wrong':>7}")
    for (kind, group), found in sorted(counts.items()):
        print(f"{kind:12}{group:34}{found['right']:7}{found['refused']:9}{found['wrong']:7}")
    total: Counter[str] = sum(counts.values(), Counter())
    print(f"{'all':46}{total['right']:7}{total['refused']:9}{total['wrong']:7}")
    for text, number in refused.most_common(5):
        print(f"refused {number}: {text}")
    print(f"seed {options.seed}, {time.perf_counter() - start:.0f} s")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
