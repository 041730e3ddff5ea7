"""Threads of the pool move to processors of their own, and respect where they may run."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import llvmlite.binding as llvm
import pytest

from autosched.codegen.llvm_compile import compile_object
from autosched.runtime.float_mode_ir import float_mode_ir
from autosched.runtime.native import load_object
from autosched.runtime.parallel_ir import pool_ir
from autosched.runtime.processors_ir import MASK_BYTES, processors_ir
from autosched.target import cpu_target

_LINES = 64 * 4

_WRAPPED = f"""
@lines = private global [{_LINES} x i8] zeroinitializer, align 64
define private ptr @run.share_word(i64 %thread) {{
  %scaled = mul i64 %thread, 64
  %line = getelementptr i8, ptr @lines, i64 %scaled
  ret ptr %line
}}
define i32 @note(i64 %thread) {{
  %noted = call i32 @run.note_processor(i64 %thread)
  ret i32 %noted
}}
define i32 @beside(i64 %many, i32 %own) {{
  %same = call i1 @run.beside_another(i64 %many, i32 %own)
  %result = zext i1 %same to i32
  ret i32 %result
}}
define void @move(i64 %thread, i64 %threads, ptr %all, ptr %set) {{
  call void @run.move_away(i64 %thread, i64 %threads, ptr %all, ptr %set)
  ret void
}}
define i64 @count() {{
  %found = call i64 @run.processors()
  ret i64 %found
}}
"""


@pytest.fixture
def function() -> Callable[..., int]:
    """Calls a function of the text by name, with integers and buffers; each time all is fresh."""
    code = compile_object(processors_ir() + _WRAPPED, cpu_target(1), "light")
    library = load_object(code, ["note", "beside", "move", "count"])

    def call(name: str, *arguments: int | ctypes.Array[ctypes.c_char]) -> int:
        kinds = [ctypes.c_int64 if isinstance(a, int) else ctypes.c_void_p for a in arguments]
        return int(ctypes.CFUNCTYPE(ctypes.c_int32, *kinds)(library.addresses[name])(*arguments))

    return call


T = TypeVar("T")


def _in_a_thread(work: Callable[[], T]) -> T:
    """What `work` returns in a thread of its own: masks belong to threads."""
    found: list[T] = []
    thread = threading.Thread(target=lambda: found.append(work()))
    thread.start()
    thread.join()
    return found[0]


needs_two = pytest.mark.skipif(
    sys.platform != "linux" or len(os.sched_getaffinity(0)) < 2,
    reason="needs Linux and two processors",
)


def _masks() -> tuple[ctypes.Array[ctypes.c_char], ctypes.Array[ctypes.c_char]]:
    return ctypes.create_string_buffer(MASK_BYTES), ctypes.create_string_buffer(MASK_BYTES)


@needs_two
def test_a_worker_leaves_the_launchers_processor(function: Callable[..., int]) -> None:
    def work() -> tuple[set[int], set[int], int, int]:
        first = min(os.sched_getaffinity(0))
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, {first})
        noted = function("note", 0)  # the launcher is here
        os.sched_setaffinity(0, before)
        function("move", 1, 2, *_masks())
        return before - {noted - 1}, os.sched_getaffinity(0), noted, function("note", 1)

    expected, allowed, launcher, worker = _in_a_thread(work)
    assert allowed == expected
    assert worker != launcher


@needs_two
def test_it_may_run_where_it_could_before_once_the_launcher_moved(
    function: Callable[..., int],
) -> None:
    def work() -> tuple[set[int], set[int]]:
        everywhere = os.sched_getaffinity(0)
        masks = _masks()
        cpus = sorted(everywhere)[:2]
        for cpu in cpus:  # the launcher's processor, first one, then the other
            with _confined({cpu}):
                function("note", 0)
            function("move", 1, 2, *masks)
        return everywhere - {cpus[1]}, os.sched_getaffinity(0)

    expected, allowed = _in_a_thread(work)
    assert allowed == expected


@needs_two
@pytest.mark.parametrize("many", [1, 2])
def test_a_mask_with_fewer_processors_than_threads_stays(
    function: Callable[..., int], many: int
) -> None:
    def work() -> tuple[set[int], set[int]]:
        few = set(sorted(os.sched_getaffinity(0))[:many])
        os.sched_setaffinity(0, few)
        function("note", 0)
        function("move", 1, many + 1, *_masks())
        return few, os.sched_getaffinity(0)

    few, allowed = _in_a_thread(work)
    assert allowed == few


@contextmanager
def _confined(cpus: set[int]) -> Iterator[None]:
    """This thread runs on these processors inside, and where it could before afterwards."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cpus)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@pytest.mark.skipif(sys.platform != "linux", reason="needs Linux")
def test_who_is_beside_whom(function: Callable[..., int]) -> None:
    own = function("note", 2)
    assert own > 0
    assert function("beside", 2, own) == 0  # threads 0 and 1 were never seen
    assert function("beside", 2, 0) == 0  # and an unknown place is beside nobody
    with _confined({own - 1}):
        function("note", 1)
    assert function("beside", 2, own) == 1
    assert function("beside", 1, own) == 0
    assert function("count") == len(os.sched_getaffinity(0))


@pytest.mark.parametrize("system", ["linux", "darwin"])
def test_the_text_of_each_system_assembles(system: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rest = (
        "define private void @run.relax() {\n  ret void\n}\n"
        "define private void @run.futex_wait(ptr %word, i32 %seen) {\n  ret void\n}\n"
        "define private void @run.futex_wake(ptr %word) {\n  ret void\n}\n"
    ) + float_mode_ir("")
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(sys, "platform", system)
        text = rest + pool_ir()
    assert ("@sched_setaffinity" in text) == (system == "linux")
    llvm.parse_assembly(text).verify()


@needs_two
def test_a_pool_that_lost_its_processor_computes_the_same() -> None:
    """Launcher and worker are put on one processor again and again, while loops run."""
    script = (
        "import os, threading, numpy as np\n"
        "from autosched import te\n"
        "from autosched.driver import build\n"
        "from autosched.runtime.cpu import load\n"
        "from autosched.runtime.parallel import ensure_pool\n"
        "from autosched.target import cpu_target\n"
        "A = te.placeholder((4096,), 'float32', 'A')\n"
        "C = te.compute((4096,), lambda i: A[i] * 2.0, 'C')\n"
        "s = te.create_schedule(C.op)\n"
        "s[C].parallel(C.op.axis[0])\n"
        "kernel = load(build(s, [A, C], cpu_target(2)))\n"
        "ensure_pool(2)\n"
        "worker, = [t.native_id for t in threading.enumerate() if t.name == 'autosched-1']\n"
        "everywhere = os.sched_getaffinity(0)\n"
        "a, c = np.arange(4096, dtype='float32'), np.zeros(4096, 'float32')\n"
        "for turn in range(60):\n"
        "    cpu = sorted(everywhere)[turn % 2]\n"
        "    os.sched_setaffinity(0, {cpu}); os.sched_setaffinity(worker, {cpu})\n"
        "    c[:] = 0; kernel(a, c); assert (c == a * 2).all()\n"
        "    os.sched_setaffinity(worker, everywhere)\n"
        "    for call in range(50): c[:] = 0; kernel(a, c); assert (c == a * 2).all()\n"
        "    assert os.sched_getaffinity(worker) in (everywhere, everywhere - {cpu}), turn\n"
        "print('fine')\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, timeout=300)
    assert done.stdout.decode().strip() == "fine", done.stderr.decode()
