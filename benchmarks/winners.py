"""Whether repeated tuning finds equally fast kernels: three runs with one seed, winners compared.

    python benchmarks/winners.py --trials 64 --seed 0
    python benchmarks/winners.py --regret --workloads matmul512 --runs 20

The reported winners of each workload are timed again together, in turns: 8 batches of 12 visits of
5 ms each, of which the median counts. The ratio is that of the slowest to the fastest. Winners that
are more than 5% apart are a failure (exit 1), unless a run reported a tie and the other's winner is
among the candidates that tied with its own.

With `--regret` each run has another seed and is judged by itself. Its winner and the four next
candidates (by their times in the race, then by the recorded ones) are timed again in turns for
`--seconds`. The regret is how much longer the winner takes than the fastest of the five. A median
over 0.5% is a failure.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from autosched import tune
from autosched.measure.measurer import Measurer
from autosched.session.tuned import TunedTask
from autosched.state.steps import Step
from autosched.task import Task

MOST = 1.05
WORKLOADS = {
    "matmul": Task.from_workload("matmul", M=256, N=256, K=256),
    "matmul512": Task.from_workload("matmul", M=512, N=512, K=512),
    "conv2d": Task.from_workload(
        "conv2d_nhwc", N=1, H=14, W=14, CI=64, CO=64, KH=3, KW=3, stride=1, padding=1
    ),
    "softmax": Task.from_workload("softmax", M=512, N=1024),
}
_USUAL = ("matmul", "conv2d", "softmax")
_MOST_REGRET = 0.005
_FIVE = 5
_TURNS = 8
_VISITS = 12
_VISIT_SECONDS = 5e-3


@dataclass(frozen=True, slots=True)
class Winner:
    """The result of a run: its winner, the reported time, and the candidates that tie with it."""

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
    """Seconds per call of each winner, timed in turns; equal candidates are timed once."""
    different = list(dict.fromkeys(winner.steps for winner in winners))
    with Measurer.create(check="none") as measurer:
        artifacts = [a for a in measurer.build(task, different) if a is not None]
        rounds = [
            measurer.together(task, artifacts, _VISITS, _VISIT_SECONDS) for _ in range(_TURNS)
        ]
    costs = [sorted(r.cost for r in results) for results in zip(*rounds, strict=True)]
    known = {steps: c[len(c) // 2] for steps, c in zip(different, costs, strict=True)}
    return [known[winner.steps] for winner in winners]


def five_best(found: TunedTask) -> list[tuple[Step, ...]]:
    """The five best of a run: its winner, candidates of its race, then others, by their times."""
    rivals = () if found.race is None else found.race.rivals
    raced = sorted(rivals, key=lambda rival: (rival.heat, rival.raced.cost))
    valid = sorted((r for r in found.records if r.result.valid), key=lambda r: r.result.cost)
    steps = [found.best.steps, *(r.record.steps for r in raced), *(r.steps for r in valid)]
    return list(dict.fromkeys(steps))[:_FIVE]


def regret(found: TunedTask, seconds: float) -> float:
    """How much longer the winner takes than the fastest of the five best, as a share.

    The five are timed in turns for `seconds` altogether. The time of a candidate is the median,
    over the repeats, of its ratio to the mean of all five.
    """
    steps = five_best(found)
    with Measurer.create(check="none") as measurer:
        artifacts = [a for a in measurer.build(found.task, steps) if a is not None]
        cost = max(found.best.seconds, _VISIT_SECONDS) + found.best.seconds
        visits = max(1, int(seconds / (len(artifacts) * cost)))
        results = measurer.together(found.task, artifacts, visits, _VISIT_SECONDS)
    least = min(len(result.seconds) for result in results)
    times = np.array([result.seconds[:least] for result in results])
    relative = np.median(times / times.mean(axis=0), axis=1)
    return float(relative[0] / relative.min() - 1)


def regrets(name: str, runs: int, trials: int, seed: int, seconds: float) -> bool:
    """Print the regret of each run; return whether their median is small enough."""
    task = WORKLOADS[name]
    values = []
    for k in range(runs):
        values.append(regret(tune(task, trials=trials, seed=seed + k)[0], seconds))
        print(f"{name:9}  seed {seed + k:2}  regret {values[-1]:6.2%}", flush=True)
    median = float(np.median(values))
    mean, most = np.mean(values), max(values)
    print(f"{name:9}  median {median:.2%}, mean {mean:.2%}, largest {most:.2%} of {runs} runs")
    return median <= _MOST_REGRET


def agree(winners: Sequence[Winner], seconds: Sequence[float]) -> bool:
    """Whether all winners are within 5% of the fastest, or were reported as ties with it."""
    fastest = min(seconds)
    first = winners[seconds.index(fastest)]
    pairs = zip(winners, seconds, strict=True)
    return all(s <= MOST * fastest or winner.ties_with(first) for winner, s in pairs)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workloads", nargs="+", choices=list(WORKLOADS), default=_USUAL)
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--regret", action="store_true", help="judge each run by itself")
    parser.add_argument("--seconds", type=float, default=10.0, help="timing the five best")
    options = parser.parse_args()
    if options.regret:
        more = (options.runs, options.trials, options.seed, options.seconds)
        small = [regrets(name, *more) for name in options.workloads]
        sys.exit(0 if all(small) else 1)
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
