"""Kernels across processes, argument checks, timing, the worker pool."""

from __future__ import annotations

import copy
import os
import pickle
import platform
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from llvmlite import binding as llvm

from autosched import te
from autosched.driver import build, lower
from autosched.errors import ConfigError, MeasureError
from autosched.runtime import native
from autosched.runtime.cpu import (
    CpuArtifact,
    CpuKernel,
    aligned_empty,
    build_artifact,
    load,
)
from autosched.target import cpu_target
from autosched.tir.buffer import Buffer, decl_buffer
from autosched.tir.expr import BufferLoad, Expr, IntImm, Var, pointer
from autosched.tir.function import PrimFunc
from autosched.tir.stmt import BufferStore, For, ForKind


def scale_artifact(threads: int = 2) -> CpuArtifact:
    """out[i] = a[i] * factor for i < n, in parallel; a and out have n elements."""
    n, factor = Var("n"), Var("factor", "float32")
    a = decl_buffer((n,), "float32", "a")
    out = decl_buffer((n,), "float32", "out")
    handles = pointer("a_handle", a.dtype), pointer("out_handle", out.dtype)
    i = Var("i")
    body = For(
        i, IntImm(0), n, ForKind.PARALLEL, BufferStore(out, BufferLoad(a, (i,)) * factor, (i,))
    )
    func = PrimFunc(
        (handles[0], factor, handles[1]),
        body,
        {handles[0]: a, handles[1]: out},
        {"global_symbol": "scale"},
    )
    return build_artifact(func, cpu_target(threads))


@pytest.fixture(scope="module")
def artifact() -> CpuArtifact:
    return scale_artifact()


@pytest.fixture(scope="module")
def kernel(artifact: CpuArtifact) -> CpuKernel:
    return load(artifact)


def test_sizes_come_from_shapes_and_scalars_by_value(kernel: CpuKernel) -> None:
    for n in (1, 7, 1000):
        a, out = np.arange(n, dtype=np.float32), np.zeros(n, np.float32)
        kernel(a, 2.5, out)
        np.testing.assert_array_equal(out, a * np.float32(2.5))


@pytest.mark.parametrize("machine", ["x86_64", "aarch64", "arm64"])
def test_arm_has_the_linker_that_takes_sections_wherever_they_lie(
    artifact: CpuArtifact, monkeypatch: pytest.MonkeyPatch, machine: str
) -> None:
    """The other one ended the process there: its sections' distance did not fit 32 bits."""
    made: list[bool] = []
    create = llvm.create_lljit_compiler

    def noted(*, use_jit_link: bool) -> Any:
        made.append(use_jit_link)
        return create(use_jit_link=use_jit_link)

    monkeypatch.setattr(llvm, "create_lljit_compiler", noted)
    monkeypatch.setattr(platform, "machine", lambda: machine)
    jit = native._jit.__wrapped__()
    monkeypatch.undo()
    assert made == [machine != "x86_64"]
    monkeypatch.setattr(native, "_jit", lambda: jit)
    a, out = np.arange(7, dtype=np.float32), np.zeros(7, np.float32)
    load(artifact)(a, 2.5, out)
    np.testing.assert_array_equal(out, a * np.float32(2.5))


def test_bytes_run_in_another_process(artifact: CpuArtifact, tmp_path: Path) -> None:
    path = tmp_path / "kernel.bin"
    path.write_bytes(artifact.to_bytes())
    script = (
        "import sys, numpy as np\n"
        "from autosched.runtime.cpu import CpuArtifact, load\n"
        "kernel = load(CpuArtifact.from_bytes(open(sys.argv[1], 'rb').read()))\n"
        "a, out = np.arange(100, dtype=np.float32), np.zeros(100, np.float32)\n"
        "kernel(a, 3, out)\n"
        "assert (out == a * 3).all()\n"
        "print('fine')\n"
    )
    root = Path(native.__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", script, str(path)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "PYTHONPATH": str(root)},
    )
    assert done.stdout.strip() == "fine", done.stderr


def test_round_trip_of_the_artifact(artifact: CpuArtifact) -> None:
    assert CpuArtifact.from_bytes(artifact.to_bytes()) == artifact
    with pytest.raises(MeasureError, match="not a compiled CPU kernel"):
        CpuArtifact.from_bytes(b"something else entirely")
    assert [p.is_output for p in artifact.params] == [False, False, True]


