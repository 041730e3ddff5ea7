"""Kill tuning runs and their workers at random moments, and count what is lost.

    python benchmarks/kills.py [--times 50] [--seed 0]

For each kind of kill (the tuner by SIGKILL, by SIGTERM; one of its processes by SIGKILL), `--times`
runs of 24 trials of a small matrix product are started and killed at a random moment: during the
start, shortly after a random number of results is known, or in the race at the end. The run writes
every result to a file of the test before it does anything else with it. Then the run is continued,
and the record file is checked: only whole lines (except for a torn last one), at most one result
missing, no candidate measured twice, no file beside it, no process left. A run whose worker was
killed must end by itself, with every trial recorded and at most one failure. The exit status is 1
if a check fails.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from autosched.measure.journal import SUFFIX
from autosched.measure.records import read_log
from autosched.measure.standing import is_race

TRIALS = 24
HIT = "killed while it ran"
KINDS = ("tuner, SIGKILL", "tuner, SIGTERM", "worker, SIGKILL")
RUN = """
import json, os, sys
from pathlib import Path
from autosched.cli import app
from autosched.measure.journal import RunLog
note = RunLog.note
known = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
def noted(self, record):
    if record.result.seconds or record.result.failure:
        os.write(known, (json.dumps(record.search["state"]) + "\\n").encode())
    note(self, record)
RunLog.note = noted
sys.argv = ["autosched", "tune", *sys.argv[2:]]
app.run()
"""
CONFIG = """
workload: {op: matmul, args: {M: 32, N: 32, K: 32}}
search: {trials: 24, batch: 8, sample_init_min_population: 16, evolutionary_search_population: 16}
measure: {min_repeat_ms: 20, workers: 1}
cost_model: {kind: random}
"""


def started(folder: Path, *options: str) -> subprocess.Popen[str]:
    """Start a run in a folder, without any state from outside of it."""
    return subprocess.Popen(
        [sys.executable, "-c", RUN, str(folder / "known"), "mm.yaml", *options],
        cwd=folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )


def finished(run: subprocess.Popen[str]) -> str:
    """The standard error of a run that has ended."""
    return run.communicate(timeout=300)[1]


def children(pid: int) -> list[int]:
    """The processes that `pid` started and that have not ended."""
    text = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    return [int(word) for word in text.split()]


def problems(folder: Path, before: set[int]) -> Counter[str]:
    """Problems after a kill and the continued run, with their counts."""
    found: Counter[str] = Counter()
    contents = read_log(folder / "mm.jsonl")
    candidates = [record for record in contents.records if not is_race(record)]
    found["lines that cannot be read"] = sum("cut short" not in p for p in contents.problems)
    states = Counter(record.search["state"] for record in candidates)
    found["measured twice"] = sum(n - 1 for n in states.values())
    known = {json.loads(line) for line in (folder / "known").read_text().splitlines()}
    missing = len(known - set(states))
    found["results missing beyond one"] = max(0, missing - 1)
    found["files left"] = len(list(folder.glob("*" + SUFFIX)))
    found["processes left"] = len({pid for pid in before if Path(f"/proc/{pid}").exists()})
    return +found


def wait_for_moment(folder: Path, run: subprocess.Popen[str], rng: random.Random) -> bool:
    """Wait for a random moment of a run; return whether it is still running.

    The moment depends on the number of known results, not on how busy the machine is.
    """
    known, results = folder / "known", rng.randrange(-4, TRIALS + 4)
    while run.poll() is None:
        found = known.read_bytes().count(b"\n") if known.exists() else -1
        if found >= min(results, TRIALS):
            break
        time.sleep(0.005)
    time.sleep(rng.uniform(0, 3 if results < 0 or results > TRIALS else 0.3))
    return run.poll() is None


def tuner_killed(folder: Path, how: signal.Signals, rng: random.Random) -> Counter[str]:
    """End a run by a signal at a random moment, continue it, and return the problems."""
    run = started(folder)
    hit = wait_for_moment(folder, run, rng)
    workers = set(children(run.pid)) if hit else set()
    run.send_signal(how)
    said = finished(run)
    if not (folder / "mm.jsonl").exists():  # killed before it wrote its first line
        return +Counter({"traceback": "Traceback" in said, HIT: hit})
    (folder / "known").touch()
    again = started(folder, "--trials", "2")
    told = finished(again)
    bad = problems(folder, workers)
    bad[HIT] += hit
    bad["traceback"] += "Traceback" in said + told
    bad["exit status of the next run"] += again.returncode != 0
    if how is signal.SIGTERM and run.returncode not in (0, 130, -signal.SIGTERM):
        bad[f"exit status {run.returncode}"] += 1
    return +bad


def worker_killed(folder: Path, rng: random.Random) -> Counter[str]:
    """Kill one of a run's processes at a random moment, let it go on, and return the problems."""
    run = started(folder)
    workers = children(run.pid) if wait_for_moment(folder, run, rng) else []
    if workers:
        os.kill(rng.choice(workers), signal.SIGKILL)
    said = finished(run)
    records = [r for r in read_log(folder / "mm.jsonl").records if not is_race(r)]
    bad = problems(folder, set(workers))
    bad[HIT] += bool(workers)
    bad["trials missing"] += TRIALS - len(records)
    failed = sum(record.result.failure is not None for record in records)
    bad["failures beyond one"] += max(0, failed - 1)
    bad["exit status"] += run.returncode != 0
    bad["traceback"] += "Traceback" in said
    return +bad


def main() -> int:
    """Try all kinds of kills and print the table; 1 if something was lost."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--times", type=int, default=50, help="kills of each kind")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=KINDS)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    print(f"seed {options.seed}")
    lost = False
    for kind in options.kinds:
        total: Counter[str] = Counter()
        for number in range(options.times):
            rng = random.Random(f"{options.seed} {kind} {number}")
            with tempfile.TemporaryDirectory() as name:
                folder = Path(name)
                (folder / "mm.yaml").write_text(CONFIG)
                if kind.startswith("worker"):
                    bad = worker_killed(folder, rng)
                else:
                    how = signal.SIGKILL if "KILL" in kind else signal.SIGTERM
                    bad = tuner_killed(folder, how, rng)
            total[HIT] += bad.pop(HIT, 0)
            if bad:
                print(f"  {kind}, number {number}: {dict(bad)}", flush=True)
            total += bad
        hits = total.pop(HIT, 0)
        lost = lost or bool(total)
        print(
            f"{kind:16} {options.times} times, {hits} of them while it ran: "
            f"{dict(total) or 'nothing lost'}",
            flush=True,
        )
    return int(lost)


if __name__ == "__main__":
    sys.exit(main())
