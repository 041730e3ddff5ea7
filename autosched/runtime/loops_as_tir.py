"""Loops over arrays, written as Python functions, become TIR (`compiled_loops.py`)."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np

from autosched.runtime.loop_cache import Kind
from autosched.tir.buffer import Buffer
from autosched.tir.dtype import DType, bool_, handle, int64
from autosched.tir.expr import BufferLoad, Call, Expr, Var
from autosched.tir.function import PrimFunc
from autosched.tir.op import (
    add,
    bitwise_and,
    bitwise_or,
    bitwise_xor,
    cast,
    const,
    eq,
    floordiv,
    floormod,
    ge,
    gt,
    if_then_else,
    le,
    lt,
    max_,
    min_,
    mul,
    ne,
    not_,
    shift_left,
    shift_right,
    sub,
)
from autosched.tir.stmt import (
    TRUE,
    Allocate,
    BufferStore,
    For,
    ForKind,
    IfThenElse,
    SeqStmt,
    Stmt,
    While,
    nop,
)

_OPERATORS: dict[type[ast.AST], Callable[[Expr, Expr], Expr]] = {
    ast.Add: add,
    ast.Sub: sub,
    ast.Mult: mul,
    ast.FloorDiv: floordiv,
    ast.Mod: floormod,
    ast.BitAnd: bitwise_and,
    ast.BitOr: bitwise_or,
    ast.BitXor: bitwise_xor,
    ast.LShift: shift_left,
    ast.RShift: shift_right,
    ast.Eq: eq,
    ast.NotEq: ne,
    ast.Lt: lt,
    ast.LtE: le,
    ast.Gt: gt,
    ast.GtE: ge,
}


def function_of(definition: Callable[..., None], kinds: Sequence[Kind]) -> PrimFunc:
    """The function as TIR. Raises OSError where Python has no source of it."""
    tree = _tree(definition)
    numbers: dict[str, Expr] = {}
    arrays: dict[str, _Array] = {}
    params: list[Var] = []
    buffers: dict[Var, Buffer] = {}
    for name, own, axes, adjacent in kinds:
        if not own:
            params.append(Var(name, int64))
            numbers[name] = params[-1]
            continue
        dtype = DType(np.dtype(own))
        data = Var(name, handle, element=dtype, scope="global")
        sizes = [Var(f"{name}.{k}", int64) for k in range(1 + axes)]
        buffers[data] = Buffer(data, dtype, (const(1, int64),), name=name)
        params += [data, *sizes]
        last = const(1, int64) if adjacent else sizes[-1]
        arrays[name] = _Array(buffers[data], sizes[0], (*sizes[1:-1], last))
    scope = _Scope(tree, definition.__globals__, numbers, arrays)
    return PrimFunc(tuple(params), scope.body, buffers, {"global_symbol": tree.name})


def _tree(definition: Callable[..., None]) -> ast.FunctionDef:
    """The function's source. Raises OSError where it was changed after it was imported."""
    source = ast.parse(textwrap.dedent(inspect.getsource(definition)))
    (found,) = source.body
    assert isinstance(found, ast.FunctionDef)
    found.decorator_list = []
    own = definition.__code__
    every = compile(source, "", "exec", dont_inherit=True).co_consts
    if own.co_code not in [c.co_code for c in every if getattr(c, "co_name", "") == own.co_name]:
        raise OSError("its source has changed since it was imported")
    return found


def _names(tree: ast.FunctionDef) -> list[str]:
    return [arg.arg for arg in tree.args.args]


def _parts(arg: ast.expr) -> list[ast.expr]:
    """The arguments that an argument such as `*(a, b)` stands for."""
    if isinstance(arg, ast.Starred) and isinstance(arg.value, ast.Tuple):
        return arg.value.elts
    return [arg]


_Known = TypeVar("_Known")


def _renamed(known: Mapping[str, _Known], path: str, name: str) -> dict[str, _Known]:
    """What is known at `path`, and inside of it, under another name."""
    inside = {p: value for p, value in known.items() if p == path or p.startswith(f"{path}.")}
    return {name + p.removeprefix(path): value for p, value in inside.items()}


