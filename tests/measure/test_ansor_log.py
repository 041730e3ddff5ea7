"""Ansor v0.6 lines: read, written, and unchanged by the way there and back."""

import json
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import numpy as np
import pytest

from autosched.errors import ConfigError
from autosched.features.lowering import features_of_steps
from autosched.measure import ansor_log
from autosched.measure.records import Record, read_log, task_hash
from autosched.measure.result import Failure
from autosched.target import Target, cpu_target, cuda_target
from autosched.task import Task
from kit.golden_lines import golden_candidates
from kit.measurer import failure_of

GOLDEN = Path(__file__).resolve().parent.parent / "golden"
WORKED = (
    '{"i": [["[\\"matmul\\", 16, 8, 32]", "llvm -keys=cpu -mcpu=core-avx2", '
    '[4, 64, 64, 0, 0, 0, 0, 0], "", 1, []], [[], [["SP", 2, 0, 16, [1, 1, 8], 1], '
    '["RE", 2, [0, 4, 1, 5, 8, 2, 6, 9, 3, 7]], ["PR", 2, 0, "auto_unroll_max_step$16"], '
    '["AN", 2, 6, 2]]]], "r": [[1.25e-05, 1.3e-05], 0, 0.75, 1700000000], "v": "v0.6"}'
)


def there_and_back(line: str) -> str:
    """Through a line of ours."""
    task, steps, result, when = ansor_log.parse(json.loads(line))
    ours = json.dumps(Record(task, steps, result, time=when).to_json())
    again = Record.from_json(json.loads(ours), {task_hash(task): task})
    seconds = int(datetime.fromisoformat(again.time).timestamp())
    return ansor_log.format_line(again.task, again.steps, again.result, seconds)


@pytest.mark.parametrize(
    "line",
    [
        WORKED,
        WORKED.replace("[[1.25e-05, 1.3e-05], 0, 0.75", "[[1e+10], 7, 10.5"),
        WORKED.replace("[[1.25e-05, 1.3e-05], 0, 0.75", "[[1e+10], 2, 15"),
        WORKED.replace("1.25e-05, 1.3e-05], 0, 0.75", "3.6736060606060608e-06], 0, 0.1594091"),
    ],
)
def test_a_line_survives_byte_for_byte(line: str) -> None:
    assert there_and_back(line) == line


def test_the_fields_of_the_worked_example() -> None:
    task, steps, result, when = ansor_log.parse(json.loads(WORKED))
    assert task["workload"] == {
        "op": "matmul",
        "args": {"M": 16, "N": 8, "K": 32, "dtype": "float32"},
    }
    assert task["hardware"]["num_cores"] == 4
    assert len(steps) == 4
    assert result.seconds == (1.25e-05, 1.3e-05)
    assert result.total_seconds == 0.75
    assert when == "2023-11-14T22:13:20+00:00"


def test_every_golden_step_list_survives() -> None:
    lines = list(golden_candidates())
    assert len(lines) == 679
    for line in lines:
        key = json.dumps([line["workload"], *line["args"].values()])
        target = "cuda" if line["target"] == "cuda" else "llvm"
        task = [key, target, line["hardware"], "", 0, []]
        text = json.dumps(
            {"i": [task, [[], line["steps"]]], "r": [[0.5], 0, 1, 1700000000], "v": "v0.6"}
        )
        assert there_and_back(text) == text


