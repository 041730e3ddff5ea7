"""What sources and documentation cite is in the repository."""

import re
import runpy
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = (
    "autosched",
    "features",
    "measure",
    "search",
    "tests",
    "benchmarks",
    "examples",
    "docs",
    "configs",
)
PATH = re.compile(rf"(?<![\w./-])((?:{'|'.join(FOLDERS)})/[\w./-]*\.(?:py|md|yaml|npz|json))\b")
SPECIFICATION = re.compile(
    r"\(spec |\bspec/|\b(?:te_bounds|per_store_features|interface)(?:\.md| \d)"
)


MADE_UP = {Path(__file__).name, "test_mutants.py"}  # these name files that do not exist


def files(folder: str) -> Iterator[Path]:
    """Documents and sources of a folder; of the root itself those that lie there."""
    found = (ROOT / folder).rglob("*") if folder else ROOT.iterdir()
    for path in sorted(found):
        if path.suffix in (".md", ".py") and path.name not in MADE_UP:
            yield path


@pytest.mark.parametrize("folder", ["", *FOLDERS])
def test_what_is_cited_exists(folder: str) -> None:
    for path in files(folder):
        text = path.read_text(encoding="utf-8")
        cited = {name for name in PATH.findall(text) if "NAME" not in name}
        assert not [name for name in cited if not (ROOT / name).exists()], path
        assert SPECIFICATION.search(text) is None, path


def test_no_two_sections_of_a_page_have_one_title() -> None:
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
        titles = re.findall(r"^## .*$", text, re.MULTILINE)
        assert len(titles) == len(set(titles)), page


def test_links_lead_somewhere() -> None:
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        for link in re.findall(r"\]\(([^)#:\s]+)(?:#[\w-]+)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / link).exists(), f"{page}: {link}"


def test_help_of_a_benchmark_keeps_the_lines_of_its_docstring() -> None:
    """Its commands among them: argparse joins lines unless it is told not to."""
    for path in (ROOT / "benchmarks").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        assert not re.findall(r"ArgumentParser\(\s*description=(?:__doc__|description)\)", text), (
            path
        )


def test_an_attributes_first_line_may_have_a_colon() -> None:
    """Napoleon, which reads the docstrings for the site, would take what precedes it for a type."""
    napoleon: Any = pytest.importorskip("sphinx.ext.napoleon")
    handlers: list[tuple[int, Callable[..., None]]] = [(500, napoleon._process_docstring)]

    def connect(event: str, handler: Callable[..., None], priority: int = 500) -> None:
        if event == "autodoc-process-docstring":
            handlers.append((priority, handler))

    app = SimpleNamespace(connect=connect, config=napoleon.Config(napoleon_numpy_docstring=False))
    runpy.run_path(str(ROOT / "docs" / "conf.py"))["setup"](app)
    lines = ["Seconds per call: the lower quartile.", ""]
    for _, handler in sorted(handlers, key=lambda each: each[0]):
        handler(app, "property", "Tuned.seconds", None, None, lines)
    assert lines[0] == "Seconds per call: the lower quartile."
    assert not [line for line in lines if ":type:" in line]
