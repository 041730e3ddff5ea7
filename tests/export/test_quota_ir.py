"""What a library takes for its container's quota is what autosched takes for it."""

import ctypes
from pathlib import Path

import pytest

from autosched.codegen.llvm_compile import compile_object
from autosched.control_groups import cpu_quota
from autosched.export.quota_ir import quota_ir
from autosched.runtime.native import load_object
from autosched.target import cpu_target

PROBE = """
declare i64 @strtol(ptr, ptr, i32)
define i64 @probe(i64 %threads) {
  %found = call i64 @lib.within_quota(i64 %threads)
  ret i64 %found
}
"""

V1 = "cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us"
CASES: list[tuple[dict[str, str], int]] = [
    ({}, 64),
    ({"cpu.max": "max 100000\n"}, 64),
    ({"cpu.max": "200000 100000\n"}, 2),
    ({"cpu.max": "350000 100000\n"}, 3),
    ({"cpu.max": "50000 100000\n"}, 1),
    ({"cpu.max": "123456789012 1000000\n"}, 64),
    ({"cpu.max": ""}, 64),
    ({"cpu.max": "300000"}, 64),
    ({"cpu.max": "0 0\n"}, 64),
    ({"cpu.max": "three 100000\n"}, 64),
    ({"cpu.max": f"{'9' * 70} 100000\n"}, 64),
    (dict(zip(V1, ("-1\n", "100000\n"), strict=True)), 64),
    (dict(zip(V1, ("400000\n", "100000\n"), strict=True)), 4),
    (dict(zip(V1, ("20000\n", "100000\n"), strict=True)), 1),
    ({V1[0]: "400000\n"}, 64),
]
"""Files of a container's group, and how many of 64 threads there shall be."""


@pytest.mark.parametrize(("files", "of_64"), CASES, ids=str)
def test_as_autosched_itself(files: dict[str, str], of_64: int, tmp_path: Path) -> None:
    mount, groups = tmp_path / "cgroup", tmp_path / "groups"
    groups.write_text("1:cpu,cpuacct:/\n0::/\n")
    for name, text in files.items():
        (mount / name).parent.mkdir(parents=True, exist_ok=True)
        (mount / name).write_text(text)
    code = compile_object(quota_ir(mount) + PROBE, cpu_target(1), "light")
    library = load_object(code, ["probe"])
    probe = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64)(library.addresses["probe"])
    assert probe(64) == of_64
    quota = cpu_quota(groups, mount)
    for threads in (1, 2, 3, 64):
        assert probe(threads) == max(1, int(min(threads, quota)))
