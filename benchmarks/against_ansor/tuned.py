"""The same number of trials by Ansor and by autosched: what they take, and the kernels they find.

    python benchmarks/against_ansor/tuned.py --peer PYTHON [--trials 64] [--only TEXT...]

Both tune the operators of benchmarks/suite.py that Ansor's te can write (built_ins.py), one after
the other, with the same number of threads and as their documentation says; the seed is `--seed`.
Then the two best kernels are called in turns, each in its own process and in a native loop after a
call that is not timed, and the median of the quotients of `--turns` turns counts. A third kernel is
Ansor's best schedule, read from its log and built by autosched: what is due to the search, and what
to the code that is made of a schedule (compiled.py). Each line goes to `--json` as soon as it is
known; `--left` runs what that file does not have.

tuning    seconds from the start of the search to its end, of each; autosched begins with the cost
          model that it is shipped with, Ansor with none, which is what their users get;
kernel    Ansor's time over ours: above 1 we are faster;
replayed  Ansor's time over that of its schedule as autosched builds it.
"""

from __future__ import annotations

import json
import tempfile
import time
import warnings
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

import kernels
from peer import Peer, arguments
from suite_operators import Operator

import autosched
from autosched.measure.environment import fingerprint
from autosched.session.load_best import load_best
from autosched.target import cpu_target

Row = dict[str, Any]


def main() -> None:
    """Print the table."""
    parser = arguments(__doc__)
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--turns", type=int, default=15)
    parser.add_argument("--only", nargs="+", default=[], metavar="TEXT", help="parts of names")
    parser.add_argument("--threads", type=int, default=None, help="of both sides (default: all)")
    parser.add_argument("--json", type=Path, help="file to which each line is appended")
    parser.add_argument("--left", action="store_true", help="only what --json does not have yet")
    options = parser.parse_args()
    rows: list[Row] = []
    if options.left and options.json is not None and options.json.exists():
        rows = [json.loads(line) for line in options.json.read_text().splitlines()]
    known = {row["operator"] for row in rows}
    for operator in kernels.operators(options.only):
        if operator.name in known:
            continue
        row = compared(operator, options)
        rows.append(row)
        print(line_of(row), flush=True)
        if options.json is not None:
            with options.json.open("a") as file:
                print(json.dumps(row), file=file)
    print(table(rows))


def compared(operator: Operator, options: Any) -> Row:
    """What both make of an operator."""
    target = cpu_target(options.threads)
    task = operator.task(target)
    with (
        tempfile.TemporaryDirectory() as folder,
        Peer(options.peer, "kernels_worker.py", str(target.threads)) as peer,
    ):
        log, records = Path(folder) / "ansor.json", Path(folder) / "records.jsonl"
        settings: dict[str, Any] = {"trials": options.trials, "seed": options.seed}
        about = kernels.question(operator, target)
        peer_seconds, failed = peer.ask("tune", *about, *settings.values(), str(log))
        start = time.perf_counter()
        autosched.tune(task, records=records, progress=False, **settings)
        seconds = time.perf_counter() - start
        theirs = kernels.of_peer(peer)
        ours = kernels.of_ours(load_best(records, task), task)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Ansor's log names another CPU
            replayed = kernels.of_ours(load_best(log), task)
        found = [(theirs(), ours(), replayed()) for _ in range(options.turns)]
    return {
        "operator": operator.name,
        "cpu": fingerprint()["cpu"],
        "threads": target.threads,
        "trials": options.trials,
        "failed": failed,
        "tuning": [peer_seconds, seconds],
        "seconds": [median(times) for times in zip(*found, strict=True)],
        "kernel": median(peers / own for peers, own, _ in found),
        "replayed": median(peers / again for peers, _, again in found),
    }


# -- the table ------------------------------------------------------------------------------------


def line_of(row: Row) -> str:
    """The line of an operator."""
    peers, ours, replayed = (f"{seconds * 1e6:.0f}" for seconds in row["seconds"])
    before, now = row["tuning"]
    return (
        f"| {row['operator']} | {before:.0f} ({row['failed']} failed) | {now:.1f} | {peers} | "
        f"{ours} | {row['kernel']:.2f} | {replayed} | {row['replayed']:.2f} |"
    )


def table(rows: list[Row]) -> str:
    """All lines in Markdown, and the geometric means."""
    lines = [
        "| operator | Ansor tunes [s] | ours [s] | Ansor [us] | ours [us] | kernel | replayed [us] "
        "| replayed |",
        "|---" * 8 + "|",
        *map(line_of, rows),
    ]
    if rows:
        tuning = geometric_mean(before / now for before, now in (row["tuning"] for row in rows))
        kernel, replayed = (
            geometric_mean(row[name] for row in rows) for name in ("kernel", "replayed")
        )
        of = f"geometric mean of {len(rows)} | {tuning:.0f} times as long"
        lines.append(f"| {of} | | | | {kernel:.2f} | | {replayed:.2f} |")
        machines = {
            f"{row['cpu']}, {row['threads']} threads, {row['trials']} trials" for row in rows
        }
        lines += ["", *sorted(machines)]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
