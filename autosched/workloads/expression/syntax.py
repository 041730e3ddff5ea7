"""Parse text to statements: refuse what is not allowed, turn inner reductions into statements."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator
from typing import NamedTuple

from autosched.errors import ConfigError
from autosched.words import count
from autosched.workloads.expression import hints
from autosched.workloads.expression.statement import PLACES, Part, Statement, fail, loads_of
from autosched.workloads.expression.table import TableError, table_of
from autosched.workloads.expression.values import CASTS, FUNCTIONS
from autosched.workloads.workload import MAX_SIZE

REDUCERS = ("sum", "max", "min", "prod", "mean", *PLACES)
_ACCUMULATE = {ast.Add: "sum", ast.Mult: "prod"}
_NODES = (
    ast.BinOp,
    ast.UnaryOp,
    ast.BoolOp,
    ast.Compare,
    ast.IfExp,
    ast.Call,
    ast.Subscript,
    ast.Name,
    ast.Constant,
    ast.Tuple,
    ast.operator,
    ast.unaryop,
    ast.boolop,
    ast.cmpop,
    ast.expr_context,
)
_FORBIDDEN = (ast.MatMult, ast.Is, ast.IsNot, ast.In, ast.NotIn)
_MAX_DEPTH = 100
_MAX_LENGTH = 100_000  # characters
_PARTS: dict[str, tuple[Part, ...]] = {**dict.fromkeys(CASTS, ("own",)), "where": ("condition",)}
"""By function, the parts that its first arguments are of themselves."""
_LONG_SUM = 16  # terms; longer sums are added up in pairs


def statements_of(expr: str) -> list[Statement]:
    """The statements of `expr` in the order of computation; their extents are still open.

    Raises ConfigError that quotes the statement and says what is wrong in it.
    """
    source = expr.strip()
    if len(source) > _MAX_LENGTH:
        raise ConfigError(
            f"expr: {len(source)} characters, expected at most {_MAX_LENGTH}: it begins with "
            f"{source[:60]!r}"
        )
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)  # `1if x`: its meaning is checked below
            module = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        text = str(error) if isinstance(error, ValueError) else "nested too deeply"
        detail = getattr(error, "msg", None) or text
        column = getattr(error, "offset", None)
        place = f" at column {column}" if column else ""
        shown = source if len(source) <= 200 else f"{source[:197]}..."
        raise ConfigError(f"expr: not an expression{place}: {detail} in {shown!r}") from None
    if not module.body:
        raise ConfigError("expr: empty; expected e.g. C[i, j] = sum(k, A[i, k] * B[k, j])")
    taken = {node.id for node in ast.walk(module) if isinstance(node, ast.Name)}
    lines = source.encode().splitlines()
    return [s for node in module.body for s in _statement(_text(lines, node), node, taken)]


def _text(lines: list[bytes], node: ast.stmt) -> str:
    """The text of a statement, on one line; `ast.get_source_segment` would split all lines anew."""
    own = lines[node.lineno - 1 : node.end_lineno]
    own[-1] = own[-1][: node.end_col_offset]
    own[0] = own[0][node.col_offset :]
    return " ".join(b" ".join(own).decode().split())


def _statement(text: str, node: ast.stmt, taken: set[str]) -> list[Statement]:
    """The helper statements for the reductions inside a statement's value, then the statement."""
    if len(text) > 200:
        text = f"{text[:197]}..."
    target: ast.expr
    if isinstance(node, ast.AugAssign):
        target, value = node.target, node.value
    elif isinstance(node, ast.Assign) and len(node.targets) == 1:
        target, value = node.targets[0], node.value
    else:
        fail(text, hints.left_side(node))
    if not isinstance(target, ast.Subscript) or not isinstance(target.value, ast.Name):
        fail(text, hints.left_side(node))
    indices = target.slice.elts if isinstance(target.slice, ast.Tuple) else [target.slice]
    names = [i.id for i in indices if isinstance(i, ast.Name)]
    if len(names) != len(indices) or len(set(names)) != len(names) or not names:
        fail(text, "the indices on the left must be distinct names")
    _check_depth(text, value)
    if isinstance(node, ast.Assign) and isinstance(value, ast.List):
        return [_table(text, target.value.id, tuple(names), value)]
    result = Statement(text, target.value.id, tuple(names), "", (), _balanced(value))
    if isinstance(node, ast.AugAssign):
        _accumulate(result, node.op)
    else:
        reduction = _reduction(result.body, set(names))
        if reduction is not None:
            result.reducer, result.reduce_indices, lengths, result.body = reduction
            result.extents.update(lengths)
    _check_reduced(result)
    lift = _Lift(result, taken)
    result.body = lift.visit(result.body)
    for statement in (*lift.found, result):
        _check(statement)
    return [*lift.found, result]


