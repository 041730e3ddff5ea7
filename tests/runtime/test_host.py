"""Host functions, compiled and called: what they compute, refuse, call and give back."""

from __future__ import annotations

import ctypes
import gc
import subprocess
import sys
import weakref
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from autosched import te
from autosched.driver import build_host, lower, lower_to_kernels
from autosched.errors import CompileError, MeasureError
from autosched.runtime.cpu import register_extern
from autosched.runtime.host import HostModule, load_host
from autosched.runtime.packed import ERRORS, DLTensor, register_packed, register_workspace
from autosched.target import cpu_target, cuda_target
from autosched.te.operations.tensor import Tensor
from autosched.te.schedule.schedule import Schedule
from autosched.tir import interp
from autosched.tir.dtype import handle
from autosched.tir.expr import Call, StringImm
from autosched.tir.interp_host import Tensor as Described
from autosched.tir.interp_memory import InterpreterError
from autosched.tir.interp_packed import run_packed
from autosched.tir.parser import parse_func, parse_module
from autosched.transform.framework.passes import Sequential
from autosched.transform.host.memory_info import MemoryInfo, register_memory
from autosched.transform.pipeline import HOST_PIPELINE, host_pipeline
from kit.host_programs import Mix, random_program


@cache
def loaded(text: str) -> HostModule:
    return load_host(build_host(parse_module(text), cpu_target(2)))


SCALE = """\
def scale[m: int32](n: int32, x: float32, b: bool, A: Buffer((m, 4), float32),
        B: Buffer((m, 4), float32)):
    A_1 = view(A, (m * 4,), float32)
    B_1 = view(B, (m * 4,), float32)
    if b:
        for i in parallel(m * 4):
            B_1[i] = A_1[i] * x
    ret(n + m)
"""


def ones(*shape: int, dtype: Any = np.float32) -> np.ndarray[Any, Any]:
    return np.ones(shape, dtype)


def on(array: np.ndarray[Any, Any], kind: type = DLTensor, **fields: int) -> Any:
    """The description of `array` with other values in some fields, for code or interpreter."""
    if kind is DLTensor:
        tensor = DLTensor.of(array)
        for name, value in fields.items():
            setattr(tensor, name, value)
        return tensor
    numbers = {"data": 1, "byte_offset": 8, "device_id": 9, "device_type": 10}
    described = Described.of(array)
    described.fields.update({numbers[name]: value for name, value in fields.items()})
    return described


Case = Callable[[type], tuple[Any, ...]]