@pytest.mark.parametrize("name", ["ansor_log_matmul.json", "ansor_log_conv2d.json"])
def test_every_line_of_a_whole_log_survives_and_can_be_replayed(name: str) -> None:
    lines = (GOLDEN / name).read_text().splitlines()
    assert len(lines) == 64
    log = read_log(GOLDEN / name)
    assert not log.problems
    task = Task.from_json(log.records[0].task)
    for line, record in zip(lines, log.records, strict=True):
        assert there_and_back(line) == line
        assert record.task == log.records[0].task
        assert record.result.seconds
        assert "None" not in task.dag.infer_bound_of(record.steps).to_str()
    for record in log.records[::4]:
        rows = features_of_steps(task.dag, record.steps, task.target, "ansor-0.19")
        assert np.isfinite(rows).all()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (('"v0.6"', '"v0.5"'), "version 'v0.5' is unknown"),
        (("matmul", "matmull"), "the workload 'matmull' is not known"),
        (("16, 8, 32]", "16, 8, 32, 4, 5]"), "at most 3 arguments"),
        (('"v": ', '"w": 1, "v": '), "unknown key 'w'"),
    ],
)
def test_a_foreign_line_is_refused(change: tuple[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        ansor_log.parse(json.loads(WORKED.replace(*change)))


@pytest.mark.parametrize("seconds", ["NaN", "Infinity", "-1", "1e10", '"1"', "true", "[]"])
def test_seconds_that_no_record_may_have_are_refused(tmp_path: Path, seconds: str) -> None:
    """What is read can be written as a record, and read again."""
    line = json.loads(WORKED)
    line["r"][2] = "here"
    path = tmp_path / "ansor.json"
    path.write_text(f"{WORKED}\n" + json.dumps(line).replace('"here"', seconds) + "\n")
    log = read_log(path)
    assert len(log.records) == 1
    (problem,) = log.problems
    assert "ansor.json:2: all_cost: expected seconds from 0 on, found " in problem


def test_an_expression_has_no_v06_name() -> None:
    task = {"workload": {"expr": "..."}, "target": {"kind": "cpu"}, "hardware": {}}
    _, steps, result, _ = ansor_log.parse(json.loads(WORKED))
    with pytest.raises(ConfigError, match="only built-in workloads"):
        ansor_log.format_line(task, steps, result, 0)


@pytest.mark.parametrize(
    ("target", "text"),
    [
        (replace(cpu_target(1), cpu="znver4"), "llvm -keys=cpu -mcpu=znver4"),
        (replace(cpu_target(1), cpu=""), "llvm -keys=cpu"),
        (cuda_target("sm_90"), "cuda -keys=cuda,gpu -arch=sm_90"),
    ],
)
def test_a_line_names_what_is_built_for(target: Target, text: str) -> None:
    task = Task.from_workload("matmul", M=16, N=8, K=32, target=target)
    _, steps, result, _ = ansor_log.parse(json.loads(WORKED))
    line = ansor_log.format_line(task.to_json(), steps, result, 0)
    assert json.loads(line)["i"][0][1] == text
    again, *_ = ansor_log.parse(json.loads(line))
    assert again["target"]["kind"] == target.kind


def test_a_key_has_the_order_of_the_operators_arguments() -> None:
    """Other programs may sort the keys of a record, as `jq -S` does."""
    task = Task.from_workload("conv1d_nlc", N=1, L=16, CI=2, CO=3, K=3, stride=1, padding=0)
    entry = task.to_json()
    entry_sorted = json.loads(json.dumps(entry, sort_keys=True))
    assert list(entry_sorted["workload"]["args"]) != list(entry["workload"]["args"])
    _, steps, result, _ = ansor_log.parse(json.loads(WORKED))
    line = ansor_log.format_line(entry_sorted, steps, result, 0)
    assert line == ansor_log.format_line(entry, steps, result, 0)
    assert json.loads(json.loads(line)["i"][0][0]) == ["conv1d_nlc", 1, 16, 2, 3, 3, 1, 0]


def test_a_key_tells_no_types() -> None:
    """What is read back would be another task, of float32."""
    target = cpu_target(1)
    task = Task.from_workload("matmul", M=4, N=4, K=4, in_dtype="int8", target=target).to_json()
    _, steps, result, _ = ansor_log.parse(json.loads(WORKED))
    with pytest.raises(ConfigError, match=r"only workloads of float32 .* found in_dtype=int8"):
        ansor_log.format_line(task, steps, result, 0)


def test_chosen_inputs_have_no_place_in_a_line() -> None:
    """What is read back would be another task, on random inputs."""
    task = Task.from_workload("matmul", M=4, N=4, K=4, target=cpu_target(1))
    mine = task.with_inputs({"A": {"uniform": [0, 1]}}).to_json()
    _, steps, result, _ = ansor_log.parse(json.loads(WORKED))
    with pytest.raises(ConfigError, match="it was measured on chosen inputs, which Ansor's format"):
        ansor_log.format_line(mine, steps, result, 0)
    read = {**mine, "ansor": json.loads(WORKED)["i"][0]}  # by a configuration with inputs
    assert ansor_log.format_line(read, steps, result, 1700000000).startswith(WORKED[:60])


def test_a_lowering_has_no_place_in_a_line() -> None:
    """What is read back would be another task, lowered as usual."""
    task = Task.from_workload("matmul", M=4, N=4, K=4, target=cpu_target(1))
    mine = task.with_lowering(disabled_pass=["UnrollLoop"]).to_json()
    _, steps, result, _ = ansor_log.parse(json.loads(WORKED))
    with pytest.raises(ConfigError, match="its task has a lowering section, which Ansor's format"):
        ansor_log.format_line(mine, steps, result, 0)


@pytest.mark.parametrize(
    ("stage", "kind", "number"),
    [
        *[(stage, kind, number) for number, (stage, kind) in ansor_log.ERRORS.items()],
        ("lower", "error", 1),
        ("lower", "timeout", 6),
        ("compile", "illegal", 2),
        ("compile", "memory", 2),
        ("load", "lost", 3),
        ("load", "timeout", 7),
        ("run", "memory", 4),
        ("check", "timeout", 7),
        ("check", "error", 8),
    ],
)
def test_a_failure_has_the_number_of_its_stage(stage: str, kind: str, number: int) -> None:
    task, steps, result, _ = ansor_log.parse(json.loads(WORKED))
    failed = result.failed(Failure(stage, kind, "why"))
    (costs, error, *_) = json.loads(ansor_log.format_line(task, steps, failed, 0))["r"]
    assert (costs, error) == ([1e10], number)


@pytest.mark.parametrize(
    ("words", "width"),
    [
        ("llvm -keys=cpu -mcpu=skylake-avx512 -num-cores=2", 64),
        ("llvm -mcpu=core-avx2", 32),
        ("llvm -mcpu=nehalem", 16),
        ("llvm -mcpu=cortex-a72 -mtriple=aarch64-linux-gnu", 16),
        ("llvm", 16),
    ],
)
def test_a_line_is_for_the_vectors_of_the_cpu_that_it_names(words: str, width: int) -> None:
    """Features of the candidates depend on them; code is made for no CPU but this machine's."""
    task, *_ = ansor_log.parse(json.loads(WORKED.replace("llvm -keys=cpu -mcpu=core-avx2", words)))
    assert (task["target"]["vector_bytes"], task["target"]["cpu"]) == (width, "")


@pytest.mark.parametrize(
    ("words", "arch"),
    [
        ("cuda -keys=cuda,gpu -arch=sm_61 -max_num_threads=1024", "sm_61"),
        ("cuda -arch=sm_90a", "sm_90a"),
        ("cuda -keys=cuda,gpu", ""),
        ("cuda -arch=of_my_own -x-arch=sm_80", ""),
    ],
)
def test_a_line_is_for_the_architecture_that_it_names(words: str, arch: str) -> None:
    """Its cores, which Ansor's limits count, are no threads of this machine."""
    cuda = WORKED.replace("llvm -keys=cpu -mcpu=core-avx2", words).replace("[4, ", "[80, ")
    task, *_ = ansor_log.parse(json.loads(cuda))
    assert (task["target"]["arch"], task["target"]["threads"]) == (arch, 1)
    assert Task.from_json(task).key == task["key"]
    assert there_and_back(cuda) == cuda


def test_a_failure_has_no_time() -> None:
    """Ansor writes 1e10 seconds for it."""
    failed = WORKED.replace("[[1.25e-05, 1.3e-05], 0", "[[1e+10], 2")
    assert failed != WORKED
    _, _, result, _ = ansor_log.parse(json.loads(failed))
    assert result.seconds == ()
    failure = failure_of(result)
    assert (failure.stage, failure.kind) == ("compile", "error")
    assert result.cost == float("inf")
