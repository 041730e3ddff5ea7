from autosched.search.progress import Progress
from autosched.task import Task
from kit.records import record


def test_progress_is_shown_on_one_line() -> None:
    progress = Progress(Task.from_workload("matmul", M=16, N=16, K=16), 64, phase="measure")
    name = "matmul(M=16, N=16, K=16)"
    assert repr(progress) == f"<{name}: 0 of 64 trials, 0 valid, phase measure>"
    progress.done, progress.valid, progress.best = 8, 7, record(0, 1.5e-3)
    assert repr(progress) == f"<{name}: 8 of 64 trials, 7 valid, best 1.5 ms, phase measure>"
