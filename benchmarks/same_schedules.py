"""The same schedules through autosched's code generator and through others: times and reasons.

    python benchmarks/same_schedules.py tests/golden/ansor_log_conv2d.json [MORE ...]
    python benchmarks/same_schedules.py --plain softmax:128,500 norm_bmn:4,128,128 [MORE ...]
        [--every 1] [--count 32] [--threads 2] [--rounds 12] [--worst 10] [--json OUT]

Builds every candidate of Ansor logs or record files, or `--count` random candidates of a built-in
workload, for this machine. It times them in turns in this process (the least of `--rounds` visits
of a few milliseconds). On a busy machine use one thread, because two wait for each other.

recorded    our time over the recorded time, which other code on another machine may have had;
relative    the same over the median of its file: on another machine than the recorded one, only
            the ratios among each other mean something;
plain       with --plain, our time over that of the same schedule without our own passes (register
            tiles, vectors, invariants) through LLVM's O3, as other compilers of such schedules do.

The worst cases follow, with descriptions of their innermost loops.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import llvmlite.binding as llvm
import numpy as np

from autosched import workloads
from autosched.codegen.llvm import emit_llvm
from autosched.codegen.llvm_compile import assembly, compile_object, machine
from autosched.driver import lower_steps
from autosched.errors import CompileError, ScheduleError
from autosched.measure.records import Record, read_log
from autosched.measure.result import MeasureResult
from autosched.runtime.artifact import CpuArtifact, artifact_of
from autosched.runtime.cpu import aligned_copy, load
from autosched.search.space import SearchSpace
from autosched.state.steps import Step
from autosched.target import Target, cpu_target
from autosched.task import Task
from autosched.te.lowering.to_prim_func import schedule_to_prim_func
from autosched.tir.function import PrimFunc
from autosched.transform.pipeline import GPU_PIPELINE

BEST = 16
VISIT_SECONDS = 3e-3
TOO_SLOW_SECONDS = 0.5
_NOT_FOR_CPU = ("VerifyMemory",)

Work = tuple[dict[str, Any], tuple[Step, ...], Target, bool]
Built = tuple[bytes | None, bytes | None, list[str]]


@dataclass
class Outcome:
    """One candidate: its place in the file, its seconds per call, and notes on its loops."""

    file: str
    number: int
    recorded: float
    ours: float = float("nan")
    plain: float = float("nan")
    relative: float = float("nan")
    reasons: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


# -- building -----------------------------------------------------------------------------------


def _plain_func(task: Task, steps: tuple[Step, ...]) -> PrimFunc:
    """The candidate, lowered without the passes that choose vectors, tiles or places."""
    func = schedule_to_prim_func(*task.dag.apply_steps(steps))
    for transform in GPU_PIPELINE:
        if transform.name not in _NOT_FOR_CPU:
            func = transform(func)
    return func


def _plain_object(func: PrimFunc, target: Target) -> bytes:
    """Object code by LLVM's O3, without a limit of time."""
    module = llvm.parse_assembly(emit_llvm(func, target))
    tm = machine(target)
    module.triple, module.data_layout = llvm.get_process_triple(), str(tm.target_data)
    options = llvm.create_pipeline_tuning_options(speed_level=3)
    options.slp_vectorization = options.loop_vectorization = options.loop_interleaving = True
    builder = llvm.create_pass_builder(tm, options)
    builder.getModulePassManager().run(module, builder)
    return bytes(tm.emit_object(module))


def _build(work: Work) -> Built:
    entry, steps, target, plain = work
    task = Task.from_json(entry)
    try:
        func = lower_steps(task.dag, steps, target)
        text = emit_llvm(func, target)
        ours = artifact_of(func, compile_object(text, target), target.threads).to_bytes()
    except (ScheduleError, CompileError) as error:
        return None, None, [f"refused: {error}"]
    other = None
    if plain:
        func = _plain_func(task, steps)
        other = artifact_of(func, _plain_object(func, target), target.threads).to_bytes()
    return ours, other, reasons(assembly(text, target))


# -- innermost loops -------------------------------------------------------------------------------

