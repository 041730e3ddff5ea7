"""Lowering of the user's own through the command line: tune, replay, show, build, lower."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import autosched
from autosched import user_file
from autosched.errors import ConfigError
from autosched.measure.record_log import RecordLog
from autosched.measure.records import Record, read_log
from autosched.measure.result import MeasureResult
from autosched.measure.standing import is_race
from autosched.runtime.cpu import CpuKernel
from autosched.search.progress import Progress
from autosched.state.steps import steps_from_json
from autosched.target import cuda_target
from autosched.task import Task
from kit.cli import Cli
from kit.passes import ONE, TASK, TILED

MATMUL = "workload: {op: matmul, args: {M: 16, N: 16, K: 16}}\n"
SEARCH = (
    "search: {batch: 4, sample_init_min_population: 6, evolutionary_search_population: 4,"
    " evolutionary_search_num_iters: 1}\nmeasure: {min_repeat_ms: 4, workers: 1}\n"
    "cost_model: {kind: random}\n"
)
LATE = """import beside_it
        return beside_it.same(func)"""
pytestmark = pytest.mark.usefixtures("passes")


@pytest.fixture
def log(tmp_path: Path, passes: Path) -> Callable[..., Path]:
    """log("OneThread"): a file of one candidate that was lowered with that pass."""

    def make(name: str = "OneThread", task: Task = TASK, **more: Any) -> Path:
        mine = task.with_lowering([f"{passes}:{name}"], **more)
        path = tmp_path / f"{name}.jsonl"
        RecordLog(path).append([Record(mine.to_json(), TILED, MeasureResult((1e-3,)))])
        return path

    return make


def config(lowering: str) -> None:
    Path("mm.yaml").write_text(f"{MATMUL}lowering: {lowering}\n{SEARCH}")


def test_tune_then_use(cli: Cli, tmp_path: Path) -> None:
    config(f"{{passes: ['{ONE}'], disabled_pass: [UnrollLoop]}}")
    done = cli("tune", "mm.yaml", "--trials", 4)
    assert done.status == 0, done.err
    name = "matmul(M=16, N=16, K=16), lowered with OneThread, without UnrollLoop"
    assert f"tuning {name} on cpu" in done.err
    assert "checked against NumPy" in done.out
    assert "replay mm.jsonl --trust" in done.out
    records = [r for r in read_log(tmp_path / "mm.jsonl").records if not is_race(r)]
    assert len(records) == 4 and all(r.result.valid for r in records)
    assert all(r.task["lowering"]["passes"][0]["pass"] == ONE for r in records)
    kernel = autosched.load_best("mm.jsonl")
    assert isinstance(kernel, CpuKernel) and not kernel.artifact.parallel
    for lowering in ("{}", "{disabled_pass: [UnrollLoop]}"):
        config(lowering)
        done = cli("tune", "mm.yaml", "--trials", 4, "--records", "mm.jsonl")
        assert done.status == 2
        assert f"holds records of another task ({name}" in done.err


def test_tasks_of_one_name_differ_in_their_passes(cli: Cli, passes: Path) -> None:
    config(f"{{passes: ['{ONE}']}}")
    assert cli("tune", "mm.yaml", "--trials", 1).status == 0
    passes.write_text(passes.read_text().replace("ForKind.SERIAL", "ForKind.UNROLLED"))
    done = cli("tune", "mm.yaml", "--trials", 1, "--records", "mm.jsonl")
    assert "lowered with OneThread on cpu" in done.err
    assert "; expected the same with other lowering. Give" in done.err


def test_a_pass_may_import_a_file_beside_its_own_when_it_runs(
    cli: Cli, tmp_path: Path, passes: Path
) -> None:
    (tmp_path / "lib").mkdir()
    text = passes.read_text().replace('return {}["x"]', LATE)
    (tmp_path / "lib" / "own.py").write_text(text)
    (tmp_path / "lib" / "beside_it.py").write_text("def same(func):\n    return func\n")
    config("{passes: ['lib/own.py:Failing']}")
    done = cli("tune", "mm.yaml", "--trials", 2)
    assert done.status == 0 and "trials    2 (2 valid)" in done.out


def test_a_run_goes_on_with_a_pass_as_it_was_before_it_was_edited(
    passes: Path, tmp_path: Path
) -> None:
    """What is built in this process, too; records say what it was."""

    def edit(progress: Progress, records: Any) -> None:
        if records:
            passes.write_text(passes.read_text().replace("ForKind.SERIAL", "ForKind.PARALLEL"))

    path, task = tmp_path / "mm.jsonl", TASK.with_lowering([ONE])
    result = autosched.tune(
        task, trials=8, batch=4, records=path, cost_model="random", observer=edit, workers=1
    )
    assert [r.result.valid for r in result.records] == [True] * 8
    assert result.best is not None
    kernel = result.best.build()
    assert isinstance(kernel, CpuKernel) and not kernel.artifact.parallel
    with pytest.raises(ConfigError, match=f"{ONE} is not the pass that was recorded; restore it"):
        autosched.load_best(path)


def test_every_form_is_lowered_so(cli: Cli, log: Callable[..., Path]) -> None:
    for form in ("tir", "llvm", "asm"):
        one, other = (cli("show", log(n), "--as", form) for n in ("OneThread", "Zero"))
        assert (one.status, other.status) == (0, 0), one.err
        assert one.out != other.out
        assert ("parallel" in other.out) and ("parallel" not in one.out)
    program = cli("show", log(), "--as", "python").out
    assert "with task.lowering.context():\n    print(lower(" in program
    printed: list[str] = []
    exec(program, {"print": lambda text: printed.append(str(text))})
    assert printed and "parallel" not in printed[0]


def test_replay_and_profile(cli: Cli, log: Callable[..., Path], passes: Path) -> None:
    (row,) = json.loads(cli("replay", log(), "--json").out)["replayed"]
    assert row["checked"] and row["error"] is None
    (row,) = json.loads(cli("replay", log("Zero"), "--json").out)["replayed"]
    assert row["error"]["kind"] == "wrong_answer"
    (row,) = json.loads(cli("replay", log("Failing"), "--json").out)["replayed"]
    assert row["error"]["stage"] == "lower"
    assert re.search(r"my_passes.py:\d+: Failing failed: KeyError: 'x'", row["error"]["message"])
    assert "in parallel(" in cli("lower", "--profile", log("Zero")).out
    assert "in parallel(" not in cli("lower", "--profile", log()).out
    path = log()
    passes.write_text(passes.read_text().replace("ForKind.SERIAL", "ForKind.UNROLLED"))
    for words in (("replay", path), ("show", path, "--as", "tir"), ("build", path, "-o", "out")):
        done = cli(*words)
        assert done.status in (2, 3)
        assert "OneThread is not the pass that was recorded; restore it" in done.err


def test_what_is_exported(cli: Cli, log: Callable[..., Path], tmp_path: Path) -> None:
    assert cli("build", log(), "-o", "out").status == 0
    about = json.loads((tmp_path / "out" / "matmul.json").read_text())
    (kernel,) = about["kernels"].values()
    assert kernel["workload"].endswith(", lowered with OneThread")
    assert kernel["key"] == read_log(log()).records[0].task["key"]
    threads = (tmp_path / "out" / "matmul.h").read_text()
    cli("build", log("Zero"), "-o", "other")
    assert threads != (tmp_path / "other" / "matmul.h").read_text()


def test_other_shapes_are_lowered_so_too(cli: Cli, log: Callable[..., Path]) -> None:
    done = cli("build", log("Zero"), "-o", "out", "--dispatch", "--also", "M=24,N=16,K=16")
    assert done.status == 2 and "no tuned schedule is legal" in done.err
    assert "elements of C differ" in done.err


def test_a_cuda_kernel_is_checked_with_its_passes(cli: Cli, log: Callable[..., Path]) -> None:
    task = Task.from_workload("matmul", M=16, N=16, K=16, target=cuda_target("sm_80"))
    path = log("Zero", task)
    steps = [["FU", 2, [0, 1]], ["SP", 2, 0, 256, [64], 1], ["AN", 2, 0, 5], ["AN", 2, 1, 6]]
    (record,) = read_log(path).records
    path.unlink()
    RecordLog(path).append([replace(record, steps=steps_from_json(steps))])
    assert re.search(r"C\[.* \* 0", cli("show", path, "--as", "cuda").out)
    done = cli("build", path, "-o", "out")
    assert done.status != 0 and "wrong" in done.err


def test_lower_shows_them_in_their_place(cli: Cli) -> None:
    config(f"{{passes: [{{pass: '{ONE}', phase: 2}}], disabled_pass: [RemoveNoOp]}}")
    shown = re.findall("^# after (\\w+)", cli("lower", "mm.yaml", "--print-after", "all").out, re.M)
    assert shown.index("JoinRows") < shown.index("OneThread") < shown.index("RewriteUnsafeSelect")
    assert "RemoveNoOp" not in shown
    assert cli("lower", "mm.yaml", "--print-after", "OneThread").out.startswith("# after OneThread")
    done = cli("lower", "mm.yaml", "--print-after", "RemoveNoOp")
    assert done.status == 2 and "this pass does not run, because the configuration" in done.err
    done = cli("lower", "mm.yaml", "--passes", "RemoveNoOp", "--print-after", "all")
    assert re.findall("^# after (\\w+)", done.out, re.M) == ["ScheduleOps", "RemoveNoOp"]
    assert "--passes runs only these passes" in done.err


def test_a_dry_run_tells_what_fails(cli: Cli) -> None:
    config("{passes: ['my_passes.py:Failing']}")
    done = cli("tune", "mm.yaml", "--dry-run", "--trials", 4)
    assert "4 refused, for example: my_passes.py:" in done.out


def test_when_all_fail_the_run_says_so(cli: Cli) -> None:
    config("{passes: ['my_passes.py:NoReturn']}")
    done = cli("tune", "mm.yaml", "--trials", 4)
    assert done.status == 3
    assert re.search(r"lower illegal, for example: my_passes.py:\d+: NoReturn failed", done.out)


@pytest.mark.parametrize(
    ("lowering", "line", "message"),
    [
        ("{passes: ['nowhere.py:X']}", 2, "lowering: passes: there is no file nowhere.py"),
        ("{passes: ['my_passes.py:nop']}", 2, "lowering: passes: my_passes.py:nop is no pass"),
        (f"\n  passes: ['{ONE}']\n  disabled_pass: [Nothing]", 4, "no pass is called 'Nothing'"),
        ("\n  disabled_pass: []\n  config: {tir.noalias: 1}", 4, "must be a bool, found 1"),
        (f"{{passes: [{{pass: '{ONE}', phase: 9}}]}}", 2, "phase: expected 0 (the start), "),
        ("{passes: x}", 2, "lowering.passes: expected a list"),
        ("{pases: []}", 2, "Did you mean 'passes'?"),
    ],
)
def test_mistakes_are_told_before_anything_starts(
    cli: Cli, lowering: str, line: int, message: str
) -> None:
    config(lowering)
    for words in (("tune",), ("tune", "--dry-run"), ("lower",)):
        done = cli(*words, "mm.yaml")
        assert done.status == 2
        assert f"mm.yaml:{line}: " in done.err and message in done.err


def test_ansor_has_no_such_records(cli: Cli, log: Callable[..., Path]) -> None:
    done = cli("records", "convert", log(), "-o", "a.log", "--to", "ansor-v0.6")
    assert done.status == 2 and "record 0 cannot be converted: its task has a lowering" in done.err


def test_tasks_are_named_whose_passes_are_not_trusted(
    cli: Cli, log: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    path, other = log(), log("Zero")
    name = "matmul(M=16, N=16, K=16), lowered with "
    for words in (("info", path), ("best", path), ("top", 1, path), ("diff", path, other)):
        monkeypatch.setattr(user_file, "_RAN", set())
        done = cli("records", *words)
        assert f"{name}OneThread" in done.out and "cannot be rebuilt" not in done.out
        assert not user_file._RAN
    assert cli("report", path, "-o", "r.html").status == 0
    page = Path("r.html").read_text()
    assert f"{name}OneThread" in page and "records run no code by themselves" in page
    assert not user_file._RAN
    config("{}")
    done = cli("tune", "mm.yaml", "--records", path)
    assert f"holds records of another task ({name}OneThread on cpu, " in done.err
    for use in (("replay", path), ("show", path, "--as", "tir"), ("build", path, "-o", "out")):
        assert "records run no code by themselves" in cli(*use).err


def test_records_of_others_are_not_compared(cli: Cli, log: Callable[..., Path]) -> None:
    done = cli("records", "diff", log(), log("Zero"), "--json")
    assert json.loads(done.out)["tasks"] == []
