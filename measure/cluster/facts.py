"""The facts about the nodes of a cluster, and which nodes can measure for a target."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

from autosched.cpu_cores import hardware_threads
from autosched.cpu_features import enabled
from autosched.errors import ConfigError
from autosched.measure.cpu_code import lacking
from autosched.measure.environment import fingerprint
from autosched.target import Target, cpu_target
from autosched.words import count

# Must be equal, so that nodes build the same code and the records of a run compare.
_SAME = ("autosched", "numpy", "llvmlite")


@dataclass(frozen=True, slots=True)
class NodeFacts:
    """What a node reports about itself.

    - `environment`: its fingerprint, like that of a record's machine.
    - `code`: what LLVM compiles for there (triple, cpu, features).
    - `caches`: the sizes of its caches in bytes.
    - `threads`: its hardware threads.
    - `versions`: the versions that must be equal on all nodes; `source` identifies autosched's own
      code.
    - `pid`: the process that answers for it.
    """

    environment: Mapping[str, Any]
    code: Mapping[str, str]
    caches: tuple[int, ...]
    threads: int
    versions: Mapping[str, str] = field(default_factory=dict)
    pid: int = 0

    def to_json(self) -> dict[str, Any]:
        """A plain dictionary, the input of `from_json`."""
        return asdict(self)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> NodeFacts:
        """The inverse of `to_json`."""
        return cls(**{**data, "caches": tuple(data["caches"])})

    @property
    def model(self) -> str:
        """The CPU's model, as the node's system names it."""
        return str(self.environment["cpu"])


def facts_here(pid: int = 0) -> NodeFacts:
    """The facts of this machine; `pid` is the process that answers for it."""
    target = cpu_target(1)
    return NodeFacts(
        fingerprint(),
        {"triple": target.triple, "cpu": target.cpu, "features": target.features},
        target.caches,
        hardware_threads(),
        versions_here(),
        pid,
    )


def versions_here() -> dict[str, str]:
    """The versions on this machine that all nodes must share."""
    here = fingerprint()
    packages = here["packages"]
    return {
        "source": _source(),
        "python": ".".join(here["python"].split(".")[:2]),
        **{name: packages[name] for name in _SAME},
    }


@lru_cache(maxsize=1)
def _source() -> str:
    """8 hex digits that identify the source files of autosched."""
    folder = Path(__file__).parents[2]  # the package's folder
    digest = hashlib.sha256()
    inner = [folder, *(folder / name for name in ("features", "measure", "search"))]
    files = {path for each in inner for path in each.rglob("*.py")}  # these three may be links
    for path in sorted(files, key=lambda p: p.relative_to(folder).as_posix()):
        digest.update(f"{path.relative_to(folder).as_posix()}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()[:8]


def version_problem(host: str, found: Mapping[str, str], expected: Mapping[str, str]) -> str:
    """How the versions of a node and of this process differ; empty when they are equal."""
    other = [name for name, value in expected.items() if found.get(name) != value]
    if not other:
        return ""
    if other == ["source"]:
        return f"{host}: autosched {expected['autosched']} with other source files than here"
    named = [name for name in other if name != "source"]
    parts = [f"{name} {found.get(name)}, here {expected[name]}" for name in named]
    return f"{host}: {'; '.join(parts)}"


def misfit(facts: NodeFacts, target: Target) -> str:
    """Why a node cannot measure for a CPU target; empty when it can."""
    chosen = target.chosen_cpu  # any CPU will do that runs its code
    own = facts.code["cpu"]
    if (target.triple, target.cpu) != (facts.code["triple"], own if not chosen else target.cpu):
        return f"{own} ({facts.code['triple']}), expected {target.cpu} ({target.triple})"
    here, expected = enabled(facts.code["features"]), enabled(target.features)
    lacks: Collection[str] = expected - here
    more = here - expected
    if chosen:
        lacks, more = lacking(target, facts.code["features"]), frozenset()
    if lacks or more:
        said = [f"lacks {_some(lacks)}"] if lacks else []
        said += [f"has {_some(more)} beside"] if more else []
        return f"{facts.code['cpu']} with other features: it {' and '.join(said)}"
    if target.caches and facts.caches and target.caches != facts.caches:
        return f"caches of {_kib(facts.caches)}, expected {_kib(target.caches)}"
    if facts.threads < target.threads:
        found = count(facts.threads, "hardware thread")
        return f"{found}, expected at least {target.threads}"
    return ""


def measuring(
    nodes: Mapping[str, NodeFacts], targets: Sequence[Target], here: str
) -> tuple[list[str], dict[str, str]]:
    """The nodes that can measure for all targets, and for each other node why it cannot.

    All measuring nodes have one CPU model: `here` (this machine's) if a fitting node has it,
    otherwise the most frequent one. Raises ConfigError, saying what was found and expected, when
    there is none.
    """
    why: dict[str, str] = {}
    for host, facts in nodes.items():
        problem = next(filter(None, (misfit(facts, target) for target in targets)), "")
        if problem:
            why[host] = problem
    fit = [host for host in nodes if host not in why]
    if not fit:
        expected = " and ".join(dict.fromkeys(map(str, targets)))
        found = "; ".join(f"{host}: {problem}" for host, problem in why.items())
        raise ConfigError(
            f"target.hosts: no node of the cluster fits {expected}: {found or 'there is none'}. "
            "Add nodes of that kind, or run autosched on a machine of the nodes' kind"
        )
    models = Counter(nodes[host].model for host in fit)
    model = here if here in models else models.most_common(1)[0][0]
    for host in fit:
        if nodes[host].model != model:
            why[host] = f"CPU {nodes[host].model}, others {model}"
    return [host for host in fit if host not in why], why


def _some(names: Collection[str]) -> str:
    first = sorted(names)[:3]
    more = len(names) - len(first)
    return ", ".join(first) + (f" and {more} more" if more else "")


def _kib(caches: Sequence[int]) -> str:
    return ", ".join(f"{size >> 10} KiB" for size in caches)
