"""Evaluate tensor programs with NumPy: the reference of workloads that have none of their own.

Every operation is computed from its declaration, as arrays over the grid of its axes, without a
schedule or lowering. An expression is evaluated only on the axes that it mentions (the others have
length 1 and broadcast), and a sum of products is computed by `np.einsum`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from typing import Any, TypeAlias

import numpy as np

from autosched.errors import ConfigError
from autosched.te.operations.graph import post_order_ops
from autosched.te.operations.operation import ComputeOp, Operation
from autosched.te.operations.reduction import adds, operator_of
from autosched.te.operations.tensor import Tensor
from autosched.tir.constants import is_one
from autosched.tir.dtype import DType, float32, int64, uint64
from autosched.tir.expr import (
    BinaryExpr,
    Call,
    Cast,
    Expr,
    FloatImm,
    FloorDiv,
    FloorMod,
    IntImm,
    IterKind,
    IterVar,
    Mul,
    Not,
    ProducerLoad,
    Range,
    Reduce,
    Select,
    Var,
)
from autosched.tir.interp_math import integer_call
from autosched.tir.jumps import jumps
from autosched.tir.numpy_binary import BINARY
from autosched.tir.op import add, all_, const, ge, lt
from autosched.tir.walk import distinct, free_vars
from autosched.workloads.numpy_operations import CALLS, UFUNCS
from autosched.workloads.workload import Array, shape_of

_BLOCK = 1 << 24  # most elements of an intermediate array
_POINTS, _MOST_POINTS = 1 << 20, 1 << 26  # at once, and in all, where only an extreme is wanted

Change: TypeAlias = Callable[[ComputeOp, Tensor, Array], Array]
Kept: TypeAlias = Callable[[Array, DType], Array]
"""Converts values in float64, int64 or uint64 to values that the type can hold."""


def evaluate(
    tensors: Sequence[Tensor], inputs: Sequence[Array], change: Change | None = None
) -> list[Array]:
    """The values of the computed tensors among `tensors`, given the arrays of the placeholders.

    Floats are computed in float64 and not rounded to their types. Integers are computed in int64,
    those of uint64 in uint64; those of narrower types wrap as in a kernel. In a program that jumps
    with floats (`jumps_with_floats`), every value is rounded to its type as in a kernel, because
    its last bit decides where it jumps; sums are still added up in float64, and computed tensors of
    bfloat16 and 8-bit floats are float32 unless they are among `tensors`. With `change(op,
    tensor, values)`, operations read its result instead of the values of each computed tensor.
    """
    placeholders = [t for t in tensors if not isinstance(t.op, ComputeOp)]
    results = [t for t in tensors if isinstance(t.op, ComputeOp)]
    values: dict[Tensor, Array] = {
        tensor: _widened(np.asarray(array))
        for tensor, array in zip(placeholders, inputs, strict=True)
    }
    ops = post_order_ops([tensor.op for tensor in results])
    kept = _rounded if any(map(jumps_with_floats, ops)) else _wrapped
    for op in ops:
        if isinstance(op, ComputeOp):
            for tensor, array in zip(op.outputs, _compute(op, values, kept), strict=True):
                dtype = tensor.dtype if tensor in results else _computed_in(tensor.dtype)
                wrapped = kept(array, dtype)
                values[tensor] = wrapped if change is None else change(op, tensor, wrapped)
        elif op.output(0) not in values:
            raise ConfigError(f"input {op.name} is not among the argument tensors")
    return [values[tensor] for tensor in results]


def extremes(op: ComputeOp, e: Expr, conditions: Sequence[Expr]) -> tuple[int, int] | None:
    """The least and largest value of `e` over the axes of `op` where all `conditions` hold.

    None where there is no value, and where it is not known: what is read from a tensor, an axis
    whose range is not constant, more than 2**26 points.
    """
    every = (e, *conditions)
    if any(isinstance(part, ProducerLoad | Reduce) for each in every for part in distinct(each)):
        return None
    names = frozenset().union(*map(free_vars, every))
    axes = [axis for axis in op.root_iter_vars if axis.var in names]
    if len(axes) < len(names) or not all(map(_is_constant, op.root_iter_vars)):
        return None
    lengths = [_extent(axis) for axis in axes]
    if 0 in map(_extent, op.root_iter_vars) or math.prod(lengths) > _MOST_POINTS:
        return None
    axes.sort(key=_extent, reverse=True)  # the longest is taken in pieces
    one = IterVar(Range.of(1), Var("one"), IterKind.DATA_PAR)
    flat = ComputeOp(op.name, tuple(axes) or (one,), (const(0),))
    rows = max(1, _POINTS // math.prod(map(_extent, axes[1:])))
    found: list[int] = []
    for start in range(0, _extent(flat.axis[0]), rows):
        grid = _Grid(flat, {}, _rounded, start, min(rows, _extent(flat.axis[0]) - start))
        try:
            values, *holds = np.broadcast_arrays(*map(grid, every))
        except ConfigError:  # a function without a NumPy version
            return None
        values = values[np.logical_and.reduce(holds)] if holds else values
        if values.size:
            found += [int(values.min()), int(values.max())]
    return (min(found), max(found)) if found else None


def jumps_with_floats(op: Operation) -> bool:
    """Whether a body compares floats or converts them to integers, apart from constants."""
    if not isinstance(op, ComputeOp):
        return False
    bodies = [e for body in op.body for e in (body, *_combined(body))]
    return any(jumps(e) for body in bodies for e in distinct(body))


def _combined(body: Expr) -> Sequence[Expr]:
    return body.combiner.result if isinstance(body, Reduce) else ()


def _widened(array: Array) -> Array:
    if array.dtype.kind not in "iub":
        return array.astype(np.float64)
    return array.astype(np.uint64 if array.dtype == np.uint64 else np.int64)


def _wrapped(array: Array, dtype: DType) -> Array:
    """The integers `array` wrapped to an integer `dtype`; other arrays stay as they are."""
    if array.dtype.kind not in "iu" or not dtype.is_integral or dtype.is_bool:
        return array
    return array.astype(dtype.name, copy=False).astype(_integer(dtype), copy=False)


def _integer(dtype: DType) -> type[np.uint64 | np.int64]:
    """The type in which integers of `dtype` are held."""
    return np.uint64 if dtype is uint64 else np.int64


def _rounded(array: Array, dtype: DType) -> Array:
    """The values wrapped, or rounded to a float `dtype`; floats stay in float64."""
    if array.dtype.kind != "f" or not dtype.is_float or dtype.bits == 64:
        return _wrapped(array, dtype)
    with np.errstate(all="ignore"):
        return array.astype(dtype.numpy).astype(np.float64)


def _operator(e: BinaryExpr) -> Callable[[Any, Any], Any]:
    """NumPy's function of `e`.

    Floor division and modulo of floats up to 32 bits use float32, in which kernels compute the
    quotient that is floored.
    """
    function = BINARY[type(e)]
    if not isinstance(e, FloorDiv | FloorMod) or not e.dtype.is_float or e.dtype.bits == 64:
        return function
    return lambda x, y: np.float64(function(np.float32(x), np.float32(y)))


def _computed_in(dtype: DType) -> DType:
    """The type in which kernels compute: bfloat16 and 8-bit floats are only stored."""
    return float32 if dtype.is_storage_float else dtype


def _compute(op: ComputeOp, values: Mapping[Tensor, Array], kept: Kept) -> list[Array]:
    if not op.axis:  # 0-dimensional: computed as a tensor of one dimension
        one = IterVar(Range.of(1), Var("one"), IterKind.DATA_PAR)
        flat = ComputeOp(op.name, (one,), op.body, op.tag, op.attrs)
        return [array.reshape(()) for array in _compute(flat, values, kept)]
    op = _rectangular(op, values, kept)
    shape = shape_of(op.output(0))
    if 0 in shape:
        return [np.zeros(shape, np.float64 if e.dtype.is_float else np.int64) for e in op.body]
    first = op.body[0]
    inner = math.prod(_extent(iv) for iv in op.reduce_axis)
    if isinstance(first, Reduce) and _is_sum(first):
        return [_sum_of_products(op, first, values, kept)]
    rows = max(1, _BLOCK // max(1, inner * math.prod(shape[1:]))) if shape else 1
    blocks: list[list[Array]] = []
    for start in range(0, shape[0], rows):
        part = (min(rows, shape[0] - start), *shape[1:])
        grid = _Grid(op, values, kept, start, part[0])
        bodies = _reduce(op, first, grid) if isinstance(first, Reduce) else map(grid, op.body)
        blocks.append([np.broadcast_to(np.asarray(b), part) for b in bodies])
    return [np.concatenate(parts) for parts in zip(*blocks, strict=True)]


def _rectangular(op: ComputeOp, values: Mapping[Tensor, Array], kept: Kept) -> ComputeOp:
    """Replace ragged domains of reductions by their bounding range and a condition."""
    if all(_is_constant(iv) for iv in op.reduce_axis):
        return op
    grid = _Grid(ComputeOp(op.name, op.axis, (const(0),)), values, kept, 0, _extent(op.axis[0]))
    axes: list[IterVar] = []
    inside: list[Expr] = []
    for iv in op.reduce_axis:
        assert iv.dom is not None
        low, extent = iv.dom.min, iv.dom.extent
        first = int(np.min(grid(low)))
        last = int(np.max(grid(add(low, extent))))
        axes.append(IterVar(Range.of(max(0, last - first), first), iv.var, iv.kind))
        inside += [ge(iv.var, low), lt(iv.var, add(low, extent))]
    bodies: list[Expr] = []
    for e in op.body:
        assert isinstance(e, Reduce)
        condition = all_(*inside, e.condition)
        bodies.append(Reduce(e.combiner, e.source, tuple(axes), condition, e.value_index, e.init))
    return ComputeOp(op.name, op.axis, bodies, op.tag, op.attrs)


def _is_constant(axis: IterVar) -> bool:
    dom = axis.dom
    return dom is not None and isinstance(dom.min, IntImm) and isinstance(dom.extent, IntImm)


def _extent(axis: IterVar) -> int:
    assert axis.dom is not None
    if not isinstance(axis.dom.extent, IntImm) or not isinstance(axis.dom.min, IntImm):
        raise ConfigError(f"the range {axis.dom!r} of axis {axis.var.name} is not constant")
    return axis.dom.extent.value


def _low(axis: IterVar) -> int:
    return axis.dom.min.value if axis.dom and isinstance(axis.dom.min, IntImm) else 0


def _is_sum(e: Reduce) -> bool:
    return len(e.source) == 1 and adds(e.combiner) and not e.init and is_one(e.condition)


class _Grid:
    """Evaluates expressions over the data axes, then the reduce axes; each is one array axis.

    The first data axis is limited to `rows` points from `start`.
    """

    def __init__(
        self, op: ComputeOp, values: Mapping[Tensor, Array], kept: Kept, start: int, rows: int
    ) -> None:
        self.values = values
        self.kept = kept
        self.env: dict[Var, Any] = {}
        self.axes = op.root_iter_vars
        for k, axis in enumerate(self.axes):
            points = np.arange(start, start + rows) if k == 0 else np.arange(_extent(axis))
            shape = [1] * len(self.axes)
            shape[k] = -1
            self.env[axis.var] = (points + _low(axis)).reshape(shape)
        self.n_data = len(op.axis)

    def at(self, point: Mapping[Var, int]) -> _Grid:
        """The grid of the data axes, with the reduce axes fixed at `point`."""
        new = object.__new__(_Grid)
        new.values, new.axes, new.n_data = self.values, self.axes[: self.n_data], self.n_data
        new.kept = self.kept
        flat = {
            axis.var: self.env[axis.var].reshape(self.env[axis.var].shape[: self.n_data])
            for axis in new.axes
        }
        new.env = {**flat, **point}
        return new

    def __call__(self, e: Expr) -> Any:
        match e:
            case Var():
                return self.env[e]
            case FloatImm(value):
                return value
            case IntImm(value):
                return np.uint64(value) if e.dtype is uint64 else value
            case ProducerLoad(producer, indices):
                return self._load(self.values[producer], indices)
            case BinaryExpr(a, b):
                x, y = self(a), self(b)
                with np.errstate(all="ignore"):
                    found = np.asarray(_operator(e)(x, y))
                return self.kept(found, _computed_in(e.dtype))
            case Not(a):
                return np.logical_not(self(a))
            case Cast(value):
                return self._converted(np.asarray(self(value)), e.dtype)
            case Select(condition, a, b) | Call("if_then_else", (condition, a, b)):
                return np.where(self(condition), self(a), self(b))
            case Call("likely", (condition,)):
                return self(condition)
            case Call("shift_left" | "shift_right" as name, (a, b)):
                all_bits = _integer(e.dtype)(e.dtype.bits - 1)
                count = self(b) & all_bits  # modulo the bits, as in kernels
                return _wrapped(np.asarray(CALLS[name](self(a), count)), e.dtype)
            case Call("popcount" | "clz" as name, (a,)):
                return np.asarray(integer_call(name, a.dtype, int64, self(a)))
            case Call(name, args) if name in CALLS:
                with np.errstate(all="ignore"):
                    found = CALLS[name](*map(self, args))
                return self.kept(np.asarray(found), _computed_in(e.dtype))
        raise ConfigError(f"no NumPy reference for {e!r}")

    def _converted(self, x: Array, dtype: DType) -> Array:
        if dtype.is_bool:
            return np.not_equal(x, 0)
        if dtype.is_float:
            return self.kept(x.astype(np.float64), dtype)
        if x.dtype.kind != "f":
            return _wrapped(x.astype(np.int64), dtype)
        # Values that do not fit become the nearest that does, and NaN becomes 0, as in kernels.
        kind = _integer(dtype)
        low, high = kind(dtype.min_value), kind(dtype.max_value)
        whole = np.trunc(np.nan_to_num(x, nan=0.0))
        inside = np.where((whole < float(high)) & (whole > float(low)), whole, 0.0).astype(kind)
        return np.where(whole >= float(high), high, np.where(whole <= float(low), low, inside))

    def _load(self, array: Array, indices: Sequence[Expr]) -> Any:
        # A branch that is not taken may read out of bounds; any element will do there.
        places = [
            np.clip(self(index), 0, size - 1)
            for index, size in zip(indices, array.shape, strict=True)
        ]
        return array[tuple(np.broadcast_arrays(*places))] if places else array[()]


def _factors(e: Expr) -> Iterator[Expr]:
    if isinstance(e, Mul):
        yield from _factors(e.a)
        yield from _factors(e.b)
    else:
        yield e


def _sum_of_products(op: ComputeOp, e: Reduce, values: Mapping[Tensor, Array], kept: Kept) -> Array:
    grid = _Grid(op, values, kept, 0, _extent(op.axis[0]))
    operands: list[Any] = []
    sizes = [_extent(axis) for axis in grid.axes]
    if 0 in sizes:  # an empty sum
        return np.zeros(sizes[: len(op.axis)], np.float64 if e.dtype.is_float else np.int64)
    covered: set[int] = set()
    for factor in _factors(e.source[0]):
        array = np.asarray(grid(factor))
        array = array.reshape((1,) * (len(sizes) - array.ndim) + array.shape)
        axes = [k for k, size in enumerate(array.shape) if size > 1]
        covered.update(axes)
        operands += [array.reshape([array.shape[k] for k in axes]), axes]
    for k, size in enumerate(sizes):  # axes that no factor mentions, and axes of length 1
        if k not in covered:
            operands += [np.ones(size, operands[0].dtype), [k]]
    return np.asarray(np.einsum(*operands, list(range(len(op.axis))), optimize=True))


def _reduce(op: ComputeOp, e: Reduce, grid: _Grid) -> list[Array]:
    data_shape = [grid.env[axis.var].size for axis in op.axis]
    sizes = [_extent(axis) for axis in op.reduce_axis]
    operator = operator_of(e.combiner)
    plain = len(e.source) == 1 and not e.init and is_one(e.condition) and 0 not in sizes
    if plain and operator in UFUNCS:
        full = np.broadcast_to(np.asarray(grid(e.source[0])), (*data_shape, *sizes))
        axes = tuple(range(len(data_shape), len(data_shape) + len(sizes)))
        combine = UFUNCS[operator]
        begun = combine(combine.reduce(full, axis=axes), grid(e.combiner.identity[0]))
        return [np.asarray(begun)]
    start = e.init or e.combiner.identity
    before = grid.at({})
    state: list[Any] = [np.broadcast_to(before(v), data_shape) for v in start]
    for point in product(*map(range, sizes)):
        at = {axis.var: k + _low(axis) for axis, k in zip(op.reduce_axis, point, strict=True)}
        here = grid.at(at)
        here.env.update(zip(e.combiner.lhs, state, strict=True))
        here.env.update(zip(e.combiner.rhs, [here(s) for s in e.source], strict=True))
        taken = here(e.condition)
        here.kept = _wrapped
        new = [here(r) for r in e.combiner.result]
        state = [np.where(taken, n, old) for n, old in zip(new, state, strict=True)]
    return state
