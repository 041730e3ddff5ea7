"""Texts that tests compare with, and how `pytest --update-golden` rewrites them.

A golden file holds the whole text of one result. An example stands in a docstring or in a file of
examples, as blocks of indented lines below

where the test that runs the example decides what the text after the word means.

where what stands after the word is up to the test that runs the example.
"""

from __future__ import annotations

import difflib
import re
import textwrap
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "golden"

_HEADER = re.compile(
    r"^(?P<indent> *)(?P<kind>before|after|unchanged|refused)(?: (?P<label>.+))?:$"
)


@dataclass
class Golden:
    """Compares texts with what files hold, or writes the files when `update` is set."""

    update: bool

    def check(self, name: str, text: str) -> None:
        """Fails, with the lines that differ, unless `tests/golden/name` holds `text`."""
        path = FOLDER / name
        if self.update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text.rstrip("\n") + "\n")
        wanted = path.read_text() if path.exists() else ""
        found = difference(wanted, text)
        assert not found, f"{path.name} holds another text; see --update-golden\n{found}"

    def check_examples(self, path: Path, run: Callable[[Example], None]) -> int:
        """Runs every example of a file; returns how many there are.

        `run` puts the texts that it finds into the blocks; those that differ fail, or are written.
        """
        lines = path.read_text().split("\n")
        examples = examples_in(lines)
        for example in examples:
            try:
                run(example)
            except Exception as error:
                error.add_note(f"{path}:{example.line}")
                raise
        blocks = [block for example in examples for block in (example.before, *example.outcomes)]
        different = [block for block in blocks if block.found is not None and block.difference]
        if self.update:
            for block in sorted(different, key=lambda b: b.first, reverse=True):
                lines[block.first : block.last] = block.lines()
            path.write_text("\n".join(lines))
            return len(examples)
        report = [f"{path}:{b.first}\n{b.difference}" for b in different]
        assert not report, "see --update-golden\n" + "\n".join(report)
        return len(examples)


@dataclass
class Block:
    """The lines below a header; `found` is the text that the test finds for them.

    Lines longer than 100 columns are continued, indented further, inside brackets.
    """

    kind: str
    label: str
    first: int
    last: int
    indent: int
    text: str
    found: str | None = None

    @property
    def difference(self) -> str:
        """The difference between the text found and that of the file."""
        return difference(self._joined(self.text), self._joined(self.found or ""))

    def _joined(self, text: str) -> str:
        return " ".join(text.split()) if self.kind == "refused" else joined(text)

    def lines(self) -> list[str]:
        """The lines of `found`, as they stand in the file."""
        width, margin = 100 - self.indent, " " * self.indent
        found = self.found or ""
        if self.kind == "refused":
            return [margin + line for line in textwrap.wrap(found, width)]
        return [
            (margin + part).rstrip() for line in found.split("\n") for part in broken(line, width)
        ]


@dataclass
class Example:
    """A program and its outcomes: blocks for one or several passes."""

    before: Block
    outcomes: list[Block] = field(default_factory=list)

    @property
    def line(self) -> int:
        """The line of the file, counted from 1, on which the example starts."""
        return self.before.first


def examples_in(lines: list[str]) -> list[Example]:
    """The examples that the lines of a file hold."""
    examples: list[Example] = []
    for number, line in enumerate(lines):
        header = _HEADER.match(line)
        if header is None:
            continue
        block = _block(lines, number + 1, header)
        if block.kind == "before":
            examples.append(Example(block))
        else:
            assert examples, f"line {number + 1}: `{line.strip()}` without `before:`"
            examples[-1].outcomes.append(block)
    return examples


def _block(lines: list[str], first: int, header: re.Match[str]) -> Block:
    outside = len(header["indent"])
    last = first
    for number in range(first, len(lines)):
        body = lines[number].lstrip(" ")
        if body and len(lines[number]) - len(body) <= outside:
            break
        last = number + 1 if body else last
    inside = [line for line in lines[first:last] if line]
    indent = min((len(t) - len(t.lstrip(" ")) for t in inside), default=outside + 4)
    text = "\n".join(line[indent:] for line in lines[first:last])
    return Block(header["kind"], header["label"] or "", first, last, indent, text)


def joined(text: str) -> str:
    """`text` with each line that ends inside brackets joined to the next one."""
    lines: list[str] = []
    open_brackets = 0
    for line in text.split("\n"):
        if open_brackets > 0:
            lines[-1] += " " + line.lstrip(" ")
        else:
            lines.append(line)
        open_brackets += _depth(line)
    return "\n".join(lines)


def broken(line: str, width: int) -> list[str]:
    """`line` split into parts of at most `width` columns, at spaces inside brackets."""
    parts: list[str] = []
    margin = " " * (len(line) - len(line.lstrip(" ")) + 8)
    while len(line) > width:
        places = [at for at in range(len(margin) + 1, width) if line[at] == " "]
        places = [at for at in places if _depth(line[:at]) + _depth("".join(parts)) > 0]
        if not places:
            break
        parts.append(line[: places[-1]])
        line = margin + line[places[-1] + 1 :]
    return [*parts, line]


def _depth(text: str) -> int:
    return sum(map(text.count, "([{")) - sum(map(text.count, ")]}"))


def difference(wanted: str, found: str) -> str:
    """The lines in which two texts differ; nothing when they are equal up to a last line end."""
    a, b = (text.rstrip("\n").split("\n") for text in (wanted, found))
    return "\n".join(difflib.unified_diff(a, b, "expected", "found", lineterm="", n=2))
