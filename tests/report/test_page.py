"""The page without a browser: every chart's data, hostile records, nothing from a network."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from math import inf
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import pytest

from autosched.errors import ConfigError
from autosched.measure.record_log import RecordLog
from autosched.measure.records import Record
from autosched.measure.result import MeasureResult
from autosched.report.page import html_of, in_script
from autosched.report.roofline import Roof
from autosched.report.write import page_of, write_report
from autosched.task import Task
from autosched.user_file import trusting
from kit.packages import broken, missing
from kit.records import write
from kit.reports import HOSTILE, charts_of, elements

CHARTS = {"curve", "roofline", "accuracy", "predicted", "time", "importance", "failures"}


def no_warning(text: str) -> None:
    pytest.fail(text)


def trace(charts: dict[str, Any], chart: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = next(
        t for t in charts[f"run0-{chart}"]["traces"] if t.get("name") == name
    )
    return found


def test_every_chart_has_its_data(page: str, records: Sequence[Record], task: Task) -> None:
    charts = charts_of(page)
    assert set(charts) == {f"run0-{name}" for name in CHARTS}
    costs = [record.result.cost for record in records]
    valid = [cost for cost in costs if cost < inf]
    flops = task.dag.flop_count
    assert len(trace(charts, "curve", "trial")["x"]) == len(valid)
    assert trace(charts, "curve", "failed")["x"] == [k + 1 for k, c in enumerate(costs) if c == inf]
    best = trace(charts, "curve", "best so far")
    assert best["y"] == sorted(best["y"])
    assert best["y"][-1] == pytest.approx(flops / min(valid) / 1e9)
    assert best["x"][-1] == len(records)
    assert trace(charts, "curve", "best")["x"] == [costs.index(min(valid)) + 1]
    candidates = trace(charts, "roofline", "candidate")
    assert candidates["x"] == [flops / (3 * 32 * 32 * 4)] * len(valid)
    assert max(candidates["y"]) == pytest.approx(flops / min(valid) / 1e9)
    assert trace(charts, "roofline", "peak 400 GFLOP/s")["y"] == [400, 400]
    line = trace(charts, "roofline", "memory 10 GB/s")
    assert [y / x for x, y in zip(line["x"], line["y"], strict=True)] == pytest.approx([10, 10])
    assert trace(charts, "accuracy", "pairs in the right order")["x"] == [1, 2, 3]
    known = min(costs[:16])
    third = records[18]
    assert third.result.valid
    points = trace(charts, "predicted", "candidate")
    assert (
        round(third.search["predicted"], 4),
        round(known / third.result.cost, 4),
    ) in zip(points["x"], points["y"], strict=True)
    (bars,) = charts["run0-failures"]["traces"]
    assert sum(bars["x"]) == len(costs) - len(valid)
    (bars,) = charts["run0-time"]["traces"]
    assert sum(bars["x"]) == pytest.approx(4 * 8.0)
    (bars,) = charts["run0-importance"]["traces"]
    assert sum(bars["x"]) == pytest.approx(1)


def test_calls_are_counted_where_operations_cannot_be(tmp_path: Path) -> None:
    """Those of a C function: the count is -1, a rate has no sign."""
    (tmp_path / "ops.py").write_text(
        "from autosched import te\n"
        "def roots():\n"
        '    a = te.placeholder((8,), name="a")\n'
        '    root = lambda i: te.call_extern("sqrtf", a[i], dtype="float32")\n'
        '    return [a, te.compute((8,), root, name="b")]\n'
    )
    task = Task.from_python(f"{tmp_path / 'ops.py'}:roots")
    assert task.dag.flop_count < 0
    times = [MeasureResult((seconds,)) for seconds in (2e-6, 1e-6)]
    made = [Record(task.to_json(), (), each) for each in times]
    path = write(tmp_path / "r.jsonl", made)
    with trusting():
        charts = charts_of(html_of(page_of([path], no_warning, measure=False)))
    assert trace(charts, "curve", "best so far")["y"] == pytest.approx([5e5, 1e6, 1e6])
    assert "run0-roofline" not in charts


def test_one_trial_has_none_to_be_compared_with(
    records: Sequence[Record], tmp_path: Path, roof: Roof
) -> None:
    log = tmp_path / "one.jsonl"
    RecordLog(log).append(records[:1])
    words = " ".join(
        " ".join(e.text for e in elements(html_of(page_of([log], no_warning)))).split()
    )
    assert "There is one trial." in words and "1 trials" not in words


def test_the_page_says_what_is_best_and_where_it_was_measured(page: str, log: Path) -> None:
    words = " ".join(" ".join(element.text for element in elements(page)).split())
    assert "parallel" in words and "matmul(M=32, N=32, K=32)" in words
    assert "def main(A: Buffer((32, 32), float32)" in words
    assert "Checked against NumPy." in words
    assert "L2 200 GB/s with 512 KiB a thread" in words
    assert str(log.name) in words


def test_plotly_knows_all_that_charts_ask_for(page: str) -> None:
    """Names of properties that do not exist would be ignored in the browser."""
    text = json.dumps(charts_of(page))
    for name in {part.split('"')[0] for part in text.split('"@')[1:]}:
        text = text.replace(f'"@{name}"', '"#123456"')
    for chart in json.loads(text).values():
        assert len(go.Figure(chart["traces"], chart["layout"]).data) == len(chart["traces"])


def test_hostile_records_stay_text(records: Sequence[Record], tmp_path: Path) -> None:
    entry = {"workload": {"op": HOSTILE}, "target": {}, "hardware": {}, "key": HOSTILE}
    other = tmp_path / "h<script>ostile.jsonl"
    RecordLog(other, beside={HOSTILE: HOSTILE}).append(
        [replace(record, task=entry) for record in records]
    )
    page = html_of(page_of([other], no_warning))
    tags = [element.tag for element in elements(page)]
    assert tags.count("script") == 3
    assert not {"img", "a", "iframe", "object", "b"}.intersection(tags)
    assert not any(name.startswith("on") for e in elements(page) for name in e.attributes)
    shown = json.dumps(charts_of(page))
    assert "<script" not in shown and "<img" not in shown  # plotly would take them for markup
    assert "&lt;/script" in shown


def test_nothing_is_loaded(page: str) -> None:
    """No element names an address, and the page's own policy would block any."""
    found = elements(page)
    links = [e.attributes[n] for e in found for n in ("src", "href") if n in e.attributes]
    assert links == ["data:,"]
    (policy,) = (e for e in found if e.attributes.get("http-equiv"))
    assert str(policy.attributes["content"]).startswith("default-src 'none';")
    style = "".join(e.text for e in found if e.tag == "style")
    assert "url(" not in style and "@import" not in style
    assert len(page.encode()) < 5e6


