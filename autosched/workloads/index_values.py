"""Tensors that are read as indices: their values for which every read is in bounds."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from autosched.arith import Analyzer
from autosched.errors import ConfigError
from autosched.te.bounds.reads import Read, analyzer_of, range_of
from autosched.te.operations.operation import ComputeOp
from autosched.te.operations.tensor import Tensor
from autosched.tir.data import is_data
from autosched.tir.dtype import int64
from autosched.tir.expr import Cast, Expr, IntImm, ProducerLoad, Range, Var
from autosched.tir.linear import linear
from autosched.tir.walk import rewrite_expr, substitute, uses
from autosched.workloads.reads import reads_of
from autosched.workloads.workload import MAX_SIZE, usual_integers


def index_values(tensors: Sequence[Tensor], *, drawn: bool = False) -> dict[Tensor, range]:
    """For each tensor that is read as an index, the values from 0 on that keep reads in bounds.

    Where a condition guards a read, its smallest values may be out of bounds, unless the values are
    `drawn` at random. Raises ConfigError when no value is in bounds.
    """
    values: dict[Tensor, range] = {}
    for read in reads_of(tensors):
        ends = (read.index,) * 2 if read.guarded and not drawn else _ends_of(read)
        (low, beyond, below), (_, high, above) = (_parts(read, e) for e in ends)
        if not below and not above:
            continue
        room = read.size - 1 - high
        (up, down), (rise, fall) = _factors(below), _factors(above)
        least = max(0, -(low // up) if up else 0, -(room // fall) if fall else 0)
        most = min(
            MAX_SIZE,
            room // rise if rise else (read.size - beyond) // up if up else MAX_SIZE,
            low // down if down else MAX_SIZE,
        )
        if most < least and not read.guarded:
            raise ConfigError(
                f"{read.op.name} reads {read.tensor.name} at {read.index!r}, which is outside its "
                f"axis of length {read.size} for every index from 0 on"
            )
        if read.guarded and (not drawn or most < least):
            least, most = 0, max(most, 0)
        for load in (*below, *above):
            known = values.get(load.producer, range(MAX_SIZE + 1))
            both = range(max(least, known.start), min(most + 1, known.stop))
            if not both and not read.guarded:
                raise ConfigError(
                    f"{read.op.name} reads {read.tensor.name} at {read.index!r}: no value of "
                    f"{load.producer.name} keeps all reads that depend on it inside their axes"
                )
            values[load.producer] = both or known
    return values


def _ends_of(read: Read) -> tuple[Expr, Expr]:
    """The smallest and the largest index, as far as axes decide whose domain is data.

    An axis that is part of a term, as in `k % 2`, stays.
    """
    first: dict[Var, Expr] = {}
    last: dict[Var, Expr] = {}
    _, terms = linear(_of_integers(read.index))
    for axis in read.op.reduce_axis:
        assert axis.dom is not None, "te.reduce_axis has a domain"
        var, low = axis.var, axis.dom.min
        high = Analyzer().simplify(low + axis.dom.extent - 1)
        inside = any(uses(t, (var,)) for t in terms if t is not var)
        if var in terms and not inside and (is_data(low) or is_data(high)):
            ends = low, high
            first[var], last[var] = ends if terms[var] > 0 else ends[::-1]
    return substitute(read.index, first), substitute(read.index, last)


def _parts(read: Read, index: Expr) -> tuple[int, int, dict[ProducerLoad, int]]:
    """The bounds of `index` without the elements that it adds up, and the factors of these."""
    constant, terms = linear(_of_integers(index))
    inner: Counter[ProducerLoad] = Counter()
    rest: dict[Expr, int] = {}
    for term, factor in terms.items():
        load = _bare(term)
        if isinstance(load, ProducerLoad):
            inner[load] += factor
        else:
            rest[term] = factor
    return *range_of(read.op, constant, rest), inner


def _factors(inner: Mapping[ProducerLoad, int]) -> tuple[int, int]:
    """The sums of the positive and of the negative factors, both as positive numbers."""
    up, down = (sum(max(0, sign * c) for c in inner.values()) for sign in (1, -1))
    return up, down


def drawn_values(tensors: Sequence[Tensor]) -> dict[Tensor, range]:
    """`index_values` for random inputs, limited to values of the tensor's type.

    There are fewer values where the index passes through a stage, or through arithmetic that may
    wrap, divides or chooses, and would be out of bounds. Where no limit helps, as for a hash of a
    value, no limit is set.
    """
    values = {
        t: range(each.start, min(each.stop, int(t.dtype.max_value) + 1))
        for t, each in index_values(tensors, drawn=True).items()
    }
    for read in reads_of(tensors):
        variables: dict[ProducerLoad, Var] = {}
        ends = _ends_of(read)
        first, last = (_of_variables(e, variables) for e in ends)
        used = {load: v for load, v in variables.items() if uses(first, (v,)) or uses(last, (v,))}
        if not used or _stays(read, ends, {}):
            continue
        names = {load.producer for load in used}
        whole = [values.get(t, range(min(int(t.dtype.max_value), MAX_SIZE) + 1)) for t in names]
        start, stop = max(each.start for each in whole), min(each.stop for each in whole)
        inside = _those_inside(read, (first, last), used.values(), range(start, stop))
        usual = {v: usual_integers(v.dtype.numpy) for v in used.values()}
        fewer = len(inside) < max(map(len, whole))
        if inside and (fewer or not _stays(read, (first, last), usual)):
            values.update(dict.fromkeys(names, inside))
    return values


def _those_inside(
    read: Read, ends: tuple[Expr, Expr], variables: Iterable[Var], values: range
) -> range:
    """The longest prefix of `values` that keeps `ends` in bounds if all `variables` have them."""

    def leads_outside(last: int) -> bool:
        return not _stays(read, ends, dict.fromkeys(variables, range(values.start, last + 1)))

    return values[: bisect_left(values, True, key=leads_outside)]


def _of_variables(e: Expr, variables: dict[ProducerLoad, Var]) -> Expr:
    """Replace elements of input tensors in `e` by variables, also inside of inlined stages."""

    def replaced(load: Expr) -> Expr | None:
        if not isinstance(load, ProducerLoad) or not load.dtype.is_integral:
            return None
        op = load.producer.op
        if not isinstance(op, ComputeOp):
            return variables.setdefault(load, Var(load.producer.name, load.dtype))
        if op.reduce_axis:
            return None
        table = dict(zip([axis.var for axis in op.axis], load.indices, strict=True))
        return _of_variables(substitute(op.body[load.producer.value_index], table), variables)

    return rewrite_expr(e, replaced)


def _stays(read: Read, ends: tuple[Expr, Expr], values: Mapping[Var, range]) -> bool:
    """Whether the index, from the first to the last of `ends`, is in bounds for all `values`."""
    analyzer = analyzer_of(read.op)
    for variable, each in values.items():
        least = IntImm(each.start, variable.dtype)
        analyzer.bind(variable, Range(least, IntImm(len(each), int64)))
    first, last = map(analyzer.const_int_bound, ends)
    return first.min_value >= 0 and last.max_value < read.size


def _of_integers(e: Expr) -> Expr:
    """`e` without conversions between integer types."""
    while isinstance(e, Cast) and e.value.dtype.is_integral:
        e = e.value
    return e


def _bare(e: Expr) -> Expr:
    while isinstance(e, Cast):
        e = e.value
    return e
