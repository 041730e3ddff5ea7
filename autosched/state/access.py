"""Access analysis of a compute DAG: which operation reads which, and along which axes.

docs/semantics/states.md explains the terms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from autosched.te.operations.operation import CONST_TENSOR_ATTR, ComputeOp, Operation
from autosched.tir.expr import Add, Call, Expr, FloatImm, IntImm, ProducerLoad, Select, Sub, Var
from autosched.tir.walk import free_vars, pre_order

Indices = tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class SimpleAccess:
    """How a simple access uses the axes of the reading operation.

    `axis_missing` and `axis_duplicated` tell that some axis is in no index, or in several;
    `same_order` that the axes are in the operation's order.
    """

    axis_missing: bool
    axis_duplicated: bool
    same_order: bool

    @property
    def is_elementwise(self) -> bool:
        """Whether the access uses every axis once, in order."""
        return not self.axis_missing and not self.axis_duplicated and self.same_order


def const_shift_equal(var: Var, expr: Expr) -> bool:
    """True when `expr` is var, var + c, c + var or var - c with a constant c."""
    if expr is var:
        return True
    match expr:
        case Add(a, b):
            return (a is var and isinstance(b, IntImm)) or (b is var and isinstance(a, IntImm))
        case Sub(a, b):
            return a is var and isinstance(b, IntImm)
    return False


def simple_access(op: ComputeOp, indices: Indices) -> SimpleAccess | None:
    """How `indices` use the data axes of `op`; None unless each index is one axis plus a constant,
    or a constant."""
    positions: list[int] = []
    for index in indices:
        if isinstance(index, IntImm | FloatImm):
            continue
        for position, axis in enumerate(op.axis):
            if const_shift_equal(axis.var, index):
                positions.append(position)
                break
        else:
            return None
    return SimpleAccess(
        axis_missing=len(set(positions)) < len(op.axis),
        axis_duplicated=len(set(positions)) < len(positions),
        same_order=positions == sorted(positions),
    )


class AccessAnalyzer:
    """Facts about the operations of a DAG, indexed by the position of the operation.

    `read_from[i]` maps each producer to the index tuples with which operation i reads it, in order
    of appearance; `read_by[i]` is the inverse. With `apart`, the search for reuse treats reads of
    one tensor along different axes as reads of different tensors: A[i, k] * A[j, k] is then a
    product like any other.
    """

    def __init__(self, ops: Sequence[Operation], *, apart: bool = False) -> None:
        self.ops = tuple(ops)
        self._apart = apart
        position = {op: i for i, op in enumerate(self.ops)}
        n = len(self.ops)
        self.read_from: list[dict[int, list[Indices]]] = [{} for _ in range(n)]
        self.read_by: list[dict[int, list[Indices]]] = [{} for _ in range(n)]
        self.is_simple_access = [True] * n
        self.is_strictly_inlineable = [False] * n
        self.needs_multi_level_tiling = [False] * n
        self._common: dict[tuple[int, int], int] = {}
        for i, op in enumerate(self.ops):
            if isinstance(op, ComputeOp):
                self._analyse(i, op, position)
        self.is_output = [
            isinstance(op, ComputeOp) and not readers
            for op, readers in zip(self.ops, self.read_by, strict=True)
        ]

    def _analyse(self, i: int, op: ComputeOp, position: dict[Operation, int]) -> None:
        reads = self.read_from[i]
        has_branch = has_expensive = False
        for body in op.body:
            for node in pre_order(body):
                if isinstance(node, ProducerLoad):
                    reads.setdefault(position[node.producer.op], []).append(node.indices)
                elif isinstance(node, Call):
                    has_branch |= node.op == "if_then_else"
                    has_expensive |= node.op == "exp"
                elif isinstance(node, Select):
                    has_branch = True
        for producer, accesses in reads.items():
            self.read_by[producer][i] = accesses
        found = [simple_access(op, indices) for accesses in reads.values() for indices in accesses]
        self.is_simple_access[i] = None not in found
        inlineable = all(a is not None and a.same_order and not a.axis_duplicated for a in found)
        self.is_strictly_inlineable[i] = not reads or (
            inlineable and not has_branch and not has_expensive
        )
        used = [[variables_in(indices) for indices in accesses] for accesses in reads.values()]
        each = [axes for sets in used for axes in dict.fromkeys(sets)]
        together = [frozenset[Var]().union(*sets) for sets in used]
        self.needs_multi_level_tiling[i] = _needs_tiling(op, each if self._apart else together)

    def num_common_outer_iterators(self, i: int, j: int) -> int:
        """How many leading axes a producer and its reader (in either order) have in common."""
        if j in self.read_from[i]:
            i, j = j, i
        known = self._common.get((i, j))
        if known is None:
            known = self._common[i, j] = self._count_common(producer=i, reader=j)
        return known

    def _count_common(self, producer: int, reader: int) -> int:
        op = self.ops[reader]
        accesses = self.read_by[producer].get(reader)
        if accesses is None or not isinstance(op, ComputeOp):
            return 0
        ours = self.ops[producer].output(0).shape
        theirs = op.output(0).shape
        n = 0
        for extent, other, axis in zip(ours, theirs, op.axis, strict=False):
            if extent is not other:
                break
            if not all(const_shift_equal(axis.var, indices[n]) for indices in accesses):
                break
            n += 1
        return n

    def common_outer_iterators_to(self, i: int, target: int) -> int:
        """The least number of common outer axes along any reader path from i to target, or 0."""
        best: int | None = None
        stack = [(i, len(self.ops[i].output(0).shape))]
        seen = {*stack}
        while stack:
            current, common = stack.pop()
            if current == target:
                best = common if best is None else min(best, common)
                continue
            for reader in self.read_by[current]:
                found = reader, min(common, self.num_common_outer_iterators(current, reader))
                if found not in seen:
                    seen.add(found)
                    stack.append(found)
        return best or 0

    def elementwise_match(self, i: int, target: int) -> bool:
        """True when only element-wise reads of one shape lead from i to target, without a fork."""
        while i != target:
            if len(self.read_by[i]) != 1:
                return False
            reader, accesses = next(iter(self.read_by[i].items()))
            op, consumer = self.ops[i], self.ops[reader]
            if not isinstance(op, ComputeOp) or not isinstance(consumer, ComputeOp):
                return False
            if not _one_shape(op, consumer):
                return False
            for indices in accesses:
                access = simple_access(consumer, indices)
                if access is None or not access.is_elementwise:
                    return False
            i = reader
        return True


def _one_shape(a: ComputeOp, b: ComputeOp) -> bool:
    shape = a.output(0).shape
    if not all(isinstance(extent, IntImm) for extent in shape):
        return False
    return all(tensor.shape == shape for op in (a, b) for tensor in op.outputs)


def variables_in(indices: Indices) -> frozenset[Var]:
    """The variables in the indices of a read."""
    return frozenset[Var]().union(*map(free_vars, indices))


def _needs_tiling(op: ComputeOp, reads: Sequence[frozenset[Var]]) -> bool:
    """Whether an operation whose reads depend on these variables has reuse to tile for."""
    if CONST_TENSOR_ATTR in op.attrs or is_ragged(op):
        return False
    wide = [
        axis.var
        for axis in op.axis
        if axis.dom is not None
        and not (isinstance(axis.dom.extent, IntImm) and axis.dom.extent.value <= 1)
    ]
    n_missing = sum(any(var not in used for var in wide) for used in reads)
    return n_missing >= 2 or (n_missing >= 1 and bool(op.reduce_axis))


def is_ragged(op: ComputeOp) -> bool:
    """Whether an axis of the result decides how far a reduction goes: no tile can go around it."""
    axes = {axis.var for axis in op.axis}
    domains = (axis.dom for axis in op.reduce_axis if axis.dom is not None)
    return any(not axes.isdisjoint(free_vars(e)) for dom in domains for e in (dom.min, dom.extent))
