"""The PyCUDA adapter as far as a machine without a GPU lets it: messages, codes, signatures."""

from __future__ import annotations

import ctypes
import importlib
import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from autosched.errors import MeasureError
from autosched.runtime.cuda import code_of, import_pycuda, open_driver

ROOT = Path(__file__).resolve().parents[2]


def fails(error: Exception) -> Any:
    def imported(name: str) -> ModuleType:
        raise error

    return imported


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (ModuleNotFoundError("x", name="pycuda"), "PyCUDA is not installed; .* docs/cuda.md"),
        (ModuleNotFoundError("x", name="numpy"), "PyCUDA needs numpy"),
        (ImportError("libcuda.so.1: cannot open shared object file"), "no CUDA driver .*lower"),
        (ImportError("undefined symbol: cuArrayCreate_v2"), "linked without the driver library"),
        (ImportError("libcurand.so.10: no such file"), "cannot be imported: libcurand"),
    ],
)
def test_why_pycuda_cannot_be_used(
    monkeypatch: pytest.MonkeyPatch, error: Exception, says: str
) -> None:
    monkeypatch.setattr(importlib, "import_module", fails(error))
    with pytest.raises(MeasureError, match=says) as caught:
        import_pycuda()
    assert caught.value.kind == "lost"


def test_without_a_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise OSError(f"{name}: cannot open shared object file: No such file or directory")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    with pytest.raises(MeasureError, match=r"no CUDA driver \(libcuda.so.1 not found\)"):
        open_driver()


def test_codes_are_found_by_the_drivers_texts() -> None:
    codes = {"an illegal memory access was encountered": 700, "out of memory": 2, "unknown": 999}
    assert (
        code_of("cuCtxSynchronize failed: an illegal memory access was encountered", codes) == 700
    )
    assert code_of("cuMemAlloc failed: out of memory - 5 of 6 bytes", codes) == 2
    assert code_of("cuX failed: something else", codes) == 0


def test_only_one_file_imports_pycuda() -> None:
    pattern = re.compile(r"^\s*(import|from) pycuda|[\"']pycuda\.", re.MULTILINE)
    found = {p.name for p in (ROOT / "autosched").rglob("*.py") if pattern.search(p.read_text())}
    assert found == {"cuda.py", "doctor_cuda.py"}  # doctor in a process of its own


def stand_in(folder: Path, pycuda: Path) -> Path:
    """A driver library with what `stand_in_driver.c` does, and all else that PyCUDA links to."""
    (extension,) = pycuda.glob("_driver*.so")
    source = (ROOT / "tests" / "kit" / "stand_in_driver.c").read_text()
    wanted = {
        name.decode() for name in re.findall(rb"\0(cu[A-Z]\w+)(?=\0)", extension.read_bytes())
    }
    wanted -= set(re.findall(r"^int (\w+)", source, re.MULTILINE))
    source += "".join(f"int {name}(void) {{ return 34; }}\n" for name in sorted(wanted))
    (folder / "driver.c").write_text(source)
    library = folder / "driver.so"
    options = ("-shared", "-fPIC", "-w", "-Wl,-soname,libcuda.so.1", "-o", str(library))
    subprocess.run(["gcc", *options, str(folder / "driver.c")], check=True)
    return library


def test_every_call_is_one_that_pycuda_takes(tmp_path: Path) -> None:
    """The adapter on PyCUDA itself, whose driver is a stand-in: names, arguments, error texts."""
    found = find_spec("pycuda")
    if found is None or found.origin is None:
        pytest.skip("PyCUDA is not installed: its own signatures are not compared with")
    if shutil.which("gcc") is None:
        pytest.skip("no gcc to make a stand-in for the driver's library")
    library = stand_in(tmp_path, Path(found.origin).parent)
    script = ROOT / "tests" / "kit" / "pycuda_calls.py"
    done = subprocess.run(
        [sys.executable, "-P", str(script), str(library)],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "done"
    assert done.stderr.splitlines() == [
        "launch autosched_add 1 1 1, 256 1 1, shared 0, 32 bytes",
        "set twice 8 65536",
        "launch autosched_gate 1 1 1, 1 1 1, shared 0, 8 bytes",
        "launch twice 3 2 1, 64 2 1, shared 65536, 16 bytes",
        "launch autosched_compare_float32 528 1 1, 256 1 1, shared 0, 48 bytes",
        "launch autosched_checksum 528 1 1, 256 1 1, shared 0, 24 bytes",
        "launch faulty 1 1 1, 1 1 1, shared 0, 0 bytes",
    ]
