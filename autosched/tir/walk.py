"""Walking and rewriting: every rewriter returns its argument itself when nothing changed.

A pass over statements is a `match` function that ends in `map_children`:

    def go(stmt: Stmt) -> Stmt:
        match stmt:
            case For(kind=ForKind.UNROLLED):
                ...
            case _:
                return map_children(stmt, go, expr)
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from operator import is_

from autosched.tir.expr import (
    BinaryExpr,
    BufferLoad,
    CommReducer,
    Expr,
    IterVar,
    Let,
    ProducerLoad,
    Range,
    Var,
)
from autosched.tir.stmt import (
    Allocate,
    AllocateConst,
    AssertStmt,
    AttrStmt,
    Block,
    BlockRealize,
    BufferRealize,
    BufferRegion,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    IfThenElse,
    LetStmt,
    MatchBufferRegion,
    Prefetch,
    ProducerRealize,
    ProducerStore,
    SeqStmt,
    Stmt,
    While,
    seq,
)

ExprFn = Callable[[Expr], Expr]
StmtFn = Callable[[Stmt], Stmt]


def same(expr: Expr) -> Expr:
    """The expression rewriter that changes nothing."""
    return expr


def map_expr_children(expr: Expr, fn: ExprFn) -> Expr:
    """`expr` with `fn` applied to its direct sub-expressions."""
    if isinstance(expr, BinaryExpr):
        a, b = fn(expr.a), fn(expr.b)
        return expr if a is expr.a and b is expr.b else expr.with_children((a, b))
    children = expr.children()
    if not children:
        return expr
    new = tuple(map(fn, children))
    return expr if all(map(is_, children, new)) else expr.with_children(new)


def rewrite_expr(expr: Expr, fn: Callable[[Expr], Expr | None]) -> Expr:
    """`expr` rewritten bottom-up: `fn` gets each node over rewritten children; None keeps it."""
    return _Rewriter(fn)(expr)


class _Rewriter:
    """The function of `rewrite_expr`; an object for the reason given in `_Substituter`."""

    __slots__ = ("fn", "memo")

    def __init__(self, fn: Callable[[Expr], Expr | None]) -> None:
        self.fn = fn
        self.memo: dict[Expr, Expr] = {}

    def __call__(self, e: Expr) -> Expr:
        done = self.memo.get(e)
        if done is None:
            done = map_expr_children(e, self)
            changed = self.fn(done)
            if changed is not None:
                done = changed
            self.memo[e] = done
        return done


_NO_VARS: frozenset[Var] = frozenset()


def free_vars(expr: Expr) -> frozenset[Var]:
    """The variables that occur free in `expr` (a Let binds its own), cached on the node.

    Variables have no cache, as a reference to itself would keep a variable alive.
    """
    if isinstance(expr, Var):
        return frozenset((expr,))
    # An attribute error would take twice as long as this default.
    known: frozenset[Var] | None = getattr(expr, "_vars", None)
    if known is not None:
        return known
    result = _NO_VARS
    for child in expr.children():
        inner = free_vars(child)
        if not result:
            result = inner
        elif inner is not result and not inner <= result:
            result = result | inner
    if isinstance(expr, Let):
        result = free_vars(expr.value) | (free_vars(expr.body) - {expr.var})
    expr._vars = result
    return result


def uses(expr: Expr, variables: Iterable[Var]) -> bool:
    """True when `expr` mentions one of `variables`."""
    return not free_vars(expr).isdisjoint(variables)


def substituter(table: Mapping[Var, Expr]) -> ExprFn:
    """A memoizing function that replaces variables by their values in `table`."""
    return _Substituter(table)


class _Substituter:
    """The function of `substituter`.

    It is an object since a closure that calls itself is a cycle, freed only by the garbage
    collector.
    """

    __slots__ = ("memo", "replaced")

    def __init__(self, table: Mapping[Var, Expr]) -> None:
        self.replaced = frozenset(table)
        self.memo: dict[Expr, Expr] = dict(table.items())

    def __call__(self, e: Expr) -> Expr:
        done = self.memo.get(e)
        if done is None:
            if self.replaced.isdisjoint(free_vars(e)):
                return e
            done = self.memo[e] = map_expr_children(e, self)
        return done


def substitute(expr: Expr, table: Mapping[Var, Expr]) -> Expr:
    """`expr` with variables replaced, rebuilt by the folding constructors."""
    return substituter(table)(expr) if table else expr


def combine(
    combiner: CommReducer, left: tuple[Expr, ...], right: tuple[Expr, ...]
) -> tuple[Expr, ...]:
    """The result of `combiner` for `left` and `right`, each with one value per component."""
    table: dict[Var, Expr] = dict(zip(combiner.lhs, left, strict=True))
    table.update(zip(combiner.rhs, right, strict=True))
    return tuple(substitute(e, table) for e in combiner.result)


def pre_order(expr: Expr) -> Iterator[Expr]:
    """All sub-expressions, parents before children, left to right."""
    stack = [expr]
    while stack:
        node = stack.pop()
        yield node
        children = node.children()
        if children:
            stack += children[::-1]


def distinct(expr: Expr, parts: Callable[[Expr], Sequence[Expr]] | None = None) -> Iterator[Expr]:
    """Every different sub-expression once, in the order of first occurrence in `pre_order`.

    That is far less work where values are shared: after ten times `x = x * x`, `x` has 11 different
    sub-expressions and 2,047 places. With `parts`, only those of a node's children that
    `parts(node)` gives are looked into.
    """
    seen: set[Expr] = set()
    stack = [expr]
    while stack:
        node = stack.pop()
        if node not in seen:
            seen.add(node)
            yield node
            children = node.children() if parts is None else parts(node)
            if children:
                stack += children[::-1]


def post_order(expr: Expr, known: Container[Expr] = ()) -> Iterator[Expr]:
    """Every different sub-expression once, children before parents, left to right.

    Those that are `known` when they are met are left out.
    """
    done: set[Expr] = set()
    stack = [] if expr in known else [expr]
    while stack:
        node = stack[-1]
        waiting = [c for c in node.children() if c not in done and c not in known]
        if waiting:
            stack += waiting[::-1]
            continue
        stack.pop()
        if node not in done:
            done.add(node)
            yield node


def written_out(expr: Expr, places: dict[Expr, int] | None = None) -> int:
    """The number of places that `pre_order` visits, found by visiting different ones once.

    `places` keeps the numbers of the sub-expressions for the next calls.
    """
    found = {} if places is None else places
    for node in post_order(expr, found):
        found[node] = 1 + sum(found[child] for child in node.children())
    return found[expr]


def map_ranges(ranges: tuple[Range, ...], fn: ExprFn) -> tuple[Range, ...]:
    """The ranges with `fn` applied to mins and extents."""
    new = []
    changed = False
    for r in ranges:
        low, extent = fn(r.min), fn(r.extent)
        if low is r.min and extent is r.extent:
            new.append(r)
        else:
            changed = True
            new.append(Range(low, extent))
    return tuple(new) if changed else ranges


def map_exprs(exprs: tuple[Expr, ...], fn: ExprFn) -> tuple[Expr, ...]:
    """The tuple with `fn` applied to each expression; itself when nothing changed."""
    if len(exprs) == 1:
        (only,) = exprs
        changed = fn(only)
        return exprs if changed is only else (changed,)
    new = tuple(map(fn, exprs))
    return exprs if all(map(is_, exprs, new)) else new


def map_children(stmt: Stmt, stmt_fn: StmtFn, expr_fn: ExprFn = same) -> Stmt:
    """`stmt` with the functions applied to its direct sub-statements and expressions."""
    match stmt:
        case For():
            low, extent, body = expr_fn(stmt.min), expr_fn(stmt.extent), stmt_fn(stmt.body)
            if low is stmt.min and extent is stmt.extent and body is stmt.body:
                return stmt
            return For(
                stmt.loop_var,
                low,
                extent,
                stmt.kind,
                body,
                stmt.thread_binding,
                stmt.annotations,
            )
        case BufferStore():
            value, indices = expr_fn(stmt.value), map_exprs(stmt.indices, expr_fn)
            predicate = None if stmt.predicate is None else expr_fn(stmt.predicate)
            if value is stmt.value and indices is stmt.indices and predicate is stmt.predicate:
                return stmt
            return BufferStore(stmt.buffer, value, indices, predicate)
        case SeqStmt():
            new = tuple(map(stmt_fn, stmt.stmts))
            if all(map(is_, stmt.stmts, new)):
                return stmt
            return seq(*new)
        case IfThenElse():
            condition, then_case = expr_fn(stmt.condition), stmt_fn(stmt.then_case)
            else_case = None if stmt.else_case is None else stmt_fn(stmt.else_case)
            if (
                condition is stmt.condition
                and then_case is stmt.then_case
                and else_case is stmt.else_case
            ):
                return stmt
            return IfThenElse(condition, then_case, else_case)
        case AttrStmt():
            value, body = expr_fn(stmt.value), stmt_fn(stmt.body)
            if value is stmt.value and body is stmt.body:
                return stmt
            return AttrStmt(stmt.node, stmt.key, value, body)
        case LetStmt():
            value, body = expr_fn(stmt.value), stmt_fn(stmt.body)
            if value is stmt.value and body is stmt.body:
                return stmt
            return LetStmt(stmt.var, value, body)
        case Allocate():
            extents, condition = map_exprs(stmt.extents, expr_fn), expr_fn(stmt.condition)
            body = stmt_fn(stmt.body)
            if extents is stmt.extents and condition is stmt.condition and body is stmt.body:
                return stmt
            return Allocate(stmt.buffer_var, stmt.dtype, extents, condition, body, stmt.annotations)
        case BufferRealize():
            bounds, condition = map_ranges(stmt.bounds, expr_fn), expr_fn(stmt.condition)
            body = stmt_fn(stmt.body)
            if bounds is stmt.bounds and condition is stmt.condition and body is stmt.body:
                return stmt
            return BufferRealize(stmt.buffer, bounds, condition, body)
        case ProducerStore():
            value, indices = expr_fn(stmt.value), map_exprs(stmt.indices, expr_fn)
            if value is stmt.value and indices is stmt.indices:
                return stmt
            return ProducerStore(stmt.producer, value, indices)
        case ProducerRealize():
            bounds, condition = map_ranges(stmt.bounds, expr_fn), expr_fn(stmt.condition)
            body = stmt_fn(stmt.body)
            if bounds is stmt.bounds and condition is stmt.condition and body is stmt.body:
                return stmt
            return ProducerRealize(stmt.producer, bounds, condition, body, stmt.scope)
        case Evaluate():
            value = expr_fn(stmt.value)
            return stmt if value is stmt.value else Evaluate(value)
        case _:
            return _map_rare(stmt, stmt_fn, expr_fn)


def _map_rare(stmt: Stmt, stmt_fn: StmtFn, expr_fn: ExprFn) -> Stmt:
    match stmt:
        case AssertStmt():
            condition, body = expr_fn(stmt.condition), stmt_fn(stmt.body)
            if condition is stmt.condition and body is stmt.body:
                return stmt
            return AssertStmt(condition, stmt.message, body)
        case DeclBuffer():
            body = stmt_fn(stmt.body)
            return stmt if body is stmt.body else DeclBuffer(stmt.buffer, body)
        case AllocateConst():
            extents, body = map_exprs(stmt.extents, expr_fn), stmt_fn(stmt.body)
            if extents is stmt.extents and body is stmt.body:
                return stmt
            return AllocateConst(stmt.buffer_var, stmt.dtype, extents, stmt.data, body)
        case While():
            condition, body = expr_fn(stmt.condition), stmt_fn(stmt.body)
            if condition is stmt.condition and body is stmt.body:
                return stmt
            return While(condition, body)
        case Prefetch():
            bounds = map_ranges(stmt.bounds, expr_fn)
            return stmt if bounds is stmt.bounds else Prefetch(stmt.buffer, bounds)
        case BlockRealize():
            values, predicate = map_exprs(stmt.iter_values, expr_fn), expr_fn(stmt.predicate)
            block = stmt_fn(stmt.block)
            assert isinstance(block, Block)
            if values is stmt.iter_values and predicate is stmt.predicate and block is stmt.block:
                return stmt
            return BlockRealize(values, predicate, block)
        case Block():
            return _map_block(stmt, stmt_fn, expr_fn)
    raise TypeError(f"not a statement: {type(stmt).__name__}")


def _map_block(block: Block, stmt_fn: StmtFn, expr_fn: ExprFn) -> Block:
    def region(r: BufferRegion) -> BufferRegion:
        bounds = map_ranges(r.region, expr_fn)
        return r if bounds is r.region else BufferRegion(r.buffer, bounds)

    def iter_var(iv: IterVar) -> IterVar:
        if iv.dom is None:
            return iv
        (dom,) = map_ranges((iv.dom,), expr_fn)
        return iv if dom is iv.dom else IterVar(dom, iv.var, iv.kind, iv.thread_tag)

    iter_vars = tuple(map(iter_var, block.iter_vars))
    reads, writes = tuple(map(region, block.reads)), tuple(map(region, block.writes))
    matches = tuple(
        m if (source := region(m.source)) is m.source else MatchBufferRegion(m.buffer, source)
        for m in block.match_buffers
    )
    init = None if block.init is None else stmt_fn(block.init)
    body = stmt_fn(block.body)
    old = (*block.iter_vars, *block.reads, *block.writes, *block.match_buffers)
    new = (*iter_vars, *reads, *writes, *matches)
    if init is block.init and body is block.body:
        if all(a is b for a, b in zip(old, new, strict=True)):
            return block
    return Block(
        iter_vars,
        reads,
        writes,
        block.name_hint,
        body,
        init,
        block.alloc_buffers,
        matches,
        block.annotations,
    )


def child_stmts(stmt: Stmt) -> tuple[Stmt, ...]:
    """Direct sub-statements, in order."""
    if type(stmt) is BufferStore:
        return ()
    match stmt:
        case SeqStmt(stmts):
            return stmts
        case IfThenElse():
            return (stmt.then_case,) if stmt.else_case is None else (stmt.then_case, stmt.else_case)
        case Block():
            return (stmt.body,) if stmt.init is None else (stmt.init, stmt.body)
        case BlockRealize():
            return (stmt.block,)
        case _:
            body = getattr(stmt, "body", None)
            return () if body is None else (body,)


def stmts(root: Stmt) -> Iterator[Stmt]:
    """All statements below and including `root`, parents first, in order."""
    stack = [root]
    while stack:
        node = stack.pop()
        yield node
        stack += child_stmts(node)[::-1]


def direct_exprs(stmt: Stmt) -> tuple[Expr, ...]:
    """The expressions held directly by `stmt` (not by its sub-statements)."""
    if type(stmt) is For:
        return stmt.min, stmt.extent
    if type(stmt) is AttrStmt:
        return (stmt.value,)
    if type(stmt) is BufferStore and stmt.predicate is None:
        return (stmt.value, *stmt.indices)
    found: list[Expr] = []

    def collect(e: Expr) -> Expr:
        found.append(e)
        return e

    map_children(stmt, lambda s: s, collect)
    return tuple(found)


def all_exprs(root: Stmt) -> Iterator[Expr]:
    """Every expression node below `root`, in statement order."""
    for stmt in stmts(root):
        for expr in direct_exprs(stmt):
            yield from pre_order(expr)


def unique_exprs(root: Stmt) -> Iterator[Expr]:
    """Every distinct expression node below `root`, in the order of first occurrence in `all_exprs`.

    Unrolled code shares most of its indices: walking each once takes a third of the time.
    """
    seen: set[Expr] = set()
    for stmt in stmts(root):
        stack = list(reversed(direct_exprs(stmt)))
        while stack:
            node = stack.pop()
            if node not in seen:
                seen.add(node)
                yield node
                stack.extend(reversed(node.children()))


def loads(expr: Expr) -> Iterator[BufferLoad | ProducerLoad]:
    """The different loads in `expr`, parents first, left to right."""
    for node in distinct(expr):
        if isinstance(node, BufferLoad | ProducerLoad):
            yield node
