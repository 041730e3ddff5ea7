"""States, sketches, features and DAGs of any operator, against Ansor's.

    python benchmarks/against_ansor/states.py --peer PYTHON [--programs] [--cases N] [--count N]

A case draws a built-in operator and its sizes (odd, prime, 1, powers of two), or with `--programs`
a graph of one to six stages (programs.py), a target and its limits. The peer samples a population
and mutates it; every candidate is replayed here: its bound state as text, its rows of 164 features
and its operations must be the same, and so must all sketches and the printed DAG. The table is that
of benchmarks/golden_report.py, which compares the same with the golden files.

Known to differ, and no defect: the distances of reuse of a program of several GPU kernels, where
Ansor's tables are those that its memory allocator happens to give again; `max(x, x)`, which is
`x` here; what Ansor folds although it loses NaN (`x - x`, `x * 0`); bounds of GPU candidates whose
threads read what other threads hold, which are refused here. Some graphs end its own checks.
"""

from __future__ import annotations

import random
import sys
from functools import partial
from pathlib import Path
from typing import Any

import programs
from peer import Peer, PeerError, arguments

sys.path.insert(0, str(Path(__file__).parent.parent))
from golden_report import Report, compare

from autosched import workloads
from autosched.state.dag import ComputeDAG

SIZES = (1, 2, 3, 4, 5, 7, 8, 12, 13, 16, 24, 28, 31, 32, 56, 64, 100, 127, 128, 255, 256)
CHANNELS = (1, 2, 3, 4, 7, 8, 16, 32, 48, 64)
SPATIAL = (3, 4, 5, 7, 8, 9, 14, 16, 28)
LIMITS = {
    "cpu": ((2, 64), (4, 64), (20, 32), (64, 16), (1, 64)),
    "cuda": ((48 * 1024, 1024, 32), (48 * 1024, 512, 32), (64 * 1024, 1024, 64)),
}


def arguments_of(rng: random.Random) -> tuple[str, list[int]]:
    """An operator and its arguments."""
    size, channels = partial(rng.choice, SIZES), partial(rng.choice, CHANNELS)
    batch, spatial = rng.choice((1, 1, 2, 3, 16)), rng.choice(SPATIAL)
    kernel, stride = rng.choice((1, 2, 3, 5)), rng.choice((1, 1, 2, 3))
    kernel = min(kernel, spatial)
    window = [kernel, stride, rng.choice((0, kernel // 2, 1))]
    image = [batch, spatial, rng.choice((spatial, spatial + 1))]
    groups = rng.choice((1, 1, 2))
    choices: dict[str, list[int]] = {
        "matmul": [size(), size(), size()],
        "batch_matmul": [batch, size(), size(), size()],
        "dense_bias_relu": [size(), size(), size()],
        "conv1d_nlc": [batch, rng.choice(SIZES[6:]), channels(), channels(), *window],
        "conv2d_nhwc": [
            *image,
            groups * channels(),
            groups * channels(),
            kernel,
            rng.choice((1, kernel)),
            stride,
            kernel // 2,
            1,
            groups,
        ],
        "conv3d_ndhwc": [batch, spatial, 5, spatial, channels(), channels(), min(kernel, 3), 1, 1],
        "depthwise_conv2d_nhwc": [*image, channels(), *window],
        "conv2d_transpose_nhwc": [*image, channels(), channels(), 4, rng.choice((1, 2, 3)), 1],
        "conv2d_capsule_nhwijc": [*image, channels(), channels(), kernel, stride, kernel // 2, 4],
        "norm_bmn": [batch, size(), size()],
        "conv2d_nchw_bn_relu": [*image, channels(), channels(), *window],
        "softmax": [size(), size()],
        "transpose_batch_matmul_softmax": [batch, size(), rng.choice((1, 2, 12)), size()],
        "max_pool2d_nchw": [batch, channels(), spatial, spatial, *window],
        "layer_norm": [size(), size()],
        "add_relu": [size(), size()],
    }
    name = rng.choice(sorted(choices))
    return name, choices[name]


def hardware_of(rng: random.Random, target: str) -> list[int]:
    """The eight limits of Ansor's records."""
    if target == "cpu":
        cores, vector = rng.choice(LIMITS["cpu"])
        return [cores, vector, 64, 0, 0, 0, 0, 0]
    shared, threads, warp = rng.choice(LIMITS["cuda"])
    return [80, 16, 64, shared, 65536, threads, 8, warp]


def built_in(name: str, args: list[int]) -> ComputeDAG:
    """The graph of a built-in operator."""
    operator = workloads.get(name)
    return ComputeDAG(operator.tensors(**dict(zip(operator.args, args, strict=False))))


def main() -> int:
    """Print the table; 1 where something differs."""
    parser = arguments(__doc__)
    parser.add_argument("--programs", action="store_true", help="random graphs of stages")
    parser.add_argument("--count", type=int, default=20, help="candidates of a case")
    parser.add_argument("--show", type=int, default=3, help="differences to print")
    parser.add_argument("--workload", help="only this one")
    parser.add_argument("--target", choices=("cpu", "cuda"), help="only this one")
    options = parser.parse_args()
    report = Report(options.show)
    source: list[Any]
    for seed in range(options.seed, options.seed + options.cases):
        rng = random.Random(seed)
        target = rng.choice(("cpu", "cuda"))
        hardware = hardware_of(rng, target)
        if options.programs:
            text = programs.drawn(seed)
            function, source, title = "program", [text], "a program"
            dag = ComputeDAG(programs.tensors(text))
        else:
            name, args = arguments_of(rng)
            function, source = "built_in", [name, args]
            dag, title = built_in(name, args), f"{name} {args}"
        if options.workload not in (None, source[0]) or options.target not in (None, target):
            continue
        title = f"seed {seed}: {title} on {target} {hardware}"
        with Peer(options.peer, "states_worker.py") as peer:
            try:
                lines = peer.ask(function, *source, target, hardware, options.count, seed)
            except PeerError as error:
                print(f"{title}: not compared, the peer says {error}")
                continue
        before = report.disagreements
        for line in lines:
            compare(line, dag, report)
        same = report.disagreements == before
        print(f"{title}: {'the same' if same else 'differs'}", flush=True)
        if not same and options.programs:
            print(source[0])
    print(report.table())
    return 1 if report.disagreements else 0


if __name__ == "__main__":
    sys.exit(main())
