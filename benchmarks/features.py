"""Candidates per second on one core: batched against one-by-one feature extraction, and equality.

    python benchmarks/features.py [--workloads matmul ...] [--candidates 8192]
    python benchmarks/features.py --workloads all --candidates 2000 --sample 2000 --repeats 1
    python benchmarks/features.py --features autosched-1 --targets cpu cuda
    python benchmarks/features.py --workloads all --candidates 500 --sample 0 --space autosched

Two populations of each workload are extracted: random candidates, and mutations of them. The first
starts with empty tables, the second with the tables that the first left. A sample of both is then
extracted one by one and compared bit for bit; the exit status is 1 when anything differs. Times are
processor time; of both ways, the smallest of `--repeats` runs counts, with Python's garbage
collector set as in autosched's own processes. In a first run, a fifth of the time goes to memory
that the process has not had before. The second line above compares about 100,000 candidates. The
third uses the features that `tune` learns from. Workloads of 8 and 16 bits use the tensor
instructions of this machine. The last line only counts, by reason, the candidates for
which batched extraction has no rule and which are extracted one by one.
"""

from __future__ import annotations

import argparse
import time
from itertools import product
from typing import Any, get_args

import numpy as np
from shapes import conv2d, image

from autosched.errors import ScheduleError
from autosched.features.ansor.rows import FeatureRows
from autosched.features.batched.batch import Share
from autosched.features.batched.sets import batched_features
from autosched.features.lowering import features_of_steps
from autosched.features.sets import ANSOR, FeatureSetName
from autosched.process.garbage import rarely_collect
from autosched.search.evolution import mutated
from autosched.search.mutation import restructured
from autosched.search.options import SearchOptions, SpaceName
from autosched.search.population import Structures
from autosched.search.space import SearchSpace
from autosched.state.steps import Step
from autosched.target import Target, cpu_target, cuda_target
from autosched.task import Task

Steps = tuple[Step, ...]
INT8 = {"in_dtype": "int8", "acc_dtype": "int32"}
BFLOAT16 = {"in_dtype": "bfloat16", "acc_dtype": "float32"}