def test_files_of_earlier_versions_say_what_they_lack(log: Path, old_log: Path, roof: Roof) -> None:
    page = page_of([old_log, log], no_warning)
    old, new = page.sections
    assert "model trained on the earlier parts" in old.chart("accuracy").caption
    assert "earlier parts" not in new.chart("accuracy").caption
    assert "do not say what search and learning took" in old.chart("time").caption
    roofline = old.chart("roofline")
    assert [t["name"] for t in roofline.traces] == ["candidate", "best"]
    assert "of another machine" in roofline.caption
    assert all(chart.traces for chart in old.charts)
    (overview,) = page.overview
    assert [t["name"] for t in overview.traces] == ["old.jsonl", "mm.jsonl"]
    assert [row.trials for row in page.rows] == [64, 64]


def test_what_cannot_be_drawn_is_a_sentence(
    records: Sequence[Record], roof: Roof, tmp_path: Path
) -> None:
    path = tmp_path / "failed.jsonl"
    RecordLog(path).append([record for record in records if not record.result.valid])
    (section,) = page_of([path], no_warning).sections
    drawn = {chart.name for chart in section.charts if chart.traces}
    assert drawn == {"failures", "time"}
    assert all(chart.caption.endswith(".") for chart in section.charts)
    assert section.chart("curve").caption.startswith("None of the 9 trials has a time")
    assert html_of(page_of([path], no_warning))


def test_large_files_make_small_pages(
    records: Sequence[Record], roof: Roof, tmp_path: Path
) -> None:
    """Marks are thinned, and the best so far is not."""
    path = tmp_path / "large.jsonl"
    many = [replace(r, search={**r.search, "round": k}) for k in range(40) for r in records]
    RecordLog(path).append(many)
    (section,) = page_of([path], no_warning).sections
    points = {c.name: sum(len(t["x"]) for t in c.traces) for c in section.charts}
    assert points["curve"] < 2400 and points["predicted"] < 2100 and points["roofline"] < 500
    assert "2,000 of 2,200 trials" in section.chart("curve").caption
    assert "400 of 2,200 candidates" in section.chart("roofline").caption
    assert len(in_script([chart.to_json() for chart in section.charts])) < 400_000


def test_pages_of_one_file_are_equal(log: Path, page: str, roof: Roof) -> None:
    assert html_of(page_of([log], no_warning)) == page


def test_without_the_extra_it_says_what_to_install(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing(monkeypatch, "plotly")
    remedy = r"a report needs it: pip install 'autosched\[report\]'"
    with pytest.raises(ConfigError, match=rf"^plotly is not installed; {remedy}$"):
        write_report(log, tmp_path / "r.html")
    assert not (tmp_path / "r.html").exists()


@pytest.mark.parametrize("package", ["plotly", "jinja2"])
def test_a_broken_extra_is_told(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str
) -> None:
    """It was a traceback."""
    broken(monkeypatch, tmp_path / "other", package)
    with pytest.raises(ConfigError) as refused:
        write_report(log, tmp_path / "r.html")
    assert str(refused.value) == (
        f"{package} is installed and cannot be imported (OSError: libx.so.1: cannot open); "
        f"a report needs it: pip install --force-reinstall {package}"
    )
