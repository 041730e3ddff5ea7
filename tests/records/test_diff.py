"""`top`, `best` and `diff`: what they say of files of several tasks and machines."""

from pathlib import Path

import pytest

from autosched import records
from autosched.measure.environment import cpu_model
from autosched.session import this_gpu
from autosched.target import cpu_target
from autosched.task import Task
from kit.records import FAST, SLOW, entry, failed, names, piped, record, write

STEADY = [1.0, 1.001, 1.002, 1.003]


def times(seconds: float) -> list[float]:
    return [seconds * each for each in STEADY]


def test_top_ranks_each_machine_by_itself_and_knows_races(tmp_path: Path) -> None:
    slow = entry(cpu=SLOW)
    first = write(
        tmp_path / "a",
        [record(0, 1e-3), record(1, 2e-3), record(0, 5e-3, task=slow), failed(2)],
    )
    second = write(tmp_path / "b", [record(2, 3e-3), record(1, 2.1e-3, [0, 2])])
    fast, other = records.top([first, second], 2)
    assert [(f.rank, f.place.path.name, f.place.index, f.race) for f in fast] == [
        (1, "b", 1, "won"),
        (2, "a", 0, "lost"),
    ]
    assert fast[0].to_json()["candidate"] == names(1)
    assert (fast[0].group.candidates, fast[0].group.valid) == (4, 3)
    assert [(f.place.seconds, f.group.machine.name, f.race) for f in other] == [(5e-3, SLOW, "")]
    (best,) = records.best(first)
    assert best.seconds == 1e-3  # neither was measured here: the fastest


def test_a_tie_is_no_win(tmp_path: Path) -> None:
    raced = record(0, 1e-3, [1, 2], ties=[2])
    path = write(tmp_path / "a", [record(1, 2e-3), record(2, 3e-3), record(3, 4e-3), raced])
    (found,) = records.top(path, 4)
    assert [each.race for each in found] == ["tied", "lost", "tied", ""]
    won = record(2, 1e-3, [0, 1])
    path = write(tmp_path / "b", [record(1, 2e-3), raced, won])
    assert [each.race for each in records.top(path, 3)[0]] == ["won", "lost", "lost"]


def test_times_of_a_gpu_are_this_machines_where_it_is_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = {
        **entry(),
        "target": Task.from_workload("matmul", M=16, N=16, K=16, target="cuda").to_json()["target"],
    }
    environments = {name: {"cpu": "any", "gpus": [{"name": name}]} for name in ("H200", "A100")}
    made = [record(0, s, task=task, environment=n) for n, s in (("A100", 1e-3), ("H200", 2e-3))]
    path = write(tmp_path / "a", made, environments)
    for here, seconds in (("H200", 2e-3), ("A100", 1e-3), (None, 1e-3)):
        monkeypatch.setattr(this_gpu, "gpu_name", lambda: here)
        (best,) = records.best(path)
        assert (best.seconds, best.group.machine.here) == (seconds, here is not None)
        assert ("this machine" in best.group.machine.text) is (here is not None)


def test_records_of_this_machine_are_one_group_whatever_environment_is_lost(tmp_path: Path) -> None:
    task = entry(cpu=cpu_target().cpu)
    made = [
        record(0, 1e-3, task=task, environment="lost"),
        record(1, 3e-3, [0], task=task, environment="e"),
    ]
    path = write(tmp_path / "a", made, {"e": {"cpu": cpu_model()}})
    ((first, second),) = records.top(path, 2)
    assert (first.seconds, first.race, second.race) == (3e-3, "won", "lost")
    assert first.group.machine.here


def test_two_machines_are_compared_task_by_task(tmp_path: Path) -> None:
    here, there = entry(cpu=FAST), entry(cpu=SLOW)
    a = write(
        tmp_path / "a",
        [record(k, times(k + 1e0), task=here, environment="e") for k in range(4)]
        + [record(0, task=entry(32))],
        {"e": {"cpu": "Fast", "packages": {"numpy": "1.26"}, "cores": 2}},
    )
    b = write(
        tmp_path / "b",
        [record(k, times(8.0 - k), task=there, environment="e") for k in range(3)],
        {"e": {"cpu": "Slow", "packages": {"numpy": "2.0"}, "cores": 2}},
    )
    found = records.diff(a, b)
    (each,) = found.tasks
    assert each.ratio == pytest.approx(6.0) and each.apart
    assert each.common == 3
    assert each.agreement == pytest.approx(-1)
    assert each.median == pytest.approx(3.5)
    assert each.best_elsewhere == pytest.approx((8.0, 3.0), rel=1e-2)
    assert each.changed == {"cpu": ("Fast", "Slow"), "numpy": ("1.26", "2.0")}
    assert ([t.name for t in found.only_a], found.only_b) == (["matmul(M=32, N=16, K=16)"], [])


