"""What sources and documentation cite is in the repository."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = ("autosched", "features", "measure", "search", "tests", "benchmarks", "docs", "configs")
PATH = re.compile(rf"(?<![\w./-])((?:{'|'.join(FOLDERS)})/[\w./-]*\.(?:py|md|yaml|npz|json))\b")
SPECIFICATION = re.compile(
    r"\(spec |\bspec/|\b(?:te_bounds|per_store_features|interface)(?:\.md| \d)"
)


def documents() -> Iterator[Path]:
    yield from sorted(ROOT.glob("*.md"))
    yield from sorted((ROOT / "docs").rglob("*.md"))


MADE_UP = {Path(__file__).name, "test_mutants.py"}  # these name files that do not exist


def sources() -> Iterator[Path]:
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.py")):
            if path.name not in MADE_UP:
                yield path


@pytest.mark.parametrize("path", [*documents(), *sources()], ids=lambda p: str(p.relative_to(ROOT)))
def test_what_is_cited_exists(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    missing = [
        cited for cited in PATH.findall(text) if "NAME" not in cited and not (ROOT / cited).exists()
    ]
    assert not missing
    assert SPECIFICATION.search(text) is None
