"""Loops on the threads of an OpenMP runtime: a made-up one, and what PyTorch is linked with."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import autosched
from autosched.runtime.cpu import CpuKernel, build_artifact, load, register_extern
from autosched.runtime.native import processor
from autosched.runtime.parallel import Team, borrow_team, ensure_pool, on_workers
from autosched.target import cpu_target
from autosched.tir.parser import parse_func

Slots = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
Number = ctypes.CFUNCTYPE(ctypes.c_int)
Region = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint)

SQUARES = """\
def squares(A: Buffer((4000,), float32), B: Buffer((4000,), float32)):
    for i in parallel(4000):
        B[i] = A[i] * A[i]
"""
ASKS = """\
def asks(A: Buffer((64,), int32)):
    for i in parallel(64):
        A[i] = call_extern("test_ask", i, dtype=int32)
"""


class Runtime:
    """An OpenMP runtime whose teams are threads of Python; it notes the sizes of its teams."""

    def __init__(self, most: int, given: int | None = None) -> None:
        self.teams: list[int] = []
        self._own = threading.local()
        self._given = given
        self._functions = (
            Region(self._run),
            Number(lambda: getattr(self._own, "number", 0)),
            Number(lambda: most),
        )
        self.team = Team(*[ctypes.cast(f, ctypes.c_void_p).value or 0 for f in self._functions])

    def _run(self, function: int, data: int, size: int, flags: int) -> None:
        self.teams.append(size)
        call = Slots(function)

        def member(number: int) -> None:
            self._own.number = number
            call(data)

        others = [threading.Thread(target=member, args=(k,)) for k in range(1, self._given or size)]
        for thread in others:
            thread.start()
        member(0)
        for thread in others:
            thread.join()


@pytest.fixture(autouse=True)
def no_team_is_left() -> Iterator[None]:
    yield
    borrow_team(Team(0, 0, 0))


@pytest.fixture(scope="module")
def squares() -> CpuKernel:
    return load(build_artifact(parse_func(SQUARES), cpu_target(2)))


def agrees(kernel: CpuKernel) -> bool:
    a = np.arange(4000, dtype=np.float32)
    return bool((kernel(a) == a * a).all())


def test_loops_run_on_a_team_of_their_size(squares: CpuKernel) -> None:
    runtime = Runtime(2)
    assert agrees(squares) and not runtime.teams
    borrow_team(runtime.team)
    for _ in range(20):
        assert agrees(squares)
    assert runtime.teams == [2] * 20
    ensure_pool(3)
    assert agrees(load(build_artifact(parse_func(SQUARES), cpu_target(3))))
    assert len(runtime.teams) == 20
    assert on_workers(agrees)(squares) and len(runtime.teams) == 20
    assert agrees(squares) and len(runtime.teams) == 21


def test_a_call_that_fails_declines_the_team_no_longer(squares: CpuKernel) -> None:
    runtime = Runtime(2)
    borrow_team(runtime.team)
    with pytest.raises(ZeroDivisionError):
        on_workers(lambda: 1 // 0)()
    assert agrees(squares) and runtime.teams == [2]


@pytest.mark.parametrize("given", [1, 2, 3])
def test_fewer_threads_than_asked_for_take_all_shares(given: int) -> None:
    kernel = load(build_artifact(parse_func(SQUARES), cpu_target(4)))
    runtime = Runtime(4, given)
    borrow_team(runtime.team)
    assert agrees(kernel) and runtime.teams == [4]


def test_a_member_of_a_team_runs_a_share() -> None:
    """A kernel that it calls does not wait for the loop that it is a part of."""
    inner = load(build_artifact(parse_func(SQUARES), cpu_target(3)))
    everywhere = threading.Barrier(2, timeout=60)
    threads: dict[int, bool] = {}

    def ask(i: int) -> int:
        own = threading.get_ident()
        if own not in threads:
            everywhere.wait()  # each thread of the team has a share
            threads[own] = ensure_pool().runs_a_share() and agrees(inner)
        return i + 1

    register_extern("test_ask", ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32)(ask))
    kernel = load(build_artifact(parse_func(ASKS), cpu_target(2)))
    borrow_team(Runtime(2).team)
    assert kernel().tolist() == list(range(1, 65))
    assert list(threads.values()) == [True, True]
    assert not ensure_pool().runs_a_share()


@pytest.mark.skipif(
    sys.platform != "linux" or processor() != "x86_64", reason="libm.so.6, numbers of x86"
)
def test_members_round_as_the_launcher_and_then_as_before() -> None:
    library = ctypes.CDLL("libm.so.6")
    upward, nearest = 0x800, 0  # FE_UPWARD, FE_TONEAREST
    everywhere = threading.Barrier(2, timeout=60)
    inside: dict[int, int] = {}
    after: list[int] = []

    def ask(i: int) -> int:
        own = threading.get_ident()
        if own not in inside:
            everywhere.wait()
            inside[own] = int(np.float32(1) + np.float32(1e-9) > 1)
        return 0

    class Asked(Runtime):
        def _run(self, function: int, data: int, size: int, flags: int) -> None:
            call = Slots(function)

            def member(number: int) -> None:
                self._own.number = number
                call(data)
                after.append(int(np.float32(1) + np.float32(1e-9) > 1))

            other = threading.Thread(target=member, args=(1,))
            library.fesetround(nearest)
            other.start()
            library.fesetround(upward)
            call(data)
            other.join()

    register_extern("test_ask", ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32)(ask))
    kernel = load(build_artifact(parse_func(ASKS), cpu_target(2)))
    borrow_team(Asked(2).team)
    try:
        library.fesetround(upward)
        kernel()
    finally:
        library.fesetround(nearest)
    assert list(inside.values()) == [1, 1] and after == [0]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_the_child_of_a_fork_has_no_team(squares: CpuKernel) -> None:
    runtime = Runtime(2)
    borrow_team(runtime.team)
    assert agrees(squares) and runtime.teams == [2]
    child = os.fork()
    if child == 0:
        borrow_team(runtime.team)
        os._exit(0 if agrees(squares) and runtime.teams == [2] else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert agrees(squares) and runtime.teams == [2, 2]


PYTORCH = """\
import os, sys, torch
import numpy as np
import autosched.torch
from autosched.runtime.cpu import build_artifact, load
from autosched.runtime.native import runtime_library
from autosched.target import cpu_target
from autosched.tir.parser import parse_func
import ctypes
from autosched.torch.threads import share_threads
kernel = load(build_artifact(parse_func(sys.stdin.read()), cpu_target(2)))
x = torch.ones(1 << 20)
share_threads()
word = ctypes.c_void_p.from_address(runtime_library().addresses["autosched_team"])
a = np.arange(4000, dtype=np.float32)
for _ in range(100):
    x.relu_()
    assert (kernel(a) == a * a).all()
child = os.fork()
assert (kernel(a) == a * a).all()
if child == 0: os._exit(0 if word.value is None else 1)
assert os.waitpid(child, 0)[1] == 0
print("shared" if word.value else "own")
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.parametrize("policy", ["active", " Passive"])
def test_the_threads_of_pytorch(policy: str) -> None:
    torch = pytest.importorskip("torch")
    if "parallel backend: OpenMP" not in torch.__config__.parallel_info():
        pytest.skip("a PyTorch without OpenMP")
    root = Path(autosched.__file__).parents[1]
    settings = {"OMP_NUM_THREADS": "2", "OMP_WAIT_POLICY": policy, "PYTHONPATH": str(root)}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", PYTORCH],
        input=SQUARES,
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, **settings},
    )
    expected = "own" if "passive" in policy.lower() else "shared"
    assert done.stdout.strip() == expected, done.stderr
