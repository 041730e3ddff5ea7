"""`autosched tune` with nothing built or run: files, flags, reports, exit statuses."""

import errno
import json
import os
import re
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, Never

import pytest

from autosched.cli import app as application
from autosched.errors import ConfigError, MeasureError
from autosched.features.sets import TUNING, feature_set
from autosched.measure.environment import fingerprint, fingerprint_hash
from autosched.measure.records import Record, read_log
from autosched.measure.result import MeasureResult
from autosched.search.cost_model import XGBoostModel
from autosched.session import session, yardsticks
from autosched.session.peer import Peer
from autosched.task import Task
from kit.helper import StubHelper, remember_features, train_briefly
from kit.measurer import Steps, StubMeasurer
from kit.packages import broken, forget

SEARCH = (
    "search: {trials: 8, batch: 4, sample_init_min_population: 6,"
    " evolutionary_search_population: 4, evolutionary_search_num_iters: 1}\n"
)
RANDOM = "cost_model: {kind: random}\n"  # nothing to train where no model is asked about


MODES = {
    "ok": StubMeasurer(),
    "fail": StubMeasurer(bad=1),
    "interrupt": StubMeasurer(interrupt_after=1),
    "cut short": StubMeasurer(cut_short_after=1),
}


@pytest.fixture
def run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> Callable[..., tuple[int, str, str]]:
    """(*arguments) -> (exit status, standard output, standard error)."""
    monkeypatch.setattr(yardsticks, "peer_of", lambda *_: Peer("NumPy", 2e-6, 1e-6))
    remember_features(monkeypatch)
    train_briefly(monkeypatch)
    monkeypatch.chdir(tmp_path)
    for name, k in (("a", 8), ("b", 16)):
        workload = f"workload: {{op: matmul, args: {{M: 8, N: 8, K: {k}}}}}\n"
        (tmp_path / f"{name}.yaml").write_text(workload + SEARCH + RANDOM)

    def invoke(*arguments: str, mode: str = "ok") -> tuple[int, str, str]:
        monkeypatch.setattr(session, "Measurer", MODES[mode])
        monkeypatch.setattr(session, "Helper", StubHelper)
        monkeypatch.setattr("sys.argv", ["autosched", "tune", *arguments])
        status = 0
        try:
            application.run()
        except SystemExit as end:
            assert end.code is None or isinstance(end.code, int)
            status = end.code or 0
        return (status, *capfd.readouterr())

    return invoke


