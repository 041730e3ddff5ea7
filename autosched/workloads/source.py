"""The source of a workload: a built-in with arguments, an expression, or Python code.

A source is plain data, so that a record or another process can rebuild the computation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from autosched import workloads
from autosched.errors import ConfigError
from autosched.te.operations.tensor import Tensor
from autosched.workloads.expression.workload import ExpressionWorkload
from autosched.workloads.numpy_version import NumpyVersion
from autosched.workloads.python_function import PythonWorkload
from autosched.workloads.workload import Array

SOURCES = ("op", "expr", "einsum", "python")
"""A workload has exactly one of these keys."""


class WorkloadSource(Protocol):
    """The interface of sources: they describe a computation and compute it with NumPy."""

    @property
    def title(self) -> str:
        """The operator and its arguments, for people to read."""

    @property
    def num_outputs(self) -> int:
        """How many of the tensors, at the end, are outputs."""

    def to_json(self) -> dict[str, Any]:
        """The `workload` entry of a record."""

    @property
    def computation(self) -> str:
        """A text of the parts of the computation that `to_json` does not determine.

        Empty where equal JSON means an equal computation.
        """

    def tensors(self) -> list[Tensor]:
        """The arguments as tensors: inputs, then outputs."""

    def inputs(self, seed: int = 0) -> list[Array]:
        """Random inputs, the same for the same seed."""

    def reference(self, inputs: Sequence[Array]) -> list[Array]:
        """The outputs for `inputs`, computed with NumPy."""

    @property
    def reference_name(self) -> str:
        """The name of the reference in messages."""

    def numpy_version(self) -> NumpyVersion | None:
        """The NumPy code with which a kernel is compared; None where NumPy has none."""


@dataclass(frozen=True)
class BuiltIn:
    """A built-in workload with its resolved arguments."""

    op: str
    args: tuple[tuple[str, Any], ...]

    @property
    def title(self) -> str:
        """The name, the sizes, and the fewest arguments that determine the types."""
        workload, args = workloads.get(self.op), dict(self.args)
        sizes = {name: value for name, value in args.items() if name in workload.args}
        types = workload.types.shown(workload.types_of(args))
        return f"{self.op}({', '.join(f'{k}={v}' for k, v in {**sizes, **types}.items())})"

    @property
    def num_outputs(self) -> int:
        """How many of the tensors, at the end, are outputs."""
        return workloads.get(self.op).n_outputs

    def to_json(self) -> dict[str, Any]:
        """Name and arguments, the input of `source_from_json`."""
        return {"op": self.op, "args": dict(self.args)}

    @property
    def computation(self) -> str:
        """Empty: name and arguments determine the computation."""
        return ""

    def tensors(self) -> list[Tensor]:
        """The arguments as tensors: inputs, then outputs."""
        return workloads.get(self.op).tensors(**dict(self.args))

    def inputs(self, seed: int = 0) -> list[Array]:
        """Random inputs, the same for the same seed."""
        return workloads.get(self.op).inputs(seed, **dict(self.args))

    def reference(self, inputs: Sequence[Array]) -> list[Array]:
        """The outputs for `inputs`, computed with NumPy."""
        return workloads.get(self.op).reference(inputs, **dict(self.args))

    @property
    def reference_name(self) -> str:
        """The name of the built-in NumPy reference."""
        return f"the NumPy reference of {self.title}"

    def numpy_version(self) -> NumpyVersion | None:
        """The built-in reference in the types of the inputs."""
        return workloads.get(self.op).numpy_version(**dict(self.args))


def source_from_json(data: Mapping[str, Any]) -> WorkloadSource:
    """The source described by `data`, which has exactly one of `op`, `expr`, `einsum`, `python`.

    Raises ConfigError naming what is unknown, missing or out of range.
    """
    given = [key for key in SOURCES if data.get(key) is not None]
    if len(given) != 1:
        found = " and ".join(given) if given else "none of them"
        raise ConfigError(f"workload: expected one of {', '.join(SOURCES)}, found {found}")
    if not isinstance(data[given[0]], str):
        raise ConfigError(f"workload: {given[0]}: expected text, found {data[given[0]]!r}")
    for key in ("args", "shapes"):
        if not isinstance(data.get(key) or {}, Mapping):
            raise ConfigError(f"workload: {key}: expected names and values, found {data[key]!r}")
    if given == ["op"]:
        args = workloads.get(data["op"]).resolve(data.get("args") or {})
        return BuiltIn(data["op"], tuple(args.items()))
    if given in (["expr"], ["einsum"]):
        parse = ExpressionWorkload.parse if given == ["expr"] else ExpressionWorkload.parse_einsum
        return parse(
            data[given[0]],
            data.get("shapes") or {},
            data.get("dtype") or "float32",
            data.get("layout_free") or (),
        )
    return PythonWorkload.load(data["python"], data.get("args"))
