"""Workload keys of Ansor's logs that do not tell a computation, and what the user says of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from autosched.errors import ConfigError
from autosched.measure import ansor_log
from autosched.measure.records import read_log
from autosched.measure.workload_keys import Computation, WorkloadKeys, elements
from autosched.task import Task

HASH = "0123456789abcdef0123456789abcdef"
LOG = Path(__file__).resolve().parent.parent / "golden" / "ansor_log_matmul.json"


def lines_with(key: Any) -> list[dict[str, Any]]:
    """The golden log of a 512x512x512 matmul, its workload key replaced."""
    lines: list[dict[str, Any]] = [json.loads(line) for line in LOG.read_text().splitlines()]
    for line in lines:
        line["i"][0][0] = key if isinstance(key, str) else json.dumps(key)
    return lines


def matmul(size: int = 512, *, n: int = 512, k: int = 512) -> Computation:
    """One of the same kind, written as text."""
    expr = "Z[x, y] = sum(r, X[x, r] * Y[r, y])"
    task = Task.from_expression(expr, {"X": (size, k), "Y": (k, n)})
    return Computation.of("mine.yaml", task)


SQUARE = [512, 512]
FITTING = [
    [HASH, SQUARE, SQUARE, SQUARE],
    [HASH, *SQUARE, *SQUARE, *SQUARE],
    [HASH],
    ["my_layer", 512, "float32"],
    ["my_layer", ["TENSOR", SQUARE, "float32"], ["TENSOR", SQUARE, "float32"]],
    ["matmul", 512, 512, 512, "float32", 1],
    "my_layer",
]


@pytest.mark.parametrize("key", FITTING)
def test_an_unknown_key_stands_for_the_computation_that_is_named(key: Any) -> None:
    keys = WorkloadKeys(other=matmul())
    tasks = set()
    for line in lines_with(key):
        entry, steps, result, _ = ansor_log.parse(line, keys)
        task = Task.from_json(entry)
        tasks.add(task.key)
        assert result.valid
        assert "None" not in task.dag.infer_bound_of(steps).to_str()
        assert "expr" in entry["workload"]
        assert entry["ansor"] == line["i"][0]
        assert entry["hardware"]["num_cores"] == 2
    assert len(tasks) == 1
    assert keys.unused == []


@pytest.mark.parametrize("key", FITTING)
def test_without_a_name_the_message_names_the_option(key: Any) -> None:
    with pytest.raises(ConfigError, match="give its computation with --workload CONFIG"):
        ansor_log.parse(lines_with(key)[0])


@pytest.mark.parametrize("key", FITTING[:2])
def test_other_shapes_are_refused(key: Any) -> None:
    with pytest.raises(ConfigError, match=r"mine.yaml does not fit: expected .512, 256.*in the w"):
        ansor_log.parse(lines_with(key)[0], WorkloadKeys(other=matmul(n=256, k=256)))


def test_the_order_of_arguments_and_their_number_count() -> None:
    for shapes in ([SQUARE, [512, 8], [8, 512]], [SQUARE, SQUARE]):
        with pytest.raises(ConfigError, match="does not fit"):
            ansor_log.parse(lines_with([HASH, *shapes])[0], WorkloadKeys(other=matmul(k=8)))


def test_steps_of_another_computation_are_refused_line_by_line(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines_with([HASH])))
    softmax = Computation.of("softmax.yaml", Task.from_workload("softmax", M=512, N=512))
    for other in (matmul(256), matmul(k=1024), softmax):
        contents = read_log(path, WorkloadKeys(other=other))
        assert not contents.records
        assert len(contents.problems) == 64
        for number, problem in enumerate(contents.problems, 1):
            assert problem.startswith(f"{path}:{number}: {other.source} does not fit: ")


def test_one_configuration_is_for_the_first_unknown_key_only() -> None:
    keys = WorkloadKeys(other=matmul())
    first, second = lines_with(["one"])[0], lines_with(["two"])[0]
    ansor_log.parse(first, keys)
    with pytest.raises(
        ConfigError, match=r"mine.yaml is used for \[\"one\"\], give the computation of another"
    ):
        ansor_log.parse(second, keys)
    ansor_log.parse(first, keys)


@pytest.mark.parametrize("name", [HASH, json.dumps([HASH, SQUARE, SQUARE, SQUARE])])
def test_a_key_is_named_by_its_first_element_or_whole(name: str) -> None:
    other = Computation.of("other.yaml", Task.from_workload("matmul", M=8, N=8, K=8))
    keys = WorkloadKeys({name: matmul(), "not there": other})
    entry, *_ = ansor_log.parse(lines_with(FITTING[0])[0], keys)
    assert entry["workload"] == matmul().workload
    assert keys.unused == ["other.yaml"]


def test_a_known_key_stays_what_it_is_unless_it_is_named() -> None:
    line = lines_with(["matmul", 512, 512, 512])[0]
    keys = WorkloadKeys(other=matmul())
    entry, *_ = ansor_log.parse(line, keys)
    assert entry["workload"]["op"] == "matmul"
    assert keys.unused == ["mine.yaml"]
    entry, *_ = ansor_log.parse(line, WorkloadKeys({"matmul": matmul()}))
    assert "expr" in entry["workload"]


OWN = ["matmul", 512, 256, 512]
"""Of a function called matmul whose sizes are in another order."""


def test_a_function_that_is_called_as_a_built_in_is_another_computation(tmp_path: Path) -> None:
    path = tmp_path / "ansor.json"
    path.write_text("\n".join(json.dumps(line) for line in lines_with(OWN)))
    log = read_log(path)
    assert not log.records
    assert ": the built-in matmul does not fit: step " in log.problems[0]
    assert (
        " in matmul(M=512, N=256, K=512) has 256; give its computation with --workload CONFIG "
        in log.problems[0]
    )
    assert len(read_log(path, WorkloadKeys(other=matmul())).records) == 64


def test_lines_that_tell_nothing_are_of_the_computation_of_their_key() -> None:
    keys, (telling, silent, *_) = WorkloadKeys(other=matmul()), lines_with(OWN)
    silent["i"][1][1] = []
    for line in (telling, silent):
        assert "expr" in ansor_log.parse(line, keys)[0]["workload"]


def test_one_candidate_tells_for_all_of_a_key() -> None:
    """Applying steps to loops takes longer than reading them."""
    first, second, *_ = lines_with(["matmul", 512, 512, 512])
    fitting: set[str] = set()
    second["i"][1][1] = [["SP", 2, 0, 7, [7], 1]]
    with pytest.raises(ConfigError, match="splits a loop of 7 iterations, but loop i of C"):
        ansor_log.parse(second, None, fitting)
    ansor_log.parse(first, None, fitting)
    assert fitting == {first["i"][0][0]}
    ansor_log.parse(second, None, fitting)


def test_steps_that_do_not_apply_are_for_lowering_to_refuse() -> None:
    (line, *_) = lines_with(["matmul", 512, 512, 512])
    line["i"][1][1] = [["SP", 9, 0, 512, [8], 1]]
    assert len(ansor_log.parse(line)[1]) == 1


def test_chosen_inputs_come_along() -> None:
    task = Task.from_workload("matmul", M=512, N=512, K=512)
    chosen = Computation.of("c.yaml", task.with_inputs({"A": {"constant": 1}}))
    entry, *_ = ansor_log.parse(lines_with([HASH])[0], WorkloadKeys(other=chosen))
    assert entry["inputs"] == {"A": {"constant": 1}}


def test_a_line_is_written_back_as_it_was() -> None:
    for line in lines_with(FITTING[0]):
        entry, steps, result, _ = ansor_log.parse(line, WorkloadKeys(other=matmul()))
        again = json.loads(ansor_log.format_line(entry, steps, result, line["r"][3]))
        assert again == line


@pytest.mark.parametrize(
    ("text", "found"),
    [('["a", 1]', ["a", 1]), ("a", ["a"]), ('"a"', ['"a"']), ("[]", ["[]"]), ("{", ["{"])],
)
def test_elements_of_a_key(text: str, found: list[Any]) -> None:
    assert elements(text) == found
