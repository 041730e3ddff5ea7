"""`autosched show`: every form of a candidate, and how the rest is refused."""

import contextlib
import io
import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autosched.driver import lower, lower_steps
from autosched.errors import ScheduleError
from autosched.layout import LayoutOption
from autosched.measure.record_log import RecordLog
from autosched.measure.records import Record
from autosched.measure.result import Failure, MeasureResult
from autosched.search.space import SearchSpace
from autosched.state.layout_rewrite import rewrite_layout
from autosched.state.packed_inputs import PackedDAG
from autosched.state.steps import Step, steps_from_json
from autosched.target import cpu_target, cuda_target
from autosched.task import Task
from kit.cli import Cli, MakeRecord
from kit.golden_lines import golden_candidates


@pytest.fixture
def ansor_file(tmp_path: Path) -> Path:
    """An Ansor v0.6 log of two tasks: the same matmul for a CPU and for CUDA."""
    found = golden_candidates("ansor_v06.jsonl.gz")
    lines = [line for line in found if line["workload"] == "matmul"]
    path = tmp_path / "ansor.json"
    with path.open("w") as out:
        for kind, target in (("cpu", "llvm -keys=cpu"), ("cuda", "cuda -keys=cuda,gpu")):
            line = next(d for d in lines if d["target"] == kind)
            key = json.dumps(["matmul", *line["args"].values()])
            task = [key, target, line["hardware"], "", 1, []]
            inputs = [task, [[], line["steps"]]]
            out.write(json.dumps({"i": inputs, "r": [[1e-3], 0, 1, 1700000000], "v": "v0.6"}))
            out.write("\n")
    return path


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ("loops", "parallel i.0 (0,4)\n  for j.0 (0,2)\n    for k (0,16)"),
        ("steps", '["SP", 2, 0, 16, [4], 1]\n["SP", 2, 2, 16, [8], 1]'),
        ("te", "s[C].vectorize("),
        ("python", "print(lower(s, task.tensors, task.target, lenient=True))"),
        ("tir", "in parallel(4):"),
        ("llvm", "define "),
        ("asm", ".text"),
        ("features", "float_mad"),
    ],
)
def test_the_best_candidate_in_every_form(cli: Cli, log: Path, form: str, words: str) -> None:
    done = cli("show", log, "--as", form)
    assert done.status == 0
    assert words in done.out
    assert done.err == ""


def test_an_index_counts_from_either_end(cli: Cli, log: Path) -> None:
    assert cli("show", log, "--index", 0, "--as", "steps").out == ""
    assert cli("show", log, "--index", -2, "--as", "steps").out.startswith('["SP"')


@pytest.mark.parametrize("form", ["loops", "steps", "te", "tir", "features"])
def test_every_task_of_an_ansor_log_is_shown_with_its_name(
    cli: Cli, ansor_file: Path, form: str
) -> None:
    done = cli("show", ansor_file, "--as", form)
    assert done.status == 0
    assert "# matmul(M=512, N=512, K=512) on cpu, 1 ms\n" in done.out
    assert "\n# matmul(M=512, N=512, K=512) on cuda, 1 ms\n" in done.out
    assert "holds 2 tasks; the best of each is taken" in done.err


def test_an_illegal_candidate_does_not_hide_the_others(
    cli: Cli, ansor_file: Path, record: MakeRecord
) -> None:
    bad = record(steps=steps_from_json([["SP", 9, 0, 16, [4], 1]]))
    RecordLog(ansor_file).append([bad])
    done = cli("show", ansor_file)
    assert done.status == 3
    assert "matmul(M=16, N=16, K=16) on cpu, 1 ms: step 0 SplitStep on stage 9" in done.err
    assert "# matmul(M=512, N=512, K=512) on cuda, 1 ms" in done.out


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("mm.jsonl", "--as", "nonsense"), "expected one of loops, steps, te, python, tir, llvm"),
        (("mm.jsonl", "--features", "ansor-0.19"), "--features is only for --as features; add"),
        (("mm.jsonl", "--as", "features", "--features", "x"), "feature set 'x' is unknown"),
        (("mm.jsonl", "--index", "3"), "holds 3 records; --index 3 is not one of 0 to 2, or"),
        (("mm.jsonl", "--index", "-4"), "-4 is not one of 0 to 2, or -3 to -1 from the end\n"),
        (("mm.jsonl", "--index", "0", "--best"), "give only one of --best, --index"),
        (("mm.jsonl", "--index", "x"), "--index"),
        (("none.jsonl",), "record file none.jsonl does not exist"),
        (("empty.jsonl",), "empty.jsonl holds no records"),
        (("failed.jsonl",), "none of its 1 record is valid, for example: too slow; choose one"),
        ((), "Missing argument"),
    ],
)
def test_what_cannot_be_shown_is_said(
    cli: Cli, log: Path, record: MakeRecord, args: tuple[str, ...], message: str
) -> None:
    (log.parent / "empty.jsonl").touch()
    RecordLog(log.parent / "failed.jsonl").append(
        [record(failure=Failure("run", "timeout", "details\ntoo slow"))]
    )
    done = cli("show", *args)
    assert done.status == 2
    assert message in done.err
    assert "Traceback" not in done.err
    assert done.out == ""


def foreign(record: Callable[..., Record], **target: str) -> Record:
    """A record of the same candidate for another machine."""
    made = record()
    return replace(made, task={**made.task, "target": {**made.task["target"], **target}})


