"""The figures of seed 002, worked out by hand there: C[32,1000] = A[32,2048] * B[2048,1000].

Reuse of the second schedule: the store to the shared copy of A reads A with reuse distance 76800
iterations and 622592 bytes, 100 times, with stride 1. Touched regions: what the seed tabulates
per loop, innermost first, as rows*columns; for the update of C.local it names the columns of its
table p0.shared, p1.shared, C.local, the first of which holds the indices of B (p1) in the text.
"""

from functools import cache

import numpy as np
import pytest

from autosched import workloads
from autosched.driver import lower_for_features
from autosched.features.ansor.names import FEATURE_NAMES
from autosched.features.ansor.rows import features_from_func
from autosched.state.dag import ComputeDAG
from autosched.state.steps import steps_from_json
from autosched.target import HardwareParams, Target
from autosched.tir.function import PrimFunc
from kit.golden_lines import golden_lines
from kit.touched import TouchedRegions, touched_regions
from kit.types import Array


@cache
def lowered(case: str) -> PrimFunc:
    line = next(d for d in golden_lines("seed_matmul.jsonl.gz") if d.get("case") == case)
    dag = ComputeDAG(workloads.get(line["workload"]).tensors(**line["args"]))
    target = Target("cuda", HardwareParams.from_list(line["hardware"]))
    return lower_for_features(dag, steps_from_json(line["steps"]), target)


@pytest.fixture(scope="module")
def second() -> Array:
    return features_from_func(lowered("seed-second"), log_scale=False)


def column(row: Array, name: str) -> float:
    return float(row[FEATURE_NAMES.index(name)])


def test_reuse_of_a_in_the_store_to_its_shared_copy(second: Array) -> None:
    rows = [r for r in second if column(r, "B0.reuse_dis_bytes") == 622592]
    assert len(rows) == 1
    row = rows[0]
    assert column(row, "B0.acc_type.kRead") == 1
    assert column(row, "B0.reuse_type.kLoopMultipleRead") == 1
    assert column(row, "B0.reuse_dis_iter") == 76800
    assert column(row, "B0.reuse_ct") == 100
    assert column(row, "B0.stride") == 1


def test_the_launch_is_the_seeds(second: Array) -> None:
    stored = second[second[:, FEATURE_NAMES.index("num_loops")] > 0]
    assert np.all(stored[:, FEATURE_NAMES.index("is_gpu")] == 1)
    assert np.all(stored[:, FEATURE_NAMES.index("blockIdx_x_len")] == 2)
    assert np.all(stored[:, FEATURE_NAMES.index("threadIdx_x_len")] == 100)
    assert np.all(stored[:, FEATURE_NAMES.index("vthread_len")] == 8)


# Per store and loop (innermost first): rows*columns of each buffer of the header line.
TABLES = {
    "seed-first": """
        C.local: C.local
            i.c.outer.inner.init        4*1
            threadIdx.x                 8*50
            vthread                     8*250
            blockIdx.x                  32*1000
        A.shared: A A.shared
            threadIdx.x                 4*32        4*32
            ax0.ax1.fused.outer.outer   10*32       10*32
            k.outer.outer               10*2048     10*2048
            threadIdx.x                 10*2048     10*2048
            vthread                     10*2048     10*2048
            blockIdx.x                  34*2048     34*2048
        B.shared: B B.shared
            threadIdx.x                 1*100       1*100
            ax0.ax1.fused.outer.outer   32*250      32*250
            k.outer.outer               2048*250    2048*250
            threadIdx.x                 2048*250    2048*250
            vthread                     2048*250    2048*250
            blockIdx.x                  2048*1000   2048*1000
        C.local: B.shared A.shared C.local
            i.c.outer.inner             1*1         4*1         4*1
            k.outer.inner               32*1        4*32        4*1
            k.outer.outer               2048*1      4*2048      4*1
            threadIdx.x                 2048*50     8*2048      8*50
            vthread                     2048*250    8*2048      8*250
            blockIdx.x                  2048*1000   32*2048     32*1000
        C: C.local C
            i.inner                     4*1         4*1
            threadIdx.x                 8*50        8*50
            vthread                     8*250       8*250
            blockIdx.x                  32*1000     32*1000
    """,
    "seed-second": """
        C.local: C.local
            i.c.inner.init              4*1
            j.c.outer.inner.init        4*5
            threadIdx.x                 8*250
            vthread                     32*500
            blockIdx.x                  32*1000
        A.shared: A A.shared
            threadIdx.x                 7*16        7*16
            ax0.ax1.fused.outer.outer   38*16       38*16
            k.outer.outer               38*2048     38*2048
            threadIdx.x                 38*2048     38*2048
            vthread                     38*2048     38*2048
            blockIdx.x                  38*2048     38*2048
        B.shared: B B.shared
            threadIdx.x                 1*100       1*100
            ax0.ax1.fused.outer.outer   16*500      16*500
            k.outer.outer               2048*500    2048*500
            threadIdx.x                 2048*500    2048*500
            vthread                     2048*500    2048*500
            blockIdx.x                  2048*1000   2048*1000
        C.local: B.shared A.shared C.local
            i.c.inner                   1*1         4*1         4*1
            k.inner                     4*1         4*4         4*1
            j.c.outer.inner             4*5         4*4         4*5
            k.outer.inner               16*5        4*16        4*5
            k.outer.outer               2048*5      4*2048      4*5
            threadIdx.x                 2048*250    8*2048      8*250
            vthread                     2048*500    32*2048     32*500
            blockIdx.x                  2048*1000   32*2048     32*1000
        C: C.local C
            j.inner                     1*5         1*5
            i.inner                     4*5         4*5
            threadIdx.x                 8*250       8*250
            vthread                     32*500      32*500
            blockIdx.x                  32*1000     32*1000
    """,
}


def as_table(store: TouchedRegions) -> list[str]:
    lines = [f"{store.buffer}: {' '.join(store.regions)}"]
    for k, loop in enumerate(store.loops):
        lines.append(" ".join([loop, *("*".join(map(str, r[k])) for r in store.regions.values())]))
    return lines


@pytest.mark.parametrize("case", TABLES)
def test_touched_regions(case: str) -> None:
    found = [line for store in touched_regions(lowered(case)) for line in as_table(store)]
    assert found == [" ".join(line.split()) for line in TABLES[case].strip().splitlines()]
