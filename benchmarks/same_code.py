"""Hashes of the code of candidates, to see whether a change leaves features and code as they were.

    python benchmarks/same_code.py take before.jsonl            # on the old code
    python benchmarks/same_code.py compare before.jsonl         # on the new code

`take` draws candidates of all built-in workloads on both targets. For each it writes the steps and
hashes of its features in every set, of its lowered TIR and (on the CPU) of its LLVM code. `compare`
computes the same from the recorded steps and lists the differences; its exit status is 1 when there
are any.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import sys
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from shapes import conv2d, image

from autosched.codegen.llvm import emit_llvm
from autosched.driver import lower_steps
from autosched.errors import CompileError, ScheduleError
from autosched.features.lowering import features_of_steps
from autosched.features.sets import FEATURE_SETS
from autosched.search.space import SearchSpace
from autosched.state.steps import steps_from_json, steps_to_json
from autosched.target import Target, cpu_target, cuda_target
from autosched.task import Task

SETTINGS: list[tuple[str, dict[str, Any]]] = [
    ("matmul", {"M": 512, "N": 512, "K": 512}),
    ("matmul", {"M": 500, "N": 1000, "K": 333}),
    ("matmul", {"M": 17, "N": 1, "K": 31}),
    ("batch_matmul", {"B": 12, "M": 64, "N": 96, "K": 64}),
    ("dense_bias_relu", {"M": 32, "N": 1000, "K": 256}),
    ("conv1d_nlc", {"N": 2, "L": 64, "CI": 32, "CO": 48, "K": 3, "stride": 1, "padding": 1}),
    ("conv2d_nhwc", conv2d(14, 64, 64)),
    ("conv2d_nhwc", conv2d(28, 12, 28, stride=2, N=2)),
    ("conv2d_capsule_nhwijc", image(16, 3, CI=16, CO=16)),
    ("conv2d_transpose_nhwc", image(8, 4, CI=32, CO=28, stride=2)),
    ("conv2d_nchw_bn_relu", image(28, 3, CI=32, CO=56)),
    ("conv3d_ndhwc", image(14, 3, D=4, CI=16, CO=32)),
    ("depthwise_conv2d_nhwc", image(28, 3, C=48)),
    ("depthwise_conv2d_nhwc", image(14, 3, C=25, stride=2)),
    ("norm_bmn", {"B": 4, "M": 64, "N": 128}),
    ("softmax", {"M": 128, "N": 500}),
    ("layer_norm", {"M": 64, "N": 768}),
    ("max_pool2d_nchw", image(28, 3, C=16, stride=2)),
    ("add_relu", {"M": 30, "N": 1000}),
    ("transpose_batch_matmul_softmax", {"B": 1, "S": 64, "H": 4, "D": 32}),
    ("matmul", {"M": 64, "N": 64, "K": 512}),
    ("matmul", {"M": 49, "N": 35, "K": 28}),
    ("norm_bmn", {"B": 1, "M": 30, "N": 49}),
    ("conv2d_nchw_bn_relu", image(7, 3, CI=20, CO=28)),
    ("transpose_batch_matmul_softmax", {"B": 2, "S": 30, "H": 3, "D": 10}),
]


def _target(kind: str) -> Target:
    """The CPU of this machine with two threads, or the default GPU."""
    if kind == "cuda":
        return cuda_target()
    return cpu_target(threads=2)


def _drawn(setting: tuple[str, dict[str, Any], str], count: int) -> list[dict[str, Any]]:
    name, args, kind = setting
    task = Task.from_workload(name, target=_target(kind), **args)
    found = SearchSpace(task).sample(np.random.default_rng(7), count)
    return [{"task": task.to_json(), "steps": steps_to_json(s)} for s in found[:count]]


@lru_cache(maxsize=2)
def _task(text: str) -> Task:
    return Task.from_json(json.loads(text))


def _digest(data: bytes | str) -> str:
    return hashlib.sha256(data.encode() if isinstance(data, str) else data).hexdigest()[:16]


def _hashes(line: dict[str, Any]) -> dict[str, str]:
    """Hashes by what they are computed from; a refusal is hashed by its message."""
    task, steps = _task(json.dumps(line["task"])), steps_from_json(line["steps"])
    found: dict[str, str] = {}
    for name in FEATURE_SETS:
        try:
            rows = features_of_steps(task.dag, steps, task.target, name)
            found[name] = _digest(np.ascontiguousarray(rows).tobytes())
        except ScheduleError as error:
            found[name] = f"refused: {str(error)[:60]}"
    try:
        func = lower_steps(task.dag, steps, task.target)
        found["tir"] = _digest(repr(func))
        if not task.target.is_gpu:
            found["llvm"] = _digest(emit_llvm(func, task.target))
    except (ScheduleError, CompileError) as error:
        found["tir"] = f"refused: {str(error)[:60]}"
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=["take", "compare"])
    parser.add_argument("file", type=Path)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument(
        "--candidates", type=int, default=45, help="that `take` draws for each workload and target"
    )
    arguments = parser.parse_args()
    with ProcessPoolExecutor(arguments.processes, get_context("spawn")) as pool:
        if arguments.command == "take":
            settings = [(n, a, kind) for n, a in SETTINGS for kind in ("cpu", "cuda")]
            drawn = partial(_drawn, count=arguments.candidates)
            lines = [line for part in pool.map(drawn, settings) for line in part]
            hashes = pool.map(_hashes, lines, chunksize=21)
            with arguments.file.open("w") as out:
                for line, found in zip(lines, hashes, strict=True):
                    out.write(json.dumps({**line, "hashes": found}) + "\n")
            print(f"{len(lines)} candidates")
            return
        lines = [json.loads(text) for text in arguments.file.read_text().splitlines()]
        different: Counter[str] = Counter()
        for k, (line, found) in enumerate(
            zip(lines, pool.map(_hashes, lines, chunksize=21), strict=True)
        ):
            parts = [name for name, value in line["hashes"].items() if found.get(name) != value]
            different.update(parts)
            if parts:
                task = line["task"]
                print(f"line {k}: {task['workload']} {task['target']['kind']}: {', '.join(parts)}")
    print(f"{len(lines)} candidates, different: {dict(different) or 'none'}")
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
