"""`autosched tune` with nothing built or run: files, flags, reports, exit statuses."""

import hashlib
import json

import pytest

from autosched.cli import app as application
from autosched.cli import tune, tune_many
from autosched.state.steps import steps_to_json
from measure.records import read_log
from measure.result import Failure, MeasureResult
from search.cost_model import XGBoostModel

SEARCH = (
    "search: {trials: 8, batch: 4, sample_init_min_population: 6,"
    " evolutionary_search_population: 4, evolutionary_search_num_iters: 1}\n"
)


class StubMeasurer:
    """Costs made of the steps. `mode`: ok, fail, or interrupt (in the second batch)."""

    mode = "ok"

    def __init__(self):
        self.batches = 0

    @classmethod
    def create(cls, **_):
        return cls()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def start(self, task):
        pass

    def measure(self, task, batch, best):
        self.batches += 1
        if self.mode == "interrupt" and self.batches == 2:
            raise KeyboardInterrupt
        if self.mode == "fail":
            return [MeasureResult((), Failure("run", "crash", "signal 11"))] * len(batch)
        digests = [hashlib.md5(json.dumps(steps_to_json(s)).encode()).digest() for s in batch]
        return [MeasureResult((1e-6 * (1 + d[0]),), checked=True) for d in digests]


@pytest.fixture
def run(monkeypatch, tmp_path, capfd):
    """(*arguments) -> (exit status, standard output, standard error)."""
    for module in (tune, tune_many):
        monkeypatch.setattr(module, "Measurer", StubMeasurer)
    monkeypatch.setattr(tune, "peer_of", lambda *_: None)
    monkeypatch.chdir(tmp_path)
    for name, k in (("a", 8), ("b", 16)):
        workload = f"workload: {{op: matmul, args: {{M: 8, N: 8, K: {k}}}}}\n"
        (tmp_path / f"{name}.yaml").write_text(workload + SEARCH)

    def invoke(*arguments, mode="ok"):
        monkeypatch.setattr(StubMeasurer, "mode", mode)
        monkeypatch.setattr("sys.argv", ["autosched", "tune", *arguments])
        status = 0
        try:
            application.run()
        except SystemExit as end:
            status = end.code or 0
        return (status, *capfd.readouterr())

    return invoke


def test_one_task(run, tmp_path):
    status, out, err = run("a.yaml")
    assert status == 0
    assert "8/8 trials" in err
    assert "records   a.jsonl" in out
    assert len(read_log(tmp_path / "a.jsonl").records) == 8
    status, out, err = run("a.yaml", "--trials", "4", "--seed", "3")
    assert "continuing from 8 records" in err
    records = read_log(tmp_path / "a.jsonl").records
    assert len({r.steps for r in records}) == len(records) == 12


def test_json_is_all_there_is_on_standard_output(run):
    status, out, err = run("a.yaml", "--json")
    found = json.loads(out)
    assert (status, err) == (0, "")
    assert (found["trials"], found["valid"], found["interrupted"]) == (8, 8, False)
    assert 0 <= found["quality"][0]["rank_accuracy"] <= 1


def test_fresh_takes_a_new_name(run, tmp_path):
    run("a.yaml")
    run("a.yaml", "--fresh", "--trials", "4")
    assert len(read_log(tmp_path / "a-2.jsonl").records) == 4


def test_nothing_valid(run):
    status, out, err = run("a.yaml", mode="fail")
    assert status == 3
    assert "8 x run crash" in out
    assert "signal 11" in out
    assert "no candidate was measured successfully" in err


def test_interrupted(run, tmp_path):
    status, out, _ = run("a.yaml", mode="interrupt")
    assert status == 130
    assert "best" in out
    assert len(read_log(tmp_path / "a.jsonl").records) == 4


def test_records_of_another_task(run):
    run("a.yaml")
    status, _, err = run("b.yaml", "--records", "a.jsonl")
    assert status == 2
    assert "records of another task (matmul(M=8, N=8, K=8)" in err


