"""The table of several tasks: plain and for a terminal."""

import pytest
from rich.console import Console

from autosched.display.task_table import HEAD, TaskTable, short_names
from autosched.measure.records import Record
from autosched.measure.result import MeasureResult
from autosched.search.progress import Progress
from autosched.search.ranking_quality import Quality
from autosched.task import Task

TASK = Task.from_workload("matmul", M=8, N=8, K=8)


def table() -> TaskTable:
    best = Record(TASK.to_json(), (), MeasureResult((1e-6,), checked=True))
    found = TaskTable([TASK.key, "other"], ["conv2d_nchw_bn_relu", "b"], [1, 2.5])
    run = Progress(TASK, 8, done=8, valid=7, best=best)
    run.quality.append(Quality(0.75, 1.0, 8))
    found.runs[TASK.key] = run
    return found


def test_plain_text() -> None:
    assert table().text().splitlines() == [
        "task                 weight  trials  valid  best  rate           model  checked",
        "conv2d_nchw_bn_relu  1       8       7      1 us  1.024 GFLOP/s  0.75   yes",
        "b                    2.5     0       0      -     -              -      -",
    ]


@pytest.mark.parametrize(
    ("width", "columns"), [(120, HEAD), (80, HEAD), (60, ("task", "valid")), (40, ("task", "best"))]
)
def test_it_fits_the_terminal(width: int, columns: tuple[str, ...]) -> None:
    """What tells least is left out first; names and best times stay whole."""
    console = Console(width=width, force_terminal=True, color_system=None)
    with console.capture() as shown:
        console.print(table().live(width))
    lines = shown.get().splitlines()
    assert len(lines) == 3
    assert max(map(len, lines)) <= width
    assert set(columns) <= set(lines[0].split())
    assert "conv2d_nchw_bn_relu" in lines[1] and "1 us" in lines[1]


def test_names_are_told_apart() -> None:
    assert short_names(["a", "b", "a"]) == ["a#1", "b", "a#2"]