WORKLOADS: dict[str, tuple[str, dict[str, Any]]] = {
    "matmul": ("matmul", {"M": 512, "N": 512, "K": 512}),
    "conv2d_nchw_bn_relu": ("conv2d_nchw_bn_relu", image(56, 3, CI=64, CO=64)),
    "transpose_batch_matmul_softmax": (
        "transpose_batch_matmul_softmax",
        {"B": 1, "S": 128, "H": 12, "D": 64},
    ),
    "matmul_1024": ("matmul", {"M": 1024, "N": 1024, "K": 1024}),
    "matmul_uneven": ("matmul", {"M": 500, "N": 1000, "K": 333}),
    "matmul_thin": ("matmul", {"M": 17, "N": 1, "K": 31}),
    "batch_matmul": ("batch_matmul", {"B": 12, "M": 128, "N": 128, "K": 64}),
    "dense_bias_relu": ("dense_bias_relu", {"M": 32, "N": 1000, "K": 256}),
    "conv1d_nlc": (
        "conv1d_nlc",
        {"N": 2, "L": 64, "CI": 32, "CO": 48, "K": 3, "stride": 1, "padding": 1},
    ),
    "conv2d_nhwc": ("conv2d_nhwc", conv2d(14, 256, 256)),
    "conv2d_nhwc_56": ("conv2d_nhwc", conv2d(56, 64, 64)),
    "conv2d_nhwc_strided": ("conv2d_nhwc", conv2d(28, 12, 28, stride=2, N=2)),
    "conv2d_nhwc_grouped": ("conv2d_nhwc", conv2d(14, 96, 96, groups=2)),
    "conv2d_nhwc_grouped_uneven": ("conv2d_nhwc", conv2d(14, 14, 14, groups=2)),
    "conv2d_capsule_nhwijc": ("conv2d_capsule_nhwijc", image(16, 3, CI=16, CO=16)),
    "conv2d_transpose_nhwc": (
        "conv2d_transpose_nhwc",
        image(8, 4, CI=32, CO=28, stride=2),
    ),
    "conv2d_winograd_nhwc": (
        "conv2d_winograd_nhwc",
        {"N": 1, "H": 16, "W": 16, "CI": 48, "CO": 64},
    ),
    "conv2d_nchw_bn_relu_7": ("conv2d_nchw_bn_relu", image(7, 3, CI=20, CO=28)),
    "conv3d_ndhwc": ("conv3d_ndhwc", image(14, 3, D=4, CI=16, CO=32)),
    "depthwise_conv2d_nhwc": ("depthwise_conv2d_nhwc", image(56, 3, C=64)),
    "depthwise_strided": ("depthwise_conv2d_nhwc", image(14, 3, C=25, stride=2)),
    "norm_bmn": ("norm_bmn", {"B": 4, "M": 64, "N": 128}),
    "norm_uneven": ("norm_bmn", {"B": 1, "M": 30, "N": 49}),
    "softmax": ("softmax", {"M": 128, "N": 500}),
    "layer_norm": ("layer_norm", {"M": 64, "N": 768}),
    "max_pool2d_nchw": ("max_pool2d_nchw", image(28, 3, C=16, stride=2)),
    "add_relu": ("add_relu", {"M": 30, "N": 1000}),
    "attention_uneven": (
        "transpose_batch_matmul_softmax",
        {"B": 2, "S": 30, "H": 3, "D": 10},
    ),
    "matmul_int8": ("matmul", {"M": 512, "N": 512, "K": 512, **INT8}),
    "matmul_uneven_uint8": (
        "matmul",
        {"M": 500, "N": 1000, "K": 333, "weight_dtype": "int8", **INT8, "in_dtype": "uint8"},
    ),
    "matmul_bfloat16": ("matmul", {"M": 500, "N": 512, "K": 512, **BFLOAT16}),
    "dense_float16": (
        "dense_bias_relu",
        {"M": 32, "N": 1000, "K": 256, **BFLOAT16, "in_dtype": "float16"},
    ),
    "conv2d_nhwc_int8": ("conv2d_nhwc", {**conv2d(14, 256, 256), **INT8}),
    "conv2d_nhwc_strided_bfloat16": (
        "conv2d_nhwc",
        {**conv2d(28, 12, 28, stride=2, N=2), **BFLOAT16},
    ),
    "conv2d_nhwc_requantised": ("conv2d_nhwc_requantised", conv2d(13, 20, 48)),
    "attention_bfloat16": (
        "transpose_batch_matmul_softmax",
        {"B": 1, "S": 128, "H": 4, "D": 64, **BFLOAT16},
    ),
}
DEFAULT = ("matmul", "conv2d_nchw_bn_relu", "transpose_batch_matmul_softmax")


def drawn(
    task: Task, count: int, seed: int, space_name: SpaceName
) -> tuple[list[Steps], list[Steps]]:
    """Random candidates, and others made from each of them by three mutations."""
    rng = np.random.default_rng(seed)
    space = SearchSpace(task, SearchOptions(space=space_name))
    found = space.sample(rng, count)[:count]
    structures = Structures()
    rows = structures.rows([restructured(space.context, steps, rng) or steps for steps in found])
    for _ in range(3):
        rows = mutated(space.context, structures, rows, rng)
    return found, structures.candidates(rows)


def one_by_one(
    task: Task, candidates: list[Steps], features: str = ANSOR
) -> list[FeatureRows | None]:
    """The rows from lowering each candidate separately; None for an illegal candidate."""
    found: list[FeatureRows | None] = []
    for steps in candidates:
        try:
            found.append(features_of_steps(task.dag, steps, task.target, features))
        except ScheduleError:
            found.append(None)
    return found


