"""The Python code printed for candidates that the search draws gives the same TIR when run."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from autosched import te, workloads
from autosched.search.options import SearchOptions
from autosched.search.rules.protocol import Context
from autosched.search.space import SearchSpace
from autosched.state.dag import ComputeDAG
from autosched.state.python_schedule import python_schedule
from autosched.state.steps import SplitStep
from autosched.target import HardwareParams
from autosched.te.lowering.to_prim_func import schedule_to_prim_func
from autosched.tir.equal import structural_equal
from autosched.tir.printer import to_text

CONV = {"N": 1, "CI": 4, "CO": 8, "K": 3, "stride": 1, "padding": 1}
IMAGE = {**CONV, "H": 8, "W": 8}
ARGS = {
    "matmul": {"M": 48, "N": 64, "K": 96},
    "batch_matmul": {"B": 3, "M": 32, "N": 16, "K": 24},
    "dense_bias_relu": {"M": 16, "N": 40, "K": 32},
    "conv1d_nlc": {**CONV, "L": 32, "stride": 2},
    "conv2d_nhwc": {k: v for k, v in IMAGE.items() if k != "K"} | {"KH": 3, "KW": 3},
    "conv3d_ndhwc": {**IMAGE, "D": 4},
    "depthwise_conv2d_nhwc": {"N": 1, "H": 14, "W": 14, "C": 8, "K": 3, "stride": 1, "padding": 1},
    "conv2d_transpose_nhwc": {**IMAGE, "H": 4, "W": 4, "K": 4, "stride": 2},
    "conv2d_capsule_nhwijc": {**IMAGE, "H": 4, "W": 4},
    "norm_bmn": {"B": 2, "M": 32, "N": 64},
    "conv2d_winograd_nhwc": {"N": 1, "H": 8, "W": 8, "CI": 4, "CO": 8},
    "conv2d_nchw_bn_relu": IMAGE,
    "dense_requantised": {"M": 16, "N": 40, "K": 32},
    "conv2d_nhwc_requantised": {k: v for k, v in IMAGE.items() if k != "K"} | {"KH": 3, "KW": 3},
    "softmax": {"M": 16, "N": 64},
    "transpose_batch_matmul_softmax": {"B": 1, "S": 16, "H": 4, "D": 8},
    "max_pool2d_nchw": {"N": 1, "C": 8, "H": 16, "W": 16, "K": 3, "stride": 2, "padding": 1},
    "layer_norm": {"M": 16, "N": 64},
    "add_relu": {"M": 32, "N": 48},
}
ATTEMPTS = 40  # ThreadBind discards most samples of small convolutions


def test_every_workload_is_here() -> None:
    assert list(ARGS) == list(workloads.WORKLOADS)


@pytest.mark.parametrize("target", ["cpu", "cuda"])
@pytest.mark.parametrize("name", ARGS)
def test_printed_code_gives_the_same_program(name: str, target: str) -> None:
    dag = ComputeDAG(workloads.get(name).tensors(**ARGS[name]))
    gpu = target == "cuda"
    hardware = HardwareParams.default("cuda") if gpu else HardwareParams(num_cores=8)
    context = Context(dag, hardware, gpu, SearchOptions())
    space = SearchSpace.of(context)
    samples = space.attempts(np.random.default_rng(0), ATTEMPTS)
    steps = samples[0] if samples else space.sketches[0].steps
    if not samples:  # nothing but the discarded: the least tiles will do
        steps = tuple(
            replace(s, lengths=(1,) * len(s.lengths)) if isinstance(s, SplitStep) else s
            for s in steps
        )
    schedule, tensors = dag.apply_steps(steps)
    expected = schedule_to_prim_func(schedule, tensors)
    names: dict[str, Any] = {"te": te, **{op.name: op.output(0) for op in dag.outputs}}
    exec(python_schedule(dag, steps), names)
    found = schedule_to_prim_func(names["s"], tensors)
    assert structural_equal(expected, found)
    assert to_text(expected) == to_text(found)
