"""VectorizeLoop: loops marked vectorized become statements over vectors."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from autosched.errors import ScheduleError
from autosched.tir.constants import is_zero
from autosched.tir.expr import (
    GE,
    GT,
    LE,
    LT,
    Broadcast,
    BufferLoad,
    Call,
    Expr,
    IntImm,
    Ramp,
    Var,
)
from autosched.tir.function import PrimFunc
from autosched.tir.intrin import is_pure
from autosched.tir.kinds import loads_in, stored_in
from autosched.tir.op import and_, not_
from autosched.tir.stmt import (
    Allocate,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    SeqStmt,
    Stmt,
)
from autosched.tir.substitute_stmt import substitute_stmt
from autosched.tir.walk import (
    direct_exprs,
    distinct,
    free_vars,
    map_children,
    map_exprs,
    stmts,
    substitute,
    unique_exprs,
)
from autosched.transform.expressions.effects import is_lasting
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass
from autosched.transform.storage.widen_allocate import widen_allocate
from autosched.transform.vector.vectorize_expr import (
    LaneExprs,
    NotVectorisableError,
    conjuncts,
    split_condition,
    unsafe_loads,
)

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class VectorizeLoop(FunctionPass):
    """Turns vectorized loops into vector statements.

    before:
        def main(A: Buffer((4,), float32), B: Buffer((12,), float32), c: float32):
            for i in range(3):
                for j in vectorized(4):
                    B[i * 4 + j] = A[j] + c
    after:
        def main(A: Buffer((4,), float32), B: Buffer((12,), float32), c: float32):
            for i in range(3):
                B[i * 4:i * 4 + 4] = A[0:4] + broadcast(c, 4)

    A statement without a vector form (a condition that differs between lanes, a call that is not
    elementwise) becomes a serial loop `j.s` over the lanes. A loop whose iterations pass values on
    through memory that all lanes share (`count[0] = count[0] + 1`) becomes serial as a whole. With
    `masked`, a condition becomes the predicate of the loads and stores it guards where that is
    safe:

    before:
        def main(A: Buffer((10,), float32), B: Buffer((10,), float32)):
            for i in range(3):
                for j in vectorized(4):
                    if likely(i * 4 + j < 10):
                        B[i * 4 + j] = A[i * 4 + j]
    after VectorizeLoop{masked=True}:
        def main(A: Buffer((10,), float32), B: Buffer((10,), float32)):
            for i in range(3):
                store(B[i * 4:i * 4 + 4], load(A[i * 4:i * 4 + 4], predicate=ramp(i * 4, 1, 4) <
                        broadcast(10, 4)), predicate=ramp(i * 4, 1, 4) < broadcast(10, 4))
    after VectorizeLoop:
        def main(A: Buffer((10,), float32), B: Buffer((10,), float32)):
            for i in range(3):
                for j.s in range(4):
                    if likely(i * 4 + j.s < 10):
                        B[i * 4 + j.s] = A[i * 4 + j.s]

    A quotient that is the same in all lanes is a scalar. With `as_ansor` it is a vector, so that
    the pass finds no more vectors than Ansor does where Ansor checks candidates against the limits
    of a GPU:

    before:
        def main(A: Buffer((64,), float32), B: Buffer((64,), float32), n: int32):
            for i in range(16):
                for j in vectorized(4):
                    if likely((i * 4 + j) // 16 < n):
                        B[i * 4 + j] = A[i * 4 + j]
    after VectorizeLoop:
        def main(A: Buffer((64,), float32), B: Buffer((64,), float32), n: int32):
            for i in range(16):
                if likely(i * 4 // 16 < n):
                    B[i * 4:i * 4 + 4] = A[i * 4:i * 4 + 4]
    after VectorizeLoop{as_ansor=True}:
        def main(A: Buffer((64,), float32), B: Buffer((64,), float32), n: int32):
            for i in range(16):
                for j.s in range(4):
                    if likely((i * 4 + j.s) // 16 < n):
                        B[i * 4 + j.s] = A[i * 4 + j.s]

    With `enable` off, or `tir.disable_vectorize` set, vectorized loops become serial. Raises
    ScheduleError for a vectorized loop that does not start at 0 or whose extent is not a positive
    constant. With `lenient`, a loop whose extent is not constant becomes serial instead. Candidates
    have such loops (means that are read by row and by column, computed at a tile; the padded input
    of a convolution whose tile straddles groups), which Ansor fails to build.
    """

    name: ClassVar[str] = "VectorizeLoop"
    enable: bool = True
    masked: bool = False
    lenient: bool = False
    as_ansor: bool = False

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        enable = self.enable and not ctx.setting("tir.disable_vectorize")
        return func.with_body(self._stmt(func.body, enable))

    def _stmt(self, s: Stmt, enable: bool) -> Stmt:
        if isinstance(s, BufferStore):
            return s
        if isinstance(s, For) and s.kind is ForKind.VECTORIZED:
            unknown = self.lenient and not isinstance(s.extent, IntImm)
            if enable and not unknown and not carries_memory(s):
                return self._loop(s)
            return _with_kind(s, ForKind.SERIAL, self._stmt(s.body, enable))
        return map_children(s, lambda child: self._stmt(child, enable))

    def _loop(self, loop: For) -> Stmt:
        low, extent = loop.min, loop.extent
        if not is_zero(low):
            raise ScheduleError(
                f"VectorizeLoop: the loop {loop.loop_var.name} must start at 0, found {low!r}"
            )
        if not (isinstance(extent, IntImm) and extent.value >= 1):
            raise ScheduleError(
                f"VectorizeLoop: the extent of the loop {loop.loop_var.name} must be a positive "
                f"constant, found {extent!r}"
            )
        if extent.value == 1:
            return _serial_inside(substitute_stmt(loop.body, {loop.loop_var: low}))
        lanes = LaneExprs(loop.loop_var, extent.value, self.masked, quotients=not self.as_ansor)
        return _Vectorizer(lanes).stmt(loop.body)


def carries_memory(loop: For) -> bool:
    """Whether an iteration of `loop` reads what it or an earlier one has left for all lanes.

    That is an element that all lanes share, stored to with a value that depends on the lane or on
    memory that the loop writes, and read in the loop. Memory allocated in the loop is private to
    each lane.
    """
    varying = {loop.loop_var}
    own: set[Var] = set()
    shared: list[BufferStore] = []
    written: set[Var] = set()
    for s in stmts(loop.body):
        if isinstance(s, LetStmt) and not varying.isdisjoint(free_vars(s.value)):
            varying.add(s.var)
        elif isinstance(s, Allocate):
            own.add(s.buffer_var)
        elif isinstance(s, BufferStore):
            written.add(s.buffer.data)
            if varying.isdisjoint(v for e in s.indices for v in free_vars(e)):
                shared.append(s)
    shared = [s for s in shared if s.buffer.data not in own]
    if not shared:
        return False
    read = {e.buffer.data for e in unique_exprs(loop.body) if isinstance(e, BufferLoad)}
    for s in shared:
        if s.buffer.data in read:
            loaded = {load.buffer.data for load in loads_in(s.value)}
            if not (varying.isdisjoint(free_vars(s.value)) and loaded.isdisjoint(written)):
                _log.warning(
                    "VectorizeLoop: the iterations of %s share %s; made serial",
                    loop.loop_var.name,
                    s.buffer.name,
                )
                return True
    return False


def _with_kind(loop: For, kind: ForKind, body: Stmt) -> For:
    return loop.with_(kind=kind, body=body)


def _serial_inside(s: Stmt) -> Stmt:
    """`s` with vectorized loops made serial, because they are inside a vectorized loop."""
    if isinstance(s, For) and s.kind is ForKind.VECTORIZED:
        _log.warning("VectorizeLoop: %s is inside a vectorized loop; made serial", s.loop_var.name)
        return _with_kind(s, ForKind.SERIAL, _serial_inside(s.body))
    return map_children(s, _serial_inside)


class _Vectorizer:
    """Rewrites the statements of one vectorized loop."""

    def __init__(self, lanes: LaneExprs) -> None:
        self._expr = lanes
        self._var = lanes.var
        self._lanes = lanes.lanes
        self._masked = lanes.masked
        self._let_values: dict[Var, Expr] = {}
        self._kept: set[Var] = set()  # those whose values memory may no longer have

    def stmt(self, s: Stmt) -> Stmt:
        rule = _RULES.get(type(s))
        try:
            return map_children(s, self.stmt, self._same) if rule is None else rule(self, s)
        except NotVectorisableError:
            if self._expr.mask is not None:
                raise
            return self._scalarise(s)

    def _same(self, e: Expr) -> Expr:
        """`e`, which must be the same in all lanes; else raises NotVectorisableError."""
        new = self._expr(e)
        if new.dtype.lanes != e.dtype.lanes:
            raise NotVectorisableError
        return new

    def _scalarise(self, s: Stmt) -> Stmt:
        if not self._kept.isdisjoint(unique_exprs(s)):
            raise NotVectorisableError  # with the statement that binds the variable
        index = Var(f"{self._var.name}.s", self._var.dtype)
        body = substitute_stmt(_serial_inside(s), self._let_values)
        body = substitute_stmt(body, {self._var: index})
        low, extent = IntImm(0, index.dtype), IntImm(self._lanes, index.dtype)
        return For(index, low, extent, ForKind.SERIAL, body)

    def _store(self, s: BufferStore) -> Stmt:
        value, indices = self._expr(s.value), map_exprs(s.indices, self._expr)
        predicate = None if s.predicate is None else self._expr(s.predicate)
        mask = self._expr.mask
        lanes = max(value.dtype.lanes, *(i.dtype.lanes for i in indices))
        if predicate is not None:
            lanes = max(lanes, predicate.dtype.lanes)
        if lanes == 1:
            if mask is not None:
                raise NotVectorisableError
            if value is s.value and indices is s.indices and predicate is s.predicate:
                return s
            return BufferStore(s.buffer, value, indices, predicate)
        *outer, last = indices
        if any(i.dtype.lanes > 1 for i in outer) or lanes != self._lanes:
            raise NotVectorisableError
        if mask is not None:
            if not isinstance(last, Ramp):
                raise NotVectorisableError
            predicate = mask if predicate is None else and_(predicate, mask)
        if s.buffer.dtype.lanes > 1:
            raise NotVectorisableError
        return BufferStore(
            s.buffer,
            self._expr.broadcast(value),
            (*outer, self._expr.broadcast(last)),
            None if predicate is None else self._expr.broadcast(predicate),
        )

    def _if(self, s: IfThenElse) -> Stmt:
        condition = self._expr(s.condition)
        if condition.dtype.lanes == 1:
            then_case = self.stmt(s.then_case)
            else_case = None if s.else_case is None else self.stmt(s.else_case)
            return s.with_(condition=condition, then_case=then_case, else_case=else_case)
        if not self._masked:
            raise NotVectorisableError
        return self._masked_if(condition, s)

    def _masked_if(self, condition: Expr, s: IfThenElse) -> Stmt:
        scalar, vector = split_condition(condition)
        assert vector is not None
        if s.else_case is not None and scalar is not None:
            raise NotVectorisableError
        single = isinstance(s.then_case, BufferStore) and s.else_case is None
        if not single and any(isinstance(e, BufferLoad) for e in distinct(vector)):
            raise NotVectorisableError  # what the condition reads may change between its uses
        new = self._under(vector, s.then_case)
        if s.else_case is not None:
            new = SeqStmt((new, self._under(not_(vector), s.else_case)))
        return new if scalar is None else IfThenElse(scalar, new)

    def _under(self, mask: Expr, body: Stmt) -> Stmt:
        """`body` rewritten for the lanes where `mask` holds."""
        guard: Expr | None = None
        for inner in stmts(body):
            if not isinstance(inner, BufferStore | SeqStmt | For | IfThenElse):
                raise NotVectorisableError
            if any(unsafe_loads(e, self._var, mask) for e in direct_exprs(inner)):
                guard = _first_lane(mask)
                if guard is None:
                    raise NotVectorisableError
        outer = self._expr.mask
        self._expr.set_mask(mask if outer is None else and_(outer, mask))
        try:
            new = self.stmt(body)
        finally:
            self._expr.set_mask(outer)
        return new if guard is None else IfThenElse(guard, new)

    def _let(self, s: LetStmt) -> Stmt:
        value = self._expr(s.value)
        if value.dtype.lanes == s.value.dtype.lanes:
            body = self.stmt(s.body)
            return s.with_(value=value, body=body)
        self._let_values[s.var] = substitute(s.value, self._let_values)
        if not self._kept.isdisjoint(free_vars(s.value)) or _may_change(s):
            self._kept.add(s.var)
        try:
            return LetStmt(self._expr.bind(s.var), value, self.stmt(s.body))
        finally:
            del self._let_values[s.var]
            self._kept.discard(s.var)

    def _for(self, s: For) -> Stmt:
        if s.kind is ForKind.VECTORIZED:
            name = s.loop_var.name
            _log.warning("VectorizeLoop: %s is inside a vectorized loop; made serial", name)
            return self._for(_with_kind(s, ForKind.SERIAL, s.body))
        return map_children(s, self.stmt, self._same)

    def _allocate(self, s: Allocate) -> Stmt:
        stores = (part for part in stmts(s.body) if isinstance(part, BufferStore))
        shapes = {part.buffer.shape for part in stores if part.buffer.data is s.buffer_var}
        if any(self._var in free_vars(e) for shape in (s.extents, *shapes) for e in shape):
            raise NotVectorisableError  # memory of another size for each lane
        condition = self._same(s.condition)
        extents = tuple(map(self._same, s.extents))
        new = widen_allocate(s, self._lanes, self._var, innermost=True)
        body = self.stmt(new.body)
        extents = (*extents[:-1], new.extents[-1])
        return s.with_(extents=extents, condition=condition, body=body)

    def _evaluate(self, s: Evaluate) -> Stmt:
        value = self._expr(s.value)
        return s if value is s.value else Evaluate(value)


_RULES: dict[type[Stmt], Callable[[_Vectorizer, Any], Stmt]] = {
    BufferStore: _Vectorizer._store,
    IfThenElse: _Vectorizer._if,
    LetStmt: _Vectorizer._let,
    For: _Vectorizer._for,
    Allocate: _Vectorizer._allocate,
    Evaluate: _Vectorizer._evaluate,
}


def _may_change(s: LetStmt) -> bool:
    """Whether the value of `s`, computed again in its body, may be another one."""
    if is_lasting(s.value):
        return False
    read = {load.buffer.data for load in loads_in(s.value)}
    called = any(isinstance(e, Call) and not is_pure(e.op) for e in unique_exprs(s))
    return called or not read.isdisjoint(stored_in(s.body))


def _first_lane(mask: Expr) -> Expr | None:
    """The mask of lane 0, if it holds whenever the mask of another lane does; else None."""
    result: Expr | None = None
    for part in conjuncts(mask):
        if isinstance(part, LT | LE):
            low, high = part.a, part.b
        elif isinstance(part, GT | GE):
            low, high = part.b, part.a
        else:
            return None
        if not (isinstance(low, Ramp) and isinstance(low.stride, IntImm)):
            return None
        if low.stride.value < 0 or not isinstance(high, Broadcast):
            return None
        swapped = isinstance(part, GT | GE)
        operands = (high.value, low.base) if swapped else (low.base, high.value)
        first = part.with_children(operands)
        result = first if result is None else and_(result, first)
    return result
