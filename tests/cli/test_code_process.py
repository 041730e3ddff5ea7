"""`show --as llvm|asm`: what makes LLVM hang or die costs a message."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from autosched.cli import code_process
from autosched.process.worker import Handler
from kit.cli import Cli


def make_hanging() -> Handler:
    return lambda _: threading.Event().wait()


def make_dying() -> Handler:
    return lambda _: os.kill(os.getpid(), signal.SIGSEGV)


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """No process is kept from one test for the next, nor from those of another file."""
    end()
    yield
    end()


def end() -> None:
    if code_process._process.cache_info().currsize:
        code_process._process().stop()
        code_process._process.cache_clear()


@pytest.mark.parametrize(
    ("factory", "said"),
    [
        ("make_dying", "the process died with signal 11"),
        ("make_hanging", "no answer within 0.5 s; the process was ended"),
    ],
)
@pytest.mark.parametrize("form", ["llvm", "asm"])
def test_it_hangs_or_dies(
    cli: Cli, log: Path, monkeypatch: pytest.MonkeyPatch, factory: str, said: str, form: str
) -> None:
    monkeypatch.setattr(code_process, "FACTORY", f"test_code_process:{factory}")
    monkeypatch.setattr(code_process, "SECONDS", 0.5 if factory == "make_hanging" else 300.0)
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    done = cli("show", log, "--as", form)
    assert (done.status, done.out) == (3, "")
    assert said in done.err


def test_what_is_whole_is_printed(cli: Cli, log: Path) -> None:
    texts: Any = {form: cli("show", log, "--as", form).out for form in ("llvm", "asm")}
    assert "define" in texts["llvm"] and "ret" in texts["asm"]
