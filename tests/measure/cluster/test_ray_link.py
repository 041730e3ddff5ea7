"""A cluster of Ray's on this machine: a head that takes no work, and two nodes."""

from __future__ import annotations

import importlib.util
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

import autosched
from autosched.errors import ConfigError
from autosched.measure.cluster.link import Node, NodeBrokenError, NodeLostError
from autosched.measure.records import Record, read_log
from autosched.measure.run_options import RunOptions
from autosched.search.progress import Progress
from autosched.task import Task

pytest.importorskip("ray", reason="Ray is not installed: pip install 'autosched[ray]'")

CLIENT = importlib.util.find_spec("grpc") is not None
LONG = 120.0
QUICK = RunOptions(timeout=60.0, min_repeat_ms=2.0)


class Nodes:
    """The cluster; `kill` ends a node as a power failure does."""

    def __init__(self) -> None:
        from ray.cluster_utils import Cluster

        head: dict[str, Any] = {"num_cpus": 0, "include_dashboard": False}
        self._cluster: Any = Cluster(initialize_head=True, head_node_args=head)
        self.address = str(self._cluster.address)
        self.nodes: list[Any] = []

    def add(self) -> str:
        """Another node; its id."""
        self.nodes.append(self._cluster.add_node(num_cpus=1))
        return str(self.nodes[-1].node_id)

    def kill(self, node_id: str) -> None:
        (node,) = (node for node in self.nodes if node.node_id == node_id)
        self.nodes.remove(node)
        self._cluster.remove_node(node, allow_graceful=False)

    def actors(self) -> list[int]:
        """The processes of ours on its nodes."""
        raylets = {
            info.process.pid
            for node in (*self.nodes, self._cluster.head_node)
            for kind, each in node.all_processes.items()
            for info in each
            if kind == "raylet"
        }
        known = [int(path.name) for path in Path("/proc").glob("[0-9]*")]
        return [pid for pid in known if _is(pid, raylets)]

    def close(self) -> None:
        self._cluster.shutdown()


def _is(pid: int, raylets: set[int]) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
        title = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return int(stat.rpartition(")")[2].split()[1]) in raylets and b"NodeWorker" in title


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    found = Nodes()
    found.add()
    found.add()
    yield found
    found.close()
    for number, handler in before.items():
        signal.signal(number, handler)


def test_a_node_killed_in_the_middle_costs_nothing_that_was_measured(
    nodes: Nodes, tmp_path: Path
) -> None:
    path, killed = tmp_path / "r.jsonl", list[str]()
    first, second = (f"/{node.node_id[:8]}" for node in nodes.nodes)
    task = Task.from_workload("matmul", M=32, N=32, K=32)
    before = signal.getsignal(signal.SIGTERM)

    def observer(progress: Progress, records: Sequence[Record]) -> None:
        running = progress.part is not None and progress.part.name == "run"
        if running and progress.done >= 8 and not killed:
            killed.append(nodes.nodes[1].node_id)
            nodes.kill(killed[0])

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        result = autosched.tune(
            task,
            trials=24,
            batch=8,
            cost_model="random",
            records=path,
            hosts=nodes.address,
            measure=QUICK,
            observer=observer,
        )
    assert killed
    # It is told where something was under way on the node, and not where it had just ended.
    assert len([w for w in said if "was lost" in str(w.message)]) <= 1
    records = [record for record in read_log(path).records if "race" not in record.search]
    assert len(records) == len({record.steps for record in records}) == 24
    assert all(record.result.seconds or record.result.failure for record in records)
    assert result.best.record.result.checked
    # Ray ends the processes of a killed node in the background: they may answer once more.
    assert {first} <= {record.result.host[-9:] for record in records} <= {first, second}
    wait_for(lambda: not nodes.actors())  # Ray ends them in the background
    assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_on_the_nodes(nodes: Nodes, number: signal.Signals, tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    words = ["tune", "matmul", "M=16", "N=16", "K=16", "--trials", "100000", "--ray", nodes.address]
    quick = ["search.batch=4", "cost_model.kind=random", "measure.min_repeat_ms=2"]
    sets = [word for each in quick for word in ("--set", each)]
    tuner = subprocess.Popen(
        [sys.executable, "-m", "autosched", *words, *sets, "--records", str(path)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    try:
        wait_for(lambda: tuner.poll() is not None or (path.exists() and len(lines(path)) > 4))
        assert nodes.actors()
        tuner.send_signal(number)
        status = tuner.wait(LONG)
    finally:
        tuner.kill()
        tuner.wait()
    assert status == (-number if number == signal.SIGKILL else 130)
    wait_for(lambda: not nodes.actors())


def lines(path: Path) -> list[Record]:
    return read_log(path).records


def wait_for(happened: Callable[[], object]) -> None:
    end = time.monotonic() + LONG
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.05)


class Broken:
    """In place of `NodeWorker`: as where an import fails."""

    def __init__(self, workers: int, build_timeout: float) -> None:
        raise ModuleNotFoundError("No module named 'autosched'")

    def facts(self) -> None:
        pass


def test_what_is_wrong_with_a_node_is_told_apart(nodes: Nodes) -> None:
    import ray

    from autosched.measure.cluster.ray_link import RayLink

    link = RayLink(nodes.address)
    try:
        node, *_ = link.nodes()
        gone = link.start(Node("0" * 56, "gone"), 1, LONG)
        with pytest.raises(NodeLostError, match="its node died"):
            link.get(link.ask(gone, "facts"))
        killed = link.start(node, 1, LONG)
        assert link.get(link.ask(killed, "facts"))["threads"] >= 1
        link.kill(killed)
        with pytest.raises(NodeLostError, match=r"its process (died|answers no more)"):
            while True:  # Ray kills when it comes to it; until then the process answers
                link.get(link.ask(killed, "facts"))
        vars(link)["_actor"] = ray.remote(Broken)
        broken = link.start(node, 1, LONG)
        with pytest.raises(NodeBrokenError, match=r"^ModuleNotFoundError: .*'autosched'$"):
            link.get(link.ask(broken, "facts"))
    finally:
        link.close()


@pytest.mark.parametrize("address", ["localhost:1", "ray://localhost:1"])
def test_no_cluster_at_an_address(address: str) -> None:
    missing = "://" in address and not CLIENT
    says = " needs grpcio, .*pip install" if missing else ": nobody answers .*ray start"
    with pytest.raises(ConfigError, match=f"target.hosts: {address}{says}"):
        autosched.tune(Task.from_workload("matmul", M=8, N=8, K=8), hosts=address)
