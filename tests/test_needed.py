"""Packages that are missing or broken are named, with what to do."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from autosched.errors import ConfigError
from autosched.needed import as_if_missing, needed, needed_for
from autosched.search.cost_model import XGBoostModel

BROKEN = {
    "raise ImportError('libgomp.so.1: cannot open')": "ImportError: libgomp.so.1: cannot open",
    "raise OSError('bad')": "OSError: bad",
    "None.x": "AttributeError: 'NoneType' object has no attribute 'x'",
    "import not_there": "ModuleNotFoundError: No module named 'not_there'",
}


@pytest.mark.parametrize("line", BROKEN)
def test_a_broken_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    (tmp_path / "brittle.py").write_text(line)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(ConfigError) as refused:
        needed("brittle", "install it anew")
    found = BROKEN[line]
    assert str(refused.value) == (
        f"brittle is installed and cannot be imported ({found}); install it anew"
    )


def test_a_missing_package() -> None:
    with pytest.raises(ConfigError, match=r"^not_there is not installed; install it$"):
        needed("not_there", "install it")


def test_what_needs_it_and_how_it_is_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broken one is there already for pip."""
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "brittle.py").write_text("None.x")
    for name, message in (
        ("not_there.part", "not_there is not installed; a plot needs it: pip install 'us[more]'"),
        (
            "brittle.part",
            r"^brittle is .*; a plot needs it: pip install --force-reinstall brittle$",
        ),
    ):
        with pytest.raises(ConfigError, match=message.replace("[", r"\[")):
            needed_for("a plot", name, "us[more]")


def test_one_that_is_there() -> None:
    assert needed("numpy", "") is np


def test_one_that_is_as_if_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "guest.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "guest", raising=False)
    with as_if_missing("guest"), pytest.raises(ConfigError, match="guest is not installed"):
        needed("guest", "install it")
    guest = needed("guest", "install it")
    with as_if_missing("guest"):
        assert needed("guest", "") is guest


def test_a_model_says_that_xgboost_is_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was a traceback, and another one of the thread that imports ahead."""
    (tmp_path / "xgboost.py").write_text("raise OSError('bad')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "xgboost", raising=False)
    model = XGBoostModel()
    model.prepare()
    with pytest.raises(ConfigError, match=r"^xgboost is .* \(OSError: bad\); .*doctor says more$"):
        model.fit([np.zeros((1, 4), np.float32)], [1.0])


def test_a_python_without_docstrings(tmp_path: Path) -> None:
    """XGBoost joins docstrings while it is imported: installing it anew does not help."""
    (tmp_path / "joined.py").write_text('"""Text."""\n__doc__.strip()\n')
    code = (
        "from autosched.errors import ConfigError\nfrom autosched.needed import needed\n"
        "try: needed('joined', 'install it')\nexcept ConfigError as error: print(error)"
    )
    environment = {**os.environ, "PYTHONPATH": f"{tmp_path}:{Path(__file__).parents[1]}"}
    says = subprocess.run(
        [sys.executable, "-OO", "-B", "-c", code], env=environment, capture_output=True, text=True
    )
    assert says.stdout.startswith("joined is installed and cannot be imported (AttributeError:")
    assert says.stdout.endswith("PYTHONOPTIMIZE=2; where that does not help, install it\n")


@pytest.mark.parametrize(
    "line", ["raise OSError('bad')", "raise ImportError('\\n\\nlong') from OSError('bad')"]
)
@pytest.mark.parametrize("package", ["llvmlite", "numpy", "rich"])
def test_the_command_line_names_a_required_package_that_is_broken(
    tmp_path: Path, package: str, line: str
) -> None:
    (tmp_path / f"{package}.py").write_text(line)
    done = command_with(tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        f"error: {package} is installed and cannot be imported (OSError: bad); "
        f"pip install --force-reinstall {package}\n"
    )


def test_the_command_line_names_a_required_package_that_is_missing(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import sys; sys.modules['numpy'] = None")
    done = command_with(tmp_path)
    assert done.returncode == 2
    assert done.stderr == "error: numpy is not installed; pip install numpy\n"


def command_with(folder: Path) -> subprocess.CompletedProcess[str]:
    """`autosched tune` with the modules of a folder before all others."""
    root = Path(__file__).parents[1]
    return subprocess.run(
        [sys.executable, "-m", "autosched", "tune", "matmul", "M=8", "N=8", "K=8", "--dry-run"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": f"{folder}{os.pathsep}{root}"},
        capture_output=True,
        text=True,
    )
