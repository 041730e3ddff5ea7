"""Sphinx: the documentation site, from these pages and the docstrings.

`sphinx-build -W -b html docs site` builds it (extra `docs`).
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from typer.cli import get_docs_for_click

import autosched
from autosched.cli.app import app as commands

if TYPE_CHECKING:
    from sphinx.application import Sphinx

HERE = Path(__file__).parent
_COLON = "\ue000"  # in place of one, of Unicode's private use

project = "autosched"
author = "the autosched developers"
version = release = autosched.__version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
default_role = "literal"  # `like this` in docstrings is code, as in the pages
myst_heading_anchors = 3
autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_class_signature = "separated"
autodoc_preserve_defaults = True
napoleon_numpy_docstring = False
add_module_names = False
python_maximum_signature_line_length = 88

html_theme = "furo"
html_title = f"autosched {release}"
html_copy_source = False
html_show_copyright = False


def _write_commands(app: Sphinx) -> None:
    """The page of the commands is what `--help` says of them."""
    command = typer.main.get_command(commands)
    context = typer.Context(command, info_name="autosched")
    text = get_docs_for_click(obj=command, ctx=context, name="autosched")
    text = text.replace("# `autosched`", "# Commands", 1)
    text = re.sub(r"^(#+ )`(.*)`$", r"\1\2", text, flags=re.M)  # headings are for the contents
    text = re.sub(r"\x08?\n?Examples?:\n((?:autosched .*\n)+)", _examples, text)
    page = HERE / "commands.md"
    if not page.exists() or page.read_text(encoding="utf-8") != text:
        page.write_text(text, encoding="utf-8")


def _examples(match: re.Match[str]) -> str:
    lines = "".join(f"$ {line}\n" for line in match[1].splitlines())
    return f"**Examples**:\n\n```console\n{lines}```\n"


def _hide_colons(
    app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]
) -> None:
    """Napoleon takes what precedes a colon in an attribute's first line for its type."""
    if what in ("attribute", "data", "property") and lines:
        lines[0] = lines[0].replace(":", _COLON)


def _show_colons(
    app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]
) -> None:
    lines[:] = [line.replace(_COLON, ":") for line in lines]


def _plain_docstring(
    app: Sphinx, what: str, name: str, obj: object, options: object, lines: list[str]
) -> None:
    """What our docstrings leave out of reStructuredText.

    What is indented below a line that ends in a colon is shown as it stands; letters may follow
    code.
    """
    shown: list[str] = []
    literal: int | None = None  # the indentation of the line that began a block
    for at, line in enumerate(lines):
        if literal is not None and (not line.strip() or _indent(line) > literal):
            shown.append(line)
            continue
        if literal is not None:
            shown.append("")
        literal = None
        following = next((later for later in lines[at + 1 :] if later.strip()), "")
        is_field = line.lstrip().startswith((":", ".."))
        shown.append(re.sub(r"(?<!`)`([^`]+)`(?=\w)", r"`\1`\\ ", line))
        if line.endswith(":") and not is_field and _indent(following) > _indent(line):
            literal = _indent(line)
            shown[-1] += ":"
            shown.append("")
    lines[:] = shown


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def setup(app: Sphinx) -> None:
    """Sphinx calls this."""
    app.connect("builder-inited", _write_commands)
    app.connect("autodoc-process-docstring", _hide_colons, priority=400)  # napoleon's is 500
    app.connect("autodoc-process-docstring", _show_colons, priority=600)
    app.connect("autodoc-process-docstring", _plain_docstring, priority=700)
