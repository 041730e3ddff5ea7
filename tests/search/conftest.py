"""Small tasks and their contexts."""

import pytest

from autosched.target import HardwareParams, cuda_target
from autosched.task import Task
from search.options import SearchOptions
from search.rules.protocol import Context
from search.sketch import generate_sketches

WORKLOADS = {
    "matmul": {"M": 32, "N": 48, "K": 64},
    "dense_bias_relu": {"M": 16, "N": 40, "K": 32},
    "conv2d_nhwc": {
        "N": 1,
        "H": 8,
        "W": 8,
        "CI": 4,
        "CO": 8,
        "KH": 3,
        "KW": 3,
        "stride": 1,
        "padding": 1,
        "dilation": 1,
        "groups": 1,
    },
    "softmax": {"M": 16, "N": 64},
    "norm_bmn": {"B": 2, "M": 32, "N": 64},
    "max_pool2d_nchw": {"N": 1, "C": 4, "H": 10, "W": 10, "K": 3, "stride": 2, "padding": 1},
}


def _task(name, target="cpu"):
    kind = cuda_target() if target == "cuda" else "cpu"
    return Task.from_workload(name, target=kind, **WORKLOADS[name])


def _context(task, **options):
    gpu = task.target.is_gpu
    hardware = HardwareParams.default("cuda") if gpu else HardwareParams(num_cores=8)
    return Context(task.dag, hardware, gpu, SearchOptions(**options))


def _sketches(context):
    return generate_sketches(context.dag, context.hardware, context.is_gpu, context.options)


@pytest.fixture(scope="session")
def make_task():
    """(workload, target) -> a small task."""
    return _task


@pytest.fixture(scope="session")
def make_context():
    """(task, **search options) -> its context; a CPU has eight cores on every machine."""
    return _context


@pytest.fixture(scope="session")
def sketches_of():
    """context -> its sketches."""
    return _sketches


@pytest.fixture(scope="session", params=["cpu", "cuda"])
def target(request):
    return request.param


@pytest.fixture(scope="session", params=sorted(WORKLOADS))
def task(request, target):
    return _task(request.param, target)


@pytest.fixture(scope="session")
def context(task):
    return _context(task)
