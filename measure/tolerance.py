"""How much the outputs of a task may differ from the reference.

The tolerance of a type (measure/check.py) leaves room for the roundings of a sum of so many terms
in the type in which it is added up, and for the conversion of the result to a narrower type. A
value that is rounded before an exponential or a division errs by more afterwards: the error of a
score becomes a factor of its exponential. Where values are rounded to types of up to 16 bits, that
effect is measured: the computation is evaluated in float64 with errors added to its intermediate
results, and outputs may differ from the reference by as much as this evaluation does.
"""

from __future__ import annotations

import math
from collections.abc import Container, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from autosched.errors import ConfigError
from autosched.measure.check import MOST, Tolerance, least_error, root_mean_square, tolerance_of
from autosched.measure.roundings import (
    behind,
    is_rounded,
    makes_integers,
    roundings_of,
    terms_of,
    unit_of,
)
from autosched.task import Task
from autosched.te.operations.operation import ComputeOp, PlaceholderOp
from autosched.te.operations.tensor import Tensor
from autosched.tir.expr import Call, Cast, Div, Expr, ProducerLoad, Reduce
from autosched.tir.walk import pre_order
from autosched.workloads.evaluate import evaluate

Array = npt.NDArray[Any]
_DRAWS = 4
"""So often errors are drawn, at most, until a draw explains no more than those before.

Where few outputs count, a pair of large errors is not in every draw.
"""
_OF_FACTORS = 8
"""Tolerance of products with rounded factors, in units of `Roundings.factors`.

Sums of normal numbers err by about 0.6 of them, the worst of many elements by 3; where all products
have one sign, by 2.
"""


def tolerances(task: Task, inputs: Sequence[Array], expected: Sequence[Array]) -> list[Tolerance]:
    """The tolerance of each output.

    It is 0 for integers. Integers converted from sums of floats have the tolerance of the sums, and
    may be off by one besides. `expected` are the outputs that the reference computes from `inputs`.
    The tolerance of the types is used where another evaluation does not fit memory or is not
    possible.
    """
    outputs = task.tensors[-task.num_outputs :]
    own = [_of_types(task, tensor) for tensor in outputs]
    tf32 = task.target.tf32
    coarse = [
        tensor.dtype.is_float and roundings_of(*behind(tensor), tf32=tf32).coarse
        for tensor in outputs
    ]
    if not any(coarse) or not _amplifies(task):
        return own
    given = zip(task.tensors[: -task.num_outputs], inputs, strict=True)
    positive = {tensor for tensor, values in given if (values >= 0).all()}
    rng = np.random.default_rng(0)

    def inexact(op: ComputeOp, tensor: Tensor, values: Array) -> Array:
        if (values >= 0).all():
            positive.add(tensor)
        if tensor in outputs:
            return values
        return values + _error(op, tensor, values, rng, tf32, positive)

    found, before = own, None
    for _ in range(_DRAWS):
        if found == before:
            break
        try:
            others = evaluate(task.tensors, inputs, inexact)
        except (ConfigError, MemoryError):
            return own
        before = found
        found = [
            least._replace(relative=max(least.relative, _difference(want, other, least.rounding)))
            if short
            else least
            for short, least, want, other in zip(coarse, found, expected, others, strict=True)
        ]
    return found


def _of_types(task: Task, output: Tensor) -> Tolerance:
    """The tolerance that the roundings on the way to `output` explain.

    Sums and products are rounded to the coarsest type that is computed in. A conversion of a wider
    value to a narrower type rounds once, so two results differ by at most two of its unit
    roundoffs: of their own size at the end, and of that of what is computed from them before.
    Before a sum of products these are twice as many: sums of normal numbers, multiples of 1/256 of
    which only those beyond 1 are rounded, err by 0.3 of a unit, the worst of four million by 3. Two
    rounded factors make a product wrong by at most two unit roundoffs; random errors add up as the
    products themselves do.
    """
    if not all(isinstance(op, ComputeOp | PlaceholderOp) for op in task.dag.ops):
        longest = max(terms_of(op) for op in task.dag.ops if isinstance(op, ComputeOp))
        return Tolerance(tolerance_of(output.dtype.numpy, longest))
    if not output.dtype.is_float and not makes_integers(output, gpu=task.target.is_gpu):
        return Tolerance(0.0)
    found = roundings_of(*behind(output), tf32=task.target.tf32)
    kinds = found.computed or {output.dtype: 1}
    computed = max(tolerance_of(kind.numpy, terms) for kind, terms in kinds.items())
    rounding = 2 * unit_of(output.dtype) if is_rounded(output) else 0.0
    stored = sum(2 * unit_of(kind) for kind in (*found.stored, *found.added)) - rounding
    relative = max(computed, min(MOST, computed + stored + _OF_FACTORS * found.factors))
    return Tolerance(relative, rounding)


