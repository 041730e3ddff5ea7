"""The connection to a Ray cluster; the only file that imports Ray."""

from __future__ import annotations

import contextlib
import importlib.util
import logging
import os
import signal
import socket
import threading
from collections.abc import Iterator, Sequence
from typing import Any

# Set before the import, which reads them. Otherwise a thread of Ray's would print what a dying
# node's system process logs to standard output; `Cluster` reports that a node was lost.
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ.setdefault("RAY_DEDUP_LOGS_SKIP_REGEX", ".*")

import ray
from ray.exceptions import (
    ActorUnavailableError,
    ActorUnschedulableError,
    RayActorError,
    RayError,
)
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from autosched.errors import ConfigError
from autosched.measure.cluster.link import Node, NodeBrokenError, NodeLostError
from autosched.measure.cluster.node import NodeWorker
from autosched.process.interrupt import ENDING_SIGNALS
from autosched.words import last_line

LOCAL = "local"
_CLIENT = "ray://"
_IN_START = "error raised in its creation task"  # also of an import that fails
_CONNECT_SECONDS = 10.0
_START = (
    "start one with `ray start --head`, then `ray start --address=HOST:6379` on the other nodes"
)
_AT_ONCE = 2  # methods of a process that may run at a time: a request and `news`


class RayLink:
    """Processes on the nodes of a Ray cluster: actors that Ray ends with this process.

    `address` is `ray://HOST:PORT`, `HOST:PORT`, `auto` (the cluster that runs on this machine) or
    `local` (one that is started for the run). Where this program is already connected to Ray, that
    connection is used and left open. Raises ConfigError when there is no such cluster.
    """

    def __init__(self, address: str) -> None:
        self._own = not ray.is_initialized()
        if self._own:
            with _same_signals():
                _connect(address)
        self._actor = ray.remote(NodeWorker)

    def nodes(self) -> list[Node]:
        """See `Link.nodes`; nodes without CPUs (`--num-cpus=0`) take no work."""
        try:
            nodes = ray.nodes()
        except (RayError, ConnectionError):
            return []
        found = [
            Node(node["NodeID"], f"{node['NodeManagerHostname']}/{node['NodeID'][:8]}")
            for node in nodes
            if node["Alive"] and node["Resources"].get("CPU", 0) >= 1
        ]
        return sorted(found, key=lambda node: node.name)

    def start(self, node: Node, workers: int, build_timeout: float) -> Any:
        """See `Link.start`: an actor bound to the node, which Ray does not restart."""
        here = NodeAffinitySchedulingStrategy(node.id, soft=False)
        actor = self._actor.options(
            num_cpus=0, max_concurrency=_AT_ONCE, max_restarts=0, scheduling_strategy=here
        )
        return actor.remote(workers, build_timeout)

    def ask(self, process: Any, method: str, *args: Any) -> Any:
        """See `Link.ask`."""
        return getattr(process, method).remote(*args)

    def wait(self, tickets: Sequence[Any], seconds: float) -> list[Any]:
        """See `Link.wait`."""
        if not tickets:
            return []
        ready, _ = ray.wait(list(tickets), num_returns=1, timeout=max(0.0, seconds))
        if ready:
            ready, _ = ray.wait(list(tickets), num_returns=len(tickets), timeout=0)
        return list(ready)

    def get(self, ticket: Any) -> Any:
        """See `Link.get`."""
        try:
            return ray.get(ticket)
        except RayError as error:
            raise _error_of(error) from None
        except ConnectionError:
            raise NodeLostError("the connection to the cluster was lost") from None

    def kill(self, process: Any) -> None:
        """See `Link.kill`."""
        with contextlib.suppress(RayError, ValueError, ConnectionError):
            ray.kill(process)

    def close(self) -> None:
        """See `Link.close`; a cluster of the address `local` ends."""
        if self._own and ray.is_initialized():
            ray.shutdown()


def _connect(address: str) -> None:
    _require_listener(address)
    settings: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address == LOCAL:
        settings["include_dashboard"] = False
    try:
        ray.init(address, **settings)
    except (RayError, RuntimeError, ConnectionError, ValueError, OSError, TimeoutError) as error:
        raise ConfigError(
            f"target.hosts: {address}: no Ray cluster answers ({last_line(str(error))}); {_START}"
        ) from error


def _require_listener(address: str) -> None:
    """Raise ConfigError where nobody listens; Ray itself would try for more than five minutes.

    Also raises it where the packages of Ray's client are missing.
    """
    if address.startswith(_CLIENT) and importlib.util.find_spec("grpc") is None:
        raise ConfigError(
            f"target.hosts: {address} needs grpcio, which Ray's client uses; install the extra: "
            "pip install 'autosched[ray]'"
        )
    host, _, port = address.removeprefix(_CLIENT).rpartition(":")
    if not host:
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), _CONNECT_SECONDS).close()
    except (OSError, OverflowError) as error:
        raise ConfigError(f"target.hosts: {address}: nobody answers ({error}); {_START}") from error


@contextlib.contextmanager
def _same_signals() -> Iterator[None]:
    """Keep this program's signal handlers; Ray would make SIGTERM end the process at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in ENDING_SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _error_of(error: RayError) -> NodeLostError | NodeBrokenError:
    """The error in a few words; Ray's own text has many lines."""
    text = str(error)
    if isinstance(error, ActorUnavailableError):
        return NodeLostError("its process no longer answers")
    if isinstance(error, ActorUnschedulableError) or "node has died" in text:
        return NodeLostError("its node died")
    if isinstance(error, RayActorError) and _IN_START not in text:
        return NodeLostError("its process died")
    return NodeBrokenError(last_line(text))