def test_several_tasks(run, tmp_path):
    status, out, err = run("a.yaml", "b.yaml", "--strategy", "round-robin", "--weights", "1,2")
    assert status == 0
    assert "16/16 trials" in err
    rows = [line.split() for line in out.splitlines() if line.startswith("matmul(")]
    assert [row[3:6] for row in rows] == [["1", "8", "8"], ["2", "8", "8"]]
    assert len(read_log(tmp_path / "a+b.jsonl").records) == 16
    _, out, err = run("a.yaml", "b.yaml", "--trials", "4", "--json")
    assert len(json.loads(out)["tasks"]) == 2
    assert len(read_log(tmp_path / "a+b.jsonl").records) == 20


def test_several_tasks_interrupted(run, tmp_path):
    status, _, err = run("a.yaml", "b.yaml", mode="interrupt")
    assert status == 130
    assert "stopped: interrupted" in err
    assert len(read_log(tmp_path / "a+b.jsonl").records) == 4


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["b.yaml", "--weights", "1"], "expected 2 positive numbers"),
        (["b.yaml", "--weights", "1,x"], "expected 2 positive numbers"),
        (["b.yaml", "--strategy", "best"], "expected one of gradient, round-robin"),
        (["b.yaml", "--trials", "1"], "too few for 2 tasks"),
        (["a.yaml"], "given twice"),
        (["c.yaml"], "section 'cost_model' differs"),
        (["--load-model", "none.json"], "cannot read the cost model none.json"),
        (["--warm-start", "none.jsonl"], "none.jsonl does not exist"),
    ],
)
def test_what_is_refused(run, tmp_path, arguments, message):
    text = (tmp_path / "b.yaml").read_text() + "cost_model: {kind: random}\n"
    (tmp_path / "c.yaml").write_text(text)
    status, _, err = run("a.yaml", *arguments)
    assert status == 2
    assert message in " ".join(err.split())
    assert "Traceback" not in err


def test_models_are_saved_loaded_and_warm_started(run, tmp_path):
    status, _, err = run("a.yaml", "--save-model", "model.json")
    assert status == 0
    assert "cost model saved to model.json" in err
    model = XGBoostModel()
    model.load(tmp_path / "model.json", 164)
    run("b.yaml", "--load-model", "model.json", "--trials", "4")
    first = read_log(tmp_path / "b.jsonl").records[0]
    assert first.search["predicted"] is not None
    _, _, err = run("b.yaml", "--fresh", "--warm-start", "a.jsonl", "--trials", "4")
    assert "warm start from a.jsonl: 8 records of 1 tasks" in err
    first = read_log(tmp_path / "b-2.jsonl").records[0]
    assert first.search["predicted"] is not None


def test_the_file_of_the_configuration_is_written_and_read(run, tmp_path):
    text = (tmp_path / "a.yaml").read_text() + "cost_model: {file: kept.json}\n"
    (tmp_path / "d.yaml").write_text(text)
    run("d.yaml")
    assert (tmp_path / "kept.json").exists()
    run("d.yaml", "--fresh", "--trials", "4")
    assert read_log(tmp_path / "d-2.jsonl").records[0].search["predicted"] is not None


def test_a_random_model_cannot_be_saved(run, tmp_path):
    text = (tmp_path / "a.yaml").read_text() + "cost_model: {kind: random}\n"
    (tmp_path / "e.yaml").write_text(text)
    status, _, err = run("e.yaml", "--save-model", "model.json")
    assert status == 2
    assert "learns nothing" in err


def test_cuda_dry_run(run):
    status, out, _ = run("a.yaml", "--target", "cuda", "--dry-run")
    assert status == 0
    assert "on cuda (sm_80): 1 sketches" in out
    assert "lowered, verified and featurised" in out
    assert "blockIdx.x" in out


def test_cuda_cannot_be_tuned_yet(run):
    status, _, err = run("a.yaml", "--target", "cuda")
    assert status == 2
    assert "--dry-run" in err
