"""A run's result as a data frame, a chart and a table, and its progress in a notebook."""

import json
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path

import pytest

import autosched
from autosched.errors import ConfigError
from autosched.search.options import SearchOptions
from autosched.session import yardsticks
from autosched.session.peer import Peer
from autosched.session.tuned import Tuned
from autosched.task import Task
from kit.measurer import StubMeasurer
from kit.notebook import Cell
from kit.packages import broken, missing
from kit.types import UseMeasurer


@pytest.fixture
def result(measurer: UseMeasurer, tasks: list[Task], search: SearchOptions) -> Tuned:
    """Eight trials of two tasks, of which the first of every batch of four failed."""
    measurer(bad=4)
    return autosched.tune(
        tasks,
        trials=16,
        batch=4,
        cost_model="random",
        search=search,
        strategy="round-robin",
    )


def test_a_data_frame_has_a_row_for_each_candidate(result: Tuned) -> None:
    frame = result.to_pandas()
    assert list(frame["task"].unique()) == [found.task.name for found in result]
    assert len(frame) == len(result.records) == 16
    assert list(frame.columns).index("seconds") == 4
    failed = frame[~frame["valid"]]
    assert set(failed["trial"]) == {0, 4}
    assert set(failed["stage"] + " " + failed["kind"]) == {"run crash"}
    assert failed["seconds"].isna().all()
    for found, (_, own) in zip(result, frame.groupby("task", sort=False), strict=True):
        assert own["seconds"].min() == own["best_seconds"].iloc[-1] == found.best.seconds
        assert own["best_seconds"].dropna().is_monotonic_decreasing
        operations = (own["flops_per_second"] * own["seconds"]).dropna()
        assert operations.round().eq(found.task.dag.flop_count).all()


def test_a_chart_shows_every_trial(result: Tuned) -> None:
    figure = json.loads(result.plot().to_json())
    assert [trace["name"] for trace in figure["data"]][:3] == [
        result[0].task.name,
        "trials",
        "failures",
    ]
    assert [len(trace["x"]) for trace in figure["data"]] == [7, 6, 2] * 2
    assert figure["data"][0]["y"][-1] == result[0].best.seconds
    assert figure["layout"]["yaxis"]["type"] == "log"


@pytest.mark.parametrize(("name", "method"), [("pandas", "to_pandas"), ("plotly", "plot")])
def test_what_is_not_installed_is_named(
    result: Tuned, monkeypatch: pytest.MonkeyPatch, name: str, method: str
) -> None:
    missing(monkeypatch, name)
    message = f"^{name} is not installed; {method} needs it: pip install {name}$"
    with pytest.raises(ConfigError, match=message):
        getattr(result, method)()


@pytest.mark.parametrize(("name", "method"), [("pandas", "to_pandas"), ("plotly", "plot")])
def test_what_is_broken_is_named(
    result: Tuned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, method: str
) -> None:
    broken(monkeypatch, tmp_path / "other", name)
    message = f"^{name} is .* cannot open\\); {method} needs it: .*--force-reinstall {name}$"
    with pytest.raises(ConfigError, match=message):
        getattr(result, method)()


class Balanced(HTMLParser):
    """Checks that every element is closed, and keeps the text and the attributes."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.feed(html)
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += attrs
        self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_a_notebook_shows_a_table(result: Tuned, measurer: UseMeasurer) -> None:
    page = Balanced(result._repr_html_())
    assert page.texts[0] == "all trials were used"
    assert {found.task.name for found in result} <= set(page.texts)
    assert page.texts.count("8") == 2 and page.texts.count("6") == 2
    curves = [value for name, value in page.attributes if name == "points"]
    assert [len((curve or "").split()) for curve in curves] == [7, 7]
    colours = {value for name, value in page.attributes if name in ("stroke", "fill", "color")}
    assert colours == {"currentColor", "none"}
    assert result[1].task.name in Balanced(result[1]._repr_html_()).texts
    measurer(interrupt_after=0)
    nothing = autosched.tune(result[0].task, trials=4, cost_model="random")
    assert "interrupted before a candidate" in nothing._repr_html_()


def test_text_of_others_is_no_markup(measurer: UseMeasurer) -> None:
    task = Task.from_expression("C[i] = A[i] < B[i]", {"A": (4,), "B": (4,)})
    shown = autosched.tune(task, trials=2, batch=2, cost_model="random")
    assert "A[i] < B[i]" in "".join(Balanced(shown._repr_html_()).texts)


def test_the_best_says_what_it_is(result: Tuned) -> None:
    text = repr(result[0].best)
    assert text.startswith(f"<best of {result[0].task.name} on cpu ({result[0].task.target.cpu}")
    assert text.endswith("), checked>")


def test_progress_in_a_notebook_is_one_output(
    measurer: UseMeasurer, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    cell, seen = Cell(), list[int]()
    cell.install(monkeypatch)
    autosched.tune(
        task,
        trials=8,
        batch=4,
        cost_model="random",
        observer=lambda progress, records: seen.append(len(records)),
    )
    assert cell.outputs == 1
    assert "8/8 trials" in cell.html[-1]
    assert sum(seen) == 8
    autosched.tune(task, trials=4, batch=4, cost_model="random", progress=False)
    assert cell.outputs == 1


@pytest.mark.parametrize(("progress", "lines"), [(None, 0), (False, 0), (True, 2)])
def test_progress_of_a_script(
    measurer: UseMeasurer,
    task: Task,
    capfd: pytest.CaptureFixture[str],
    progress: bool | None,
    lines: int,
) -> None:
    autosched.tune(task, trials=8, batch=4, cost_model="random", progress=progress)
    err = capfd.readouterr().err
    assert err.count("\n") == lines
    assert err.count("/8 trials, best") == lines


def test_the_best_is_compared_where_that_is_asked_for(
    measurer: UseMeasurer, tasks: list[Task], monkeypatch: pytest.MonkeyPatch
) -> None:
    peer = Peer("numpy.matmul", 2e-6, 1e-6)
    peer_of: Callable[..., Peer] = lambda task, measurer, best: peer  # noqa: E731
    monkeypatch.setattr(yardsticks, "peer_of", peer_of)
    monkeypatch.setattr(StubMeasurer, "peak", lambda self, task, reached=0.0: 3e9)
    plain = autosched.tune(tasks[0], trials=4, cost_model="random")
    assert (plain[0].peer, plain[0].peak) == (None, None)
    one = autosched.tune(tasks[0], trials=4, cost_model="random", compare=True)
    assert (one[0].peer, one[0].peak) == (peer, 3e9)
    assert "2.00 times the speed of numpy.matmul" in one._repr_html_()
    both = autosched.tune(tasks, trials=8, cost_model="random", compare=True)
    assert [(found.peer, found.peak) for found in both] == [(None, 3e9)] * 2