def test_what_a_call_reads_is_no_output() -> None:
    """Data that say where a call reads counted as written, as did what is fetched ahead.

    Kernels of experts by AMX tiles took their choice for a result.
    """

    def call(ins: list[Buffer], outs: list[Buffer]) -> Expr:
        read = ins[0].access_ptr("r", offset=ins[1][0]), ins[2].access_ptr("r")
        both = outs[0].access_ptr("r"), outs[0].access_ptr("w")
        return te.call_extern("f", *read, *both, te.address_of(ins[3][ins[1][1]]))

    rows, at = te.placeholder((8, 16), name="rows"), te.placeholder((2,), "int32", "at")
    inputs = [rows, at, te.placeholder((4,), name="x"), te.placeholder((4,), name="taken")]
    out = te.extern((8,), inputs, call, "out", "float32")
    func = lower(te.create_schedule(out.op), [*inputs, out], cpu_target(1))
    written = [p.name for p in build_artifact(func, cpu_target(1)).params if p.is_output]
    assert written == ["taken", "out"]

    twice = te.compute((8, 16), lambda i, j: rows[i, j] * 2.0, "twice")
    s = te.create_schedule(twice.op)
    s[twice].prefetch(rows, twice.op.axis[0], 1)
    values = np.ones((8, 16), np.float32)
    kernel = load(build(s, [rows, twice], cpu_target(1)))
    np.testing.assert_array_equal(kernel(values), values * 2)


def refused(kernel: CpuKernel, *args: object) -> str:
    with pytest.raises(MeasureError) as caught:
        kernel(*args)
    message = str(caught.value)
    assert "\n" not in message
    return message


@pytest.mark.parametrize("copied", [pickle.dumps, copy.copy, copy.deepcopy])
def test_a_kernel_is_of_its_process(kernel: CpuKernel, copied: Callable[[Any], Any]) -> None:
    """It died in what llvmlite was half copied to, and said nothing of kernels."""
    with pytest.raises(TypeError, match=r"machine code of this process.*load_best"):
        copied(kernel)
    assert load(pickle.loads(pickle.dumps(kernel.artifact))).artifact == kernel.artifact


def test_loading_checks_its_arguments(artifact: CpuArtifact) -> None:
    for threads, message in ((0, "at least 1, found 0"), ("2", "an integer, found '2'")):
        wrong: Any = threads
        with pytest.raises(ConfigError, match=f"threads: expected {message}"):
            load(artifact, wrong)
    other: Any = artifact.object_code
    with pytest.raises(ConfigError, match="artifact: expected a CpuArtifact"):
        load(other)


def test_arguments_are_checked_before_anything_runs(kernel: CpuKernel) -> None:
    a, out = np.ones(8, np.float32), np.full(8, -1, np.float32)
    assert "takes 3 arguments (a, factor, out), found 2" in refused(kernel, a, 1.0)
    assert "argument 1 (a) must have dtype float32, found float64" in refused(
        kernel, a.astype(np.float64), 1.0, out
    )
    assert "must have shape (n), found (4, 2)" in refused(kernel, a.reshape(4, 2), 1.0, out)
    assert "must have n = 8, as a has, found shape (9,)" in refused(
        kernel, a, 1.0, np.zeros(9, np.float32)
    )
    assert "must be contiguous" in refused(kernel, np.ones(16, np.float32)[::2], 1.0, out)
    assert "must be a NumPy array or offer __dlpack__ or __array_interface__, found" in refused(
        kernel, [1.0] * 8, 1.0, out
    )
    assert "must be a float32 number" in refused(kernel, a, "x", out)
    assert "argument 2 (factor) is a masked array" in refused(kernel, a, np.ma.masked, out)
    assert "argument 1 (a) is a masked array" in refused(kernel, np.ma.array(a), 1.0, out)
    frozen = np.zeros(8, np.float32)
    frozen.flags.writeable = False
    assert "read-only" in refused(kernel, a, 1.0, frozen)
    odd = np.zeros(36, np.uint8)[1:33].view(np.float32)
    assert "must start at a multiple of 4 bytes" in refused(kernel, odd, 1.0, out)
    assert (out == -1).all()


def test_outputs_may_not_share_memory(kernel: CpuKernel) -> None:
    whole = np.ones(12, np.float32)
    message = refused(kernel, whole[:8], 1.0, whole[4:])
    assert (
        "argument 3 (out) is written by the kernel but shares memory with argument 1 (a)" in message
    )
    kernel(whole[:6], 2.0, whole[6:])
    assert whole.tolist() == [1.0] * 6 + [2.0] * 6