def differ(a: FeatureRows | None, b: FeatureRows | None) -> bool:
    """Whether the bits of the rows differ."""
    if a is None or b is None:
        return a is not b
    return a.shape != b.shape or a.tobytes() != b.tobytes()


def compare(
    label: str,
    target: Target,
    space: SpaceName,
    share: Share,
    features: str,
    *,
    count: int,
    sample: int,
    repeats: int,
    seed: int,
) -> tuple[int, int]:
    """Print one line; return how many rows of the sample differ, and how many were compared.

    The counts of the workload are added to `share`.
    """
    name, args = WORKLOADS[label]
    task = Task.from_workload(name, target=target, **args)
    populations = drawn(task, count, seed, space)
    batched = batched_features(task.dag, task.target, features)
    if not sample:
        for population in populations:
            batched.at_once(population)
        note(label, target, space, batched.share, share)
        return 0, 0
    rates = [0.0] * len(populations)
    rows: list[FeatureRows | None] = []
    for _ in range(repeats):
        batched, rows = batched_features(task.dag, task.target, features), []
        for k, population in enumerate(populations):
            start = time.process_time()
            rows += batched(population)
            rates[k] = max(rates[k], len(population) / (time.process_time() - start))
    both = [*populations[0], *populations[1]]
    chosen = np.linspace(0, len(both) - 1, min(sample, len(both))).astype(int)
    some = [both[k] for k in chosen]
    best = 0.0
    for _ in range(repeats):
        start = time.process_time()
        expected = one_by_one(task, some, features)
        best = max(best, len(some) / (time.process_time() - start))
    wrong = sum(differ(rows[k], want) for k, want in zip(chosen, expected, strict=True))
    own = batched.share
    print(
        f"{label} {target.kind} {space}: one by one {best:.0f}/s, at once {rates[0]:.0f}/s then "
        f"{rates[1]:.0f}/s ({rates[0] / best:.0f}x, {rates[1] / best:.0f}x); "
        f"{own.structures} structures, {own.programs} programs; {wrong} of {len(some)} differ",
        flush=True,
    )
    note(label, target, space, own, share)
    return wrong, len(some)


def note(label: str, target: Target, space: SpaceName, own: Share, total: Share) -> None:
    """Print how many candidates were extracted one by one, and why; add the counts to `total`."""
    reasons = "".join(f"; {count} {reason}" for reason, count in own.reasons.most_common())
    print(
        f"{label} {target.kind} {space}: {own.one_by_one} of {own.candidates} one by one, "
        f"{own.one_by_one / own.candidates:.1%}{reasons}",
        flush=True,
    )
    total.one_by_one += own.one_by_one
    total.candidates += own.candidates
    total.reasons += own.reasons


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--workloads", nargs="+", default=DEFAULT, choices=(*WORKLOADS, "all"))
    parser.add_argument("--targets", nargs="+", default=["cpu"], choices=("cpu", "cuda"))
    parser.add_argument("--space", nargs="+", default=["autosched"], choices=get_args(SpaceName))
    parser.add_argument("--features", default=ANSOR, choices=get_args(FeatureSetName))
    parser.add_argument("--candidates", type=int, default=8192)
    parser.add_argument("--sample", type=int, default=100)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rarely_collect()
    wrong = total = 0
    how = {name: getattr(options, name) for name in ("sample", "repeats", "seed")}
    for kind, space in product(options.targets, options.space):
        target, share = cuda_target() if kind == "cuda" else cpu_target(threads=2), Share()
        for label in WORKLOADS if "all" in options.workloads else options.workloads:
            where = (label, target, space, share, options.features)
            others, compared = compare(*where, count=options.candidates, **how)
            wrong, total = wrong + others, total + compared
        note("all of these", target, space, share, Share())
    print(f"{wrong} of {total} differ")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
