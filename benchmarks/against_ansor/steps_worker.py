"""Ansor's loop states, primitive by primitive (see steps.py); runs in the peer's interpreter."""

from __future__ import annotations

import json
import signal
from collections.abc import Callable
from typing import Any

from worker import serve

import steps_dags  # isort: skip  (after the worker, which takes standard output)
import tvm  # isort: skip
import worker_tasks  # isort: skip
from tvm import auto_scheduler, te  # isort: skip
from tvm.auto_scheduler.loop_state import State  # isort: skip

TIME = 20  # seconds of a question; then the process ends


class Now:
    """The computation and the states of the case that is being asked about."""

    dag: Any
    tensors: Any
    states: list[State]


def start(name: str, sizes: list[int]) -> str:
    """Begin a case."""
    Now.tensors = steps_dags.DAGS[name](te, *sizes)
    Now.dag = auto_scheduler.ComputeDAG(Now.tensors)
    Now.states = [Now.dag.get_init_state()]
    return str(Now.dag)


def described(state: State) -> list[Any]:
    """The text, and all iterators with their ranges."""
    stages = []
    for stage in state.stages:
        iters = []
        for it in stage.iters:
            known = it.range is not None
            low, extent = (str(it.range.min), str(it.range.extent)) if known else ("", "")
            iters.append([it.name, low, extent, int(it.iter_kind), int(it.annotation)])
        stages.append([stage.op.name, int(stage.compute_at), iters])
    return [str(state), stages]


def primitive(kind: str, stage: int, args: list[Any]) -> list[Any]:
    """The state after one primitive; it is the current one until `undo`."""
    state = Now.states[-1].copy()
    iters = state.stages[stage].iters
    if kind == "split":
        at, lengths, inner_to_outer = args
        state.split(stage, iters[at], lengths, inner_to_outer)
    elif kind == "follow_split":
        state.follow_split(stage, iters[args[0]], *args[1:])
    elif kind == "follow_fused_split":
        state.follow_fused_split(stage, iters[args[0]], *args[1:])
    elif kind == "fuse":
        state.fuse(stage, [iters[i] for i in args[0]])
    elif kind == "reorder":
        state.reorder(stage, [iters[i] for i in args[0]])
    elif kind == "compute_at":
        target, at = args
        state.compute_at(stage, target, state.stages[target].iters[at])
    elif kind in ("compute_inline", "compute_root"):
        getattr(state, kind)(stage)
    elif kind in ("cache_read", "cache_write"):
        getattr(state, kind)(stage, *args)
    else:  # of one iterator
        getattr(state, kind)(stage, iters[args[0]], *args[1:])
    Now.states.append(state)
    return described(state)


def undo() -> None:
    """Forget the last primitive."""
    Now.states.pop()


def bound() -> list[Any]:
    """The current state with its bounds."""
    return described(Now.dag.infer_bound_from_state(Now.states[-1]))


def _task(target: str, hardware: list[int]) -> Any:
    return worker_tasks.task(target, hardware, compute_dag=Now.dag, workload_key='["steps"]')


def steps() -> list[Any]:
    """The steps as a record has them."""
    return worker_tasks.steps_of(_task("cpu", [2, 64, 64, 0, 0, 0, 0, 0]), Now.states[-1])


def read(steps: list[Any]) -> str:
    """The bound state of steps that a record has."""
    cpu = worker_tasks.TARGETS["cpu"]
    about = [['["steps"]', cpu, [2, 64, 64, 0, 0, 0, 0, 0], "", 1, []], [[], steps]]
    line = json.dumps({"i": about, "r": [[1.0], 0, 1.0, 1], "v": "v0.6"})
    found, _ = auto_scheduler.measure_record.load_record_from_string(line)
    return str(Now.dag.infer_bound_from_state(found.state))


def features(target: str, hardware: list[int]) -> list[list[float]]:
    """The rows of the current state."""
    task = _task(target, hardware)
    (rows,) = auto_scheduler.feature.get_per_store_features_from_states([Now.states[-1]], task)
    return [[float(x) for x in row] for row in rows]


def code() -> list[str]:
    """The Python code, and the error of running it here, empty where it runs."""
    text = Now.dag.print_python_code_from_state(Now.states[-1])
    return [text, _runs(text)]


def _runs(text: str) -> str:
    tensors = {t.op.name: t for t in _all_tensors()}
    outputs = [t.op for t in Now.tensors if not isinstance(t.op, te.PlaceholderOp)]
    names = {"te": te, "tvm": tvm, "s": te.create_schedule(outputs), **tensors}
    try:
        exec(text, names)
        tvm.lower(names["s"], Now.tensors)
    except Exception as error:
        return f"{type(error).__name__}: {(str(error).strip() or '?').splitlines()[-1]}"
    return ""


def _all_tensors() -> list[Any]:
    found: list[Any] = []
    stack = list(Now.tensors)
    while stack:
        tensor = stack.pop()
        if tensor.value_index == 0:
            found.append(tensor)
        stack.extend(tensor.op.input_tensors)
    return found


def _timed(function: Callable[..., Any]) -> Callable[..., Any]:
    def timed(*args: Any) -> Any:
        signal.alarm(TIME)
        try:
            return function(*args)
        finally:
            signal.alarm(0)

    return timed


if __name__ == "__main__":
    asked = (start, primitive, undo, bound, steps, read, features, code)
    serve(**{function.__name__: _timed(function) for function in asked})
