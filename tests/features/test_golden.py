"""Feature rows equal Ansor's on candidates of the golden files, both targets.

Every fifth one of each case; AUTOSCHED_SLOW=1 takes all 679. The rows of many at once are compared
for all that arrays of candidates have.
"""

import json
import os
from collections import defaultdict
from functools import cache

import numpy as np
import pytest

from autosched import workloads
from autosched.errors import ScheduleError
from autosched.features.ansor.names import FEATURE_NAMES, NUM_FEATURES
from autosched.features.ansor.rows import FeatureRows
from autosched.features.batched.batch import BatchedFeatures
from autosched.features.compare import first_difference
from autosched.features.lowering import features_of_steps
from autosched.state.dag import ComputeDAG
from autosched.state.steps import steps_from_json
from autosched.target import HardwareParams, Target
from kit.golden_lines import golden_candidates, golden_lines

EVERY = 1 if "AUTOSCHED_SLOW" in os.environ else 5
ONE_BY_ONE = {  # long sums over groups, axes that threads share, products beyond 2**53
    ("conv2d_nhwc", "cpu"): 0.07,
    ("conv2d_transpose_nhwc", "cuda"): 0.75,
    ("max_pool2d_nchw", "cuda"): 1.0,
    ("norm_bmn", "cuda"): 0.2,
}
"""The share of candidates that arrays may leave out, where it is not 0.02, or 0.1 on a GPU."""
_ZEROS = np.zeros((1, NUM_FEATURES), np.float32)

CASES = defaultdict(list)
for _line in golden_candidates():
    CASES[_line["workload"], _line["target"], json.dumps(_line["args"])].append(_line)


@cache
def dag(workload: str, args: str) -> ComputeDAG:
    return ComputeDAG(workloads.get(workload).tensors(**json.loads(args)))


def _at_once(case: tuple[str, str, str]) -> dict[int, FeatureRows | None]:
    """By number, the rows that arrays of candidates give, None for those that they refuse."""
    lines = CASES[case]
    target = Target(case[1], HardwareParams.from_list(lines[0]["hardware"]))
    assert all(line["hardware"] == lines[0]["hardware"] for line in lines)
    batched = BatchedFeatures(dag(case[0], case[2]), target)
    rows, rest = batched.at_once([steps_from_json(line["steps"]) for line in lines])
    most = ONE_BY_ONE.get((case[0], case[1]), 0.1 if case[1] == "cuda" else 0.02)
    assert len(rest) <= most * len(lines), batched.share.reasons
    return {number: own for number, own in enumerate(rows) if number not in rest}


@pytest.mark.parametrize("case", sorted(CASES), ids=lambda c: f"{c[0]}-{c[1]}-{len(c[2])}")
def test_rows_equal_ansors(case: tuple[str, str, str]) -> None:
    workload, target, args = case
    problems = []
    at_once = _at_once(case)
    for number, line in enumerate(CASES[case]):
        expected = np.array(line["features"], np.float32)
        if number % EVERY:
            if number in at_once:
                own = at_once[number]
                difference = first_difference(_ZEROS if own is None else own, expected)
                if difference:
                    problems.append(f"candidate {number}, of many at once: {difference}")
            continue
        hardware = HardwareParams.from_list(line["hardware"])
        steps = steps_from_json(line["steps"])
        illegal = False
        try:
            rows = features_of_steps(dag(workload, args), steps, Target(target, hardware))
        except ScheduleError:  # Ansor: one row of zeros
            rows, illegal = _ZEROS, True
        difference = first_difference(rows, expected)
        if number in at_once:
            own = at_once[number]
            if own is None or illegal:
                same = illegal and own is None
            else:
                same = own.tobytes() == rows.tobytes()
            if not same:
                difference = difference or "rows of many at once are others"
        if difference:
            problems.append(f"candidate {number}: {difference}")
    assert not problems, f"{len(problems)} differ: {problems[0]}"


def test_names_equal_ansors() -> None:
    names = [line for line in golden_lines("seed_matmul.jsonl.gz") if "feature_names" in line]
    assert tuple(names[0]["feature_names"]) == FEATURE_NAMES


def test_a_difference_is_named() -> None:
    rows = np.zeros((1, NUM_FEATURES), np.float32)
    other = rows.copy()
    other[0, FEATURE_NAMES.index("num_loops")] = 2
    assert first_difference(rows, other) == "row 0, num_loops: found 0, expected 2"
    assert first_difference(rows, np.zeros((2, NUM_FEATURES), np.float32)) == "1 rows, expected 2"
