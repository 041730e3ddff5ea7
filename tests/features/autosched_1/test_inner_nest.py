"""The nests that are foreseen for a candidate are those that the code generator makes."""

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from autosched import te, workloads
from autosched.driver import lower_for_features, pipeline_of
from autosched.features.autosched_1.rows import foreseen_nests
from autosched.nest.plan import Planned
from autosched.search.space import SearchSpace
from autosched.target import HardwareParams, Target
from autosched.task import Task
from autosched.te.lowering.to_prim_func import schedule_to_prim_func
from autosched.te.operations.tensor import Tensor
from autosched.te.schedule.schedule import Schedule
from autosched.tir.buffer import Buffer, decl_buffer
from autosched.tir.expr import BufferLoad, Expr, IntImm, Var, pointer
from autosched.tir.function import PrimFunc
from autosched.tir.op import const
from autosched.tir.stmt import TRUE, Allocate, BufferStore, For, ForKind, SeqStmt, Stmt, seq
from autosched.transform.expressions.simplify import Simplify
from autosched.transform.vector.promote_accumulators import PromoteAccumulators
from autosched.transform.vector.start_in_branches import StartInBranches
from autosched.transform.vector.vectorize_innermost import VectorizeInnermost
from kit.te import compute_of

CANDIDATES = 1


def target(vector_bytes: int = 64) -> Target:
    return Target("cpu", HardwareParams(2), 2, "cascadelake", vector_bytes=vector_bytes)


def counted(planned: Sequence[Planned]) -> Counter[Any]:
    """How often each nest occurs, but statements that are no loop and stay as they are."""
    return Counter(
        p.key()
        for p in planned
        if not p.buffer.endswith(".acc")
        and (p.piece.nest.moves or any(loop.extent > 1 for loop in p.piece.nest.loops))
    )


def made(func: PrimFunc, machine: Target) -> Counter[Any]:
    """The nests that the code generator makes, as its passes tell.

    Starts are rows of their own where a condition follows, into which StartInBranches moves them.
    """
    planned = []
    for transform in pipeline_of(machine):
        if isinstance(transform, StartInBranches):
            continue
        if isinstance(transform, PromoteAccumulators | VectorizeInnermost):
            planned += transform.planned(func)
        func = transform(func)
    return counted(planned)


def image(size: int, kernel: int, **others: int) -> dict[str, int]:
    return {"N": 1, "H": size, "W": size, "K": kernel, "stride": 1, "padding": 1, **others}


def conv2d(size: int, inputs: int, outputs: int, **others: int) -> dict[str, int]:
    channels = {"CI": inputs, "CO": outputs, "KH": 3, "KW": 3}
    return {"N": 1, "H": size, "W": size, **channels, "stride": 1, "padding": 1, **others}


CASES = [
    ("matmul", {"M": 500, "N": 1000, "K": 333}),
    ("matmul", {"M": 64, "N": 64, "K": 64}),
    ("matmul", {"M": 17, "N": 1, "K": 31}),
    ("batch_matmul", {"B": 12, "M": 30, "N": 96, "K": 50}),
    ("dense_bias_relu", {"M": 16, "N": 100, "K": 64}),
    ("conv1d_nlc", {"N": 2, "L": 64, "CI": 32, "CO": 48, "K": 3, "stride": 1, "padding": 1}),
    ("conv2d_nhwc", conv2d(28, 12, 28, stride=2, N=2)),
    ("conv2d_capsule_nhwijc", image(16, 3, CI=16, CO=16)),
    ("conv2d_transpose_nhwc", image(8, 4, CI=32, CO=28, stride=2)),
    ("conv2d_transpose_nhwc", image(7, 3, CI=20, CO=28, stride=2)),
    ("conv2d_nchw_bn_relu", image(7, 3, CI=20, CO=28)),
    ("conv2d_nchw_bn_relu", image(28, 3, CI=16, CO=56)),
    ("conv3d_ndhwc", image(14, 3, D=4, CI=16, CO=32)),
    ("depthwise_conv2d_nhwc", image(28, 3, C=48)),
    ("depthwise_conv2d_nhwc", image(14, 3, C=25, stride=2)),
    ("dense_requantised", {"M": 16, "N": 100, "K": 64}),
    ("conv2d_nhwc_requantised", conv2d(28, 12, 28, stride=2)),
    ("norm_bmn", {"B": 1, "M": 30, "N": 49}),
    ("softmax", {"M": 128, "N": 500}),
    ("layer_norm", {"M": 64, "N": 768}),
    ("max_pool2d_nchw", image(28, 3, C=16, stride=2)),
    ("add_relu", {"M": 30, "N": 1000}),
    ("transpose_batch_matmul_softmax", {"B": 2, "S": 30, "H": 3, "D": 10}),
]


