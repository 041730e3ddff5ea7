"""The native checks of a call's arguments, against the checks in Python."""

from __future__ import annotations

import ctypes
import gc
import os
import threading
import weakref
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from autosched.errors import ConfigError, MeasureError
from autosched.runtime import cpu
from autosched.runtime.arguments import check
from autosched.runtime.cpu import CpuKernel, build_artifact, load, register_extern
from autosched.runtime.memory import empty
from autosched.runtime.quick_call import UNFIT, arrays_are_understood
from autosched.target import cpu_target
from autosched.tir.buffer import decl_buffer
from autosched.tir.dtype import DType
from autosched.tir.expr import BufferLoad, Call, IntImm, StringImm, Var, pointer
from autosched.tir.function import PrimFunc
from autosched.tir.stmt import BufferStore, For, ForKind

Array = np.ndarray[Any, Any]
SHAPE = (4, 6)


def add_artifact(dtype: str = "float32", threads: int = 1) -> cpu.CpuArtifact:
    """C[i, j] = A[i, j] + B[i, j], its outer loop in parallel where there are threads."""
    a, b, c = (decl_buffer((24,), dtype, name) for name in "ABC")
    shaped = [decl_buffer((24,), dtype, x.name, data=x.data) for x in (a, b, c)]
    handles = [pointer(f"{x.name}_handle", x.dtype) for x in (a, b, c)]
    i = Var("i")
    body = BufferStore(c, BufferLoad(a, (i,)) + BufferLoad(b, (i,)), (i,))
    kind = ForKind.PARALLEL if threads > 1 else ForKind.SERIAL
    func = PrimFunc(
        tuple(handles),
        For(i, IntImm(0), IntImm(24), kind, body),
        dict(zip(handles, shaped, strict=True)),
        {"global_symbol": "add"},
    )
    artifact = build_artifact(func, cpu_target(threads))
    params = tuple(
        cpu.ParamSpec(p.name, p.dtype, SHAPE, p.alignment, p.is_output) for p in artifact.params
    )
    return cpu.CpuArtifact(artifact.object_code, "add", params, threads=threads)


@pytest.fixture(scope="module")
def kernel() -> CpuKernel:
    return load(add_artifact())


def arrays(dtype: Any = np.float32) -> list[Array]:
    count = 4 * 6
    return [np.arange(k, k + count).astype(dtype).reshape(SHAPE) for k in range(3)]


def read_only(array: Array) -> Array:
    array = array.copy()
    array.flags.writeable = False
    return array


def odd(array: Array) -> Array:
    raw = np.zeros(array.nbytes + 8, np.uint8)
    return raw[1 : 1 + array.nbytes].view(array.dtype).reshape(array.shape)


CHANGES: dict[str, Callable[[Array], Any]] = {
    "nothing": lambda x: x,
    "aligned": lambda x: cpu.aligned_copy(x),
    "read-only": read_only,
    "odd address": odd,
    "float64": lambda x: x.astype(np.float64),
    "int32": lambda x: x.view(np.int32),
    "swapped bytes": lambda x: x.astype(">f4"),
    "flat": lambda x: x.reshape(-1),
    "one more dimension": lambda x: x[None],
    "one dimension after": lambda x: x[..., None],
    "one row fewer": lambda x: x[1:],
    "longer rows": lambda x: np.zeros((4, 7), np.float32),
    "transposed": lambda x: np.zeros((6, 4), np.float32).T,
    "every other": lambda x: np.zeros((4, 12), np.float32)[:, ::2],
    "backwards": lambda x: x[::-1],
    "repeated": lambda x: np.broadcast_to(x[:1], SHAPE),
    "scalar": lambda x: x[0, 0],
    "subclass": lambda x: x.view(np.matrix),
    "equal type": lambda x: x.view(np.dtype("float32", metadata={"unit": "m"})),
    "list": lambda x: x.tolist(),
    "none": lambda x: None,
}


@pytest.mark.parametrize("position", range(3))
def test_what_runs_at_once_passes_every_check_and_nothing_else_runs(
    kernel: CpuKernel, position: int
) -> None:
    assert arrays_are_understood()
    ran = set()
    for name, change in CHANGES.items():
        given: list[Any] = arrays()
        given[position] = change(given[position])
        before = np.array(given[2], copy=True) if name not in ("list", "none") else None
        status = kernel.quick(tuple(given))
        try:
            check("add", kernel.artifact.params, (), given)
            fits = True
        except MeasureError:
            fits = False
        if status == UNFIT:
            if before is not None:
                np.testing.assert_array_equal(given[2], before)
        else:
            ran.add(name)
            assert fits
            np.testing.assert_array_equal(given[2], given[0] + given[1])
        if not fits:
            with pytest.raises(
                MeasureError, match=rf"add: argument {position + 1} \({'ABC'[position]}\)"
            ):
                kernel(*given)
        elif status == UNFIT:  # fits all the same, the slower way
            kernel(*given)
            np.testing.assert_array_equal(given[2], given[0] + given[1])
    usual = {"nothing", "aligned"}
    assert ran == (usual if position == 2 else usual | {"read-only"})


