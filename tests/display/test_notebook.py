"""Progress in a notebook, by IPython's display protocol alone."""

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from autosched.display.notebook import NotebookProgress, Shown, notebook_display
from autosched.display.progress import make_observer
from autosched.display.status_line import Status
from autosched.display.task_table import TaskTable
from autosched.measure.records import Record
from autosched.measure.result import MeasureResult
from autosched.search.progress import Progress
from autosched.task import Task
from kit.notebook import Cell

TASK = Task.from_workload("matmul", M=8, N=8, K=8)
BEST = Record(TASK.to_json(), (), MeasureResult((1e-6,)))


def test_only_a_notebook_has_a_display(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert notebook_display() is None
    cell = Cell()
    ipython = ModuleType("IPython")
    shells: dict[str, Any] = {"terminal": SimpleNamespace(), "script": None}
    for shell in shells.values():
        vars(ipython)["get_ipython"] = lambda shell=shell: shell
        monkeypatch.setitem(sys.modules, "IPython", ipython)
        assert notebook_display() is None
    cell.install(monkeypatch)
    assert notebook_display() == cell.display


def test_one_output_is_replaced_and_ends_with_the_newest() -> None:
    cell = Cell()
    with make_observer(quiet=False, trials=8, notebook=cell.display) as observer:
        for done in (2, 4, 8):
            observer(Progress(TASK, 8, done=done, best=BEST), [BEST])
    assert cell.outputs == 1
    assert "0/8 trials · none valid yet · start" in cell.html[0]
    assert "8/8 trials · best 1 us · 1.024 GFLOP/s" in cell.html[-1]
    assert '<progress value="8" max="8"></progress>' in cell.html[-1]
    assert "100%  8/8" in cell.text[-1]


def test_updates_are_few() -> None:
    now, cell = [0.0], Cell()
    first, *others = (Shown(Status("search", done, 9), None) for done in range(10))
    output = NotebookProgress(cell.display, first, lambda: now[0])
    for shown in others:
        now[0] += 0.0625
        output.show(shown)
    assert [text.split("/9 trials")[0][-1] for text in cell.html] == ["0", "4", "8"]
    output.flush()
    assert "9/9 trials" in cell.html[-1]


def test_several_tasks_are_a_table_and_names_are_escaped() -> None:
    cell, name = Cell(), "<b>&a"
    table = TaskTable([TASK.key], [name], [1])
    with make_observer(quiet=False, trials=8, table=table, notebook=cell.display) as observer:
        observer(Progress(TASK, 8, done=4, best=BEST), [BEST])
    assert name not in cell.html[-1]
    assert cell.html[-1].count("&lt;b&gt;&amp;a") == 2
    assert "color" not in cell.html[-1]  # the page's own, light or dark
    assert cell.text[-1].startswith("task   weight")