def _table(text: str, name: str, indices: tuple[str, ...], value: ast.List) -> Statement:
    """The statement of a table of numbers."""
    try:
        numbers = table_of(value)
    except TableError as error:
        fail(text, str(error))
    if numbers.ndim != len(indices):
        names = count(len(indices), "name")
        fail(text, f"the table has {count(numbers.ndim, 'dimension')}, but the left side {names}")
    lengths = dict(zip(indices, numbers.shape, strict=True))
    return Statement(text, name, indices, "", (), ast.Constant(0), table=numbers, extents=lengths)


def _accumulate(statement: Statement, operator: ast.operator) -> None:
    """Make `C[i] += A[i, k]` a reduction over every index that occurs only on the right."""
    reducer = _ACCUMULATE.get(type(operator))
    if reducer is None:
        statement.fail("expected =, += or *=")
    callees = {id(n.func) for n in ast.walk(statement.body) if isinstance(n, ast.Call)}
    tensors = {id(load.value) for load in loads_of(statement.body)}
    free = [
        n.id
        for n in sorted(_names(statement.body), key=lambda n: (n.lineno, n.col_offset))
        if id(n) not in callees | tensors and n.id not in statement.indices
    ]
    if not free:
        statement.fail(
            "+= and *= reduce over the indices that occur only on the right, and there are none; "
            "write = instead"
        )
    statement.reducer, statement.reduce_indices = reducer, tuple(dict.fromkeys(free))


def _names(body: ast.expr) -> Iterator[ast.Name]:
    return (n for n in ast.walk(body) if isinstance(n, ast.Name))


class _Reduction(NamedTuple):
    """The parts of a reduction `sum(k, r < 3, body)`; `lengths` holds the given ones."""

    reducer: str
    indices: tuple[str, ...]
    lengths: dict[str, int]
    body: ast.expr


def _reduction(e: ast.expr, bound: set[str]) -> _Reduction | None:
    """The parts of a reduction, whose indices must be new names; None for any other value."""
    if not isinstance(e, ast.Call) or not isinstance(e.func, ast.Name) or not e.args or e.keywords:
        return None
    *axes, body = e.args
    reduced: list[str] = []
    lengths: dict[str, int] = {}
    for axis in axes:
        match axis:
            case ast.Name(id=name):
                reduced.append(name)
            case ast.Compare(
                left=ast.Name(id=name), ops=[ast.Lt()], comparators=[ast.Constant(value=int(n))]
            ) if not isinstance(n, bool):
                reduced.append(name)
                lengths[name] = n
    fits = bool(axes) and len(reduced) == len(axes) and not set(reduced) & bound
    if e.func.id not in REDUCERS or not fits:
        return None
    return _Reduction(e.func.id, tuple(reduced), lengths, body)


