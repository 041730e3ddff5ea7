"""The interface to a cluster; `ray_link` implements it for Ray."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from autosched.errors import AutoschedError


class NodeLostError(AutoschedError):
    """A node's process no longer answers: the process, the node or the connection is gone."""


class NodeBrokenError(AutoschedError):
    """A node could not run our code at all: autosched is missing there, or differs."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node that takes work. `name` is unique, even where one machine runs several nodes."""

    id: str
    name: str


class Link(Protocol):
    """Calls to processes on the nodes of a cluster; only `wait` and `get` wait.

    A process ends when its node ends, when it is told to, and whenever this process ends.
    """

    def nodes(self) -> list[Node]:
        """The nodes that are alive and take work; the first node of a run is always first."""

    def start(self, node: Node, workers: int, build_timeout: float) -> Any:
        """Start a process of `NodeWorker` on the node."""

    def ask(self, process: Any, method: str, *args: Any) -> Any:
        """Call a method of a process; returns a hashable ticket for the answer."""

    def wait(self, tickets: Sequence[Any], seconds: float) -> list[Any]:
        """The tickets that have an answer, as soon as one has, or after `seconds`."""

    def get(self, ticket: Any) -> Any:
        """Wait for the answer to a ticket. Raises NodeLostError or NodeBrokenError."""

    def kill(self, process: Any) -> None:
        """End a process and what it started."""

    def close(self) -> None:
        """Leave the cluster; all processes end."""
