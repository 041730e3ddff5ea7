"""What a cluster has to offer; Ray's is in `ray_link`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from autosched.errors import AutoschedError


class NodeLostError(AutoschedError):
    """The process of a node answers no more: it, its node or the way there is gone."""


class NodeBrokenError(AutoschedError):
    """A node could not run our code at all: autosched is not installed there, or another one."""


@dataclass(frozen=True, slots=True)
class Node:
    """A node that takes work. `name` tells it from all others, whatever runs on one machine."""

    id: str
    name: str


class Link(Protocol):
    """Calls to processes on the nodes of a cluster; none of them waits but `wait`.

    A process ends when its node does, when it is told to, and when this process does, however.
    """

    def nodes(self) -> list[Node]:
        """The nodes that live now and take work, the first one of a run always first."""

    def start(self, node: Node, workers: int, build_timeout: float) -> Any:
        """A process of `NodeWorker` on the node."""

    def ask(self, process: Any, method: str, *args: Any) -> Any:
        """Call a method of it: a ticket, which can be hashed, for its answer."""

    def wait(self, tickets: Sequence[Any], seconds: float) -> list[Any]:
        """Those of the tickets that have an answer, as soon as one has, or after `seconds`."""

    def get(self, ticket: Any) -> Any:
        """The answer; waits for it. Raises NodeLostError or NodeBrokenError."""

    def kill(self, process: Any) -> None:
        """End a process, with what it started."""

    def close(self) -> None:
        """Leave the cluster; all processes end."""
