"""The search space of a task: its sketches, and random candidates drawn from them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from autosched import arguments
from autosched.cpu_caches import TYPICAL
from autosched.errors import ConfigError
from autosched.search.initial import Rng
from autosched.search.neighbour import neighbour
from autosched.search.options import SearchOptions
from autosched.search.rules.custom import rules_of
from autosched.search.rules.protocol import Context, SketchRule
from autosched.search.sample import Sampler
from autosched.search.sketch import generate_sketches
from autosched.search.structure import Steps
from autosched.state.state import State
from autosched.state.steps import Step
from autosched.task import Task
from autosched.te.intrin.registry import available
from autosched.user_warning import Tell, warn


class SearchSpace:
    """Everything that the search may propose for a task.

        >>> import autosched, numpy as np
        >>> task = autosched.Task.from_workload("matmul", M=16, N=16, K=16)
        >>> space = SearchSpace(task)
        >>> len(space.sketches)  # loop structures, tile sizes open
        4
        >>> candidates = space.sample(np.random.default_rng(0), 8)  # steps of each

    `context` is the task as sketch rules and mutations see it.
    """

    def __init__(
        self,
        task: Task,
        options: SearchOptions | None = None,
        custom_rules: Sequence[SketchRule] = (),
        warning: Tell = warn,
    ) -> None:
        """`custom_rules` are tried before the built-in ones; `warning` hears of very many sketches.

        Raises ConfigError when the tiling structure is impossible, or a custom rule fails or
        leaves no sketch.
        """
        arguments.instance("task", task, Task, 'Task.from_workload("matmul", M=64, N=64, K=64)')
        if options is not None:
            arguments.instance("options", options, SearchOptions)
        target = task.target
        self._fill(
            Context(
                task.dag,
                target.hardware,
                target.is_gpu,
                options or SearchOptions(),
                available(target),
                target.vector_bytes if target.cpu else 0,
                (target.caches or TYPICAL)[1],
                target.copies_ahead,
                target.shared_memory_limit,
                vector_registers=target.vector_registers,
            ),
            rules_of(custom_rules),
            warning,
        )

    @classmethod
    def of(cls, context: Context, custom_rules: Sequence[SketchRule] = ()) -> SearchSpace:
        """The space of a computation that belongs to no task. Raises as the constructor does."""
        space = cls.__new__(cls)
        space._fill(context, custom_rules, warn)
        return space

    def _fill(self, context: Context, custom_rules: Sequence[SketchRule], warning: Tell) -> None:
        if context.options.space != "ansor":
            context = replace(context, dag=context.dag.reading_apart)
        self.context = context
        self.sketches: tuple[State, ...] = tuple(generate_sketches(context, custom_rules, warning))
        self._sampler = Sampler(context)

    def sample(
        self,
        rng: Rng,
        count: int,
        legal: Callable[[Sequence[Steps]], Sequence[bool]] | None = None,
        *,
        sketch: State | None = None,
    ) -> list[Steps]:
        """At least `count` different candidates, fewer when the space is smaller.

        Candidates that `legal` refuses are dropped. With `sketch`, all are drawn from that one.
        Raises ConfigError where `rng` is no generator, `count` no number or `sketch` no sketch.
        """
        _require_generator(rng)
        count = arguments.integer("count", count, 0)
        if sketch is not None:
            arguments.instance("sketch", sketch, State, "one of SearchSpace(task).sketches")
        sketches = self.sketches if sketch is None else (sketch,)
        return self._sampler.population(sketches, rng, count, legal)

    def attempts(self, rng: Rng, count: int) -> list[Steps]:
        """The candidates that `count` attempts draw; some may be equal or illegal."""
        found = self._sampler.drawn(self.sketches, rng, count)
        if not found and self.context.is_gpu:
            found = self._sampler.drawn(self.sketches, rng, count, fitting=True)
        return found

    def discarded(self, rng: Rng, count: int) -> list[str]:
        """Why attempts to draw a candidate are discarded: a reason for each of `count` that is."""
        return self._sampler.discarded(self.sketches, rng, count)

    def mutated(self, rng: Rng, candidate: Steps) -> Steps:
        """The candidate with a factor moved, an unroll limit drawn anew or a stage elsewhere.

        The candidate itself where nothing was found to change. Raises ConfigError where `rng` is
        no generator or `candidate` no candidate. An illegal candidate may raise ScheduleError.
        """
        _require_generator(rng)
        require_candidate(candidate, "candidate")
        return neighbour(self.context, tuple(candidate), rng)


def require_candidates(given: Any, where: str) -> Sequence[Sequence[Step]]:
    """`given`, if it is a list of candidates. ConfigError that begins with `where` otherwise."""
    if not isinstance(given, list | tuple):
        raise ConfigError(f"{where}: expected a list of candidates, {arguments.found(given)}")
    for k, candidate in enumerate(given):
        require_candidate(candidate, f"{where}: candidate {k}")
    return given


def require_candidate(given: Any, where: str) -> None:
    """Raise ConfigError that begins with `where` unless `given` is a list or a tuple of steps."""
    if not isinstance(given, list | tuple) or not all(isinstance(step, Step) for step in given):
        raise ConfigError(
            f"{where}: expected a tuple of steps, as SearchSpace.sample draws them, "
            f"{arguments.found(given)}"
        )


def _require_generator(rng: object) -> None:
    arguments.instance("rng", rng, np.random.Generator, "np.random.default_rng(0)")
