"""Functions as lines that both sides write alike, and whether two lines mean the same."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from typing import Any

import te_programs

from autosched.tir import expr, stmt
from autosched.tir.expr import Expr, IterVar, Range


class Lines:
    """A function as lines that both sides write alike."""

    def __init__(self) -> None:
        self.names: dict[Any, str] = {}
        self.lines: list[Any] = []

    def name(self, var: expr.Var) -> str:
        return self.names.get(var, "".join(c if c.isalnum() else "_" for c in var.name))

    def bound(self, var: expr.Var) -> None:
        self.names.setdefault(var, f"v{len(self.names)}")

    def expr(self, e: Expr) -> str:
        match e:
            case expr.Min() | expr.Max():
                return f"{e.symbol}({self.all(e.a, e.b)})"
            case expr.Mod():
                return f"({self.expr(e.a)} %% {self.expr(e.b)})"
            case expr.BinaryExpr():
                return f"({self.expr(e.a)} {e.symbol} {self.expr(e.b)})"
            case expr.Not():
                return f"(not {self.expr(e.a)})"
            case expr.IntImm():
                return str(int(e.value))
            case expr.FloatImm():
                return repr(float(e.value))
            case expr.StringImm():
                return repr(e.value)
            case expr.Var():
                return self.name(e)
            case expr.Cast():
                return f"cast({str(e.dtype)!r}, {self.expr(e.value)})"
            case expr.Select():
                return f"ite({self.all(e.condition, e.true_value, e.false_value)})"
            case expr.BufferLoad():
                return f"load({self.all(*e.indices, first=repr(e.buffer.name))})"
            case expr.Call(op="if_then_else"):
                return f"ite({self.all(*e.args)})"
            case expr.Call(op="likely"):
                return f"likely({self.all(*e.args)})"
            case expr.Call():
                return f"call({self.all(*e.args, first=repr(e.op))})"
        return type(e).__name__

    def all(self, *parts: Expr, first: str = "") -> str:
        return ", ".join([*([first] if first else []), *map(self.expr, parts)])

    def ranges(self, bounds: Sequence[Range]) -> list[str]:
        return [self.expr(e) for r in bounds for e in (r.min, r.extent)]

    def stmt(self, s: stmt.Stmt, depth: int = 0) -> None:
        add = self.lines.append
        match s:
            case stmt.SeqStmt():
                for part in s.stmts:
                    self.stmt(part, depth)
            case stmt.For():
                ends = [self.expr(s.min), self.expr(s.extent)]
                self.bound(s.loop_var)
                name = self.name(s.loop_var)
                add([depth, "for", s.kind.value, s.loop_var.name, name, *ends])
                self.stmt(s.body, depth + 1)
            case stmt.IfThenElse():
                add([depth, "if", self.expr(s.condition)])
                self.stmt(s.then_case, depth + 1)
                if s.else_case is not None:
                    add([depth, "else"])
                    self.stmt(s.else_case, depth + 1)
            case stmt.BufferStore():
                value = self.expr(s.value)
                add([depth, "store", s.buffer.name, value, *map(self.expr, s.indices)])
            case stmt.BufferRealize():
                scope = s.buffer.scope or "global"
                add([depth, "realize", s.buffer.name, scope, *self.ranges(s.bounds)])
                self.stmt(s.body, depth + 1)
            case stmt.AttrStmt():
                node = s.node
                about = str(getattr(node, "name", ""))
                if isinstance(node, IterVar):
                    self.bound(node.var)
                    about = node.thread_tag or node.var.name
                value = "" if s.key == "reduce_scope" else self.expr(s.value)
                add([depth, "attr", s.key, "" if s.key == "reduce_scope" else about, value])
                self.stmt(s.body, depth + 1)
            case stmt.LetStmt():
                value = self.expr(s.value)
                self.bound(s.var)
                add([depth, "let", self.name(s.var), value])
                self.stmt(s.body, depth + 1)
            case stmt.AssertStmt():
                add([depth, "assert", self.expr(s.condition)])
                self.stmt(s.body, depth + 1)
            case stmt.Prefetch():
                add([depth, "prefetch", s.buffer.name, *self.ranges(s.bounds)])
            case stmt.Allocate():
                extents = [self.expr(e) for e in s.extents]
                add([depth, "allocate", s.buffer_var.name, str(s.dtype), *extents])
                self.stmt(s.body, depth + 1)
            case stmt.Evaluate():
                add([depth, "evaluate", self.expr(s.value)])
            case _:
                add([depth, type(s).__name__])


class _Numbers(dict[str, Any]):
    """Names of variables as numbers, each its own, for `eval`."""

    def __init__(self, draw: int) -> None:
        super().__init__()
        self.draw = draw

    def __missing__(self, name: str) -> int:
        if name in FUNCTIONS:
            raise KeyError(name)
        number = zlib.crc32(f"{name} {self.draw}".encode())
        return te_programs.N if name == "n" else number % (3, 9, 40)[self.draw % 3]


def _load(name: str, *indices: int) -> int:
    return zlib.crc32(repr((name, *indices)).encode()) % 23 - 5


FUNCTIONS = {
    "load": _load,
    "ite": lambda c, a, b: a if c else b,
    "cast": lambda t, a: a,
    "likely": lambda a: a,
    "call": lambda *a: _load(*a),
    "min": min,
    "max": max,
}


def same(a: str, b: str) -> bool:
    """Whether two expressions have the same values."""
    if a == b:
        return True
    for draw in range(40):
        try:
            names = _Numbers(draw)
            if eval(a, dict(FUNCTIONS), names) != eval(b, dict(FUNCTIONS), names):
                return False
        except (SyntaxError, AttributeError, ArithmeticError):
            return False
    return True


def alike(ours: Sequence[Any], theirs: Sequence[Any]) -> bool:
    """Whether two lines mean the same."""
    if ours == theirs:
        return True
    if len(ours) != len(theirs) or ours[:2] != theirs[:2]:
        return False
    return all(
        a == b or (isinstance(a, str) and isinstance(b, str) and same(a, b))
        for a, b in zip(ours[2:], theirs[2:], strict=True)
    )


def inside(inner: Sequence[str], outer: Sequence[str]) -> bool:
    """Whether one range (first, length) is a part of another, for drawn values."""
    for draw in range(40):
        names = _Numbers(draw)
        low, length = (eval(e, dict(FUNCTIONS), names) for e in inner)
        first, count = (eval(e, dict(FUNCTIONS), names) for e in outer)
        whole = re.fullmatch(r"\d+", outer[0]) and not re.fullmatch(r"\d+", inner[0])
        if length > count or (not whole and not first <= low <= low + length <= first + count):
            return False
    return True


def fewer_conditions(ours: Sequence[Any], theirs: Sequence[Any]) -> bool:
    """Whether the lines mean the same but for conditions, of which ours are some."""
    plain = [[line[1:] for line in lines if line[1] != "if"] for lines in (ours, theirs)]
    if len(plain[0]) != len(plain[1]) or len(ours) > len(theirs):
        return False
    return all(alike([0, *a], [0, *b]) for a, b in zip(*plain, strict=True))