def test_all_built_in_workloads_are_compared() -> None:
    """But the transforms of Winograd's algorithm, whose constants features take for 1."""
    others = set(workloads.WORKLOADS) - {"conv2d_winograd_nhwc"}
    assert {name for name, _ in CASES} == others


@pytest.mark.parametrize("vector_bytes", [64, 32, 16])
@pytest.mark.parametrize(("workload", "args"), CASES, ids=lambda value: str(value)[:60])
def test_every_nest_is_foreseen(workload: str, args: dict[str, Any], vector_bytes: int) -> None:
    """Loops, lanes, tiles and their order; of every buffer, not the largest alone."""
    machine = target(vector_bytes)
    task = Task.from_workload(workload, target=machine, **args)
    found = SearchSpace(task).sample(np.random.default_rng(vector_bytes), CANDIDATES)[:CANDIDATES]
    assert found
    for steps in found:
        foreseen = foreseen_nests(lower_for_features(task.dag, steps, machine), machine)
        sch, tensors = task.dag.apply_steps(steps)
        assert counted(foreseen) == made(schedule_to_prim_func(sch, tensors), machine), steps


def compare(sch: Schedule, args: list[Tensor]) -> list[Planned]:
    """Nests of a schedule; asserts that the code generator makes them."""
    machine = target()
    func = schedule_to_prim_func(sch, args)
    foreseen = foreseen_nests(Simplify()(func), machine)
    assert counted(foreseen) == made(func, machine)
    return foreseen


def matmul(m: int, n: int, k: int) -> tuple[Schedule, Tensor, list[Tensor]]:
    A, B = te.placeholder((m, k), name="A"), te.placeholder((k, n), name="B")
    r = te.reduce_axis((0, k), name="k")
    C = te.compute((m, n), lambda i, j: te.sum(A[i, r] * B[r, j], axis=r), name="C")
    return te.create_schedule(C.op), C, [A, B, C]


@pytest.mark.parametrize(("rows", "level"), [(8, 0), (64, 1)])
def test_a_loop_over_many_outputs_is_not_distributed(rows: int, level: int) -> None:
    """Start and steps of 8 * 256 outputs fit the nearest cache, of 64 * 256 only row by row."""
    sch, _, args = matmul(rows, 256, 32)
    (steps,) = compare(sch, args)  # the start is in registers
    assert steps.times == (1 if level == 0 else rows)


@pytest.mark.parametrize("key", ["auto_unroll_max_step", "unroll_explicit"])
def test_a_pragma_ends_the_nests_around_it(key: str) -> None:
    sch, C, args = matmul(8, 256, 32)
    sch[C].pragma(compute_of(C).axis[1], key, 16)
    (steps,) = compare(sch, args)
    assert steps.times == 8


def test_a_value_that_reads_one_buffer_twice_has_two_reads() -> None:
    """The lanes of A[i] and of A[i * 2] differ: one is a vector, the other gathered."""
    A = te.placeholder((128,), name="A")
    B = te.compute((64,), lambda i: A[i] + A[i * 2], name="B")
    (nest,) = compare(te.create_schedule(B.op), [A, B])
    assert (nest.piece.lanes, nest.piece.nest.gathers) == (16, 1)


