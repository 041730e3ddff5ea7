"""Tune with candidates that hang, die and spoil their processes, and count what is lost.

    python benchmarks/faults.py [--candidates 500] [--share 0.5] [--seed 0] [--skip-alone]

The back end of tests/kit/faults.py is real up to the point where a candidate misbehaves: real
processes, native code, signals. First each fault is met alone, by one of three candidates; then the
faults are mixed at random. After each run, every candidate must be recorded once. Candidates with a
fault must have a failure of the right stage, kind and message, and all others must be valid and
checked. No process (nor zombie), open file, temporary file or shared memory may be left. Hanging
calls are ended after `--short` seconds and all others get minutes, so that a busy machine changes
nothing. The exit status is 1 if something is wrong.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import random
import statistics
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from kit.faults import FAULTS, GOOD, HARMLESS, Outcome, tuned

NAMES = (*FAULTS, *HARMLESS)


def run(order: Sequence[str], short: float) -> tuple[Outcome, float]:
    """The outcome of one run, and its seconds."""
    start = time.perf_counter()
    with tempfile.TemporaryDirectory() as name, contextlib.redirect_stdout(io.StringIO()):
        outcome = tuned(Path(name).resolve(), order, short)
    return outcome, time.perf_counter() - start


def alone(short: float) -> int:
    """Run with each fault alone; return the number of problems."""
    found = 0
    for name in NAMES:
        outcome, seconds = run([GOOD, name, GOOD], short)
        told = outcome.problems or "as it must be"
        print(f"{name:26} alone: {told} ({seconds:.1f} s)", flush=True)
        found += len(outcome.problems)
    return found


def mixed(order: Sequence[str], short: float) -> int:
    """Run with all faults mixed and print the table; return the number of problems."""
    outcome, seconds = run(order, short)
    groups = defaultdict(list)
    for name, failure, spent in outcome.failures:
        groups[name].append((failure, spent))
    print(f"{'what it does':26} {'dealt':>5} {'records':>7}  {'stage, kind':24} median s")
    for name in (GOOD, *NAMES):
        met = groups.pop(name, [])
        kinds = sorted({f"{f.stage}, {f.kind}" if f else "valid" for f, _ in met})
        spent = statistics.median([s for _, s in met] or [0.0])
        line = f"{name:26} {order.count(name):5} {len(met):7}  {'; '.join(kinds):24} {spent:8.2f}"
        print(line)
    for problem in outcome.problems:
        print(f"  {problem}")
    bad = sum(name in FAULTS for name in order)
    print(
        f"{len(order)} candidates, {bad} of them with faults, in {seconds:.0f} s: "
        f"{len(outcome.problems)} problems",
        flush=True,
    )
    return len(outcome.problems) + len(groups)


def main() -> int:
    """Run with faults alone, mixed, and without faults for comparison; 1 if something was lost."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--candidates", type=int, default=500, help="of the mixed run")
    parser.add_argument("--share", type=float, default=0.5, help="of them that meet a fault")
    parser.add_argument("--short", type=float, default=0.5, help="seconds for what hangs")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--skip-alone", action="store_true", help="the mixed run only")
    options = parser.parse_args()
    print(f"seed {options.seed}")
    problems = 0 if options.skip_alone else alone(options.short)
    rng = random.Random(options.seed)
    count = options.candidates
    order = [rng.choice(NAMES) if rng.random() < options.share else GOOD for _ in range(count)]
    problems += mixed(order, options.short)
    return int(problems > 0)


if __name__ == "__main__":
    sys.exit(main())
