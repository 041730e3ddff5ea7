"""Tune a task on a local Ray cluster: the cost of losing a node, and the gain from two nodes.

    python benchmarks/ray_nodes.py --trials 128

Each node has one core for itself. First one node measures, then two, each time all trials with the
same seed. Then two nodes measure again, and one of them is killed at trial 40.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

os.environ["RAY_DEDUP_LOGS_SKIP_REGEX"] = ".*"  # a dying node prints much; set before Ray loads

import autosched
from autosched.measure.records import Record, read_log
from autosched.search.progress import Progress
from autosched.target import cpu_target
from autosched.task import Task


class Cluster:
    """A cluster with a head that takes no work, and one node on each of some cores."""

    def __init__(self, cores: Sequence[int]) -> None:
        from ray.cluster_utils import Cluster as Local

        head = {"num_cpus": 0, "include_dashboard": False}
        self._local: Any = Local(initialize_head=True, head_node_args=head)
        all_cores = os.sched_getaffinity(0)
        self._nodes = []
        for core in cores:
            os.sched_setaffinity(0, {core})  # processes of the node inherit this
            self._nodes.append(self._local.add_node(num_cpus=1))
            os.sched_setaffinity(0, all_cores)

    @property
    def address(self) -> str:
        """The address of the head, as HOST:PORT."""
        return str(self._local.address)

    def kill(self) -> str:
        """End a node without a warning; return the first digits of its id."""
        node = self._nodes.pop()
        self._local.remove_node(node, allow_graceful=False)
        return str(node.node_id)[:8]

    def close(self) -> None:
        """End all nodes."""
        self._local.shutdown()


def tuned(
    cluster: Cluster, task: Task, path: Path, arguments: argparse.Namespace, kill_at: int | None
) -> tuple[float, list[float]]:
    """The seconds of a whole run and those of measuring; a node is killed at trial `kill_at`."""
    killed: list[str] = []
    phases: list[float] = []

    def observer(progress: Progress, records: Sequence[Record]) -> None:
        phases[:] = [progress.seconds.get("measure", 0.0)]
        running = progress.part is not None and progress.part.name == "run"
        done = progress.done + (progress.part.done if progress.part and running else 0)
        if kill_at is not None and running and done >= kill_at and not killed:
            killed.append(cluster.kill())
            print(f"  trial {done}: node {killed[0]} killed")

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        begun = time.perf_counter()
        autosched.tune(
            task,
            trials=arguments.trials,
            records=path,
            seed=arguments.seed,
            hosts=cluster.address,
            workers=1,
            observer=observer,
        )
        seconds = time.perf_counter() - begun
    for warning in said:
        if "was lost" in str(warning.message):
            print(f"  {warning.message}")
    return seconds, phases


def counted(path: Path, trials: int) -> str:
    """A text: how many candidates were measured, lost and measured twice, and where."""
    records = [record for record in read_log(path).records if "race" not in record.search]
    times = Counter(record.steps for record in records)
    known = [record for record in records if record.result.seconds or record.result.failure]
    hosts = Counter(record.result.host for record in records)
    twice = sum(number - 1 for number in times.values())
    where = ", ".join(f"{number} on {host}" for host, number in sorted(hosts.items()))
    return f"{len(known)} measured, {trials - len(times)} lost, {twice} twice ({where})"


def main() -> None:
    """Print the times and the losses of the three runs."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--trials", type=int, default=128)
    parser.add_argument("--kill-at", type=int, default=40)
    parser.add_argument("--size", type=int, default=256, help="of a square matrix product")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    size = arguments.size
    cores = sorted(os.sched_getaffinity(0))[:2]
    if len(cores) < 2:
        raise SystemExit("two nodes need two cores")
    task = Task.from_workload("matmul", M=size, N=size, K=size, target=cpu_target(1))
    print(f"{task.name} on {task.target}, {arguments.trials} trials")
    totals = []
    with tempfile.TemporaryDirectory() as folder:
        for nodes, kill_at in ((1, None), (2, None), (2, arguments.kill_at)):
            cluster = Cluster(cores[:nodes])
            path = Path(folder) / f"{nodes}-{kill_at}.jsonl"
            title = "one node" if nodes == 1 else "two nodes"
            print(f"{title}, one killed at trial {kill_at}:" if kill_at else f"{title}:")
            try:
                seconds, (measuring,) = tuned(cluster, task, path, arguments, kill_at)
            finally:
                cluster.close()
            totals.append((seconds, measuring))
            print(f"  {seconds:.1f} s, {measuring:.1f} s of it building and measuring")
            print(f"  {counted(path, arguments.trials)}")
    (one, one_measuring), (two, two_measuring) = totals[:2]
    print(
        f"two nodes against one: {one / two:.2f} times as fast as a whole, "
        f"{one_measuring / two_measuring:.2f} times building and measuring"
    )


if __name__ == "__main__":
    main()
