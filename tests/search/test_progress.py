from collections.abc import Sequence

from autosched import te
from autosched.search.progress import Progress
from autosched.task import Task
from autosched.te import Tensor
from kit.records import record


def roots() -> Sequence[Tensor]:
    a = te.placeholder((8,), name="a")
    root = te.compute((8,), lambda i: te.call_extern("sqrtf", a[i], dtype="float32"), name="b")
    return [a, root]


def test_progress_is_shown_on_one_line() -> None:
    progress = Progress(Task.from_workload("matmul", M=16, N=16, K=16), 64, phase="measure")
    name = "matmul(M=16, N=16, K=16)"
    assert repr(progress) == f"<{name}: 0 of 64 trials, 0 valid, phase measure>"
    progress.done, progress.valid, progress.best = 8, 7, record(0, 1.5e-3)
    assert repr(progress) == f"<{name}: 8 of 64 trials, 7 valid, best 1.5 ms, phase measure>"


def test_operations_that_are_not_counted_have_no_rate() -> None:
    """The count of a task that calls C functions is -1; `tune --json` showed a negative rate."""
    progress = Progress(Task.from_python(roots), 64, best=record(0, 1.5e-3))
    assert progress.task.dag.flop_count < 0
    assert progress.flops_per_second() == 0
    assert progress.flops_per_second(record(1, 1.0)) == 0
