"""ComputeDAG: the operations of a task, in order, with everything derived from them.

dag = ComputeDAG(workload.tensors(M=512, N=512, K=512))
dag.tensors, dag.ops, dag.flop_count, dag.access, dag.init_state
schedule, tensors = dag.apply_steps(steps)
state = dag.infer_bound(state)              # or dag.infer_bound_of(steps)
print(dag.print_dag(), dag.hash_key())
"""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Iterable, Sequence
from functools import cached_property
from weakref import WeakValueDictionary

from autosched.errors import ConfigError, ScheduleError
from autosched.state.access import AccessAnalyzer
from autosched.state.apply_insert import inserting_steps
from autosched.state.dag_text import dag_text
from autosched.state.flops import count_flops
from autosched.state.iterator import Iterator
from autosched.state.replay import Replay
from autosched.state.stage import StateStage
from autosched.state.state import State
from autosched.state.steps import Step
from autosched.te.bounds.infer_bound import infer_bound
from autosched.te.operations.graph import post_order_ops
from autosched.te.operations.operation import ComputeOp, Operation, PlaceholderOp
from autosched.te.operations.tensor import Tensor
from autosched.te.schedule.schedule import Schedule
from autosched.tir.expr import IntImm, IterVar, Range
from autosched.tir.walk import written_out

MOST_OPERATIONS = 1 << 17  # of one value of a stage
_MAX_REPLAYED = 1024  # DAGs kept in addition to those of states that are in use
_MAX_BOUNDED = 128  # states: about as many as a round of the search asks for again


class ComputeDAG:
    """The operations behind `tensors`, producers first; immutable and shareable.

    `tensors` are the arguments of the generated function: inputs, then outputs. The DAG's caches
    are bounded and hold derived values only. For `apart` see AccessAnalyzer.
    """

    def __init__(
        self,
        tensors: Sequence[Tensor],
        ops: Sequence[Operation] | None = None,
        *,
        apart: bool = False,
    ) -> None:
        self._apart = apart
        self.tensors: tuple[Tensor, ...] = tuple(tensors)
        self.outputs = _output_ops(self.tensors)
        self.ops: tuple[Operation, ...] = tuple(ops or post_order_ops(self.outputs))
        self._made_by: Replay | None = None  # for a DAG that steps made from another
        self._replayed: WeakValueDictionary[tuple[Step, ...], ComputeDAG] = WeakValueDictionary()
        self._recent: deque[ComputeDAG] = deque(maxlen=_MAX_REPLAYED)
        self._bounded: dict[tuple[Step, ...], State] = {}
        for op in self.ops:
            _check_axis_names(op)
            _check_sizes(op)
            _check_length(op)

    @cached_property
    def access(self) -> AccessAnalyzer:
        """Which operation reads which, and along which axes."""
        return AccessAnalyzer(self.ops, apart=self._apart)

    @cached_property
    def reading_apart(self) -> ComputeDAG:
        """The computation in which a stage also reuses a tensor that it reads in two roles.

        Ansor sees no reuse there. Returns the DAG itself where there is no such stage.
        """
        other = ComputeDAG(self.tensors, self.ops, apart=True)
        same = other.access.needs_multi_level_tiling == self.access.needs_multi_level_tiling
        return self if same else other

    @cached_property
    def flop_count(self) -> float:
        """The number of operations of one run; -1 when they cannot be counted."""
        return count_flops(self.ops)

    @cached_property
    def init_state(self) -> State:
        """The state without any step: every stage is at the root."""
        return State(self, tuple(map(StateStage.of, self.ops)))

    def print_dag(self, simple: bool = False) -> str:
        """One line per operation; see `dag_text`."""
        return dag_text(self.ops, simple)

    def hash_key(self) -> str:
        """The workload key of a computation without a name: JSON of an MD5 digest and shapes."""
        digest = hashlib.md5(self.print_dag(simple=True).encode(), usedforsecurity=False)
        shapes = [
            [e.value if isinstance(e, IntImm) else str(e) for e in tensor.shape]
            for tensor in self.tensors
        ]
        return json.dumps([digest.hexdigest(), *shapes])

    # ---- replay

    def replay(self, steps: Iterable[Step]) -> Replay:
        """A new schedule with `steps` applied, its stages and loops in state order."""
        return Replay(self.ops, self.outputs).run(steps)

    def apply_steps(self, steps: Iterable[Step]) -> tuple[Schedule, list[Tensor]]:
        """The schedule that `steps` describe, and the argument tensors.

        Raises ScheduleError naming the step when one is illegal. `driver.apply_steps` also takes
        a layout option.
        """
        schedule = self.replay(steps).schedule
        return schedule, self.arguments_of(schedule)

    def arguments_of(self, schedule: Schedule) -> list[Tensor]:
        """The argument tensors of a schedule that is complete."""
        return list(self.tensors)

    def state_of(self, steps: Iterable[Step]) -> State:
        """The loop state that `steps` lead to, without inferred bounds."""
        return self.init_state.apply_all(steps)

    def infer_bound_of(self, steps: Iterable[Step]) -> State:
        """The loop state that `steps` lead to, with inferred ranges."""
        steps = tuple(steps)
        found = self._bounded.get(steps)
        if found is None:
            found = self.infer_bound(self.state_of(steps))
            if len(self._bounded) >= _MAX_BOUNDED:
                del self._bounded[next(iter(self._bounded))]
            self._bounded[steps] = found
        return found

    def infer_bound(self, state: State) -> State:
        """`state` with the ranges that its steps imply; ScheduleError when they are illegal.

        A constant min is kept as an int, any other min as an expression over the loops around. For
        an extent that is not constant, the iterator keeps the expression as its `size`.
        """
        if not state.concrete:
            raise ScheduleError(
                "infer_bound: the state has split lengths that have not been chosen yet"
            )
        replay = self.replay(state.steps)
        bounds = infer_bound(replay.schedule.normalize_for_feature_extraction())
        stages: list[StateStage] = []
        for stage, axes in zip(state.stages, replay.axes, strict=True):
            if stage.is_placeholder or stage.is_inlined:
                stages.append(stage)
                continue
            if len(axes) != len(stage.iters):
                raise ScheduleError(
                    f"infer_bound: stage {stage.name} has {len(stage.iters)} iterators, its "
                    f"steps give {len(axes)} loops"
                )
            iters = tuple(
                [
                    _bounded(stage, it, axis, bounds)
                    for it, axis in zip(stage.iters, axes, strict=True)
                ]
            )
            stages.append(stage.with_iters(iters))
        return state.with_stages(stages)

    def replayed(self, steps: Sequence[Step]) -> ComputeDAG:
        """The DAG after the stage-inserting steps among `steps`."""
        kept = inserting_steps(steps)
        dag = self._replayed.get(kept)
        if dag is None:
            replay = self._replay_from_known(kept)
            ops = [stage.op for stage in replay.stages]
            tensors = [
                stage.op.output(k)
                for stage in replay.stages
                if isinstance(stage.op, PlaceholderOp) or stage.is_output
                for k in range(len(stage.op.outputs))
            ]
            dag = ComputeDAG(tensors, ops, apart=self._apart)
            dag._made_by = replay
            self._replayed[kept] = dag
            self._recent.append(dag)
        return dag

    def _replay_from_known(self, steps: tuple[Step, ...]) -> Replay:
        """As `replay`, starting from the longest prefix of `steps` that has been replayed."""
        for done in range(len(steps) - 1, 0, -1):
            known = self._replayed.get(steps[:done])
            if known is not None and known._made_by is not None:
                replay = known._made_by.copy()
                for k in range(done, len(steps)):
                    replay.apply(steps, k)
                return replay
        return self.replay(steps)