def test_a_number_is_no_output() -> None:
    """`kernel(a, sums[0])` wrote to an array that nobody had, and returned None."""
    a, total = te.placeholder((), name="a"), np.zeros(1, np.float32)
    b = te.compute((), lambda: a() + 1.0, name="b")
    kernel = load(build(te.create_schedule(b.op), [a, b], cpu_target(1), name="more"))
    assert "argument 2 (b) is written by the kernel but is read-only" in refused(
        kernel, np.float32(3), total[0]
    )
    assert kernel(np.float32(3), total.reshape(())) is None and total[0] == 4
    assert kernel(total[0]) == 5


class Exporter:
    """An array that offers DLPack only."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self, **options: Any) -> object:
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.array.__dlpack_device__()


def test_dlpack_objects(kernel: CpuKernel) -> None:
    a, out = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    kernel(Exporter(a), 4.0, out)
    np.testing.assert_array_equal(out, a * 4)


def test_integer_scalars_must_fit(kernel: CpuKernel) -> None:
    n = Var("k", "int8")
    out = decl_buffer((1,), "int8", "out")
    handle = pointer("handle", out.dtype)
    func = PrimFunc(
        (n, handle), BufferStore(out, n, (IntImm(0),)), {handle: out}, {"global_symbol": "put"}
    )
    put = load(build_artifact(func, cpu_target(1)))
    o = np.zeros(1, np.int8)
    put(-7, o)
    assert o[0] == -7
    assert "must fit int8, found 300" in refused(put, 300, o)
    assert "must fit int8, found 1.5" in refused(put, 1.5, o)


def test_bound_kernels_time_themselves(kernel: CpuKernel) -> None:
    a, out = np.ones(64, np.float32), np.zeros(64, np.float32)
    bound = kernel.bind(a, 2.0, out)
    assert bound.time_ns(10) > 0
    assert (out == 2).all()
    a[:] = 3
    bound.run()
    assert (out == 6).all()
    with pytest.raises(ValueError, match="at least 1 call"):
        kernel.timer(a, 2.0, out)(0)


@pytest.mark.parametrize("dtype", [object, "O", [("x", object)]])
def test_empty_of_objects(dtype: Any) -> None:
    """What lay in the memory was taken for their addresses: printing it ended Python."""
    with pytest.raises(TypeError, match="empty: expected a type of numbers, found "):
        aligned_empty((2,), dtype)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"shape": None}, r"expected a shape, e\.g\. \(512, 512\), found None"),
        ({"shape": "44"}, "expected a shape, .* found '44'"),
        ({"shape": (4, -1)}, r"expected a shape, .* found \(4, -1\)"),
        ({"alignment": 0}, "expected an alignment of at least 1 byte, found 0"),
        ({"alignment": 0.5}, r"expected an alignment of at least 1 byte, found 0\.5"),
    ],
)
def test_empty_of_no_shape_or_alignment(given: dict[str, Any], message: str) -> None:
    with pytest.raises(TypeError, match=f"empty: {message}"):
        aligned_empty(**{"shape": (4,), **given})


def test_aligned_empty() -> None:
    for dtype in (np.float32, np.int8, np.float64):
        array = aligned_empty((3, 5), dtype)
        assert array.shape == (3, 5)
        assert array.dtype == dtype
        assert array.__array_interface__["data"][0] % 64 == 0


def test_constant_shapes_must_agree() -> None:
    a, out = decl_buffer((4, 6), "float32", "a"), decl_buffer((4,), "float32", "out")
    handles = pointer("a_handle", a.dtype), pointer("out_handle", out.dtype)
    body = BufferStore(out, BufferLoad(a, (IntImm(0),)), (IntImm(0),))
    flat = decl_buffer((24,), "float32", "a")
    body = BufferStore(out, BufferLoad(flat, (IntImm(23),)), (IntImm(0),))
    func = PrimFunc(handles, body, {handles[0]: flat, handles[1]: out}, {"global_symbol": "last"})
    kernel = load(build_artifact(func, cpu_target(1)))
    good = np.zeros(24, np.float32)
    for wrong in (np.zeros(23, np.float32), np.zeros(25, np.float32), np.zeros((4, 6), np.float32)):
        assert f"must have shape (24), found {wrong.shape}" in refused(
            kernel, wrong, np.zeros(4, np.float32)
        )
    assert "must have shape (4), found (3,)" in refused(kernel, good, np.zeros(3, np.float32))
    kernel(good, np.zeros(4, np.float32))
