"""Twenty operators: our best kernel, the time of NumPy or PyTorch, and the limit of the machine.

    python benchmarks/suite.py                                  # tunes, 64 trials each
    python benchmarks/suite.py --records suite --json suite.jsonl
    python benchmarks/suite.py --only softmax layer_norm --records suite
    python benchmarks/suite.py --others --json others.jsonl     # 36 shapes of networks
    python benchmarks/suite.py --chains                         # 18 expressions of several stages
    python benchmarks/suite.py --table suite.jsonl              # nothing is run

The suite has every built-in operator of floats, some also at an awkward size (`--all`: each at
both), and a chain of element-wise stages. With `--others` it has 36 shapes of networks instead, and
with `--chains` layers with the operations between them, attention and functions (suite_chains.py).
The folder `--records` has a record file for each operator. Its best record is replayed; missing
trials are tuned first and appended. Each line goes to `--json` as soon as it is known, so that a
suite can be run in pieces (`--left` runs what the file does not have yet).

Our kernel and its peers are called in turns in this process, with the same number of threads
(`--threads`). In each of `--rounds` turns each is called until it is warm, and then for some
milliseconds. Before that is a pause in which the threads of the previous one fall asleep (those of
OpenBLAS wait for 2**20 cycles instead of 2**26). Within a turn the median of batches of a
millisecond counts. Quotients are taken within a turn, and their median counts: a shared machine may
compute at half its speed for seconds, but then it does so for the whole turn. Results are compared
first. PyTorch (the extra `torch`) runs without gradients, with tensors in the memory order that
suits it, weights arranged beforehand, and batch normalisation folded into the weights; outputs are
given where it has an argument for them. NumPy is left out where it takes over four times as long.

ratio   the time of the fastest peer over ours: above 1 we are faster;
share   the limit over our time, where the limit is the longer of
        flops   the operations that are needed over the measured peak of the machine (multiply-adds
                in registers, measure/peak.py), measured once more in each turn. Multiply-adds that
                also load run at 0.93 of it on a Sapphire Rapids, where they draw more power and
                lower the clock. Those of a convolution's border count as everywhere;
                multiplications with the zeros that a transposed convolution inserts do not count.
                What is no part of a multiply-add (a maximum, a difference) takes its place in the
                core and counts as much, and so does each of the EXP_STEPS instructions of an
                exponential (suite_operators.py). Divisions and roots, of which there is at most one
                for each output, count as one, although they take longer.
        bytes   the time in which as many threads read as many bytes as the inputs have and write as
                many as the outputs have, and nothing else (measure/moving.py). They come from the
                level that holds them when it is done again and again, as it does for the kernel.
                That writing takes more than reading (a line is fetched before it is written)
                is part of it. `read` in the rows of --json is what all these bytes would take
                at the speed of mere reading;
best    the share in the shortest batch of all turns, at the highest peak: what the kernel reaches
        where nothing disturbs it. On a machine that is shared, others on the same core or cache
        slow down what loads by up to a third, and multiply-adds in registers by some hundredths.

The geometric means come at the end. The table names its machine.
"""

from __future__ import annotations

import argparse
import importlib
import json
import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import geometric_mean, median
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np
from suite_chains import CHAINS
from suite_operators import MORE, OTHERS, SUITE, Operator, moved_bytes

import autosched
from autosched.measure.environment import fingerprint
from autosched.measure.moving import seconds_to_move
from autosched.measure.peak import peak_flops
from autosched.measure.records import read_log
from autosched.runtime.cpu import CpuKernel, aligned_copy
from autosched.session.load_best import load_best
from autosched.target import Target, cpu_target
from autosched.task import Task

OURS = "autosched"
_PAUSE_SECONDS = 15e-3
_WARM_SECONDS = 5e-3
_VISIT_SECONDS = 9e-3
_BATCH_SECONDS = 1e-3
_TOO_SLOW = 4
_THREADS_OF_OTHERS = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS")
_SOON_ASLEEP = {"OPENBLAS_THREAD_TIMEOUT": "20"}
_TOLERANCE = 2e-3

Row = dict[str, Any]


# -- one operator ---------------------------------------------------------------------------------


def kernel_of(task: Task, trials: int, records: Path) -> tuple[CpuKernel, int]:
    """The best kernel after at least `trials` candidates, and the number of candidates."""
    known = 0
    if records.exists():
        known = sum(r.task["key"] == task.key for r in read_log(records).records)
    if known < trials:
        autosched.tune(task, trials=trials - known, records=records, progress=False)
        known = trials
    kernel = load_best(records, task)
    assert isinstance(kernel, CpuKernel)
    return kernel, known


