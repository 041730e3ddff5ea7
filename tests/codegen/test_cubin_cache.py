"""The folder of cubins: what is in a key, files that are damaged, its bound, several processes."""

from __future__ import annotations

import multiprocessing
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from autosched.codegen.cubin_cache import CubinCache, cache_key
from autosched.codegen.nvrtc import Compiled, load_nvrtc
from autosched.errors import CompileError

SOURCE = 'extern "C" __global__ void k(float* a) { a[threadIdx.x] = 1.0f; }\n'


def entry(size: int, log: str = "") -> Compiled:
    return Compiled(bytes(size), log, {}, 0.5, "sm_80")


def test_a_second_compile_comes_from_the_folder(tmp_path: Path) -> None:
    nvrtc, cache = load_nvrtc("sm_80"), CubinCache(tmp_path)
    first = cache.compile(nvrtc, SOURCE, "sm_80")
    second = cache.compile(nvrtc, SOURCE, "sm_80")
    assert first.seconds > 0
    assert second.seconds == 0
    assert (second.cubin, second.log, second.arch) == (first.cubin, first.log, first.arch)
    assert second.resources == first.resources != {}
    assert cache.compile(nvrtc, SOURCE, "sm_90").cubin != first.cubin
    assert len(list(tmp_path.iterdir())) == 2


def test_failures_are_not_kept(tmp_path: Path) -> None:
    nvrtc, cache = load_nvrtc("sm_80"), CubinCache(tmp_path)
    for arch, source in (("sm_80", "wrong"), ("sm_30", SOURCE)):
        with pytest.raises(CompileError):
            cache.compile(nvrtc, source, arch)
    assert list(tmp_path.iterdir()) == []


def test_everything_that_decides_a_cubin_is_in_the_key() -> None:
    keys = {
        cache_key("a", ("x",), "13.5-1"),
        cache_key("b", ("x",), "13.5-1"),
        cache_key("a", ("y",), "13.5-1"),
        cache_key("a", ("x", "y"), "13.5-1"),
        cache_key("a", ("x",), "13.5-2"),
        cache_key("a", (), "x13.5-1"),
    }
    assert len(keys) == 6


def _flipped(data: bytes, place: int) -> bytes:
    return data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :]


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: b"other file",
        lambda data: data[:-1],
        lambda data: data[:20],
        lambda data: _flipped(data, 44),  # in the length of the header
        lambda data: _flipped(data, 50),  # in the header
        lambda data: _flipped(data, len(data) - 1),  # in the code
    ],
)
def test_a_damaged_file_counts_as_missing(tmp_path: Path, damage: Callable[[bytes], bytes]) -> None:
    cache = CubinCache(tmp_path)
    cache.put("key", entry(100, "log"))
    (path,) = tmp_path.iterdir()
    path.write_bytes(damage(path.read_bytes()))
    assert cache.get("key") is None
    cache.put("key", entry(100, "log"))
    found = cache.get("key")
    assert found is not None
    assert (len(found.cubin), found.log) == (100, "log")


def test_what_was_not_used_for_longest_goes_first(tmp_path: Path) -> None:
    cache = CubinCache(tmp_path, max_bytes=3500)
    for n, key in enumerate("abc"):
        cache.put(key, entry(1000))
        os.utime(tmp_path / f"{key}.cubin", (n, n))
    assert cache.get("a") is not None  # which marks it as used
    cache.put("d", entry(1000))
    assert [key for key in "abcd" if cache.get(key) is not None] == ["a", "c", "d"]


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.touch()
    cache = CubinCache(blocked)
    cache.put("key", entry(10))
    assert cache.get("key") is None


def _put_many(folder: Path, seed: int) -> None:
    cache = CubinCache(folder, max_bytes=20_000)
    for n in range(40):
        cache.put(f"key{n % 7}", entry(1000, f"{seed}"))
        cache.get(f"key{(n + seed) % 7}")


def test_several_processes_share_the_folder(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_put_many, args=(tmp_path, seed)) for seed in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    assert not list(tmp_path.glob(".new-*"))
    cache = CubinCache(tmp_path)
    for n in range(7):
        found = cache.get(f"key{n}")
        assert found is not None
        assert (len(found.cubin), found.log in "012") == (1000, True)
