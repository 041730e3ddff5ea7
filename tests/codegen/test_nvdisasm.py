"""Finding nvdisasm on folder trees, and what is said when it fails."""

from __future__ import annotations

from pathlib import Path

import pytest

from autosched.codegen.nvdisasm import disassemble, find_nvdisasm
from autosched.errors import CompileError


def program(folder: Path, text: str = "exit 0") -> Path:
    folder.mkdir(parents=True)
    path = folder / "nvdisasm"
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


def test_wheels_come_before_toolkits_and_those_before_path(tmp_path: Path) -> None:
    plain = program(tmp_path / "bin")
    environ = {"PATH": str(plain.parent), "CUDA_HOME": str(tmp_path / "cuda")}
    packages = [tmp_path / "nvidia"]
    assert find_nvdisasm(environ, packages) == str(plain)
    toolkit = program(tmp_path / "cuda" / "bin")
    assert find_nvdisasm(environ, packages) == str(toolkit)
    wheel = program(tmp_path / "nvidia" / "cu13" / "bin")
    assert find_nvdisasm(environ, packages) == str(wheel)
    newer = program(tmp_path / "nvidia" / "cu14" / "bin")
    assert find_nvdisasm(environ, packages) == str(newer)


def test_what_cannot_be_run_is_not_found(tmp_path: Path) -> None:
    program(tmp_path / "bin").chmod(0o644)
    assert find_nvdisasm({"PATH": str(tmp_path / "bin")}, []) is None
    assert find_nvdisasm({}, [tmp_path]) is None


def test_its_failure_is_told_without_names_of_our_files(tmp_path: Path) -> None:
    path = program(tmp_path / "bin", 'echo "nvdisasm fatal: $3: unknown ELF" >&2; exit 1')
    with pytest.raises(CompileError, match=r"status 1: nvdisasm fatal: kernel\.cubin: unknown ELF"):
        disassemble(str(path), b"")
    with pytest.raises(CompileError, match="nowhere"):
        disassemble("/nowhere/nvdisasm", b"")
