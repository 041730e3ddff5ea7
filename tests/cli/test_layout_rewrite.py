"""Layout rewrites through the command line: tune, replay, show, lower, records, datasets."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from autosched.layout import LAYOUT_OPTIONS
from autosched.measure.record_log import RecordLog
from autosched.measure.records import Record, read_log
from autosched.measure.result import MeasureResult
from autosched.measure.standing import is_race
from autosched.state.steps import steps_from_json
from autosched.task import Task
from kit.cli import Cli

TILED = steps_from_json([["SP", 2, 1, 16, [8], 1], ["RE", 2, [0, 1, 3, 2]], ["AN", 2, 0, 3]])
REWRITES = LAYOUT_OPTIONS[1:]
NOTES = {
    "insert-transform-stage": "note: B: 16k16j -> 2j16k8j, made by a stage of its own",
    "pre-transformed": "note: B: 16k16j -> 2j16k8j, the order in which the kernel expects B",
}
MATMUL = "workload: {op: matmul, args: {M: 16, N: 16, K: 16}}\n"
SEARCH = (
    "search: {batch: 4, sample_init_min_population: 6, evolutionary_search_population: 4,"
    " evolutionary_search_num_iters: 1}\nmeasure: {min_repeat_ms: 4, workers: 1}\n"
    "cost_model: {kind: random}\n"
)


@pytest.fixture
def log(tmp_path: Path) -> Callable[[str], Path]:
    """log(rewrite): a file of one candidate of the 16x16x16 matmul."""

    def make(rewrite: str) -> Path:
        task = Task.from_workload("matmul", M=16, N=16, K=16, layout_rewrite=rewrite)
        path = tmp_path / f"{rewrite}.jsonl"
        RecordLog(path).append([Record(task.to_json(), TILED, MeasureResult((1e-3,)))])
        return path

    return make


@pytest.mark.parametrize("rewrite", REWRITES)
def test_tune_then_replay(cli: Cli, tmp_path: Path, rewrite: str) -> None:
    (tmp_path / "mm.yaml").write_text(f"{MATMUL}layout_rewrite: {rewrite}\n{SEARCH}")
    done = cli("tune", "mm.yaml", "--trials", 4)
    assert done.status == 0, done.err
    assert "checked against NumPy" in done.out
    word = "pre-transformed" if rewrite == "pre-transformed" else "transformed first"
    assert f"tuning matmul(M=16, N=16, K=16), B {word} on cpu" in done.err
    records = [r for r in read_log(tmp_path / "mm.jsonl").records if not is_race(r)]
    assert [r.task["layout_rewrite"] for r in records] == [rewrite] * 4
    assert all(r.result.valid for r in records)
    (tmp_path / "mm.yaml").write_text(MATMUL + SEARCH)
    done = cli("tune", "mm.yaml", "--trials", 4, "--records", "mm.jsonl")
    assert done.status == 2
    assert f"holds records of another task (matmul(M=16, N=16, K=16), B {word}" in done.err


def test_replay_checks_both(cli: Cli, log: Callable[[str], Path]) -> None:
    for rewrite in REWRITES:
        (row,) = json.loads(cli("replay", log(rewrite), "--json").out)["replayed"]
        assert row["checked"] and row["error"] is None


@pytest.mark.parametrize("rewrite", REWRITES)
@pytest.mark.parametrize(
    ("form", "inserted", "expected"),
    [
        ("loops", "auto_scheduler_layout_transform = ...", "Placeholder: A, B\n"),
        ("te", "auto_scheduler_layout_transform", "s[C]"),
        ("tir", "auto_scheduler_layout_transform", "B: Buffer"),
        ("llvm", "define ", "define "),
        ("asm", ".text", ".text"),
    ],
)
def test_show_prints_the_rewritten_kernel(
    cli: Cli, log: Callable[[str], Path], rewrite: str, form: str, inserted: str, expected: str
) -> None:
    done = cli("show", log(rewrite), "--as", form)
    assert done.status == 0
    assert done.err.strip() == NOTES[rewrite]
    insert = rewrite == "insert-transform-stage"
    assert (inserted if insert else expected) in done.out
    if not insert:
        assert "layout_transform" not in done.out


def test_steps_and_features_are_those_of_the_search(cli: Cli, log: Callable[[str], Path]) -> None:
    plain = log("none")
    for form in ("steps", "features"):
        expected = cli("show", plain, "--as", form)
        assert expected.err == ""
        for rewrite in REWRITES:
            assert cli("show", log(rewrite), "--as", form).out == expected.out


def test_lower_takes_the_layout_of_the_configuration(
    cli: Cli, log: Callable[[str], Path], tmp_path: Path
) -> None:
    path = log("none")
    (tmp_path / "mm.yaml").write_text(MATMUL)
    (tmp_path / "pre.yaml").write_text(MATMUL + "layout_rewrite: pre-transformed\n")
    plain = cli("lower", "mm.yaml", "--record", f"{path}:0")
    rewritten = cli("lower", "pre.yaml", "--record", f"{path}:0")
    assert plain.status == rewritten.status == 0
    assert plain.out != rewritten.out
    assert cli("lower", "pre.yaml").out == cli("lower", "mm.yaml").out


@pytest.mark.parametrize("rewrite", LAYOUT_OPTIONS)
def test_the_option_goes_to_ansor_and_back(
    cli: Cli, log: Callable[[str], Path], tmp_path: Path, rewrite: str
) -> None:
    path = log(rewrite)
    done = cli("records", "convert", path, "-o", "a.v06", "--to", "ansor-v0.6")
    assert done.status == 0
    lost = "1 record with layout_rewrite: insert-transform-stage, which Ansor v0.6 writes for"
    assert (lost in done.err) == (rewrite == "insert-transform-stage")
    line = json.loads((tmp_path / "a.v06").read_text())
    assert line["i"][0][4] == {"pre-transformed": 2}.get(rewrite, 1)  # 1 is Ansor's default
    assert cli("records", "convert", "a.v06", "-o", "b.jsonl", "--to", "autosched").status == 0
    (record,) = read_log("b.jsonl").records
    chosen = rewrite if rewrite == "pre-transformed" else "none"
    assert record.task.get("layout_rewrite", "none") == chosen
    assert Task.from_json(record.task).layout.text == chosen
    again = cli("records", "convert", "b.jsonl", "-o", "c.v06", "--to", "ansor-v0.6")
    assert again.status == 0
    assert (tmp_path / "c.v06").read_text() == (tmp_path / "a.v06").read_text()
    assert cli("records", "info", "b.jsonl").status == 0


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        (MATMUL + "layout_rewrite: packed\n", 2, "layout_rewrite: expected 'none', 'insert"),
        (MATMUL + "layout_rewrite: 2\n", 2, "layout_rewrite: expected 'none', 'insert"),
        (
            "workload: {op: softmax, args: {M: 4, N: 4}}\nlayout_rewrite: pre-transformed\n",
            2,
            "needs a layout-free input, but softmax(M=4, N=4) has none",
        ),
        (
            'workload:\n  expr: "C[i] = A[i] + B[i]"\n  shapes: {A: [4], B: [4]}\n'
            "  layout_free: [B, D]\n",
            4,
            "layout_free: expected inputs (A, B), found 'D'",
        ),
        (
            "workload:\n  op: matmul\n  args: {M: 4, N: 4, K: 4}\n  layout_free: [B]\n",
            1,
            "layout_free needs expr or einsum",
        ),
        (
            MATMUL + "target: {kind: cuda}\nlayout_rewrite: pre-transformed\n",
            3,
            "is for CPU targets, found cuda",
        ),
    ],
)
def test_a_wrong_option_is_refused_at_its_line(
    cli: Cli, tmp_path: Path, text: str, line: int, message: str
) -> None:
    (tmp_path / "x.yaml").write_text(text)
    done = cli("tune", "x.yaml", "--dry-run")
    assert done.status == 2
    said = " ".join(done.err.split())
    assert f"x.yaml:{line}:" in said
    assert message in said


def test_dry_run_of_an_expression(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text(
        'workload:\n  expr: "C[i, j] = sum(k, A[i, k] * B[k, j])"\n'
        "  shapes: {A: [8, 8], B: [8, 8]}\n  layout_free: [B]\n"
        f"layout_rewrite: pre-transformed\n{SEARCH}"
    )
    done = cli("tune", "x.yaml", "--dry-run")
    assert done.status == 0
    assert "B pre-transformed on cpu" in done.out
    assert ", 0 refused" in done.out
