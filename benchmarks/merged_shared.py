"""Bytes of shared memory of the golden CUDA candidates, without and with merged buffers.

    python benchmarks/merged_shared.py [--every 1]

"Apart" is the sum of the allocations in the lowered kernel, and "merged" is their size after
MergeSharedMemoryAllocations. The largest kernel of a candidate counts.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from autosched import workloads
from autosched.driver import lower_steps
from autosched.errors import ScheduleError
from autosched.state.dag import ComputeDAG
from autosched.state.steps import steps_from_json
from autosched.target import cuda_target
from autosched.tir.function import PrimFunc
from autosched.transform.device.shared_layout import merged_bytes
from autosched.transform.device.shared_to_dynamic import static_shared_bytes
from autosched.transform.device.thread_sync import kernels

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from kit.golden_lines import golden_candidates


def of_candidate(func: PrimFunc) -> tuple[int, int]:
    """The shared-memory bytes of the largest kernel, apart and merged."""
    found = [(static_shared_bytes(k), merged_bytes(k, "shared")) for k in kernels(func.body)]
    return max((a for a, _ in found), default=0), max((m for _, m in found), default=0)


def candidates(every: int) -> Iterator[tuple[str, PrimFunc]]:
    """The lowered CUDA candidates that the pipeline accepts, by workload."""
    dags: dict[str, ComputeDAG] = {}
    lines = golden_candidates("ansor_v06.jsonl.gz", target="cuda")
    for line in islice(lines, None, None, every):
        key = line["workload"] + json.dumps(line["args"])
        if key not in dags:
            dags[key] = ComputeDAG(workloads.get(line["workload"]).tensors(**line["args"]))
        try:
            yield (
                line["workload"],
                lower_steps(dags[key], steps_from_json(line["steps"]), cuda_target()),
            )
        except ScheduleError:
            continue


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--every", type=int, default=1, help="take every n-th candidate")
    options = parser.parse_args()
    rows: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for name, func in candidates(options.every):
        rows[name].append(of_candidate(func))
    print(f"{'workload':28}{'candidates':>11}{'less':>6}{'apart':>12}{'merged':>12}{'largest':>9}")
    everything = [size for sizes in rows.values() for size in sizes]
    for name, sizes in [*sorted(rows.items()), ("all", everything)]:
        less = sum(merged < apart for apart, merged in sizes)
        apart, merged = (sum(column) for column in zip(*sizes, strict=True))
        largest = max(merged for _, merged in sizes)
        print(f"{name:28}{len(sizes):11}{less:6}{apart:12}{merged:12}{largest:9}")


if __name__ == "__main__":
    main()
