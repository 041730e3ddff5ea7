"""Which of several tasks gets the next round, against Ansor's task scheduler.

    python benchmarks/against_ansor/tasks.py --peer PYTHON [--cases N] [--seed S] [--show N]

A case draws tasks, some of them alike (a tag and sizes), their weights or a function of their times
to make small (objectives.py), the parameters of the scheduler, records of an earlier run, and the
times that each task's candidates will take, in order: some fail, some tasks run out of candidates.
Nothing is searched or measured on either side. The same must be: which task each round goes to, how
many rounds each task counts at the end, its best time, the objective, which tasks get no more
rounds and which are still alike.

Normalised: Ansor's last round is a whole one, beyond the trials that were asked for; here it is
cut. A task's patience is told in trials since the best one here, in rounds there; where it is
drawn, the last trial of a round is its best.

Known to differ, and no defect, and not drawn:

- Where all tasks promise the same, one is drawn, here of those that are left, there of all. The
  rest of such a case is not compared.
- Ansor gets the weights from differences of the objective, which a task without a valid time makes
  1e10: by then the digits that would tell are gone. Nor does the patience of its run ever end
  beside such a task. Here a function of the user's sees the slowest other time in its place.
- Ansor's differences are over 1e-4 s, which makes short times negative; here over 1% of the time
  where that is less. A function of the user's gets times from 10 ms on.
- Records of less than half a round count as a round here; Ansor gives such a task another first
  round. Where only some tasks have records, the courses of the others begin with a time of 1e10.
- A task whose records all failed gets a first round here, none there.
- A task's patience counts trials of this run here; there, from the best record on.
"""

from __future__ import annotations

import math
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, cast
from unittest import mock

from objectives import OBJECTIVES
from peer import Peer, arguments

from autosched import te
from autosched.measure.records import Record
from autosched.measure.result import Failure, MeasureResult
from autosched.search.allocation import AllocationOptions, objective
from autosched.search.cost_model import RandomModel
from autosched.search.learner import Learner
from autosched.search.policy import Begin, Candidate
from autosched.search.structure import Steps
from autosched.search.task_scheduler import ScheduleOptions, TaskScheduler
from autosched.search.tuner import TuneOptions, Tuner
from autosched.state.dag import ComputeDAG
from autosched.state.steps import PragmaStep
from autosched.task import Task

TAG = "auto_scheduler_task_scheduler_tag"
CRASH = Failure("run", "crash", "signal 11")
Case = dict[str, Any]


class Made:
    """A task in name: `operations` a number."""

    def __init__(self, index: int, size: int, operations: int, tag: str) -> None:
        a = te.placeholder((size,), name="A")

        def body(i: Any) -> Any:
            value = a[i]
            for k in range(operations):
                value = value * a[i] if k % 2 else value + a[i]
            return value

        attrs = {TAG: tag} if tag else {}
        self.key = f"task {index}"
        self.target = "a target"
        self.dag = ComputeDAG([a, te.compute((size,), body, name="B", attrs=attrs)])

    def to_json(self) -> dict[str, Any]:
        """What its records say."""
        return {"key": self.key}


class Scripted:
    """Proposes as many candidates as there are times; they mean nothing."""

    name, why_nothing, asks_model = "", "", False

    def __init__(self, left: int) -> None:
        self.left = left

    def next_batch(self, count: int, begin: Begin) -> list[Candidate]:
        """The next ones."""
        now = min(count, self.left)
        self.left -= now
        return [Candidate(steps_of(self.left + k), None) for k in range(now)]

    def tell(self, candidates: Sequence[Steps], costs: Sequence[float]) -> None:
        """Learns nothing."""

    def skip(self, candidates: Iterable[tuple[Steps, str]]) -> None:
        """Nothing is known twice."""

    def draw_ahead(self, count: int, rounds: int, begin: Begin) -> None:
        """Draws nothing."""

    def state(self, steps: Steps) -> str:
        """Of no interest."""
        return ""


def steps_of(number: int) -> Steps:
    """Steps that differ from those of other numbers."""
    return (PragmaStep(0, 0, f"auto_unroll_max_step${number}"),)


