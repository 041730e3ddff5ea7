"""The referee on the golden CUDA candidates: its verdicts, its time, and injected faults.

    python benchmarks/referee.py [--workload NAME] [--per-workload N] [--seconds S] [--dtype TYPE]
    python benchmarks/referee.py --mutants 3      # so many of each kind, of one kernel a workload

The first command prints a line for each candidate that passes VerifyGPUCode, then totals; its exit
status is 1 when any does not agree. The second one prints the table of mutants, and each mutant
that was not found.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from autosched.driver import verify_gpu
from autosched.errors import ScheduleError
from autosched.referee.check import Verdict, check_candidate, check_function, lowered
from autosched.referee.mutants import mutants
from autosched.referee.scale_workload import scaled
from autosched.state.steps import Step
from autosched.task import Task

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from kit.golden_lines import candidate_of, golden_candidates


def candidates(
    workload: str | None, most: int | None, dtype: str | None = None
) -> Iterator[tuple[Task, tuple[Step, ...]]]:
    """The golden CUDA candidates that are within the GPU's limits, by setting.

    With `dtype`, the workloads are in that type instead of the recorded one.
    """
    settings: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for line in golden_candidates(target="cuda"):
        settings[line["workload"], json.dumps(line["args"])].append(line)
    for (name, _), lines in settings.items():
        if workload not in (None, name):
            continue
        given = 0
        for line in lines:
            task, steps = candidate_of(line, **({"dtype": dtype} if dtype else {}))
            try:
                verify_gpu(lowered(task, steps)[0], task.target)
            except ScheduleError:
                continue
            yield task, steps
            given += 1
            if given == most:
                break


def check_all(args: argparse.Namespace) -> int:
    """Check every candidate; return the number of candidates that do not agree."""
    verdicts: Counter[str] = Counter()
    proved: Counter[str] = Counter()
    seconds = []
    for task, steps in candidates(args.workload, args.per_workload, args.dtype):
        report = check_candidate(task, steps, seconds=args.seconds)
        verdicts[report.verdict.value] += 1
        seconds.append(report.seconds)
        proved.update(
            f"{p.question}: {'not proved' if p.trouble else 'proved'}" for p in report.proofs
        )
        print(f"{task.name:70} {report}", flush=True)
    print(f"\n{sum(verdicts.values())} candidates: {dict(verdicts)}")
    for question, times in sorted(proved.items()):
        print(f"{question} of {times} kernels")
    print(
        f"seconds: median {np.median(seconds):.2f}, 95% {np.quantile(seconds, 0.95):.2f}, "
        f"largest {max(seconds):.2f}, sum {sum(seconds):.0f}"
    )
    return sum(verdicts.values()) - verdicts[Verdict.AGREES.value]


def check_mutants(args: argparse.Namespace) -> int:
    """Print the table of mutants; return 0, since some mutants mean the same as the kernel."""
    table: Counter[tuple[str, str]] = Counter()
    for task, steps in candidates(args.workload, 1):
        small, small_steps = scaled(task, steps) or (task, steps)
        source, final = lowered(small, small_steps)
        seen: Counter[str] = Counter()
        for mutant in mutants(final):
            seen[mutant.kind] += 1
            if seen[mutant.kind] > args.mutants:
                continue
            report = check_function(small, source, mutant.func, seconds=60, sample=False)
            table[mutant.kind, report.kind or report.verdict.value] += 1
            if report.verdict is Verdict.AGREES:
                print(f"{small.name}: not found: {mutant}", flush=True)
    for (kind, found), count in sorted(table.items()):
        print(f"{kind:30} {found:20} {count:5}")
    return 0


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--workload", help="only this one")
    parser.add_argument("--per-workload", type=int, help="at most so many of a setting")
    parser.add_argument("--seconds", type=float, default=5.0, help="limit of a run")
    parser.add_argument("--dtype", help="in this type, e.g. bfloat16")
    parser.add_argument("--mutants", type=int, default=0, help="so many of each kind")
    args = parser.parse_args()
    failed = check_mutants(args) if args.mutants else check_all(args)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