def _check_reduced(statement: Statement) -> None:
    if len(set(statement.reduce_indices)) != len(statement.reduce_indices):
        statement.fail("an index is reduced over twice")
    if statement.finds_place and len(statement.reduce_indices) > 1:
        statement.fail(
            f"{statement.reducer} takes one index, found {', '.join(statement.reduce_indices)}; "
            "use a statement for each"
        )
    for name in statement.reduce_indices:
        length = statement.extents.get(name, 1)
        if not 1 <= length <= MAX_SIZE:
            statement.fail(f"{name} < {length}: expected a length from 1 to {MAX_SIZE}")


class _Lift(ast.NodeTransformer):
    """Turns every reduction inside a value into a statement of its own, which the value reads."""

    def __init__(self, outer: Statement, taken: set[str]) -> None:
        self.found: list[Statement] = []
        self._outer = outer
        self._taken = taken
        self._bound = {*outer.indices, *outer.reduce_indices}
        self._lengths = dict(outer.extents)  # those that the reductions around give
        self._part: Part = "own" if outer.finds_place else "value"

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        node.slice = self._visit_part(node.slice, "index")
        return node

    def visit_IfExp(self, node: ast.IfExp) -> ast.expr:
        node.test = self._visit_part(node.test, "condition")
        node.body, node.orelse = self.visit(node.body), self.visit(node.orelse)
        return node

    def visit_Compare(self, node: ast.Compare) -> ast.expr:
        node.left = self._visit_part(node.left, "condition")
        node.comparators = [self._visit_part(e, "condition") for e in node.comparators]
        return node

    def _visit_part(self, e: ast.expr, part: Part) -> ast.expr:
        """Visit `e`, which is such a part; conditions of an index are parts of the index."""
        around = self._part
        self._part = "index" if part == "condition" and around == "index" else part
        found: ast.expr = self.visit(e)
        self._part = around
        return found

    def visit_Call(self, node: ast.Call) -> ast.expr:
        reduction = _reduction(node, self._bound)
        if reduction is None:
            parts = _PARTS.get(node.func.id, ()) if isinstance(node.func, ast.Name) else ()
            for k, e in enumerate(node.args):
                node.args[k] = self._visit_part(e, parts[k] if k < len(parts) else self._part)
            return node
        reducer, reduced, lengths, body = reduction
        bound, around = self._bound, self._lengths
        self._bound, self._lengths = bound | set(reduced), around | lengths
        inner = self._visit_part(body, "own" if reducer in PLACES else self._part)
        self._bound, self._lengths = bound, around
        used = {n.id for n in _names(inner)}
        kept = [n for n in sorted(bound, key=self._order) if n in used]
        name = self._name(reducer)
        # A reduction that depends on no index becomes a tensor with one axis, of length 1.
        indices = tuple(kept) or ("_",)
        helper = Statement(
            self._outer.text, name, indices, reducer, reduced, inner, self._outer, self._part
        )
        helper.extents.update(lengths)
        helper.around.update((n, around[n]) for n in kept if n in around)
        if not kept:
            helper.extents["_"] = 1
        _check_reduced(helper)
        self.found.append(helper)
        places: list[ast.expr] = [ast.Name(n, ast.Load()) for n in kept] or [ast.Constant(0)]
        index = ast.Tuple(places, ast.Load()) if len(places) > 1 else places[0]
        read = ast.Subscript(ast.Name(name, ast.Load()), index, ast.Load())
        for new in (read, read.value, read.slice, *places):
            ast.copy_location(new, node)
        return read

    def _order(self, name: str) -> tuple[int, str]:
        known = (*self._outer.indices, *self._outer.reduce_indices)
        return (known.index(name) if name in known else len(known), name)

    def _name(self, reducer: str) -> str:
        base = name = f"{self._outer.name}_{reducer}"
        number = 1
        while name in self._taken:
            number += 1
            name = f"{base}{number}"
        self._taken.add(name)
        return name


def _check_depth(text: str, value: ast.expr) -> None:
    level: list[ast.AST] = [value]
    depth = 0
    while level:
        level = [child for node in level for child in _below(node)]
        depth += 1
        if depth > _MAX_DEPTH:
            fail(text, f"nested more than {_MAX_DEPTH} levels deep; use several statements")


