"""Lanes and register tiles, for 32 registers of 16 floats."""

import pytest

from autosched.features.autosched_1.machine import machine_of
from autosched.features.autosched_1.registers import InnerLoop, register_tile
from autosched.target import HardwareParams, Target

MACHINE = machine_of(Target("cpu", HardwareParams(2), 2, "cascadelake", vector_bytes=64))


def matmul(i=6, j=32, k=256, n=512):
    """C[i, j] += A[i, k] * B[k, j]; reads are A, B."""
    return (InnerLoop(k, 0, (1, n)), InnerLoop(i, n, (k, 0)), InnerLoop(j, 1, (0, 1)))


def tile(loops, reads=2):
    return register_tile(loops, reads, 4, 1.0, MACHINE)


def test_a_matmul_tile_fills_the_registers():
    found = tile(matmul())
    assert (found.lanes, found.folded, found.gathers) == (16, False, 0)
    assert found.accumulators == 12  # 6 rows of 2 vectors
    assert 12 < found.registers <= 32
    assert found.cycles == pytest.approx(0.5, abs=0.1)  # two multiply-adds a cycle


def test_one_accumulator_waits_for_itself():
    found = tile(matmul(i=1, j=16))
    assert (found.lanes, found.accumulators) == (16, 1)
    assert found.cycles >= 4  # the latency of a multiply-add


def test_a_large_tile_is_cut_to_what_fits():
    found = tile(matmul(i=64, j=64))
    assert found.registers <= 32
    assert found.accumulators > 8


def test_few_outputs_leave_lanes_empty():
    loops = (InnerLoop(16, 0, (1, 512)), InnerLoop(8, 512, (16, 0)), InnerLoop(4, 1, (0, 1)))
    assert tile(loops).lanes == 4


def test_lanes_join_across_loops():
    inner = (InnerLoop(4, 4, (0, 4)), InnerLoop(4, 1, (0, 1)))
    assert tile((InnerLoop(8, 0, (1, 512)), *inner)).lanes == 16


def test_lanes_along_the_reduction():
    """C[i, j] += A[i, k] * B[j, k]: only k is contiguous in what is read."""
    loops = (InnerLoop(8, 512, (256, 0)), InnerLoop(8, 1, (0, 256)), InnerLoop(256, 0, (1, 1)))
    found = tile(loops)
    assert (found.lanes, found.folded) == (16, True)


def test_apart_lanes_are_gathered():
    """A transpose: neighbouring outputs come from elements 64 apart."""
    found = tile((InnerLoop(64, 64, (1,)), InnerLoop(64, 1, (64,))), reads=1)
    assert (found.lanes, found.gathers, found.accumulators) == (16, 1, 1)
    assert found.cycles == pytest.approx(8)  # sixteen loads, two a cycle


def test_a_copy_moves_a_vector_a_cycle():
    assert tile((InnerLoop(64, 1, (1,)),), reads=1).cycles == pytest.approx(1)


def test_a_loop_is_cut_into_vectors_and_a_rest():
    """28 outputs are vectors of 16 and of 12 lanes: 14 on average."""
    found = tile((InnerLoop(64, 0, (1, 28)), InnerLoop(6, 28, (64, 0)), InnerLoop(28, 1, (0, 1))))
    assert found.lanes == pytest.approx(14)


def test_lanes_join_across_reductions():
    """k = k.outer * 8 + k.inner: both together fill a vector."""
    loops = (
        InnerLoop(32, 0, (8, 8)),
        InnerLoop(5, 1, (0, 256)),
        InnerLoop(8, 0, (1, 1)),
    )
    found = tile(loops)
    assert (found.lanes, found.folded) == (16, True)
