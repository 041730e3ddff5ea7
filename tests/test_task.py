"""Tasks: their keys, their records, their layout option."""

import builtins
import copy
import json
import pickle
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from autosched import user_file
from autosched.errors import ConfigError
from autosched.layout import LayoutOption
from autosched.target import HardwareParams, Target
from autosched.task import Task
from kit.passes import ONE

TARGET = Target("cpu", HardwareParams.default("cpu"), threads=2)
EXPR = "C[i, j] = sum(k, A[i, k] * B[k, j])"
SHAPES = {"A": [4, 6], "B": [6, 8]}
SIZES: dict[str, Any] = {"M": 16, "N": 32, "K": 8}
CONV = {"N": 1, "K": 3, "stride": 1, "padding": 1}
REWRITES = ("insert-transform-stage", "pre-transformed")


def matmul(**more: Any) -> Task:
    return Task.from_workload("matmul", **SIZES, target=TARGET, **more)


def expression(**more: Any) -> Task:
    return Task.from_expression(EXPR, SHAPES, target=TARGET, **more)


def test_a_task_without_a_rewrite_has_the_record_and_key_it_always_had() -> None:
    entry = matmul().to_json()
    assert set(entry) == {"workload", "target", "hardware", "key"}
    assert Task.from_json(entry) == matmul(layout_rewrite="none") == matmul(layout_rewrite=0)
    workload = {"args": {**SIZES, "dtype": "float32"}, "op": "matmul"}
    assert entry["workload"] == workload
    assert set(expression().to_json()["workload"]) == {"expr", "shapes", "dtype"}


def test_which_inputs_are_free_matters_only_with_a_rewrite() -> None:
    assert expression(layout_free=["B"]).key == expression().key
    keys = {
        expression(layout_free=names, layout_rewrite=rewrite).key
        for names in (["A"], ["B"], ["A", "B"])
        for rewrite in REWRITES
    }
    assert len(keys) == 6
    assert expression().key not in keys


@pytest.mark.parametrize("rewrite", REWRITES)
def test_the_option_is_part_of_record_key_and_name(rewrite: str) -> None:
    for task in (
        matmul(layout_rewrite=rewrite),
        expression(layout_free=["B"], layout_rewrite=rewrite),
    ):
        entry = json.loads(json.dumps(task.to_json()))
        assert entry["layout_rewrite"] == rewrite
        again = Task.from_json(entry)
        assert again == task and again.key == entry["key"]
        assert task.layout_free == (task.tensors[1],)
        assert task.layout is LayoutOption.parse(rewrite)
    assert matmul(layout_rewrite=rewrite).key != matmul().key
    word = {"pre-transformed": "pre-transformed"}.get(rewrite, "transformed first")
    assert matmul(layout_rewrite=rewrite).name == f"matmul(M=16, N=32, K=8), B {word}"


def test_marks_change_nothing_in_the_computation() -> None:
    plain, marked = expression(), expression(layout_free=["B"])
    assert marked.dag.print_dag() == plain.dag.print_dag()
    assert marked.dag.hash_key() == plain.dag.hash_key()


