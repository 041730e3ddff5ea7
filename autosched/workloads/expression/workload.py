"""Workloads written as index expressions; nothing in the text is executed.

    expr: "C[i, j] = sum(k, A[i, k] * B[k, j])"
    shapes: {A: [512, 512], B: [512, 512]}

docs/expressions.md has the grammar. Statements are separated by `;` or newlines and may read what
earlier ones computed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from autosched.errors import ConfigError
from autosched.te.operations.tensor import Tensor
from autosched.workloads.evaluate import evaluate
from autosched.workloads.expression.as_einsum import as_einsum
from autosched.workloads.expression.build import build
from autosched.workloads.expression.einsum import expression_of
from autosched.workloads.expression.extents import infer_extents
from autosched.workloads.expression.statement import (
    Statement,
    loads_of,
    tensor_of,
)
from autosched.workloads.expression.syntax import statements_of
from autosched.workloads.expression.values import CASTS
from autosched.workloads.numpy_version import NumpyVersion
from autosched.workloads.program_inputs import program_inputs
from autosched.workloads.workload import MAX_SIZE, Array, normalised

DTypes = str | tuple[tuple[str, str], ...]
"""One type for all tensors, or (tensor, type) pairs."""


@dataclass(frozen=True)
class Program:
    """Statements in order; `inputs` by first appearance; `outputs`, which no statement reads."""

    statements: tuple[Statement, ...]
    shapes: Mapping[str, tuple[int, ...]]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class ExpressionWorkload:
    """The computation `expr` on inputs of `shapes`.

    - `dtype`: the type of all tensors, or (tensor, type) pairs. The pairs must have every input; a
      result without a pair has the type of its value.
    - `layout_free`: the inputs that may be stored in another order where a task asks for it.
    """

    expr: str
    shapes: tuple[tuple[str, tuple[int, ...]], ...]
    dtype: DTypes = "float32"
    layout_free: tuple[str, ...] = ()
    program: Program = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "program", parse(self.expr, dict(self.shapes)))
        self._check_types()
        for name in self.layout_free:
            if name not in self.program.inputs:
                inputs = ", ".join(self.program.inputs) or "none"
                raise ConfigError(f"layout_free: expected inputs ({inputs}), found {name!r}")
        self.tensors()

    def _check_types(self) -> None:
        known = [
            *self.program.inputs,
            *(s.name for s in self.program.statements if s.outer is None),
        ]
        pairs = [("", self.dtype)] if isinstance(self.dtype, str) else self.dtype
        for name, kind in pairs:
            where = f"dtype: {name}" if name else "dtype"
            if kind not in CASTS:
                raise ConfigError(f"{where}: expected one of {', '.join(CASTS)}, found {kind!r}")
            if name and name not in known:
                raise ConfigError(f"dtype: expected tensors ({', '.join(known)}), found {name!r}")
        missing = [name for name in self.program.inputs if name not in self._types()]
        if missing:
            raise ConfigError(f"dtype: the type of input {missing[0]} is missing")

    @staticmethod
    def parse(
        expr: str,
        shapes: Mapping[str, Sequence[int]],
        dtype: str | Mapping[str, str] = "float32",
        layout_free: Sequence[str] = (),
    ) -> ExpressionWorkload:
        """Check and parse a workload; ConfigError says which statement is wrong and why.

        Names are normalised as Python's identifiers everywhere (NFKC): the micro sign is the Greek
        letter.
        """
        if not isinstance(expr, str) or not isinstance(shapes, Mapping):
            raise ConfigError("expr must be a text and shapes a mapping from tensors to sizes")
        named = _normalised("shapes", shapes)
        checked = tuple((name, _shape(name, shape)) for name, shape in named.items())
        if not isinstance(layout_free, list | tuple):
            raise ConfigError(f"layout_free: expected a list of inputs, found {layout_free!r}")
        types: DTypes
        if isinstance(dtype, Mapping):
            kinds = _normalised("dtype", dtype)
            types = tuple((str(name), str(kind)) for name, kind in kinds.items())
        else:
            types = str(dtype)
        free = tuple(dict.fromkeys(normalised(str(name)) for name in layout_free))
        return ExpressionWorkload(expr, checked, types, free)

    @staticmethod
    def parse_einsum(
        subscripts: str,
        shapes: Mapping[str, Sequence[int]],
        dtype: str | Mapping[str, str] = "float32",
        layout_free: Sequence[str] = (),
    ) -> ExpressionWorkload:
        """The workload for `subscripts` ("ij,jk->ik"); `shapes` has the inputs in order."""
        if not isinstance(subscripts, str) or not isinstance(shapes, Mapping):
            raise ConfigError("einsum must be a text and shapes a mapping from tensors to sizes")
        ranks = {name: len(_shape(name, shape)) for name, shape in shapes.items()}
        expr = expression_of(subscripts, ranks)
        return ExpressionWorkload.parse(expr, shapes, dtype, layout_free)

    @property
    def title(self) -> str:
        """The statements on one line."""
        return "; ".join(s.text for s in self.program.statements if s.outer is None)

    @property
    def num_outputs(self) -> int:
        """The number of tensors that are results."""
        return len(self.program.outputs)

    def to_json(self) -> dict[str, Any]:
        """The entry of a record, the arguments of `parse`."""
        shapes = {name: list(shape) for name, shape in self.shapes}
        free = {"layout_free": list(self.layout_free)} if self.layout_free else {}
        dtype = self.dtype if isinstance(self.dtype, str) else dict(self.dtype)
        return {"expr": self.expr, "shapes": shapes, "dtype": dtype, **free}

    @property
    def computation(self) -> str:
        """Empty: equal text is an equal computation."""
        return ""

    def _types(self) -> dict[str, str]:
        if not isinstance(self.dtype, str):
            return dict(self.dtype)
        results = (s.name for s in self.program.statements if not s.finds_place)
        names = (*self.program.inputs, *results)
        return dict.fromkeys(names, self.dtype)

    def tensors(self) -> list[Tensor]:
        """The argument tensors of a fresh definition: inputs, then outputs."""
        p = self.program
        return build(p.statements, p.shapes, p.inputs, p.outputs, self._types(), self.layout_free)

    def inputs(self, seed: int = 0) -> list[Array]:
        """Random inputs, the same for the same seed; values read as indices are in bounds.

        Raises ConfigError when no value of an index tensor is in bounds.
        """
        tensors = self.tensors()
        return program_inputs(tensors, len(tensors) - self.num_outputs, seed)

    @property
    def reference_name(self) -> str:
        """The name in messages of the evaluation with NumPy."""
        return f"the evaluation of {self.title} with NumPy"

    def numpy_version(self) -> NumpyVersion | None:
        """`numpy.einsum` where the expression is a single einsum; else None."""
        subscripts = as_einsum(self.program.statements, self.program.inputs, self.program.shapes)
        if subscripts is None:
            return None

        def call(inputs: Sequence[Array]) -> Array:
            return np.asarray(np.einsum(subscripts, *inputs, optimize=True), order="C")

        return NumpyVersion("numpy.einsum", call)

    def reference(self, inputs: Sequence[Array]) -> list[Array]:
        """The outputs, computed by NumPy in float64 or int64 and converted to their types."""
        tensors = self.tensors()
        results = evaluate(tensors, inputs)
        with np.errstate(over="ignore"):  # values too large for the type become infinite
            return [
                np.asarray(array, str(tensor.dtype), order="C")
                for tensor, array in zip(tensors[-self.num_outputs :], results, strict=True)
            ]


def parse(expr: str, shapes: Mapping[str, Sequence[int]]) -> Program:
    """Parse and check `expr`, and infer the length of every index."""
    known = {name: _shape(name, shape) for name, shape in shapes.items()}
    statements = statements_of(expr)
    helpers = {statement.name: statement for statement in statements if statement.outer}
    computed: dict[str, None] = {}
    inputs: dict[str, tuple[int, int]] = {}  # the place of their first read
    read: set[str] = set()
    for statement in statements:
        if statement.name in computed or statement.name in inputs:
            statement.fail(f"{statement.name} is assigned twice, or after it was read")
        for load in loads_of(statement.body):
            tensor = tensor_of(load)
            if tensor == statement.name:
                statement.fail(f"{tensor} reads itself; give the result another name")
            if tensor not in computed:
                if tensor not in known:
                    statement.fail(f"the shape of input {tensor} is not given under shapes")
                place = load.lineno, load.col_offset
                inputs[tensor] = min(place, inputs.get(tensor, place))
            read.add(tensor)
        infer_extents(statement, known, helpers)
        known[statement.name] = statement.shape
        for helper in helpers.values():
            if helper.outer is statement:
                for name in statement.extents.keys() & helper.indices:
                    helper.extents[name] = min(statement.extents[name], helper.extents[name])
                known[helper.name] = helper.shape
        computed[statement.name] = None
    for name in shapes:
        if name not in inputs and name not in computed:
            raise ConfigError(f"shapes: {name} does not occur in expr")
    outputs = tuple(name for name in computed if name not in read)
    return Program(tuple(statements), known, tuple(sorted(inputs, key=inputs.__getitem__)), outputs)


def _normalised(where: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """`given` with names normalised as in expressions. ConfigError when two names become equal."""
    found: dict[str, Any] = {}
    for key, value in given.items():
        name = normalised(key) if isinstance(key, str) else key
        if name in found:
            raise ConfigError(f"{where}: {name} is given twice: Python takes {key!a} for {name!a}")
        found[name] = value
    return found


def _shape(name: str, shape: Any) -> tuple[int, ...]:
    valid = isinstance(shape, list | tuple) and all(
        isinstance(size, int) and not isinstance(size, bool) and size > 0 for size in shape
    )
    if not valid or not shape:
        raise ConfigError(f"shapes: {name} must be a list of positive integers, found {shape!r}")
    if max(shape) > MAX_SIZE:
        raise ConfigError(f"shapes: {name} must have sizes of at most {MAX_SIZE}, found {shape!r}")
    return tuple(shape)
