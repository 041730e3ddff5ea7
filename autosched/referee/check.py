"""Check of a GPU candidate against its task's reference, on a machine without a GPU."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import numpy as np

from autosched.driver import apply_steps, schedule_ops
from autosched.errors import ScheduleError
from autosched.layout import LayoutOption
from autosched.measure.check import compare
from autosched.measure.tolerance import tolerances
from autosched.referee.batch_loops import batch_loops
from autosched.referee.device_pipeline import device_function
from autosched.referee.predicted_writes import UnpredictableError, predicted_writes
from autosched.referee.sample_blocks import representative_blocks
from autosched.referee.scale_workload import scaled
from autosched.referee.static_checks import BLOCKS, Proof, prove
from autosched.state.steps import Step
from autosched.task import Task
from autosched.tir import interp
from autosched.tir.buffer import Buffer
from autosched.tir.expr import Ramp
from autosched.tir.function import PrimFunc
from autosched.tir.interp_memory import InterpreterError, TooLargeError
from autosched.tir.interp_watch import Blocks, Watch
from autosched.tir.printer import to_text
from autosched.tir.stmt import Stmt
from autosched.tir.substitute_stmt import replace_buffers
from autosched.tir.undefined import buffers_in
from autosched.tir.walk import all_exprs
from autosched.transform.device.alignment import is_aligned
from autosched.transform.device.thread_sync import kernels
from autosched.words import numbered

Array = np.ndarray[Any, Any]


class Verdict(Enum):
    """The result of a check."""

    AGREES = "agrees"
    WRONG = "wrong answer"
    FAULT = "fault"
    UNCHECKED = "not checked"


@dataclass(frozen=True)
class Report:
    """The referee's findings about one candidate.

    `how` says what was run: all blocks, some of them, or all blocks of a smaller problem. `message`
    says what is wrong. For a fault, `stmt` is the statement, `where` the thread, and `kind` the
    name of the error (RaceError, AccessError ...). `proofs` are statements about the kernels of the
    real size that need no run (`static_checks.py`).
    """

    verdict: Verdict
    how: str
    seconds: float
    message: str = ""
    kind: str = ""
    stmt: Stmt | None = None
    where: str | None = None
    proofs: tuple[Proof, ...] = ()

    def __str__(self) -> str:
        text = f"{self.verdict.value} ({self.how}, {self.seconds:.1f} s"
        proved = sum(not proof.trouble for proof in self.proofs)
        text += f", {proved} of {len(self.proofs)} questions proved)" if self.proofs else ")"
        if self.message:
            text += f": {self.message}"
        if self.where is not None:
            text += f"; by {self.where}"
        if self.stmt is not None:
            text += f"; in the statement\n{to_text(self.stmt)}"
        return "\n".join([text, *(str(proof) for proof in self.proofs if proof.trouble)])


def check_candidate(task: Task, steps: Iterable[Step], *, seconds: float = 5.0) -> Report:
    """Run a candidate's kernels in the interpreter and compare their results with NumPy.

    A candidate with one kernel runs on representative blocks of its real size. All blocks of a
    smaller problem run instead if that takes more than `seconds`, if there are several kernels, or
    if it is not proved that blocks do not interfere. In the latter two cases, with 16-bit floats,
    all blocks of the real problem run first, if time permits: sums of few elements may cancel to
    mere rounding errors. They also run if nothing can be made smaller.
    Raises ScheduleError if the steps are illegal.
    """
    steps = tuple(steps)
    source, final = lowered(task, steps)
    proofs = prove(final)
    launches = sum(1 for _ in kernels(final.body))
    report = None
    if launches == 1 and not any(p.trouble for p in proofs if p.question == BLOCKS):
        report = check_function(task, source, final, seconds=seconds, sample=True)
        if report.verdict is not Verdict.UNCHECKED:
            return replace(report, proofs=proofs)
    smaller = _smaller(task, steps, least=False)
    if report is None and (smaller is None or _in_16_bits(source)):
        report = check_function(task, source, final, seconds=seconds, sample=False)
        if report.verdict is not Verdict.UNCHECKED:
            return replace(report, proofs=proofs)
    if smaller is not None:
        report = _check_smaller(smaller, seconds)
        if report.verdict is not Verdict.UNCHECKED:
            return replace(report, proofs=proofs)
    least = _smaller(task, steps, least=True)
    if least is not None and (smaller is None or least[0].name != smaller[0].name):
        report = _check_smaller(least, seconds)
    assert report is not None
    return replace(report, proofs=proofs)


_Smaller = tuple[Task, PrimFunc, PrimFunc]
"""A smaller problem, and the candidate for it (`lowered`)."""


def _check_smaller(smaller: _Smaller, seconds: float) -> Report:
    small, source, final = smaller
    how = f"all blocks of the smaller {small.name}"
    return check_function(small, source, final, seconds=seconds, sample=False, how=how)


def _smaller(task: Task, steps: Sequence[Step], *, least: bool) -> _Smaller | None:
    """A problem of smaller sizes (`scaled`), and the candidate for it.

    None if there is no such problem, or if the steps are illegal with its sizes.
    """
    found = scaled(task, steps, least=least)
    if found is None:
        return None
    small, small_steps = found
    try:
        return small, *lowered(small, small_steps)
    except ScheduleError:
        return None


def _in_16_bits(func: PrimFunc) -> bool:
    return any(b.dtype.is_float and b.dtype.bits == 16 for b in func.buffers)


def lowered(task: Task, steps: Sequence[Step]) -> tuple[PrimFunc, PrimFunc]:
    """A candidate as ScheduleOps produces it, and as code is generated from it."""
    sch, tensors = apply_steps(task.dag, steps, LayoutOption.NO_REWRITE)
    with task.lowering.context():
        source = _named_apart(schedule_ops(sch, tensors))
        return source, device_function(source)


def _named_apart(func: PrimFunc) -> PrimFunc:
    """`func` with parameters whose names no other of its buffers has; reports go by these names."""
    names = Counter(b.name for b in {*func.buffers, *buffers_in(func.body)})
    table: dict[Buffer, Buffer] = {}
    for buffer in func.buffers:
        if names[buffer.name] > 1:
            name = numbered(buffer.name, names)
            names[name] += 1
            table[buffer] = buffer.with_(name=name)
    if not table:
        return func
    params = {p: table.get(b, b) for p, b in func.buffer_map.items()}
    return replace(func, body=replace_buffers(func.body, table), buffer_map=params)


def check_function(
    task: Task,
    source: PrimFunc,
    final: PrimFunc,
    *,
    seconds: float,
    sample: bool,
    how: str = "all blocks",
) -> Report:
    """Run `final` and compare it with the task's reference and with `source`.

    With `sample` only representative blocks run, and only the elements that they have written are
    compared. Which elements they should have written follows from `source`, the function before
    lowering.
    """
    start = time.perf_counter()
    chosen: list[int] = []
    blocks: Blocks | None = None
    if sample:
        choose = representative_blocks((source, final))

        def blocks(extents: Any) -> Array:
            numbers = choose(extents)
            chosen[:] = [len(numbers), int(np.prod([extents[t] for t in extents if "block" in t]))]
            return numbers

    inputs = task.inputs()
    names = [final.buffer_map[p].name for p in final.params][-task.num_outputs :]
    outputs = [_poison(final, p) for p in final.params[-task.num_outputs :]]
    vectors = {e for e in all_exprs(final.body) if isinstance(e, Ramp)}
    watch = Watch(
        outputs=set(names),
        blocks=blocks,
        seconds=seconds,
        is_vector=lambda buffer, index: index in vectors and is_aligned(buffer, index),
    )

    def report(
        verdict: Verdict, message: str = "", error: InterpreterError | None = None
    ) -> Report:
        spent = time.perf_counter() - start
        place = f"{chosen[0]} of {chosen[1]} blocks" if chosen else how
        if error is None:
            return Report(verdict, place, spent, message)
        kind = type(error).__name__
        return Report(verdict, place, spent, message, kind, error.stmt, error.where)

    try:
        try:
            interp.run(batch_loops(final), [*inputs, *outputs], watch=watch)
        except TooLargeError:
            raise
        except InterpreterError:  # again, to report the original statement and thread
            interp.run(final, [*inputs, *outputs], watch=watch)
    except TooLargeError as error:
        return report(Verdict.UNCHECKED, f"too large: {error}")
    except InterpreterError as error:
        return report(Verdict.FAULT, str(error), error)
    message = _wrong_elements(source, names, blocks, watch)
    if message is None:
        message = _wrong_values(task, inputs, names, outputs, watch)
    return report(Verdict.AGREES) if message is None else report(Verdict.WRONG, message)


def _poison(func: PrimFunc, param: Any) -> Array:
    buffer = func.buffer_map[param]
    shape = tuple(int(s.value) for s in buffer.shape)  # type: ignore[attr-defined]  # constant
    return np.full(shape, 123, buffer.dtype.numpy)


def _wrong_elements(
    source: PrimFunc, names: Sequence[str], blocks: Blocks | None, watch: Watch
) -> str | None:
    """A message about elements that were wrongly written or left out; None if there are none."""
    try:
        predicted = predicted_writes(source, names, blocks)
    except UnpredictableError:
        return None
    for name in names:
        found, wanted = watch.written[name], predicted[name]
        if not (found == wanted).all():
            first = int(np.argmax(found != wanted))
            does = "is written" if found[first] else "is not written"
            number = int((found != wanted).sum())
            return (
                f"{number} elements of {name} are written or left out wrongly; the first: "
                f"{name}[{first}] (flat index) {does}"
            )
    return None


def _wrong_values(
    task: Task,
    inputs: Sequence[Array],
    names: Sequence[str],
    outputs: Sequence[Array],
    watch: Watch,
) -> str | None:
    """A message about written elements that differ from the reference; None if there are none."""
    expected = task.reference([array.copy() for array in inputs])
    allowed = tolerances(task, inputs, expected)
    for name, got, want, tolerance in zip(names, outputs, expected, allowed, strict=True):
        mask = watch.written[name].reshape(got.shape)
        if mask.all():
            message = compare(name, got, want, tolerance)
        else:
            some = f"{name} (of the elements written)"
            message = compare(some, got[mask], want[mask], tolerance)
        if message is not None:
            return message
    return None