def test_masked_lanes_do_not_grow_and_masked_gathers_are_no_lanes() -> None:
    A = te.placeholder((8, 8), name="A")

    def padded(i: Var, j: Var) -> Expr:
        inside = te.all(i >= 1, i < 9, j >= 1, j < 9)
        return 1.0 + te.if_then_else(inside, A[i - 1, j - 1], 0.0)

    P = te.compute((10, 10), padded, name="P")
    sch = te.create_schedule(P.op)
    (nest,) = compare(sch, [A, P])
    assert (nest.piece.lanes, nest.piece.nest.closed) == (10, True)
    sch[P].vectorize(sch[P].fuse(*P.op.axis))
    assert {nest.piece.lanes for nest in compare(sch, [A, P])} == {1}


def test_fused_loops_are_even_within_a_row() -> None:
    """A row of 24 of a wider array: 8 lanes at a time stay in one row, 16 do not."""
    A = te.placeholder((6, 32), name="A")
    B = te.compute((6, 24), lambda i, j: A[i, j], name="B")
    sch = te.create_schedule(B.op)
    sch[B].fuse(*B.op.axis)
    (nest,) = compare(sch, [A, B])
    assert nest.piece.lanes == 16
    assert nest.piece.nest.gathers == 1


def test_sums_that_are_no_sums_at_the_top_are_not_folded() -> None:
    A, r = te.placeholder((8, 64), name="A"), te.reduce_axis((0, 64), name="k")
    B = te.compute((8,), lambda i: te.sum(A[i, r], axis=r), name="B")
    folded = compare(te.create_schedule(B.op), [A, B])
    assert [nest.piece.nest.folded for nest in folded] == [True]


I, J, K = Var("i"), Var("j"), Var("k")
X, Y, Z = (decl_buffer((4096,), name=name) for name in "XYZ")


def loop(var: Var, extent: int, *body: Stmt) -> For:
    return For(var, IntImm(0), IntImm(extent), ForKind.SERIAL, seq(*body))


def add_to(buffer: Buffer, index: Expr) -> BufferStore:
    value = BufferLoad(buffer, (index,)) + BufferLoad(X, (I * 64 + J,))
    return BufferStore(buffer, value, (index,))


def foreseen(body: For) -> list[Planned]:
    handles = [pointer(f"{b.name}_h", b.dtype) for b in (X, Y, Z)]
    func = PrimFunc(tuple(handles), body, dict(zip(handles, (X, Y, Z))), {})
    nests = foreseen_nests(func, target())
    assert counted(nests) == made(func, target())
    return nests


def test_loops_that_meet_are_outside_the_nest() -> None:
    (nest,) = foreseen(loop(I, 8, loop(J, 8, add_to(Y, I + J))))
    assert nest.times == 8


def test_a_nest_that_reads_what_it_writes_elsewhere_is_none() -> None:
    value = BufferLoad(Y, (I * 64 + J,)) + BufferLoad(Y, (I * 64 + J + 1,))
    (nest,) = foreseen(loop(I, 8, loop(J, 8, BufferStore(Y, value, (I * 64 + J,)))))
    assert (nest.times, nest.piece.lanes) == (64, 1)


def test_storage_between_two_sequences_does_not_part_them() -> None:
    """Start and steps follow a nest that is not perfect: the loop over all three stays one."""
    start = loop(J, 16, BufferStore(Y, const(0.0), (I * 64 + J,)))
    steps = loop(K, 4, loop(J, 16, add_to(Y, I * 64 + J)))
    both = foreseen(loop(I, 4, start, steps))
    assert [nest.times for nest in both] == [1]
    other = loop(K, 4, add_to(Z, I * 64 + K), add_to(Z, I * 64 + K + 4))
    allocated = Allocate(pointer("spare", X.dtype), X.dtype, (IntImm(4),), TRUE, seq(start, steps))
    third = foreseen(For(I, IntImm(0), IntImm(4), ForKind.SERIAL, SeqStmt((other, allocated))))
    assert [nest.times for nest in third if nest.buffer == "Y"] == [4]
