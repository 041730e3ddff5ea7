"""Ansor's candidates with inputs in other layouts (see layouts.py); runs in the peer alone."""

from __future__ import annotations

import random
from typing import Any

from worker import serve

import built_ins  # isort: skip  (after the worker, which takes the output)
import worker_tasks  # isort: skip
from tvm import TVMError, auto_scheduler, te, tir  # isort: skip

PARAMETERS = {"evolutionary_search_population": 64, "evolutionary_search_num_iters": 2}
COMPUTE = te.compute
WEIGHTS = ("B", "K", "W", "Y")
LAYOUTS = ("ori_placeholder_layout", "new_placeholder_layout")


def built_in(name: str, args: list[int], *about: Any) -> list[dict[str, Any]]:
    """Candidates of a built-in operator, where the layout of its weights is free."""
    te.compute = _with_free_weights
    try:
        tensors = built_ins.OPERATORS[name](*args)
    finally:
        te.compute = COMPUTE
    return _answers(tensors, *about)


def _with_free_weights(shape: Any, body: Any, name: str, **more: Any) -> Any:
    """As te.compute, but the layout of the weights that a sum reads is free."""
    made = COMPUTE(shape, body, name=name, **more)
    if isinstance(made, list) or not len(made.op.reduce_axis):
        return made
    free = [t for t in made.op.input_tensors if t.op.name in WEIGHTS]
    free = [t for t in free if isinstance(t.op, te.PlaceholderOp)]
    attrs = {"layout_free_placeholders": free} if free else {}
    return COMPUTE(shape, body, name=name, attrs=attrs, **more)


def program(text: str, *about: Any) -> list[dict[str, Any]]:
    """Candidates of a program."""
    return _answers(worker_tasks.tensors(text), *about)


def _answers(
    tensors: list[Any], target: str, hardware: list[int], count: int, seed: int
) -> list[dict[str, Any]]:
    dag = auto_scheduler.ComputeDAG(tensors)
    task = worker_tasks.task(target, hardware, compute_dag=dag, workload_key=dag.workload_key())
    policy = auto_scheduler.SketchPolicy(
        task, auto_scheduler.RandomModel(), params=PARAMETERS, seed=seed, verbose=0
    )
    states = list(policy.sample_initial_population())
    random.Random(seed).shuffle(states)
    states = [*states[:count], *policy.evolutionary_search(states, count)]
    return [
        {
            "steps": worker_tasks.steps_of(task, state),
            "dag": _graph(dag, state),
            **{str(option): _scheduled(dag, state, option) for option in (0, 1, 2)},
        }
        for state in states
    ]


def _graph(before: Any, state: Any) -> dict[str, Any]:
    try:
        dag = before.rewrite_layout_from_state(state)
    except TVMError as error:
        return {"error": str(error).strip().splitlines()[-1]}
    return {
        "text": str(dag),
        "key": dag.workload_key(),
        "flops": float(dag.flop_ct),
        "initial": str(dag.init_state),
        "layouts": [[str(op.attrs[key]) for key in LAYOUTS if key in op.attrs] for op in dag.ops],
    }


def _scheduled(dag: Any, state: Any, option: int) -> dict[str, Any]:
    """Arguments and stages of the schedule; what its computation is without one."""
    try:
        schedule, tensors = dag.apply_steps_from_state(state, layout_rewrite=option)
    except TVMError as error:
        return {"error": str(error).strip().splitlines()[-1]}
    schedule = schedule.normalize()
    bounds = te.schedule.InferBound(schedule)
    return {
        "arguments": [[t.op.name, *[int(size) for size in t.shape]] for t in tensors],
        "stages": [
            [
                stage.op.name,
                stage.scope,
                int(stage.attach_type),
                stage.attach_ivar.var.name if stage.attach_ivar is not None else "",
                [
                    [iv.var.name, _number(bounds[iv].extent)]
                    for iv in stage.leaf_iter_vars
                    if iv in bounds
                ],
                _annotations(stage),
            ]
            for stage in schedule.stages
        ],
    }


def _number(extent: Any) -> int:
    return int(extent) if isinstance(extent, tir.IntImm) else -1


def _annotations(stage: Any) -> list[Any]:
    found = []
    for iv, attr in stage.iter_var_attrs.items():
        if int(attr.iter_type) or attr.bind_thread is not None:
            thread = attr.bind_thread.var.name if attr.bind_thread is not None else ""
            found.append([iv.var.name, int(attr.iter_type), thread])
    return sorted(found)


if __name__ == "__main__":
    serve(built_in=built_in, program=program)
