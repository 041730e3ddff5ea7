"""A task: one computation on one target, named so that any process can rebuild it."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from autosched.errors import ConfigError
from autosched.state.dag import ComputeDAG
from autosched.target import Target, make_target
from autosched.te.tensor import Tensor
from autosched.workloads.source import WorkloadSource, source_from_json
from autosched.workloads.workload import MAX_SIZE, Array, shape_of


@dataclass(frozen=True)
class Task:
    """A workload on a target. Equal tasks have equal `key`s."""

    workload: WorkloadSource
    target: Target

    @classmethod
    def from_workload(cls, name: str, *, target: str | Target = "cpu", **args: Any) -> Task:
        """A built-in workload, e.g. `Task.from_workload("matmul", M=512, N=512, K=512)`.

        Raises ConfigError for an unknown workload or argument.
        """
        return cls.from_json_workload({"op": name, "args": args}, target)

    @classmethod
    def from_expression(
        cls,
        expr: str,
        shapes: Mapping[str, Sequence[int]],
        *,
        dtype: str = "float32",
        target: str | Target = "cpu",
    ) -> Task:
        """A workload written as text, e.g. `"C[i, j] = sum(k, A[i, k] * B[k, j])"`."""
        plain = {name: list(shape) for name, shape in shapes.items()}
        return cls.from_json_workload({"expr": expr, "shapes": plain, "dtype": dtype}, target)

    @classmethod
    def from_json_workload(cls, workload: Mapping[str, Any], target: str | Target) -> Task:
        """From the `workload` entry of a record or configuration."""
        if isinstance(target, str):
            target = make_target(target)
        return cls(source_from_json(workload), target)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Task:
        """The inverse of `to_json`. Raises ConfigError when a key is missing or wrong."""
        for key in ("workload", "target", "hardware"):
            if not isinstance(data.get(key), Mapping):
                raise ConfigError(f"task: {key}: expected an object, found {data.get(key)!r}")
        target = Target.from_json({**data["target"], "hardware": data["hardware"]})
        return cls.from_json_workload(data["workload"], target)

    def to_json(self) -> dict[str, Any]:
        """The `task` entry of a record: workload, target, hardware, key."""
        target = self.target.to_json()
        hardware = target.pop("hardware")
        return {
            "workload": self.workload.to_json(),
            "target": target,
            "hardware": hardware,
            "key": self.key,
        }

    @cached_property
    def key(self) -> str:
        """16 hex digits that name the workload, target kind, threads and hardware limits."""
        identity = {
            "workload": self.workload.to_json(),
            "kind": self.target.kind,
            "threads": self.target.threads,
            "hardware": self.target.hardware.as_list(),
        }
        text = json.dumps(identity, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def name(self) -> str:
        """A short readable name, e.g. `matmul(M=512, N=512, K=512)`."""
        return self.workload.title

    @cached_property
    def dag(self) -> ComputeDAG:
        """The computation; its tensors are the kernel's arguments, in order.

        Raises ConfigError when a tensor has more elements than an int32 index can tell apart.
        """
        dag = ComputeDAG(self.workload.tensors())
        for tensor in (t for op in dag.ops for t in op.outputs):
            elements = math.prod(shape_of(tensor))
            if elements > MAX_SIZE:
                raise ConfigError(
                    f"{self.name}: {tensor.name} would have {elements} elements, at most "
                    f"{MAX_SIZE} can be indexed; give smaller sizes"
                )
        return dag

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        return tuple(self.dag.tensors)

    @property
    def num_outputs(self) -> int:
        """How many of the arguments, at the end, are outputs."""
        return self.workload.num_outputs

    def inputs(self, seed: int = 0) -> list[Array]:
        """Random input arrays, the same for the same seed."""
        return self.workload.inputs(seed)

    def reference(self, inputs: Sequence[Array]) -> list[Array]:
        """What NumPy computes from `inputs`."""
        return self.workload.reference(inputs)
