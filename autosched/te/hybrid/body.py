"""The statements of a function of te.hybrid as TIR.

A name that is assigned to once stands for its value, computed there. One that is assigned to again
is a variable in memory, of the type of its first value. Both last to the end of the block in which
they are assigned to first.
"""

from __future__ import annotations

import ast
import copy
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import numpy as np

from autosched.arguments import found
from autosched.te.hybrid.expressions import constant, evaluated, is_late
from autosched.te.hybrid.names import Loops, Memory
from autosched.tir.buffer import Buffer, decl_buffer
from autosched.tir.dtype import int32
from autosched.tir.expr import BufferLoad, Expr, IntImm, IterKind, IterVar, Range, Var
from autosched.tir.op import add, as_condition, as_expr, cast, const, floordiv, max_, mul, sub
from autosched.tir.operators import Comparison
from autosched.tir.stmt import (
    TRUE,
    AssertStmt,
    AttrStmt,
    BufferRealize,
    BufferStore,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    Stmt,
    While,
    nop,
    seq,
)
from autosched.tir.walk import loads
from autosched.words import count

Step = ast.stmt | Callable[[], None]
"""A statement to read, or something to do between statements."""


class Body:
    """Reads the function `name`, whose first line is behind `before` lines of `file`.

    `known` says what names mean: buffers, expressions, and objects of Python.
    """

    def __init__(self, name: str, file: str, before: int) -> None:
        self.name = name
        self.known: dict[str, Any] = {}
        self._place = file, before
        self._line = 1
        self._inputs: Collection[Buffer] = ()
        self._variables: dict[str, Buffer] = {}
        self._loops: set[str] = set()
        self._params: set[str] = set()
        self._shared: set[str] = set()
        self._times: Counter[str] = Counter()
        self._made: list[Buffer] = []

    def read(
        self, tree: ast.FunctionDef, inputs: Collection[Buffer]
    ) -> tuple[Stmt, list[Buffer], bool]:
        """The statement, the outputs, and whether the function returns several of them."""
        self._inputs = inputs
        self._times = Counter(_assigned(tree))
        self._params = {arg.arg for arg in ast.walk(tree.args) if isinstance(arg, ast.arg)}
        for name in self._times:
            if name in self._params:
                raise self._error(f"{name} is a parameter; give what is assigned to another name")
            self.known.pop(name, None)  # of the module
        *rest, last = tree.body
        if not isinstance(last, ast.Return) or last.value is None:
            self._line = last.lineno
            raise self._error("a function ends by returning its outputs: return c")
        returned: list[Any] = []

        def leave() -> None:
            self._line = last.lineno
            assert last.value is not None
            returned.append(self._value(last.value))

        body = self._block([*rest, leave])
        several = isinstance(returned[0], tuple | list)
        outputs = list(returned[0]) if several else returned
        self._check_outputs(outputs)
        return body, outputs, several

    def _check_outputs(self, outputs: list[Any]) -> None:
        for each in outputs:
            if not any(each is made for made in self._made):
                raise self._error(f"it returns what output_tensor made, {found(each)}")
        left = [b.name for b in self._made if not any(b is each for each in outputs)]
        if left or len({id(b) for b in outputs}) < len(outputs):
            missing = f", {left[0]} is not" if left else ""
            raise self._error(f"each output is returned once{missing}")

    # -- errors

    def _error(self, why: str) -> ValueError:
        """The error that the line which is read is wrong."""
        file, before = self._place
        return ValueError(f"te.hybrid {self.name}, {file}:{before + self._line}: {why}")

    def _value(self, node: ast.expr) -> Any:
        try:
            value = evaluated(copy.deepcopy(node), self.known)
        except NameError as error:
            why = f"{error}, or only in a block before: set it before that block"
            raise self._error(why) from error
        except Exception as error:
            raise self._error(f"{type(error).__name__}: {error}") from error
        if isinstance(value, Comparison):
            value = value.condition()
        if isinstance(value, Expr):
            for load in loads(value):
                if isinstance(load, BufferLoad):
                    self._check_place(load.buffer, load.indices)
        return value

    def _condition(self, word: str, value: Any) -> Expr:
        try:
            return as_condition(word, value)
        except TypeError as error:
            raise self._error(str(error)) from error

    def _check_place(self, buffer: Buffer, indices: Sequence[Expr]) -> None:
        if len(indices) != len(buffer.shape):
            wanted = count(len(buffer.shape), "dimension")
            raise self._error(f"{buffer.name} has {wanted}, found {len(indices)}")
        for index in indices:
            if not index.dtype.is_int:
                raise self._error(f"an index of {buffer.name} is an integer, found {index!r}")

    # -- statements

    @contextmanager
    def _scope(self) -> Iterator[None]:
        """What is set inside is forgotten behind it."""
        kept = self.known.copy(), self._variables.copy(), self._loops.copy(), self._shared
        yield
        self.known, self._variables, self._loops, self._shared = kept

    def _inner(self, statements: Sequence[Step]) -> Stmt:
        with self._scope():
            return self._block(statements)

    def _block(self, steps: Sequence[Step]) -> Stmt:
        done: list[Stmt] = []
        for at, step in enumerate(steps):
            if not isinstance(step, ast.stmt):
                step()
                continue
            self._line, rest = step.lineno, steps[at + 1 :]
            match step:
                case ast.Assign([target], value):
                    return seq(*done, self._assign(target, self._value(value), rest))
                case ast.If(test, body, other) if not is_late(known := self._value(test)):
                    number = constant(known)
                    chosen = body if (known if number is None else number) else other
                    return seq(*done, self._block([*chosen, *rest]))
                case ast.For(target, iterated, body, []):
                    loops = self._value(iterated)
                    if not isinstance(loops, Loops):
                        return seq(*done, self._repeated(target, loops, body, rest))
                    done.append(self._loop(target, loops, body))
                case ast.Assert(test, message):
                    return seq(*done, self._assert(test, message, rest))
                case _:
                    done.append(self._statement(step))
        return seq(*done)

    def _statement(self, s: ast.stmt) -> Stmt:
        match s:
            case ast.AugAssign(target, op, value):
                source = copy.copy(target)
                source.ctx = ast.Load()
                return self._store(target, self._value(ast.BinOp(source, op, value)))
            case ast.If(test, body, other):
                condition = self._condition("if", self._value(test))
                otherwise = self._inner(other) if other else None
                return IfThenElse(condition, self._inner(body), otherwise)
            case ast.While(test, body, []):
                condition = self._condition("while", self._value(test))
                return While(condition, self._inner(body))
            case ast.Expr(ast.Constant()) | ast.Pass():
                return nop()
            case ast.Expr(value):
                called = self._value(value)
                if isinstance(called, Expr):
                    return Evaluate(called)
        raise self._error(
            f"this statement has no meaning in te.hybrid: {ast.unparse(s).splitlines()[0]}"
        )

    def _assert(self, test: ast.expr, message: ast.expr | None, rest: Sequence[Step]) -> Stmt:
        condition = self._value(test)
        words = ast.unparse(test) if message is None else str(self._value(message))
        if not is_late(condition):
            number = constant(condition)
            if not (condition if number is None else number):
                raise self._error(f"{words} does not hold")
            return self._block(rest)
        return AssertStmt(self._condition("assert", condition), words, self._block(rest))

    # -- assignments

    def _assign(self, target: ast.expr, value: Any, rest: Sequence[Step]) -> Stmt:
        """`target = value`, and the statements behind it."""
        if isinstance(target, ast.Tuple):
            values = list(value) if isinstance(value, tuple | list) else []
            if len(values) != len(target.elts):
                raise self._error(f"{len(target.elts)} names are assigned to, {found(value)}")
            return self._unpacked(list(target.elts), values, rest)
        if not isinstance(target, ast.Name):
            return seq(self._store(target, value), self._block(rest))
        name = target.id
        if isinstance(value, Memory):
            return self._made_array(name, value, rest)
        if isinstance(self.known.get(name), Buffer) and name not in self._variables:
            raise self._error(f"{name} is an array; write {name}[...] = value")
        if name in self._variables:
            return seq(self._store(target, value), self._block(rest))
        if not isinstance(value, Expr | int | float | np.number):
            self.known[name] = value  # an object of Python
            return self._block(rest)
        if self._times[name] > 1:
            return self._variable(name, as_expr(value), rest)
        if not isinstance(value, Expr) or not _reads_memory(value):
            self.known[name] = value
            return self._block(rest)
        self.known[name] = var = Var(name, value.dtype)
        return LetStmt(var, value, self._block(rest))

    def _unpacked(self, targets: list[ast.expr], values: list[Any], rest: Sequence[Step]) -> Stmt:
        """Values that read memory are computed before the first is stored."""
        for k, value in enumerate(values):
            if isinstance(value, Expr) and _reads_memory(value):
                values[k] = var = Var(f"value_{k}", value.dtype)
                return LetStmt(var, value, self._unpacked(targets, values, rest))
        steps: list[Step] = []
        for target, value in zip(targets, values, strict=True):
            hidden = f"__value_{len(steps)}__"
            self.known[hidden] = value
            steps.append(
                ast.copy_location(
                    ast.Assign([target], ast.Name(hidden, ast.Load()), lineno=self._line), target
                )
            )
        return self._block([*steps, *rest])

    def _variable(self, name: str, value: Expr, rest: Sequence[Step]) -> Stmt:
        buffer = decl_buffer((1,), value.dtype, name, scope="local")
        self._variables[name] = buffer
        self.known[name] = buffer[0]
        body = seq(BufferStore(buffer, value, (IntImm(0),)), self._block(rest))
        return BufferRealize(buffer, (Range.of(1),), TRUE, body)

    def _made_array(self, name: str, memory: Memory, rest: Sequence[Step]) -> Stmt:
        if self._times[name] > 1:
            raise self._error(f"{name} is an array, which is assigned to once")
        scope = "global" if memory.is_output else memory.scope
        self.known[name] = buffer = decl_buffer(memory.shape, memory.dtype, name, scope)
        if memory.is_output:
            self._made.append(buffer)
            return self._block(rest)
        bounds = tuple(map(Range.of, memory.shape))
        return BufferRealize(buffer, bounds, TRUE, self._block(rest))

    def _store(self, target: ast.expr, value: Any) -> Stmt:
        buffer, indices = self._target(target)
        self._check_place(buffer, indices)
        if any(buffer is own for own in self._inputs):
            raise self._error(f"{buffer.name} is an input; outputs come from output_tensor")
        if not isinstance(value, Expr | int | float | np.number):
            raise self._error(f"{buffer.name} holds numbers, {found(value)}")
        stored = value if isinstance(value, Expr) else self._number(buffer, value)
        if constant(stored) is not None and stored.dtype is not buffer.dtype:
            stored = self._number(buffer, constant(stored))
        if stored.dtype is not buffer.dtype:
            raise self._error(
                f"{buffer.name} is of {buffer.dtype}, found {stored!r} of {stored.dtype}; write "
                f"{buffer.dtype}(...), or begin with a value of {stored.dtype}"
            )
        return BufferStore(buffer, stored, tuple(indices))

    def _number(self, buffer: Buffer, value: Any) -> Expr:
        try:
            return const(value, buffer.dtype)
        except ValueError as error:
            raise self._error(f"{buffer.name}: {error}") from error

    def _target(self, target: ast.expr) -> tuple[Buffer, Sequence[Expr]]:
        match target:
            case ast.Name(name) if name in self._shared:
                why = f"{name} is one variable for all iterations of a loop that run at once"
                raise self._error(f"{why}; use range, or an array with an element for each")
            case ast.Name(name) if name in self._variables:
                return self._variables[name], (IntImm(0),)
            case ast.Name(name):
                raise self._error(
                    f"{name} is no variable that is set before, in this block or around it"
                )
            case ast.Subscript(array, index):
                buffer, place = self._value(array), self._value(index)
                if isinstance(buffer, Buffer):
                    return buffer, tuple(
                        map(as_expr, place if isinstance(place, tuple) else [place])
                    )
        raise self._error(f"{ast.unparse(target)} cannot be assigned to")

    # -- loops

    def _bound(self, target: ast.expr, values: Sequence[Any]) -> None:
        """Give the names of a loop their values."""
        names = target.elts if isinstance(target, ast.Tuple) else [target]
        if len(names) != len(values):
            raise self._error(f"{len(names)} names for the {len(values)} values of a loop")
        for name, value in zip(names, values, strict=True):
            if not isinstance(name, ast.Name):
                raise self._error(f"{ast.unparse(name)} cannot be the variable of a loop")
            if name.id in self._loops | self._params or name.id in self._times:
                why = f"{name.id} has another meaning in the function, which the loop would change"
                raise self._error(f"{why}; give its variable a name of its own")
            self.known[name.id] = value
            self._loops.add(name.id)

    def _repeated(
        self, target: ast.expr, items: Any, body: list[ast.stmt], rest: Sequence[Step]
    ) -> Stmt:
        """A loop over objects of Python: its body once for each."""
        if isinstance(items, Expr | Buffer | str) or not hasattr(items, "__iter__"):
            raise self._error(f"a loop runs over range(...) or a list, {found(items)}")
        steps: list[Step] = []
        for item in items:
            values = item if isinstance(target, ast.Tuple) else (item,)
            steps += [partial(self._bound, target, values), *body, partial(self._left, target)]
        return self._block([*steps, *rest])

    def _left(self, target: ast.expr) -> None:
        self._loops -= {node.id for node in ast.walk(target) if isinstance(node, ast.Name)}

    def _loop(self, target: ast.expr, loops: Loops, body: list[ast.stmt]) -> Stmt:
        names = target.elts if isinstance(target, ast.Tuple) else [target]
        extents = [_extent(*each) for each in loops.ranges]
        if len(names) != len(extents):
            raise self._error(f"{len(names)} names for the {len(extents)} values of a loop")
        rounds = [Var(ast.unparse(n), e.dtype) for n, e in zip(names, extents, strict=True)]
        with self._scope():
            values = [
                add(begin, mul(v, step))
                for v, (begin, _, step) in zip(rounds, loops.ranges, strict=True)
            ]
            self._bound(target, values)
            if loops.kind not in (ForKind.SERIAL, ForKind.UNROLLED):
                self._shared = set(self._variables)
            made = self._block(body)
        for var, extent in zip(reversed(rounds), reversed(extents), strict=True):
            zero = const(0, extent.dtype)
            if loops.kind is ForKind.THREAD_BINDING:
                thread = IterVar(Range(zero, extent), var, IterKind.THREAD, loops.thread)
                made = AttrStmt(thread, "thread_extent", extent, made)
            else:
                made = For(var, zero, extent, loops.kind, made)
        return made


def _extent(begin: Any, end: Any, step: int) -> Expr:
    """The number of iterations; at least 0."""
    length = sub(end, begin) if step > 0 else sub(begin, end)
    many = floordiv(add(length, abs(step) - 1), abs(step))
    many = many if many.dtype.bits >= int32.bits else cast(int32, many)
    return many if begin == 0 and step == 1 and isinstance(many, Var) else max_(many, 0)


def _reads_memory(e: Expr) -> bool:
    return next(iter(loads(e)), None) is not None


def _assigned(tree: ast.FunctionDef) -> Iterator[str]:
    """The names that assignments set, each as often as one sets it."""
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets):
                for target in targets:
                    parts = target.elts if isinstance(target, ast.Tuple) else [target]
                    yield from (part.id for part in parts if isinstance(part, ast.Name))
            case ast.AugAssign(ast.Name(name)):
                yield name
