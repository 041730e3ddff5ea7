"""First populations of Ansor's search as steps; runs in the peer's interpreter alone."""

from __future__ import annotations

from typing import Any

from worker import serve

import built_ins  # isort: skip  (after the worker, which takes the output)
import worker_tasks  # isort: skip
from tvm import auto_scheduler  # isort: skip


def sampled(
    name: str, args: list[int], target: str, hardware: list[int], count: int, seed: int
) -> list[Any]:
    """The steps of about `count` candidates."""
    task = worker_tasks.task(target, hardware, func=built_ins.OPERATORS[name], args=args)
    params = {"evolutionary_search_population": count, "sample_init_min_population": count}
    policy = auto_scheduler.SketchPolicy(
        task, auto_scheduler.RandomModel(), params=params, seed=seed, verbose=0
    )
    return [worker_tasks.steps_of(task, state) for state in policy.sample_initial_population()]


if __name__ == "__main__":
    serve(sampled=sampled)
