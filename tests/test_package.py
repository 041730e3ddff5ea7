"""The package as it is installed: one import name, and modules of the user's beside it."""

import os
import re
import subprocess
import sys
from pathlib import Path

import autosched

ROOT = Path(__file__).parents[1]
HOSTILE = "raise SystemExit('a file of the user was run as a module of ours')\n"
NAMES = ("features", "measure", "search", "random", "json", "worker")


def hostile(folder: Path) -> Path:
    for name in NAMES:
        (folder / f"{name}.py").write_text(HOSTILE)
    (folder / "search").mkdir()
    (folder / "search" / "__init__.py").write_text(HOSTILE)
    return folder


def run(folder: Path, *words: str) -> str:
    environment = {**os.environ, "PYTHONPATH": str(Path(autosched.__file__).parents[1])}
    done = subprocess.run(
        [sys.executable, *words], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr + done.stdout
    return done.stdout


def test_modules_of_the_user_are_never_run(tmp_path: Path) -> None:
    """The tuner's process, its builders, its runner and its feature helper all start."""
    folder = hostile(tmp_path)
    config = folder / "small.yaml"
    config.write_text("workload: {op: matmul, args: {M: 16, N: 16, K: 16}}\n")
    shown = run(folder, "-m", "autosched", "tune", "small.yaml", "--trials", "2")
    assert "(2 valid)" in shown


def test_import_beside_modules_of_the_user(tmp_path: Path) -> None:
    for name in ("features", "measure", "search"):
        (tmp_path / f"{name}.py").write_text(HOSTILE)
    code = "import autosched, autosched.search, autosched.measure, autosched.features; autosched.te"
    assert run(tmp_path, "-c", code) == ""


def test_importing_loads_no_extra() -> None:
    code = (
        "import autosched, autosched.cli.app, sys; "
        "print({'plotly', 'jinja2', 'pandas', 'torch', 'ray'}.intersection(sys.modules))"
    )
    assert run(Path.cwd(), "-c", code) == "set()\n"


def test_a_source_distribution_has_what_the_readme_reads(tmp_path: Path) -> None:
    """It had the tests without what they import, and no configurations."""
    command = [*(sys.executable, "-W", "error", "-c", "from setuptools import setup; setup()")]
    done = subprocess.run(
        [*command, "--quiet", "egg_info", "--egg-base", tmp_path],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    files = set((tmp_path / "autosched.egg-info" / "SOURCES.txt").read_text().splitlines())
    assert not [name for name in files if name.startswith(("tests", "benchmarks"))]
    wanted = [*(ROOT / "configs").glob("*"), *(ROOT / "docs").rglob("*.md")]
    wanted += [*ROOT.glob("autosched/**/*.ubj.gz"), *ROOT.glob("autosched/report/templates/*")]
    wanted += [*ROOT.glob("autosched/**/*.py"), ROOT / "search" / "tuner.py"]
    names = [str(path.relative_to(ROOT)) for path in wanted]
    assert {re.sub(r"^(features|measure|search)/", r"autosched/\1/", n) for n in names} <= files
    readme = (ROOT / "README.md").read_text()
    assert set(re.findall(r"\b(?:configs|docs)/[\w/]+\.\w+", readme)) <= files
    assert {"autosched/py.typed", "LICENSE", "CHANGELOG.md"} <= files


def test_every_public_name_exists() -> None:
    for name in autosched.__all__:
        assert getattr(autosched, name) is not None
    assert set(autosched.__all__) <= set(dir(autosched))


def test_without_pytorch_its_module_says_what_is_missing(tmp_path: Path) -> None:
    code = """
import sys
sys.modules["torch"] = None
import autosched
try:
    autosched.torch
except ImportError as error:
    assert "autosched.torch needs PyTorch" in str(error), error
    assert str(error).endswith("pip install 'autosched[torch]'"), error
else:
    raise AssertionError
"""
    assert run(tmp_path, "-c", code) == ""
