"""Declaring a tensor program: placeholders, element-wise computations, axes and variables."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from autosched.arguments import found
from autosched.te.operations.operation import ComputeOp, PlaceholderOp
from autosched.te.operations.tensor import Tensor
from autosched.te.operations.tensor_compute import IntrinCall, tensor_compute
from autosched.tir.constants import is_zero
from autosched.tir.dtype import DType, TypeLike, int32
from autosched.tir.expr import (
    Expr,
    IntImm,
    IterKind,
    IterVar,
    ProducerLoad,
    Range,
    Reduce,
    SizeVar,
    StringImm,
    Var,
)
from autosched.tir.given import all_of, text
from autosched.tir.op import Operand, as_expr, cast
from autosched.tir.operators import declaring
from autosched.tir.walk import distinct, free_vars, loads

Shape = Sequence[Expr | int] | Expr | int | np.ndarray[Any, Any]

MAX_NESTING = 1200
"""The deepest nesting of an expression; a sum a + b + c + ... has one level for each term."""


def var(name: str = "tindex", dtype: TypeLike = "int32") -> Var:
    """A fresh symbolic variable."""
    return Var(text("te.var: a name", name), DType(dtype))


def size_var(name: str = "size", dtype: TypeLike = "int32") -> SizeVar:
    """A fresh symbolic size, known to be non-negative."""
    return SizeVar(text("te.size_var: a name", name), DType(dtype))


def as_shape(shape: Shape) -> tuple[Expr, ...]:
    """`shape` as a tuple of integer expressions; a single extent means one dimension.

    Constants of 8 or 16 bits become int32, the type of indices; variables of such types are a
    ValueError.
    """
    if isinstance(shape, np.ndarray):
        shape = shape.tolist()
    sizes = shape if isinstance(shape, Sequence) and not isinstance(shape, str) else (shape,)
    return tuple(_as_extent(as_expr(size)) for size in sizes)


def _as_extent(extent: Expr) -> Expr:
    if not extent.dtype.is_int:
        raise ValueError(f"an extent is an integer, found {extent!r} of type {extent.dtype}")
    if isinstance(extent, IntImm) and extent.value < 0:
        raise ValueError(f"an extent is a number of elements, found {extent.value}")
    if extent.dtype.bits >= int32.bits:
        return extent
    if not isinstance(extent, IntImm):
        raise ValueError(
            f"an extent is an int32 or int64, found {extent!r} of type {extent.dtype}, in which "
            'indices would overflow; make it a variable of type "int32"'
        )
    return cast(int32, extent)


def placeholder(shape: Shape, dtype: TypeLike = "float32", name: str = "placeholder") -> Tensor:
    """An input tensor of `shape` (elements per dimension).

    >>> from autosched import te
    >>> te.placeholder((8, te.var("n")), "int8", name="A")
    Tensor(A: int8[8, n])
    """
    return PlaceholderOp(name, as_shape(shape), DType(dtype)).output(0)


def reduce_axis(dom: Range | Sequence[Operand], name: str = "rv") -> IterVar:
    """An axis [lo, hi) to reduce over, for `te.sum` and the like.

    >>> from autosched import te
    >>> A, B = (te.placeholder((8, 8), name=name) for name in "AB")
    >>> k = te.reduce_axis((0, 8), "k")
    >>> C = te.compute((8, 8), lambda i, j: te.sum(A[i, k] * B[k, j], axis=k), name="C")
    """
    dom = as_range(dom, f"te.reduce_axis {name}")
    axis = Var(text("te.reduce_axis: a name", name), dom.extent.dtype)
    return IterVar(dom, axis, IterKind.REDUCE)


def as_range(dom: Range | Sequence[Operand], what: str) -> Range:
    """`dom` as a Range; a pair is (lo, hi), hi exclusive. Ends of 8 or 16 bits become int32.

    ValueError, beginning with `what`, when the domain is not a pair of integers, ends before it
    begins, or has more values than a variable of its type can count.
    """
    if isinstance(dom, Range):
        low, extent = _wide(dom.min), _wide(dom.extent)
        return dom if low is dom.min and extent is dom.extent else Range(low, extent)
    if not isinstance(dom, Sequence) or isinstance(dom, str | range) or len(dom) != 2:
        raise ValueError(f"{what}: a domain is (low, high), {found(dom)}")
    low, high = (_wide(as_expr(end)) for end in dom)
    if not (low.dtype.is_int and high.dtype.is_int):
        raise ValueError(f"{what}: the ends of a domain are integers, {found(dom)}")
    dtype = as_expr(high - low).dtype
    if isinstance(low, IntImm) and isinstance(high, IntImm):
        values = high.value - low.value
        if values < 0:
            raise ValueError(
                f"{what}: a domain is (low, high), found ({low}, {high}), which ends before it "
                "begins"
            )
        _check_count(what, values, dtype)
    return Range.of(high - low, low)


def _check_count(what: str, values: int, dtype: DType) -> None:
    if values > dtype.max_value:
        raise ValueError(
            f"{what}: the domain has {values} values, expected at most {dtype.max_value}, which "
            f"{dtype} can count; divide it among several axes"
        )


def _wide(e: Expr) -> Expr:
    """`e`, cast to int32 if it is a smaller integer, in which index arithmetic would wrap."""
    return cast(int32, e) if e.dtype.is_int and e.dtype.bits < int32.bits else e


def thread_axis(
    dom: Range | Sequence[Operand] | str | int | Expr | None = None, tag: str = "", name: str = ""
) -> IterVar:
    """A thread index such as `thread_axis("threadIdx.x")` or `thread_axis((0, 32), "vthread")`.

    Tags: blockIdx.x/y/z, threadIdx.x/y/z, vthread, cthread. Without a domain the extent is that
    of the axis bound to it. Raises ValueError for a domain that does not begin at 0.
    """
    domain: Range | None = None
    text("te.thread_axis: a tag", tag)
    text("te.thread_axis: a name", name)
    if isinstance(dom, str):
        tag = dom
    elif isinstance(dom, int | Expr):
        domain = as_range((0, dom), f"te.thread_axis {name or tag}")
    elif dom is not None:
        domain = as_range(dom, f"te.thread_axis {name or tag}")
    what = f"te.thread_axis {name or tag}"
    if domain is not None and isinstance(domain.extent, IntImm):
        _check_count(what, domain.extent.value, int32)
    if domain is not None and not is_zero(domain.min):
        raise ValueError(f"{what}: the indices of threads begin at 0, found {domain.min!r}")
    return IterVar(domain, Var(name or tag), IterKind.THREAD, tag)


def axis_names(fcompute: Callable[..., Any], ndim: int) -> list[str]:
    """The names of the axes: the parameters of `fcompute`; `*i` gives i0, i1 and so on.

    There may be fewer than `ndim`, the number of dimensions of the result. More are a ValueError,
    except for trailing parameters with defaults, which are no axes: `lambda i, j, size=size: ...`.
    """
    if not callable(fcompute):
        raise TypeError(
            "te.compute takes a function of the indices after the shape, e.g. lambda i, j: "
            f"A[i, j] + 1, {found(fcompute)}"
        )
    parameters = inspect.signature(fcompute).parameters.values()
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    taken = [p for p in parameters if p.kind in positional]
    while len(taken) > ndim and taken[-1].default is not inspect.Parameter.empty:
        taken.pop()
    names = [p.name for p in taken]
    rest = [p.name for p in parameters if p.kind is inspect.Parameter.VAR_POSITIONAL]
    if rest:
        names += [f"{rest[0]}{k}" for k in range(ndim - len(names))]
    elif not names:
        names = [f"i{k}" for k in range(ndim)]
    if len(names) > ndim:
        raise _other_rank(len(names), ndim)
    return names


def _other_rank(indices: int, ndim: int) -> ValueError:
    return ValueError(
        f"the function of te.compute takes {indices} indices, the shape has {ndim} dimensions"
    )


def compute(
    shape: Shape,
    fcompute: Callable[..., Any],
    name: str = "compute",
    tag: str = "",
    attrs: Mapping[str, Any] | None = None,
    axis_names: Sequence[str] | None = None,
) -> Any:
    """The tensor whose element at `indices` is `fcompute(*indices)`.

    A function that returns a tuple makes several outputs over the same axes: the result is then
    a tuple of tensors, else one tensor. `axis_names` overrides the parameter names.

        >>> from autosched import te
        >>> A = te.placeholder((8, 4), name="A")
        >>> B = te.compute((4, 8), lambda i, j: A[j, i] * 2.0, name="B")
        >>> B
        Tensor(B: float32[4, 8])

    A function of fewer indices than the shape has dimensions returns the call of a tensor
    intrinsic (te.decl_tensor_intrin), which fills the other dimensions:

        C = te.compute((4, 8), lambda i: vadd(A[i, 0:8], B[i, 0:8]), name="C")
    """
    extents = as_shape(shape)
    names = (
        _axis_names(fcompute, len(extents))
        if axis_names is None
        else all_of(str, f"te.compute {name}: axis_names", axis_names)
    )
    if len(names) > len(extents):
        raise _other_rank(len(names), len(extents))
    axes = [
        IterVar(Range.of(extent), Var(axis, extent.dtype), IterKind.DATA_PAR)
        for axis, extent in zip(names, extents, strict=False)
    ]
    with declaring():
        result = fcompute(*(iv.var for iv in axes))
    if isinstance(result, IntrinCall):
        filled = tensor_compute(name, axes, extents, result, tag, attrs)
        return filled.outputs if len(filled.outputs) > 1 else filled.output(0)
    if len(names) != len(extents):
        raise _other_rank(len(names), len(extents))
    body = tuple(map(as_expr, result if isinstance(result, tuple | list) else (result,)))
    check_body(name, body)
    op = ComputeOp(name, axes, body, tag, attrs)
    return op.outputs if len(body) > 1 else op.output(0)


_axis_names = axis_names


def _check_ragged(name: str, reduce: Reduce) -> None:
    """ValueError for domains of reduction axes that no loop can have.

    A domain must not depend on another reduction axis, nor read a tensor that is computed.
    """
    own = {iv.var for iv in reduce.axis}
    for iv in reduce.axis:
        assert iv.dom is not None, "te.reduce_axis has a domain"
        for e in (iv.dom.min, iv.dom.extent):
            if not own.isdisjoint(free_vars(e)):
                raise ValueError(
                    f"te.compute {name}: the domain of reduction axis {iv.var.name} depends on "
                    f"another reduction axis ({e!r}); give it the largest domain and the reduction "
                    "a condition (where=...)"
                )
            for load in loads(e):
                assert isinstance(load, ProducerLoad), "nothing else is loaded in a te body"
                if not isinstance(load.producer.op, PlaceholderOp):
                    raise ValueError(
                        f"te.compute {name}: the domain of reduction axis {iv.var.name} reads "
                        f"{load.producer.name}, which is computed; only inputs can be read there"
                    )


def _nesting(e: Expr) -> int:
    """The number of nodes on the longest path from `e` to a leaf, found without recursion."""
    depth: dict[Expr, int] = {}
    stack = [e]
    while stack:
        node = stack[-1]
        open_children = [c for c in node.children() if c not in depth]
        if open_children:
            stack += open_children
            continue
        stack.pop()
        depth[node] = 1 + max((depth[c] for c in node.children()), default=0)
    return depth[e]


def check_body(name: str, body: Sequence[Expr]) -> None:
    """ValueError for bodies that are empty, too deeply nested, or text, and for illegal reductions.

    A reduction must be the whole body, and that of several outputs one reduction with all parts.
    """
    if not body:
        raise ValueError(f"te.compute {name}: the function returned no value")
    depth = max(map(_nesting, body))
    if depth > MAX_NESTING:
        raise ValueError(
            f"te.compute {name}: the expression nests {depth} deep, at most {MAX_NESTING} are "
            "taken; compute parts of it in tensors of their own, or use te.sum over an axis"
        )
    for e in body:
        if isinstance(e, StringImm):
            raise ValueError(f"te.compute {name}: the function returned the text {e!r}")
    first = body[0]
    if isinstance(first, Reduce):
        whole = tuple(
            Reduce(first.combiner, first.source, first.axis, first.condition, k, first.init)
            for k in range(len(first.source))
        )
        if tuple(body) != whole:
            raise ValueError(
                f"te.compute {name}: the outputs must be all the components of one reduction, in "
                "order; compute anything else in another tensor"
            )
    if isinstance(first, Reduce):
        _check_ragged(name, first)
    for expr in body:
        inner = expr.children() if isinstance(first, Reduce) else (expr,)
        if any(isinstance(node, Reduce) for child in inner for node in distinct(child)):
            raise ValueError(
                f"te.compute {name}: a reduction must be the whole body; compute it in another "
                "tensor first"
            )
