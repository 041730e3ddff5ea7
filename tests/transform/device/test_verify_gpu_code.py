import pytest

from autosched.errors import ConfigError, ScheduleError
from autosched.tir.buffer import decl_buffer
from autosched.tir.dtype import DType
from autosched.tir.expr import Cast, IntImm, IterKind, IterVar, Ramp, Var
from autosched.tir.stmt import TRUE, Allocate, AttrStmt, BufferStore, For, ForKind, Stmt, seq
from autosched.transform.device.verify_gpu_code import VerifyGPUCode
from kit.types import MakeFunc

A = decl_buffer((4096,), "float32", "A")
B = decl_buffer((4096,), "float32", "B")


def launch(tag: str, extent: Var | int, body: Stmt, key: str = "thread_extent") -> AttrStmt:
    value = IntImm(extent) if isinstance(extent, int) else extent
    return AttrStmt(IterVar(None, Var(tag), IterKind.THREAD, tag), key, value, body)


def allocate(size: int, scope: str, body: Stmt, dtype: str = "float32") -> Allocate:
    buffer = decl_buffer((size,), dtype, "buf", scope=scope)
    return Allocate(buffer.data, buffer.dtype, (IntImm(size),), TRUE, body)


STORE = BufferStore(B, A[0], (IntImm(0),))


def vector(stride: int = 1, lanes: int = 4) -> BufferStore:
    index = (Ramp(IntImm(0), IntImm(stride), lanes),)
    return BufferStore(B, A[index], index)


def kernel(body: Stmt, x: int = 32, y: int = 4) -> AttrStmt:
    return launch("blockIdx.x", 8, launch("threadIdx.x", x, launch("threadIdx.y", y, body)))


CASES = {
    "threads": (
        kernel(STORE),
        {"max_threads_per_block": 127},
        "128 threads per block, at most 127 are allowed",
    ),
    "thread_x": (kernel(STORE), {"max_thread_x": 31}, "32 threads in threadIdx.x, at most 31"),
    "thread_y": (kernel(STORE), {"max_thread_y": 3}, "4 threads in threadIdx.y, at most 3"),
    "thread_z": (
        launch("threadIdx.z", 65, STORE),
        {"max_thread_z": 64},
        "65 threads in threadIdx.z, at most 64",
    ),
    "repeated": (
        kernel(seq(launch("threadIdx.x", 16, STORE))),
        {},
        "threadIdx.x has extents 32 and 16, all of them must be equal",
    ),
    "symbolic": (
        launch("threadIdx.x", Var("n"), STORE),
        {},
        "the extent of threadIdx.x must be a constant, found n",
    ),
    "local": (
        kernel(allocate(3, "local", allocate(4, "local", STORE))),
        {"max_local_memory_per_block": 27},
        "28 bytes of local memory per block, at most 27",
    ),
    "shared": (
        kernel(allocate(64, "shared", STORE, "float16")),
        {"max_shared_memory_per_block": 127},
        "128 bytes of shared memory per block, at most 127",
    ),
    "vthread attribute": (
        launch("blockIdx.x", 2, launch("vthread", 9, STORE, "virtual_thread")),
        {"max_vthread": 8},
        "9 virtual threads, at most 8",
    ),
    "vthread loop": (
        kernel(For(Var("vthread.s"), IntImm(0), IntImm(9), ForKind.SERIAL, STORE)),
        {"max_vthread": 8},
        "9 virtual threads, at most 8",
    ),
    "store": (
        kernel(vector()),
        {"max_vector_bytes": 8},
        "16 bytes in the vector store to B, at most 8",
    ),
    "stride": (
        kernel(BufferStore(B, vector(1).value, (Ramp(IntImm(0), IntImm(2), 4),))),
        {"max_vector_bytes": 15},
        "16 bytes in the",
    ),
    "cast": (
        kernel(BufferStore(B, Cast(DType("float32x4"), vector().value), vector().indices)),
        {"max_vector_bytes": 15},
        "bytes in the vector",
    ),
    "allocation": (
        kernel(allocate(2, "local", STORE, "float32x8")),
        {"max_vector_bytes": 16},
        "32 bytes in the vector allocation of buf, at most 16",
    ),
    "kernels": (
        seq(kernel(STORE), kernel(STORE)),
        {"max_kernels": 1},
        "kernel 2 of main: 2 kernels, at most 1",
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_refuses_what_is_beyond_a_limit(
    make_func: MakeFunc, case: tuple[Stmt, dict[str, int], str]
) -> None:
    body, limits, message = case
    with pytest.raises(ScheduleError, match=message):
        VerifyGPUCode(**limits)(make_func(body, A, B))


def test_strided_vector_of_narrow_values(make_func: MakeFunc) -> None:
    half = decl_buffer((64,), "float16", "H")
    index = Ramp(IntImm(0), IntImm(2), 4)
    func = make_func(kernel(BufferStore(half, half[index], (index,))), half)
    with pytest.raises(ScheduleError, match="16 bytes in the strided index of H, at most 8"):
        VerifyGPUCode(max_vector_bytes=8)(func)


def test_within_the_limits_returns_the_same_object(make_func: MakeFunc) -> None:
    body = allocate(64, "shared", allocate(4, "local", seq(vector(), STORE)))
    func = make_func(seq(kernel(body), kernel(body, x=64, y=2)), A, B)
    check = VerifyGPUCode(
        max_local_memory_per_block=16,
        max_shared_memory_per_block=256,
        max_threads_per_block=128,
        max_vector_bytes=16,
        max_vthread=1,
        max_kernels=2,
    )
    assert check(func) is func
    assert VerifyGPUCode()(func) is func


def test_a_repeated_thread_counts_once(make_func: MakeFunc) -> None:
    func = make_func(kernel(launch("threadIdx.x", 32, STORE)), A, B)
    assert VerifyGPUCode(max_threads_per_block=128)(func) is func


def test_limits_of_a_mapping() -> None:
    assert VerifyGPUCode.of({"max_thread_x": 3}) == VerifyGPUCode(max_thread_x=3)
    with pytest.raises(ConfigError, match="unknown limit 'max_warps'; known limits: max_local"):
        VerifyGPUCode.of({"max_warps": 1})


@pytest.mark.parametrize("scope", ["shared", "local"])
def test_memory_without_a_constant_size_is_compiled_by_nobody(
    scope: str, make_func: MakeFunc
) -> None:
    """A tile of an input that a transposed convolution reads at (i + r) // 2; Ansor counts it 0."""
    r = Var("r")
    buffer = decl_buffer((r * 3 + 3,), "float32", "buf", scope=scope)
    tile = Allocate(buffer.data, buffer.dtype, buffer.shape, TRUE, STORE)
    func = make_func(kernel(For(r, IntImm(0), IntImm(2), ForKind.SERIAL, tile)), A, B)
    assert VerifyGPUCode(max_shared_memory_per_block=1, max_local_memory_per_block=1)(func) is func
    expected = r"the size of buf must be a constant, found r \* 3 \+ 3 elements$"
    with pytest.raises(ScheduleError, match=expected):
        VerifyGPUCode(max_merged_shared_memory_per_block=49152)(func)