def _below(node: ast.AST) -> list[ast.AST]:
    """The children of a node; a whole sum a + b + c counts as one level."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        return list(_terms(node))
    return list(ast.iter_child_nodes(node))


def _terms(node: ast.expr) -> list[ast.expr]:
    found: list[ast.expr] = []
    while isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        found.append(node.right)
        node = node.left
    return [node, *reversed(found)]


def _balanced(value: ast.expr) -> ast.expr:
    """Rewrite long sums as balanced trees, so that they are not nested deeply."""

    class Balance(ast.NodeTransformer):
        def visit_BinOp(self, node: ast.BinOp) -> ast.expr:
            terms = _terms(node)
            if len(terms) <= _LONG_SUM:
                self.generic_visit(node)
                return node
            return _pairs(node, [self.visit(term) for term in terms])

    result: ast.expr = Balance().visit(value)
    return result


def _pairs(where: ast.expr, terms: list[ast.expr]) -> ast.expr:
    while len(terms) > 1:
        paired: list[ast.expr] = []
        for k in range(0, len(terms) - 1, 2):
            total = ast.BinOp(terms[k], ast.Add(), terms[k + 1])
            paired.append(ast.copy_location(total, where))
        terms = paired + terms[len(terms) - len(terms) % 2 :]
    return terms[0]


def _check(statement: Statement) -> None:
    indices = {*statement.indices, *statement.reduce_indices}
    body = statement.body
    for node in ast.walk(body):
        refused = not isinstance(node, _NODES) or isinstance(node, _FORBIDDEN)
        if refused:
            statement.fail(hints.refusal(node))
        if isinstance(node, ast.Subscript):
            if isinstance(node.value, ast.Subscript):
                statement.fail("write A[i, j], not A[i][j]")
            if not isinstance(node.value, ast.Name):
                statement.fail(
                    hints.refusal(node.value)
                    if isinstance(node.value, ast.Attribute | ast.List)
                    else "only tensors can be indexed"
                )
            if node.value.id in indices:
                statement.fail(f"{node.value.id} is an index, not a tensor")
        elif isinstance(node, ast.Call):
            _check_call(statement, node)
        elif isinstance(node, ast.Constant) and (
            isinstance(node.value, bool) or not isinstance(node.value, int | float)
        ):
            statement.fail(hints.refusal(node))
    tensors = {id(load.value) for load in loads_of(body)}
    callees = {id(node.func) for node in ast.walk(body) if isinstance(node, ast.Call)}
    for node in _names(body):
        if id(node) not in tensors | callees and node.id not in indices:
            statement.fail(
                f"{node.id} is neither an index on the left nor reduced over; an index to sum over "
                f"is named first, sum({node.id}, ...), and a tensor needs indices, {node.id}[...]"
            )


def _check_call(statement: Statement, node: ast.Call) -> None:
    if not isinstance(node.func, ast.Name):
        statement.fail(hints.refusal(node.func))
    name = node.func.id
    for argument in node.args:
        if isinstance(argument, ast.GeneratorExp | ast.ListComp):
            statement.fail(hints.refusal(argument))
    if name in REDUCERS and name not in FUNCTIONS:
        statement.fail(
            f"{name} takes its indices first, then the value: {name}(k, A[i, k]) or "
            f"{name}(k, r < 3, A[i, k + r]); the indices are new names, not those "
            "on the left or of a reduction around it"
        )
    arity = FUNCTIONS.get(name, 1 if name in CASTS else None)
    if arity is None:
        statement.fail(hints.unknown_function(name, (*REDUCERS, *FUNCTIONS, *CASTS)))
    if node.keywords or len(node.args) != arity:
        words = "argument" if arity == 1 else "arguments"
        statement.fail(f"{name} takes {arity} {words}, found {len(node.args) + len(node.keywords)}")