def _amplifies(task: Task) -> bool:
    """Whether an argument of a function, or a divisor, was computed (and so rounded) before."""
    ops = task.dag.ops
    if not all(isinstance(op, ComputeOp | PlaceholderOp) for op in ops):
        return False  # other operations cannot be evaluated
    bodies = [body for op in ops if isinstance(op, ComputeOp) for body in op.body]
    return any(_reads_computed(e) for body in bodies for e in _sensitive(body))


def _sensitive(body: Expr) -> list[Expr]:
    """The arguments of float functions and the divisors in a body."""
    found: list[Expr] = []
    for e in pre_order(body):
        if isinstance(e, Call) and e.dtype.is_float:
            found += [arg for arg in e.args if isinstance(arg, Expr)]
        elif isinstance(e, Div) and e.dtype.is_float:
            found.append(e.b)
    return found


def _reads_computed(e: Expr) -> bool:
    loads = (load for load in pre_order(e) if isinstance(load, ProducerLoad))
    return any(isinstance(load.producer.op, ComputeOp) for load in loads)


def _error(
    op: ComputeOp,
    tensor: Tensor,
    values: Array,
    rng: np.random.Generator,
    tf32: bool,
    positive: Container[Tensor],
) -> Array:
    """A random error for each element, of a size that the roundings of its sum seldom exceed.

    n roundings by half a unit, each relative to the sum so far, add up to less than sqrt(n) times
    the whole sum (or the root mean square, where most of the sum may have cancelled, as terms are
    not all `positive`) for all but one of a thousand elements. What is only moved, or the largest
    of several values, has none.
    """
    found = roundings_of(op, tf32=tf32)
    if not tensor.dtype.is_float or not (found.computed or found.stored):
        return np.zeros_like(values)
    sums = [unit_of(kind) * math.sqrt(terms) for kind, terms in found.computed.items()]
    rounding = max([unit_of(tensor.dtype), found.unit, *sums])
    size = np.abs(values)
    if terms_of(op) > 1 and not _adds_up_positive(op.body[tensor.value_index], positive):
        size = np.maximum(size, root_mean_square(values))
    error: Array = rounding * size * rng.choice((-1.0, 1.0), values.shape)
    return error


def _adds_up_positive(body: Expr, positive: Container[Tensor]) -> bool:
    """Whether no term of a sum is negative, as far as it is an element of `positive`, or `exp`."""
    term = body.source[body.value_index] if isinstance(body, Reduce) else body
    while isinstance(term, Cast):
        term = term.value
    if isinstance(term, Call):
        return term.op in ("exp", "exp2")
    return isinstance(term, ProducerLoad) and term.producer in positive


def _difference(want: Array, found: Array, rounding: float) -> float:
    """The largest difference, relative to element plus root mean square, of finite elements.

    It is what the rounding of `want`, by that share of its elements, does not explain.
    """
    exact = want.astype(np.float64)
    finite = np.isfinite(exact) & np.isfinite(found)
    if not finite.any():
        return 0.0
    size = np.abs(exact) + root_mean_square(exact)
    with np.errstate(invalid="ignore", divide="ignore"):
        excess = np.abs(found - exact) - rounding * np.abs(exact) - least_error(want)
        relative = excess / size
    return float(np.fmax.reduce(relative[finite], initial=0.0))
