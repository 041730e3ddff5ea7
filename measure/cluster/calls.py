"""Send requests to nodes; return their answers, or raise the errors that they stand for."""

from __future__ import annotations

from typing import Any

from autosched.errors import ConfigError, MeasureError
from autosched.measure.cluster.link import NodeBrokenError, NodeLostError
from autosched.measure.cluster.members import Cluster, Member
from autosched.measure.cluster.node import Answer, results_of, run_options
from autosched.measure.interrupt import RunLostError
from autosched.measure.run_options import RunOptions
from autosched.task import Task


def send(cluster: Cluster, member: Member, *request: Any) -> Any:
    """Send a request to a node; returns its ticket."""
    return cluster.link.ask(member.process, "do", request)


def receive(cluster: Cluster, member: Member, ticket: Any) -> Any:
    """Wait for the answer to a ticket. Raises NodeLostError, or what was raised on the node."""
    try:
        return value_of(member, cluster.link.get(ticket))
    except NodeBrokenError as error:
        raise NodeLostError(str(error)) from None


def value_of(member: Member, answer: Answer) -> Any:
    """The value of an answer. Raises ConfigError, MeasureError or RunLostError, as on the node."""
    kind, value = answer
    match kind:
        case "ok":
            return value
        case "config":
            raise ConfigError(f"node {member.name}: {value}")
        case "lost":
            message, results, index = value
            raise RunLostError(f"node {member.name}: {message}", results_of(results), index)
        case _:
            stage, failed, message = value
            raise MeasureError(message, stage=stage, kind=failed)


def prepare(cluster: Cluster, member: Member, task: Task, options: RunOptions) -> Any:
    """Send the request that prepares a node for a task; returns its ticket."""
    return send(cluster, member, "start", task.to_json(), run_options(options))
