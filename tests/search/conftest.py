"""Small tasks and their contexts."""

from typing import Any

import pytest

from autosched.search.options import SearchOptions
from autosched.search.rules.protocol import Context
from autosched.search.space import SearchSpace
from autosched.target import HardwareParams, cuda_target
from autosched.task import Task
from kit.helper import StubHelper, remember_features, train_briefly
from kit.types import MakeContext, MakeSpace, MakeTask

WORKLOADS: dict[str, dict[str, Any]] = {
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


def _task(name: str, target: str = "cpu") -> Task:
    kind = cuda_target() if target == "cuda" else "cpu"
    return Task.from_workload(name, target=kind, **WORKLOADS[name])


def _context(task: Task, **options: Any) -> Context:
    gpu = task.target.is_gpu
    hardware = HardwareParams.default("cuda") if gpu else HardwareParams(num_cores=8)
    return Context(task.dag, hardware, gpu, SearchOptions(**options))


@pytest.fixture(scope="session")
def make_task() -> MakeTask:
    """(workload, target) -> a small task."""
    return _task


@pytest.fixture(scope="session")
def make_context() -> MakeContext:
    """(task, **search options) -> its context; a CPU has eight cores on every machine."""
    return _context


@pytest.fixture(scope="session")
def make_space() -> MakeSpace:
    """(task, **search options) -> its search space; a CPU has eight cores on every machine."""

    def make(task: Task, **options: Any) -> SearchSpace:
        return SearchSpace.of(_context(task, **options))

    return make


@pytest.fixture(scope="session", params=["cpu", "cuda"])
def target(request: pytest.FixtureRequest) -> str:
    return str(request.param)


# Few samples of a small convolution keep a GPU's limits: drawing them takes seconds.
TASKS = [
    (n, t) for n in sorted(WORKLOADS) for t in ("cpu", "cuda") if n != "conv2d_nhwc" or t == "cpu"
]


@pytest.fixture(scope="session", params=TASKS, ids="-".join)
def task(request: pytest.FixtureRequest) -> Task:
    return _task(*request.param)


@pytest.fixture(scope="session")
def space(task: Task) -> SearchSpace:
    return SearchSpace.of(_context(task))


@pytest.fixture(scope="session")
def stub_helper() -> type[StubHelper]:
    return StubHelper


@pytest.fixture
def remembered_features(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of a candidate are worked out once for all tests that use this."""
    remember_features(monkeypatch)


@pytest.fixture
def brief_training(monkeypatch: pytest.MonkeyPatch) -> None:
    """Models are trained for a few rounds: what they learn does not matter here."""
    train_briefly(monkeypatch)
