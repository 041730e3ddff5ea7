"""Workloads in the user's own Python file: `my_ops.py:my_matmul`.

The function is called with the workload's arguments and returns the argument tensors, inputs first.
If the file has a function `my_matmul_reference(inputs, **args)`, that is the reference: it takes a
list of the input arrays and returns a list of the output arrays. Otherwise the tensors are
evaluated with NumPy as declared. If the file has a function `my_matmul_inputs(rng, **args)`, it
returns input arrays by name, in place of random ones.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from autosched import te
from autosched.arguments import found
from autosched.errors import ConfigError
from autosched.te.operations.graph import post_order_ops
from autosched.te.operations.operation import ComputeOp, PlaceholderOp
from autosched.te.operations.tensor import Tensor
from autosched.user_file import failure_in, load_object, place_of
from autosched.user_source import source_digest
from autosched.words import count
from autosched.workloads.chosen_inputs import fitted
from autosched.workloads.evaluate import evaluate
from autosched.workloads.given_array import given_array
from autosched.workloads.index_values import index_values
from autosched.workloads.numpy_version import NumpyVersion
from autosched.workloads.program_inputs import program_inputs
from autosched.workloads.workload import Array, shape_of


@dataclass(frozen=True)
class PythonWorkload:
    """The computation that function `spec` (file.py:function) declares when called with `args`."""

    spec: str
    args: tuple[tuple[str, Any], ...]
    function: Callable[..., Any] = field(repr=False, compare=False)
    reference_function: Callable[..., Any] | None = field(repr=False, compare=False)
    inputs_function: Callable[..., Any] | None = field(default=None, repr=False, compare=False)

    @staticmethod
    def load(spec: str, args: Mapping[str, Any] | None = None) -> PythonWorkload:
        """Run the user's file and make the workload of function `spec`.

        Raises ConfigError, with the file and line, when the file or function does not exist, fails,
        refuses the arguments, or returns something else than tensors.
        """
        module, function = load_object(spec, "python", "function")
        path, _, name = spec.rpartition(":")
        if not callable(function):
            raise ConfigError(f"python: {path} defines no function {name}")
        reference = getattr(module, f"{name}_reference", None)
        inputs = getattr(module, f"{name}_inputs", None)
        workload = PythonWorkload(spec, tuple((args or {}).items()), function, reference, inputs)
        workload.tensors()
        if inputs is not None:
            workload.inputs()
        return workload

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle and copy by running the file again, as every process does that builds kernels."""
        return PythonWorkload.load, (self.spec, dict(self.args))

    @property
    def title(self) -> str:
        """The function and its arguments."""
        shown = ", ".join(f"{key}={value}" for key, value in self.args)
        return f"{self.spec}({shown})" if shown else self.spec

    @property
    def num_outputs(self) -> int:
        """The number of tensors that are results."""
        return sum(isinstance(tensor.op, ComputeOp) for tensor in self.tensors())

    def to_json(self) -> dict[str, Any]:
        """The entry of a record, the arguments of `load`."""
        return {"python": self.spec, **({"args": dict(self.args)} if self.args else {})}

    @property
    def computation(self) -> str:
        """The declared computation as text, constants included, because the file may be edited.

        It includes the digest of the function that makes inputs, if there is one.
        """
        text = computation_text(self.tensors())
        if self.inputs_function is None:
            return text
        return f"{text}\ninputs: {source_digest(f'{self.spec}_inputs')}"

    def tensors(self) -> list[Tensor]:
        """The argument tensors of a fresh call: inputs, then outputs."""
        return _checked(self.spec, self.function, dict(self.args))

    def inputs(self, seed: int = 0) -> list[Array]:
        """Random inputs, the same for the same seed; values read as indices are in bounds.

        Inputs that the user's function makes replace random ones. Raises ConfigError when one does
        not fit its tensor.
        """
        tensors = self.tensors()
        inputs = tensors[: -self.num_outputs]
        arrays = program_inputs(tensors, len(inputs), seed, wraps=self.reference_function is None)
        if self.inputs_function is None:
            return arrays
        indices = index_values(tensors)
        return fitted(self._where("inputs"), self._made(seed), inputs, arrays, indices)

    def _made(self, seed: int) -> Mapping[str, Any]:
        path, _, name = self.spec.rpartition(":")
        assert self.inputs_function is not None
        try:
            made = self.inputs_function(np.random.default_rng(seed), **dict(self.args))
        except (Exception, SystemExit) as error:
            failed = failure_in(path, error, f"{name}_inputs")
            raise ConfigError(f"python: {failed}") from error
        if not isinstance(made, Mapping):
            raise ConfigError(
                f"{self._where('inputs')} must return arrays by the names of inputs, e.g. "
                f"{{'A': array}}, {found(made)}"
            )
        return made

    @property
    def reference_name(self) -> str:
        """The name in messages of the user's reference, or of the evaluation in its place."""
        if self.reference_function is not None:
            return f"the reference {self.spec}_reference"
        return f"the evaluation of {self.spec} with NumPy"

    def numpy_version(self) -> NumpyVersion | None:
        """The user's reference, if there is one."""
        reference = self.reference_function
        if reference is None:
            return None
        args = dict(self.args)
        return NumpyVersion("your reference", lambda inputs: reference(list(inputs), **args))

    def reference(self, inputs: Sequence[Array]) -> list[Array]:
        """The outputs of the user's reference, or of an evaluation of the declaration."""
        tensors = self.tensors()
        results: Sequence[Any]
        if self.reference_function is None:
            results = evaluate(tensors, inputs)
        else:
            results = self._referred(self.reference_function, inputs)
        outputs = tensors[len(tensors) - self.num_outputs :]
        if len(results) != len(outputs):
            raise ConfigError(
                f"{self._where('reference')} returned {count(len(results), 'array')}, expected "
                f"{len(outputs)}"
            )
        arrays = []
        for result, tensor in zip(results, outputs, strict=True):
            array = given_array(f"{self._where('reference')}: {tensor.name}", result)
            if array.shape != shape_of(tensor):
                raise ConfigError(
                    f"{self._where('reference')}: {tensor.name}: expected shape "
                    f"{shape_of(tensor)}, found {array.shape}"
                )
            with np.errstate(over="ignore"):  # values too large for the type become infinite
                arrays.append(np.asarray(array, tensor.dtype.numpy, order="C"))
        return arrays

    def _referred(self, function: Callable[..., Any], inputs: Sequence[Array]) -> Sequence[Any]:
        """The result of the user's reference; ConfigError says where it failed."""
        path, _, name = self.spec.rpartition(":")
        try:
            results = function(list(inputs), **dict(self.args))
        except (Exception, SystemExit) as error:
            failed = failure_in(path, error, f"{name}_reference")
            raise ConfigError(f"python: {failed}") from error
        if not isinstance(results, list | tuple):
            raise ConfigError(
                f"{self._where('reference')} must return a list of arrays, one for each output, "
                f"{found(results)}"
            )
        return results

    def _where(self, role: str) -> str:
        """Where the function with that role (inputs or reference) is defined, and its name."""
        path, _, name = self.spec.rpartition(":")
        function = self.inputs_function if role == "inputs" else self.reference_function
        return f"python: {place_of(function, path, f'{name}_{role}')}"


