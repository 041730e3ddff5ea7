"""The worker pool: resizing, waking, calls from several threads, forks; workspace memory."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from autosched.errors import MeasureError
from autosched.runtime import native, parallel
from autosched.runtime.cpu import CpuArtifact, CpuKernel, build_artifact, load
from autosched.runtime.parallel import WorkerPool, default_threads, ensure_pool
from autosched.target import cpu_target
from autosched.tir.buffer import decl_buffer
from autosched.tir.expr import BufferLoad, IntImm, Var, pointer
from autosched.tir.function import PrimFunc
from autosched.tir.stmt import BufferStore, For, ForKind


@pytest.fixture(scope="module")
def artifact() -> CpuArtifact:
    """out[i] = a[i] * factor for i < n, in parallel."""
    n, factor, i = Var("n"), Var("factor", "float32"), Var("i")
    a, out = decl_buffer((n,), "float32", "a"), decl_buffer((n,), "float32", "out")
    first, last = pointer("a_handle", a.dtype), pointer("out_handle", out.dtype)
    store = BufferStore(out, BufferLoad(a, (i,)) * factor, (i,))
    func = PrimFunc(
        (first, factor, last),
        For(i, IntImm(0), n, ForKind.PARALLEL, store),
        {first: a, last: out},
        {"global_symbol": "scale"},
    )
    return build_artifact(func, cpu_target(2))


@pytest.fixture(scope="module")
def kernel(artifact: CpuArtifact) -> CpuKernel:
    return load(artifact)


def test_the_pool_can_be_resized_and_restarted(kernel: CpuKernel) -> None:
    a, out = np.arange(1000, dtype=np.float32), np.zeros(1000, np.float32)
    pool = ensure_pool()
    bound = kernel.bind(a, 2.0, out)
    for size, calls in ((3, 200), (1, 200), (4, 200), (2, 200), (65, 3), (130, 3), (2, 200)):
        pool.resize(size)
        assert pool.size == size
        out[:] = 0
        for _ in range(calls):
            bound.run()
        np.testing.assert_array_equal(out, a * 2)
    pool.shutdown()
    assert pool.size == 1
    bound.run()
    with pytest.raises(ValueError, match="at least 1 thread"):
        pool.resize(0)
    ensure_pool(2)


def test_threads_that_cannot_be_started_are_an_error_in_words(
    kernel: CpuKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    a, out = np.arange(1000, dtype=np.float32), np.zeros(1000, np.float32)
    pool = ensure_pool(1)
    start = threading.Thread.start

    def none_beyond_two(thread: threading.Thread) -> None:
        if thread.name == "autosched-3":
            raise RuntimeError("can't start new thread")
        start(thread)

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", none_beyond_two)
        with pytest.raises(
            MeasureError, match=r"4 threads .* \(can't start new thread\); see what"
        ):
            pool.resize(4)
        assert pool.size == 1
        assert not [t for t in threading.enumerate() if t.name.startswith("autosched-")]
        kernel(a, 2.0, out)
        np.testing.assert_array_equal(out, 2 * a)
    pool.resize(4)
    kernel(a, 3.0, out)
    np.testing.assert_array_equal(out, 3 * a)


def test_sleeping_workers_wake(kernel: CpuKernel) -> None:
    a, out = np.arange(4096, dtype=np.float32), np.zeros(4096, np.float32)
    bound = kernel.bind(a, 2.0, out)
    for _ in range(20):
        time.sleep(0.002)  # long past the spinning of a worker
        out[:] = 0
        bound.run()
        np.testing.assert_array_equal(out, a * 2)


def test_kernels_called_from_several_threads(kernel: CpuKernel) -> None:
    failures = []

    def work(seed: int) -> None:
        a, out = np.full(5000, seed, np.float32), np.zeros(5000, np.float32)
        bound = kernel.bind(a, 2.0, out)
        for _ in range(100):
            out[:] = 0
            bound.run()
            if not (out == 2 * seed).all():
                failures.append(seed)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def _assert_fine(script: str, given: bytes = b"") -> None:
    """A program, given that on its standard input, says that all is fine."""
    root = Path(native.__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script],
        input=given,
        capture_output=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    assert done.stdout.decode().strip() == "fine", done.stderr.decode()


UPWARD, NEAREST = 0x800, 0  # FE_UPWARD and FE_TONEAREST of x86


@pytest.mark.skipif(
    sys.platform != "linux" or native.processor() != "x86_64", reason="libm.so.6, numbers of x86"
)
def test_workers_round_as_the_thread_that_launches_the_loop(kernel: CpuKernel) -> None:
    """They rounded for ever as the thread did that had started them."""
    fesetround = ctypes.CDLL("libm.so.6").fesetround
    factor, pool = np.float32(0.1), ensure_pool(2)
    a = np.random.default_rng(0).random(1 << 18, np.float32)
    out, nearest = np.empty_like(a), a * factor
    bound = kernel.bind(a, factor, out)
    pool.shutdown()
    for mode in (UPWARD, NEAREST, UPWARD):
        try:
            fesetround(mode)
            pool.resize(2)
            for _ in range(20):
                bound.run()
        finally:
            fesetround(NEAREST)
        exact = a.astype(np.float64) * factor
        up = np.where(nearest < exact, np.nextafter(nearest, np.float32(1)), nearest)
        np.testing.assert_array_equal(out, nearest if mode == NEAREST else up)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_gets_its_own_workers(artifact: CpuArtifact) -> None:
    script = (
        "import os, sys, numpy as np\n"
        "from autosched.runtime.cpu import CpuArtifact, load\n"
        "from autosched.runtime.parallel import ensure_pool\n"
        "kernel = load(CpuArtifact.from_bytes(sys.stdin.buffer.read()))\n"
        "a, out = np.arange(1000, dtype=np.float32), np.zeros(1000, np.float32)\n"
        "kernel(a, 2, out)\n"
        "child = os.fork()\n"
        "out[:] = 0\n"
        "kernel(a, 2, out)\n"
        "good = (out == a * 2).all() and ensure_pool().size == 2\n"
        "if child == 0: os._exit(0 if good else 1)\n"
        "assert good and os.waitpid(child, 0)[1] == 0\n"
        "print('fine')\n"
    )
    _assert_fine(script, artifact.to_bytes())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_child_has_the_memory_of_threads_that_it_does_not_have() -> None:
    """What they used stayed in use, and a lock that one of them held was closed for ever."""
    script = (
        "import ctypes, os\n"
        "import autosched.runtime.parallel\n"
        "from autosched.runtime.native import runtime_library\n"
        "alloc = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int64)(\n"
        "    runtime_library().addresses['autosched_workspace_alloc'])\n"
        "used = alloc(1 << 20)\n"
        "child = os.fork()\n"
        "if child == 0: os._exit(alloc(1 << 20) != used)\n"
        "assert os.waitpid(child, 0)[1] == 0 and alloc(1 << 20) != used\n"
        "print('fine')\n"
    )
    _assert_fine(script)


def test_a_new_pool_has_one_thread() -> None:
    assert WorkerPool().size == 1


def test_workspace_is_reused_and_returned() -> None:
    addresses = native.runtime_library().addresses
    alloc = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int64)(
        addresses["autosched_workspace_alloc"]
    )
    free = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(addresses["autosched_workspace_free"])
    first = alloc(1 << 20)
    assert first % 64 == 0
    second = alloc(1 << 20)
    assert second != first
    free(first)
    assert alloc(1 << 20) == first
    free(first)
    free(second)
    blocks = [alloc(5000 + 64 * k) for k in range(100)]  # more than the table holds
    assert len(set(blocks)) == 100
    for block in blocks:
        free(block)
    huge = alloc(300 << 20)  # beyond what is kept: the unused blocks are returned first
    assert huge
    free(huge)
    free(None)


def test_resizing_waits_for_running_loops(kernel: CpuKernel) -> None:
    a, out = np.arange(20000, dtype=np.float32), np.zeros(20000, np.float32)
    bound = kernel.bind(a, 2.0, out)
    stop = threading.Event()

    def resize() -> None:
        while not stop.is_set():
            for size in (1, 2, 3):
                ensure_pool(size)

    thread = threading.Thread(target=resize)
    thread.start()
    try:
        for _ in range(300):
            out[:] = 0
            bound.run()
            assert (out == a * 2).all()
    finally:
        stop.set()
        thread.join()
    ensure_pool(2)


def test_the_number_of_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    for text, expected in (("3", 3), (" +3", 3), ("9" * 5000, 1024)):
        monkeypatch.setenv("AUTOSCHED_NUM_THREADS", text)
        assert default_threads() == expected
    monkeypatch.setattr(parallel, "usable_cores", lambda: 7)
    for text in ("many", "\u00b2", "\u0663", "1e3", "3.5", "3 ", "0", "-3", ""):
        monkeypatch.setenv("AUTOSCHED_NUM_THREADS", text)
        assert default_threads() == 7
    with pytest.raises(ValueError, match="at most 1024 threads"):
        WorkerPool().resize(1025)
