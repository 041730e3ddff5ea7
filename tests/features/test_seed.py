"""The figures of the second schedule of seed 002, worked out by hand there.

C[32,1000] = A[32,2048] * B[2048,1000] on CUDA: the store to the shared copy of A reads A with
reuse distance 76800 iterations and 622592 bytes, 100 times, with stride 1.
"""

import gzip
import json
from pathlib import Path

import numpy as np
import pytest

from autosched import workloads
from autosched.driver import lower_for_features
from autosched.state.dag import ComputeDAG
from autosched.state.steps import steps_from_json
from autosched.target import HardwareParams, Target
from features.extract import features_from_func
from features.names import FEATURE_NAMES

GOLDEN = Path(__file__).resolve().parent.parent / "golden" / "seed_matmul.jsonl.gz"


@pytest.fixture(scope="module")
def second():
    with gzip.open(GOLDEN, "rt") as file:
        line = next(d for d in map(json.loads, file) if d.get("case") == "seed-second")
    dag = ComputeDAG(workloads.get(line["workload"]).tensors(**line["args"]))
    target = Target("cuda", HardwareParams.from_list(line["hardware"]))
    func = lower_for_features(dag, steps_from_json(line["steps"]), target)
    return features_from_func(func, log_scale=False)


def column(row, name):
    return float(row[FEATURE_NAMES.index(name)])


def test_reuse_of_a_in_the_store_to_its_shared_copy(second):
    rows = [r for r in second if column(r, "B0.reuse_dis_bytes") == 622592]
    assert len(rows) == 1
    row = rows[0]
    assert column(row, "B0.acc_type.kRead") == 1
    assert column(row, "B0.reuse_type.kLoopMultipleRead") == 1
    assert column(row, "B0.reuse_dis_iter") == 76800
    assert column(row, "B0.reuse_ct") == 100
    assert column(row, "B0.stride") == 1


def test_the_launch_is_the_seeds(second):
    stored = second[second[:, FEATURE_NAMES.index("num_loops")] > 0]
    assert np.all(stored[:, FEATURE_NAMES.index("is_gpu")] == 1)
    assert np.all(stored[:, FEATURE_NAMES.index("blockIdx_x_len")] == 2)
    assert np.all(stored[:, FEATURE_NAMES.index("threadIdx_x_len")] == 100)
    assert np.all(stored[:, FEATURE_NAMES.index("vthread_len")] == 8)