@pytest.fixture
def learning(run: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    """Let the configurations have the usual cost model."""
    for path in tmp_path.glob("*.yaml"):
        path.write_text(path.read_text().replace(RANDOM, ""))


def test_xgboost_is_alone(
    run: Callable[..., tuple[int, str, str]],
    learning: None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """XGBoost imports scikit-learn where it is: 1.5 s of a run, or an error where it is broken."""
    forget(monkeypatch, "xgboost")
    broken(monkeypatch, tmp_path / "other", "sklearn")
    assert run("a.yaml")[0] == 0
    with pytest.raises(OSError, match=r"libx\.so"):  # it is hidden from XGBoost only
        import_module("sklearn")


def test_one_task(run: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    status, out, err = run("a.yaml")
    assert status == 0
    assert "8/8 trials" in err
    assert "records   a.jsonl" in out
    assert len(read_log(tmp_path / "a.jsonl").records) == 8
    status, out, err = run("a.yaml", "--trials", "4", "--seed", "3")
    assert "continuing from 8 records" in err
    records = read_log(tmp_path / "a.jsonl").records
    assert len({r.steps for r in records}) == len(records) == 12


def test_a_run_without_trials_tells_no_time_of_each(
    run: Callable[..., Any], tmp_path: Path
) -> None:
    (tmp_path / "none.py").write_text(
        "class Nothing:\n"
        "    name = 'nothing'\n"
        "    def __init__(self, tools): pass\n"
        "    def propose(self, count): return []\n"
        "    def tell(self, candidates, seconds): pass\n"
    )
    nothing = "--set", f"search.policy={tmp_path / 'none.py'}:Nothing"
    run("a.yaml")
    out = run("a.yaml", *nothing)[1]
    assert re.search(r"^trials    0 \(0 valid\) in \d+\.\d s$", out, re.M)
    run("a.yaml", "b.yaml", "--records", "ab.jsonl")
    out = run("a.yaml", "b.yaml", "--records", "ab.jsonl", *nothing)[1]
    assert re.search(r"^trials    0 in all$", out, re.M)


def test_a_file_name_is_no_emoji_and_no_markup(
    run: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    name = ":x:[red]a[]"
    (tmp_path / "a.yaml").rename(tmp_path / f"{name}.yaml")
    status, out, err = run(f"{name}.yaml", "--trials", "4")
    assert status == 0
    assert f"records   {name}.jsonl" in out
    _, _, err = run(f"{name}.yaml", "--records", "none/:x:[red].jsonl")
    assert "none/:x:[red].jsonl" in err


@pytest.mark.usefixtures("learning")
def test_json_is_all_there_is_on_standard_output(run: Callable[..., tuple[int, str, str]]) -> None:
    status, out, err = run("a.yaml", "--json")
    found = json.loads(out)
    assert (status, err) == (0, "")
    assert (found["trials"], found["valid"], found["interrupted"]) == (8, 8, False)
    assert 0 <= found["quality"][0]["rank_accuracy"] <= 1


def test_a_convolution_with_fewer_multiplications_is_named(
    run: Callable[..., tuple[int, str, str]],
) -> None:
    sizes = "N=1 H=14 W=14 CI=16 CO=16"
    plain = f"conv2d_nhwc {sizes} KH=3 KW=3 stride=1 padding=1".split()
    own = *plain, "--trials", "1", "--set", "cost_model.kind=random"
    _, out, _ = run(*own)
    assert f"`autosched tune conv2d_winograd_nhwc {sizes} padding=1`" in out
    assert json.loads(run(*own, "--json")[1])["faster"]["op"] == "conv2d_winograd_nhwc"
    assert json.loads(run("a.yaml", "--json")[1])["faster"] is None


def test_the_share_of_the_peak(run: Callable[..., tuple[int, str, str]]) -> None:
    _, out, err = run("a.yaml")
    assert "of peak)" in out
    assert "of peak)" in err
    for files in (["a.yaml"], ["a.yaml", "b.yaml"]):
        found = json.loads(run(*files, "--json")[1])
        for entry in found.get("tasks", [found]):
            assert entry["peak_flops_per_second"] == 1e9


def test_a_kernel_that_dies_beside_numpy_does_not_lose_the_report(
    run: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def dies(*_: Task | StubMeasurer | Record) -> Never:
        raise MeasureError("the process died with signal 11", stage="run", kind="crash")

    monkeypatch.setattr(yardsticks, "peer_of", dies)
    status, out, _ = run("a.yaml")
    assert status == 0
    assert "best  " in out
    assert "peer      not compared with NumPy: timing failed: the process died with sign" in out
    found = json.loads(run("a.yaml", "--json")[1])
    assert found["best"] and found["peer"] is None
    assert "the process died with signal 11" in found["peer_missing"]


def test_the_report_says_why_there_is_no_share_of_numpy(
    run: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Task | StubMeasurer | Record) -> Never:
        raise KeyboardInterrupt

    together = json.loads(run("a.yaml", "b.yaml", "--json")[1])["tasks"]
    assert all("together" in task["peer_missing"] for task in together)
    _, out, _ = run("a.yaml", "--fresh", mode="interrupt")
    assert "peer      not compared with NumPy: the run was interrupted\n" in out
    monkeypatch.setattr(yardsticks, "peer_of", interrupted)
    assert "peer      not compared with NumPy: interrupted\n" in run("a.yaml")[1]
    peer = Peer("numpy.matmul", 2e-6, 1e-6)
    monkeypatch.setattr(yardsticks, "peer_of", lambda *_: peer)
    assert "peer      2.00 times the speed of numpy.matmul" in run("a.yaml")[1]
    assert json.loads(run("a.yaml", "--json")[1])["peer_missing"] is None
    slow = Peer("numpy.matmul", 1e-6, 2e-6)
    monkeypatch.setattr(yardsticks, "peer_of", lambda *_: slow)
    assert "warning: the best is slower than numpy.matmul" in run("a.yaml")[2]


def test_fresh_takes_a_new_name(run: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    run("a.yaml")
    run("a.yaml", "--fresh", "--trials", "4")
    assert len(read_log(tmp_path / "a-2.jsonl").records) == 4


def test_nothing_valid(run: Callable[..., tuple[int, str, str]]) -> None:
    status, out, err = run("a.yaml", mode="fail")
    assert status == 3
    assert "8 x run crash" in out
    assert "signal 11" in out
    assert "no candidate was measured successfully" in err


def test_interrupted(run: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    status, out, _ = run("a.yaml", mode="interrupt")
    assert status == 130
    assert "best" in out
    assert len(read_log(tmp_path / "a.jsonl").records) == 4


def test_records_of_another_task(run: Callable[..., tuple[int, str, str]]) -> None:
    run("a.yaml")
    status, _, err = run("b.yaml", "--records", "a.jsonl")
    assert status == 2
    assert "records of another task (matmul(M=8, N=8, K=8)" in err


def test_several_tasks(run: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    status, out, err = run("a.yaml", "b.yaml", "--strategy", "round-robin", "--weights", "1,2")
    assert status == 0
    assert "16/16 trials" in err
    assert "  a: matmul(M=8, N=8, K=8) on cpu" in err
    assert "16/16 trials, b: best" in err
    rows = [line.split() for line in out.splitlines() if line[:2] in ("a ", "b ")]
    assert [row[:4] for row in rows] == [["a", "1", "8", "8"], ["b", "2", "8", "8"]]
    assert "trials    16 in all" in out
    assert len(read_log(tmp_path / "a+b.jsonl").records) == 16
    _, out, err = run("a.yaml", "b.yaml", "--trials", "4", "--json")
    assert len(json.loads(out)["tasks"]) == 2
    assert len(read_log(tmp_path / "a+b.jsonl").records) == 20


def test_tasks_without_candidates_have_no_trials(
    run: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    for n in (1, 2):
        expression = f'{{expr: "C[i] = A[i] + {n}.0", shapes: {{A: [1]}}}}'
        (tmp_path / f"e{n}.yaml").write_text(f"workload: {expression}\n" + SEARCH + RANDOM)
    _, out, err = run("e1.yaml", "e2.yaml", "--trials", "20")
    assert "trials    2 in all" in out
    assert "stopped: no task has candidates left" in err
    status, out, _ = run("e1.yaml", "e2.yaml", "--trials", "20")
    assert status == 0
    assert "trials    0 in all" in out


@pytest.mark.parametrize(
    ("key", "value", "flag", "given"),
    [
        ("batch", 2, "--set search.batch=16", ("--set", "search.batch=4")),
        ("time_budget_s", 500, "--time-budget", ("--time-budget", "500")),
    ],
)
def test_several_tasks_share_what_a_run_has_once(
    run: Callable[..., tuple[int, str, str]],
    tmp_path: Path,
    key: str,
    value: int,
    flag: str,
    given: tuple[str, str],
) -> None:
    other = tmp_path / "b.yaml"
    text = re.sub(f" {key}: [0-9]+,", "", other.read_text())
    other.write_text(text.replace("{trials", f"{{{key}: {value}, trials"))
    status, _, err = run("a.yaml", "b.yaml")
    assert status == 2
    expected = f"b: search.{key} differs from that of a; tasks that are tuned in one run share it"
    assert f"{expected} ({flag} gives one for all)" in " ".join(err.split())
    assert run("a.yaml", "b.yaml", *given)[0] == 0


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("several", [False, True])
def test_an_interrupt_while_the_model_is_made_takes_effect_at_once(
    run: Callable[..., tuple[int, str, str]], tmp_path: Path, several: bool
) -> None:
    (tmp_path / "slow.py").write_text(
        "import os, signal, time\n"
        "class Slow:\n"
        "    name = 'slow'\n"
        "    def __init__(self):\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "        time.sleep(0.1)\n"
        "        print('went on')\n"
        "    def predict(self, rows): return [0.0] * len(rows)\n"
        "    def update(self, rows, seconds): pass\n"
    )
    files = ("a.yaml", "b.yaml") if several else ("a.yaml",)
    run("a.yaml", "--records", "ab.jsonl")
    asked = (*files, "--records", "ab.jsonl", "--set", f"cost_model.kind={tmp_path}/slow.py:Slow")
    status, out, err = run(*asked)
    assert status == 130
    assert "went on" not in err
    assert re.search(r"\d [num]s", out)  # the best of the earlier run
    assert len(read_log(tmp_path / "ab.jsonl").records) == 8


def test_several_tasks_interrupted(
    run: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    status, _, err = run("a.yaml", "b.yaml", mode="interrupt")
    assert status == 130
    assert "stopped: interrupted" in err
    assert len(read_log(tmp_path / "a+b.jsonl").records) == 4


@pytest.mark.usefixtures("learning")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["b.yaml", "--weights", "1"], "expected 2 positive numbers"),
        (["b.yaml", "--weights", "1,x"], "expected 2 positive numbers"),
        (["b.yaml", "--strategy", "best"], "expected one of gradient, round-robin"),
        (["b.yaml", "--weights", "inf,1"], "expected 2 positive numbers"),
        (["--weights", "1,2"], "expected 1 positive number"),
        (["--strategy", "best"], "expected one of gradient, round-robin"),
        (["--seed", "-1"], "Invalid value for '--seed'"),
        (["b.yaml", "--trials", "1"], "too few for 2 tasks"),
        (["a.yaml"], "given twice"),
        (["c.yaml"], "section 'cost_model' differs"),
        (["--load-model", "none.json"], "cannot read the cost model none.json"),
        (["--warm-start", "none.jsonl"], "none.jsonl does not exist"),
        (["--save-model", "folder"], "--save-model: expected a file, found the folder folder"),
        (["--load-model", "folder"], "--load-model: expected a file, found the folder folder"),
        (["--warm-start", "folder"], "--warm-start: expected a file, found the folder folder"),
        (["--set", "cost_model.file=folder"], "cost_model.file: expected a file, found the folder"),
        (["--save-model", "pipe"], "cost model pipe: it is a device or pipe"),
        (["--save-model", "none/m.json"], "cost model none/m.json: choose a folder"),
    ],
)
def test_what_is_refused(
    run: Callable[..., tuple[int, str, str]], tmp_path: Path, arguments: list[str], message: str
) -> None:
    text = (tmp_path / "b.yaml").read_text() + "cost_model: {kind: random}\n"
    (tmp_path / "c.yaml").write_text(text)
    (tmp_path / "folder").mkdir()
    os.mkfifo(tmp_path / "pipe")
    status, _, err = run("a.yaml", *arguments)
    assert status == 2
    assert message in " ".join(err.split())
    assert "Traceback" not in err


@pytest.mark.usefixtures("learning")
def test_a_file_of_the_users_has_the_cost_model(
    run: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    mine = """
class Mine:
    name = "mine"

    def fit(self, programs, throughputs):
        with open("taught.txt", "a") as file:
            print(len(programs), file=file)

    def predict(self, programs):
        return [float(program.sum()) for program in programs]
"""
    (tmp_path / "mine.py").write_text(mine)
    status, _, err = run("a.yaml", "--set", "cost_model.kind=mine.py:Mine")
    assert status == 0, err
    assert (tmp_path / "taught.txt").read_text().split()[0] == "4"
    status, _, err = run("a.yaml", "--set", "cost_model.kind=mine.py:Gone")
    assert status == 2
    assert "cost_model: mine.py defines no cost model Gone" in " ".join(err.split())
    status, _, err = run("a.yaml", "--set", "cost_model.kind=trees")
    assert status == 2
    expected = "cost_model.kind: expected xgboost, random or file.py:name, found 'trees'"
    assert expected in " ".join(err.split())


@pytest.mark.usefixtures("learning")
def test_models_are_saved_loaded_and_warm_started(
    run: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    status, _, err = run("a.yaml", "--save-model", "model.json")
    assert status == 0
    assert "cost model saved to model.json" in err
    model = XGBoostModel()
    chosen = feature_set(TUNING)
    model.load(tmp_path / "model.json", len(chosen.columns), chosen.schema)
    run("b.yaml", "--load-model", "model.json", "--trials", "4")
    first = read_log(tmp_path / "b.jsonl").records[0]
    assert first.search["predicted"] is not None
    _, _, err = run("b.yaml", "--fresh", "--warm-start", "a.jsonl", "--trials", "4")
    assert "warm start from a.jsonl: 8 records of 1 task" in err
    first = read_log(tmp_path / "b-2.jsonl").records[0]
    assert first.search["predicted"] is not None


@pytest.mark.usefixtures("learning")
@pytest.mark.parametrize("files", [["a.yaml"], ["a.yaml", "b.yaml"]])
def test_a_model_that_cannot_be_written_costs_no_report(
    run: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch, files: list[str]
) -> None:
    def full(*_: object, **__: object) -> bool:
        raise ConfigError("cannot write the cost model m.json: No space left on device")

    monkeypatch.setattr(session, "save_model", full)
    status, out, err = run(*files, "--trials", "4", "--save-model", "m.json")
    assert status == 2 and "No space left" in err
    assert "next      autosched replay" in out


@pytest.mark.usefixtures("learning")
def test_the_file_of_the_configuration_is_written_and_read(
    run: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    text = (tmp_path / "a.yaml").read_text() + "cost_model: {file: kept.json}\n"
    (tmp_path / "d.yaml").write_text(text)
    run("d.yaml")
    assert (tmp_path / "kept.json").exists()
    run("d.yaml", "--fresh", "--trials", "4")
    assert read_log(tmp_path / "d-2.jsonl").records[0].search["predicted"] is not None


@pytest.mark.usefixtures("learning")
def test_a_random_model_cannot_be_saved(
    run: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    text = (tmp_path / "a.yaml").read_text() + "cost_model: {kind: random}\n"
    (tmp_path / "e.yaml").write_text(text)
    status, _, err = run("e.yaml", "--save-model", "model.json")
    assert status == 2
    assert "learns nothing" in err


def test_cuda_dry_run(run: Callable[..., tuple[int, str, str]]) -> None:
    status, out, _ = run("a.yaml", "--target", "cuda", "--dry-run", "--trials", "2")
    assert status == 0
    assert "on cuda (sm_80): 2 sketches\n" in out
    assert "lowered, verified and featurised" in out
    assert "A.shared.shared = ..." in out  # an operand is turned in one of them


RULES = """
from autosched.search.rules.protocol import Decision, FunctionRule


def condition(context, state, stage_id):
    plain = state.stages[stage_id].name == "C"
    return Decision.APPLY_AND_SKIP_REST if plain else Decision.SKIP


def apply(context, state, stage_id):
    i, j, k = state.stages[stage_id].iters
    state, (outer, inner) = state.split(stage_id, i, [None])
    return [(state.reorder(stage_id, [outer, k, inner, j]), stage_id - BACK)]


row_blocks = FunctionRule("RowBlocks", condition, apply)
"""


def test_a_file_of_the_users_has_the_search(
    run: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    mine = """
class Mine:
    name = "mine"

    def __init__(self, tools):
        self.tools = tools

    def propose(self, count):
        return self.tools.space.sample(self.tools.rng, count)

    def tell(self, candidates, seconds):
        pass
"""
    (tmp_path / "mine.py").write_text(mine)
    own = ("--set", "search.policy=mine.py:Mine")
    status, _, err = run("a.yaml", *own)
    assert status == 0, err
    assert [r.search["policy"] for r in read_log(tmp_path / "a.jsonl").records] == ["mine"] * 8
    text = (tmp_path / "b.yaml").read_text()
    (tmp_path / "c.yaml").write_text(text.replace("search: {", 'search: {policy: "mine.py:Mine", '))
    status, _, err = run("a.yaml", "c.yaml", "--records", "two.jsonl")
    assert status == 0, err  # each configuration its own
    found = {r.task["key"]: r.search.get("policy") for r in read_log(Path("two.jsonl")).records}
    assert sorted(found.values(), key=str) == [None, "mine"]
    (tmp_path / "mine.py").write_text(mine.replace("return ", "return 1 / 0 + "))
    status, _, err = run("a.yaml", *own)
    assert status == 2
    shown = " ".join(err.split())
    assert "policy mine: propose failed at mine.py:9: ZeroDivisionError" in shown
    (tmp_path / "mine.py").write_text(mine.replace("return ", "raise KeyboardInterrupt  # "))
    assert run("a.yaml", *own)[0] == 130
    for given, expected in (
        ("mine.py:Gone", "policy: mine.py defines no policy Gone"),
        ("none.py:Mine", "policy: there is no file none.py"),
        ("annealing", "search.policy: expected autosched or file.py:name, found 'annealing'"),
    ):
        status, _, err = run("a.yaml", "--set", f"search.policy={given}")
        assert status == 2
        assert expected in " ".join(err.split())


def test_sketch_rules_of_the_user(run: Callable[..., tuple[int, str, str]], tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(RULES.replace("BACK", "1"))
    text = (tmp_path / "a.yaml").read_text()
    rule = 'sketch_rules: ["mine.py:row_blocks"], '
    (tmp_path / "f.yaml").write_text(text.replace("search: {", "search: {" + rule))
    status, out, _ = run("f.yaml", "--dry-run")
    assert status == 0
    assert ": 1 sketch\n" in out
    status, _, _ = run("f.yaml")
    assert status == 0
    steps = read_log(tmp_path / "f.jsonl").records[0].to_json()["steps"]
    assert [s[0] for s in steps[:2]] == ["SP", "RE"]
    status, _, _ = run("f.yaml", "b.yaml", "--records", "two.jsonl")
    assert status == 0
    (tmp_path / "mine.py").write_text(RULES.replace("BACK", '"1"'))
    status, _, err = run("f.yaml", "--fresh")
    assert status == 2
    assert "sketch rule 'RowBlocks': apply on stage 2 (C) failed at" in err
    assert "mine.py:13" in err


def test_the_documented_sketch_rule_works(
    run: Callable[..., tuple[int, str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The three blocks of docs/searching.md: a file of rules, a configuration, a program."""
    text = (Path(__file__).parents[2] / "docs" / "searching.md").read_text()
    section = text.split("## Your own sketch rules")[1]
    rules, configuration, program = (b.split("```")[0] for b in _blocks(section))
    (tmp_path / "my_rules.py").write_text(rules)
    (tmp_path / "documented.yaml").write_text(configuration)
    status, out, _ = run("documented.yaml", "--dry-run")
    assert status == 0
    assert ": 1 sketch\n" in out
    assert out.index("for i.0 (None)") < out.index("for k (0,128)") < out.index("for i.1 (None)")
    monkeypatch.setattr(session, "Measurer", MODES["ok"])
    monkeypatch.syspath_prepend(str(tmp_path))
    exec(program, {})


def _blocks(text: str) -> list[str]:
    return [part.partition("\n")[2] for part in text.split("```")[1::2]]


def test_an_unwritable_record_file_is_known_before_anything_is_measured(
    run: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    (tmp_path / "folder").mkdir()
    for path, reason in (
        ("folder", "records: expected a file, found the folder folder"),
        ("none/a.jsonl", "error: cannot write the record file none/a.jsonl: No such file"),
        ("/dev/full", "error: cannot write the record file /dev/full: No space left"),
    ):
        status, _out, err = run("a.yaml", "--records", path)
        assert status == 2
        assert reason in err
        assert "trials" not in err


def test_measured_candidates_of_an_interrupted_round_are_reported(
    run: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    status, out, _err = run("a.yaml", mode="cut short")
    assert status == 130
    assert "trials    6 (6 valid)" in out
    assert len(read_log(tmp_path / "a.jsonl").records) == 6
    status, out, _err = run("a.yaml", "b.yaml", "--json", mode="cut short")
    found = json.loads(out)
    assert (status, found["interrupted"]) == (130, True)
    assert [task["trials"] for task in found["tasks"]] == [4, 2]
    best = sum(task["best"]["seconds"] for task in found["tasks"])
    assert found["objective_seconds"] == pytest.approx(best)


def test_a_function_of_the_times_is_made_small(
    run: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text("def slowest(seconds):\n    return max(seconds)\n")
    status, out, _ = run("a.yaml", "b.yaml", "--objective", "mine.py:slowest")
    assert status == 0
    assert re.search(r"^objective of the best times: [0-9.e-]+$", out, re.M)
    _, out, _ = run("a.yaml", "b.yaml", "--objective", "mine.py:slowest", "--json")
    found = json.loads(out)
    assert found["objective"] == max(task["best"]["seconds"] for task in found["tasks"])
    assert "objective_seconds" not in found


def test_an_objective_that_cannot_be_made_small(
    run: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text("def slowest(seconds):\n    return seconds[9]\n")
    (tmp_path / "heavy.yaml").write_text((tmp_path / "b.yaml").read_text() + "weight: 3\n")
    for arguments, message in (
        (["b.yaml"], "error: objective failed at mine.py:2: IndexError"),
        (["b.yaml", "--weights", "1,2"], "leave out --weights, or have the function weigh them"),
        (["heavy.yaml"], "leave out the weight of heavy"),
    ):
        status, _, err = run("a.yaml", *arguments, "--objective", "mine.py:slowest")
        assert status == 2
        assert message in err.replace(f"{tmp_path}/", "")
    assert not list(tmp_path.glob("*.jsonl"))


@pytest.mark.parametrize("files", [["a.yaml"], ["a.yaml", "b.yaml"]])
def test_a_run_whose_records_cannot_be_written_any_more_says_what_it_found(
    run: Callable[..., tuple[int, str, str]], tmp_path: Path, files: list[str]
) -> None:
    real, whole = os.write, 0

    def full(file: int, data: bytes) -> int:
        nonlocal whole
        whole += b'"schema"' in data
        if whole > 1:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(file, data)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "write", full)
        status, out, err = run(*files)
    assert status == 2
    assert "stopped: cannot write the record file" in err
    assert "No space left on device" in err
    assert "records   " in out and "replay" not in out  # of a file that may hold nothing
    if len(files) == 1:
        assert "trials    8 (8 valid)" in out
        assert "peer      not compared with NumPy: the run ended early" in out
    (written,) = tmp_path.glob("*.jsonl")
    assert 0 < len(read_log(written).records) < 8


_LEFT: dict[str, bytes] = {}


@pytest.fixture
def model(run: Callable[..., tuple[int, str, str]], learning: None, tmp_path: Path) -> None:
    """What a run of b.yaml leaves that saves its model: made once."""
    if not _LEFT:
        run("b.yaml", "--save-model", "model.json")
        _LEFT.update({n: (tmp_path / n).read_bytes() for n in ("b.jsonl", "model.json")})
    for name, data in _LEFT.items():
        (tmp_path / name).write_bytes(data)


@pytest.mark.usefixtures("model")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--records", "other.yaml"], "record file other.yaml: it is a YAML file; give another"),
        (["--save-model", "other.yaml"], "cost model other.yaml: it is a YAML file; give another"),
        (["--save-model", "b.jsonl"], "cost model b.jsonl: it is a record file; give another"),
        (["--records", "model.json"], "record file model.json: it is a cost model; give another"),
        (["--records", "x", "--save-model", "x"], "the saved cost model: x is the record file"),
        (
            ["--warm-start", "b.jsonl", "--save-model", "b.jsonl", "--force"],
            "the saved cost model: b.jsonl is a file of the warm start",
        ),
        (["--records", "a.yaml", "--force"], "the record file: a.yaml is a configuration of this"),
        (["--save-model", "a.yaml"], "the saved cost model: a.yaml is a configuration of this run"),
    ],
)
def test_a_file_of_another_kind_is_not_written_to(
    run: Callable[..., tuple[int, str, str]],
    tmp_path: Path,
    arguments: list[str],
    message: str,
) -> None:
    (tmp_path / "other.yaml").write_text("keep: me\n")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    status, _, err = run("a.yaml", *arguments)
    assert status == 2
    assert message in " ".join(err.split())
    assert ("--force to replace it" in err) == ("; give another file, or" in err)
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.usefixtures("learning")
def test_force_replaces_files_of_other_kinds(
    run: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    for name in ("notes.md", "other.yaml"):
        (tmp_path / name).write_text("not: kept\n")
    status, _, err = run("a.yaml", "--records", "other.yaml", "--save-model", "notes.md", "--force")
    assert status == 0
    assert "skipped" not in err
    contents = read_log(tmp_path / "other.yaml")
    assert (len(contents.records), contents.problems) == (8, [])
    XGBoostModel().load(tmp_path / "notes.md")


def test_a_changed_size_has_a_file_of_its_own(run: Callable[..., Any], tmp_path: Path) -> None:
    """It is continued by later runs, and so is the first file once the size is changed back."""
    config = tmp_path / "a.yaml"
    first = config.read_text()
    run("a.yaml")
    before = (tmp_path / "a.jsonl").read_bytes()
    config.write_text(first.replace("K: 8", "K: 32"))
    status, out, err = run("a.yaml")
    (own,) = tmp_path.glob("a-*.jsonl")
    assert status == 0
    assert f"records   {own.name}" in out and f"next      autosched replay {own.name}" in out
    assert "note: a.jsonl holds records of other tasks; those of matmul(M=8, N=8, K=32)" in err
    assert "continuing" not in err
    assert "continuing from 8 records" in run("a.yaml")[2]
    assert (tmp_path / "a.jsonl").read_bytes() == before
    config.write_text(first)
    _, out, err = run("a.yaml")
    assert "continuing from 8 records" in err and "note" not in err
    assert "records   a.jsonl" in out
    assert sorted(path.name for path in tmp_path.glob("a*.jsonl")) == sorted(["a.jsonl", own.name])


def test_several_tasks_have_a_file_of_their_own(run: Callable[..., Any], tmp_path: Path) -> None:
    run("a.yaml", "b.yaml")
    for name in ("a", "b"):
        path = tmp_path / f"{name}.yaml"
        path.write_text(path.read_text().replace("M: 8", "M: 4"))
    assert "holds records of other tasks" in run("a.yaml", "b.yaml")[2]
    (own,) = tmp_path.glob("a+b-*.jsonl")
    assert "continuing from 16 records" in run("b.yaml", "a.yaml", "--records", own.name)[2]
    assert "continuing from 32 records" in run("a.yaml", "b.yaml")[2]


def test_a_file_that_is_named_is_not_replaced_by_another(
    run: Callable[..., Any], tmp_path: Path
) -> None:
    run("a.yaml")
    with (tmp_path / "b.yaml").open("a") as file:
        file.write("records: a.jsonl\n")
    status, _, err = run("b.yaml")
    assert status == 2
    assert "a.jsonl holds records of another task" in err


def other_cpu(path: Path) -> None:
    """Let the records of a file be another CPU's."""
    text = path.read_text().replace(json.dumps(fingerprint()["cpu"]), '"A faster one"')
    path.write_text(text.replace(fingerprint_hash(fingerprint()), "0" * 12))


def test_records_of_another_cpu_are_said(
    run: Callable[..., tuple[int, str, str]], tmp_path: Path
) -> None:
    run("a.yaml")
    run("b.yaml", "--trials", "4")
    for name in ("a.jsonl", "b.jsonl"):
        other_cpu(tmp_path / name)
    said = "8 records of another CPU (A faster one) train the model only"
    status, out, err = run("a.yaml", "--trials", "4", "--seed", "5")
    assert status == 0
    assert said in err and "continuing" not in err
    assert f"others    {said}\n" in out
    assert f"continuing from 4 records; {said}" in run("a.yaml", "--trials", "4")[2]
    assert json.loads(run("a.yaml", "--json", "--trials", "1")[1])["other_cpus"] == said
    status, out, _ = run("a.yaml", "b.yaml", "--records", "a.jsonl", "--trials", "2")
    assert f"others    {said}\n" in out


def test_the_best_is_timed_again(run: Callable[..., tuple[int, str, str]]) -> None:
    _, out, _ = run("a.yaml")
    assert " at the end of the run\n" in out
    found = json.loads(run("a.yaml", "--fresh", "--json")[1])
    assert found["again"]["ratio"] == 1.0
    assert found["again"]["remark"] is None


@pytest.mark.parametrize("both", [False, True])
def test_the_outcome_of_the_race_is_told(
    run: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch, both: bool
) -> None:
    """All eight candidates take the same time here: those four tie that a heat leaves."""
    same = MeasureResult((1e-3,), checked=True)
    monkeypatch.setattr(StubMeasurer, "one", lambda *_: same)
    monkeypatch.setattr(StubMeasurer, "build", lambda _, task, batch: [b""] * len(batch))
    monkeypatch.setattr(
        StubMeasurer, "together", lambda _, task, batch, *more: [same for _ in batch]
    )
    files = ["a.yaml", *(["b.yaml"] if both else [])]
    _, out, _ = run(*files)
    told = "a tie with 3 others, 4 more in heats\n"
    assert f"race: a: {told}" in out if both else f"race      {told}" in out
    assert both or "interval  1 ms to 1 ms (95%)\n" in out
    found = json.loads(run(*files, "--fresh", "--json")[1])
    for each in found["tasks"] if both else [found]:
        assert each["race"]["outcome"] == "tie"
        assert [rival["ratio"] for rival in each["race"]["rivals"]] == [1.0] * 7
        assert sum(rival["heat"] for rival in each["race"]["rivals"]) == 4
        assert each["best"]["interval"] == [1e-3, 1e-3]
        assert each["again"]["ratio"] == 1.0


@pytest.mark.parametrize("both", [False, True])
def test_a_best_that_does_not_come_back_is_unreliable(
    run: Callable[..., tuple[int, str, str]], monkeypatch: pytest.MonkeyPatch, both: bool
) -> None:
    def slower(self: StubMeasurer, task: object, steps: Steps) -> MeasureResult:
        return MeasureResult((1.5 * self.seconds(steps),))

    monkeypatch.setattr(StubMeasurer, "again", slower)
    _, out, err = run("a.yaml", *(["b.yaml"] if both else []))
    assert "unreliable: it took 1.50 times as long at the end of the run" in (err if both else out)
