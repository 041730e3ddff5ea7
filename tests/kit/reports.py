"""Parts of report pages that tests look at."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any

HOSTILE = (
    "</script><script>alert(1)</script><img src=http://x.example/a onerror=alert(2)><b>&\ud800"
)


@dataclass
class Element:
    """A start tag with its attributes, and the text that follows it up to the next tag."""

    tag: str
    attributes: dict[str, str | None]
    text: str = ""


@dataclass
class _Parser(HTMLParser):
    found: list[Element] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append(Element(tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        self.found.append(Element("", {}))

    def handle_data(self, data: str) -> None:
        if self.found:
            self.found[-1].text += data


def elements(page: str) -> list[Element]:
    """All elements of a page, in order."""
    parser = _Parser()
    parser.feed(page)
    return [element for element in parser.found if element.tag]


def charts_of(page: str) -> dict[str, Any]:
    """The charts that the page's script draws, by the name of their element."""
    (holder,) = (e for e in elements(page) if e.attributes.get("id") == "charts")
    found: dict[str, Any] = json.loads(holder.text)
    return found
