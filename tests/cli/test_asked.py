"""Workloads and settings from the words of a command line."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from autosched.cli.asked import Asked
from autosched.errors import ConfigError
from kit.cli import Cli

SIZES = ("M=8", "N=8", "K=8")
EXPR = "C[i, j] = sum(k, A[i, k] * B[k, j])"


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_operators_with_arguments() -> None:
    first, second = Asked(("matmul", *SIZES, "dtype=float16", "softmax", "M=4", "N=8")).configs()
    assert (first.name, second.name) == ("matmul", "softmax")
    assert first.task().name == "matmul(M=8, N=8, K=8, dtype=float16)"
    assert second.task().name == "softmax(M=4, N=8)"
    assert first.records_path() == Path("matmul.jsonl")


def test_an_expression_with_shapes_and_types() -> None:
    shapes = ("A=4,8", "B=8,2")
    task = Asked(expr=EXPR, shapes=shapes, dtypes=("A=float16", "B=float32")).config().task()
    assert [(t.name, str(t.dtype)) for t in task.tensors[:2]] == [
        ("A", "float16"),
        ("B", "float32"),
    ]
    same = Asked(einsum="ij,jk->ik", shapes=shapes, dtypes=("float64",)).config().task()
    assert {str(t.dtype) for t in same.tensors} == {"float64"}


def test_settings_are_typed_as_in_yaml_and_replace_those_of_a_file() -> None:
    Path("mm.yaml").write_text(
        "workload: {op: matmul, args: {M: 8, N: 8, K: 8}}\nsearch: {trials: 3, batch: 2}\n"
    )
    sets = ("search.trials=128", "measure.cache_flush=64 MiB", "workload.args.M=16", "name=mine")
    others = ("inputs.A={uniform: [0, 1]}", "target.hardware={num_cores: 3}")
    config = Asked(("mm.yaml",), sets=(*sets, *others)).config()
    assert (config.search.trials, config.search.batch) == (128, 2)
    assert config.measure.run_options().cache_flush == 64 << 20
    assert config.task().name == "matmul(M=16, N=8, K=8), chosen inputs A"
    assert (config.name, config.target.hardware.num_cores) == ("mine", 3)
    alone = Asked(sets=("workload={op: matmul, args: {M: 8, N: 8, K: 8}}",)).config()
    assert alone.task().name == "matmul(M=8, N=8, K=8)"


@pytest.mark.parametrize("place", ["a file", "the command line"])
def test_what_is_right_for_the_target_that_is_named_is_taken(place: str) -> None:
    """--target counts before settings are checked, in which the kind of target matters."""
    Path("mm.yaml").write_text(
        "workload: {op: matmul, args: {M: 8, N: 8, K: 8}}\ntarget: {kind: cuda, tf32: true}\n"
    )
    if place == "a file":
        asked = Asked(("mm.yaml",))
    else:
        asked = Asked(("matmul", *SIZES), sets=("target.tf32=true",))
    target = asked.config("cuda").task().target
    assert (target.kind, target.tf32) == ("cuda", True)
    with pytest.raises(ConfigError, match=r"^(mm\.yaml:2|--set target\.tf32=true): target\.tf32: "):
        asked.config("cpu")


def test_a_file_with_the_name_of_an_operator(cli: Cli) -> None:
    Path("matmul").write_text("workload: {op: softmax, args: {M: 4, N: 8}}\n")
    asked = Asked(("matmul",))
    assert asked.config().task().name == "softmax(M=4, N=8)"
    assert asked.files() == [Path("matmul")]
    done = cli("lower", "matmul", *SIZES, "--passes", "StorageFlatten")
    assert done.err == "note: matmul is the built-in operator; ./matmul is the file of that name\n"
    assert "Buffer((8, 8), float32)" in done.out
    assert Asked(("matmul", *SIZES)).files() == []


@pytest.mark.parametrize(
    ("words", "settings", "message"),
    [
        ((), (), r"expected a YAML file, a built-in operator such as matmul M=512"),
        (("matmul",), (), r"^matmul: workload matmul: missing argument M, N, K"),
        (("matmul", "M=8"), (), r"^matmul: workload matmul: missing argument N, K"),
        (("matmul", "M=x", "N=8", "K=8"), (), r"^M=x: .*argument M must be an integer, found str"),
        (("matmul", *SIZES, "M=9"), (), r"^M=9: matmul has the argument M twice"),
        (("matmull", *SIZES), (), r"^matmull: neither a file nor .*did you mean 'matmul'\?"),
        (SIZES, (), r"^M=8: an argument follows its operator, e\.g\. matmul M=512"),
        (
            ("x.yaml", "M=8"),
            (),
            r"^M=8: x\.yaml is a configuration file; --set workload\.args\.M=8",
        ),
        (("y.yaml",), (), r"^configuration file y\.yaml does not exist"),
        (("C[i] = A[i] + 1.0",), (), r"^C\[i\] = .*: no file has that name; .* with --expr"),
        (
            ("ik,kj->ij",),
            (),
            r"^ik,kj->ij: no file has that name; give a computation with --einsum",
        ),
        (("matmul", *SIZES), ("search.trials",), r"^--set search\.trials: expected KEY=VALUE"),
        (("matmul", *SIZES), ("=3",), r"^--set =3: expected KEY=VALUE"),
        (
            ("matmul", *SIZES),
            ("search.trials=many",),
            r"^--set search\.trials=many: search\.trials: expected an integer, found text 'many'",
        ),
        (("matmul", *SIZES), ("search.trails=3",), r"unknown key .*Did you mean 'trials'\?"),
        (("matmul", *SIZES), ("trails=3",), r"unknown key .*Did you mean 'search\.trials'\?"),
        (("x.yaml",), ("weight.x=3",), r"^--set weight\.x=3: weight: .* found a mapping"),
        (("x.yaml",), ("workload.args.Q=3",), r"^--set workload\.args\.Q=3: .*argument 'Q'"),
        (("matmul", *SIZES), ("search.trials=[1",), r"^--set search\.trials=\[1: not valid YAML"),
    ],
)
def test_what_is_wrong_is_quoted(
    words: Sequence[str], settings: Sequence[str], message: str
) -> None:
    Path("x.yaml").write_text(
        "workload: {op: matmul, args: {M: 8, N: 8, K: 8}}\nweight: 2.0\n", encoding="utf-8"
    )
    with pytest.raises(ConfigError, match=message):
        Asked(words, sets=settings).configs()


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (Asked(("x.yaml",), EXPR), r"^x\.yaml: with --expr or --einsum no CONFIG is expected"),
        (Asked((), EXPR, "ij,jk->ik"), "--expr and --einsum: give one of them"),
        (Asked((), EXPR, shapes=("A=4,b",)), r"^--shape A=4,b: expected NAME=SIZE,SIZE"),
        (Asked((), EXPR, shapes=("=4",)), r"^--shape =4: expected NAME=SIZE,SIZE"),
        (
            Asked((), EXPR, shapes=("A=4,4", "A=4,5")),
            r"^--shape A=4,5: A was given before, --shape A=4,4$",
        ),
        (
            Asked((), EXPR, shapes=("A=4,4", "B=4,4"), dtypes=("A=int8", "A=int16")),
            r"^--dtype A=int16: A was given before, --dtype A=int8$",
        ),
        (Asked((), EXPR, shapes=("A=4,4",)), r"^--expr: .*the shape of input B is not given"),
        (Asked(("matmul", *SIZES), shapes=("A=4",)), r"^--shape A=4: it is for --expr"),
        (Asked(("matmul", *SIZES), dtypes=("int8",)), r"^--dtype int8: .*dtype=float16"),
        (
            Asked((), EXPR, shapes=("A=4,4", "B=4,4"), dtypes=("float31",)),
            r"^--dtype float31: dtype: expected one of",
        ),
        (Asked((), EXPR, dtypes=("A=int8", "int8")), r"^--dtype int8: expected one type for all"),
    ],
)
def test_wrong_expressions_are_quoted(asked: Asked, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        asked.configs()


def test_one_workload_is_lowered(cli: Cli) -> None:
    done = cli("lower", "--expr", EXPR, "--shape", "A=4,4", "--shape", "B=4,4")
    assert (done.status, done.err) == (0, "")
    assert "Buffer((4, 4), float32)" in done.out
    done = cli("lower", "matmul", *SIZES, "softmax", "M=4", "N=8")
    assert (done.status, done.out) == (2, "")
    assert "expected one workload, found 2: matmul, softmax" in done.err


def test_a_dry_run_of_an_operator_takes_settings(cli: Cli) -> None:
    done = cli("tune", "matmul", *SIZES, "--dry-run", "--trials", 2, "--set", "search.space=ansor")
    assert (done.status, done.err) == (0, "")
    assert done.out.startswith("matmul(M=8, N=8, K=8) on cpu")