A, B = ones(3, 4), ones(3, 4) * 0
REFUSED: dict[str, Case] = {
    "scale: num_args should be 5": lambda kind: (1, 2.0, True, A),
    "scale: Expect arg[0] to be int": lambda kind: (1.0, 2.0, True, A, B),
    "scale: Expect arg[1] to be float": lambda kind: (1, 2, True, A, B),
    "scale: Expect arg[2] to be boolean": lambda kind: (1, 2.0, None, A, B),
    "scale: Expect arg[3] to be pointer": lambda kind: (1, 2.0, True, 7, B),
    "scale.A_handle is expected to have non-NULL DLTensor* pointer": lambda kind: (
        *(1, 2.0, True, None, B),
    ),
    "scale.B_handle is expected to have non-NULL data pointer": lambda kind: (
        *(1, 2.0, True, A, on(B, kind, data=0)),
    ),
    "scale.A_handle.ndim is expected to equal 2": lambda kind: (1, 2.0, True, ones(12), B),
    "scale.A_handle.dtype is expected to be float32": lambda kind: (
        *(1, 2.0, True, ones(3, 4, dtype=np.float64), B),
    ),
    "Argument scale.B_handle.shape[0] has an unsatisfied constraint: "
    "m == int32(B_handle.shape[0])": lambda kind: (1, 2.0, True, A, ones(2, 4)),
    "Argument scale.A_handle.shape[1] has an unsatisfied constraint: "
    "4 == int32(A_handle.shape[1])": lambda kind: (1, 2.0, True, ones(3, 5), B),
    "scale.A_handle.strides: expected to be compact array": lambda kind: (
        *(1, 2.0, True, ones(3, 8)[:, ::2], B),
    ),
    "Argument scale.A_handle.byte_offset has an unsatisfied constraint: "
    "uint64(0) == tvm_struct_get(A_handle, 0, 8, dtype=uint64)": lambda kind: (
        *(1, 2.0, True, on(A, kind, byte_offset=4), B),
    ),
    "Argument scale.A_handle.device_type has an unsatisfied constraint: "
    "1 == tvm_struct_get(A_handle, 0, 10, dtype=int32)": lambda kind: (
        *(1, 2.0, True, on(A, kind, device_type=2), B),
    ),
    "Argument scale.B_handle.device_id has an unsatisfied constraint: "
    "dev_id == tvm_struct_get(B_handle, 0, 9, dtype=int32)": lambda kind: (
        *(1, 2.0, True, A, on(B, kind, device_id=1)),
    ),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_does_not_fit_is_refused_with_the_message_of_the_pass(message: str) -> None:
    B[:] = 0
    with pytest.raises(MeasureError) as caught:
        loaded(SCALE)(*REFUSED[message](DLTensor))
    assert str(caught.value) == message
    assert not B.any()
    (note,) = caught.value.__notes__
    assert note.startswith("scale(n, x, b, A_handle, B_handle) was given int 1, ") or "[0]" in (
        message
    )
    lowered = Sequential(HOST_PIPELINE)(parse_func(SCALE))
    with pytest.raises(InterpreterError) as failed:
        run_packed(lowered, REFUSED[message](Described))
    assert str(failed.value) == f"assertion failed: {message}"


def test_null_pointers_in_place_of_the_arguments() -> None:
    function = loaded(SCALE)["scale"]
    result, kind = ctypes.c_uint64(), ctypes.c_int32()
    messages = function.module.artifact.messages
    codes = (ctypes.c_int32 * 5)()
    status = function.call_raw(None, ctypes.addressof(codes), 5, result, kind)
    assert messages[status - 1] == "scale: TVMValue* arg pointer was NULL"
    status = function.call_raw(ctypes.addressof(codes), None, 5, result, kind)
    assert messages[status - 1] == "scale: int* type_codes was NULL"


def test_arguments_of_all_kinds_and_the_result() -> None:
    a, b = np.arange(12, dtype=np.float32).reshape(3, 4), ones(3, 4)
    scale = loaded(SCALE)
    assert scale(5, 2.5, True, a, b) == 8
    np.testing.assert_array_equal(b, a * np.float32(2.5))
    # NumPy's scalars, int for bool, anything with DLPack, a raw description, an empty array.
    assert scale(np.int64(5), np.float16(0.5), 0, DLPackOnly(a), on(b)) == 8
    np.testing.assert_array_equal(b, a * np.float32(2.5))
    assert scale(-5, 1.0, True, ones(0, 4), ones(0, 4)) == -5


class DLPackOnly:
    """An array of another library."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self._array = array

    def __dlpack__(self, **options: Any) -> Any:
        return self._array.__dlpack__(**options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)


def test_what_the_function_cannot_see_is_refused_before_it_runs() -> None:
    frozen = ones(3, 4)
    frozen.flags.writeable = False
    for args, problem in (
        ((1, 2.0, True, A, frozen), "argument 5 (B_handle) is written by the function but is read"),
        ((1, 2.0, True, A, A), "argument 5 (B_handle) is written by the function but shares"),
        ((1, 2.0, True, DLPackOnly(A), A), "shares memory with argument 4"),
        ((1, 2.0, True, [1.0], B), "argument 4 (A_handle): a list cannot be passed"),
        ((2**64, 2.0, True, A), "argument 1 (n): the integer 18446744073709551616 has more"),
        ((2**31, 2.0, True, A, B), "argument 1 (n) must fit int32, found 2147483648"),
        ((1, 2.0, True, np.ma.array(A), B), "argument 4 (A_handle) is a masked array"),
        ((1, 2.0, True, A.astype("complex64"), B), "elements of type complex64 cannot be passed"),
    ):
        with pytest.raises(MeasureError) as caught:
            loaded(SCALE)(*args)
        assert problem in str(caught.value)


STRIDED = """\
def diagonal[m: int32, n: int32, s0: int32, s1: int32, offset: int32](
        S: Buffer((m, n), int16, strides=(s0, s1), elem_offset=offset, offset_factor=2),
        D: Buffer((m,), int16)):
    S_1 = view(S, (m * s0,), int16, elem_offset=offset)
    for i in range(min(m, n)):
        D[i] = S_1[i * s0 + i * s1]
"""


def test_strides_and_offsets_are_taken_from_the_array() -> None:
    whole, d = np.arange(60, dtype=np.int16).reshape(6, 10), np.zeros(3, np.int16)
    loaded(STRIDED)(whole[:3], d)
    np.testing.assert_array_equal(d, [0, 11, 22])
    loaded(STRIDED)(whole[::2, ::3], d)
    np.testing.assert_array_equal(d, [0, 23, 46])
    loaded(STRIDED)(on(whole[::2, ::3], byte_offset=8), d)
    np.testing.assert_array_equal(d, [4, 27, 50])
    with pytest.raises(MeasureError, match=r"elem_offset has an .* 0 == truncmod\(offset, 2\)"):
        loaded(STRIDED)(on(whole[::2], byte_offset=6), d)


PADDED = """\
def double[n: int32](S: Buffer((n, 4), int16, strides=(8, 1)), D: Buffer((n, 4), int16)):
    S_1 = view(S, (n * 8,), int16)
    D_1 = view(D, (n * 4,), int16)
    for i in range(n):
        for j in range(4):
            D_1[i * 4 + j] = S_1[i * 8 + j] * int16(2)
"""


def test_the_stride_of_a_single_row_may_be_any() -> None:
    for rows in (0, 1, 2):
        whole, d = np.arange(rows * 8, dtype=np.int16).reshape(rows, 8), np.zeros((rows, 4), "i2")
        loaded(PADDED)(whole[:, :4], d)
        np.testing.assert_array_equal(d, whole[:, :4] * 2)
        if rows > 1:
            with pytest.raises(MeasureError, match=r"strides\[0\] has an .* constraint: 8 == "):
                loaded(PADDED)(whole[:, :4].copy(), d)


CALLS = """\
def calls(A: Buffer((6,), float32), n: int32):
    call_packed("note", n, A[1], n == 2, "text", A, reinterpret(uint64(0), dtype=handle),
        tvm_stack_make_array(A, tvm_stack_make_shape(2, 3), 0, 2, 0.0, 0), dtype=int32)
    A[0] = A[0] + call_packed("half", call_packed("half", n, dtype=int32), dtype=float32)
    for i in parallel(2):
        A[i + 1] = call_packed("half", i, dtype=float32)
    ret(call_packed("half", n, dtype=float32))
"""


def test_packed_calls_get_what_they_are_given_and_give_it_back() -> None:
    noted: list[Any] = []
    register_packed("note", lambda *args: noted.extend(args))
    register_packed("half", lambda x: x / 2)
    a = np.arange(6, dtype=np.float32)
    assert loaded(CALLS)(a, 2) == 1.0
    number, first, flag, text, pointer, nothing, array = noted
    assert (number, first, flag, text, nothing) == (2, 1.0, 1, "text", None)
    assert pointer == a.__array_interface__["data"][0]
    assert array.shape == (2, 3) and np.shares_memory(array, a)
    np.testing.assert_array_equal(a, [0.5, 0, 0.5, 3, 4, 5])


def test_what_a_packed_function_raises_reaches_the_caller() -> None:
    def refuse(*args: Any) -> None:
        raise KeyError("from inside")

    a = np.arange(6, dtype=np.float32)
    register_packed("note", refuse)
    with pytest.raises(KeyError, match="from inside"):
        loaded(CALLS)(a, 2)
    register_packed("note", lambda *args: None)
    register_packed("half", lambda x: "no number")
    with pytest.raises(TypeError, match="'half' returned a str; expected a number"):
        loaded(CALLS)(a, 2)
    missing = "def calls(n: int32):\n    call_packed('nobody', n, dtype=int32)".replace("'", '"')
    with pytest.raises(MeasureError, match="'nobody' is called and not registered"):
        loaded(missing)(1)


def test_an_error_in_a_parallel_loop_ends_the_function() -> None:
    def odd(i: int) -> float:
        if i:
            raise ValueError(f"thread {i}")
        return 0.0

    register_packed("note", lambda *args: None)
    register_packed("half", lambda x: odd(x) if isinstance(x, int) and x < 2 else x / 2)
    with pytest.raises(ValueError, match="thread 1"):
        loaded(CALLS)(np.arange(6, dtype=np.float32), 6)


RAISES = """\
def raises(n: int32):
    for i in parallel(n):
        call_packed("raise", i, dtype=int32)
"""


def test_the_error_of_a_loop_of_many_threads_is_that_of_the_function() -> None:
    """Of more than 64 errors the first were dropped; one of them told of memory instead."""
    first = ERRORS.keep(ValueError("first"))
    for _ in range(8 * 16):
        ERRORS.keep(ValueError("other"))
    assert str(ERRORS.take(first)) == "first"


def test_errors_do_not_outlive_the_call() -> None:
    array = np.zeros(3)
    kept = weakref.ref(array)

    def refuse(i: int, array: np.ndarray = array) -> None:
        raise ValueError(i)

    register_packed("raise", refuse)
    with pytest.raises(ValueError, match=r"^[0-9]+$"):
        loaded(RAISES)(100)
    register_packed("raise", len)
    del refuse, array
    gc.collect()
    assert kept() is None


NESTED = """\
import faulthandler
import numpy as np
from autosched import te
from autosched.driver import build, build_host
from autosched.runtime.cpu import load
from autosched.runtime.host import load_host
from autosched.runtime.packed import register_packed
from autosched.target import cpu_target
from autosched.tir.parser import parse_func

faulthandler.dump_traceback_later(60, exit=True)
a = te.placeholder((64,), name="a")
b = te.compute((64,), lambda i: a[i] + 1, name="b")
schedule = te.create_schedule(b.op)
schedule[b].parallel(b.op.axis[0])
kernels = [load(build(schedule, [a, b], cpu_target(n), name="more")) for n in (3, 4)]
x = np.zeros(64, np.float32)
results = []
register_packed("nested", lambda i: results.append(kernels[i % 2](x)))
text = '''
def outer(n: int32):
    for i in parallel(n):
        call_packed("nested", i, dtype=int32)
'''
outer = load_host(build_host(parse_func(text), cpu_target(2)))
for _ in range(4):
    outer(50)
assert len(results) == 200 and all((y == 1).all() for y in results)
assert (kernels[0](x) == 1).all()
"""


def test_a_parallel_loop_calls_kernels_of_other_numbers_of_threads() -> None:
    """The nested call waited for the loop to end, to change the number of threads."""
    subprocess.run([sys.executable, "-c", NESTED], check=True)


COLUMN = """\
def column[s0: int32, s1: int32, s2: int32](S: Buffer((4, 5), int16, strides=(s0, s1)),
        D: Buffer((4,), int16, strides=(s2,))):
    S_1 = view(S, (4 * s0,), int16)
    D_1 = view(D, (4 * s2,), int16)
    for i in range(4):
        D_1[i * s2] = S_1[i * s0 + i * s1]
"""


def test_arrays_that_lie_between_each_other_do_not_overlap() -> None:
    whole = np.arange(40, dtype=np.int16).reshape(4, 10)
    loaded(COLUMN)(whole[:, ::2], whole[:, 1])
    np.testing.assert_array_equal(whole[:, 1], [0, 12, 24, 36])
    with pytest.raises(MeasureError, match=r"argument 2 \(D_handle\) .* shares memory"):
        loaded(COLUMN)(whole[:, ::2], whole[:, 2])


ADDRESS = """\
def fill(data: pointer(int32), n: int32, device_api_context: handle):
    D = view(data, (n,), int32)
    for i in parallel(n):
        W = allocate((300,), int32, "global")
        W[i] = i * 2
        D[i] = W[i]
"""


def test_an_array_for_an_address_and_workspace_of_threads() -> None:
    values = np.zeros(50, np.int32)
    loaded(ADDRESS)(values, 50)
    np.testing.assert_array_equal(values, np.arange(50) * 2)


MODULE = """\
def main(A: Buffer((4,), float32)):
    call_extern("double", A, dtype=int32)
    call_extern("third", tvm_stack_make_array(A, tvm_stack_make_shape(4), 0, 1, 0.0, 0),
        dtype=int32)
    call_extern("inner", A, 3.0, dtype=int32)
    ret(call_extern("answer", 20, dtype=int32) + 2)

def answer(n: int32):
    assert n < 30, "the number is below 30"
    ret(n * 2)

def third(A: Buffer((4,), float32)):
    A[3] = A[3] - 1.0

def double(A: Buffer((4,), float32)):
    attrs(global_symbol=None)
    for i in range(4):
        A[i] = A[i] * 2.0

def inner(data: pointer(float32), x: float32):
    attrs(global_symbol=None)
    A = view(data, (4,), float32)
    assert x < 4.0, "x is below 4"
    W = allocate((1000,), float32, "global")
    W[0] = x
    for i in range(4):
        A[i] = A[i] + W[i - i]
"""


def test_functions_of_a_module_call_each_other() -> None:
    module = loaded(MODULE)
    assert list(module.functions) == ["main", "answer", "third"]
    a = np.arange(4, dtype=np.float32)
    assert module["main"](a) == 42
    np.testing.assert_array_equal(a, [3, 5, 7, 8])
    with pytest.raises(MeasureError, match="the number is below 30"):
        module["answer"](31)
    with pytest.raises(MeasureError, match="main, answer, third; name one"):
        module(a)
    with pytest.raises(MeasureError, match="exports no 'double'"):
        module["double"]
    later = loaded(MODULE.replace('"inner", A, 3.0', '"inner", A, 5.0'))
    with pytest.raises(MeasureError, match="x is below 4"):
        later["main"](a)


WORKSPACE = """\
def work(A: Buffer((4,), int64), n: int64):
    attr("default", "device_type", TYPE)
    attr("default", "device_id", 3)
    W = allocate((n,), int64, "global")
    call_packed("use", W, dtype=int32)
"""


def test_workspace_of_a_device_comes_from_whoever_registered_for_it() -> None:
    text = WORKSPACE.replace("TYPE", "12")
    a = np.zeros(4, np.int64)
    events: list[tuple[Any, ...]] = []
    with pytest.raises(MeasureError, match="no workspace for device type 12"):
        loaded(text)(a, 5)

    def alloc(device: int, size: int) -> int:
        events.append(("alloc", device, size))
        if size > 100:
            raise MemoryError(f"{size} bytes")
        return 0x1000

    register_workspace(12, alloc, lambda device, place: events.append(("free", device, place)))
    register_packed("use", lambda place: events.append(("use", place)))
    loaded(text)(a, 5)
    assert events == [("alloc", 3, 40), ("use", 0x1000), ("free", 3, 0x1000)]
    with pytest.raises(MemoryError, match="800 bytes"):
        loaded(text)(a, 100)
    with pytest.raises(ValueError, match="built in"):
        register_workspace(1, alloc, lambda device, place: None)


def test_no_memory_is_an_error_and_none_is_lost() -> None:
    text = WORKSPACE.replace("TYPE", "1")
    a = np.zeros(4, np.int64)
    places: list[int] = []
    with pytest.raises(MeasureError, match="out of workspace memory") as caught:
        loaded(text)(a, 2**45)
    assert caught.value.kind == "memory"

    def use(place: int) -> None:
        places.append(place)
        raise RuntimeError("on the way")

    register_packed("use", use)
    for _ in range(3):  # what was not given back is, where the function ends
        with pytest.raises(RuntimeError, match="on the way"):
            loaded(text)(a, 5000)
    assert len(set(places)) == 1 and places[0] % 64 == 0


def test_memory_of_a_scope_comes_from_the_device_api() -> None:
    """VTCM's path, on the CPU: what is asked for at run time is used and given back."""
    text = """\
def main(A: Buffer((4,), float32)):
    V = allocate((2, 4), float32, "global.vtcm")
    V_1 = view(V, (8,), float32)
    for i in range(4):
        V_1[i + 4] = A[i]
    A[0] = V_1[7]
"""
    memory, events = np.zeros(8, np.float32), list[Any]()

    def alloc(*args: Any) -> ctypes.c_void_p:
        shape = np.ctypeslib.as_array((ctypes.c_int64 * 2).from_address(args[-1])).tolist()
        events.append([*args[:-1], shape])
        return ctypes.c_void_p(memory.ctypes.data)

    register_packed("device_api.cpu.alloc_nd", alloc)
    register_packed("device_api.cpu.free_nd", lambda *args: events.append(args))
    a = np.arange(4, dtype=np.float32)
    loaded(text)(a)
    assert a[0] == 3 and memory.tolist() == [0, 0, 0, 0, 0, 1, 2, 3]
    assert events[0] == [1, 0, 2, 32, "global.vtcm", 2, [2, 4]]
    assert events[1] == (1, 0, "global.vtcm", memory.ctypes.data)


def test_memory_with_an_address_and_contexts_shared() -> None:
    memory, contexts = np.zeros(8, np.float32), list[int]()

    def context(number: int) -> int:
        contexts.append(number)
        return memory.ctypes.data

    kinds = {
        "test_head": ctypes.CFUNCTYPE(ctypes.c_void_p)(lambda: memory.ctypes.data),
        "test_context": ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_int32)(context),
        "test_use": ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)(
            lambda a, b: int(a == b)
        ),
    }
    for name, function in kinds.items():
        register_extern(name, function)
    head = Call(handle, "call_extern", (StringImm("test_head"),))
    register_memory("global.test_host", MemoryInfo(32, 256, head_address=lambda: head))
    text = """\
def main(A: Buffer((4,), int32)):
    S = allocate((8,), float32, "global.test_host")
    S[5] = 2.5
    for i in range(4):
        A[i] = call_extern("test_use", S, tvm_thread_context(call_extern("test_context", 7,
            dtype=handle)), dtype=int32)
"""
    a = np.zeros(4, np.int32)
    loaded(text)(a)
    assert memory[5] == 2.5 and a.tolist() == [1, 1, 1, 1] and contexts == [7]