class Measurer:
    """Hands out the times of each task in order."""

    on_known: Callable[[int, MeasureResult], None] | None = None

    def __init__(self, times: dict[str, list[float | None]]) -> None:
        self.times = times

    def start(self, task: Task) -> None:
        """Starts nothing."""

    def begin(self, task: Task, batch: Sequence[Steps] = ()) -> None:
        """Builds nothing."""

    def reference(self, task: Task) -> None:
        """Computes nothing."""

    def measure(
        self, task: Task, batch: Sequence[Steps], best: float, progress: Any
    ) -> list[MeasureResult]:
        """The next times."""
        now = self.times[task.key][: len(batch)]
        del self.times[task.key][: len(batch)]
        return [result(cost) for cost in now]


def result(cost: float | None) -> MeasureResult:
    """A time, or a failure."""
    return MeasureResult((), CRASH) if cost is None else MeasureResult((cost,), checked=True)


class DrawnError(Exception):
    """A task is drawn by chance."""


class NoChance:
    """In place of the generator of a scheduler of so many tasks."""

    def __init__(self, tasks: int) -> None:
        self.tasks = tasks

    def choice(self, among: Sequence[int]) -> int:
        """Of a single task there is no choice; Ansor draws among those that are left no more."""
        if self.tasks == 1:
            return among[0]
        raise DrawnError


class Watched(TaskScheduler):
    """Keeps the rounds that it gives out."""

    asked: list[list[int]]

    def _round(self, index: int) -> None:
        count = min(self._batch, self._options.trials - self.done)
        self.asked.append([index, count])
        super()._round(index)


def schedule(case: Case) -> dict[str, Any]:
    """What the peer's `schedule` says, of ours."""
    tasks = [cast(Task, Made(k, *args)) for k, args in enumerate(case["tasks"])]
    proposers = {t.key: Scripted(len(times)) for t, times in zip(tasks, case["times"], strict=True)}
    earlier = {
        task.key: [
            Record({"key": task.key}, steps_of(-1 - k), result(cost), {})
            for k, cost in enumerate(costs)
        ]
        for task, costs in zip(tasks, case["log"], strict=True)
        if costs
    }
    own = OBJECTIVES[case["objective"]] if case["objective"] else None
    allocation = AllocationOptions(
        case["strategy"], case["alpha"], case["beta"], case["window"], own
    )
    tune = TuneOptions(trials=case["trials"], early_stopping=case["patience"], batch=case["batch"])
    with mock.patch.object(Tuner, "_proposer", lambda _, task: proposers[task.key]):
        scheduler = Watched(
            [(task, tune) for task in tasks],
            ScheduleOptions(
                case["trials"],
                case["batch"],
                early_stopping=case["early"],
                allocation=allocation,
            ),
            Measurer({t.key: list(c) for t, c in zip(tasks, case["times"], strict=True)}),
            earlier=earlier,
            weights=case["weights"],
            learner=Learner(RandomModel()),
        )
    scheduler.asked = []
    scheduler._rng = cast(Any, NoChance(len(tasks)))
    states = scheduler.states
    try:
        scheduler.run()
    except DrawnError:
        return {"asked": scheduler.asked}
    return {
        "asked": scheduler.asked,
        "tags": [state.group for state in states],
        "best": [state.best_cost for state in states],
        "rounds": [state.rounds for state in states],
        "dead": [k for k, state in enumerate(states) if state.dead],
        "objective": objective(states, allocation),
    }


