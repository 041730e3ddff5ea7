"""Whether our first populations are drawn as Ansor's are: the same things as often.

    python benchmarks/against_ansor/populations.py --peer PYTHON [--count 2000] [--only TEXT...]

Of each operator both draw `--count` candidates of the search space `ansor`. What has no features is
left out of both (the peer's model, a random one, leaves it in), and so is what one side has already
drawn. Counted are the structures of candidates (their steps without numbers) and, in each structure
that both have often, what stands at each place of a step that has a number: lengths of splits,
unroll limits. A chi-squared test tells whether two counts can come from one distribution. Of so
many tests one in a thousand is below a thousandth, so that `--limit` is far below. Rare outcomes
are counted as one.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from peer import Peer, arguments
from scipy.stats import chi2_contingency

from autosched import workloads
from autosched.features.batched.sets import batched_features
from autosched.features.sets import ANSOR
from autosched.search.options import SearchOptions
from autosched.search.space import SearchSpace
from autosched.state.steps import Step, steps_from_json, steps_to_json
from autosched.target import HardwareParams, cpu_target, cuda_target
from autosched.task import Task

OPERATORS: dict[str, tuple[str, list[int]]] = {
    "matmul": ("matmul", [512, 512, 512]),
    "uneven matmul": ("matmul", [500, 1000, 333]),
    "conv2d": ("conv2d_nhwc", [1, 14, 14, 64, 64, 3, 3, 1, 1]),
    "conv2d_bn_relu": ("conv2d_nchw_bn_relu", [1, 28, 28, 64, 64, 3, 1, 1]),
    "depthwise": ("depthwise_conv2d_nhwc", [1, 56, 56, 64, 3, 1, 1]),
    "transposed": ("conv2d_transpose_nhwc", [1, 8, 8, 64, 32, 4, 2, 1]),
    "norm": ("norm_bmn", [4, 720, 720]),
    "softmax": ("softmax", [256, 1000]),
    "attention": ("transpose_batch_matmul_softmax", [1, 128, 12, 64]),
    "max_pool": ("max_pool2d_nchw", [1, 64, 56, 56, 3, 2, 1]),
}
HARDWARE = {
    "cpu": [2, 64, 64, 0, 0, 0, 0, 0],
    "cuda": [80, 16, 64, 48 * 1024, 65536, 1024, 8, 32],
}
_ROUNDS = 20
_RARE = 8
"""Outcomes that both together have less often are counted as one."""

Steps = Sequence[Any]


class Test(NamedTuple):
    """Counts of one thing on both sides."""

    p: float
    what: str
    ours: Counter[Any]
    theirs: Counter[Any]


def main() -> int:
    """Print the smallest p of each operator; 1 where one is below the limit."""
    parser = arguments(__doc__)
    parser.add_argument("--count", type=int, default=2000, help="candidates of each side")
    parser.add_argument("--only", nargs="+", default=[""], metavar="TEXT", help="parts of names")
    parser.add_argument("--targets", nargs="+", default=["cpu", "cuda"], choices=tuple(HARDWARE))
    parser.add_argument("--limit", type=float, default=1e-6)
    options = parser.parse_args()
    different = 0
    for title in OPERATORS:
        if not any(text in title for text in options.only):
            continue
        for target in options.targets:
            ours, theirs = populations(title, target, options)
            tests = sorted(tests_of(ours, theirs), key=lambda test: test.p)
            worst = tests[0]
            verdict = "differs" if worst.p < options.limit else "the same"
            print(
                f"{title} on {target}: {verdict}, p {worst.p:.1e} at least of {len(tests)} tests, "
                f"{len(ours)} and {len(theirs)} candidates",
                flush=True,
            )
            for test in tests:
                if test.p >= options.limit:
                    break
                different += 1
                print(f"  p {test.p:.1e}: {test.what}")
                for text, count, other in unlike(test):
                    print(f"    {count} and {other}: {text}")
    return 1 if different else 0


def unlike(test: Test) -> list[tuple[str, int, int]]:
    """The outcomes that differ most, the steps that all have left out, and both counts."""
    outcomes = {*test.ours, *test.theirs}
    lists = {o: json.loads(o) if str(o).startswith("[[") else [o] for o in outcomes}
    times = Counter(str(step) for steps in lists.values() for step in steps)
    found = []
    for outcome, steps in lists.items():
        own = [str(step) for step in steps if times[str(step)] < len(outcomes)]
        found.append((" ".join(own), test.ours[outcome], test.theirs[outcome]))
    return sorted(found, key=lambda row: -abs(row[1] - row[2]))[:12]


def populations(title: str, target: str, options: Any) -> tuple[list[Steps], list[Steps]]:
    """Our legal candidates, and the peer's."""
    name, args = OPERATORS[title]
    hardware, count, seed = HARDWARE[target], options.count, options.seed
    operator = workloads.get(name)
    given: dict[str, Any] = dict(zip(operator.args, args, strict=False))
    base = cuda_target("sm_80") if target == "cuda" else cpu_target(hardware[0])
    task = Task.from_workload(
        name, target=replace(base, hardware=HardwareParams(*hardware)), **given
    )
    space = SearchSpace(task, SearchOptions(space="ansor"))
    features = batched_features(task.dag, task.target, ANSOR)

    def add(found: dict[tuple[Step, ...], None], candidates: list[tuple[Step, ...]]) -> None:
        rows = features(candidates)
        found |= {c: None for c, row in zip(candidates, rows, strict=True) if row is not None}

    rng = np.random.default_rng(seed)
    ours: dict[tuple[Step, ...], None] = {}
    theirs: dict[tuple[Step, ...], None] = {}
    with Peer(options.peer, "populations_worker.py") as peer:
        for more in range(_ROUNDS):
            add(ours, space.attempts(rng, count))
            found = peer.ask("sampled", name, args, target, hardware, count, seed + more)
            add(theirs, [steps_from_json(steps) for steps in found])
            if min(len(ours), len(theirs)) >= count:
                break
    return [steps_to_json(c) for c in ours], [steps_to_json(c) for c in theirs]


