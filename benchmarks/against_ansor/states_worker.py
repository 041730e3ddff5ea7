"""Ansor's candidates of a built-in operator, in the form of the golden files (see states.py)."""

from __future__ import annotations

import json
import random
from typing import Any

from worker import serve

import built_ins  # isort: skip  (after the worker, which takes standard output)
from tvm import auto_scheduler  # isort: skip

TARGETS = {"cpu": "llvm -mcpu=skylake-avx512", "cuda": "cuda -arch=sm_80"}


def lines(
    workload: str, args: list[int], target: str, hardware: list[int], count: int, seed: int
) -> list[dict[str, Any]]:
    """`count` candidates of the first population, as many mutated ones, all sketches."""
    task = auto_scheduler.SearchTask(
        func=getattr(built_ins, workload),
        args=args,
        target=TARGETS[target],
        hardware_params=auto_scheduler.HardwareParams(*hardware),
    )
    dag = task.compute_dag
    policy = auto_scheduler.SketchPolicy(
        task,
        auto_scheduler.RandomModel(),
        params={"evolutionary_search_population": 256, "evolutionary_search_num_iters": 3},
        seed=seed,
        verbose=0,
    )
    states = list(policy.sample_initial_population())
    random.Random(seed).shuffle(states)
    states = [*states[:count], *policy.evolutionary_search(states, count)]
    features = auto_scheduler.feature.get_per_store_features_from_states(states, task)
    about = {"workload": workload, "args": args, "target": target, "hardware": hardware}
    result = auto_scheduler.MeasureResult([1.0], 0, "", 1.0, 1)
    found = []
    for state, rows in zip(states, features, strict=True):
        line = auto_scheduler.measure_record.dump_record_to_string(
            auto_scheduler.MeasureInput(task, state), result
        )
        found.append(
            {
                **about,
                "steps": json.loads(line)["i"][1][1],
                "bound_state": str(dag.infer_bound_from_state(state)),
                "flop_count": dag.flop_ct,
                "features": [[float(x) for x in row] for row in rows],
            }
        )
    sketches = [str(sketch) for sketch in policy.generate_sketches()]
    return [*found, {**about, "sketch_states": sketches, "dag": str(dag)}]


if __name__ == "__main__":
    serve(lines=lines)
