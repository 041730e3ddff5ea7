"""Every example of the documentation and of the docstrings runs; nothing is measured."""

import doctest
import importlib.util
import re
import shlex
import sys
from collections.abc import Callable
from functools import cache, cached_property, partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import typer
from ruamel.yaml import YAML

import autosched
from autosched.cli.app import app
from autosched.cli.read_config import load_config
from autosched.search.options import SearchOptions
from autosched.session import session
from kit.documents import examples
from kit.helper import StubHelper, remember_features, train_briefly
from kit.measurer import StubMeasurer

ROOT = Path(__file__).resolve().parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
PACKAGES = {"autosched": ROOT / "autosched"} | {
    f"autosched.{name}": ROOT / name for name in ("features", "measure", "search")
}
WITH_EXAMPLES = sorted(
    ".".join((package, *path.relative_to(folder).with_suffix("").parts))
    for package, folder in PACKAGES.items()
    for path in folder.rglob("*.py")
    if ">>> " in path.read_text(encoding="utf-8")
    and not (package == "autosched" and path.relative_to(folder).parts[0] in PACKAGES)
)


SEARCH = SearchOptions(evolutionary_search_population=16, evolutionary_search_num_iters=1)


def _few(function: Callable[..., Any], *args: Any, **options: Any) -> Any:
    return function(*args, **{**options, "trials": 4})


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder of one's own, in which tuning takes few trials and measures nothing."""
    monkeypatch.setattr(session, "Measurer", StubMeasurer())
    monkeypatch.setattr(session, "Helper", StubHelper)
    train_briefly(monkeypatch)
    remember_features(monkeypatch)
    for name, more in (("tune", {"search": SEARCH}), ("kernel", {})):
        few = partial(_few, getattr(autosched, name), **more)
        monkeypatch.setattr(autosched, name, few, raising=False)
    monkeypatch.setenv("AUTOSCHED_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_docstrings(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = importlib.import_module(name)
    monkeypatch.setattr(module, "__test__", of_cached_properties(module), raising=False)
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    result = doctest.testmod(module, optionflags=flags)
    assert result.attempted and not result.failed


def of_cached_properties(module: ModuleType) -> dict[str, str]:
    """The docstrings that doctest does not look at, by their names."""
    return {
        f"{owner.__name__}.{name}": value.__doc__ or ""
        for owner in vars(module).values()
        if isinstance(owner, type) and owner.__module__ == module.__name__
        for name, value in vars(owner).items()
        if isinstance(value, cached_property)
    }


def run(page: Path) -> dict[str, Any]:
    """The names that a page's programs leave behind, run one after the other."""
    names: dict[str, Any] = {"__name__": "page"}
    for example in examples(page):
        if "file" in example.remarks:
            Path(example.remarks["file"]).write_text(example.text)
        needed = example.remarks.get("needs")
        missing = needed is not None and importlib.util.find_spec(needed) is None
        if example.language == "python" and "not run" not in example.remarks and not missing:
            for line, text in (
                (1, example.remarks.get("before", "")),
                (example.line, example.text),
            ):
                text = re.sub(r"\b512\b", "16", re.sub(r"\b256\b", "8", text))
                exec(compile("\n" * (line - 1) + text, str(page), "exec"), names)
    return names


@cache
def saved_files() -> dict[str, str]:
    """The files that pages have their readers save, by name."""
    every = [example for page in PAGES for example in examples(page)]
    return {e.remarks["file"]: e.text for e in every if "file" in e.remarks}


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_pages(
    page: Path,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.syspath_prepend(str(folder))  # for the files that the page has its reader save
    names = run(page)
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", "")).startswith(str(folder)):
            del sys.modules[name]
    if page.name == "python.md":
        np.testing.assert_allclose(names["c"], 16.0)
        assert len(names["kernels"]) == 2 and len(names["candidates"]) == 64
    if page.name == "host.md":
        np.testing.assert_array_equal(names["y"], names["x"] * 2)
        assert f"    # {names['message']}\n" in page.read_text()
        assert capsys.readouterr().out == "1 of 3\n2 of 3\n3 of 3\n" and names["total"] == 3.0


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_commands_and_configurations(page: Path, folder: Path) -> None:
    command = typer.main.get_command(app)
    for name, text in saved_files().items():  # pages name what another one has its reader save
        Path(name).write_text(text)
    for example in examples(page):
        if "file" in example.remarks:
            Path(example.remarks["file"]).write_text(example.text)
        if example.language == "yaml":
            part = YAML(typ="safe").load(example.text) or {}
            whole = {"workload": {"op": "matmul", "args": {"M": 8, "N": 8, "K": 8}}, **part}
            YAML().dump(whole, Path("part.yaml"))
            assert load_config(Path("part.yaml")).workload
        if example.language in ("", "sh"):
            for line in re.findall(r"^autosched .*", example.text, flags=re.M):
                words = shlex.split(line, comments=True)
                with command.make_context("autosched", words[1:]) as context:
                    assert context.command is command
