"""Foreseen lanes and tiles: examples, and those that the code generator chooses."""

from collections import defaultdict
from math import prod

import numpy as np
import pytest

from autosched.driver import lower_for_features, lower_steps
from autosched.features.autosched_1 import estimate
from autosched.features.autosched_1.lanes import InnerLoop, lane_nests
from autosched.features.autosched_1.rows import features_from_func
from autosched.search.space import SearchSpace
from autosched.target import HardwareParams, Target
from autosched.task import Task
from autosched.transform.vector import promote_accumulators

CANDIDATES = 8
TARGET = Target("cpu", HardwareParams(2), 2, "cascadelake", vector_bytes=64)


def nests(*loops, reads=1, reduces=True):
    return list(lane_nests(loops, reads, 16, reduces=reduces))


def test_a_vectorised_loop_is_where_lanes_begin():
    (nest,) = nests(InnerLoop(9, 0, (64,)), InnerLoop(4, 4, (4,)), InnerLoop(4, 1, (1,), True))
    assert (nest.width, nest.gathers) == (16, 0)
    assert [loop.extent for loop in nest.loops] == [9, 1]


def test_lanes_end_where_a_read_does_not_go_on_as_they_began():
    """C[i, j] of a tile 4 wide: the next row follows in C, but B starts again."""
    loops = InnerLoop(9, 0, (1, 512)), InnerLoop(8, 4, (64, 0)), InnerLoop(4, 1, (0, 1))
    (nest,) = nests(*loops, reads=2)
    assert (nest.width, nest.gathers) == (4, 0)


def test_a_loop_of_vectors_is_cut_into_whole_registers_and_a_rest():
    """25 vectors of 4: six registers of 16 lanes, and 4."""
    loops = InnerLoop(9, 0, (100,)), InnerLoop(25, 4, (4,)), InnerLoop(4, 1, (1,), True)
    whole, rest = nests(*loops)
    assert (whole.width, rest.width) == (16, 4)
    assert (whole.iterations, rest.iterations) == (9 * 96, 9 * 4)


def test_lanes_that_are_stored_apart_stay_as_they_are():
    (nest,) = nests(InnerLoop(9, 0, (1,)), InnerLoop(8, 64, (1,), True))
    assert (nest.width, nest.own, nest.scattered, nest.folded) == (8, 64, True, False)


def test_the_rest_of_a_sum_along_lanes_is_a_nest_of_its_own():
    whole, rest = nests(InnerLoop(3, 1, (50,)), InnerLoop(50, 0, (1,)))
    assert (whole.width, whole.folded, whole.iterations) == (16, True, 3 * 48)
    assert (rest.width, rest.folded, rest.iterations) == (1, False, 3 * 2)


@pytest.mark.parametrize(
    ("workload", "args"),
    [
        ("matmul", {"M": 64, "N": 64, "K": 64}),
        ("matmul", {"M": 50, "N": 100, "K": 33}),
        ("dense_bias_relu", {"M": 16, "N": 100, "K": 64}),
        (
            "conv2d_nchw_bn_relu",
            {"N": 1, "H": 14, "W": 14, "CI": 16, "CO": 16, "K": 3, "stride": 1, "padding": 1},
        ),
        (
            "depthwise_conv2d_nhwc",
            {"N": 1, "H": 14, "W": 14, "C": 48, "K": 3, "stride": 1, "padding": 1},
        ),
    ],
)
def test_the_code_generator_chooses_what_was_foreseen(workload, args, monkeypatch):
    """Lanes and accumulators of the largest reduction; a few candidates may differ, as where the
    passes before have taken loops apart."""
    task = Task.from_workload(workload, target=TARGET, **args)
    found = SearchSpace(task).sample(np.random.default_rng(0), CANDIDATES)
    assert len(found) == CANDIDATES
    foreseen, chosen = [], []
    original, build = estimate.register_tile, promote_accumulators._build

    def note_tile(loops, *rest, reduces):
        tile = original(loops, *rest, reduces=reduces)
        if reduces:
            foreseen.append((prod(loop.extent for loop in loops), tile))
        return tile

    def note_build(nest, factors, chunks):
        size = prod(axis.extent for axis in nest.axes) * nest.chunks * nest.width
        tile = prod(factors.values()) * chunks
        chosen.append((size, nest.width, tile, nest.buffer.data))
        return build(nest, factors, chunks)

    monkeypatch.setattr(estimate, "register_tile", note_tile)
    monkeypatch.setattr(promote_accumulators, "_build", note_build)
    differ = []
    for steps in found:
        foreseen.clear()
        chosen.clear()
        features_from_func(lower_for_features(task.dag, steps, task.target), task.target)
        lower_steps(task.dag, steps, task.target)
        _, tile = max(foreseen, key=lambda f: f[0])
        if not chosen:
            differ.append((steps, tile))
            continue
        sizes, vectors = defaultdict(int), defaultdict(float)
        for size, width, _, data in chosen:
            sizes[data] += size
            vectors[data] += size / width
        _, _, accumulators, data = max(chosen, key=lambda c: c[0])
        lanes = sizes[data] / vectors[data]
        if tile.accumulators != accumulators or tile.lanes != pytest.approx(lanes):
            differ.append((steps, tile, lanes, accumulators))
    assert len(differ) <= 1, differ
