"""Branches and loops as LLVM basic blocks; a handler writes what is inside them."""

from __future__ import annotations

from collections.abc import Callable

from autosched.codegen.llvm_builder import FunctionBuilder, StmtFn
from autosched.tir.expr import Call, Expr, FloatImm, IntImm, Mul
from autosched.tir.kinds import bits_of, exprs_with
from autosched.tir.stmt import BufferStore, Evaluate, For, ForKind, Stmt, While
from autosched.tir.walk import stmts

FULL, MOST_OF_MANY, MANY = 16, 2, 4
"""Limits of unrolling a loop of vectors.

A loop is unrolled whole if that makes at most `FULL` statements. A longer loop of at most
`MOST_OF_MANY` statements is unrolled `MANY` times. More gains nothing, and its code takes as long
to generate as that of the kernel's hot loops.
"""

MOST_PRODUCTS_OF_BYTES = 8
"""Products of single bytes in a round of a strided loop, beyond which LLVM may not vectorise it.

LLVM would gather each byte of 64 rounds separately: compiling takes 4 s with 12 products, over 20 s
with 32, and 0.1 s without vectors. LLVM itself leaves sums, and products of wider integers, as they
are (Cascade Lake).
"""


def conditional(
    b: FunctionBuilder,
    condition: Expr,
    then: Callable[[], None],
    otherwise: Callable[[], None] | None = None,
) -> None:
    """Branches to `then` if `condition` holds, else to `otherwise`; each writes its own blocks."""
    test = b.value(condition)
    then_block = b.new_block("then")
    b.branch("")
    head = b.inner.block
    b.enter(then_block)
    then()
    then_end = b.leave("")
    else_end = None
    if otherwise is not None:
        else_block = b.new_block("else")
        b.enter(else_block)
        otherwise()
        else_end = b.leave("")
    join = b.new_block("join")
    other = join.label if otherwise is None else else_block.label
    head.terminator = (
        f"br i1 {test}, label %{then_block.label}, label %{other}{_weights(b, condition)}"
    )
    then_end.terminator = f"br label %{join.label}"
    if else_end is not None:
        else_end.terminator = f"br label %{join.label}"
    b.resume(join)


def _weights(b: FunctionBuilder, condition: Expr) -> str:
    if isinstance(condition, Call) and condition.op == "likely":
        weights = b.module.shared_node('!"branch_weights", i32 2000, i32 1')
        return f", !prof {weights}"
    return ""


def serial_loop(b: FunctionBuilder, stmt: For, body: StmtFn) -> None:
    """A loop over an i64 counter; its condition is tested after each round."""
    low = b.wide_value(stmt.min)
    high = (
        str(stmt.min.value + stmt.extent.value)
        if (isinstance(stmt.min, IntImm) and isinstance(stmt.extent, IntImm))
        else b.wide_value(stmt.min + stmt.extent)
    )
    if isinstance(stmt.extent, IntImm):
        if stmt.extent.value <= 0:
            return
        run_loop(b, stmt, low, high, body)
        return
    zero = IntImm(0, stmt.extent.dtype)
    conditional(b, stmt.extent > zero, lambda: run_loop(b, stmt, low, high, body))


