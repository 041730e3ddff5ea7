"""The decorator of te.hybrid: a call on tensors is a te.extern of the function's statements."""

from __future__ import annotations

import ast
import functools
import inspect
import textwrap
from collections.abc import Callable
from typing import Any

import numpy as np

from autosched.arguments import found
from autosched.te.hybrid.body import Body
from autosched.te.hybrid.names import NAMES
from autosched.te.operations.operation import ExternOp
from autosched.te.operations.tensor import Tensor
from autosched.tir.buffer import decl_buffer
from autosched.tir.given import function


def script(definition: Callable[..., Any]) -> Callable[..., Any]:
    """Make `definition` a function of tensors that returns what its loops compute.

        @te.hybrid.script
        def outer(a, b):
            c = output_tensor((a.shape[0], b.shape[0]), "float32")
            for i in parallel(a.shape[0]):
                for j in range(b.shape[0]):
                    c[i, j] = a[i] * b[j]
            return c

        C = outer(A, B)

    Tensors are arrays in it, which it reads; other arguments (numbers, te.var, lists) are what they
    are. It returns its outputs, one or a tuple. A call raises ValueError for a statement that is
    not understood, and for one that fails, with its line.
    """
    name = getattr(function("te.hybrid.script: its argument", definition, "a def"), "__name__", "")
    tree, file, line = _source(definition, name)

    @functools.wraps(definition)
    def call(*args: Any, **options: Any) -> Any:
        given = inspect.signature(definition).bind(*args, **options)
        given.apply_defaults()
        for key, value in given.arguments.items():
            if isinstance(value, np.ndarray):
                raise TypeError(
                    f"te.hybrid {name}: {key}: expected a tensor (te.placeholder), {found(value)}; "
                    "the kernel is given arrays, and numbers that are known ahead are a list"
                )
        return _declared(definition, Body(name, file, line), tree, given.arguments)

    return call


def _source(definition: Callable[..., Any], name: str) -> tuple[ast.FunctionDef, str, int]:
    """The function's syntax tree, its file, and the number of lines before the tree's first."""
    try:
        lines, first = inspect.getsourcelines(definition)
        (tree,) = ast.parse(textwrap.dedent("".join(lines))).body
    except (OSError, TypeError, SyntaxError, ValueError) as error:
        raise ValueError(
            f"te.hybrid.script: Python has no source of {name or found(definition)}; define it in "
            "a file, by def"
        ) from error
    if not isinstance(tree, ast.FunctionDef):
        raise ValueError(f"te.hybrid.script: expected a function that is defined by def, {name}")
    return tree, inspect.getsourcefile(definition) or "", first - 1


def _declared(
    definition: Callable[..., Any], body: Body, tree: ast.FunctionDef, given: dict[str, Any]
) -> Any:
    """The outputs of the function for the arguments `given`."""
    inputs = {name: value for name, value in given.items() if isinstance(value, Tensor)}
    buffers = {n: decl_buffer(t.shape, t.dtype, n) for n, t in inputs.items()}
    closure = inspect.getclosurevars(definition).nonlocals
    body.known = {**NAMES, **definition.__globals__, **closure, **given, **buffers}
    statement, outputs, several = body.read(tree, frozenset(buffers.values()))
    name = body.name if several else outputs[0].name
    op = ExternOp(name, list(inputs.values()), list(buffers.values()), outputs, statement)
    return tuple(op.outputs) if several else op.output(0)