@pytest.mark.parametrize("seed", range(5))
def test_random_programs_run_as_the_interpreter_says(seed: int) -> None:
    func = random_program(np.random.default_rng(100 + seed), "")
    outcomes = []
    for run in (interp.run, lambda f, args: load_host(build_host(f, cpu_target(1)))(*args)):
        mix = Mix()
        mix.register()
        run(func, [mix.table, 3])
        outcomes.append(mix.outcome)
    assert outcomes[0] == outcomes[1]


def test_a_tuned_kernel_as_a_host_function() -> None:
    """What `lower` makes of a schedule, with tiles in registers and parallel loops."""
    a, b, c, sch = matmul(48)
    func = lower(sch, [a, b, c], cpu_target(2), "matmul")
    host = load_host(build_host(func, cpu_target(2)))
    x, y = (np.random.default_rng(0).random((48, 48), np.float32) for _ in range(2))
    out = np.zeros((48, 48), np.float32)
    host(x, y, out)
    np.testing.assert_allclose(out, x @ y, rtol=1e-5)
    with pytest.raises(MeasureError, match=r"shape\[1\] has an unsatisfied constraint: 48 =="):
        host(x, y[:, :40].copy(), out)


def matmul(n: int) -> tuple[Tensor, Tensor, Tensor, Schedule]:
    a, b = (te.placeholder((n, n), name=name) for name in "ab")
    k = te.reduce_axis((0, n), "k")
    c = te.compute((n, n), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="c")
    sch = te.create_schedule(c.op)
    i, _ = sch[c].split(c.op.axis[0], factor=12)
    sch[c].parallel(i)
    return a, b, c, sch


