"""Random programs of values of any type, in random schedules, and their right results.

A program has inputs of several types, full of the corner values of `kit.corners`, and one to three
stages, one of which may be a reduction with one exact result. Inputs and outputs lie next to memory
without access rights, so that an access outside of them ends the process.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from autosched import te
from autosched.driver import build_func, lower_func, schedule_ops
from autosched.errors import ScheduleError
from autosched.referee.device_pipeline import device_function
from autosched.runtime.cpu import load
from autosched.target import cpu_target
from autosched.te.operations.operation import ComputeOp
from autosched.te.operations.tensor import Tensor
from autosched.te.schedule.schedule import Schedule
from autosched.te.schedule.stage import Stage
from autosched.tir import interp
from autosched.tir.dtype import DType
from autosched.tir.expr import Expr, IterVar, Var
from autosched.tir.function import PrimFunc
from kit.corners import sample
from kit.pages import EDGES, at_edge
from kit.random_values import FLOATS, INTS, TYPES, Source, Values
from kit.types import Array

CPU = cpu_target(threads=2)


@dataclass
class Program:
    """The arguments of a program's function, the stages to schedule, and all arrays."""

    inputs: list[Tensor]
    stages: list[Tensor]
    arrays: list[Array]
    wanted: Array
    reductions: list[Tensor] = field(default_factory=list)

    @property
    def args(self) -> list[Tensor]:
        return [*self.inputs, self.stages[-1]]


def random_program(draw: random.Random) -> Program:
    """One to three stages over two axes; a reduction is over one, and other stages read it."""
    shape = draw.randrange(1, 8), draw.choice((1, 3, 8, 13, 16, 31, 32, 40))
    sources: list[Source] = []
    for number in range(draw.randrange(1, 4)):
        dtype = draw.choice(TYPES)
        count = shape[0] * shape[1]
        array = sample(dtype, draw.randrange(1 << 30), max(count, 256))
        array = array[draw.randrange(len(array) - count + 1) :][:count].reshape(shape)
        if draw.random() < 0.3:
            array = _modest(draw, dtype, shape)
        tensor = te.placeholder(shape, dtype, name=f"X{number}")
        sources.append(Source(tensor, array))
    program = Program([s.tensor for s in sources], [], [s.array for s in sources], np.zeros(0))
    count = draw.randrange(1, 4)
    with np.errstate(all="ignore"):
        for number in range(count):
            last = number == count - 1
            if not last and draw.random() < 0.3:
                sources.append(_reduction(draw, shape, sources, f"R{number}"))
                program.reductions.append(sources[-1].tensor)
            else:
                sources.append(_stage(draw, shape, sources, f"T{number}"))
            program.stages.append(sources[-1].tensor)
    program.wanted = sources[-1].array
    used = _used(program.stages[-1])
    program.stages = [t for t in program.stages if t in used]
    kept = [k for k, t in enumerate(program.inputs) if t in used]
    program.inputs = [program.inputs[k] for k in kept]
    program.arrays = [program.arrays[k] for k in kept]
    return program


def _modest(draw: random.Random, dtype: str, shape: tuple[int, int]) -> Array:
    """Small numbers, which sums do not absorb in others."""
    kind = DType(dtype)
    low = 0 if dtype == "bool" or dtype.startswith("u") else -4
    numbers = [draw.randrange(low, 5) for _ in range(shape[0] * shape[1])]
    return np.array(numbers, np.float32).astype(kind.numpy).reshape(shape)


def _stage(
    draw: random.Random, shape: tuple[int, int], sources: Sequence[Source], name: str
) -> Source:
    dtype = draw.choice(TYPES)
    arrays: list[Array] = []

    def value(i: Var, j: Var) -> Expr:
        found = Values(draw, (i, j), shape, sources).of(dtype, draw.randrange(1, 4))
        arrays.append(found.array)
        return found.expr

    tensor = te.compute(shape, value, name=name)
    return Source(tensor, arrays[0])


def _reduction(
    draw: random.Random, shape: tuple[int, int], sources: Sequence[Source], name: str
) -> Source:
    """The extremum of a row, or the wrapping sum of a row of integers."""
    dtype = draw.choice((*INTS, *FLOATS))
    way = draw.randrange(3 if dtype in INTS else 2)
    reducer = (te.max, te.min, te.sum)[way]
    k = te.reduce_axis((0, shape[1]), name="k")
    arrays: list[Array] = []

    def value(i: Var) -> Expr:
        found = Values(draw, (i, k.var), shape, sources).of(dtype, 2)
        arrays.append(found.array)
        result: Expr = reducer(found.expr, axis=k)
        return result

    tensor = te.compute((shape[0],), value, name=name)
    (array,) = arrays
    if way == 2:
        return Source(tensor, np.sum(array, axis=1).astype(array.dtype))
    # The extremum of infinities alone is the initial value (docs/expressions.md).
    kind = DType(dtype)
    begin = np.full((shape[0], 1), (kind.min_value, kind.max_value)[way], kind.numpy)
    return Source(tensor, (np.max, np.min)[way](np.hstack([begin, array]), axis=1))


def _used(tensor: Tensor) -> set[Tensor]:
    found = {tensor}
    left = [tensor]
    while left:
        for other in left.pop().op.inputs:
            if other not in found:
                found.add(other)
                left.append(other)
    return found


