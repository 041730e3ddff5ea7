"""Finds the variables that a statement binds, and those that it uses without binding them."""

from __future__ import annotations

from collections.abc import Iterator

from autosched.tir.buffer import Buffer
from autosched.tir.expr import BufferLoad, IterVar, Let, Var
from autosched.tir.kinds import bits_of, exprs_with
from autosched.tir.stmt import (
    Allocate,
    AllocateConst,
    AttrStmt,
    BufferStore,
    DeclBuffer,
    For,
    LetStmt,
    Stmt,
)
from autosched.tir.walk import direct_exprs, free_vars, stmts, unique_exprs


def bound_variables(body: Stmt) -> set[Var]:
    """The variables and pointers that statements and expressions of `body` bind."""
    bound = {e.var for e in exprs_with(body, bits_of(Let)) if isinstance(e, Let)}
    for s in stmts(body):
        match s:
            case For():
                bound.add(s.loop_var)
            case LetStmt():
                bound.add(s.var)
            case Allocate() | AllocateConst():
                bound.add(s.buffer_var)
            case AttrStmt(node=IterVar() as axis):
                bound.add(axis.var)
    return bound


def undefined(body: Stmt) -> set[Var]:
    """The variables and pointers that `body` uses and does not bind."""
    return set[Var]().union(*_used(body)) - bound_variables(body)


def is_used(var: Var, body: Stmt) -> bool:
    """Whether `body` uses the variable or pointer, which it does not bind."""
    return any(var in some for some in _used(body))


def _used(body: Stmt) -> Iterator[frozenset[Var]]:
    """The variables and pointers that the parts of `body` use, in statement order."""
    for s in stmts(body):
        for e in direct_exprs(s):
            yield free_vars(e)
    for buffer in buffers_in(body):
        yield frozenset((buffer.data,))
        for size in (*buffer.shape, *buffer.strides, buffer.elem_offset):
            if size is not None:
                yield free_vars(size)


def buffers_in(body: Stmt) -> Iterator[Buffer]:
    """The buffers that `body` stores to, declares and loads, possibly with repeats."""
    for s in stmts(body):
        if isinstance(s, BufferStore | DeclBuffer):
            yield s.buffer
    for e in unique_exprs(body):
        if isinstance(e, BufferLoad):
            yield e.buffer