_LABEL = re.compile(r"^(\.?[\w.$]+):")
_JUMP = re.compile(r"^\s+j\w+\s+(\S+)")
_FLOAT = re.compile(r"^\s+v(?:fn?m(?:add|sub)\d+|add|sub|mul|max|min|div|sqrt)([sp])[sdh]\s+(.*)")
_SPILL = re.compile(r"^\s+vmov\w+\s+(?:%[xyz]mm\d+, -?\d*\(%rsp\)|-?\d*\(%rsp\), %[xyz]mm)")
_REGISTER = re.compile(r"%([xyz])mm\d+")
_BITS = {"x": 128, "y": 256, "z": 512}


def innermost_loops(text: str) -> Iterator[list[str]]:
    """The lines of each innermost loop of x86 assembly."""
    lines = text.splitlines()
    labels = {m[1]: i for i, line in enumerate(lines) if (m := _LABEL.match(line))}
    jumps = ((i, m[1]) for i, line in enumerate(lines) if (m := _JUMP.match(line)))
    loops = {(labels[to], i) for i, to in jumps if labels.get(to, i) < i}
    for a, b in sorted(loops):
        if not any((a, b) != (c, d) and a <= c and d <= b for c, d in loops):
            yield lines[a : b + 1]


def reasons(text: str) -> list[str]:
    """A line about each innermost loop that computes with floats, the longest loop first."""
    found = []
    for loop in innermost_loops(text):
        floats = [m for line in loop if (m := _FLOAT.match(line))]
        if not floats:
            continue
        vectors = [m for m in floats if m[1] == "p"]
        registers = [r for m in vectors for r in _REGISTER.findall(m[2])]
        bits = max((_BITS[r] for r in registers), default=0)
        parts = [f"{len(loop)} instructions, {len(vectors)} vector operations of {bits} bits"]
        counts = {
            "scalar operations": len(floats) - len(vectors),
            "spills": sum(bool(_SPILL.match(line)) for line in loop),
            "gathers": sum("gather" in line or "scatter" in line for line in loop),
            "divisions": sum("div" in line.split()[0] for line in loop if line.split()),
            "calls": sum("\tcall" in line for line in loop),
        }
        parts += [f"{n} {name}" for name, n in counts.items() if n]
        found.append((len(loop), ", ".join(parts)))
    return [line for _, line in sorted(found, reverse=True)]


# -- timing -------------------------------------------------------------------------------------


def _timer(data: bytes, arrays: Sequence[Any]) -> Callable[[int], int]:
    return load(CpuArtifact.from_bytes(data)).timer(*arrays)


def _time(task: Task, codes: Sequence[bytes | None], rounds: int) -> list[float]:
    """The least seconds per call of each code, measured in turns; NaN for None."""
    outputs = [np.zeros([e.value for e in t.shape], t.dtype.numpy) for t in _outputs(task)]
    arrays = [aligned_copy(a) for a in (*task.inputs(seed=0), *outputs)]
    timers = [None if code is None else _timer(code, arrays) for code in codes]
    least = [float("nan") if t is None else float("inf") for t in timers]
    for visit in range(rounds):
        for k, timer in enumerate(timers):
            if timer is None or (visit and least[k] > TOO_SLOW_SECONDS):
                continue
            once = timer(1) * 1e-9
            calls = max(1, int(VISIT_SECONDS / max(once, 1e-8)))
            least[k] = min(least[k], once, timer(calls) * 1e-9 / calls)
    return least


def _outputs(task: Task) -> Sequence[Any]:
    return task.tensors[-task.num_outputs :]


def compared(
    name: str, records: Sequence[Record], target: Target, plain: bool, rounds: int
) -> list[Outcome]:
    """Build and time the candidates of one workload."""
    work = [(r.task, r.steps, target, plain) for r in records]
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        built = list(pool.map(_build, work, chunksize=2))
    codes = [code for ours, other, _ in built for code in (ours, other)]
    seconds = _time(Task.from_json(records[0].task), codes, rounds)
    found = []
    for k, (record, (_, _, why)) in enumerate(zip(records, built, strict=True)):
        recorded = min(record.result.seconds, default=float("nan"))
        found.append(Outcome(name, k, recorded, seconds[2 * k], seconds[2 * k + 1], reasons=why))
    ratios = [o.ours / o.recorded for o in found]
    for o in found if np.isfinite(ratios).any() else ():
        o.relative = o.ours / o.recorded / float(np.nanmedian(ratios))
    return found


