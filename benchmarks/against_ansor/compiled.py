"""The same schedules as TVM and autosched compile them: which kernels run faster.

    python benchmarks/against_ansor/compiled.py --peer PYTHON [--count 12] [--only TEXT...]
    python benchmarks/against_ansor/compiled.py --peer PYTHON --programs [--cases N]

The peer draws candidates of each operator of benchmarks/suite.py that Ansor's te can write
(built_ins.py), or with `--programs` of random graphs of stages (programs.py), from a first
population of its search; both sides compile each. The two kernels are called in turns, each in its
own process and in a native loop, on one thread unless `--threads` says otherwise; the least of
`--turns` turns counts, as a machine that others use only ever takes longer. What the peer was built
with, an LLVM of its time, is part of the comparison. Our kernels' results are those of NumPy, or of
the program without a schedule.

A line says how the candidates of an operator do, as TVM's time over ours: above 1 we are faster.
Then come the candidates that are slower here than `--below` times TVM's, as text. Of those that
take less than a microsecond the call is most, and they are left out of the means.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from statistics import geometric_mean, median
from typing import Any, ClassVar, NamedTuple

import kernels
import numpy as np
import programs
from peer import Peer, PeerError, arguments

from autosched.candidate import build_candidate
from autosched.driver import build_steps
from autosched.runtime.cpu import CpuKernel, aligned_copy, load
from autosched.state.dag import ComputeDAG
from autosched.state.steps import Step, steps_from_json
from autosched.target import Target, cpu_target

Steps = tuple[Step, ...]
_LEAST_SECONDS = 1e-6


class LargeGraph(programs.Graph):
    """A graph of tensors that take some microseconds."""

    sizes: ClassVar[tuple[int, ...]] = (16, 31, 32, 56, 64, 100, 128, 256)
    ranks: ClassVar[tuple[int, ...]] = (2, 2, 3)
    largest: ClassVar[int] = 1 << 19


class Case(NamedTuple):
    """What is compiled: what to ask the peer for candidates, the graph, and our kernel of one."""

    title: str
    question: tuple[Any, ...]
    dag: ComputeDAG
    timed: Callable[[Steps], kernels.Timed]


def main() -> None:
    """Print a line for each operator, and the candidates that do badly."""
    parser = arguments(__doc__)
    parser.add_argument("--programs", action="store_true", help="random graphs of stages")
    parser.add_argument("--count", type=int, default=12, help="candidates of a case")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--only", nargs="+", default=[], metavar="TEXT", help="parts of names")
    parser.add_argument("--threads", type=int, default=1, help="of both sides")
    parser.add_argument("--below", type=float, default=0.8, help="which candidates to print")
    options = parser.parse_args()
    target = cpu_target(options.threads)
    drawn = range(options.seed, options.seed + options.cases)
    cases = of_programs(drawn, target) if options.programs else of_suite(options.only, target)
    means = [mean for case in cases if (mean := compared(case, options)) is not None]
    print(f"{geometric_mean(means):.2f} in the geometric mean of all {len(means)}")


def of_suite(words: list[str], target: Target) -> Iterator[Case]:
    """The operators of the suite."""
    for operator in kernels.operators(words):
        task = operator.task(target)
        question = ("sampled", *kernels.question(operator, target))

        def timed(steps: Steps, task: Any = task) -> kernels.Timed:
            return kernels.of_ours(load(build_candidate(task, steps)), task)

        yield Case(operator.name, question, task.dag, timed)


def of_programs(seeds: range, target: Target) -> Iterator[Case]:
    """Random graphs of stages."""
    for seed in seeds:
        text = programs.drawn(seed, LargeGraph)
        dag = ComputeDAG(programs.tensors(text))
        hardware = kernels.hardware(target)
        plain = load(build_steps(dag, (), target))
        right = _arrays(plain)
        plain.bind(*right).run()

        def timed(steps: Steps, dag: ComputeDAG = dag, right: list[Any] = right) -> kernels.Timed:
            kernel = load(build_steps(dag, steps, target))
            found = _arrays(kernel)
            bound = kernel.bind(*found)
            bound.run()
            for ours, expected in zip(found, right, strict=True):
                largest = float(np.abs(expected).max())
                np.testing.assert_allclose(ours, expected, rtol=1e-2, atol=1e-2 * max(1, largest))
            return kernels.of_calls(bound)

        yield Case(f"program {seed}", ("sampled_of_program", text, hardware), dag, timed)


def _arrays(kernel: CpuKernel) -> list[Any]:
    """The same arguments for all kernels of a program."""
    numbers = np.random.default_rng(0)
    shapes = [[int(size) for size in p.shape or ()] for p in kernel.artifact.params]
    return [aligned_copy(numbers.uniform(-0.3, 0.7, s).astype("float32")) for s in shapes]


def compared(case: Case, options: Any) -> float | None:
    """Print what is found of a case; the geometric mean of the quotients, None without any."""
    slow: list[tuple[float, str]] = []
    ratios: list[float] = []
    with Peer(options.peer, "kernels_worker.py", str(options.threads)) as peer:
        try:
            candidates = peer.ask(*case.question, options.count, options.seed)
        except PeerError as error:
            print(f"{case.title}: not compared, the peer says {error}")
            return None
        for number, candidate in enumerate(candidates):
            steps = steps_from_json(candidate)
            ours = case.timed(steps)
            peer.ask("build", number)
            theirs = kernels.of_peer(peer)
            found = [(theirs(), ours()) for _ in range(options.turns)]
            least, own = map(min, zip(*found, strict=True))
            if own < _LEAST_SECONDS:
                continue
            ratios.append(least / own)
            if ratios[-1] < options.below:
                text = case.dag.infer_bound_of(steps).to_str()
                times = f"{own * 1e6:.1f} us, {ratios[-1]:.2f} times as fast as TVM's"
                slow.append((ratios[-1], f"{case.title}, candidate {number}: {times}\n{text}"))
    if not ratios:
        return None
    mean = geometric_mean(ratios)
    print(
        f"{case.title:28} {mean:5.2f} in the geometric mean of {len(ratios)}, median "
        f"{median(ratios):.2f}, {min(ratios):.2f} to {max(ratios):.2f}",
        flush=True,
    )
    for _, text in sorted(slow):
        print(text)
    if slow and case.question[0] == "sampled_of_program":
        print(case.question[1])
    return mean


if __name__ == "__main__":
    main()