def _bounded(
    stage: StateStage, it: Iterator, axis: IterVar, bounds: dict[IterVar, Range]
) -> Iterator:
    found = bounds.get(axis)
    if found is None:
        raise ScheduleError(f"infer_bound: loop {it.name} of stage {stage.name} has no bound")
    low = found.min.value if isinstance(found.min, IntImm) else found.min
    if isinstance(found.extent, IntImm):
        return it.ranged(found.extent.value, low)
    return it.ranged(None, low, found.extent)


def _output_ops(tensors: Sequence[Tensor]) -> list[Operation]:
    """The operations that no other one reads, in the topological order of Ansor's analysis.

    An input that no operation reads is an argument but no stage.
    """
    priority: dict[Operation, int] = {}
    stack = [tensor.op for tensor in tensors]
    while stack:
        op = stack.pop()
        if op not in priority:
            priority[op] = len(priority)
            stack.extend(tensor.op for tensor in op.inputs)
    if not any(isinstance(op, ComputeOp) for op in priority):
        raise ConfigError("compute DAG: there is nothing to compute, only placeholders")
    readers: dict[Operation, int] = dict.fromkeys(priority, 0)
    waiting: dict[Operation, int] = {}
    consumers: dict[Operation, list[Operation]] = {op: [] for op in priority}
    for op in priority:
        producers = list(dict.fromkeys(tensor.op for tensor in op.inputs))
        waiting[op] = len(producers)
        for producer in producers:
            readers[producer] += 1
            consumers[producer].append(op)
    ready = [op for op, count in waiting.items() if count == 0]
    order: list[Operation] = []
    while ready:
        op = max(ready, key=priority.__getitem__)
        ready.remove(op)
        order.append(op)
        for consumer in consumers[op]:
            waiting[consumer] -= 1
            if waiting[consumer] == 0:
                ready.append(consumer)
    return [op for op in order if readers[op] == 0 and not isinstance(op, PlaceholderOp)]


def _check_sizes(op: Operation) -> None:
    """Raise ConfigError for a size of zero: there is nothing to search for or to model."""
    for tensor in op.outputs:
        if any(isinstance(e, IntImm) and e.value <= 0 for e in tensor.shape):
            raise ConfigError(
                f"tensor {tensor.name} has no elements, its shape is "
                f"({', '.join(map(str, tensor.shape))}); give every dimension at least 1"
            )
    for iv in op.reduce_axis if isinstance(op, ComputeOp) else ():
        if iv.dom is not None and isinstance(iv.dom.extent, IntImm) and iv.dom.extent.value <= 0:
            raise ConfigError(
                f"{op.name}: reduction axis {iv.var.name} is empty, it has {iv.dom.extent} values "
                f"from {iv.dom.min} on; give it at least 1"
            )


def _check_length(op: Operation) -> None:
    """Raise ConfigError for a value that is endless where each use of a part counts again.

    Accesses, features and texts count each place of a part.
    """
    for body in op.body if isinstance(op, ComputeOp) else ():
        operations = written_out(body)
        if operations > MOST_OPERATIONS:
            raise ConfigError(
                f"stage {op.name} has {operations:.3g} operations when it is written out, expected "
                f"at most {MOST_OPERATIONS}; compute what it uses more than once in tensors of "
                "their own"
            )


def _check_axis_names(op: Operation) -> None:
    names = [axis.var.name for axis in op.root_iter_vars]
    repeated = next((name for name in names if names.count(name) > 1), None)
    if repeated is not None:
        raise ConfigError(
            f"compute DAG: stage {op.name} has two axes named {repeated!r}; rename one of them"
        )
