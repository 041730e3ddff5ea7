"""Weights that are stored as a tensor instruction packs them: no packing is left in the kernel."""

from __future__ import annotations

import json

import numpy as np
import pytest

from autosched import te
from autosched.driver import build_steps, lower_steps
from autosched.layout import LayoutChange, LayoutOption
from autosched.runtime.cpu import load
from autosched.search.options import SearchOptions
from autosched.search.rules.protocol import Context
from autosched.search.space import SearchSpace
from autosched.state.dag import ComputeDAG
from autosched.state.layout_rewrite import rewrite_layout
from autosched.target import cpu_target
from autosched.te.intrin.registry import available, instruction
from autosched.te.operations.operation import LAYOUT_FREE
from autosched.te.operations.tensor import Tensor
from autosched.tir.interp import run
from autosched.tir.stmt import Allocate
from autosched.tir.walk import stmts

TARGET = cpu_target(1)
STORED = LayoutOption.FOR_PRE_TRANSFORMED


def space_of(name: str, n: int, turned: bool) -> tuple[SearchSpace, list[Tensor]]:
    """The candidates of C[32, n] = A[32, 64] * B, with bytes for A and B."""
    it = instruction(name)
    left = te.placeholder((32, 64), it.a.dtype.name, "A")
    right = te.placeholder((n, 64) if turned else (64, n), it.b.dtype.name, "B")
    k = te.reduce_axis((0, 64), "k")
    out: Tensor = te.compute(
        (32, n),
        lambda i, j: te.sum(
            left[i, k].astype("int32") * (right[j, k] if turned else right[k, j]).astype("int32"),
            axis=k,
        ),
        "C",
        attrs={LAYOUT_FREE: [right]},
    )
    dag = ComputeDAG([left, right, out])
    context = Context(dag, TARGET.hardware, False, SearchOptions(space="autosched"), (it,))
    return SearchSpace.of(context), [left, right, out]


@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("name", ["vpdpbusd.zmm", "amx.tdpbusd"])
def test_packed_weights_are_an_argument(name: str, turned: bool) -> None:
    space, tensors = space_of(name, 64, turned)
    dag, rng = space.context.dag, np.random.default_rng(0)
    steps = space.sample(rng, 1)[0]
    found = rewrite_layout(dag, steps, STORED)
    (change,) = found.changes
    assert LayoutChange.from_json(json.loads(json.dumps(change.to_json()))) == change
    a = rng.integers(0, 255, (32, 64)).astype(np.uint8)
    b = rng.integers(-128, 127, [int(e.value) for e in tensors[1].shape]).astype(np.int8)  # type: ignore[attr-defined]  # constants
    func = lower_steps(dag, steps, TARGET, layout=STORED)
    names = [s.buffer_var.name for s in stmts(func.body) if isinstance(s, Allocate)]
    assert not any("B" in each for each in names)
    c = np.zeros((32, 64), np.int32)
    stored = change.transform(b)
    assert stored.shape == change.new_shape == tuple(int(e.value) for e in func.buffers[1].shape)  # type: ignore[attr-defined]  # constants
    run(func, [a, stored, c])
    expected = a.astype(np.int32) @ (b.T if turned else b).astype(np.int32)
    np.testing.assert_array_equal(c, expected)
    if instruction(name) in available(TARGET):
        kernel = load(build_steps(dag, steps, TARGET, layout=STORED))
        np.testing.assert_array_equal(kernel(*kernel.prepare(a, b)), expected)


def test_padded_weights_are_packed_in_the_kernel() -> None:
    space, _ = space_of("amx.tdpbusd", 50, turned=False)
    steps = space.sample(np.random.default_rng(0), 1)[0]
    assert rewrite_layout(space.context.dag, steps, STORED).changes == ()


@pytest.mark.parametrize("option", [LayoutOption.INSERT_TRANSFORM_STAGE, STORED])
def test_an_input_that_others_read_too_is_packed_in_the_kernel(option: LayoutOption) -> None:
    """The loops of the sum would give it an order that the instruction could not pack."""
    a, b = te.placeholder((32, 64), "uint8", "A"), te.placeholder((64, 64), "int8", "B")
    k, r = (te.reduce_axis((0, 64), name) for name in "kr")
    attrs = {LAYOUT_FREE: [b]}
    c = te.compute(
        (32, 64),
        lambda i, j: te.sum(a[i, k].astype("int32") * b[k, j].astype("int32"), axis=k),
        name="C",
    )
    d = te.compute((64,), lambda j: te.sum(b[r, j].astype("int32"), axis=r), name="D", attrs=attrs)
    dag = ComputeDAG([a, b, c, d])
    steps = dag.init_state.use_instruction(2, "vpdpbusd.zmm", 4, 1, False, False)[0].steps
    assert rewrite_layout(dag, steps, option).changes == ()
    plain = dag.init_state.split(3, dag.init_state.stages[3].iters[0], [8])[0].steps
    (change,) = rewrite_layout(dag, plain, option).changes
    assert change.name == "B"