def tests_of(ours: list[Steps], theirs: list[Steps]) -> Iterator[Test]:
    """Of the structures, and of each number in those that are frequent."""
    groups = [_by_structure(side) for side in (ours, theirs)]
    counts = [Counter({key: len(group) for key, group in side.items()}) for side in groups]
    yield _test("structures", *counts)
    for key in groups[0].keys() & groups[1].keys():
        rows = [np.array(side[key], dtype=object) for side in groups]
        if min(map(len, rows)) < 10 * _RARE:
            continue
        for place in range(rows[0].shape[1]):
            columns = [Counter(row[:, place].tolist()) for row in rows]
            yield _test(f"number {place} of {key}", *columns)


def _by_structure(candidates: list[Steps]) -> dict[str, list[list[Any]]]:
    """The numbers of the candidates of each structure."""
    found: dict[str, list[list[Any]]] = {}
    for steps in candidates:
        numbers: list[Any] = []
        key = json.dumps([_without_numbers(step, numbers) for step in steps])
        found.setdefault(key, []).append(numbers)
    return found


def _without_numbers(step: list[Any], numbers: list[Any]) -> list[Any]:
    """The step without its loop's length, the lengths of a split and the limit of a pragma; the
    latter two are appended."""
    kind = step[0]
    if kind == "SP":
        numbers += step[4]
        return [*step[:3], len(step[4]), step[5]]
    if kind == "PR":
        text, _, number = str(step[3]).partition("$")
        numbers.append(number)
        return [*step[:3], text]
    return step


def _test(what: str, ours: Counter[Any], theirs: Counter[Any]) -> Test:
    both = ours + theirs
    often = [outcome for outcome, count in both.items() if count >= _RARE]
    table = np.array([[side[outcome] for outcome in often] for side in (ours, theirs)])
    rest = [
        sum(side.values()) - int(row.sum()) for side, row in zip((ours, theirs), table, strict=True)
    ]
    if sum(rest):
        table = np.column_stack([table, rest])
    p = 1.0 if table.shape[1] < 2 else float(chi2_contingency(table).pvalue)
    return Test(p, what, ours, theirs)


if __name__ == "__main__":
    sys.exit(main())
