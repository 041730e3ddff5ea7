"""Tune square matmuls: share of NumPy's speed, seconds per trial, memory of the tuner.

    python benchmarks/tune_matmul.py --sizes 512 1024 --trials 64

NumPy (OpenBLAS) and the best kernel are timed in turns in one process. "outside" is the part of a
trial that is not spent in building and running candidates: starting processes, searching, training.
On a machine that is busy with something else, the shares say little.
"""

from __future__ import annotations

import argparse
import resource

from autosched.measure.measurer import Measurer
from autosched.search.tuner import TuneOptions, Tuner
from autosched.session.peer import peer_of
from autosched.task import Task


def tune(size: int, trials: int, seed: int) -> str:
    """Tune one size from scratch; return a line of the table."""
    task = Task.from_workload("matmul", M=size, N=size, K=size)
    with Measurer.create() as measurer:
        result = Tuner(task, TuneOptions(trials=trials, seed=seed), measurer).run()
        if result.interrupted:
            raise KeyboardInterrupt
        if result.best is None:
            return f"{size:6}  no candidate was valid"
        peer = peer_of(task, measurer, result.best)
    assert peer is not None
    progress = result.progress
    outside = progress.elapsed - progress.seconds["measure"]
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    rate = progress.flops_per_second() / 1e9
    return (
        f"{size:6}  {seed:4}  {rate:8.1f}  {peer.share:14.2f}  {progress.elapsed / trials:9.2f}  "
        f"{outside / trials:11.2f}  {megabytes:8.0f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[512, 1024])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--trials", type=int, default=64)
    options = parser.parse_args()
    print("  size  seed   GFLOP/s  share of NumPy    s/trial  outside [s]  RSS [MB]")
    for size in options.sizes:
        for seed in options.seeds:
            print(tune(size, options.trials, seed), flush=True)


if __name__ == "__main__":
    main()
