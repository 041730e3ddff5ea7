"""Small tasks and their contexts."""

import pytest

from autosched.search.featurize import make_handler
from autosched.search.options import SearchOptions
from autosched.search.rules.protocol import Context
from autosched.search.space import SearchSpace
from autosched.target import HardwareParams, cuda_target
from autosched.task import Task

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


class StubHelper:
    """No second process."""

    def start(self):
        return self

    def close(self) -> None:
        pass

    def send(self, request) -> None:
        self.reply = make_handler()(request)

    def receive(self, timeout, stage):
        return self.reply


def _task(name, target="cpu"):
    kind = cuda_target() if target == "cuda" else "cpu"
    return Task.from_workload(name, target=kind, **WORKLOADS[name])


def _context(task, **options):
    gpu = task.target.is_gpu
    hardware = HardwareParams.default("cuda") if gpu else HardwareParams(num_cores=8)
    return Context(task.dag, hardware, gpu, SearchOptions(**options))


@pytest.fixture(scope="session")
def make_task():
    """(workload, target) -> a small task."""
    return _task


@pytest.fixture(scope="session")
def make_context():
    """(task, **search options) -> its context; a CPU has eight cores on every machine."""
    return _context


@pytest.fixture(scope="session")
def make_space():
    """(task, **search options) -> its search space; a CPU has eight cores on every machine."""
    return lambda task, **options: SearchSpace.of(_context(task, **options))


@pytest.fixture(scope="session", params=["cpu", "cuda"])
def target(request):
    return request.param


# Few samples of a small convolution keep a GPU's limits: drawing them takes seconds.
TASKS = [
    (n, t) for n in sorted(WORKLOADS) for t in ("cpu", "cuda") if n != "conv2d_nhwc" or t == "cpu"
]


@pytest.fixture(scope="session", params=TASKS, ids="-".join)
def task(request):
    return _task(*request.param)


@pytest.fixture(scope="session")
def space(task):
    return SearchSpace.of(_context(task))


@pytest.fixture(scope="session")
def stub_helper():
    return StubHelper
