"""States, sketches, features and DAGs of any operator, against Ansor's.

    python benchmarks/against_ansor/states.py --peer PYTHON [--programs] [--types] [--cases N]

A case draws a built-in operator and its sizes (odd, prime, 1, powers of two), or with `--programs`
a graph of one to six stages (programs.py), a target and its limits. All is float32; `--types` draws
operators in any types that they take, and graphs that mix types (typed_programs.py). The peer
samples a population and mutates it; every candidate is replayed here: its bound state as text, its
rows of 164 features and its operations must be the same, and so must all sketches and the printed
DAG. The table is that of benchmarks/golden_report.py, which compares the same with the golden
files.

Known to differ, and no defect:
- Bytes between reuses in a program of several GPU kernels, which are not compared: Ansor's tables
  are those that its memory allocator happens to give again, others when it is asked again.
- Candidates whose features Ansor reads beyond the points of a curve, where single precision rounds
  the last one up, are left out.
- `max(x, x)` is `x` here, and what loses NaN is not folded: Ansor makes `x - x` and `x * 0` zeros,
  and `select(c, y, x) - x` a choice of `y - x` and 0.
- Sums and products of int32 and int64 data wrap here; Ansor takes them as exact as indices are, so
  that `(A[i] + 1) * 3` is `A[i] * 3 + 3`. None are drawn in a row.
- GPU candidates whose threads read what other threads hold are refused here, and sketches fetch no
  tensor twice for threads that share a sum (sketches.py).
- Some graphs end Ansor's own checks, or keep it looking for candidates for ever.
"""

from __future__ import annotations

import random
import sys
from functools import partial
from pathlib import Path
from typing import Any

import programs
import typed_programs
from peer import Peer, PeerError, arguments

sys.path.insert(0, str(Path(__file__).parent.parent))
from golden_report import Report, compare

from autosched import workloads
from autosched.errors import ConfigError
from autosched.features.ansor.names import FEATURE_NAMES
from autosched.state.dag import ComputeDAG

SIZES = (1, 2, 3, 4, 5, 7, 8, 12, 13, 16, 24, 28, 31, 32, 56, 64, 100, 127, 128, 255, 256)
CHANNELS = (1, 2, 3, 4, 7, 8, 16, 32, 48, 64)
SPATIAL = (3, 4, 5, 7, 8, 9, 14, 16, 28)
KINDS = ("float16", "bfloat16", "float32", "float64", "int8", "uint8", "int16", "int32", "int64")
PATIENCE = 60
"""Seconds for the peer, which looks for ever for candidates where all are illegal."""
CHOSEN = {"dtype": 0.3, "in_dtype": 0.7, "weight_dtype": 0.2, "acc_dtype": 0.4, "out_dtype": 0.4}
"""How often an argument for types is given."""
DISTANCES = [k for k, name in enumerate(FEATURE_NAMES) if name.endswith("reuse_dis_bytes")]
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


def types_of(rng: random.Random, name: str) -> dict[str, str]:
    """Arguments of an operator that ask for types."""
    rules = workloads.get(name).types
    while True:
        chosen = [argument for argument in rules.names if rng.random() < CHOSEN[argument]]
        given = {argument: rng.choice(KINDS) for argument in chosen}
        try:
            rules.resolve(name, given)
        except ConfigError:
            continue
        if given:
            return given


def built_in(name: str, args: list[int], types: dict[str, str]) -> tuple[ComputeDAG, list[str]]:
    """The graph of a built-in operator, and its types as the peer takes them."""
    operator = workloads.get(name)
    sizes = dict(zip(operator.args, args, strict=False))
    found = operator.types.resolve(name, types)
    kinds = [found.inputs, found.weights, found.acc, found.out]
    return ComputeDAG(operator.tensors(**sizes, **types)), kinds


def kernels(state: str) -> int:
    """How many statements a printed state has that no other contains."""
    return sum(not line.startswith(("Placeholder", " ")) for line in state.splitlines())


def main() -> int:
    """Print the table; 1 where something differs."""
    parser = arguments(__doc__)
    parser.add_argument("--programs", action="store_true", help="random graphs of stages")
    parser.add_argument("--types", action="store_true", help="of other types than float32")
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
            text = (typed_programs if options.types else programs).drawn(seed)
            function, source, title = "program", [text], "a program"
            dag = ComputeDAG(programs.tensors(text))
        else:
            name, args = arguments_of(rng)
            types = types_of(rng, name) if options.types else {}
            dag, kinds = built_in(name, args, types)
            function, source, title = "built_in", [name, args, kinds], f"{name} {args} {types}"
        if options.workload not in (None, source[0]) or options.target not in (None, target):
            continue
        title = f"seed {seed}: {title} on {target} {hardware}"
        with Peer(options.peer, "states_worker.py") as peer:
            try:
                asked = (*source, target, hardware, options.count, seed)
                lines = peer.ask(function, *asked, seconds=PATIENCE)
            except PeerError as error:
                print(f"{title}: not compared, the peer says {error}")
                continue
        before = report.disagreements
        for line in lines:
            several = target == "cuda" and kernels(line.get("bound_state", "")) > 1
            compare(line, dag, report, DISTANCES if several else ())
        same = report.disagreements == before
        print(f"{title}: {'the same' if same else 'differs'}", flush=True)
        if not same and options.programs:
            print(source[0])
    print(report.table())
    return 1 if report.disagreements else 0


if __name__ == "__main__":
    sys.exit(main())