VECTOR_ADD = """\
def main(A: Buffer((128,), float32), B: Buffer((128,), float32)):
    launch(blockIdx.x, 4)
    launch(threadIdx.x, 32)
    B[blockIdx.x * 32 + threadIdx.x] = A[blockIdx.x * 32 + threadIdx.x] + 1.0
"""


def test_the_host_of_a_kernel_launches_it() -> None:
    """A vector addition over 128 elements in 4 blocks of 32 threads (passes.md 11).

    The kernel runs in the interpreter, on memory of the host that is said to be a GPU's.
    """
    module = lower_to_kernels(parse_func(VECTOR_ADD))
    kernel = module["main_kernel"]
    assert kernel.attrs["tir.kernel_launch_params"] == ["blockIdx.x", "threadIdx.x"]
    host = Sequential(host_pipeline("cuda"))(module)
    assert list(host.functions) == ["main"]
    text = repr(host)
    assert 'call_packed_lowered("main_kernel", stack_value, stack_tcode, 0, 4' in text
    events: list[Any] = []

    def launch(a: int, b: int, *sizes: int) -> None:
        events.append(sizes)
        arrays = [DLTensor.of(ones(128)) for _ in range(2)]
        for array, address in zip(arrays, (a, b), strict=True):
            array.data = address
        interp.run(kernel, [array.numpy() for array in arrays])

    register_packed("main_kernel", launch)
    register_packed("__tvm_set_device", lambda kind, number: events.append((kind, number)))
    x, y = np.arange(128, dtype=np.float32), np.zeros(128, np.float32)
    main = load_host(build_host(module, cpu_target(1), "cuda"))
    main(*(on(array, device_type=2, device_id=1) for array in (x, y)))
    assert events == [(2, 1), (4, 32)]
    np.testing.assert_array_equal(y, x + 1)
    with pytest.raises(MeasureError, match="device_type has an unsatisfied constraint: 2 == "):
        main(x, y)


def test_what_cannot_be_built() -> None:
    with pytest.raises(CompileError, match="makes code for the CPU, the target is cuda"):
        build_host(parse_func(SCALE), cuda_target())
    text = 'def main(n: int32):\n    call_extern("no_such_function", n, dtype=int32)'
    with pytest.raises(MeasureError, match="'no_such_function', which is not in this process"):
        loaded(text)
