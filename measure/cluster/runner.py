"""Run candidates on the nodes of a cluster: a batch is split into one part per node.

    candidates  0 1 2 3 4 5 6 7
    node a      0   2   4   6          each part is a batch of its own on its node
    node b        1   3   5   7

A node that is lost leaves. Those of its candidates that had not failed go to the others. What must
be compared (the race at the end of a run, a best timed again, NumPy) is timed on one node.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from autosched.errors import AutoschedError, ConfigError, MeasureError
from autosched.measure.check import Seen
from autosched.measure.cluster.calls import prepare, receive, send
from autosched.measure.cluster.link import NodeBrokenError, NodeLostError
from autosched.measure.cluster.members import Cluster, Member
from autosched.measure.cluster.node import failure_of, results_of, seen_of
from autosched.measure.interrupt import RunInterrupted, RunLostError
from autosched.measure.result import Failure, RunResult
from autosched.measure.run_options import RunOptions
from autosched.task import Task

_NEWS_SECONDS = 0.25  # between two requests for news


@dataclass(slots=True)
class _Part:
    """A node's part of a batch: `indices` are its candidates.

    - `ticket`: that of the request that runs the part.
    - `news`: the ticket of the request for news under way, if any.
    - `next_news`: when to ask for news again.
    - `known`: how many items of news were received.
    - `done`: the finished work, counted in candidates.
    """

    member: Member
    indices: list[int]
    ticket: Any
    news: Any = None
    next_news: float = 0.0
    known: int = 0
    done: int = 0


class ClusterRunner:
    """Measures on the nodes of `cluster`."""

    def __init__(self, options: RunOptions, cluster: Cluster) -> None:
        self.options = options
        self.on_result: Callable[[int, RunResult], None] | None = None
        self.cluster = cluster
        self._hosts: dict[int, str] = {}
        self._disturbed: dict[int, int] = {}

    def host_of(self, index: int) -> str:
        """The name of the node on which a candidate of the last `run` was measured."""
        return self._hosts.get(index, "")

    @property
    def checks_in_run(self) -> bool:
        """Whether `run` compares every candidate with the reference: no node does."""
        return False

    def known_of(self, index: int) -> tuple[Seen | None, dict[str, Any] | None]:
        """See `Runner.known_of`: nothing, as no candidate is compared in a `run`."""
        return None, None

    def disturbed(self, index: int) -> int:
        """The number of disturbed visits of a candidate of the last `run`."""
        return self._disturbed.get(index, 0)

    def close(self) -> None:
        """End the processes on all nodes."""
        self.cluster.close()

    def launch(self, task: Task) -> None:
        """The same as `start`, so that a missing or busy node is reported before the search."""
        self.start(task)

    def start(self, task: Task) -> None:
        """Prepare all nodes for the task, also nodes that join meanwhile; lost nodes leave.

        A node that cannot hold the task only builds. Raises that node's ConfigError when there is
        no other node, and RunLostError when none is left.
        """
        while new := [m for m in self.cluster.require() if m.task != task.key]:
            asked = [(m, prepare(self.cluster, m, task, self.options)) for m in new]
            refused = []
            for member, ticket in asked:
                error = self._prepared(member, ticket, task)
                if error is not None:
                    refused.append((member, error))
            if refused and len(refused) == len(self.cluster.measurers):
                raise refused[0][1]
            for member, error in refused:
                if isinstance(error, ConfigError):
                    self.cluster.builds_only(member, str(error))
                else:
                    self.cluster.leaves(member, str(error))

    def _prepared(self, member: Member, ticket: Any, task: Task) -> AutoschedError | None:
        """Wait until a node is prepared. Returns the error with which it refuses, if any."""
        try:
            receive(self.cluster, member, ticket)
        except (NodeLostError, RunLostError) as error:
            self.cluster.leaves(member, str(error))
        except (ConfigError, MeasureError) as error:
            return error
        else:
            member.task = task.key
        return None

    def reference(self, task: Task) -> None:
        """See `Runner.reference`; on the node where results are checked."""
        self._at_home(task, "reference")

    def check(self, task: Task, artifact: bytes) -> Failure | Seen:
        """See `Runner.check`; on the first node."""
        try:
            return seen_of(self._at_home(task, "check", artifact))
        except MeasureError as error:
            return Failure(error.stage, error.kind, str(error))

    def peak(self, task: Task) -> float | None:
        """See `Runner.peak`; on the first node."""
        if not self.cluster.measurers:  # the run is over
            return None
        try:
            found: float | None = self._at_home(task, "peak")
        except MeasureError:
            return None
        return found

    def compare_with_numpy(
        self, task: Task, artifact: bytes, plain: bytes | None = None
    ) -> tuple[Sequence[float], Sequence[float]]:
        """See `CpuRunner.compare_with_numpy`; on the first node."""
        theirs, ours = self._at_home(task, "numpy", artifact, plain)
        return theirs, ours

    def together(
        self, task: Task, artifacts: Sequence[bytes], visits: int, seconds: float
    ) -> list[RunResult]:
        """See `Runner.together`; all candidates run on the first node.

        Raises RunLostError when the node is lost: a race does not continue on another node.
        """
        self.start(task)
        home = self.cluster.measurers[0]
        request = ("together", task.to_json(), list(artifacts), visits, seconds)
        try:
            found, disturbed = receive(self.cluster, home, send(self.cluster, home, *request))
        except NodeLostError as error:
            self.cluster.leaves(home, str(error))
            raise RunLostError(f"{home.name} was lost during the race: {error}") from None
        except BaseException:
            self._stop([home])
            raise
        self._hosts = dict.fromkeys(range(len(artifacts)), home.name)
        self._disturbed = dict(enumerate(disturbed))
        return results_of(found)

    def run(
        self,
        task: Task,
        artifacts: Sequence[bytes | None],
        best: float = float("inf"),
        on_done: Callable[[int], None] | None = None,
    ) -> list[RunResult]:
        """See `Runner.run`. RunLostError, with the results so far, when all nodes are lost."""
        self._hosts, self._disturbed = {}, {}
        results: list[RunResult] = [([], None) for _ in artifacts]
        todo = [index for index, artifact in enumerate(artifacts) if artifact is not None]
        while todo:
            try:
                self.start(task)
                members = self.cluster.measurers[: len(todo)]
                parts = [
                    self._send(task, artifacts, best, m, todo[k :: len(members)])
                    for k, m in enumerate(members)
                ]
            except RunLostError as lost:
                raise RunLostError(str(lost), results) from None
            except KeyboardInterrupt:
                raise RunInterrupted(results) from None
            todo = self._run_parts(parts, results, len(artifacts), on_done)
        if on_done is not None:
            on_done(len(artifacts))
        return results

    def _send(
        self,
        task: Task,
        artifacts: Sequence[bytes | None],
        best: float,
        member: Member,
        indices: list[int],
    ) -> _Part:
        batch = [artifacts[index] for index in indices]
        ticket = send(self.cluster, member, "run", task.to_json(), batch, best)
        return _Part(member, indices, ticket, next_news=time.monotonic() + _NEWS_SECONDS)

    def _run_parts(
        self,
        parts: Sequence[_Part],
        results: list[RunResult],
        total: int,
        on_done: Callable[[int], None] | None,
    ) -> list[int]:
        """Fill in the results of each part; returns the candidates that must go to another node."""
        again: list[int] = []
        left = list(parts)
        before = total - sum(len(part.indices) for part in parts)
        try:
            while left:
                ready = self._wait(left)
                for part in [p for p in left if p.ticket in ready]:
                    left.remove(part)
                    again += self._finish(part, results)
                for part in left:
                    self._hear(part, ready, results)
                if on_done is not None:
                    on_done(min(total, before + sum(part.done for part in parts)))
        except KeyboardInterrupt:
            self._stop([part.member for part in left])
            raise RunInterrupted(results) from None
        return sorted(again)

    def _wait(self, parts: Sequence[_Part]) -> list[Any]:
        """The tickets that have an answer, after asking for news where it is time."""
        now = time.monotonic()
        for part in parts:
            if part.news is None and now >= part.next_news:
                part.news = self.cluster.link.ask(part.member.process, "news", part.known)
        tickets = [t for part in parts for t in (part.ticket, part.news) if t is not None]
        return self.cluster.link.wait(tickets, _NEWS_SECONDS)

    def _hear(self, part: _Part, ready: Sequence[Any], results: list[RunResult]) -> None:
        """Take the news of a part under way."""
        if part.news is None or part.news not in ready:
            return
        ticket, part.news = part.news, None
        part.next_news = time.monotonic() + _NEWS_SECONDS
        try:
            part.done, items = self.cluster.link.get(ticket)
        except (NodeLostError, NodeBrokenError):  # the part's own answer reports it, too
            return
        part.known += len(items)
        for place, seconds, failure in items:
            self._known(part, place, (list(seconds), failure_of(failure)), results)

    def _known(self, part: _Part, place: int, result: RunResult, results: list[RunResult]) -> None:
        index = part.indices[place]
        results[index] = result
        self._hosts[index] = part.member.name
        if self.on_result is not None:
            self.on_result(index, result)

    def _finish(self, part: _Part, results: list[RunResult]) -> list[int]:
        """Take the answer of a part; returns the candidates of a lost node to be measured again."""
        try:
            found, disturbed = receive(self.cluster, part.member, part.ticket)
        except RunLostError as lost:
            self.cluster.leaves(part.member, str(lost))
            return self._lost(part, results, lost.results)
        except NodeLostError as lost:
            self.cluster.leaves(part.member, str(lost))
            return self._lost(part, results, [results[index] for index in part.indices])
        except (MeasureError, ConfigError) as error:  # no candidate is to blame
            self.cluster.leaves(part.member, str(error))
            return self._lost(part, results, [results[index] for index in part.indices])
        part.done = len(part.indices)
        self._disturbed |= zip(part.indices, disturbed, strict=True)
        for index, result in zip(part.indices, results_of(found), strict=True):
            results[index] = result
            self._hosts[index] = part.member.name
        return []

    def _lost(self, part: _Part, results: list[RunResult], known: Sequence[RunResult]) -> list[int]:
        """Keep the failures of a lost part; returns the candidates to measure from the start."""
        again = []
        part.done = 0
        for index, (seconds, failure) in zip(part.indices, known, strict=True):
            if failure is None:
                results[index] = ([], None)
                self._hosts.pop(index, None)
                again.append(index)
            else:
                results[index] = seconds, failure
                part.done += 1
        return again

    def _at_home(self, task: Task, what: str, *rest: Any) -> Any:
        """The answer of the first node to a request, or of the next one if that node is lost."""
        while True:
            self.start(task)
            home = self.cluster.measurers[0]
            try:
                ticket = send(self.cluster, home, what, task.to_json(), *rest)
                return receive(self.cluster, home, ticket)
            except NodeLostError as error:
                self.cluster.leaves(home, str(error))
            except RunLostError as error:
                self.cluster.leaves(home, str(error))
            except KeyboardInterrupt:
                self._stop([home])
                raise

    def _stop(self, members: Sequence[Member]) -> None:
        """End what is under way, with its process; a new process starts when one is needed."""
        for member in members:
            if member in self.cluster.measurers:
                self.cluster.drop(member)
