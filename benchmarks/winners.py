"""Whether repeating a tune finds as good a kernel: the same seed three times, the winners compared.

    python benchmarks/winners.py --trials 64 --seed 0

Of each workload the reported winners are timed again together, in turns: 8 batches of 12 visits of
5 ms each, of which the median counts. The ratio is that of the slowest to the fastest.
Winners that are more than 5% apart are a failure (exit 1), unless a run reported a tie and the
winner of another is among those that tied with its own.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from autosched import tune
from autosched.measure.measurer import Measurer
from autosched.session.tuned import TunedTask
from autosched.state.steps import Step
from autosched.task import Task

MOST = 1.05
WORKLOADS = {
    "matmul": Task.from_workload("matmul", M=256, N=256, K=256),
    "conv2d": Task.from_workload(
        "conv2d_nhwc", N=1, H=14, W=14, CI=64, CO=64, KH=3, KW=3, stride=1, padding=1
    ),
    "softmax": Task.from_workload("softmax", M=512, N=1024),
}
_TURNS = 8
_VISITS = 12
_VISIT_SECONDS = 5e-3


@dataclass(frozen=True, slots=True)
class Winner:
    """What a run reported: its winner, the time it said, and what ties with it."""

    steps: tuple[Step, ...]
    seconds: float
    ties: tuple[tuple[Step, ...], ...]

    @classmethod
    def of(cls, found: TunedTask) -> Winner:
        rivals = () if found.race is None else found.race.rivals
        ties = tuple(rival.record.steps for rival in rivals if rival.ties)
        return cls(found.best.steps, found.best.seconds, ties)

    def ties_with(self, other: Winner) -> bool:
        """Whether one of the two runs said that both winners may be equally fast."""
        return other.steps in (self.steps, *self.ties) or self.steps in other.ties


def together(task: Task, winners: Sequence[Winner]) -> list[float]:
    """Seconds per call of each, timed in turns; the same candidate is timed once."""
    different = list(dict.fromkeys(winner.steps for winner in winners))
    with Measurer.create(check="none") as measurer:
        artifacts = [a for a in measurer.build(task, different) if a is not None]
        rounds = [
            measurer.together(task, artifacts, _VISITS, _VISIT_SECONDS) for _ in range(_TURNS)
        ]
    costs = [sorted(r.cost for r in results) for results in zip(*rounds, strict=True)]
    known = {steps: c[len(c) // 2] for steps, c in zip(different, costs, strict=True)}
    return [known[winner.steps] for winner in winners]


def agree(winners: Sequence[Winner], seconds: Sequence[float]) -> bool:
    """Whether all are within 5% of the fastest, or were reported as ties with it."""
    fastest = min(seconds)
    first = winners[seconds.index(fastest)]
    pairs = zip(winners, seconds, strict=True)
    return all(s <= MOST * fastest or winner.ties_with(first) for winner, s in pairs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workloads", nargs="+", choices=list(WORKLOADS), default=list(WORKLOADS))
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--runs", type=int, default=3)
    options = parser.parse_args()
    print("workload  slowest/fastest  agree  [us] together (as reported; ties)")
    wrong = 0
    for name in options.workloads:
        task = WORKLOADS[name]
        runs = [tune(task, trials=options.trials, seed=options.seed) for _ in range(options.runs)]
        winners = [Winner.of(run[0]) for run in runs]
        seconds = together(task, winners)
        good = agree(winners, seconds)
        wrong += not good
        each = ", ".join(
            f"{s * 1e6:.1f} ({winner.seconds * 1e6:.1f}; {len(winner.ties)})"
            for winner, s in zip(winners, seconds, strict=True)
        )
        ratio = max(seconds) / min(seconds)
        print(f"{name:8}  {ratio:15.3f}  {'yes' if good else 'NO':5}  {each}", flush=True)
    sys.exit(1 if wrong else 0)


if __name__ == "__main__":
    main()
