"""Foreseen vector code, for 32 registers of 16 floats."""

import pytest

from autosched.features.autosched_1.vector_code import VectorCode, vector_code
from autosched.nest.core import core_of
from autosched.nest.loop_nest import InnerLoop
from autosched.nest.plan import ScalarStore

CORE = core_of(64)


def matmul(
    i: int = 6, j: int = 32, k: int = 256, n: int = 512
) -> tuple[InnerLoop, InnerLoop, InnerLoop]:
    """C[i, j] += A[i, k] * B[k, j]; reads are A, B."""
    return (InnerLoop(k, 0, (1, n)), InnerLoop(i, n, (k, 0)), InnerLoop(j, 1, (0, 1)))


def code(loops: tuple[InnerLoop, ...], reads: int = 2) -> VectorCode:
    return vector_code(ScalarStore(loops, reads, 4, 1.0, True, True), CORE, reads + 1)


def test_a_matmul_tile_fills_the_registers() -> None:
    found = code(matmul())
    assert (found.lanes, found.folded, found.gathers) == (16, False, 0)
    assert found.accumulators == 12  # 6 rows of 2 vectors
    assert 12 < found.registers <= 32
    assert found.cycles == pytest.approx(0.5, abs=0.1)  # two multiply-adds a cycle


def test_one_accumulator_waits_for_itself() -> None:
    found = code(matmul(i=1, j=16))
    assert (found.lanes, found.accumulators) == (16, 1)
    assert found.cycles >= 4  # the latency of a multiply-add


def test_a_large_tile_is_cut_to_what_fits() -> None:
    found = code(matmul(i=64, j=64))
    assert found.registers <= 32
    assert found.accumulators > 8


def test_few_outputs_leave_lanes_empty() -> None:
    loops = (InnerLoop(16, 0, (1, 512)), InnerLoop(8, 512, (16, 0)), InnerLoop(4, 1, (0, 1)))
    assert code(loops).lanes == 4


def test_lanes_join_across_loops() -> None:
    inner = (InnerLoop(4, 4, (0, 4)), InnerLoop(4, 1, (0, 1)))
    assert code((InnerLoop(8, 0, (1, 512)), *inner)).lanes == 16


def test_lanes_along_the_reduction() -> None:
    """C[i, j] += A[i, k] * B[j, k]: only k is contiguous in what is read."""
    loops = (InnerLoop(8, 512, (256, 0)), InnerLoop(8, 1, (0, 256)), InnerLoop(256, 0, (1, 1)))
    found = code(loops)
    assert (found.lanes, found.folded) == (16, True)


def test_apart_lanes_are_gathered() -> None:
    """A transpose: neighbouring outputs come from elements 64 apart."""
    found = code((InnerLoop(64, 64, (1,)), InnerLoop(64, 1, (64,))), reads=1)
    assert (found.lanes, found.gathers, found.accumulators) == (16, 1, 1)
    assert found.cycles == pytest.approx(8)  # sixteen loads, two a cycle


def test_a_copy_moves_a_vector_a_cycle() -> None:
    assert code((InnerLoop(64, 1, (1,)),), reads=1).cycles == pytest.approx(1)


def test_a_loop_is_cut_into_vectors_and_a_rest() -> None:
    """28 outputs are vectors of 16 and of 12 lanes: 14 on average."""
    found = code((InnerLoop(64, 0, (1, 28)), InnerLoop(6, 28, (64, 0)), InnerLoop(28, 1, (0, 1))))
    assert found.lanes == pytest.approx(14)


def test_lanes_join_across_reductions() -> None:
    """k = k.outer * 8 + k.inner: both together fill a vector."""
    loops = (
        InnerLoop(32, 0, (8, 8)),
        InnerLoop(5, 1, (0, 256)),
        InnerLoop(8, 0, (1, 1)),
    )
    found = code(loops)
    assert (found.lanes, found.folded) == (16, True)


def test_cycles_count_all_steps_that_accumulators_live_through() -> None:
    """The short reduction takes the one outside along: 64 * 4 steps, not 4, between their loads
    and stores."""
    short = (InnerLoop(64, 0, (4, 2048)), InnerLoop(6, 512, (256, 0)), InnerLoop(4, 0, (1, 512)))
    alone = short[1:]
    outputs = InnerLoop(32, 1, (0, 1))
    assert code((*short, outputs)).accumulators == code((*alone, outputs)).accumulators
    assert code((*short, outputs)).cycles < code((*alone, outputs)).cycles


def test_the_order_names_the_first_accesses_only() -> None:
    """A second place of an access is read, too, but memory traffic follows the first."""
    store = ScalarStore((InnerLoop(64, 1, (1, 0, 1)),), 3, 4, 1.0)
    assert {len(visit.strides) for visit in vector_code(store, CORE, 3).order} == {3}
    assert {len(visit.strides) for visit in vector_code(store, CORE, 4).order} == {4}
