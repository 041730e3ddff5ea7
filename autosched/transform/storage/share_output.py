"""ShareOutput: keep values that become an output element by element in the output itself.

before:
    def main(A: Buffer((4, 16), float32), Y: Buffer((4, 16), float32)):
        for i in range(4):
            realize(E[i:i + 1, 0:16], float32, "", shape=(4, 16))
            for j in range(16):
                E[i, j] = exp(A[i, j])
            realize(S[i:i + 1], float32, "", shape=(4,))
            S[i] = 0.0
            for k in range(16):
                S[i] = S[i] + E[i, k]
            for l in range(16):
                Y[i, l] = E[i, l] / S[i]
after:
    def main(A: Buffer((4, 16), float32), Y: Buffer((4, 16), float32)):
        for i in range(4):
            for j in range(16):
                Y[i, j] = exp(A[i, j])
            realize(S[i:i + 1], float32, "", shape=(4,))
            S[i] = 0.0
            for k in range(16):
                S[i] = S[i] + Y[i, k]
            for l in range(16):
                Y[i, l] = Y[i, l] / S[i]

The exponentials of a softmax take long to compute. Meanwhile the lines of the output come into the
nearest cache, where they are scaled at the end.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from autosched.arith import Analyzer
from autosched.tir.buffer import Buffer
from autosched.tir.constants import is_zero
from autosched.tir.expr import BufferLoad, Expr, IntImm, Range, Var
from autosched.tir.function import PrimFunc
from autosched.tir.jumps import deciding_variables, is_sum
from autosched.tir.kinds import POINTER, direct_loads, kinds, loads_in
from autosched.tir.linear import linear, sum_of
from autosched.tir.op import sub
from autosched.tir.stmt import TRUE, AttrStmt, BufferRealize, BufferStore, For, SeqStmt, Stmt
from autosched.tir.substitute_stmt import replace_buffers
from autosched.tir.walk import child_stmts, direct_exprs, free_vars, map_children, stmts, uses
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass


@dataclass(frozen=True)
class ShareOutput(FunctionPass):
    """Replace the buffer of an intermediate stage by the buffer of an output.

    Its last reader must be one store of the output that reads the element at the same indices,
    covers the whole realized region, and is unconditional. Nothing else in the scope may access the
    output. Other statements must read the buffer before (a chain of element-wise stages stays as it
    is), its values must not be accumulated in it, and no attribute may name it. Functions whose
    arguments may overlap stay as they are. So does a product added to the buffer where a float
    jumps: it would look like a sum, whose products are fused (`tir/jumps.py`).
    """

    name: ClassVar[str] = "ShareOutput"

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        if not func.noalias:
            return func
        outputs = {b.data: b for b in func.buffers}
        copied = _copied(func.body, outputs)
        if not copied:
            return func
        return func.with_body(_Sharing(func.body, outputs, copied).stmt(func.body))


def _copied(body: Stmt, outputs: dict[Var, Buffer]) -> set[Var]:
    """The buffers from which a store of an output reads the element at the stored indices.

    Buffers that accumulate are left out.
    """
    found: set[Var] = set()
    accumulate: set[Var] = set()
    for s in stmts(body):
        if isinstance(s, BufferStore):
            data, output = s.buffer.data, s.buffer.data in outputs
            for e in loads_in(s.value):
                if e.buffer.data is data:
                    accumulate.add(data)
                elif output and e.indices == s.indices:
                    found.add(e.buffer.data)
    return found - accumulate - outputs.keys()


class _Sharing:
    """One walk over a function body with the buffers of its outputs, by pointer."""

    def __init__(self, body: Stmt, outputs: dict[Var, Buffer], copied: set[Var]) -> None:
        self._outputs = outputs
        self._copied = copied
        self._deciding = deciding_variables(body)
        self._uses = _Uses((*copied, *outputs))

    def stmt(self, s: Stmt) -> Stmt:
        if isinstance(s, BufferStore):
            return s
        new = map_children(s, self.stmt)
        if not isinstance(new, BufferRealize) or new.buffer.data not in self._copied:
            return new
        output = self._output_of(new)
        return new if output is None else replace_buffers(new.body, {new.buffer: output})

    def _output_of(self, realize: BufferRealize) -> Buffer | None:
        """The output that can replace the realized buffer; None if there is none."""
        buffer, body = realize.buffer, realize.body
        if buffer.scope not in ("", "global") or realize.condition is not TRUE:
            return None
        users = self._uses.users(body, buffer.data)
        if not all(_is_plain(s, buffer) for s in users):
            return None
        found = self._last_use(body, buffer)
        if found is None:
            return None
        loops, store = found
        output = self._outputs.get(store.buffer.data)
        if output is None or output is not store.buffer or not _is_alike(buffer, output):
            return None
        if output.data in self._deciding and is_sum(store, buffer):
            return None
        others = [s for s in self._uses.users(body, output.data) if s is not store]
        if any(_mentions(s, output.data) for s in others):
            return None
        if not any(True for s in users if s is not store for _ in _loads(s, buffer)):
            return None  # an element-wise chain, whose tile fits into the nearest cache anyway
        own = all(e.indices == store.indices for e in _loads(store, buffer))
        own = own and not any(True for _ in _loads(store, output))
        return output if own and _covers(loops, store.indices, realize.bounds) else None

    def _last_use(self, s: Stmt, buffer: Buffer) -> tuple[list[For], BufferStore] | None:
        """The loops around the last statement that uses the buffer, and that statement.

        It must be an unconditional store to another buffer. None if it is not, or if other
        statements in the loops use the buffer.
        """
        loops: list[For] = []
        while True:
            if isinstance(s, SeqStmt):
                users = [part for part in s.stmts if self._uses.within(part, buffer.data)]
                if not users or (loops and len(users) > 1):
                    return None
                s = users[-1]
            elif isinstance(s, For):
                loops.append(s)
                s = s.body
            elif isinstance(s, BufferRealize | AttrStmt):
                s = s.body
            elif isinstance(s, BufferStore) and s.predicate is None and s.buffer is not buffer:
                return loops, s
            else:
                return None


class _Uses:
    """Which of `pointers` each statement uses or names, found once for all of them as bits."""

    def __init__(self, pointers: Iterable[Var]) -> None:
        self._bits = {data: 1 << k for k, data in enumerate(dict.fromkeys(pointers))}
        self._found: dict[Stmt, tuple[int, int]] = {}

    def within(self, s: Stmt, data: Var) -> bool:
        """True if `s` or a statement below it uses the pointer, or an attribute names it."""
        return bool(self._of(s)[1] & self._bits[data])

    def users(self, root: Stmt, data: Var) -> list[Stmt]:
        """The statements below `root` that use or name the pointer themselves, in order."""
        bit = self._bits[data]
        found: list[Stmt] = []
        stack = [root]
        while stack:
            s = stack.pop()
            own, within = self._of(s)
            if own & bit:
                found.append(s)
            if within & bit:
                stack += child_stmts(s)[::-1]
        return found

    def _of(self, s: Stmt) -> tuple[int, int]:
        """The bits of `s` itself, and of `s` with all statements below it."""
        known = self._found.get(s)
        if known is None:
            own = 0
            for data in _pointers(s):
                own |= self._bits.get(data, 0)
            within = own
            for child in child_stmts(s):
                within |= self._of(child)[1]
            known = self._found[s] = own, within
        return known


def _pointers(s: Stmt) -> Iterator[Any]:
    """The pointers that `s` itself (not its child statements) uses or names."""
    if isinstance(s, BufferStore):
        yield s.buffer.data
    elif isinstance(s, AttrStmt):
        yield s.node.data if isinstance(s.node, Buffer) else s.node
    for e in direct_exprs(s):
        yield from (load.buffer.data for load in loads_in(e))
        if kinds(e) & POINTER:
            yield from free_vars(e)


def _is_plain(s: Stmt, buffer: Buffer) -> bool:
    """True if `s` reads and writes the buffer by whole elements, and does not accumulate."""
    if isinstance(s, AttrStmt) and buffer.data in (s.node, getattr(s.node, "data", None)):
        return False
    for e in direct_exprs(s):
        loads = list(loads_in(e))
        if any(n.buffer.data is buffer.data and n.buffer is not buffer for n in loads):
            return False
        if buffer.data in free_vars(e) and not any(n.buffer is buffer for n in loads):
            return False
    if isinstance(s, BufferStore) and s.buffer.data is buffer.data:
        return (
            s.buffer is buffer and s.predicate is None and not any(True for _ in _loads(s, buffer))
        )
    return True


def _loads(s: Stmt, buffer: Buffer) -> Iterator[BufferLoad]:
    return (load for load in direct_loads(s) if load.buffer.data is buffer.data)


def _mentions(s: Stmt, data: Var) -> bool:
    """True if `s` itself (not its child statements) reads or writes through the pointer."""
    if isinstance(s, BufferStore) and s.buffer.data is data:
        return True
    if any(load.buffer.data is data for load in direct_loads(s)):
        return True
    return any(data in free_vars(e) for e in direct_exprs(s))


def _is_alike(one: Buffer, other: Buffer) -> bool:
    plain = not (one.strides or other.strides)
    same = one.dtype is other.dtype and one.shape == other.shape
    return same and plain and one.elem_offset is None and other.elem_offset is None


def _covers(loops: Sequence[For], indices: Sequence[Expr], bounds: Sequence[Range]) -> bool:
    """True if the indices visit each element of `bounds` once."""
    extents = {}
    for loop in loops:
        if not isinstance(loop.extent, IntImm) or not isinstance(loop.min, IntImm):
            return False
        if loop.min.value != 0 or loop.extent.value < 1:
            return False
        if loop.extent.value > 1:
            extents[loop.loop_var] = loop.extent.value
    used: list[Var] = []
    analyzer = Analyzer()
    for index, bound in zip(indices, bounds, strict=True):
        constant, terms = linear(index)
        moving = sorted((terms.pop(v), extents[v], v.name, v) for v in extents if v in terms)
        used += [v for *_, v in moving]
        reach = 1
        for stride, extent, *_ in moving:
            if stride != reach:
                return False
            reach *= extent
        if any(uses(term, extents) for term in terms):
            return False
        start = sum_of(terms, constant, index.dtype)
        same = analyzer.simplify(sub(bound.min, start))
        if not is_zero(same):
            return False
        if not (isinstance(bound.extent, IntImm) and bound.extent.value == reach):
            return False
    return len(used) == len(set(used)) == len(extents) and math.prod(extents.values()) > 1
