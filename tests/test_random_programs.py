"""Programs and graphs in random schedules, and statements: `benchmarks/random_kernels.py` in short.

What graphs have says `kit.random_graphs`. Of those of the seed for a CPU number 33 finds the mutant
"zeros: everything divides", 45 "gathers: an element of a tensor is one place before it is
computed"; of the statements some find "a load survives a store" and "division by zero unguarded".
Rarer faults take hundreds of graphs or thousands: the benchmark goes on with new seeds.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

from autosched.errors import CompileError, ScheduleError
from autosched.process.worker import Worker
from autosched.tir import interp
from autosched.tir.function import PrimFunc
from kit import random_graphs
from kit.random_graphs import random_trial, try_graph
from kit.random_programs import Outcome

SEED, LIMIT = 11, 120.0
EACH = pytest.mark.parametrize("gpu", [False, True], ids=["cpu", "gpu"])


@pytest.fixture
def worker(request: pytest.FixtureRequest) -> Iterator[Worker]:
    """A process that may die."""
    found = Worker(f"kit.{request.param}:make_handler")
    yield found
    found.stop()


@EACH
@pytest.mark.parametrize("worker", ["random_programs"], indirect=True)
def test_programs_are_right_in_every_schedule(worker: Worker, gpu: bool) -> None:
    assert _right(worker, 24, gpu) > 0.9 * 24


@EACH
@pytest.mark.parametrize("worker", ["random_graphs"], indirect=True)
def test_graphs_are_right_in_every_schedule(worker: Worker, gpu: bool) -> None:
    count = 60 if gpu else 50
    assert _right(worker, count, gpu) > count // 3  # what does not fit is refused


@pytest.mark.parametrize("worker", ["random_statements"], indirect=True)
def test_statements_do_what_the_interpreter_does(worker: Worker) -> None:
    assert _right(worker, 16) == 16


def _right(worker: Worker, count: int, *gpu: bool) -> int:
    counts: Counter[str] = Counter()
    for number in range(count):
        outcome = worker.call((SEED, number, *gpu), LIMIT, "run")
        assert isinstance(outcome, Outcome)
        assert outcome.what != "wrong", f"number {number} of seed {SEED}: {outcome.why}"
        counts[outcome.what] += 1
    return counts["right"]


@EACH
def test_graphs_follow_from_seed_and_number(gpu: bool) -> None:
    first, again, other = (_texts(seed, gpu) for seed in (SEED, SEED, SEED + 1))
    assert first == again
    assert not first & other


def _texts(seed: int, gpu: bool) -> set[str]:
    """The programs of the first numbers."""
    found = set()
    for number in range(8):
        with suppress(ScheduleError):
            found.add(str(random_trial(seed, number, gpu)))
    return found


def _number() -> int:
    """A graph for a GPU, which no process is needed for, that has an element."""
    return next(n for n in range(99) if try_graph(SEED, n, gpu=True).what == "right")


def test_wrong_elements_are_told_with_the_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    number, run = _number(), interp.run
    trial = random_trial(SEED, number, gpu=True)

    def one_differs(func: PrimFunc, args: list[Any], eager_select: bool) -> None:
        run(func, args, eager_select=eager_select)
        if eager_select:
            out = args[len(trial.graph.inputs)]
            out.flat[-1] = not out.flat[-1]

    monkeypatch.setattr(interp, "run", one_differs)
    outcome = try_graph(SEED, number, gpu=True)
    name = trial.graph.outputs[0].tensor.name
    assert outcome.what == "wrong"
    assert outcome.why.startswith(f"as lowered: {name}: 1 of ")
    assert all(step in outcome.why for step in trial.steps)


def test_what_cannot_be_compiled_is_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(func: PrimFunc) -> PrimFunc:
        raise CompileError("no such thing")

    number = _number()
    monkeypatch.setattr(random_graphs, "device_function", refuse)
    outcome = try_graph(SEED, number, gpu=True)
    assert (outcome.what, outcome.why) == ("wrong", "CompileError: no such thing")
