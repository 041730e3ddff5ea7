"""Ansor's task scheduler with made-up times (see tasks.py); runs in the peer's interpreter."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

from objectives import OBJECTIVES
from worker import serve

from tvm import auto_scheduler, te  # isort: skip  (after the worker, which takes the output)
from tvm.auto_scheduler import measure, measure_record  # isort: skip

Case = dict[str, Any]
TAG = "auto_scheduler_task_scheduler_tag"
HARDWARE = auto_scheduler.HardwareParams(2, 64, 64, 0, 0, 0, 0, 0)


def tagged(size: int, operations: int, tag: str) -> list[Any]:
    """`operations` a number, whose stage has the tag."""
    a = te.placeholder((size,), name="A")

    def body(i: Any) -> Any:
        value = a[i]
        for k in range(operations):
            value = value * a[i] if k % 2 else value + a[i]
        return value

    return [a, te.compute((size,), body, name="B", attrs={TAG: tag} if tag else {})]


auto_scheduler.register_workload(tagged)


class Policy(auto_scheduler.EmptyPolicy):  # type: ignore[misc]  # the peer alone knows its type
    """Hands out the times of one task in order; keeps who was asked for how many."""

    def __init__(self, index: int, task: Any, costs: list[float | None], asked: list[Any]) -> None:
        super().__init__(task)
        self.index, self.searched, self.asked = index, task, asked
        self.state = task.compute_dag.init_state
        self.left = list(costs)

    def set_verbose(self, _: int) -> None:
        """Says nothing anyway."""

    def continue_search_one_round(self, count: int, _: Any) -> Any:
        """The next `count` times."""
        self.asked.append([self.index, count])
        now, self.left = self.left[:count], self.left[count:]
        given = [measure.MeasureInput(self.searched, self.state) for _ in now]
        return given, [result(cost) for cost in now]


def result(cost: float | None) -> Any:
    """A time, or a failure."""
    if cost is None:
        return measure.MeasureResult([1e10], 4, "a message", 1.0, 1)
    return measure.MeasureResult([cost], 0, "", 1.0, 1)


def schedule(case: Case) -> Case:
    """Who was asked for how many trials, in order, and what is known at the end."""
    tasks = [
        auto_scheduler.SearchTask(
            func=tagged, args=tuple(args), target="llvm", hardware_params=HARDWARE
        )
        for args in case["tasks"]
    ]
    asked: list[Any] = []
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log.json"
        lines = [
            measure_record.dump_record_to_string(
                measure.MeasureInput(task, task.compute_dag.init_state), result(cost)
            )
            for task, costs in zip(tasks, case["log"], strict=True)
            for cost in costs
        ]
        log.write_text("".join(line.strip() + "\n" for line in lines))
        scheduler = auto_scheduler.TaskScheduler(
            tasks,
            task_weights=case["weights"],
            objective_func=OBJECTIVES[case["objective"]] if case["objective"] else None,
            strategy=case["strategy"],
            load_log_file=str(log) if lines else None,
            alpha=case["alpha"],
            beta=case["beta"],
            backward_window_size=case["window"],
            callbacks=[],
        )
        options = auto_scheduler.TuningOptions(
            num_measure_trials=case["trials"],
            early_stopping=case["early"],
            num_measures_per_round=case["batch"],
            verbose=0,
        )
        patience = case["patience"] and case["patience"] - 1  # ends where there are more
        policies = [
            Policy(k, task, costs, asked)
            for k, (task, costs) in enumerate(zip(tasks, case["times"], strict=True))
        ]
        scheduler.tune(options, policies, per_task_early_stopping=patience)
    return {
        "asked": asked,
        "best": [float(cost) for cost in scheduler.best_costs],
        "rounds": [int(count) for count in scheduler.task_cts],
        "dead": sorted(int(k) for k in scheduler.dead_tasks),
        "objective": float(scheduler.cur_score),
        "tags": [tag or "" for tag in scheduler.task_tags],
    }


if __name__ == "__main__":
    serve(schedule=schedule)
