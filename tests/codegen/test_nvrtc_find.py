"""Finding NVRTC, on folder trees laid out as wheels and toolkits are."""

from __future__ import annotations

from pathlib import Path

import pytest

from autosched.codegen.nvrtc_find import SONAMES, builtins_beside, candidates, libraries


def put(folder: Path, *names: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).touch()
    return folder


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """The package `nvidia` with the wheels of CUDA 12 and 13."""
    root = tmp_path / "site-packages" / "nvidia"
    alternatives = ("libnvrtc.alt.so.12", "libnvrtc-builtins.alt.so.12.9")
    put(root / "cuda_nvrtc" / "lib", "libnvrtc.so.12", "libnvrtc-builtins.so.12.9", *alternatives)
    put(root / "cu13" / "lib", "libnvrtc.so.13", "libnvrtc-builtins.so.13.5")
    return root


def test_both_layouts_of_wheels_are_found(packages: Path) -> None:
    found = candidates({}, [packages])
    assert found == (
        str(packages / "cu13/lib/libnvrtc.so.13"),
        str(packages / "cuda_nvrtc/lib/libnvrtc.so.12"),
        *SONAMES,
    )


def test_a_given_file_is_the_only_one(packages: Path) -> None:
    assert candidates({"AUTOSCHED_NVRTC": "/x/libnvrtc.so"}, [packages]) == ("/x/libnvrtc.so",)


def test_wheels_come_before_toolkits_and_those_before_the_loaders_path(
    packages: Path, tmp_path: Path
) -> None:
    home, other = tmp_path / "cuda-12.4", tmp_path / "cuda-13.0"
    put(home / "lib64", "libnvrtc.so.12")
    put(other / "targets" / "x86_64-linux" / "lib", "libnvrtc.so.13")
    compiler = put(other / "bin", "nvcc") / "nvcc"
    compiler.chmod(0o755)
    environ = {"CUDA_HOME": str(home), "PATH": str(compiler.parent)}
    assert candidates(environ, [packages])[2:] == (
        str(home / "lib64/libnvrtc.so.12"),
        str(other / "targets/x86_64-linux/lib/libnvrtc.so.13"),
        *SONAMES,
    )


def test_a_file_that_is_reached_twice_is_listed_once(tmp_path: Path) -> None:
    home = tmp_path / "cuda"
    put(home / "targets" / "x86_64-linux" / "lib", "libnvrtc.so.13")
    (home / "lib64").symlink_to(home / "targets" / "x86_64-linux" / "lib")
    environ = {"CUDA_HOME": str(home), "CUDA_PATH": str(home)}
    assert candidates(environ, []) == (str(home / "lib64/libnvrtc.so.13"), *SONAMES)


def test_without_anything_the_loader_is_asked() -> None:
    assert candidates({"CUDA_HOME": "/nowhere"}, [Path("/nowhere/nvidia")]) == SONAMES


def test_newer_names_come_first_and_links_of_full_versions_are_left_out(tmp_path: Path) -> None:
    put(tmp_path, "libnvrtc.so.12", "libnvrtc.so.13", "libnvrtc.so.13.0.48", "libnvrtc.so")
    assert [path.name for path in libraries(tmp_path)] == ["libnvrtc.so.13", "libnvrtc.so.12"]


def test_the_builtins_of_the_same_folder(packages: Path) -> None:
    (found,) = builtins_beside(packages / "cuda_nvrtc/lib/libnvrtc.so.12")
    assert found.name == "libnvrtc-builtins.so.12.9"
    assert builtins_beside(Path("libnvrtc.so.13")) == []