def test_what_is_found_is_shown_on_one_line(tmp_path: Path) -> None:
    name = "matmul(M=16, N=16, K=16)"
    a = write(tmp_path / "a", [record(0, times(1e-3)), record(1, 2e-3), failed(2)])
    cold = [record(1, 2e-3, flush=64), record(1, 1e-3, [0], flush=64)]
    b = write(tmp_path / "b", [record(0, times(4e-3)), *cold])
    ((best, _),) = records.top(a, 2)
    assert repr(best) == f"<rank 1 of {name}: 1 ms (1 ms to 1 ms), record 0 of {str(a)!r}>"
    assert repr(best.group) == f"<{name} on {FAST}: 3 candidates, 2 valid>"
    assert repr(best.group.entry) == f"<{name}: 1 group of records>"
    assert repr(best.group.machine) == f"Machine(name={FAST!r}, here=False)"
    won = records.top(b, 1)[1][0]
    assert repr(won).startswith(f"<rank 1 of {name}: 1 ms (1 ms to 1 ms), won, record 2 of ")
    assert repr(won.group) == f"<{name} on {FAST}, with empty caches: 1 candidate, 1 valid>"
    none = write(tmp_path / "none", [failed(0)])
    said = {
        a: "1 ms in a, 1 ms in b, ratio 1.00 (the intervals meet), 2 candidates in both",
        b: "1 ms in a, 4 ms in b, ratio 4.00 (the intervals do not meet), 1 candidate in both",
        none: "1 ms in a, none valid in b, 0 candidates in both",
    }
    for other, words in said.items():
        found = records.diff(a, other)
        assert repr(found) == f"Differences(tasks=[<{name}: {words}>], only_a=[], only_b=[])"
        assert len(repr(found.tasks[0].a)) < 400


def test_a_pipe_is_read_once(tmp_path: Path) -> None:
    """`records diff <(zcat a.gz) <(zcat b.gz)`."""
    paths = [
        write(tmp_path / name, [record(k, times(k + first)) for k in range(3)])
        for name, first in (("a", 1.0), ("b", 2.0))
    ]
    (expected,) = records.diff(*paths).tasks
    with piped(paths[0]) as a, piped(paths[1]) as b:
        (found,) = records.diff(a, b).tasks
    assert found.common == expected.common == 3
    assert (found.median, found.agreement) == (expected.median, expected.agreement)
    assert found.best_elsewhere == expected.best_elsewhere


def test_tasks_of_machines_with_other_numbers_of_cores_are_matched(tmp_path: Path) -> None:
    a = write(tmp_path / "a", [record(0, [1.0, 1.2], task=entry(16, FAST, 2))])
    b = write(tmp_path / "b", [record(0, [1.1, 1.3], task=entry(16, SLOW, 8))])
    (each,) = records.diff(a, b).tasks
    assert each.target == {"threads": ("2", "8")}
    assert not each.apart
    two = write(tmp_path / "two", [record(0, task=entry(16, FAST, n)) for n in (2, 4)])
    for pair in ((two, b), (b, two)):  # which of the two is it?
        found = records.diff(*pair)
        assert (found.tasks, len(found.only_a) + len(found.only_b)) == ([], 3)


@pytest.mark.parametrize("only", ["warm", "cold"])
def test_times_that_were_taken_in_one_way_are_compared(tmp_path: Path, only: str) -> None:
    warm, cold = [record(0, 1e-3)], [record(k, 9e-3, flush=4096) for k in range(3)]
    a = write(tmp_path / "a", warm if only == "warm" else cold)
    b = write(tmp_path / "b", [*warm, *cold, failed(4)])
    for pair in ((a, b), (b, a), (b, b)):
        (each,) = records.diff(*pair).tasks
        flush = 4096 if only == "cold" and pair != (b, b) else 0
        assert each.a.group.cache_flush == each.b.group.cache_flush == flush
        assert each.ratio == 1.0


def test_a_side_without_a_valid_record_has_no_ratio(tmp_path: Path) -> None:
    a, b = write(tmp_path / "a", [record(0)]), write(tmp_path / "b", [failed(0)])
    (each,) = records.diff(a, b).tasks
    assert (each.ratio, each.common, each.b.best) == (None, 0, None)