def limits(operator: Operator, task: Task, peak: float) -> dict[str, float]:
    """The least seconds for the operations, at `peak` per second, and for moving the bytes.

    `read` is the least time for reading all the bytes.
    """
    reads, writes = moved_bytes(task)
    return {
        "flops": operator.needed_flops(task) / peak,
        "bytes": seconds_to_move(task.target, reads, writes),
        "read": seconds_to_move(task.target, reads + writes, 0),
    }


class Turns(NamedTuple):
    """Seconds per call by name: `times` for each turn, `shortest` for the shortest of all batches.

    `peaks` has the measured peak of the machine for each turn ([] if unknown).
    """

    times: dict[str, list[float]]
    shortest: dict[str, float]
    peaks: list[float]


def in_turns(
    calls: dict[str, Callable[[], Any]], rounds: int, peak: Callable[[], float | None]
) -> Turns:
    """Call each function in every round; peers far slower than the fastest leave after three."""
    peaks: list[float] = []
    times: dict[str, list[float]] = {name: [] for name in calls}
    shortest = dict.fromkeys(calls, math.inf)
    for turn in range(rounds):
        found = peak()
        peaks += [] if found is None else [found]
        fastest = min((min(t) for name, t in times.items() if t and name != OURS), default=0.0)
        for name, call in calls.items():
            if turn > 2 and name != OURS and min(times[name]) > _TOO_SLOW * fastest:
                continue
            time.sleep(_PAUSE_SECONDS)
            once = median(_visit(call, _WARM_SECONDS, 1))
            batches = _visit(call, _VISIT_SECONDS, max(1, int(_BATCH_SECONDS / once)))
            times[name].append(median(batches))
            shortest[name] = min(shortest[name], *batches)
    return Turns(times, shortest, peaks)


def quotient(above: Sequence[float], below: Sequence[float]) -> float:
    """The median of above / below over the turns that have both."""
    return median(a / b for a, b in zip(above, below, strict=False))


def _visit(call: Callable[[], Any], seconds: float, calls: int) -> list[float]:
    """Seconds per call in batches of `calls`; the batches take `seconds` together."""
    batches: list[float] = []
    end = time.perf_counter() + seconds
    while not batches or time.perf_counter() < end:
        start = time.perf_counter()
        for _ in range(calls):
            call()
        batches.append((time.perf_counter() - start) / calls)
    return batches


def peers_of(operator: Operator, task: Task, inputs: Sequence[Any]) -> dict[str, Callable[[], Any]]:
    """The calls of the installed peers, by name."""
    found: dict[str, Callable[[], Any]] = {}
    version = task.workload.numpy_version()
    if version is not None:
        found["NumPy"] = lambda: version.call(inputs)
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        return found
    torch.set_num_threads(task.target.threads)
    tensors = [torch.from_numpy(array) for array in inputs]
    torch.set_grad_enabled(False)
    found["PyTorch"] = operator.torch(torch, tensors, operator.args)
    return found


def measured(operator: Operator, target: Target, trials: int, records: Path, rounds: int) -> Row:
    """Measure one operator; return its line."""
    task = operator.task(target)
    kernel, known = kernel_of(task, trials, records)
    inputs = [aligned_copy(array) for array in task.inputs()]
    (expected,) = task.reference(inputs)
    output = aligned_copy(np.zeros_like(expected))
    calls: dict[str, Callable[[], Any]] = {OURS: kernel.bind(*inputs, output).run}
    calls |= peers_of(operator, task, inputs)
    for name, call in calls.items():
        _compare(name, output if (found := call()) is None else _array(found), expected)
        _visit(call, _VISIT_SECONDS, 1)
    times, fastest, peaks = in_turns(calls, rounds, lambda: peak_flops(target, "float32"))
    needed = limits(operator, task, median(peaks))
    seconds = {name: median(values) for name, values in times.items()}
    ours = seconds.pop(OURS)
    best = min(seconds, key=lambda name: seconds[name]) if seconds else None
    flops = operator.needed_flops(task)
    shortest = [max(flops / peak, needed["bytes"]) for peak in peaks]
    return {
        "operator": operator.name,
        "task": task.name,
        "machine": str(target),
        "cpu": fingerprint()["cpu"],
        "threads": target.threads,
        "trials": known,
        "seconds": ours,
        "peers": seconds,
        "peer": best,
        "ratio": None if best is None else quotient(times[best], times[OURS]),
        "limits": needed,
        "bound": "flops" if needed["flops"] >= needed["bytes"] else "bytes",
        "share": quotient(shortest, times[OURS]),
        "best": min(shortest) / fastest[OURS],
    }


def _array(found: Any) -> Any:
    found = found[0] if isinstance(found, list) else found
    return np.asarray(found)


