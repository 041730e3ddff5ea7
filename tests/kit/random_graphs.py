"""Random graphs of stages of any shape, in random schedules with all primitives, and results.

Beyond `kit.random_programs` a graph may have: elements read at sums, quotients and remainders of
axes, at data of every integer type, and at indices that wrap; data divided by data that is 0, and
multiples of it; casts at the limits of types; stages of several values; reductions `max`, `min`,
`sum`, `prod`, `any`, `all`, `xor`, `or`, `and`, with `where=` and `init=`, over one or two axes
that need not begin at 0; (place, value) reduced together; scans with stages inside a step; extents
that are arguments; several outputs. `kit.random_steps` describes the schedules.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from autosched import te
from autosched.driver import build_func, lower_func, schedule_ops
from autosched.errors import AutoschedError, ScheduleError
from autosched.referee.device_pipeline import device_function
from autosched.runtime.cpu import load
from autosched.te.operations.operation import ScanOp
from autosched.te.operations.tensor import Tensor
from autosched.tir import interp
from autosched.tir.expr import Var
from autosched.tir.function import PrimFunc
from kit.pages import EDGES, at_edge
from kit.random_programs import CPU, Outcome, difference
from kit.random_scans import random_scan
from kit.random_stages import Extents, random_best, random_input, random_map, random_reduction
from kit.random_steps import random_steps
from kit.random_values import Source
from kit.types import Array

_MAKERS = (
    *(("map", random_map),) * 5,
    *(("reduction", random_reduction),) * 3,
    *(("best", random_best),) * 2,
    ("scan", random_scan),
)


@dataclass(frozen=True)
class Graph:
    """The inputs, outputs and sizes of a graph's function; `kind` is the kind of its last stage."""

    kind: str
    inputs: list[Source]
    outputs: list[Source]
    extents: Extents

    @property
    def args(self) -> list[Tensor]:
        return [source.tensor for source in (*self.inputs, *self.outputs)]

    @property
    def numbers(self) -> list[int]:
        """The values of the size arguments."""
        return list(self.extents.sizes)


def random_graph(draw: random.Random, gpu: bool) -> Graph:
    """One to four stages over one to three inputs; some graphs for a CPU are large."""
    way = draw.random()
    extents = Extents(draw, symbolic=way < 0.2, large=way > 0.85 and not gpu)
    inputs = [random_input(extents, f"X{n}") for n in range(draw.randrange(1, 4))]
    every, kind = list(inputs), ""
    stages: list[list[Source]] = []
    with np.errstate(all="ignore"):
        for number in range(draw.randrange(1, 5)):
            seen = every
            if stages and draw.random() < 0.5:  # the stage reads the stage before it
                seen = [*stages[-1], draw.choice(every), inputs[0]]
            kind, make = draw.choice(_MAKERS)
            stages.append(make(extents, seen, f"T{number}"))
            every += stages[-1]
    outputs = stages[-1] + [s for stage in stages[:-1] for s in stage if draw.random() < 0.15]
    used = _used([source.tensor for source in outputs])
    return Graph(kind, [s for s in inputs if s.tensor in used], outputs, extents)


def _used(outputs: Sequence[Tensor]) -> set[Tensor]:
    """Every tensor that the outputs depend on, the outputs included."""
    found: set[Tensor] = set()
    left = list(outputs)
    while left:
        tensor = left.pop()
        if tensor not in found:
            found.add(tensor)
            left += tensor.op.inputs
            if isinstance(tensor.op, ScanOp):
                left += [*tensor.op.init, *tensor.op.update]
    return found


@dataclass(frozen=True)
class Trial:
    """A graph in a random schedule: its steps as a user would write them, and the program."""

    graph: Graph
    steps: list[str]
    scheduled: PrimFunc
    gpu: bool

    def __str__(self) -> str:
        return "\n".join((*self.steps, str(self.scheduled)))


def random_trial(seed: int, number: int, gpu: bool) -> Trial:
    """Graph `number` of a seed. Raises ScheduleError if the steps do not fit together."""
    draw = random.Random(f"{seed} {number}")
    return _scheduled(draw, random_graph(draw, gpu), gpu)


def _scheduled(draw: random.Random, graph: Graph, gpu: bool) -> Trial:
    schedule = te.create_schedule([source.tensor.op for source in graph.outputs])
    steps = random_steps(draw, schedule, gpu)
    args: list[Tensor | Var] = [*graph.args, *graph.extents.sizes.values()]
    return Trial(graph, steps, schedule_ops(schedule, args), gpu)


def try_graph(seed: int, number: int, gpu: bool) -> Outcome:
    """The outcome of graph `number` of a seed, run as in `kit.random_programs.try_program`."""
    draw = random.Random(f"{seed} {number}")
    graph = random_graph(draw, gpu)
    kind = f"{graph.kind}, {'GPU' if gpu else 'CPU'}"
    try:
        trial = _scheduled(draw, graph, gpu)
        found = _outcomes(trial)
    except ScheduleError as error:
        return Outcome(kind, "refused", str(error))
    except AutoschedError as error:
        return Outcome(kind, "wrong", f"{type(error).__name__}: {error}")
    wrong = [f"{how}: {why}" for how, why in found.items() if why is not None]
    if not wrong:
        return Outcome(kind, "right")
    return Outcome(kind, "wrong", "\n    ".join(("; ".join(wrong), *trial.steps)))


def _outcomes(trial: Trial) -> dict[str, str | None]:
    """For each way to run the trial, the difference from the right result, or None."""
    graph, scheduled = trial.graph, trial.scheduled
    lowered = device_function(scheduled) if trial.gpu else lower_func(scheduled, CPU)
    found: dict[str, str | None] = {}
    if not graph.extents.large:  # the interpreter would take too long for large graphs
        found["as scheduled"] = _interpreted(scheduled, graph, eager=False)
        found["as lowered"] = _interpreted(lowered, graph, eager=True)
    if trial.gpu:
        return found
    kernel = load(build_func(lowered, CPU))
    for edge in EDGES:
        arrays = [at_edge(s.array, edge) for s in graph.inputs]
        outputs = [at_edge(np.zeros_like(s.array), edge) for s in graph.outputs]
        kernel(*arrays, *outputs, *graph.numbers)
        found[f"compiled, memory that closes at the {edge}"] = _compared(outputs, graph)
    return found


def _interpreted(func: PrimFunc, graph: Graph, eager: bool) -> str | None:
    outputs = [np.zeros_like(s.array) for s in graph.outputs]
    try:
        with np.errstate(all="ignore"):
            args = [*(s.array for s in graph.inputs), *outputs, *graph.numbers]
            interp.run(func, args, eager_select=eager)
    except interp.RaceError as error:
        if not eager:  # lowering adds the barriers
            return None
        return f"RaceError: {error}"
    except interp.InterpreterError as error:
        return f"{type(error).__name__}: {error}"
    return _compared(outputs, graph)


def _compared(outputs: Sequence[Array], graph: Graph) -> str | None:
    pairs = zip(graph.outputs, outputs, strict=True)
    wrong = [(s.tensor.name, difference(found, s.array)) for s, found in pairs]
    return "; ".join(f"{name}: {why}" for name, why in wrong if why is not None) or None


def make_handler() -> Callable[[tuple[int, int, bool]], Outcome]:
    """The handler of a process that may die: maps (seed, number, for a GPU) to an outcome."""
    return lambda request: try_graph(*request)
