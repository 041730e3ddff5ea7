"""Sums and means along dimensions, and the normalisation that a model writes out with one."""

from __future__ import annotations

import itertools
import math
from collections.abc import Container
from dataclasses import replace
from typing import Any

import torch

from autosched.torch.computation import Computation, NoRuleError, Operand, whole
from autosched.torch.element_types import before_widening
from autosched.torch.elementwise import alike
from autosched.torch.model_graph import arguments_of, only_user, shape_of, value_of
from autosched.torch.operands import is_dense, read, storage_order, unless_usual

_aten = torch.ops.aten

_KEPT, _REDUCED = "abcdefgh", "klmnpqrs"


def mean(node: Any) -> Computation:
    """`aten.mean` along some dimensions, or all."""
    return _reduced(node, "mean")


def total(node: Any) -> Computation:
    """`aten.sum` along some dimensions, or all."""
    return _reduced(node, "sum")


def vector_norm(node: Any) -> Computation:
    """`aten.linalg_vector_norm`: the root of the sum of squares."""
    given = arguments_of(node)
    if given["ord"] != 2 or given["dtype"] is not None:
        raise NoRuleError(f"it is a norm of order {given['ord']}, expected 2, in the input's type")
    squares = _reduced(node, "sum", "{0} * {0}")
    return replace(squares, kind="").then("vector_norm", f"sqrt({squares.value})")


def _reduced(node: Any, reducer: str, element: str = "{}") -> Computation:
    """Dimensions whose elements lie one after the other, kept or reduced ones, are one index.

    mean(x, (2, 3))  ->  Y[a] = mean(k, X[a, k]); of channels last  Y[a, b] = mean(k, X[a, k, b])
    """
    source, given = before_widening(node.args[0]), arguments_of(node)
    shape = shape_of(source)
    dims = _dims(node, len(shape))
    order, result_order = storage_order(source), storage_order(node)
    numbers = [d for d in range(len(shape)) if given.get("keepdim") or d not in dims]
    wanted = [numbers[i] for i in result_order if numbers[i] not in dims]
    kept, reduced = iter(_KEPT), iter(_REDUCED)
    indices: dict[str, list[int]] = {}
    for along, neighbours in itertools.groupby(order, key=lambda d: d in dims):
        several = [*neighbours]
        start = wanted.index(several[0]) if not along else 0
        together = along or wanted[start : start + len(several)] == several
        for each in [several] if together else [[d] for d in several]:
            indices[next(reduced if along else kept)] = each
    axes = tuple(sorted(indices.keys() & {*_KEPT}, key=lambda i: wanted.index(indices[i][0])))
    ranges = ", ".join(each for each in indices if each in _REDUCED)
    if not ranges:
        raise NoRuleError("it reduces no dimension")
    if not axes:
        axes, indices = ("a",), {"a": [], **indices}
    sizes = {each: math.prod(shape[d] for d in several) for each, several in indices.items()}
    value = element.format(f"X[{', '.join(indices)}]")
    return Computation(
        kind=reducer,
        statements=(f"Y[{', '.join(axes)}] = {reducer}({ranges}, {value})",),
        operands={"X": Operand((source,), tuple(sizes.values()), order=unless_usual(order))},
        result="Y",
        axes=axes,
        shape=tuple(sizes[axis] for axis in axes),
        order=unless_usual(result_order),
    )


def _dims(node: Any, rank: int) -> set[int]:
    """The dimensions that it is along: all where none are told."""
    given = arguments_of(node)
    dims = given.get("dim")
    dims = dims if isinstance(dims, list | tuple) else [] if dims is None else [dims]
    return {int(d) % rank for d in dims} if dims else set(range(rank))


