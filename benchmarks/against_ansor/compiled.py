"""The same schedules as TVM and autosched compile them: which kernels run faster.

    python benchmarks/against_ansor/compiled.py --peer PYTHON [--count 12] [--only TEXT...]

The peer draws candidates of each operator of benchmarks/suite.py that Ansor's te can write
(built_ins.py), from a first population of its search; both sides compile each. The two kernels are
called in turns, each in its own process and in a native loop, on one thread unless `--threads` says
otherwise; the least of `--turns` turns counts, as a machine that others use only ever takes longer.
What the peer was built with, an LLVM of its time, is part of the comparison. A line says how the
candidates of an operator do, as TVM's time over ours: above 1 we are faster. Then come the
candidates that are slower here than `--below` times TVM's, as text.
"""

from __future__ import annotations

from statistics import geometric_mean, median

import kernels
from peer import Peer, arguments

from autosched.candidate import build_candidate
from autosched.runtime.cpu import load
from autosched.state.steps import steps_from_json
from autosched.target import cpu_target


def main() -> None:
    """Print a line for each operator, and the candidates that do badly."""
    parser = arguments(__doc__)
    parser.add_argument("--count", type=int, default=12, help="candidates of an operator")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--only", nargs="+", default=[], metavar="TEXT", help="parts of names")
    parser.add_argument("--threads", type=int, default=1, help="of both sides")
    parser.add_argument("--below", type=float, default=0.8, help="which candidates to print")
    options = parser.parse_args()
    means = []
    for operator in kernels.operators(options.only):
        target = cpu_target(options.threads)
        task = operator.task(target)
        slow: list[tuple[float, str]] = []
        ratios: list[float] = []
        with Peer(options.peer, "kernels_worker.py", str(options.threads)) as peer:
            about = kernels.question(operator, target)
            candidates = peer.ask("sampled", *about, options.count, options.seed)
            for number, candidate in enumerate(candidates):
                steps = steps_from_json(candidate)
                ours = kernels.of_ours(load(build_candidate(task, steps)), task)
                peer.ask("build", number)
                theirs = kernels.of_peer(peer)
                found = [(theirs(), ours()) for _ in range(options.turns)]
                least, own = map(min, zip(*found, strict=True))
                ratios.append(least / own)
                if ratios[-1] < options.below:
                    text = task.dag.infer_bound_of(steps).to_str()
                    slow.append((ratios[-1], f"{number}: {own * 1e6:.0f} us\n{text}"))
        means.append(geometric_mean(ratios))
        least, most = min(ratios), max(ratios)
        print(
            f"{operator.name:28} {means[-1]:5.2f} in the geometric mean of {len(ratios)}, median "
            f"{median(ratios):.2f}, {least:.2f} to {most:.2f}",
            flush=True,
        )
        for ratio, text in sorted(slow):
            print(f"{operator.name}: {ratio:.2f} times as fast as TVM's, candidate {text}")
    print(f"{geometric_mean(means):.2f} in the geometric mean of all")


if __name__ == "__main__":
    main()