def run_loop(b: FunctionBuilder, stmt: For, low: str, high: str, body: StmtFn) -> None:
    """The loop over [low, high), i64 registers or literals; the range is not empty."""
    block = b.new_block("loop")
    before = b.branch(f"br label %{block.label}")
    counter, following = b.fresh("i"), b.fresh("next")
    b.enter(block)
    b.bind(stmt.loop_var, "", wide=counter)
    if _not_negative(stmt.min):
        b.nonnegative.add(stmt.loop_var)
    phi = len(block.lines)
    innermost = _is_innermost(stmt.body)
    if innermost:
        b.multiples[stmt.loop_var] = {}
    body(b, stmt.body)
    b.at = b.inner
    multiples = b.multiples.pop(stmt.loop_var, {})
    for factor, register in multiples.items():
        b.line(f"{register}.next = add nsw i64 {register}, {factor}")
    exact = "nuw nsw" if _not_negative(stmt.min) else "nsw"  # from -1 to 0 an unsigned sum wraps
    b.line(f"{following} = add {exact} i64 {counter}, 1")
    test = b.emit(f"icmp slt i64 {following}, {high}")
    done = b.new_block("done")
    hint = _unrolling(b, stmt, innermost, any(factor > 1 for factor in multiples))
    last = b.leave(f"br i1 {test}, label %{block.label}, label %{done.label}{hint}")

    def phi_line(register: str, start: str, next_one: str) -> str:
        return f"  {register} = phi i64 [ {start}, %{before.label} ], [ {next_one}, %{last.label} ]"

    lines = [phi_line(counter, low, following)]
    for factor, register in multiples.items():
        start = f"{register}.low"
        if low.startswith("%"):
            before.lines.append(f"  {start} = mul nsw i64 {low}, {factor}")
        else:
            start = str(int(low) * factor)
        lines.append(phi_line(register, start, f"{register}.next"))
    block.lines[phi:phi] = lines
    b.resume(done)


def _not_negative(low: Expr) -> bool:
    return isinstance(low, IntImm) and low.value >= 0


def _note_scalar_work(b: FunctionBuilder, stmt: For) -> None:
    """Counts innermost loops that compute scalars, which LLVM's passes can improve.

    The passes join no vectors to longer ones. Stores of constants, such as the zeros around an
    image, do not count, because they stay what they are.
    """
    for s in stmts(stmt.body):
        if (
            isinstance(s, BufferStore)
            and s.value.dtype.lanes == 1
            and not isinstance(s.value, IntImm | FloatImm)
        ):
            b.module.scalar_loops += 1
            return


_WHOLE, _ROLLED = '!"llvm.loop.unroll.full"', '!"llvm.loop.unroll.disable"'
_SCALAR = '!"llvm.loop.vectorize.enable", i1 false'


def _unrolling(b: FunctionBuilder, stmt: For, innermost: bool, strided: bool) -> str:
    """The metadata that tells LLVM whether to unroll the loop and to make vectors of it."""
    count = stmt.annotations.get("unroll_count", 0)
    if innermost and strided and _products_of_bytes(stmt) > MOST_PRODUCTS_OF_BYTES:
        _note_scalar_work(b, stmt)
        flag = b.module.shared_node(_SCALAR)
        return f", !llvm.loop {b.module.node('{self}, ' + flag, distinct=True)}"
    if stmt.kind is ForKind.UNROLLED and isinstance(stmt.extent, IntImm):
        hint = _WHOLE
    elif not innermost or count == 1:
        hint = _ROLLED
    else:
        _note_scalar_work(b, stmt)
        if not count:
            return f", !llvm.loop {b.module.loop_of_vectors(_as_short(stmt))}"
        hint = _times(count)
    flag = b.module.shared_node(hint)
    return f", !llvm.loop {b.module.node('{self}, ' + flag, distinct=True)}"


def _times(count: int) -> str:
    return f'!"llvm.loop.unroll.count", i32 {count}'


def _as_short(stmt: For) -> str:
    """The hint for an innermost loop without an `unroll_count`."""
    work = sum(isinstance(s, BufferStore | Evaluate) for s in stmts(stmt.body))
    if isinstance(stmt.extent, IntImm) and stmt.extent.value * work <= FULL:
        return _WHOLE
    return _times(MANY) if work <= MOST_OF_MANY else _ROLLED


def _products_of_bytes(stmt: For) -> int:
    """The number of products of 8-bit scalars in a round of an innermost loop."""
    products = exprs_with(stmt.body, bits_of(Mul))
    return sum(
        isinstance(e, Mul) and e.dtype.is_integral and e.dtype.bits == 8 and e.dtype.lanes == 1
        for e in products
    )


def _is_innermost(stmt: Stmt) -> bool:
    return not any(isinstance(s, For | While) for s in stmts(stmt))
