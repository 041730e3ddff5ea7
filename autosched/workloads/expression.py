"""Workloads written as index expressions; nothing in the text is executed.

    expr: "C[i, j] = sum(k, A[i, k] * B[k, j])"
    shapes: {A: [512, 512], B: [512, 512]}

Statements are separated by `;` or newlines and may read what earlier ones computed. The right side
knows + - * / // %, comparisons, and/or/not, `a if c else b`, the functions in FUNCTIONS, and
`sum|max|min|prod(k, ..., body)` over indices, as the whole right side of a statement. The length of
an index follows from the shapes: `X[2*i + r]` of a known length bounds i once r is known.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from autosched.errors import ConfigError
from autosched.te.operations.tensor import Tensor
from autosched.workloads.evaluate import evaluate
from autosched.workloads.expression_extents import Statement, infer_extents, loads_of
from autosched.workloads.expression_te import FUNCTIONS, build
from autosched.workloads.workload import MAX_SIZE, NUMBERS, Array, random_inputs

REDUCERS = ("sum", "max", "min", "prod")
_NODES = (
    ast.BinOp,
    ast.UnaryOp,
    ast.BoolOp,
    ast.Compare,
    ast.IfExp,
    ast.Call,
    ast.Subscript,
    ast.Name,
    ast.Constant,
    ast.Tuple,
    ast.operator,
    ast.unaryop,
    ast.boolop,
    ast.cmpop,
    ast.expr_context,
)
_FORBIDDEN = (
    ast.Pow,
    ast.MatMult,
    ast.BitAnd,
    ast.BitOr,
    ast.BitXor,
    ast.LShift,
    ast.RShift,
    ast.Invert,
    ast.Is,
    ast.IsNot,
    ast.In,
    ast.NotIn,
)


@dataclass(frozen=True)
class Program:
    """Statements in order; `inputs` by first appearance; `outputs` are read by no statement."""

    statements: tuple[Statement, ...]
    shapes: Mapping[str, tuple[int, ...]]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True)
class ExpressionWorkload:
    """The computation `expr` on inputs of `shapes`, all tensors of `dtype`.

    The inputs named in `layout_free` may be stored in another order where a task asks for it.
    """

    expr: str
    shapes: tuple[tuple[str, tuple[int, ...]], ...]
    dtype: str = "float32"
    layout_free: tuple[str, ...] = ()
    program: Program = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "program", parse(self.expr, dict(self.shapes)))
        if self.dtype not in NUMBERS:
            allowed = ", ".join(NUMBERS)
            raise ConfigError(f"expr: dtype must be one of {allowed}, found {self.dtype!r}")
        for name in self.layout_free:
            if name not in self.program.inputs:
                inputs = ", ".join(self.program.inputs) or "none"
                raise ConfigError(f"layout_free: expected inputs ({inputs}), found {name!r}")
        self.tensors()

    @staticmethod
    def parse(
        expr: str,
        shapes: Mapping[str, Sequence[int]],
        dtype: str = "float32",
        layout_free: Sequence[str] = (),
    ) -> ExpressionWorkload:
        """The workload, checked; ConfigError says which statement is wrong and why."""
        if not isinstance(expr, str) or not isinstance(shapes, Mapping):
            raise ConfigError("expr must be a text and shapes a mapping from tensors to sizes")
        checked = tuple((name, _shape(name, shape)) for name, shape in shapes.items())
        if not isinstance(layout_free, list | tuple):
            raise ConfigError(f"layout_free: expected a list of inputs, found {layout_free!r}")
        return ExpressionWorkload(expr, checked, dtype, tuple(dict.fromkeys(map(str, layout_free))))

    @property
    def title(self) -> str:
        """The statements on one line."""
        return "; ".join(statement.text for statement in self.program.statements)

    @property
    def num_outputs(self) -> int:
        """How many of the tensors are results."""
        return len(self.program.outputs)

    def to_json(self) -> dict[str, Any]:
        """What `parse` takes."""
        shapes = {name: list(shape) for name, shape in self.shapes}
        free = {"layout_free": list(self.layout_free)} if self.layout_free else {}
        return {"expr": self.expr, "shapes": shapes, "dtype": self.dtype, **free}

    def tensors(self) -> list[Tensor]:
        """The argument tensors of a fresh definition: inputs, then outputs."""
        return self._define(self.dtype)

    def _define(self, dtype: str) -> list[Tensor]:
        p = self.program
        return build(p.statements, p.shapes, p.inputs, p.outputs, dtype, self.layout_free)

    def inputs(self, seed: int = 0) -> list[Array]:
        """Random inputs, the same for the same seed."""
        return random_inputs(self.tensors()[: -self.num_outputs], seed)

    def reference(self, inputs: Sequence[Array]) -> list[Array]:
        """The outputs, computed with NumPy in double width and rounded to the dtype."""
        wide = "float64" if self.dtype.startswith("float") else "int64"
        results = evaluate(self._define(wide), inputs)
        return [np.ascontiguousarray(array.astype(self.dtype)) for array in results]


def parse(expr: str, shapes: Mapping[str, Sequence[int]]) -> Program:
    """`expr` checked, with the length of every index worked out."""
    try:
        module = ast.parse(expr.strip())
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        detail = getattr(error, "msg", None) or "nested too deeply"
        column = getattr(error, "offset", None)
        place = f" at column {column}" if column else ""
        raise ConfigError(f"expr: not an expression{place}: {detail} in {expr!r}") from None
    if not module.body:
        raise ConfigError("expr: empty; expected e.g. C[i, j] = sum(k, A[i, k] * B[k, j])")
    known = {name: _shape(name, shape) for name, shape in shapes.items()}
    statements: list[Statement] = []
    computed: dict[str, None] = {}
    inputs: dict[str, None] = {}
    read: set[str] = set()
    for node in module.body:
        statement = _statement(expr.strip(), node)
        if statement.name in computed or statement.name in inputs:
            statement.fail(f"{statement.name} is assigned twice, or after it was read")
        for load in loads_of(statement.body):
            tensor = load.value.id  # type: ignore[attr-defined]  # _statement checked that it is a Name
            if tensor == statement.name:
                statement.fail(f"{tensor} reads itself; give the result another name")
            if tensor not in computed:
                if tensor not in known:
                    statement.fail(f"the shape of input {tensor} is not given under shapes")
                inputs.setdefault(tensor)
            read.add(tensor)
        declared = known.get(statement.name)
        infer_extents(statement, known, declared)
        known[statement.name] = tuple(statement.extents[i] for i in statement.indices)
        computed[statement.name] = None
        statements.append(statement)
    for name in shapes:
        if name not in inputs and name not in computed:
            raise ConfigError(f"shapes: {name} does not occur in expr")
    outputs = tuple(name for name in computed if name not in read)
    return Program(tuple(statements), known, tuple(inputs), outputs)


def _shape(name: str, shape: Any) -> tuple[int, ...]:
    valid = isinstance(shape, list | tuple) and all(
        isinstance(size, int) and not isinstance(size, bool) and size > 0 for size in shape
    )
    if not valid or not shape:
        raise ConfigError(f"shapes: {name} must be a list of positive integers, found {shape!r}")
    if max(shape) > MAX_SIZE:
        raise ConfigError(f"shapes: {name} must have sizes of at most {MAX_SIZE}, found {shape!r}")
    return tuple(shape)


def _statement(source: str, node: ast.stmt) -> Statement:
    text = " ".join((ast.get_source_segment(source, node) or source).split())
    statement = Statement(text, "", (), "", (), ast.Constant(0))
    if not isinstance(node, ast.Assign) or len(node.targets) != 1:
        statement.fail("expected NAME[indices] = value")
    target = node.targets[0]
    if not isinstance(target, ast.Subscript) or not isinstance(target.value, ast.Name):
        statement.fail("the left side must be NAME[index, ...]")
    indices = target.slice.elts if isinstance(target.slice, ast.Tuple) else [target.slice]
    names = [i.id for i in indices if isinstance(i, ast.Name)]
    if len(names) != len(indices) or len(set(names)) != len(names) or not names:
        statement.fail("the indices on the left must be distinct names")
    statement.name, statement.indices = target.value.id, tuple(names)
    statement.body = node.value
    value = node.value
    if isinstance(value, ast.Call) and isinstance(value.func, ast.Name) and value.args:
        *axes, body = value.args
        reduced = [a.id for a in axes if isinstance(a, ast.Name)]
        is_reduction = bool(axes) and len(reduced) == len(axes) and not set(reduced) & set(names)
        if value.func.id in REDUCERS and is_reduction and not value.keywords:
            if len(set(reduced)) != len(reduced):
                statement.fail("an index is reduced over twice")
            statement.reducer, statement.reduce_indices = value.func.id, tuple(reduced)
            statement.body = body
    _check(statement, statement.body)
    return statement


def _check(statement: Statement, body: ast.expr) -> None:
    indices = {*statement.indices, *statement.reduce_indices}
    for node in ast.walk(body):
        if not isinstance(node, _NODES) or isinstance(node, _FORBIDDEN):
            what = type(node).__name__
            statement.fail(f"{what} is not allowed; see the operators in the documentation")
        if isinstance(node, ast.Subscript):
            if not isinstance(node.value, ast.Name):
                statement.fail("only tensors can be indexed")
            if node.value.id in indices:
                statement.fail(f"{node.value.id} is an index, not a tensor")
        elif isinstance(node, ast.Call):
            _check_call(statement, node)
        elif isinstance(node, ast.Constant) and (
            isinstance(node.value, bool) or not isinstance(node.value, int | float)
        ):
            statement.fail(f"{node.value!r} is not a number")
    tensors = {id(load.value) for load in loads_of(body)}
    callees = {id(node.func) for node in ast.walk(body) if isinstance(node, ast.Call)}
    for node in ast.walk(body):
        if isinstance(node, ast.Name) and id(node) not in tensors | callees:
            if node.id not in indices:
                statement.fail(
                    f"{node.id} is neither an index on the left nor reduced over; tensors need "
                    "indices, e.g. " + f"{node.id}[...]"
                )


def _check_call(statement: Statement, node: ast.Call) -> None:
    name = node.func.id if isinstance(node.func, ast.Name) else "?"
    if name in ("sum", "prod"):
        statement.fail(f"{name}(...) must be the whole right side; use a statement of its own")
    arity = FUNCTIONS.get(name)
    known = ", ".join(dict.fromkeys((*REDUCERS, *FUNCTIONS)))
    if arity is None:
        statement.fail(f"unknown function {name}; known are {known}")
    if node.keywords or len(node.args) != arity:
        statement.fail(f"{name} takes {arity} arguments, found {len(node.args)}")
