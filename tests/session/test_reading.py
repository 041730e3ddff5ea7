"""Records that a file holds already: of tasks that are not whole, too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from autosched.errors import ConfigError
from autosched.session.load_best import load_best
from autosched.session.reading import earlier_records
from autosched.task import Task
from kit.records import entry, record, write


@pytest.mark.parametrize("target", [None, 7, "cpu", []])
def test_records_of_a_task_without_a_target_are_of_another_machine(
    tmp_path: Path, task: Task, target: Any
) -> None:
    path = write(tmp_path / "a", [record(0, task={**task.to_json(), "target": target})])
    found = earlier_records(path, [task], pytest.fail, "")
    assert found.others == "1 record of another CPU (unknown) trains the model only"


@pytest.mark.parametrize(
    ("workload", "name"),
    [({}, "task 0000001000000002"), ({"workload": {"op": "x"}}, "{'op': 'x'}")],
)
def test_another_task_that_is_not_whole_is_named(
    tmp_path: Path, task: Task, workload: dict[str, Any], name: str
) -> None:
    other = {key: value for key, value in entry().items() if key != "workload"}
    path = write(tmp_path / "a", [record(0, task={**other, **workload})])
    with pytest.raises(ConfigError, match=rf"holds records of another task \({name}\); expected"):
        earlier_records(path, [task], pytest.fail, "")
    with pytest.raises(ConfigError, match=rf"no valid record of matmul.*; it holds {name}$"):
        load_best(path, task)
