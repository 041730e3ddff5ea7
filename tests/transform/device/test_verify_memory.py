import pytest

from autosched import te
from autosched.driver import lower
from autosched.errors import ScheduleError
from autosched.target import cpu_target, cuda_target
from autosched.tir.buffer import decl_buffer
from autosched.tir.expr import IntImm, Var
from autosched.tir.op import const
from autosched.tir.stmt import AttrStmt, BufferStore, For, ForKind
from autosched.transform.device.verify_memory import VerifyMemory
from kit.types import MakeFunc

A, B = decl_buffer((8,), "float32", "A"), decl_buffer((8,), "float32", "B")
i = Var("i")
copy = For(i, IntImm(0), IntImm(8), ForKind.SERIAL, BufferStore(B, A[i], (i,)))


def test_host_access_is_refused(make_func: MakeFunc) -> None:
    func = make_func(copy, A, B)
    with pytest.raises(ScheduleError, match="buffer B is accessed by the host"):
        VerifyMemory("cuda")(func)


def test_the_message_names_what_is_read(make_func: MakeFunc) -> None:
    T = decl_buffer((8,), "float32", "T")
    func = make_func(BufferStore(T, A[0], (IntImm(0),)), A)
    with pytest.raises(ScheduleError, match=r"buffer A .* bind the loops"):
        VerifyMemory("cuda")(func)


def test_the_target_attribute_decides(make_func: MakeFunc) -> None:
    func = make_func(copy, A, B, target=cuda_target())
    with pytest.raises(ScheduleError, match="VerifyMemory"):
        VerifyMemory()(func)
    on_cpu = make_func(copy, A, B, target=cpu_target())
    assert VerifyMemory()(on_cpu) is on_cpu
    without = make_func(copy, A, B)
    assert VerifyMemory()(without) is without


def test_threads_may(make_func: MakeFunc) -> None:
    axis = te.thread_axis((0, 8), "threadIdx.x")
    store = BufferStore(B, A[axis.var] + const(1.0), (axis.var,))
    func = make_func(AttrStmt(axis, "thread_extent", IntImm(8), store), A, B)
    assert VerifyMemory("cuda")(func) is func


def test_stages_of_a_kernel_of_their_own_are_in_global_memory() -> None:
    """Only the first element arrived: each block was taken to have the array for itself."""
    X = te.placeholder((8,), name="X")
    Y = te.compute((8,), lambda a: X[7 - a] + 1.0, name="Y")
    for scope in ("global", "shared"):
        s = te.create_schedule(Y.op)
        copy = s.cache_read(X, scope, [Y])
        s[copy].bind(s[copy].leaf_iter_vars[0], te.thread_axis("blockIdx.x"))
        s[Y].bind(s[Y].leaf_iter_vars[0], te.thread_axis("threadIdx.x"))
        if scope == "global":
            lower(s, [X, Y], cuda_target())
    with pytest.raises(ScheduleError, match=r"would fill shared memory, of which each blockIdx\.x"):
        lower(s, [X, Y], cuda_target())


@pytest.mark.parametrize("extent", [0, 8])
def test_parallel_loops_of_kernels_are_refused(make_func: MakeFunc, extent: int) -> None:
    store = BufferStore(B, A[i], (i,))
    parallel = For(i, IntImm(0), IntImm(extent), ForKind.PARALLEL, store)
    launch = AttrStmt(te.thread_axis("blockIdx.x"), "thread_extent", IntImm(4), parallel)
    func = make_func(launch, A, B)
    with pytest.raises(ScheduleError, match="the loop i is inside a kernel, where none can be par"):
        VerifyMemory("cuda")(func)
    assert VerifyMemory("cpu")(func) is func