def _compare(name: str, found: Any, expected: Any) -> None:
    error = np.abs(found.reshape(expected.shape) - expected).max()
    allowed = _TOLERANCE * (1 + np.abs(expected).max())
    if not error <= allowed:
        raise SystemExit(f"suite.py: {name} errs by {error:.2e}, at most {allowed:.2e} is expected")


# -- the table ------------------------------------------------------------------------------------


def table(rows: Sequence[Row]) -> str:
    """The lines of a Markdown table, and the geometric means."""
    lines = [
        "| operator | ours [us] | peer [us] | ratio | limit [us] | bound by | share | best |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        limit = row["share"] * row["seconds"]
        peer = ratio = "-"
        if row["peer"] is not None:
            peer = f"{_us(row['peers'][row['peer']])} {row['peer']}"
            ratio = f"{row['ratio']:.2f}"
        lines.append(
            f"| {row['operator']} | {_us(row['seconds'])} | {peer} | {ratio} | {_us(limit)} | "
            f"{row['bound']} | {row['share']:.2f} | {row['best']:.2f} |"
        )
    if not rows:
        return "\n".join(lines)
    ratios = [row["ratio"] for row in rows if row["ratio"] is not None]
    ratio = f"{geometric_mean(ratios):.2f}" if ratios else "-"
    share, best = (geometric_mean([row[name] for row in rows]) for name in ("share", "best"))
    lines.append(f"| geometric mean of {len(rows)} | | | {ratio} | | | {share:.2f} | {best:.2f} |")
    machines = sorted({f"{row['cpu']}; {row['machine']}" for row in rows})
    return "\n".join([*lines, "", *machines])


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:.{1 if seconds < 1e-4 else 0}f}"


def read_rows(path: Path) -> list[Row]:
    """The last line of each operator, in the order of the suite."""
    rows = {row["operator"]: row for row in map(json.loads, path.read_text().splitlines())}
    order = [operator.name for operator in (*SUITE, *MORE, *OTHERS, *CHAINS)]
    return [rows[name] for name in order if name in rows]


# -- the command ----------------------------------------------------------------------------------


def chosen(
    words: Sequence[str], everything: bool, *, others: bool = False, chains: bool = False
) -> list[Operator]:
    """The operators, in the requested lists, whose names or workloads contain one of the words."""
    usual = [*SUITE, *MORE] if everything or words else SUITE
    known = CHAINS if chains else OTHERS if others else usual
    found = [o for o in known if not words or any(w in f"{o.name} {o.workload}" for w in words)]
    if not found:
        names = ", ".join(repr(o.name) for o in known)
        raise SystemExit(f"suite.py: no operator contains {' or '.join(words)}; there are {names}")
    return found


def _parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", default=[], metavar="TEXT", help="parts of names")
    parser.add_argument("--all", action="store_true", help="the second size of each, too")
    parser.add_argument("--others", action="store_true", help="other shapes that networks have")
    parser.add_argument("--chains", action="store_true", help="expressions of several stages")
    parser.add_argument("--left", action="store_true", help="only what --json does not have yet")
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--threads", type=int, default=None, help="of both sides (default: all)")
    parser.add_argument("--rounds", type=int, default=21)
    parser.add_argument("--records", type=Path, help="folder with a file for each operator")
    parser.add_argument("--json", type=Path, help="file to which each line is appended")
    parser.add_argument("--table", type=Path, help="print what such a file holds; run nothing")
    return parser.parse_args()


def main() -> None:
    options = _parsed()
    if options.table is not None:
        print(table(read_rows(options.table)))
        return
    target = cpu_target(options.threads)
    wanted = {**dict.fromkeys(_THREADS_OF_OTHERS, str(target.threads)), **_SOON_ASLEEP}
    if any(os.environ.get(name) != value for name, value in wanted.items()):
        os.environ.update(wanted)  # these libraries read the variables when they are loaded
        os.execv(sys.executable, [sys.executable, *sys.argv])
    operators = chosen(options.only, options.all, others=options.others, chains=options.chains)
    if options.left and options.json is not None and options.json.exists():
        known = {row["operator"] for row in read_rows(options.json)}
        operators = [operator for operator in operators if operator.name not in known]
    rows = []
    if options.records is not None:
        options.records.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory() as folder:
        for operator in operators:
            records = (options.records or Path(folder)) / operator.file
            row = measured(operator, target, options.trials, records, options.rounds)
            rows.append(row)
            print(table([row]).splitlines()[2], file=sys.stderr, flush=True)
            if options.json is not None:
                with options.json.open("a") as out:
                    out.write(json.dumps(row) + "\n")
    print(table(rows if options.json is None else read_rows(options.json)))


if __name__ == "__main__":
    main()