def random_schedule(draw: random.Random, program: Program, gpu: bool) -> Schedule:
    """Stages inlined, attached to others or separate, with loops split, reordered and annotated.

    Raises ScheduleError if the steps do not fit together.
    """
    sch = te.create_schedule(program.stages[-1].op)
    last = program.stages[-1]
    leaves = _loops(draw, sch, last, gpu, bound=True)
    for tensor in reversed(program.stages[:-1]):
        way = draw.random()
        if way < 0.35 and tensor not in program.reductions:
            sch[tensor].compute_inline()
            continue
        if way < 0.7:
            sch[tensor].compute_at(sch[last], draw.choice(leaves))
            _loops(draw, sch, tensor, gpu, bound=False)
        else:
            _loops(draw, sch, tensor, gpu, bound=True)
    return sch


def _loops(
    draw: random.Random, sch: Schedule, tensor: Tensor, gpu: bool, bound: bool
) -> list[IterVar]:
    """Split, reorder and annotate the loops of a stage; return the loops to attach stages to."""
    stage = sch[tensor]
    operation = stage.op
    assert isinstance(operation, ComputeOp)
    spatial: list[IterVar] = []
    for axis in operation.axis:
        spatial += _cut(draw, stage, axis)
    reduced: list[IterVar] = []
    for axis in operation.reduce_axis:
        reduced += _cut(draw, stage, axis)
    inner = spatial.pop() if len(spatial) > 1 and draw.random() < 0.8 else None
    if inner is None:
        draw.shuffle(spatial)
    outer = spatial
    order = [*outer, *reduced, *([] if inner is None else [inner])]
    if reduced and draw.random() < 0.5:
        rest = order[1:]
        draw.shuffle(rest)
        order = [order[0], *rest]
    stage.reorder(*order)
    if gpu and bound:
        stage.bind(outer[0], te.thread_axis("blockIdx.x"))
        if len(outer) > 1:
            stage.bind(outer[1], te.thread_axis("threadIdx.x"))
    elif bound and draw.random() < 0.3:
        stage.parallel(order[0])
    if inner is not None and order[-1] is inner and draw.random() < 0.8:
        stage.vectorize(inner)
    elif len(order) > 1 and draw.random() < 0.3 and order[-1] not in outer[:2]:
        stage.unroll(order[-1])
    return outer


def _cut(draw: random.Random, stage: Stage, axis: IterVar) -> list[IterVar]:
    if draw.random() < 0.3:
        return [axis]
    outer, inner = stage.split(axis, factor=draw.choice((2, 3, 4, 8, 16)))
    if draw.random() < 0.2:
        return [outer, *stage.split(inner, factor=2)]
    return [outer, inner]


@dataclass(frozen=True)
class Outcome:
    """The outcome of one program.

    `group` is the type of its output, by which outcomes are counted. `what` is "right", "refused"
    or "wrong", and `why` is the reason.
    """

    group: str
    what: str
    why: str = ""


def try_program(seed: int, number: int, gpu: bool) -> Outcome:
    """The outcome of program `number` of a seed in a random schedule.

    The interpreter runs it as scheduled and as lowered (for a GPU, down to the form from which CUDA
    C is printed), and reads both values of each remaining Select. For a CPU the program is also
    compiled and run.
    """
    draw = random.Random(f"{seed} {number}")
    program = random_program(draw)
    dtype = program.wanted.dtype.name
    try:
        scheduled = schedule_ops(random_schedule(draw, program, gpu), program.args)
        lowered = device_function(scheduled) if gpu else lower_func(scheduled, CPU)
    except ScheduleError as error:
        return Outcome(dtype, "refused", str(error))
    found = {
        "as scheduled": _interpreted(scheduled, program, eager=False),
        "as lowered": _interpreted(lowered, program, eager=True),
    }
    if not gpu:
        kernel = load(build_func(lowered, CPU))
        for edge in EDGES:
            arrays = [at_edge(array, edge) for array in program.arrays]
            out = at_edge(np.zeros_like(program.wanted), edge)
            kernel(*arrays, out)
            found[f"compiled, memory that closes at the {edge}"] = difference(out, program.wanted)
    wrong = [f"{how}: {why}" for how, why in found.items() if why is not None]
    return Outcome(dtype, "wrong" if wrong else "right", "; ".join(wrong))


def _interpreted(func: PrimFunc, program: Program, eager: bool) -> str | None:
    out = np.zeros_like(program.wanted)
    try:
        with np.errstate(all="ignore"):
            interp.run(func, [*program.arrays, out], eager_select=eager)
    except interp.InterpreterError as error:
        return f"{type(error).__name__}: {error}"
    return difference(out, program.wanted)


def make_handler() -> Callable[[tuple[int, int, bool]], Outcome]:
    """The handler of a process that may die: maps (seed, number, for a GPU) to an outcome."""
    return lambda request: try_program(*request)


def difference(found: Array, wanted: Array) -> str | None:
    """Where two arrays differ, or None; zeros of both signs are equal, and so are all NaN."""
    if wanted.dtype.kind in "iub":
        same = found == wanted
    else:
        with np.errstate(invalid="ignore"):
            a, b = (x.astype(np.float64) for x in (found, wanted))
        same = (a == b) | (np.isnan(a) & np.isnan(b))
    if same.all():
        return None
    at = tuple(int(k) for k in np.argwhere(~same)[0])
    return f"{(~same).sum()} of {same.size} differ, first {at}: {found[at]!r}, not {wanted[at]!r}"
