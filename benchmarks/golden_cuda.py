"""Compile every golden CUDA candidate that verifies by NVRTC, and print the resources used.

    python benchmarks/golden_cuda.py [--arch sm_80 --arch sm_90] [--workload NAME] [--out FILE]

No GPU is needed. A line for each workload and architecture has the number of candidates, the number
that compile, the total and the largest CPU seconds of NVRTC, the largest number of registers, and
the candidates whose kernels use the stack or spill. `--out` gets a JSON line for each kernel. The
exit code is 1 when a candidate fails.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, TextIO

from autosched import workloads
from autosched.codegen.nvrtc import Nvrtc, load_nvrtc
from autosched.driver import cuda_source, verify_gpu
from autosched.errors import CompileError, ScheduleError
from autosched.state.dag import ComputeDAG
from autosched.state.steps import Step, steps_from_json
from autosched.target import cuda_target
from autosched.te.lowering.to_prim_func import schedule_to_prim_func

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from kit.golden_lines import golden_candidates

HEAD = ("candidates", "compile", "CPU s", "slowest", "registers", "stack", "spills")

Row = dict[str, float]


def candidates(workload: str | None = None) -> Iterator[tuple[str, ComputeDAG, list[Step]]]:
    """The workload, DAG and steps of each golden CUDA candidate within the limits of a GPU."""
    dags: dict[str, ComputeDAG] = {}
    target = cuda_target()
    for line in golden_candidates(target="cuda"):
        if workload not in (None, line["workload"]):
            continue
        key = json.dumps([line["workload"], line["args"]])
        if key not in dags:
            dags[key] = ComputeDAG(workloads.get(line["workload"]).tensors(**line["args"]))
        steps = list(steps_from_json(line["steps"]))
        try:
            sch, arguments = dags[key].apply_steps(steps)
            sch = sch.normalize_for_feature_extraction()
            verify_gpu(schedule_to_prim_func(sch, arguments), target)
        except ScheduleError:
            continue
        yield line["workload"], dags[key], steps


def compiled(
    nvrtc: Nvrtc, arch: str, dag: ComputeDAG, steps: list[Step], name: str, out: TextIO | None
) -> Row:
    """The resources that one candidate needs. Raises ScheduleError or CompileError."""
    artifact = cuda_source(dag, steps, cuda_target(arch), name)
    start = time.process_time()
    result = nvrtc.compile(artifact.source, arch, statements=artifact.statements)
    seconds = time.process_time() - start
    found = [result.resources[kernel.name] for kernel in artifact.kernels]
    if out is not None:
        for kernel, used in zip(artifact.kernels, found, strict=True):
            line: dict[str, Any] = {"arch": arch, **asdict(kernel), **asdict(used)}
            out.write(json.dumps({**line, "cpu_s": round(seconds, 3)}) + "\n")
    return {
        "seconds": seconds,
        "registers": max(used.registers or 0 for used in found),
        "stack": any(used.stack for used in found),
        "spills": any(used.spill_stores for used in found),
    }


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--arch", action="append", help="sm_80 and sm_90 unless given")
    parser.add_argument("--workload", help="only this one")
    parser.add_argument("--out", type=argparse.FileType("w"), help="a JSON line per kernel")
    options = parser.parse_args()
    architectures = options.arch or ["sm_80", "sm_90"]
    libraries = {arch: load_nvrtc(arch) for arch in architectures}
    rows: dict[tuple[str, str], list[Row]] = defaultdict(list)
    failed: dict[tuple[str, str], int] = defaultdict(int)
    for name, dag, steps in candidates(options.workload):
        for arch, nvrtc in libraries.items():
            try:
                rows[name, arch].append(compiled(nvrtc, arch, dag, steps, name, options.out))
            except (ScheduleError, CompileError) as error:
                failed[name, arch] += 1
                print(f"{name} {arch}: {error}", file=sys.stderr)
    print(f"{'':32}" + "".join(f"{title:>12}" for title in HEAD))
    for key in sorted({*rows, *failed}):
        print(_line(" ".join(key), rows[key], failed[key]))
    everything = [row for found in rows.values() for row in found]
    print(_line("all", everything, sum(failed.values())))
    return int(any(failed.values()))


def _line(title: str, rows: list[Row], failed: int) -> str:
    seconds = [row["seconds"] for row in rows] or [0.0]
    cells = [
        *(str(len(rows) + failed), str(len(rows)), f"{sum(seconds):.1f}", f"{max(seconds):.2f}"),
        str(max((row["registers"] for row in rows), default=0)),
        *(str(int(sum(row[key] for row in rows))) for key in ("stack", "spills")),
    ]
    return f"{title:32}" + "".join(f"{cell:>12}" for cell in cells)


if __name__ == "__main__":
    sys.exit(main())
