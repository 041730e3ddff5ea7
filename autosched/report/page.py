"""Render the page from its templates, with plotly.js packed into it."""

from __future__ import annotations

import base64
import gzip
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib import resources
from typing import Any

from autosched.measure.environment import fingerprint
from autosched.needed import needed_for
from autosched.output_file import REPORT_MARK
from autosched.report.chart import Chart
from autosched.report.sections import Row, Section

_KEYWORDS = re.compile(
    r"\b(for|if|else|in|range|parallel|vectorize|vectorized|unroll|vthread|bind|allocate|let|assert|"
    r"realize|attr|pragma|extern|void|float|int|const|__global__|__shared__|__syncthreads)\b(?![;#])"
)


@dataclass(frozen=True, slots=True)
class Page:
    """The contents of the page. `rows` and `overview` compare several runs; empty for a single one.

    `left_out` counts the runs that have a row and no section.
    """

    title: str
    summary: str
    sections: Sequence[Section]
    rows: Sequence[Row] = ()
    overview: Sequence[Chart] = ()
    notes: Sequence[str] = ()
    left_out: int = 0


def html_of(page: Page) -> str:
    """The page as text; it needs no other file and no network.

    Raises ConfigError where the extra `report` is not installed.
    """
    environment = _templates()
    charts = {f"all-{chart.name}": chart for chart in page.overview}
    for place, section in enumerate(page.sections):
        charts |= {f"run{place}-{chart.name}": chart for chart in section.charts}
    data = {key: chart.to_json() for key, chart in charts.items() if chart.traces}
    text: str = environment.get_template("report.html").render(
        page=page,
        mark=REPORT_MARK,
        version=fingerprint()["packages"]["autosched"],
        style=_text("report.css"),
        script=_text("report.js"),
        charts=in_script(data),
        library=packed_plotly(),
    )
    return text.encode(errors="replace").decode()  # records may hold lone surrogates


def in_script(data: Any) -> str:
    """JSON that can stand in a script element: nothing in it ends the element.

    Numbers that JSON has no name for become null.
    """
    plain = json.loads(json.dumps(data), parse_constant=lambda _: None)
    text = json.dumps(plain, separators=(",", ":"), allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


@lru_cache(maxsize=1)
def packed_plotly() -> str:
    """plotly.js compressed, in base64: 2 MB instead of the 4.8 MB of its text."""
    script: str = _needed("plotly.offline").get_plotlyjs()
    return base64.b64encode(gzip.compress(script.encode(), 9, mtime=0)).decode()


def require_extra() -> None:
    """Raise ConfigError that says what to do if the extra `report` is missing or broken."""
    _needed("plotly.offline")
    _needed("jinja2")


def _needed(name: str) -> Any:
    return needed_for("a report", name, "autosched[report]")


def _templates() -> Any:
    jinja2 = _needed("jinja2")
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_text),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["highlighted"] = _highlighted
    return environment


def _highlighted(text: str) -> Any:
    """Code with its keywords in bold; all else is escaped."""
    markupsafe = _needed("markupsafe")
    escaped = str(markupsafe.escape(text))
    return markupsafe.Markup(_KEYWORDS.sub(r"<b>\1</b>", escaped))


def _text(name: str) -> str:
    return (resources.files("autosched.report") / "templates" / name).read_text(encoding="utf-8")