def _checked(spec: str, function: Callable[..., Any], args: Mapping[str, Any]) -> list[Tensor]:
    path, _, name = spec.rpartition(":")
    where = f"python: {place_of(function, path, name)}"
    try:
        inspect.signature(function).bind(**args)
    except TypeError as error:
        raise ConfigError(f"{where} does not accept the arguments: {error}") from None
    try:
        tensors = function(**args)
    except (Exception, SystemExit) as error:
        raise ConfigError(f"python: {failure_in(path, error, name)}") from error
    if isinstance(tensors, Tensor):
        tensors = [tensors]
    if not isinstance(tensors, list | tuple) or not all(isinstance(t, Tensor) for t in tensors):
        raise ConfigError(f"{where} must return a list of tensors, found {tensors!r}")
    kinds = [isinstance(tensor.op, PlaceholderOp) for tensor in tensors]
    if not tensors or kinds != sorted(kinds, reverse=True) or kinds[-1]:
        raise ConfigError(
            f"{where} must return the inputs, then the outputs; found "
            f"{[tensor.name for tensor in tensors]}"
        )
    twice = next((t for k, t in enumerate(tensors) if t in tensors[:k]), None)
    if twice is not None:
        raise ConfigError(
            f"{where} must return every tensor once; {twice.name} is twice among "
            f"{[tensor.name for tensor in tensors]}"
        )
    returned = {tensor.op for tensor in tensors}
    read = post_order_ops([tensor.op for tensor in tensors])
    for op in read:
        if not isinstance(op, PlaceholderOp | ComputeOp):
            raise ConfigError(
                f"{where} computes {op.name} by {type(op).__name__}; only what te.compute makes "
                f"has a search space, others need a schedule of your own (te.create_schedule)"
            )
    missing = [op.name for op in read if isinstance(op, PlaceholderOp) and op not in returned]
    if missing:
        raise ConfigError(
            f"{where} must return every input that it reads, then the outputs; "
            f"{', '.join(missing)} is missing among {[tensor.name for tensor in tensors]}"
        )
    inner = {tensor.op for op in read if isinstance(op, ComputeOp) for tensor in op.inputs}
    return [_copy(t) if t.op in inner and isinstance(t.op, ComputeOp) else t for t in tensors]


def _copy(tensor: Tensor) -> Tensor:
    """A copy of an output whose operation others read: a search may inline or move the original."""
    copied: Tensor = te.compute(tensor.shape, lambda *at: tensor[at], name=tensor.name)
    return copied


def computation_text(tensors: Sequence[Tensor]) -> str:
    """One line for each operation: its name, type, shape, axes and exact expression."""
    ops = post_order_ops([tensor.op for tensor in tensors])
    lines = [f"({', '.join(tensor.name for tensor in tensors)})"]
    for op in ops:
        shapes = ", ".join(f"{out.dtype} {out.shape!r}" for out in op.outputs)
        line = f"{op.name}: {shapes}"
        if isinstance(op, ComputeOp):
            axes = [(axis.var.name, axis.dom) for axis in op.root_iter_vars]
            line += f" {axes!r} = {op.body!r}"
        lines.append(line)
    return "\n".join(lines)
