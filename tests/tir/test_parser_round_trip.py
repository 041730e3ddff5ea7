"""What every pass makes of every built-in workload, and random programs, survive as text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from autosched import workloads
from autosched.driver import pipeline_of, schedule_ops
from autosched.errors import ScheduleError
from autosched.search.space import SearchSpace
from autosched.target import cpu_target, cuda_target
from autosched.task import Task
from autosched.tir import op
from autosched.tir.buffer import Buffer, decl_buffer
from autosched.tir.equal import structural_equal
from autosched.tir.expr import (
    Add,
    And,
    Broadcast,
    BufferLoad,
    Cast,
    Div,
    Expr,
    FloorDiv,
    FloorMod,
    IntImm,
    IterKind,
    IterVar,
    Let,
    Max,
    Min,
    Mod,
    Mul,
    Not,
    Or,
    Ramp,
    Range,
    Select,
    Shuffle,
    Sub,
    Var,
    pointer,
)
from autosched.tir.function import PrimFunc
from autosched.tir.parser import parse_func
from autosched.tir.printer import to_text
from autosched.tir.stmt import (
    FALSE,
    TRUE,
    Allocate,
    AssertStmt,
    AttrStmt,
    BufferRealize,
    BufferStore,
    DeclBuffer,
    For,
    ForKind,
    IfThenElse,
    LetStmt,
    Stmt,
    While,
    nop,
    seq,
)
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import Sequential
from kit.tir import Stages

TARGETS = {"cpu": cpu_target(threads=2), "cuda": cuda_target()}
SIZES = {"H": 7, "W": 7, "D": 5, "L": 11, "M": 12, "S": 8, "CI": 6, "CO": 10, "C": 5, "groups": 1}


def check(func: PrimFunc) -> None:
    text = to_text(func)
    again = parse_func(text)
    assert structural_equal(again, func), text
    assert to_text(again) == text


def small(name: str) -> dict[str, Any]:
    """Arguments of a workload: odd sizes, the smallest window that fits."""
    windows = {"K": 3, "KH": 3, "KW": 3, "stride": 1, "padding": 1, "dilation": 1}
    given = workloads.get(name).args
    needed = {key: 4 if default is None else default for key, default in given.items()}
    return {**needed, **SIZES, **windows}


@pytest.mark.parametrize("kind", TARGETS)
@pytest.mark.parametrize("name", workloads.WORKLOADS)
def test_every_stage_of_lowering(name: str, kind: str) -> None:
    accepted = workloads.get(name).args
    args = {key: value for key, value in small(name).items() if key in accepted}
    task = Task.from_workload(name, target=TARGETS[kind], **args)
    drawn = SearchSpace(task).sample(np.random.default_rng(5), 1)
    assert drawn
    stages = Stages()
    with PassContext(instruments=[stages]):
        for steps in drawn[:1]:
            try:
                Sequential(pipeline_of(task.target))(schedule_ops(*task.dag.apply_steps(steps)))
            except ScheduleError as error:
                assert "VectorizeLoop" in str(error)  # a tile of varying length: see its docstring
    different = {to_text(func): func for _, func in stages.seen}  # most passes change nothing
    assert len(different) >= 3
    every = list(different.values())
    for func in every[list(workloads.WORKLOADS).index(name) % 2 :: 2]:  # neighbours are alike
        check(func)


# -- random programs

A = decl_buffer((16, 16), name="A")
N = decl_buffer((16,), "int32", "N")
VIEW = Buffer(A.data, A.dtype, (IntImm(256),), name="A")
LOCAL = decl_buffer((8,), name="L", scope="local")
REALIZED = decl_buffer((16, 4), name="R", scope="shared")
I, J, K, W = Var("i"), Var("i"), Var("k"), Var("w", "int64")
LEAVES: dict[str, list[Expr]] = {
    "int32": [I, J, K, IntImm(0), IntImm(-3), IntImm(7), N[I]],
    "int64": [W, op.const(5, "int64"), op.const(-(2**40), "int64")],
    "float32": [A[I, J], op.const(0.1), op.const(-2.5e-7), op.const(float("inf"))],
    "float16": [op.const(0.3, "float16"), op.const(65504, "float16")],
    "bool": [TRUE, FALSE],
}


@st.composite
def exprs(draw: DrawFn, dtype: str, depth: int = 3) -> Expr:
    """An expression of a scalar type; nothing in it is folded."""
    if depth == 0 or draw(st.integers(0, 4)) == 0:
        return draw(st.sampled_from(LEAVES[dtype]))
    sub = exprs(dtype, depth - 1)
    if dtype == "bool":
        a, b = (draw(exprs(draw(st.just("int32")), depth - 1)) for _ in range(2))
        compared: Expr = draw(st.sampled_from([op.lt, op.ge, op.eq, op.ne]))(a, b)
        connectives: list[Callable[..., Expr] | None] = [And, Or, None, Not]
        kind = draw(st.sampled_from(connectives))
        if kind is None:
            return compared
        return Not(draw(sub)) if kind is Not else kind(compared, draw(sub))
    choice = draw(st.integers(0, 5))
    if choice == 0:
        other = draw(st.sampled_from(sorted(set(LEAVES) - {"bool"})))
        return Cast(op.const(0, dtype).dtype, draw(exprs(other, depth - 1)))
    if choice == 1:
        return Select(draw(exprs("bool", depth - 1)), draw(sub), draw(sub))
    if choice == 2 and dtype == "int32":
        bound = Var("i")
        return Let(bound, draw(sub), Add(bound, draw(sub)))
    if choice == 3:
        condition = draw(exprs("bool", depth - 1))
        return op.if_then_else(condition, draw(sub), draw(sub))
    whole = dtype.startswith("int")
    kinds: list[Callable[[Expr, Expr], Expr]] = [
        Add,
        Sub,
        Mul,
        Min,
        Max,
        Div,
        *([FloorDiv, FloorMod, Mod] if whole else []),
    ]
    return draw(st.sampled_from(kinds))(draw(sub), draw(sub))


@st.composite
def stores(draw: DrawFn) -> BufferStore:
    """A store of a scalar, or of a vector with or without a mask."""
    low, lanes = draw(exprs("int32", 2)), draw(st.sampled_from([1, 4]))
    if lanes == 1:
        return BufferStore(VIEW, draw(exprs("float32")), (low,))
    ramp = Ramp(low, IntImm(draw(st.sampled_from([1, 1, 2]))), lanes)
    mask = draw(st.sampled_from([None, op.lt(ramp, Broadcast(K, lanes))]))
    value = draw(
        st.sampled_from(
            [
                Broadcast(draw(exprs("float32", 1)), lanes),
                BufferLoad(VIEW, (ramp,), mask),
                Shuffle((BufferLoad(VIEW, (ramp,)),), (IntImm(3), IntImm(0), IntImm(1), IntImm(2))),
            ]
        )
    )
    return BufferStore(VIEW, value, (ramp,), mask)


@st.composite
def programs(draw: DrawFn, depth: int = 3) -> Stmt:
    """A statement; the same variables are bound at several places."""
    if depth == 0:
        leaf: Stmt = draw(st.one_of(stores(), st.just(nop())))
        return leaf
    inside = programs(depth - 1)
    body = draw(inside)
    match draw(st.integers(0, 9)):
        case 0:
            var = draw(st.sampled_from([Var("i"), Var("x.outer"), Var("for")]))
            every: list[dict[str, Any]] = [{}, {"unroll_count": 4}, {"a": [1.5, None, "b"]}]
            notes = draw(st.sampled_from(every))
            kind = draw(st.sampled_from([k for k in ForKind if k is not ForKind.THREAD_BINDING]))
            low = draw(st.one_of(st.just(IntImm(0)), exprs("int32", 1)))
            return For(var, low, draw(exprs("int32", 1)), kind, body, None, notes)
        case 1:
            wide = op.const(3, "int64")
            return For(Var("w", "int64"), op.const(0, "int64"), wide, ForKind.SERIAL, body)
        case 2:
            other = draw(st.one_of(st.none(), inside))
            return IfThenElse(draw(exprs("bool")), body, other)
        case 3:
            return LetStmt(Var("let", "float32"), draw(exprs("float32")), body)
        case 4:
            data = pointer("L", LOCAL.dtype, draw(st.sampled_from(["local", "", "shared"])))
            own = Buffer(data, LOCAL.dtype, LOCAL.shape)
            first = BufferStore(own, draw(exprs("float32", 1)), (K,))
            shape = draw(st.sampled_from([LOCAL.shape, (IntImm(2), IntImm(4))]))
            return Allocate(data, own.dtype, shape, draw(exprs("bool", 1)), seq(first, body))
        case 5:
            buffer = Buffer(pointer("R", REALIZED.dtype, "shared"), REALIZED.dtype, REALIZED.shape)
            bounds = draw(st.sampled_from([(Range.of(16), Range.of(4)), (Range.of(2, K),) * 2]))
            store = BufferStore(buffer, op.const(1.0), (K, I))
            return BufferRealize(buffer, bounds, TRUE, seq(store, body))
        case 6:
            tag = draw(st.sampled_from(["threadIdx.x", "vthread"]))
            key = draw(st.sampled_from(["thread_extent", "virtual_thread"]))
            iv = IterVar(None, Var(tag), IterKind.THREAD, tag)
            return AttrStmt(iv, key, draw(exprs("int32", 1)), body)
        case 7:
            node = draw(st.sampled_from([None, A, A.data, "text", K]))
            return AttrStmt(node, "pragma_x", draw(exprs("int32", 1)), body)
        case 8:
            view = Buffer(A.data, A.dtype, (IntImm(4),), (), IntImm(8), "view", 128, 2)
            return DeclBuffer(view, seq(BufferStore(view, op.const(2.0), (K,)), body))
        case _:
            before = draw(st.one_of(inside, st.just(AssertStmt(TRUE, 'a "b"', body))))
            return seq(While(draw(exprs("bool", 1)), before), before, body, draw(inside))


@settings(max_examples=80, deadline=None, derandomize=True)
@given(programs())
def test_random_programs(body: Stmt) -> None:
    handles = (Var("A_handle", "handle"), pointer("N", N.dtype))
    buffers = dict(zip(handles, (A, N), strict=True))
    check(PrimFunc((*handles, I, J, K, W), body, buffers, {"global_symbol": "main"}))


def test_a_buffer_declared_twice_has_two_names() -> None:
    view = Buffer(A.data, A.dtype, (IntImm(4),), (), IntImm(8), "view")
    store = BufferStore(view, op.const(2.0), (K,))
    inner = DeclBuffer(view, seq(DeclBuffer(view, store), store))
    body = seq(While(op.lt(K, 3), inner), DeclBuffer(view, store))
    handle = Var("A_handle", "handle")
    check(PrimFunc((handle, K), body, {handle: A}, {"global_symbol": "main"}))
