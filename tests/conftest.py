"""What all tests share."""

from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from kit.forks import copies
from kit.golden import Golden
from kit.passes import SOURCE

settings.register_profile("fixed", derandomize=True, deadline=None)  # no other draws elsewhere
settings.load_profile("fixed")

# As many tests run at once as there are cores: threads of libraries would only wait for each other.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

# Where TERM is set, readline, which pytest imports, gives xdist's workers the width of a terminal
# that they do not have: what they print would be wrapped there and nowhere else.
for _name in ("COLUMNS", "LINES"):
    os.environ.pop(_name, None)

# Hundreds of tests start processes that import the package: none is to compile all of it anew.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="write golden files anew instead of comparing"
    )


def pytest_collection_finish() -> None:
    """Ten thousand collected tests need not be looked through for garbage again and again.

    What a test makes is freed without that: looking rarely takes 10 % off the time of lowering.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Neighbours run in one process, which has in memory what they share; who is done takes over.

    xdist's own way deals out tests in turns: what a file keeps was worked out in every process.
    """
    from xdist.scheduler import WorkStealingScheduling

    chosen = config.getoption("dist") != "load"  # not the one that -n stands for
    return None if chosen else WorkStealingScheduling(config, log)


@pytest.fixture(scope="session", autouse=True)
def copied_processes() -> Iterator[None]:
    """Workers that tests start here have their imports done."""
    with copies():
        yield


@pytest.fixture
def compiled_anew() -> Iterator[None]:
    """Nothing that others compiled with torch.compile is found again."""
    import torch

    torch.compiler.reset()
    yield
    torch.compiler.reset()


@pytest.fixture
def interruptible() -> Iterator[None]:
    """SIGINT is heeded, also by tests in the background of a shell, which starts them without."""
    earlier = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, earlier)


@pytest.fixture
def update_golden(request: pytest.FixtureRequest) -> bool:
    """Whether golden files are to be written."""
    return bool(request.config.getoption("--update-golden"))


@pytest.fixture
def golden(update_golden: bool) -> Golden:
    """golden.check(name, text) compares with tests/golden/name; see --update-golden."""
    return Golden(update_golden)


@pytest.fixture
def passes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The file my_passes.py of `kit/passes.py` in an empty folder, which is the current one."""
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "my_passes.py"
    path.write_text(SOURCE)
    return path
