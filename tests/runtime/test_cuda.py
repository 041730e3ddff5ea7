"""The PyCUDA adapter as far as a machine without a GPU lets it: messages, codes, signatures."""

from __future__ import annotations

import ctypes
import importlib
import re
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


def test_what_is_called_is_there() -> None:
    """Names and arguments against PyCUDA itself (Boost tells them in docstrings)."""
    driver = pytest.importorskip(
        "pycuda.driver", reason="PyCUDA is not installed, or finds no driver", exc_type=ImportError
    )
    for name in ("init", "Error", "mem_alloc", "get_driver_version"):
        assert hasattr(driver, name)
    arguments = {
        "pagelocked_empty": ("shape", "dtype", "mem_flags"),
        "memcpy_htod": ("dest", "src"),
        "memcpy_dtoh": ("dest", "src"),
        "memset_d8_async": ("dest", "data", "size"),
        "module_from_buffer": ("buffer",),
    }
    for name, names in arguments.items():
        assert all(f"){each}" in getattr(driver, name).__doc__ for each in names), name
    members = {
        "Device": ("name", "compute_capability", "total_memory", "retain_primary_context"),
        "Context": ("push",),
        "Function": ("prepare", "prepared_async_call", "get_attribute", "set_attribute"),
        "Module": ("get_function",),
        "Event": ("record", "synchronize", "time_since"),
        "HostAllocation": ("get_device_pointer",),
        "DeviceAllocation": ("free", "__int__"),
        "event_flags": ("BLOCKING_SYNC",),
        "host_alloc_flags": ("DEVICEMAP",),
        "function_attribute": (
            *("NUM_REGS", "LOCAL_SIZE_BYTES", "SHARED_SIZE_BYTES", "MAX_THREADS_PER_BLOCK"),
            "MAX_DYNAMIC_SHARED_SIZE_BYTES",
        ),
    }
    for kind, wanted in members.items():
        assert [m for m in wanted if not hasattr(getattr(driver, kind), m)] == [], kind
