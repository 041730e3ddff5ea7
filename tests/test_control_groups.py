"""What control groups let this process have: folders as Linux makes them."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from autosched.control_groups import GroupMemory, cpu_quota, group_memory


def write(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text + "\n")


def quota(root: Path, groups: str) -> float:
    (root / "groups").write_text(groups)
    return cpu_quota(root / "groups", root)


def test_the_limit_of_the_second_version(tmp_path: Path) -> None:
    write(tmp_path, cpu__max="250000 100000")
    assert quota(tmp_path, "0::/\n") == 2.5
    write(tmp_path, cpu__max="max 100000")
    assert quota(tmp_path, "0::/ \n") == math.inf


def test_the_smallest_limit_of_all_groups_around_counts(tmp_path: Path) -> None:
    write(tmp_path / "pods" / "own", cpu__max="400000 100000")
    write(tmp_path / "pods", cpu__max="300000 100000")
    write(tmp_path, cpu__max="max 100000")
    assert quota(tmp_path, "0::/pods/own\n") == 3
    assert quota(tmp_path, "0::/pods\n") == 3
    assert quota(tmp_path, "0::/other\n") == math.inf


def test_a_container_that_sees_its_own_group_as_the_root(tmp_path: Path) -> None:
    """Its path is that of the host, where nothing is in here."""
    write(tmp_path, cpu__max="150000 100000")
    assert quota(tmp_path, "0::/docker/0123\n") == 1.5


@pytest.mark.parametrize("folder", ["cpu", "cpu,cpuacct"])
def test_the_limit_of_the_first_version(tmp_path: Path, folder: str) -> None:
    write(tmp_path / folder / "a", cpu__cfs_quota_us="50000", cpu__cfs_period_us="100000")
    write(tmp_path / folder, cpu__cfs_quota_us="-1", cpu__cfs_period_us="100000")
    groups = f"9:memory:/a\n3:{folder}:/a\n0::/\n"
    assert quota(tmp_path, groups) == 0.5
    assert quota(tmp_path, groups.replace(":/a", ":/")) == math.inf


@pytest.mark.parametrize("text", ["", "max", "1 2 3", "one 100000", "100000 0", "-5 100000"])
def test_what_cannot_be_read_is_no_limit(tmp_path: Path, text: str) -> None:
    write(tmp_path, cpu__max=text)
    assert quota(tmp_path, "0::/\n") == math.inf
    assert cpu_quota(tmp_path / "none", tmp_path) == math.inf


@pytest.mark.parametrize("line", ["", "0", "0:cpu", "cpu /a", ":::", "\xff"])
def test_groups_that_cannot_be_read_are_no_limit(tmp_path: Path, line: str) -> None:
    (tmp_path / "groups").write_bytes(line.encode("latin-1") + b"\n")
    assert cpu_quota(tmp_path / "groups", tmp_path) == math.inf
    assert group_memory(tmp_path / "groups", tmp_path) == []


def memory(root: Path, groups: str) -> list[GroupMemory]:
    (root / "groups").write_text(groups)
    return group_memory(root / "groups", root)


def test_the_memory_of_groups_of_the_second_version(tmp_path: Path) -> None:
    write(tmp_path / "job" / "step", memory__max="max", memory__current="700")
    stat = "anon 500\ninactive_file 300\nactive_file 20"
    write(tmp_path / "job", memory__max="9000", memory__current="1000", memory__stat=stat)
    assert memory(tmp_path, "0::/job/step\n") == [(9000, 700)]
    write(tmp_path / "job" / "step", memory__max="4000")
    assert memory(tmp_path, "0::/job/step\n") == [(4000, 700), (9000, 700)]
    write(tmp_path, memory__max="8000", memory__current="1", memory__stat="inactive_file\n")
    assert memory(tmp_path, "0::/elsewhere\n") == [(8000, 1)]


def test_the_memory_of_groups_of_the_first_version(tmp_path: Path) -> None:
    stat = "inactive_file 1\ntotal_inactive_file 50\n"
    files = {"memory__limit_in_bytes": "5000", "memory__usage_in_bytes": "60"}
    write(tmp_path / "memory" / "a", **files, memory__stat=stat)
    assert memory(tmp_path, "4:memory:/a\n2:cpu:/b\n0::/\n") == [(5000, 10)]
    assert memory(tmp_path, "2:cpu:/a\n") == []
