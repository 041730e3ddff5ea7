"""The page in a browser: drawn at three widths, in two colours, without a request."""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from kit.chromium import Chromium, find_chromium

PROGRAM = find_chromium()

# How many pixels of the data's area have a colour, chart by chart: frame and text are grey.
COLOURED = """(async () => {
  const image = new Image();
  image.src = "data:image/png;base64,%s";
  await image.decode();
  const canvas = document.createElement("canvas");
  const context = canvas.getContext("2d", { willReadFrequently: true });
  const found = {};
  for (const place of document.querySelectorAll(".plot")) {
    const area = place.querySelector(".nsewdrag").getBoundingClientRect();
    const width = canvas.width = Math.floor(area.width);
    const height = canvas.height = Math.floor(area.height);
    const left = area.x + scrollX, top = area.y + scrollY;
    context.drawImage(image, left, top, width, height, 0, 0, width, height);
    const { data } = context.getImageData(0, 0, width, height);
    let number = 0;
    for (let k = 0; k < data.length; k += 4) {
      const [red, green, blue] = data.subarray(k, k + 3);
      number += Math.max(red, green, blue) - Math.min(red, green, blue) > 60;
    }
    found[place.id] = number;
  }
  return found;
})()"""

# Labels of one axis that lie upon each other.
OVERLAPS = """[...document.querySelectorAll(".plot")].flatMap((place) =>
  [".xtick text", ".ytick text", ".legendtext"].flatMap((kind) => {
    const boxes = [...place.querySelectorAll(kind)].map((e) => e.getBoundingClientRect());
    return boxes.flatMap((a, i) => boxes.slice(i + 1)
      .filter((b) => a.right > b.left + 1 && b.right > a.left + 1
        && a.bottom > b.top + 3 && b.bottom > a.top + 3)
      .map(() => `${place.id} ${kind}`));
  }))"""

INTRUDER = """new Promise((blocked) => {
  addEventListener("securitypolicyviolation", (event) => blocked(event.blockedURI));
  document.body.insertAdjacentHTML("beforeend", "<img src='http://x.example/a.png'>");
})"""


@pytest.fixture
def browser(tmp_path: Path) -> Iterator[Chromium]:
    if PROGRAM is None:
        pytest.skip("no Chromium is installed, which this test looks at the page with")
    with Chromium(PROGRAM, tmp_path / "profile") as found:
        yield found


def coloured(browser: Chromium) -> dict[str, int]:
    picture = base64.b64encode(browser.screenshot()).decode()
    found: dict[str, int] = browser.ask(COLOURED % picture)
    return found


def empty(browser: Chromium, patience: float = 30.0) -> set[str]:
    """The charts that show nothing: a busy machine paints a while after the page has drawn."""
    end = time.monotonic() + patience
    while True:
        found = coloured(browser)
        assert len(found) == 7
        charts = {name for name, number in found.items() if number < 100}
        if not charts or time.monotonic() > end:
            return charts
        time.sleep(0.2)


def test_no_chart_is_empty_at_any_width(browser: Chromium, page: str, tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(page)
    browser.look(1280)
    browser.open(file)
    for width, dark in ((1280, False), (820, True), (390, False)):
        browser.look(width, dark=dark, phone=width < 500)
        wanted = f"{'dark' if dark else 'light'} {width}"
        assert browser.wait_for("drawn", [wanted, "failed"]) == wanted
        assert empty(browser) == set(), wanted
        assert browser.ask("document.documentElement.scrollWidth") <= width
        assert browser.ask(OVERLAPS) == [], wanted
    # An empty chart would have been found.
    browser.ask("Plotly.deleteTraces('run0-predicted', [0, 1]).then(() => 0)")
    assert empty(browser, patience=0) == {"run0-predicted"}
    assert coloured(browser)["run0-predicted"] == 0
    asked = [address for address in browser.requests if not address.startswith("data:")]
    assert asked == [file.resolve().as_uri()]
    assert browser.errors == []
    # An address that is asked for would have been seen, and the page's policy stops it.
    assert browser.ask(INTRUDER) == "http://x.example/a.png"
    assert browser.requests[-1] == "http://x.example/a.png"
