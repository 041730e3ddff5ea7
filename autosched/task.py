"""A task: one computation on one target, described so that any process can rebuild it."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

from autosched.arguments import found, integer, mapping
from autosched.errors import ConfigError
from autosched.layout import LayoutOption
from autosched.lowering import NO_LOWERING, Lowering
from autosched.state.dag import ComputeDAG
from autosched.state.layout_rewrite import layout_free_tensors
from autosched.target import Target, make_target
from autosched.te.operations.tensor import Tensor
from autosched.user_file import require_trusted, spec_of
from autosched.words import visible
from autosched.workloads.chosen_inputs import ChosenInput, parse_inputs, replace_inputs
from autosched.workloads.index_values import index_values
from autosched.workloads.reads import check_overflow, check_reads, check_variables
from autosched.workloads.source import WorkloadSource, source_from_json
from autosched.workloads.workload import MAX_SIZE, Array, shape_of

_LAYOUT_WORDS = {
    LayoutOption.INSERT_TRANSFORM_STAGE: "transformed first",
    LayoutOption.FOR_PRE_TRANSFORMED: "pre-transformed",
}


@dataclass(frozen=True)
class Task:
    """A workload on a target. Equal tasks have equal `key`s.

    - `layout`: what kernels do with the inputs that the workload calls layout-free.
    - `chosen_inputs`: the contents of inputs that are not random.
    - `lowering`: which of the user's passes run, and which passes do not (docs/configuration.md).

    Raises ConfigError when a rewrite is requested but no input is layout-free, or the target is not
    a CPU, or an argument is of a wrong type.
    """

    workload: WorkloadSource
    target: Target
    layout: LayoutOption = LayoutOption.NO_REWRITE
    chosen_inputs: tuple[tuple[str, ChosenInput], ...] = ()
    lowering: Lowering = NO_LOWERING

    def __post_init__(self) -> None:
        if not isinstance(self.target, Target):
            raise ConfigError(f"target: expected cpu, cuda or a Target, {found(self.target)}")
        if not hasattr(self.workload, "tensors"):
            raise ConfigError(
                f"workload: expected a computation, {found(self.workload)}; make tasks with "
                "Task.from_workload, Task.from_expression or Task.from_python"
            )
        if self.layout == LayoutOption.NO_REWRITE:
            return
        asked = f"layout_rewrite: {self.layout.text}"
        if self.target.is_gpu:
            raise ConfigError(f"{asked} is for CPU targets, found {self.target.kind}")
        if not self.layout_free:
            raise ConfigError(
                f"{asked} needs a layout-free input, but {self.workload.title} has none; "
                "an expression names them under layout_free, a Python function in the attribute "
                "layout_free_placeholders of te.compute"
            )

    def __getstate__(self) -> dict[str, Any]:
        """The fields, for pickle and copy: the computation can be made again."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_workload(
        cls,
        name: str,
        *,
        target: str | Target = "cpu",
        layout_rewrite: str | LayoutOption = "none",
        **args: Any,
    ) -> Task:
        """A task of a built-in workload; `autosched workloads` lists them with their arguments.

            >>> task = Task.from_workload("matmul", M=512, N=512, K=512)
            >>> task.dag.flop_count  # floating-point operations of a call
            268435456.0

        `layout_rewrite` is one of none, insert-transform-stage, pre-transformed. Raises ConfigError
        for an unknown workload or argument.
        """
        return cls.from_json_workload({"op": name, "args": args}, target, layout_rewrite)

    @classmethod
    def from_expression(
        cls,
        expr: str,
        shapes: Mapping[str, Sequence[int]],
        *,
        dtype: str | Mapping[str, str] = "float32",
        target: str | Target = "cpu",
        layout_free: Sequence[str] = (),
        layout_rewrite: str | LayoutOption = "none",
    ) -> Task:
        """A task of a workload written as text.

            >>> shapes = {"A": (8, 4), "B": (4, 8)}
            >>> task = Task.from_expression("C[i, j] = sum(k, A[i, k] * B[k, j])", shapes)

        docs/expressions.md has the grammar. `dtype` is the type of all tensors, or maps each
        tensor's name to its type. `layout_free` names the inputs that a `layout_rewrite` may store
        in another order.

        Raises ConfigError for a wrong expression, shape or name.
        """
        plain = _plain_shapes(shapes)
        if isinstance(layout_free, str) or not isinstance(layout_free, Iterable):
            raise ConfigError(
                f"layout_free: expected a list of inputs' names, {found(layout_free)}"
            )
        workload = {"expr": expr, "shapes": plain, "dtype": dtype, "layout_free": list(layout_free)}
        return cls.from_json_workload(workload, target, layout_rewrite)

    @classmethod
    def from_einsum(
        cls,
        subscripts: str,
        shapes: Mapping[str, Sequence[int]],
        *,
        dtype: str | Mapping[str, str] = "float32",
        target: str | Target = "cpu",
    ) -> Task:
        """A task of a workload in NumPy's einsum notation; the result is called `out`.

            >>> shapes = {"Q": (1, 8, 64, 32), "K": (1, 8, 64, 32)}
            >>> task = Task.from_einsum("bhid,bhjd->bhij", shapes)

        `shapes` maps the name of each input to its shape, in the order of the operands.
        """
        workload = {"einsum": subscripts, "shapes": _plain_shapes(shapes), "dtype": dtype}
        return cls.from_json_workload(workload, target)

    @classmethod
    def from_python(
        cls,
        function: str | Callable[..., Sequence[Tensor]],
        *,
        target: str | Target = "cpu",
        layout_rewrite: str | LayoutOption = "none",
        **args: Any,
    ) -> Task:
        """A task of a workload that a Python function declares with te (docs/configuration.md).

            def my_matmul(n):                     # in my_ops.py
                ...
                return A, B, C

            task = Task.from_python(my_matmul, n=512)
            task = Task.from_python("my_ops.py:my_matmul", n=512)

        `args` are the function's arguments, values that JSON can hold. The function's file is run
        here and in the processes that build and check kernels; code that they should not run
        belongs under `if __name__ == "__main__":`. Raises ConfigError, with the file and line, when
        the function is not at the top level of a file, fails, or returns something else than
        tensors.
        """
        spec = function if isinstance(function, str) else spec_of(function, "python")
        return cls.from_json_workload({"python": spec, "args": args}, target, layout_rewrite)

    @classmethod
    def from_json_workload(
        cls,
        workload: Mapping[str, Any],
        target: str | Target,
        layout_rewrite: str | LayoutOption = "none",
    ) -> Task:
        """A task from the `workload` entry of a record or configuration."""
        mapping("workload", workload, '{"op": "matmul", "args": {"M": 8, "N": 8, "K": 8}}')
        if isinstance(target, str):
            target = make_target(target)
        return cls(source_from_json(workload), target, LayoutOption.parse(layout_rewrite))

    @classmethod
    def from_json(
        cls, data: Mapping[str, Any], *, trust: bool = False, to_run: bool = True
    ) -> Task:
        """The inverse of `to_json`.

        Raises ConfigError when a key is missing or wrong, when a Python function no longer declares
        the recorded computation, and when a Python file would run that is not trusted. `trust` is
        for data of this program's own processes; for records use `autosched.trusting`.
        `to_run=False` is for callers that only describe the task or its loops: passes then need no
        trust until the task is lowered, and functions of inputs none until the inputs are made.
        """
        mapping("task", data, "the task entry of a record")
        for key in ("workload", "target", "hardware"):
            if not isinstance(data.get(key), Mapping):
                raise ConfigError(f"task: {key}: expected an object, found {data.get(key)!r}")
        inputs = parse_inputs(data.get("inputs") or {})
        lowering = Lowering.parse(data.get("lowering") or {})
        if not trust:
            if data["workload"].get("python") is not None:
                require_trusted(data["workload"]["python"], "workload: python")
            if to_run:
                for name, chosen in inputs:
                    chosen.require_trusted(f"inputs: {name}")
                lowering.require_trusted()
            else:
                inputs = tuple((name, replace(each, trusted=False)) for name, each in inputs)
                lowering = replace(lowering, trusted=False)
        target = Target.from_json({**data["target"], "hardware": data["hardware"]})
        task = cls(
            source_from_json(data["workload"]),
            target,
            LayoutOption.parse(data.get("layout_rewrite", "none")),
            inputs,
            lowering,
        )
        if task.workload.computation and data.get("key", task.key) != task.key:
            raise ConfigError(
                f"{task.name}: its file no longer declares the computation, or makes the inputs, "
                "that were recorded; "
                "restore the file, or tune again"
            )
        return task

    def to_json(self) -> dict[str, Any]:
        """The `task` entry of a record: workload, target, hardware, further options and the key."""
        target = self.target.to_json()
        hardware = target.pop("hardware")
        return {
            "workload": self.workload.to_json(),
            "target": target,
            "hardware": hardware,
            **self._asked(),
            "key": self.key,
        }

    def _asked(self) -> dict[str, Any]:
        """The options beside workload and target that are not the default."""
        entries = {
            "layout_rewrite": "" if self.layout == LayoutOption.NO_REWRITE else self.layout.text,
            "inputs": {name: chosen.to_json() for name, chosen in self.chosen_inputs},
            "lowering": self.lowering.to_json(),
        }
        return {key: entry for key, entry in entries.items() if entry}

    def with_inputs(self, inputs: Mapping[str, Any]) -> Task:
        """This task with chosen contents of inputs, e.g. `{"A": {"uniform": [0, 1]}}`.

        Timing and checking then use these inputs instead of random ones; docs/configuration.md has
        the forms. The result is another task with its own records. Raises ConfigError that names
        the input.
        """
        task = replace(self, chosen_inputs=parse_inputs(inputs))
        task.inputs()
        return task

    def with_lowering(
        self,
        passes: Sequence[str | type | Mapping[str, Any]] = (),
        *,
        disabled_pass: Sequence[str] = (),
        config: Mapping[str, Any] | None = None,
    ) -> Task:
        """This task with another lowering of its candidates, for instance by your own passes.

            task = task.with_lowering(["my_passes.py:OneThread"])
            task = task.with_lowering([{"pass": OneThread, "phase": 1}], disabled_pass=["Simplify"])

        `passes` are classes at the top level of a file, or names (file.py:Name) of classes or
        objects. Classes are called without arguments. A pass runs in phase 3 unless another one is
        given. For `disabled_pass` and `config` see `PassContext`; docs/configuration.md has the
        keys. Values that change nothing for the target are refused. The task's former lowering is
        replaced. The result is another task with its own records. Raises ConfigError that begins
        with `lowering`.
        """
        data = {
            "passes": passes,
            "disabled_pass": disabled_pass,
            "config": {} if config is None else config,
        }
        task = replace(self, lowering=Lowering.parse(data))
        task.lowering.require()
        task.lowering.require_effect(task.target.kind)
        return task

    @cached_property
    def key(self) -> str:
        """16 hex digits that identify the task.

        They depend on computation, target kind, threads, hardware, tf32, a chosen CPU, layout,
        chosen inputs and lowering. Which inputs are layout-free matters only with a layout rewrite.
        """
        workload = self.workload.to_json()
        if self.layout == LayoutOption.NO_REWRITE:
            workload.pop("layout_free", None)
        computation = self.workload.computation
        identity = {
            "workload": workload,
            **({"computation": computation} if computation else {}),
            "kind": self.target.kind,
            "threads": self.target.threads,
            "hardware": self.target.hardware.as_list(),
            **({"tf32": True} if self.target.tf32 else {}),
            **({"cpu": self.target.cpu} if self.target.chosen_cpu else {}),
            **self._asked(),
        }
        text = json.dumps(identity, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def name(self) -> str:
        """A short readable name on one line, e.g. `matmul(M=512, N=512, K=512)`."""
        return visible(self._title())

    def _title(self) -> str:
        title = self.workload.title
        if self.target.tf32:
            title += ", tf32 allowed"
        if self.target.chosen_cpu:
            title += f", code for {self.target.cpu}"
        if self.chosen_inputs:
            title += f", chosen inputs {', '.join(name for name, _ in self.chosen_inputs)}"
        if self.lowering:
            title += f", lowered {self.lowering.text}"
        if self.layout == LayoutOption.NO_REWRITE:
            return title
        names = ", ".join(tensor.name for tensor in self.layout_free)
        return f"{title}, {names} {_LAYOUT_WORDS[self.layout]}"

    @property
    def runs_code(self) -> bool:
        """Whether rebuilding the task runs a Python file of the user's."""
        chosen = any(chosen.form == "function" for _, chosen in self.chosen_inputs)
        return chosen or bool(self.lowering.passes) or "python" in self.workload.to_json()

    @property
    def function_name(self) -> str:
        """The name of the task's functions in CUDA C: the operator's, e.g. `matmul`, or `main`."""
        named = re.fullmatch(r"(?:.*:)?([A-Za-z_]\w*)\(.*\)", self.workload.title)
        return "main" if named is None else named[1]

    @cached_property
    def dag(self) -> ComputeDAG:
        """The computation; its tensors are the kernel's arguments, in order.

        Raises ConfigError when a tensor is empty or has more elements than an int32 index can
        address, when a read is out of bounds, and when an operation uses a variable that is not one
        of its axes.
        """
        dag = ComputeDAG(self.workload.tensors())
        for tensor in (t for op in dag.ops for t in op.outputs):
            elements = math.prod(shape_of(tensor))
            if elements < 1:
                raise ConfigError(
                    f"{self.workload.title}: {tensor.name} has no elements: its shape is "
                    f"{shape_of(tensor)}"
                )
            if elements > MAX_SIZE:
                raise ConfigError(
                    f"{self.workload.title}: {tensor.name} would have {elements} elements, at most "
                    f"{MAX_SIZE} can be indexed; give smaller sizes"
                )
        check_variables(self.workload.title, dag.tensors)
        check_reads(self.workload.title, dag.tensors)
        check_overflow(self.workload.title, dag.tensors)
        return dag

    @property
    def tensors(self) -> tuple[Tensor, ...]:
        """The arguments of a kernel: inputs, then outputs."""
        return tuple(self.dag.tensors)

    @property
    def layout_free(self) -> tuple[Tensor, ...]:
        """The inputs that a layout rewrite may store in another order."""
        return layout_free_tensors(self.dag)

    @property
    def num_outputs(self) -> int:
        """How many of the last arguments are outputs."""
        return self.workload.num_outputs

    def inputs(self, seed: int = 0) -> list[Array]:
        """The input arrays: random, the same for the same seed, except for chosen inputs.

        Raises ConfigError when a chosen input does not fit, and for a seed below 0.
        """
        integer("seed", seed, 0)
        arrays = self.workload.inputs(seed)
        if not self.chosen_inputs:
            return arrays
        tensors = self.tensors
        inputs = tensors[: -self.num_outputs]
        return replace_inputs(self.chosen_inputs, inputs, arrays, index_values(tensors), seed)

    def reference(self, inputs: Sequence[Array]) -> list[Array]:
        """The outputs that NumPy computes from `inputs`. Raises ConfigError for another number."""
        wanted = [t.name for t in self.tensors[: -self.num_outputs]]
        if not isinstance(inputs, Sequence) or len(inputs) != len(wanted):
            raise ConfigError(f"inputs: expected arrays for {', '.join(wanted)}, {found(inputs)}")
        return self.workload.reference(inputs)


def _plain_shapes(shapes: Mapping[str, Sequence[int]]) -> dict[str, list[int]]:
    mapping("shapes", shapes, '{"A": (512, 512)}')
    for name, shape in shapes.items():
        if isinstance(shape, str) or not isinstance(shape, Iterable):
            raise ConfigError(f"shapes: {name}: expected sizes, {found(shape)}")
    return {name: list(shape) for name, shape in shapes.items()}
