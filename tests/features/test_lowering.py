"""Candidates that Ansor itself takes or refuses (benchmarks/against_ansor/states.py)."""

from __future__ import annotations

import json

from autosched import workloads
from autosched.features.lowering import features_of_steps
from autosched.state.dag import ComputeDAG
from autosched.state.steps import steps_from_json
from autosched.target import HardwareParams, Target

CUDA = Target("cuda", HardwareParams(80, 16, 64, 48 << 10, 65536, 1024, 8, 32))
# K.shared is fetched by vectors of 18, each in one row of 378, which the condition divides by
WIDE_VECTORS = """
[["CHW", 3, "local"], ["SP", 3, 0, 1, [1, 1, 1, 1], 1], ["SP", 3, 5, 5, [1, 1, 1, 5], 1],
["SP", 3, 10, 5, [1, 1, 1, 1], 1], ["SP", 3, 15, 5, [1, 5, 1, 1], 1],
["SP", 3, 20, 7, [7, 1, 1, 1], 1], ["SP", 3, 25, 3, [1, 1], 1], ["SP", 3, 28, 3, [3, 1], 1],
["SP", 3, 31, 3, [3, 1], 1], ["SP", 3, 34, 48, [6, 1], 1], ["RE", 3, [0, 5, 10, 15, 20, 1, 6, 11,
16, 21, 2, 7, 12, 17, 22, 25, 28, 31, 34, 26, 29, 32, 35, 3, 8, 13, 18, 23, 27, 30, 33, 36, 4, 9,
14, 19, 24]], ["FSP", 4, 0, 1, 3], ["FSP", 4, 4, 2, 3], ["FSP", 4, 8, 3, 3], ["FSP", 4, 12, 4, 3],
["FSP", 4, 16, 5, 3], ["RE", 4, [0, 4, 8, 12, 16, 1, 5, 9, 13, 17, 2, 6, 10, 14, 18, 3, 7, 11, 15,
19]], ["CA", 3, 4, 14], ["CHR", 2, "shared", [3]], ["CA", 3, 4, 18], ["CHR", 1, "shared", [4]],
["CA", 2, 5, 18], ["CI", 1], ["FU", 6, [0, 1, 2, 3, 4]], ["AN", 6, 0, 5],
["FU", 6, [1, 2, 3, 4, 5]], ["AN", 6, 1, 4], ["FU", 6, [2, 3, 4, 5, 6]], ["AN", 6, 2, 6],
["FU", 4, [0, 1, 2, 3, 4]], ["SP", 4, 0, 54, [18], 1], ["AN", 4, 1, 2],
["FFSP", 4, 0, [5, 4, 3, 2, 1], 1, 1], ["AN", 4, 1, 6], ["FU", 2, [0, 1, 2, 3, 4]],
["SP", 2, 0, 270, [1], 1], ["AN", 2, 1, 2], ["FFSP", 2, 0, [5, 4, 3, 2, 1], 1, 1],
["AN", 2, 1, 6], ["PR", 5, 0, "auto_unroll_max_step$1024"]]
"""


def test_a_vector_whose_condition_may_differ_by_lane_is_a_loop() -> None:
    sizes = {"N": 1, "D": 5, "H": 5, "W": 5, "CI": 48, "CO": 7, "K": 3, "stride": 1, "padding": 1}
    dag = ComputeDAG(workloads.get("conv3d_ndhwc").tensors(**sizes))
    rows = features_of_steps(dag, steps_from_json(json.loads(WIDE_VECTORS)), CUDA)
    assert len(rows) == 4