def root_mean_square(
    node: Any, taken: Container[Any]
) -> tuple[Computation, tuple[Any, ...]] | None:
    """The normalisation of which `node` is the mean, as models write it, and its nodes.

        x * rsqrt(mean(x ** 2, -1, keepdim=True) + eps);  x / sqrt(mean(x * x, -1, True) + eps)

    None where it is another mean.
    """
    given = arguments_of(node) if node.target is _aten.mean.dim else {}
    shape = shape_of(node.args[0]) if given else ()
    count = len(_dims(node, len(shape))) if shape else 0
    if not given.get("keepdim") or _dims(node, len(shape)) != {*range(len(shape))[-count:]}:
        return None
    square, x = node.args[0], _squared(node.args[0])
    plus = only_user(node)
    eps = _added_number(plus, node)
    root = None if eps is None else only_user(plus)
    scaled = None if root is None else only_user(root)
    if x is None or root is None or scaled is None or only_user(square) is not node:
        return None
    nodes = square, node, plus, root, scaled
    way = root.target, scaled.target
    if way == (_aten.rsqrt.default, _aten.mul.Tensor):
        fits = {*scaled.args} == {x, root}
    else:
        fits = way == (_aten.sqrt.default, _aten.div.Tensor) and scaled.args == (x, root)
    if not fits or any(each in taken for each in nodes) or not alike(scaled, shape):
        return None
    if len({value_of(each).dtype for each in (x, *nodes)}) > 1:
        return None
    columns = math.prod(shape[-count:])
    rows = math.prod(shape) // columns
    computation = Computation(
        kind="rms_norm",
        statements=(
            "v[i] = mean(k, X[i, k] * X[i, k])",
            f"Y[i, j] = X[i, j] * rsqrt(v[i] + {eps!r})",
        ),
        operands={"X": whole(x, (rows, columns))},
        result="Y",
        axes=("i", "j"),
        shape=(rows, columns),
    )
    return computation, nodes


def unit_vectors(node: Any, taken: Container[Any]) -> tuple[Computation, tuple[Any, ...]] | None:
    """The vectors along one dimension divided by their norm, which `node` is, and the nodes.

        F.normalize(x, dim=-1);  x / x.norm(dim=-1, keepdim=True)

    None where something else is computed of the norm.
    """
    given = arguments_of(node) if node.target is _aten.linalg_vector_norm.default else {}
    if not given.get("keepdim") or given["ord"] != 2:
        return None
    x, shape = given["self"], shape_of(given["self"])
    dims = _dims(node, len(shape))
    nodes: list[Any] = [node]
    least: Any = None
    while (user := only_user(nodes[-1])) is not None and user.target in _BEFORE_DIVIDING:
        nodes.append(user)
        if user.target is _aten.clamp_min.default:
            least = user.args[1] if least is None else math.nan
    if user is None or user.target is not _aten.div.Tensor or user.args != (x, nodes[-1]):
        return None
    if least is not None and not (isinstance(least, int | float) and math.isfinite(least)):
        return None
    nodes.append(user)
    types = {value_of(each).dtype for each in (x, *nodes)}
    if len(dims) != 1 or not 1 < len(shape) <= len(_KEPT) or len(types) > 1:
        return None
    if any(each in taken for each in nodes) or shape_of(user) != shape or not is_dense(user):
        return None
    (d,), order = dims, storage_order(user)
    several = tuple(_KEPT[: len(shape)])
    lengths = {**dict(zip(several, shape, strict=True)), "k": shape[d]}
    along = [(i,) for i in (*several[:d], "k", *several[d + 1 :])]
    squared, operand = read("X", x, along, lengths)
    element, _ = read("X", x, [(i,) for i in several], lengths)
    kept = ", ".join(i for i in several if i != several[d])
    norm = f"sqrt(v[{kept}])"
    axes = tuple(several[i] for i in order)
    return Computation(
        kind="normalize",
        statements=(
            f"v[{kept}] = sum(k, {squared} * {squared})",
            f"Y[{', '.join(axes)}] = {element} / "
            + (norm if least is None else f"max({norm}, {float(least)!r})"),
        ),
        operands={"X": operand},
        result="Y",
        axes=axes,
        shape=tuple(lengths[i] for i in axes),
        order=unless_usual(order),
        lengths=lengths,
    ), tuple(nodes)


_BEFORE_DIVIDING = (_aten.clamp_min.default, _aten.expand.default)
"""What a norm may pass on its way to a quotient."""


def _squared(node: Any) -> Any | None:
    """What the node is the square of: `x ** 2`, `x.square()`, `x * x`; None for others."""
    if node.target is _aten.pow.Tensor_Scalar:
        given = arguments_of(node)
        return given["self"] if given["exponent"] == 2 else None
    if node.target is _aten.square.default:
        return node.args[0]
    twice = node.target is _aten.mul.Tensor and node.args[0] is node.args[1]
    return node.args[0] if twice else None


def _added_number(node: Any, before: Any) -> float | None:
    """The number that the node adds to `before`; None for other nodes."""
    if node is None or node.target not in (_aten.add.Tensor, _aten.add.Scalar):
        return None
    given = arguments_of(node)
    left, right = given["self"], given["other"]
    number = right if left is before else left
    known = isinstance(number, int | float) and math.isfinite(number) and given["alpha"] == 1
    return float(number) if known else None