@pytest.mark.parametrize(
    "target", [{"cpu": "pentium99"}, {"cpu": "pentium99", "features": "+warp9"}]
)
def test_an_invented_cpu_is_named(
    cli: Cli, tmp_path: Path, record: MakeRecord, target: dict[str, str]
) -> None:
    RecordLog(tmp_path / "there.jsonl").append([foreign(record, **target)])
    done = cli("show", "there.jsonl", "--as", "asm")
    assert done.status == 2
    assert "the record is for the CPU 'pentium99'" in done.err
    assert cli("show", "there.jsonl", "--as", "llvm").status == 0


def test_machine_code_for_another_cpu(cli: Cli, tmp_path: Path, record: MakeRecord) -> None:
    RecordLog(tmp_path / "there.jsonl").append([foreign(record, cpu="x86-64", features="+avx2")])
    done = cli("show", "there.jsonl", "--as", "asm")
    assert (done.status, done.err) == (0, "")
    assert "ymm" in done.out


@pytest.mark.parametrize("target", ["cpu", "cuda"])
@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("matmul", {"M": 32, "N": 64, "K": 128}),
        ("matmul", {"M": 4, "N": 4, "K": 512}),  # rfactor
        ("dense_bias_relu", {"M": 32, "N": 64, "K": 32}),
        ("norm_bmn", {"B": 2, "M": 32, "N": 64}),
        ("softmax", {"M": 16, "N": 64}),
    ],
)
def test_the_printed_program_runs_as_it_stands(
    cli: Cli, tmp_path: Path, name: str, sizes: dict[str, Any], target: str
) -> None:
    """It prints the TIR that the steps give; every step that sketches make occurs."""
    kind = cuda_target() if target == "cuda" else "cpu"
    task = Task.from_workload(name, target=kind, **sizes)
    space = SearchSpace(task)
    rng = np.random.default_rng(0)
    found = [s for sketch in space.sketches for s in space.sample(rng, 1, sketch=sketch)]
    assert_programs_print_tir(cli, tmp_path, task, found)


def test_the_printed_program_of_a_vectorized_loop_without_a_known_extent(
    cli: Cli, tmp_path: Path
) -> None:
    """A candidate's is serial; in a schedule that somebody wrote it is an error."""
    expr = "m[i] = sqrt(mean(k, X[i, k])); D[i, j] = sum(k, X[i, k] * X[j, k]) / (m[i] * m[j])"
    task = Task.from_expression(expr, {"X": (9, 7)})
    found = []
    for steps in SearchSpace(task).sample(np.random.default_rng(0), 64):
        try:
            lower(*task.dag.apply_steps(steps), task.target)
        except ScheduleError:
            found.append(steps)
    assert found
    assert_programs_print_tir(cli, tmp_path, task, found[:1])


@pytest.mark.parametrize(
    ("layout", "packed"),
    [("insert-transform-stage", False), ("pre-transformed", False), ("pre-transformed", True)],
)
def test_the_printed_program_stores_inputs_as_the_task_says(
    cli: Cli, tmp_path: Path, layout: str, packed: bool
) -> None:
    """Also those that an instruction packs. It printed the TIR of the plain inputs."""
    target = cpu_target(threads=2)
    types = {}
    if packed:
        features = "+avx512vnni,+avx512f,+avx2"
        target = replace(target, cpu="icelake-server", features=features, vector_bytes=64)
        types = {"in_dtype": "uint8", "weight_dtype": "int8", "out_dtype": "int32"}
    task = Task.from_workload(
        "matmul", target=target, layout_rewrite=layout, M=32, N=64, K=64, **types
    )
    space, rng = SearchSpace(task), np.random.default_rng(0)
    found = [s for sketch in space.sketches for s in space.sample(rng, 1, sketch=sketch)]
    rewritten = [rewrite_layout(task.dag, steps, task.layout) for steps in found]
    assert packed == any(isinstance(each.dag, PackedDAG) for each in rewritten)
    kept = [steps for steps, each in zip(found, rewritten, strict=True) if each.changes]
    assert kept
    assert_programs_print_tir(cli, tmp_path, task, kept)


def assert_programs_print_tir(
    cli: Cli, tmp_path: Path, task: Task, found: Iterable[tuple[Step, ...]]
) -> None:
    records = [Record(task.to_json(), steps, MeasureResult((1e-3,))) for steps in found]
    RecordLog(tmp_path / "r.jsonl").append(records)
    for index, made in enumerate(records):
        done = cli("show", "r.jsonl", "--as", "python", "--index", index)
        assert done.status == 0
        assert (done.err == "") == (task.layout == LayoutOption.NO_REWRITE)  # otherwise notes
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(compile(done.out, "shown.py", "exec"), {"__name__": "__main__"})
        expected = lower_steps(task.dag, made.steps, task.target, layout=task.layout)
        assert printed.getvalue() == f"{expected}\n"


def test_the_best_is_one_of_this_cpu(
    cli: Callable[..., Any], log: Path, record: Callable[..., Record], tmp_path: Path
) -> None:
    """A faster one of another CPU is said, and shown when it is asked for."""
    faster = foreign(record, cpu="another-cpu", features="+sse2")
    RecordLog(log).append([replace(faster, result=MeasureResult((1e-6,)))])
    done = cli("show", log, "--as", "steps")
    assert "faster records of other CPUs (another-cpu) are left out; --index takes them" in done.err
    assert done.out == cli("show", log, "--as", "steps", "--index", "1").out
    RecordLog(tmp_path / "there.jsonl").append([faster])
    assert "left out" not in cli("show", "there.jsonl", "--as", "steps").err
