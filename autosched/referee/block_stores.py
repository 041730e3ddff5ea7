"""Proofs that blocks of a kernel do not access each other's global memory, for all blocks at once.

Blocks are not ordered, so no block may store or load an element that another one stores. This holds
if the index of every access to a stored buffer is different for different values of blockIdx,
whatever threads and loops do. To prove it, the index is written as a sum of digits (`digits.py`).
If that is not possible, elements are enumerated, provided they are few.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from autosched.referee.digits import Sum, count_of, covers, digits, tells_apart
from autosched.tir.expr import LE, LT, And, BufferLoad, Call, Expr, IntImm, Ramp, Var
from autosched.tir.interp_threads import BLOCK_TAGS
from autosched.tir.linear import linear, sum_of
from autosched.tir.op import add, mul
from autosched.tir.stmt import (
    Allocate,
    AttrStmt,
    BufferStore,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    Stmt,
)
from autosched.tir.walk import child_stmts, direct_exprs, free_vars, pre_order, substitute
from autosched.transform.device.thread_index import evaluate

_MOST = 1 << 19
"""The most elements that are enumerated if digits do not decide."""


@dataclass(frozen=True, slots=True)
class Unproved:
    """A statement whose elements other blocks may access as far as is known, and the reason."""

    stmt: Stmt
    why: str


@dataclass(frozen=True, slots=True)
class _Access:
    stmt: Stmt
    index: Expr | None  # None: any element
    limits: tuple[tuple[Expr, int], ...] = ()  # (e, n): e < n at the access


def unproved_stores(kernel: AttrStmt) -> list[Unproved]:
    """One entry per global buffer on which blocks may interfere; empty if all is proved."""
    found = _Collector()
    found.stmt(kernel, {})
    if all(found.extents.get(b) == 1 for b in found.blocks):
        return []
    result = []
    for data, stores in found.stores.items():
        if data in found.own:
            continue
        accesses = [*stores, *found.loads.get(data, ())]
        why = _trouble(accesses, found.blocks, found.extents)
        if why is not None:
            name = data.name
            result.append(Unproved(stores[0].stmt, f"{name}: {why}"))
    return result


class _Collector:
    """Collects accesses to global memory, and the number of values of each variable of a kernel."""

    def __init__(self) -> None:
        self.stores: dict[Var, list[_Access]] = {}
        self.loads: dict[Var, list[_Access]] = {}
        self.own: set[Var] = set()
        self.blocks: list[Var] = []
        self.extents: dict[Var, int] = {}
        self._axes: dict[str, Var] = {}
        self._limits: tuple[tuple[Expr, int], ...] = ()

    def stmt(self, s: Stmt, table: Mapping[Var, Expr]) -> None:
        """Collect the accesses of `s`; `table` maps variables to the expressions they stand for."""
        for root in direct_exprs(s):
            self._expr(s, root, table)
        match s:
            case BufferStore() if s.buffer.scope in ("", "global"):
                self._note(self.stores, s, s.buffer.data, s.indices, s.buffer.elem_offset, table)
            case AttrStmt(key="thread_extent"):
                table = self._axis(s, table)
            case For():
                low, extent = s.min, s.extent
                shifted: Expr = s.loop_var
                if isinstance(low, IntImm) and isinstance(extent, IntImm):
                    self.extents[s.loop_var] = extent.value
                    shifted = add(s.loop_var, low)
                table = {**table, s.loop_var: shifted}
            case LetStmt():
                table = {**table, s.var: substitute(s.value, table)}
            case Allocate() if s.buffer_var.scope in ("", "global"):
                self.own.add(s.buffer_var)
        if isinstance(s, IfThenElse):
            outside = self._limits
            self._limits = (*outside, *_limits(substitute(s.condition, table)))
            self.stmt(s.then_case, table)
            self._limits = outside
            if s.else_case is not None:
                self.stmt(s.else_case, table)
            return
        for child in child_stmts(s):
            self.stmt(child, table)

    def _axis(self, s: AttrStmt, table: Mapping[Var, Expr]) -> dict[Var, Expr]:
        tag = s.node.thread_tag or s.node.var.name
        var = self._axes.setdefault(tag, s.node.var)
        if isinstance(s.value, IntImm):
            self.extents[var] = s.value.value
        if tag in BLOCK_TAGS and var not in self.blocks:
            self.blocks.append(var)
        return {**table, s.node.var: var}

    def _expr(self, s: Stmt, root: Expr, table: Mapping[Var, Expr]) -> None:
        for e in pre_order(root):
            match e:
                case BufferLoad() if e.buffer.scope in ("", "global"):
                    offset = e.buffer.elem_offset
                    self._note(self.loads, s, e.buffer.data, e.indices, offset, table)
                case Call() if isinstance(s, Evaluate):
                    self._call(s, e)

    def _call(self, s: Stmt, e: Call) -> None:
        """A call may write through every pointer it gets, unless it is known only to read."""
        for k, argument in enumerate(e.args):
            pointer: Expr | None = argument
            if isinstance(argument, Call) and argument.op == "address_of":
                load = argument.args[0]
                pointer = load.buffer.data if isinstance(load, BufferLoad) else None
            if not isinstance(pointer, Var) or pointer.scope not in ("", "global"):
                continue
            if not pointer.dtype.is_handle:
                continue
            read = (e.op == "ptx_cp_async" and k == 2) or e.op == "tvm_load_matrix_sync"
            table = self.loads if read else self.stores
            if e.op != "address_of":
                table.setdefault(pointer, []).append(_Access(s, None))

    def _note(
        self,
        into: dict[Var, list[_Access]],
        s: Stmt,
        data: Var,
        indices: tuple[Expr, ...],
        offset: Expr | None,
        table: Mapping[Var, Expr],
    ) -> None:
        index: Expr | None = None
        if len(indices) == 1:
            index = self._scalar(substitute(indices[0], table))
            if index is not None and offset is not None:
                index = add(index, offset)
        into.setdefault(data, []).append(_Access(s, index, self._limits))

    def _scalar(self, index: Expr) -> Expr | None:
        """The index as a scalar; a ramp gets a variable for its lanes. None for other vectors."""
        if index.dtype.lanes == 1:
            return index
        if not isinstance(index, Ramp) or not isinstance(index.stride, IntImm):
            return None
        lane = Var("lane", index.base.dtype)
        self.extents[lane] = index.lanes
        return add(index.base, mul(lane, index.stride))


def _limits(condition: Expr) -> list[tuple[Expr, int]]:
    """(e, n) for each conjunct of a condition that says e < n."""
    match condition:
        case And(a, b):
            return [*_limits(a), *_limits(b)]
        case Call("likely", (inner,)):
            return _limits(inner)
        case LT(e, IntImm(n)):
            return [(e, n)]
        case LE(e, IntImm(n)):
            return [(e, n + 1)]
    return []


def _limited(access: _Access, blocks: Sequence[Var], extents: dict[Var, int]) -> Expr | None:
    """The index, with variables in place of sums that a condition limits.

    Each such variable has as many values as the condition allows.
    """
    if access.index is None:
        return None
    constant, terms = linear(access.index)
    for e, most in access.limits:
        low, parts = linear(e)
        factors = {terms.get(term, 0) / f for term, f in parts.items()}
        if len(factors) != 1 or free_vars(e) & set(blocks) or most <= low:
            continue
        (factor,) = factors
        if factor < 1 or factor != int(factor) or any(f < 0 for f in parts.values()):
            continue
        terms = {term: f for term, f in terms.items() if term not in parts}
        whole = Var("limited", e.dtype)
        extents[whole] = most - low
        terms[whole] = int(factor)
    return sum_of(terms, constant, access.index.dtype)


def _trouble(
    accesses: Sequence[_Access], blocks: Sequence[Var], extents: Mapping[Var, int]
) -> str | None:
    """The reason why blocks may access the same element; None if they do not."""
    indices: list[Expr] = []
    for access in accesses:
        if access.index is None:
            return "an address whose elements are not known"
        indices.append(access.index)
    for index in indices:
        unknown = (free_vars(index) | set(blocks)) - extents.keys()
        if unknown:
            names = ", ".join(sorted(v.name for v in unknown))
            return f"it depends on {names}, of which the values are not known"
    moving = [b for b in blocks if extents[b] > 1]
    if _by_digits(indices, moving, extents) or _by_counting(accesses, moving, extents):
        return None
    more = dict(extents)
    limited = [_limited(access, moving, more) for access in accesses]
    if _by_digits([e for e in limited if e is not None], moving, more):
        return None
    missing = [b.name for b in moving if any(b not in free_vars(index) for index in indices)]
    if missing:
        return f"the index does not depend on {', '.join(missing)}"
    return "no proof that blocks touch different elements was found"


def _by_digits(indices: Sequence[Expr], blocks: Sequence[Var], extents: Mapping[Var, int]) -> bool:
    sums: list[Sum] = []
    wanted: set[Expr] = set(blocks)
    inner: set[Expr] = set()
    for index in indices:
        found = digits(index, extents)
        if found is None:
            return False
        sums.append(found)
        for digit in found.terms:
            if not isinstance(digit.base, Var) and free_vars(digit.base) & set(blocks):
                inner.add(digit.base)
    if not inner:
        return all(_whole(s, blocks, extents) for s in sums) and tells_apart(sums, wanted)
    if len(inner) > 1 or any(d.base in wanted for s in sums for d in s.terms):
        return False
    (base,) = inner  # a sum identifies the block, and the index identifies the sum
    own, count = digits(base, extents), count_of(base, extents)
    return (
        own is not None
        and count is not None
        and _whole(own, blocks, extents)
        and tells_apart([own], wanted)
        and all(covers(s, base, count) for s in sums)
        and tells_apart(sums, {base})
    )


def _whole(s: Sum, blocks: Sequence[Var], extents: Mapping[Var, int]) -> bool:
    """Whether each block variable is fully contained in the sum."""
    return all(covers(s, b, extents[b]) for b in blocks)


def _by_counting(
    accesses: Sequence[_Access], blocks: Sequence[Var], extents: Mapping[Var, int]
) -> bool:
    """Enumerate the elements of all blocks, if they are few, as limited by conditions.

    True if no two blocks access the same element.
    """
    touched: list[np.ndarray] = []
    owners: list[np.ndarray] = []
    for access in accesses:
        index = access.index
        assert index is not None
        limits = [(e, n) for e, n in access.limits if free_vars(e) <= extents.keys()]
        decisive = [free_vars(e) for e in (index, *(e for e, _ in limits))]
        variables = sorted(set(blocks).union(*decisive), key=lambda v: (v.name, id(v)))
        shape = [extents[v] for v in variables]
        if prod(shape) * len(accesses) > _MOST:
            return False
        env = {}
        for axis, v in enumerate(variables):
            numbers = np.arange(extents[v], dtype=np.int64)
            env[v] = numbers.reshape([-1 if d == axis else 1 for d in range(len(shape))])
        constant, terms = linear(index)
        total = np.full(shape, constant, np.int64)
        for term, factor in terms.items():
            value = evaluate(term, env)
            if value is None:
                return False
            total = total + factor * value
        owner = np.zeros((1,) * len(shape), np.int64)
        for b in blocks:
            owner = owner * extents[b] + env[b]
        kept = np.ones(shape, bool)
        for e, most in limits:
            value = evaluate(e, env)
            if value is not None:
                kept = kept & (value < most)
        touched.append(total[kept])
        owners.append(np.broadcast_to(owner, total.shape)[kept])
    elements, who = np.concatenate(touched), np.concatenate(owners)
    order = np.lexsort((who, elements))
    elements, who = elements[order], who[order]
    return not bool(((elements[1:] == elements[:-1]) & (who[1:] != who[:-1])).any())
