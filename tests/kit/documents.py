"""The fenced examples of a documentation page, and the remarks in HTML comments about them.

The comments stand right above a fence, where readers of the page do not see them:

    <!-- before: statements that the example needs -->
    <!-- file: NAME that its text is saved under -->
    <!-- needs: a module without which it is not run -->
    <!-- not run: the reason -->
"""

from dataclasses import dataclass, field
from pathlib import Path

from markdown_it import MarkdownIt


@dataclass(frozen=True, slots=True)
class Example:
    """One fence: its language (`""` if it names none), its text, its first line and its remarks."""

    language: str
    text: str
    line: int
    remarks: dict[str, str] = field(default_factory=dict)


def examples(page: Path) -> list[Example]:
    """The fences of a page, in order."""
    found: list[Example] = []
    remarks: dict[str, str] = {}
    for token in MarkdownIt().parse(page.read_text(encoding="utf-8")):
        if token.type == "fence" and token.map:
            found.append(Example(token.info, token.content, token.map[0] + 2, remarks))
        if token.type == "html_block":
            kind, _, rest = token.content.strip().removeprefix("<!--").partition(":")
            remarks = {**remarks, kind.strip(): rest.removesuffix("-->").strip()}
        else:
            remarks = {}
    return found