@pytest.mark.parametrize("shift", [-24, -23, -1, 0, 1, 23, 24])
@pytest.mark.parametrize("other", [0, 1])
def test_an_output_may_touch_an_input_but_share_nothing(
    kernel: CpuKernel, other: int, shift: int
) -> None:
    whole = np.zeros(72, np.float32)
    given = arrays()
    given[2] = whole[24:48].reshape(SHAPE)
    given[other] = whole[24 + shift : 48 + shift].reshape(SHAPE)
    status = kernel.quick(tuple(given))
    assert (status == UNFIT) == (abs(shift) < 24)
    same = given[0], given[0], given[2]
    if abs(shift) == 24:
        assert kernel.quick(same) == 0  # inputs may be one array


@pytest.mark.parametrize("number", [0, 1, 2, 4])
def test_another_number_of_arguments_does_not_fit(kernel: CpuKernel, number: int) -> None:
    assert kernel.quick(tuple((arrays() * 2)[:number])) == UNFIT


@pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16", "int32", "int64", "uint8"])
def test_types_are_told_apart(dtype: str) -> None:
    kernel = load(add_artifact(dtype))
    kind = np.dtype(getattr(ml_dtypes, dtype) if dtype == "bfloat16" else dtype)
    a, b, c = arrays(kind)
    assert kernel.quick((a, b, c)) == 0
    np.testing.assert_array_equal(c, a + b)
    other = np.dtype(f"V{kind.itemsize}")
    assert kernel.quick((a.view(other), b, c)) == UNFIT


def test_a_quick_call_keeps_the_code_in_memory() -> None:
    """Where the kernel was gone, the process ended."""
    kernel = load(add_artifact())
    code, quick = weakref.ref(kernel._library.keep), kernel.quick
    del kernel
    gc.collect()
    assert code() is not None
    a, b, c = arrays()
    assert quick((a, b, c)) == 0
    np.testing.assert_array_equal(c, a + b)


def answering(name: str) -> cpu.CpuArtifact:
    """out[0] = the result of the function of this name."""
    out = decl_buffer((1,), "int32", "out")
    handle = pointer("out_handle", out.dtype)
    value = Call(DType("int32"), "call_extern", (StringImm(name),))
    func = PrimFunc(
        (handle,), BufferStore(out, value, (IntImm(0),)), {handle: out}, {"global_symbol": "asks"}
    )
    return build_artifact(func, cpu_target(1))


def test_a_kernel_keeps_the_function_that_it_was_loaded_with() -> None:
    """Another one under its name freed it, and the kernel called what came to lie there."""
    kind = ctypes.CFUNCTYPE(ctypes.c_int)
    register_extern("the_answer", kind(lambda: 1))
    artifact = answering("the_answer")
    old = load(artifact)
    register_extern("the_answer", kind(lambda: 2))
    gc.collect()
    others = [kind(lambda: 3) for _ in range(50)]
    assert (old()[0], load(artifact)()[0], len(others)) == (1, 2, 50)


@pytest.mark.parametrize("given", [lambda: 1, None, "sin", 3.5])
def test_what_has_no_address_is_not_registered(given: object) -> None:
    """From then on no kernel of the process could be loaded, whatever it called."""
    with pytest.raises(ConfigError, match=r"register_extern f: expected a function of ctypes"):
        register_extern("f", given)
    load(add_artifact(threads=1))


def test_the_interpreter_is_free_while_a_kernel_runs() -> None:
    function = ctypes.CFUNCTYPE(ctypes.c_int)(("PyGILState_Check", ctypes.pythonapi))
    register_extern("holds_the_lock", function)
    kernel = load(answering("holds_the_lock"))
    array = np.full(1, 7, np.int32)
    assert kernel.quick((array,)) == 0
    assert array[0] == 0
    assert kernel()[0] == 0


def test_several_threads_call_one_parallel_kernel() -> None:
    kernel = load(add_artifact(threads=2))
    assert kernel.quick(tuple(arrays())) in (0, UNFIT)  # whatever the pool was before
    wrong: list[int] = []

    def work(seed: int) -> None:
        a, b = (np.random.default_rng(seed + k).random(SHAPE, np.float32) for k in range(2))
        for _ in range(50):
            c = kernel(a, b)
            if not (c == a + b).all():
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(10 * k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
def test_a_forked_child_calls_too() -> None:
    kernel = load(add_artifact(threads=2))
    a, b, c = arrays()
    kernel(a, b, c)
    child = os.fork()
    if child == 0:
        c[:] = 0
        kernel(a, b, c)
        os._exit(0 if (c == a + b).all() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_empty_starts_at_a_cache_line() -> None:
    for shape in (3, np.int64(3), (), (5,), [2, 3], (2, 3, 4)):
        for dtype in (np.float32, np.float64, "int8", np.dtype(ml_dtypes.bfloat16)):
            array = empty(shape, dtype)
            assert array.ctypes.data % 64 == 0
            assert array.dtype == np.dtype(dtype)
            assert array.shape == np.empty(shape).shape
            assert array.flags.writeable and array.flags.c_contiguous
    assert empty(8, alignment=4096).ctypes.data % 4096 == 0
