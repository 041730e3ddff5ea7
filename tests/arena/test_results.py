"""Contests with as many trials as there are candidates: what says nothing is left blank."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from autosched.arena import Pool, Results, Settings, contest
from autosched.cli import arena as command
from autosched.errors import ConfigError
from autosched.features.sets import TUNING
from kit.cli import Outcome
from kit.packages import broken

LOG = Path(__file__).parents[1] / "golden" / "ansor_log_matmul.json"


def pool(task: str, candidates: int) -> Pool:
    """Programs of one store whose second feature is their time."""
    seconds = 1 + np.random.default_rng(len(task)).permutation(candidates).astype(np.float64)
    programs = [np.array([[k, s]], np.float32) for k, s in enumerate(seconds)]
    return Pool(task, task, programs, seconds)


def played(*sizes: int, trials: int = 64, held_out: str = "operator") -> Results:
    pools = [pool(f"of {size}", size) for size in sizes]
    return contest(pools, ["random"], ["random"], Settings(trials, 8, 3, held_out))


def column(results: Results, name: str) -> list[str]:
    at = results.head().index(name)
    return [row[at] for row in results.cells()]


@pytest.mark.parametrize("size", [16, 64])
def test_regret_is_blank_once_every_candidate_was_tried(size: int) -> None:
    """It was 0.0 for every model and search."""
    results = played(size, trials=128)
    assert results.trials[-1] == size
    assert column(results, f"regret after {size} [%]") == ["-"]
    assert all(np.isnan(run.after(k)) for run in results.runs for k in (size, size + 1, 128))
    assert all(np.isfinite(run.after(k)) for run in results.runs for k in range(1, size))
    frame = results.to_pandas()
    assert set(frame["trial"][frame["regret"].isna()]) == {size}
    assert set(frame["candidates"]) == {size} and len(frame) == 3 * size


@pytest.mark.parametrize(("name", "method"), [("pandas", "to_pandas"), ("plotly", "plot")])
def test_a_broken_package_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, method: str
) -> None:
    """It was a traceback."""
    results = played(16)
    broken(monkeypatch, tmp_path / "other", name)
    message = f"^{name} is .* cannot open\\); {method} needs it: .*--force-reinstall {name}$"
    with pytest.raises(ConfigError, match=message):
        getattr(results, method)()


def test_one_candidate_left_to_try_can_still_be_missed() -> None:
    results = played(65)
    assert column(results, "regret after 64 [%]") != ["-"] and results.notes() == []
    worst_first = replace(pool("t", 3), seconds=np.array([3.0, 2.0, 1.0]))
    regrets = [r.regret for r in contest([worst_first], ["random"], ["random"]).runs]
    assert any(regret[1] > 0 for regret in regrets) and all(np.isnan(r[2]) for r in regrets)


def test_the_row_of_all_is_of_the_tasks_with_candidates_left_and_says_so() -> None:
    results, whole = played(32, 200, 100, trials=128), played(200, 100, trials=128)
    all_of_three, all_of_two = results.table()[-1], whole.table()[-1]
    assert all_of_three.tasks[2:] == (3, 2, 2, 1)  # after 16, 32, 64, 128
    for trials in (32, 64):
        assert all_of_three.regret[trials] == all_of_two.regret[trials]
    assert all_of_three.regret[128] == results.table()[1].regret[128]
    after = {k: column(results, f"regret after {k} [%]") for k in results.trials}
    assert "tasks" not in after[16][-1]
    assert after[32][-1].endswith(" of 2 tasks") and after[128][-1].endswith(" of 1 task")
    assert not any("task" in text for texts in after.values() for text in texts[:-1])
    assert column(results, "candidates") == ["32", "200", "100", "332"]


def test_the_row_of_all_is_blank_where_no_task_has_candidates_left() -> None:
    assert column(played(16, 32), "regret after 32 [%]") == ["-", "-", "-"]


def test_the_note_tells_how_many_tasks_and_what_to_do() -> None:
    results = played(16, 200, 32)
    (note,) = results.notes()
    assert "too few candidates for so many trials in 2 of 3 tasks (the fewest: 16)" in note.lower()
    assert "Record more candidates, or ask for fewer trials" in note
    assert results.text() == f"{results.markdown()}\n\n{note}"
    enough = played(200, 100)
    assert enough.notes() == [] and enough.text() == enough.markdown()


def test_curves_end_before_the_last_candidate() -> None:
    lines = [trace for trace in played(16, 200).plot().data if trace.name]
    assert [list(line.x) for line in lines] == [list(range(1, 16)), list(range(1, 65))]
    assert all(np.isfinite(line.y).all() for line in lines)


def test_top_8_of_eight_candidates_is_blank() -> None:
    """It was 1.0 for every model: all are among the eight fastest."""
    results = played(8, 9, 200, trials=4)
    recalls = [line.top8_recall for line in results.table()]
    assert np.isnan(recalls[0]) and recalls[1] >= 7 / 8
    assert recalls[3] == pytest.approx(np.mean(recalls[1:3])) and results.table()[-1].tasks[:2] == (
        3,
        2,
    )
    texts = column(results, "top 8")
    assert texts[0] == "-" and texts[3] == f"{recalls[3]:.3f} of 2 tasks"
    assert all(0 <= line.rank_accuracy <= 1 for line in results.table())
    (note,) = results.notes()
    assert note.startswith("Top 8 is left blank for 1 of 3 tasks")
    began_with_nothing = played(8, 200, trials=4, held_out="all")
    assert column(began_with_nothing, "top 8") == [""] * 3 and began_with_nothing.notes() == []


def test_a_first_round_that_is_drawn_tells_nothing_of_the_models() -> None:
    """All players had the same regret, without a word."""
    pools = [pool("of 200", 200), pool("of 100", 100)]

    def told(trials: int, held_out: str) -> list[str]:
        settings = Settings(trials, 8, 2, held_out)
        return contest(pools, ["random"], ["autosched", "greedy"], settings).notes()

    (note,) = told(8, "all")
    assert note.startswith("In 2 of 2 tasks the models had nothing to learn from before the")
    assert (
        "the first 8 trials, one round, are drawn at random: they do not depend on the model."
        in note
    )
    assert told(9, "all") == [] == told(8, "operator")


def run(
    number: int, trials: int, capsys: pytest.CaptureFixture[str], as_json: bool = False
) -> Outcome:
    """What `autosched arena` says of the first candidates of a log of Ansor's."""
    lines = LOG.read_text().splitlines()
    assert len(lines) == 64
    Path("mm.json").write_text("\n".join(lines[:number]) + "\n")
    settings = Settings(trials, seeds=2)
    records = [Path("mm.json")]
    command.run(records, ["random"], ["random"], settings, TUNING, None, as_json=as_json)
    return Outcome(0, *capsys.readouterr())


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_the_command_prints_the_note_and_nulls(capsys: pytest.CaptureFixture[str]) -> None:
    runs = json.loads(run(16, 128, capsys, as_json=True).out)["runs"]
    assert [row["trial"] for row in runs if row["regret"] is None] == [16, 16]
    assert {row["candidates"] for row in runs} == {16}
    done = run(16, 128, capsys)
    assert done.out.splitlines()[2].split("|")[-2].strip() == "-"
    assert "| candidates |" in done.out and "Too few" not in done.out
    assert "note: Too few candidates for so many trials in 1 of 1 task" in done.err
    assert "note:" not in run(16, 15, capsys).err


def test_a_narrow_terminal_keeps_a_regret_that_is_known(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for width, candidates in ((115, True), (100, False)):
        monkeypatch.setenv("COLUMNS", str(width))
        head = run(64, 16, capsys).out.splitlines()[0]
        assert head.startswith("| task") and ("candidates" in head) == candidates
    monkeypatch.setenv("COLUMNS", "60")
    shown = run(64, 128, capsys).out
    assert "regret after 32 [%]" in shown and "regret after 64 [%]" not in shown