@pytest.mark.parametrize(
    ("op", "args", "free"),
    [
        ("matmul", SIZES, ["B"]),
        ("batch_matmul", {"B": 2, **SIZES}, ["Y"]),
        ("dense_bias_relu", SIZES, ["W"]),
        (
            "conv1d_nlc",
            {**CONV, "L": 9, "CI": 3, "CO": 4},
            ["W"],
        ),
        (
            "depthwise_conv2d_nhwc",
            {**CONV, "H": 5, "W": 5, "C": 6},
            ["K"],
        ),
        (
            "conv2d_nchw_bn_relu",
            {**CONV, "H": 5, "W": 5, "CI": 3, "CO": 4},
            ["K"],
        ),
        ("softmax", {"M": 4, "N": 4}, []),
        (
            "conv2d_transpose_nhwc",
            {**CONV, "H": 3, "W": 3, "CI": 3, "CO": 2, "K": 4, "stride": 2},
            [],
        ),
    ],
)
def test_the_weights_of_built_ins_are_free(op: str, args: dict[str, Any], free: list[str]) -> None:
    task = Task.from_workload(op, target=TARGET, **args)
    assert [tensor.name for tensor in task.layout_free] == free


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: expression(layout_rewrite="pre-transformed"), "has none; an expression names"),
        (lambda: expression(layout_free=["D"]), r"layout_free: expected inputs \(A, B\), found"),
        (lambda: expression(layout_free=["C"]), r"layout_free: expected inputs \(A, B\), found"),
        (lambda: matmul(layout_rewrite="packed"), "layout_rewrite: expected one of none, insert"),
        (
            lambda: Task.from_workload(
                "matmul", **SIZES, target="cuda", layout_rewrite="pre-transformed"
            ),
            "is for CPU targets, found cuda",
        ),
        (
            lambda: Task.from_workload(
                "softmax", M=4, N=4, target=TARGET, layout_rewrite="insert-transform-stage"
            ),
            r"insert-transform-stage needs a layout-free input, but softmax\(M=4, N=4\)",
        ),
    ],
)
def test_an_option_that_cannot_be_is_refused(make: Callable[..., Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        make()


@pytest.mark.parametrize(("attribute", "ok"), [("[B]", True), ("B", False), ("['B']", False)])
def test_a_python_function_names_them_in_its_attributes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, attribute: str, ok: bool
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ops.py").write_text(
        "from autosched import te\n"
        "def scaled(n):\n"
        "    A, B = te.placeholder((n, n), name='A'), te.placeholder((n, n), name='B')\n"
        "    C = te.compute((n, n), lambda i, j: A[i, j] * B[j, i], name='C',\n"
        f"                   attrs={{'layout_free_placeholders': {attribute}}})\n"
        "    return [A, B, C]\n"
    )
    workload = {"python": "ops.py:scaled", "args": {"n": 4}}
    if not ok:
        with pytest.raises(ConfigError, match="must be a list of tensors"):
            Task.from_json_workload(workload, TARGET, "pre-transformed")
        return
    task = Task.from_json_workload(workload, TARGET, "pre-transformed")
    assert [tensor.name for tensor in task.layout_free] == ["B"]


@pytest.mark.parametrize(
    ("task", "name"),
    [
        (Task.from_workload("matmul", M=4, N=4, K=4), "matmul"),
        (Task.from_expression("C[i] = A[i] + (A[i])", {"A": [4]}), "main"),
        (Task.from_einsum("ij,jk->ik", {"A": [4, 4], "B": [4, 4]}), "main"),
    ],
)
def test_functions_are_called_as_the_operator_where_it_has_a_name(task: Task, name: str) -> None:
    assert task.function_name == name


def python_file(folder: Path, more: str = "") -> Path:
    path = folder / "my_ops.py"
    path.write_text(
        "from autosched import te\n\n\n"
        "def double(n):\n"
        "    A = te.placeholder((n,), name='A')\n"
        "    return A, te.compute((n,), lambda i: A[i] * 2.0, name='B')\n" + more
    )
    return path


def from_file(folder: Path) -> Task:
    return Task.from_python(f"{python_file(folder)}:double", n=8, target=TARGET)


@pytest.mark.parametrize("copied", [lambda t: pickle.loads(pickle.dumps(t)), copy.copy, deepcopy])
@pytest.mark.parametrize("make", [lambda _: matmul(), lambda _: expression(), from_file])
def test_a_task_survives_pickle_and_copy_once_it_was_used(
    make: Callable[[Path], Task], copied: Callable[[Task], Task], tmp_path: Path
) -> None:
    task = make(tmp_path)
    assert task.dag.flop_count
    again = copied(task)
    assert (again, again.key) == (task, task.key)
    assert again.dag.flop_count == task.dag.flop_count


def test_a_function_is_the_one_of_its_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = python_file(tmp_path)
    namespace: dict[str, Any] = {}
    exec(compile(path.read_text(), str(path), "exec"), namespace)
    task = Task.from_python(namespace["double"], n=8, target=TARGET)
    assert task == from_file(tmp_path)
    assert Task.from_json(task.to_json()) == task
    monkeypatch.chdir(tmp_path)
    assert Task.from_python(namespace["double"], n=8).name == "my_ops.py:double(n=8)"


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (lambda n: n, r"python: \S*<lambda> is not at the top level of a file"),
        (7, "expected a function or file.py:function, found 7"),
        (len, "expected a function or file.py:function"),
    ],
)
def test_what_no_other_process_could_load_is_refused(function: Any, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Task.from_python(function, n=8)


def test_a_file_that_asks_for_itself_is_not_run_again_and_again(tmp_path: Path) -> None:
    path = python_file(
        tmp_path, "\n\nimport autosched\n\nautosched.Task.from_python(double, n=8)\n"
    )
    with pytest.raises(ConfigError, match=r"my_ops\.py:11: .*makes a task of its own.*__main__"):
        Task.from_python(f"{path}:double", n=8)


def test_threads_run_one_file_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    inside, both = threading.Event(), threading.Barrier(2)

    def meet() -> None:
        inside.set()
        both.wait(60)

    monkeypatch.setattr(builtins, "autosched_meet", meet, raising=False)
    path = python_file(tmp_path, "\n\nimport builtins\n\nbuiltins.autosched_meet()\n")
    with ThreadPoolExecutor(1) as other:
        task = other.submit(Task.from_python, f"{path}:double", n=8)
        try:
            assert inside.wait(60)
            assert Task.from_python(f"{path}:double", n=8) == task.result()
        finally:
            both.abort()


def test_a_lowering_is_part_of_record_key_and_name(passes: Path) -> None:
    plain = matmul()
    assert plain.with_lowering() == plain and plain.with_lowering().key == plain.key
    mine = plain.with_lowering([ONE], disabled_pass=["UnrollLoop"], config={"tir.noalias": False})
    entry = json.loads(json.dumps(mine.to_json()))
    assert set(entry) == {*plain.to_json(), "lowering"}
    assert mine.name == (
        f"{plain.name}, lowered with OneThread and tir.noalias=false, without UnrollLoop"
    )
    assert mine.runs_code and not plain.with_lowering(disabled_pass=["UnrollLoop"]).runs_code
    for again in (
        Task.from_json(entry, trust=True),
        deepcopy(mine),
        pickle.loads(pickle.dumps(mine)),
    ):
        assert again == mine and hash(again) == hash(mine) and again.key == entry["key"]
    others = [
        plain,
        plain.with_lowering([ONE]),
        plain.with_lowering([{"pass": ONE, "phase": 2}]),
        plain.with_lowering(["my_passes.py:unrolled"]),
        plain.with_lowering([ONE, "my_passes.py:Whole"]),
        plain.with_lowering(["my_passes.py:Whole", ONE]),
        plain.with_lowering(disabled_pass=["UnrollLoop"]),
        plain.with_lowering(config={"tir.noalias": True}),
    ]
    assert len({task.key for task in (mine, *others)}) == len(others) + 1
    assert mine.with_inputs({"A": {"constant": 1}}).lowering == mine.lowering


def test_what_a_lowering_asks_for_is_looked_for_at_once(passes: Path) -> None:
    with pytest.raises(ConfigError, match=r"^lowering: passes: my_passes\.py defines no pass X$"):
        matmul().with_lowering(["my_passes.py:X"])
    with pytest.raises(ConfigError, match=r"^lowering: config: expected settings"):
        matmul().with_lowering(config=0)  # type: ignore[arg-type]  # wrong on purpose


def test_a_records_passes_run_only_where_they_are_trusted(
    passes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = matmul().with_lowering([ONE]).to_json()
    assert Task.from_json(entry).key == entry["key"]  # this process has run the file
    monkeypatch.setattr(user_file, "_RAN", set())
    with pytest.raises(ConfigError, match=r"^lowering: passes: a record names my_passes\.py:OneT"):
        Task.from_json(entry)
    spoken_of = Task.from_json(entry, to_run=False)
    assert spoken_of.name == f"{matmul().name}, lowered with OneThread"
    with pytest.raises(ConfigError, match=r"^lowering: passes: a record names my_passes\.py:OneT"):
        spoken_of.lowering.require()
    with user_file.trusting():
        trusted = Task.from_json(entry)
    trusted.lowering.require()
    assert trusted.key == entry["key"]
    del entry["lowering"]["passes"]
    Task.from_json({**entry, "lowering": {"disabled_pass": ["Simplify"]}})


def test_functions_of_a_records_inputs_run_only_where_they_are_trusted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "gen.py"
    file.write_text("def ones(rng, shape, dtype):\n    return rng.random(shape).astype(dtype)\n")
    entry = matmul().with_inputs({"A": {"function": f"{file}:ones"}}).to_json()
    monkeypatch.setattr(user_file, "_RAN", set())
    with pytest.raises(ConfigError, match=r"^inputs: A: a record names .*gen\.py:ones, and record"):
        Task.from_json(entry)
    for spoken_of in (
        task := Task.from_json(entry, to_run=False),
        pickle.loads(pickle.dumps(task)),
    ):
        assert spoken_of.key == entry["key"]
        with pytest.raises(ConfigError, match=r"^inputs: A: a record names .*gen\.py:ones, and"):
            spoken_of.inputs()
    with user_file.trusting():
        assert len(task.inputs()) == 2


def test_seeds_and_inputs_of_a_reference_are_checked() -> None:
    task = matmul()
    with pytest.raises(ConfigError, match="seed: expected at least 0, found -1"):
        task.inputs(-1)
    with pytest.raises(ConfigError, match=r"inputs: expected arrays for A, B, found \[\] \(list\)"):
        task.reference([])