# -- reporting ----------------------------------------------------------------------------------


def _mean(values: Sequence[float]) -> float:
    """The geometric mean of `values`, without those that are NaN."""
    known = [v for v in values if np.isfinite(v)]
    return float(np.exp(np.mean(np.log(known)))) if known else float("nan")


def _report(found: Sequence[Outcome], plain: bool, worst: int) -> None:
    best = sorted(found, key=lambda o: o.recorded if np.isfinite(o.recorded) else o.plain)[:BEST]
    for title, group in (("all", found), (f"the {BEST} fastest", best)):
        line = f"  {title}: {len(group)} candidates, recorded "
        line += f"{_mean([o.ours / o.recorded for o in group]):.2f}"
        if plain:
            ratios = [o.ours / o.plain for o in group]
            line += f", plain {_mean(ratios):.2f}"
            line += f", {sum(r > 1.05 for r in ratios)} take over 1.05 times as long as plain"
        print(line)

    def badness(o: Outcome) -> float:
        value = o.ours / o.plain if plain else o.relative
        return value if np.isfinite(value) else 0.0

    for o in sorted(found, key=badness, reverse=True)[:worst]:
        line = f"  {o.number:4d}: ours {o.ours * 1e3:9.3f} ms, recorded {o.recorded * 1e3:9.3f} ms"
        line += f" (ratio {o.ours / o.recorded:.2f}, relative {o.relative:.2f})"
        if plain:
            line += f", plain {o.plain * 1e3:9.3f} ms (ratio {o.ours / o.plain:.2f})"
        print(line)
        for why in o.reasons[:2]:
            print(f"          {why}")


def _drawn(text: str, target: Target, count: int) -> list[Record]:
    """Random candidates of `op:size,size,...`, as records without times."""
    op, _, sizes = text.partition(":")
    args: dict[str, Any] = dict(
        zip(workloads.get(op).args, map(int, sizes.split(",")), strict=False)
    )
    task = Task.from_workload(op, target=target, **args)
    found = SearchSpace(task).sample(np.random.default_rng(1), count)
    return [Record(task.to_json(), steps, MeasureResult(())) for steps in found[:count]]


def _groups(source: str, target: Target, every: int, count: int) -> Iterator[list[Record]]:
    """The records of a file, grouped by workload, or random candidates."""
    if not Path(source).exists() and ":" in source:
        yield _drawn(source, target, count)
        return
    groups: dict[str, list[Record]] = {}
    for record in read_log(source).records[::every]:
        groups.setdefault(json.dumps(record.task["workload"]), []).append(record)
    yield from groups.values()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("sources", nargs="+", help="logs, or workloads such as softmax:128,500")
    parser.add_argument("--plain", action="store_true", help="compare with LLVM's O3 alone, too")
    parser.add_argument("--every", type=int, default=1, help="take each n-th candidate")
    parser.add_argument("--count", type=int, default=32, help="random candidates of a workload")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=12)
    parser.add_argument("--worst", type=int, default=10)
    parser.add_argument("--json", type=Path, help="write all outcomes to this file")
    arguments = parser.parse_args()
    target = cpu_target(threads=arguments.threads)
    everything = []
    for source in arguments.sources:
        for records in _groups(source, target, arguments.every, arguments.count):
            print(f"{Path(source).name}: {Task.from_json(records[0].task).name}", flush=True)
            found = compared(source, records, target, arguments.plain, arguments.rounds)
            _report(found, arguments.plain, arguments.worst)
            everything += found
    if arguments.json is not None:
        arguments.json.write_text(json.dumps([o.to_json() for o in everything]))


if __name__ == "__main__":
    main()
