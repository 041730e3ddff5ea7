"""A fake cluster: its nodes answer at once, and die when a test says so."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from autosched.measure.cluster.facts import NodeFacts, facts_here
from autosched.measure.cluster.link import Node, NodeBrokenError, NodeLostError
from autosched.measure.cluster.node import Answer

Request = tuple[Any, ...]
Told = tuple[int, list[float], dict[str, str] | None]


def node_facts(threads: int = 4, **changes: Any) -> NodeFacts:
    """This machine's facts, with the given number of threads."""
    return replace(facts_here(), threads=threads, **changes)


@dataclass(eq=False)
class FakeProcess:
    """Stands in for `NodeWorker` on a node. `asked` has the requests so far."""

    node: FakeNode
    asked: list[Request] = field(default_factory=list)
    ended: bool = False

    def facts(self) -> dict[str, Any]:
        if self.node.broken:
            raise NodeBrokenError(self.node.broken)
        return self.node.facts.to_json()

    def news(self, known: int) -> tuple[int, list[Told]]:
        return len(self.node.told), self.node.told[known:]

    def do(self, request: Request) -> Answer:
        self.asked.append(request)
        if self.node.answer is not None:
            found = self.node.answer(request)
            if found is not None:
                return found
        match request:
            case ("build", _, batch):
                return "ok", [(repr(steps).encode(), 0.1, None) for steps in batch]
            case ("run" | "together", _, artifacts, *_):
                results = [([1e-3 * len(artifact)], None) for artifact in artifacts]
                return "ok", (results, [len(artifact) for artifact in artifacts])
            case ("check", *_):
                return "ok", {"failure": {"stage": "check", "kind": "error", "message": "no"}}
            case ("peak", *_):
                return "ok", 1e9
        return "ok", None


@dataclass(eq=False)
class FakeNode:
    """A node that dies at the request named `dies`, after reporting `told` of the batch.

    `answer` may answer requests in its own way. `broken` is the reason why our code cannot run on
    the node.
    """

    name: str
    facts: NodeFacts = field(default_factory=node_facts)
    dies: str = ""
    broken: str = ""
    told: list[Told] = field(default_factory=list)
    answer: Callable[[Request], Answer | None] | None = None
    gone: bool = False
    processes: list[FakeProcess] = field(default_factory=list)

    def requests(self, what: str) -> list[Request]:
        """The requests named `what` that its processes got."""
        return [r for process in self.processes for r in process.asked if r[0] == what]


@dataclass(eq=False)
class _Ticket:
    process: FakeProcess
    method: str
    args: tuple[Any, ...]


class FakeLink:
    """A `Link` to FakeNodes that raises KeyboardInterrupt while it waits for `interrupt`."""

    def __init__(self, *nodes: FakeNode, interrupt: str = "") -> None:
        self.fakes = list(nodes)
        self.closed = False
        self.interrupt = interrupt

    def nodes(self) -> list[Node]:
        return [Node(fake.name, fake.name) for fake in self.fakes if not fake.gone]

    def start(self, node: Node, workers: int, build_timeout: float) -> FakeProcess:
        (fake,) = (fake for fake in self.fakes if fake.name == node.name)
        fake.processes.append(FakeProcess(fake))
        return fake.processes[-1]

    def ask(self, process: FakeProcess, method: str, *args: Any) -> _Ticket:
        return _Ticket(process, method, args)

    def wait(self, tickets: Sequence[_Ticket], seconds: float) -> list[_Ticket]:
        """The finished tickets; news come before everything else, as from a busy node."""
        names = [str(ticket.args[0][0]) for ticket in tickets if ticket.method == "do"]
        news = [ticket for ticket in tickets if ticket.method == "news"]
        fresh = [t for t in news if t.args[0] < len(t.process.node.told)]
        if fresh:
            return fresh
        if self.interrupt in names:
            self.interrupt = ""
            raise KeyboardInterrupt
        return list(tickets)

    def get(self, ticket: _Ticket) -> Any:
        node, process = ticket.process.node, ticket.process
        if ticket.method == "do" and ticket.args[0][0] == node.dies:
            node.gone = True
        if node.gone or process.ended:
            raise NodeLostError("its node died")
        return getattr(process, ticket.method)(*ticket.args)

    def kill(self, process: FakeProcess) -> None:
        process.ended = True

    def close(self) -> None:
        self.closed = True
