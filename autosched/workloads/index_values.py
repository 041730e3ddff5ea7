"""Tensors that are read as indices: their values for which every read is in bounds."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence

from autosched.errors import ConfigError
from autosched.te.bounds.reads import Read, analyzer_of, range_of
from autosched.te.operations.operation import ComputeOp
from autosched.te.operations.tensor import Tensor
from autosched.tir.dtype import int64
from autosched.tir.expr import Cast, Expr, IntImm, ProducerLoad, Range, Var
from autosched.tir.linear import linear
from autosched.tir.walk import rewrite_expr, substitute, uses
from autosched.workloads.reads import reads_of
from autosched.workloads.workload import MAX_SIZE


def index_values(tensors: Sequence[Tensor], *, drawn: bool = False) -> dict[Tensor, range]:
    """For each tensor that is read as an index, the values from 0 on that keep reads in bounds.

    Where a condition guards a read, its smallest values may be out of bounds, unless the values are
    `drawn` at random. Raises ConfigError when no value is in bounds.
    """
    values: dict[Tensor, range] = {}
    for read in reads_of(tensors):
        constant, terms = linear(_of_integers(read.index))
        inner = {t: c for t, c in terms.items() if isinstance(_bare(t), ProducerLoad)}
        if not inner:
            continue
        rest = {t: c for t, c in terms.items() if t not in inner}
        low, high = range_of(read.op, constant, rest)
        last = read.size - 1
        up = sum(c for c in inner.values() if c > 0)
        down = -sum(c for c in inner.values() if c < 0)
        least = max(0, -(low // up) if up else 0, -((last - high) // down) if down else 0)
        most = min(
            *([(last - high) // up] if up else []), *([low // down] if down else []), MAX_SIZE
        )
        if most < least and not read.guarded:
            raise ConfigError(
                f"{read.op.name} reads {read.tensor.name} at {read.index!r}, which is outside its "
                f"axis of length {read.size} for every index from 0 on"
            )
        if read.guarded and (not drawn or most < least):
            least, most = 0, max(most, 0)
        for term in inner:
            load = _bare(term)
            assert isinstance(load, ProducerLoad)
            known = values.get(load.producer, range(MAX_SIZE + 1))
            both = range(max(least, known.start), min(most + 1, known.stop))
            if not both and not read.guarded:
                raise ConfigError(
                    f"{read.op.name} reads {read.tensor.name} at {read.index!r}: no value of "
                    f"{load.producer.name} keeps all reads that depend on it inside their axes"
                )
            values[load.producer] = both or known
    return values


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
        index = _of_variables(read.index, variables)
        used = {load: v for load, v in variables.items() if uses(index, (v,))}
        if not used or _stays(read, read.index, {}):
            continue
        names = {load.producer for load in used}
        whole = [values.get(t, range(min(int(t.dtype.max_value), MAX_SIZE) + 1)) for t in names]
        first, stop = max(each.start for each in whole), min(each.stop for each in whole)
        inside = _those_inside(read, index, used.values(), range(first, stop))
        if inside:
            values.update(dict.fromkeys(names, inside))
    return values


def _those_inside(read: Read, index: Expr, variables: Iterable[Var], values: range) -> range:
    """The longest prefix of `values` that keeps `index` in bounds if all `variables` have them."""

    def leads_outside(last: int) -> bool:
        return not _stays(read, index, dict.fromkeys(variables, range(values.start, last + 1)))

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


def _stays(read: Read, index: Expr, values: Mapping[Var, range]) -> bool:
    """Whether `index` is in bounds for all `values` of its variables."""
    analyzer = analyzer_of(read.op)
    for variable, each in values.items():
        least = IntImm(each.start, variable.dtype)
        analyzer.bind(variable, Range(least, IntImm(len(each), int64)))
    low, high = analyzer.const_int_bound(index)
    return low >= 0 and high < read.size


def _of_integers(e: Expr) -> Expr:
    """`e` without conversions between integer types."""
    while isinstance(e, Cast) and e.value.dtype.is_integral:
        e = e.value
    return e


def _bare(e: Expr) -> Expr:
    while isinstance(e, Cast):
        e = e.value
    return e