def drawn(seed: int) -> Case:
    """A case."""
    rng = random.Random(seed)
    count, batch = rng.choice((1, 2, 2, 3, 4, 6)), rng.choice((1, 2, 4, 8, 16))
    most = rng.choice((2, 4, 10, 20)) * count  # rounds
    tags = rng.choice((("",), ("x",), ("", "x"), ("x", "y", "")))
    strategy = rng.choice(("gradient", "gradient", "gradient", "round-robin"))
    patience, early = (rng.choice((0, 0, 0, 1, 2, 5)) for _ in range(2))  # in rounds
    whole = bool(patience or early)
    restores = not patience and rng.random() < 0.3
    sizes = rng.sample(range(64, 80) if rng.random() < 0.6 else range(1, 5000), count)
    tasks = [(size, rng.choice((1, 1, 2)), rng.choice(tags)) for size in sizes]
    hopeless = strategy == "round-robin" and not early
    own = None if hopeless or rng.random() < 0.7 else rng.choice(sorted(OBJECTIVES))
    times: list[list[float | None]] = []
    log: list[list[float | None]] = []
    for size, operations, _ in tasks:
        scale = size * operations * 10 ** (rng.uniform(0, 2) if own else rng.uniform(-9, -5))
        number = (most if rng.random() < 0.8 else rng.randint(1, most)) * batch
        if not whole and rng.random() < 0.5:
            number += rng.randint(0, batch - 1)
        fails = rng.choice((0.0, 0.0, 0.3, 1.0 if hopeless else 0.6))
        times.append(times_of(rng, scale, number, batch if whole else 0, fails))
        if not hopeless:
            times[-1][rng.randrange(batch)] = scale
            if whole:
                times[-1][:batch] = best_last(times[-1][:batch])
        first = rng.randint((batch + 1) // 2, 6 * batch) if restores else 0
        earlier = times_of(rng, scale * rng.choice((1.5, 3.0)), first, 0, fails)
        if first and not any(earlier):
            earlier[-1] = scale
        log.append([cost and float(f"{cost:g}") for cost in earlier])  # as it is written
    trials = rng.randint(1, most) * batch * count if whole else rng.randint(count, most * batch)
    weights = [rng.choice((0.1, 1.0, 4.0, 30.0)) for _ in tasks]
    return {
        "tasks": tasks,
        "log": log,
        "times": times,
        "weights": None if own else rng.choice((None, None, weights)),
        "objective": own,
        "strategy": strategy,
        "alpha": rng.choice((0.2, 0.2, 0.0, 0.5, 1.0)),
        "beta": rng.choice((2.0, 2.0, 1.0, 1.2, 8.0)),
        "window": rng.choice((3, 3, 1, 2, 5)),
        "trials": trials,
        "batch": batch,
        "patience": patience * batch or None,
        "early": early * batch or None,
    }


def times_of(
    rng: random.Random, scale: float, number: int, batch: int, fails: float
) -> list[float | None]:
    """Times of one task, None for failures; with a `batch` the last one of each is its best."""
    better = rng.choice((0.0, 0.05, 0.3, 0.9))
    found: list[float | None] = []
    level = scale
    for _ in range(number):
        if rng.random() < better:
            level = max(level * rng.uniform(0.5, 1.0), scale / 100)
        found.append(None if rng.random() < fails else level * rng.uniform(1.0, 3.0))
    for k in range(0, number, batch) if batch else ():
        found[k : k + batch] = best_last(found[k : k + batch])
    return found


def best_last(costs: list[float | None]) -> list[float | None]:
    """From failures to the shortest time."""
    return sorted(costs, key=lambda cost: -(cost or math.inf))


def differences(case: Case, theirs: dict[str, Any]) -> Iterator[str]:
    """What differs, a text of each."""
    ours = schedule(case)
    cut = bool(ours["asked"]) and ours["asked"][-1][1] < case["batch"]
    names = set(ours) & set(theirs) - ({"best", "objective"} if cut else set())
    for answer in (ours, theirs):
        answer["asked"] = [index for index, _ in answer["asked"]]
    if "best" not in ours:  # a task was drawn
        theirs["asked"] = theirs["asked"][: len(ours["asked"])]
    for name in sorted(names):
        if not same(ours[name], theirs[name]):
            yield f"{name}:\n  ours   {ours[name]}\n  theirs {theirs[name]}"


def same(ours: Any, theirs: Any) -> bool:
    """Whether two values are equal, sums but for their order."""
    if isinstance(ours, float) and isinstance(theirs, float):
        return math.isclose(ours, theirs, rel_tol=1e-9)
    return bool(ours == theirs)


def main() -> int:
    """Print what differs and a summary; 1 where something does."""
    parser = arguments(__doc__)
    parser.add_argument("--show", type=int, default=3, help="differences to print")
    options = parser.parse_args()
    differing = 0
    with Peer(options.peer, "tasks_worker.py") as peer:
        for seed in range(options.seed, options.seed + options.cases):
            case = drawn(seed)
            found = list(differences(case, peer.ask("schedule", case)))
            differing += bool(found)
            if found and differing <= options.show:
                print(f"-- seed {seed}: {case}", *found, sep="\n", flush=True)
    print(f"{options.cases} cases: {differing} differ")
    return 1 if differing else 0


if __name__ == "__main__":
    sys.exit(main())
