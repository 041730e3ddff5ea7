"""The tokenizer of TIR text, a cursor over the tokens, and errors with positions."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass

from autosched.arguments import instance
from autosched.errors import AutoschedError
from autosched.tir.dtype import DType
from autosched.tir.printer_expr import KEYWORDS


class ParseError(AutoschedError):
    """A text is not TIR; the message has line and column (from 1), and what was expected."""


@dataclass(frozen=True, slots=True)
class Token:
    """One word, number, string or operator, or a layout token.

    `kind` is NAME, NUMBER, STRING, OP, or a layout kind: NEWLINE, INDENT, DEDENT or END, as in
    Python. `line` and `column` count from 1.
    """

    kind: str
    text: str
    line: int
    column: int

    def __str__(self) -> str:
        names = {
            "NEWLINE": "the end of the line",
            "INDENT": "an indented line",
            "DEDENT": "the end of the indented lines",
            "END": "the end of the text",
        }
        return names.get(self.kind, f"`{self.text}`")


_TOKEN = re.compile(
    r"(?P<SPACE>[ \t]+|#[^\n]*)"
    r"|(?P<NUMBER>\d+(?:\.\d+)?(?:[eE][+-]?\d+)?)"
    r"|(?P<NAME>custom\[\w+\]\d+(?:x\d+)?|[A-Za-z_]\w*(?:\.\w+)*)"
    r'|(?P<STRING>"(?:[^"\\\n]|\\.)*")'
    r"|(?P<OP>//|==|!=|<=|>=|[-+*/%<>=()\[\]{},:])",
    re.ASCII,
)
_OPENING, _CLOSING = "([{", ")]}"


def tokenize(text: str) -> list[Token]:
    """The tokens of `text`; the indentation of its first line counts as none.

    Line ends inside brackets are ignored. Raises ParseError for a character that is not part of
    TIR, and for a dedent to an indentation that no open block has.
    """
    tokens: list[Token] = []
    levels: list[int] = []
    open_brackets = 0
    lines = text.split("\n")
    for number, line in enumerate(lines, 1):
        body = line.lstrip(" ")
        if not body or body.startswith("#"):
            continue
        if open_brackets == 0:
            tokens += _indentation(levels, len(line) - len(body), number, line)
        at = len(line) - len(body)
        while at < len(line):
            found = _TOKEN.match(line, at)
            if found is None:
                raise error(f"expected TIR, found `{line[at]}`", number, at + 1, line)
            kind = str(found.lastgroup)
            if kind != "SPACE":
                tokens.append(Token(kind, found[0], number, at + 1))
                if kind == "OP":
                    open_brackets += (found[0] in _OPENING) - (found[0] in _CLOSING)
            at = found.end()
        if open_brackets <= 0:
            open_brackets = 0
            tokens.append(Token("NEWLINE", "", number, len(line) + 1))
    last, width = len(lines), len(lines[-1]) + 1
    tokens += [Token("DEDENT", "", last, width) for _ in levels[1:]]
    tokens.append(Token("END", "", last, width))
    return tokens


def _indentation(levels: list[int], width: int, number: int, line: str) -> list[Token]:
    """The INDENT or DEDENT tokens before a line indented by `width`; updates `levels`."""
    if not levels or width > levels[-1]:
        first = not levels
        levels.append(width)
        return [] if first else [Token("INDENT", "", number, width + 1)]
    tokens = []
    while levels and width < levels[-1]:
        levels.pop()
        tokens.append(Token("DEDENT", "", number, width + 1))
    if not levels or width != levels[-1]:
        raise error("this line is indented like none before it", number, width + 1, line)
    return tokens


def error(message: str, line: int, column: int, source: str) -> ParseError:
    """A ParseError at a position; its note shows the source line with a mark at the column."""
    result = ParseError(f"line {line}, column {column}: {message}")
    result.add_note(f"{source}\n{' ' * (column - 1)}^")
    return result


class Cursor:
    """A cursor over the tokens of a text, from the first to the last."""

    def __init__(self, text: str) -> None:
        self._lines = instance("text of TIR", text, str).split("\n")
        self._tokens = tokenize(text)
        self._at = 0

    @property
    def token(self) -> Token:
        """The next token."""
        return self._tokens[self._at]

    def ahead(self, count: int) -> Token:
        """The token `count` positions after the next one."""
        return self._tokens[min(self._at + count, len(self._tokens) - 1)]

    def peek(self, *texts: str) -> bool:
        """Whether the next tokens are the operators or words `texts`."""
        found = self._tokens[self._at : self._at + len(texts)]
        return [t.text for t in found if t.kind in ("OP", "NAME")] == list(texts)

    def next(self) -> Token:
        """Consume the next token and return it."""
        token = self.token
        self._at += 1
        return token

    def accept(self, *texts: str) -> bool:
        """Consume the next tokens if they are the operators or words `texts`; whether they were."""
        found = self.peek(*texts)
        self._at += len(texts) if found else 0
        return found

    def expect(self, text: str, where: str) -> Token:
        """Consume the operator or word `text`; ParseError for any other token."""
        if not self.peek(text):
            raise self.error(f"expected `{text}` {where}, found {self.token}")
        return self.next()

    def kind(self, kind: str, what: str) -> Token:
        """Consume a token of a kind; ParseError, which names `what`, for any other token."""
        if self.token.kind != kind:
            raise self.error(f"expected {what}, found {self.token}")
        return self.next()

    def error(self, message: str, token: Token | None = None) -> ParseError:
        """The ParseError at the position of a token, by default the next one."""
        token = token or self.token
        return error(message, token.line, token.column, self._lines[token.line - 1])

    def name(self, what: str) -> Token:
        """Consume a name that is not a keyword."""
        token = self.kind("NAME", what)
        if token.text in KEYWORDS:
            raise self.error(f"expected {what}, found the keyword `{token.text}`", token)
        return token

    def string(self, what: str) -> str:
        """Consume a string and return its contents."""
        token = self.kind("STRING", f"{what} in double quotes")
        try:
            return str(json.loads(token.text))
        except ValueError:
            raise self.error(f"{token} has an escape that JSON does not know", token) from None

    def integer(self, what: str) -> int:
        """Consume an integer and return it."""
        token = self.kind("NUMBER", what)
        if not token.text.isdigit():
            raise self.error(f"expected {what}, found {token}", token)
        return int(token.text)

    def dtype(self) -> DType:
        """Consume the name of a type and return the type."""
        token = self.kind("NAME", "a type such as float32")
        found = dtype_or_none(token.text)
        if found is None:
            raise self.error(f"expected a type such as float32, found {token}", token)
        return found

    def list_of(self, read: Callable[[], object], end: str) -> None:
        """Call `read` for each item separated by commas, and consume the closing bracket `end`."""
        while not self.accept(end):
            read()
            if not self.accept(","):
                self.expect(end, "or `,` after an item")
                return


def dtype_or_none(name: str) -> DType | None:
    """The type called `name`; None if there is none."""
    try:
        return DType(name)
    except ValueError:
        return None