class _Array(NamedTuple):
    """An array's elements, its length, and the elements between neighbours along each axis."""

    buffer: Buffer
    length: Expr
    steps: tuple[Expr, ...]


class _Scope:
    """One function as a statement (`body`), with what its parameters stand for."""

    def __init__(
        self,
        tree: ast.FunctionDef,
        known: Mapping[str, object],
        numbers: Mapping[str, Expr],
        arrays: Mapping[str, _Array],
    ) -> None:
        self._known, self._numbers, self._arrays = known, numbers, arrays
        self._variables: dict[str, Buffer] = {}
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                if node.id in numbers or node.id in arrays:
                    raise TypeError(f"a parameter that is assigned to: {node.id}")
                self._variable(node.id)
        self.body = self._block(tree.body)
        for buffer in self._variables.values():
            self.body = Allocate(buffer.data, int64, (const(1),), TRUE, self.body)

    def _variable(self, name: str) -> None:
        data = Var(name, handle, element=int64, scope="local")
        self._variables.setdefault(name, Buffer(data, int64, (const(1),), name=name))

    def _block(self, statements: Sequence[ast.stmt]) -> Stmt:
        found = [self._statement(s) for s in statements]
        return SeqStmt(tuple(found)) if len(found) > 1 else found[0]

    def _statement(self, s: ast.stmt) -> Stmt:
        match s:
            case ast.Assign([target], value):
                return self._store(target, self._value(value))
            case ast.AugAssign(target, op, value):
                old, more = self._number(target), self._number(value)
                return self._store(target, _OPERATORS[type(op)](old, more))
            case ast.For(ast.Name(name), ast.Call(ast.Name("range"), bounds), body):
                return self._loop(name, bounds, body)
            case ast.While(test, body):
                return While(self._test(test), self._block(body))
            case ast.If(test, body, other):
                otherwise = self._block(other) if other else None
                return IfThenElse(self._test(test), self._block(body), otherwise)
            case ast.Expr(ast.Constant(str())):
                return nop()
            case ast.Expr(ast.Call(ast.Name(name), args)):
                return self._inlined(name, args)
        raise TypeError(f"a statement that is not compiled: {ast.unparse(s)}")

    def _loop(self, name: str, bounds: list[ast.expr], body: list[ast.stmt]) -> Stmt:
        """A loop; the variable keeps its last value, as in Python."""
        begin, end, step = const(0, int64), self._value(bounds[0]), 1
        if len(bounds) > 1:
            begin, end = self._value(bounds[0]), self._value(bounds[1])
        if len(bounds) > 2:
            step = ast.literal_eval(bounds[2])
        if step not in (1, -1):
            raise TypeError(f"a loop with a step of {step} is not compiled")
        round_ = Var(f"{name}.round", int64)
        zero = const(0, int64)
        value = add(begin, round_) if step == 1 else sub(begin, round_)
        inside = SeqStmt((self._set(name, value), self._block(body)))
        extent = sub(end, begin) if step == 1 else sub(begin, end)
        return For(round_, zero, max_(extent, zero), ForKind.SERIAL, inside)

    def _inlined(self, name: str, args: list[ast.expr]) -> Stmt:
        """A call of another compiled function, whose integers are evaluated first."""
        definition: Any = getattr(self._known.get(name), "definition", None)
        if definition is None:
            raise TypeError(f"a call that is not compiled: {name}")
        tree = _tree(definition)
        numbers: dict[str, Expr] = {}
        arrays: dict[str, _Array] = {}
        before: list[Stmt] = []
        given = [e for arg in args for e in _parts(arg)]
        for own, arg in zip(_names(tree), given, strict=True):
            path = ast.unparse(arg)
            inside = _renamed(self._arrays, path, own), _renamed(self._numbers, path, own)
            if any(inside) and path not in self._numbers:
                arrays.update(inside[0])
                numbers.update(inside[1])
                continue
            inner = f"{name}.{own}"
            self._variable(inner)
            before.append(self._set(inner, self._number(arg)))
            numbers[own] = BufferLoad(self._variables[inner], (const(0),))
        scope = _Scope(tree, definition.__globals__, numbers, arrays)
        return SeqStmt((*before, scope.body))

    def _set(self, name: str, value: Expr) -> Stmt:
        return BufferStore(self._variables[name], value, (const(0),))

    def _store(self, target: ast.expr, value: Expr) -> Stmt:
        value = cast(int64, value)
        if isinstance(target, ast.Name):
            return self._set(target.id, value)
        place = self._element(target)
        return BufferStore(place.buffer, cast(place.dtype, value), place.indices)

    def _element(self, e: ast.expr) -> BufferLoad:
        match e:
            case ast.Subscript(array, ast.Tuple(indices)):
                pass
            case ast.Subscript(array, index):
                indices = [index]
            case _:
                raise TypeError(f"an element that is not compiled: {ast.unparse(e)}")
        buffer, _, steps = self._array(array)
        place: Expr = const(0, int64)
        for index, step in zip(indices, steps, strict=True):
            place = add(place, mul(self._value(index), step))
        return BufferLoad(buffer, (place,))

    def _array(self, e: ast.expr) -> _Array:
        found = self._arrays.get(ast.unparse(e))
        if found is None:
            raise TypeError(f"an array that is not compiled: {ast.unparse(e)}")
        return found

    def _test(self, e: ast.expr) -> Expr:
        found = self._value(e)
        return found if found.dtype is bool_ else ne(found, const(0, int64))

    def _value(self, e: ast.expr) -> Expr:
        match e:
            case ast.Constant(int() as value):
                return const(int(value), int64)
            case ast.Name(name) if name in self._variables:
                return BufferLoad(self._variables[name], (const(0),))
            case ast.Name() | ast.Attribute() if ast.unparse(e) in self._numbers:
                return self._numbers[ast.unparse(e)]
            case ast.Name(name) if isinstance(constant := self._known.get(name), int):
                return const(constant, int64)
            case ast.Subscript():
                found = self._element(e)
                return found if found.dtype is bool_ else cast(int64, found)
            case ast.BinOp(a, op, b):
                return _OPERATORS[type(op)](self._number(a), self._number(b))
            case ast.Compare(a, [op], [b]):
                return _OPERATORS[type(op)](self._number(a), self._number(b))
            case ast.UnaryOp(ast.USub(), a):
                return sub(const(0, int64), self._number(a))
            case ast.UnaryOp(ast.Not(), a):
                return not_(self._test(a))
            case ast.BoolOp(op, values):
                return self._joined(isinstance(op, ast.And), [self._test(v) for v in values])
            case ast.IfExp(test, a, b):
                return if_then_else(self._test(test), self._number(a), self._number(b))
            case ast.Call(ast.Name(name), args):
                return self._call(name, args)
        raise TypeError(f"an expression that is not compiled: {ast.unparse(e)}")

    def _number(self, e: ast.expr) -> Expr:
        return cast(int64, self._value(e))

    def _joined(self, both: bool, tests: list[Expr]) -> Expr:
        """Python's `and` or `or`: what follows from the first tests is not asked for."""
        found = tests[-1]
        for test in reversed(tests[:-1]):
            known = const(not both, bool_)
            found = if_then_else(test, found, known) if both else if_then_else(test, known, found)
        return found

    def _call(self, name: str, args: list[ast.expr]) -> Expr:
        if name == "len":
            return self._array(args[0]).length
        values = [self._number(e) for e in args]
        match name, values:
            case "min", [a, b]:
                return min_(a, b)
            case "max", [a, b]:
                return max_(a, b)
            case "abs", [a]:
                return max_(a, sub(const(0, int64), a))
            case "ones", [a]:
                return Call(int64, "popcount", (a,))
        raise TypeError(f"a call that is not compiled: {name}")
