"""Checks of indices: which accesses have one, and that a kernel reports what is outside."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from autosched import te
from autosched.driver import build, build_func, build_host, lower, lower_func
from autosched.errors import ConfigError, MeasureError
from autosched.runtime.cpu import load
from autosched.runtime.host import load_host
from autosched.target import cpu_target, cuda_target
from autosched.tir import interp
from autosched.tir.function import PrimFunc
from autosched.tir.op import const
from autosched.tir.parser import parse_func
from autosched.tir.stmt import AssertStmt, BufferStore
from autosched.tir.walk import stmts
from autosched.transform.expressions.instrument_bound_checkers import InstrumentBoundCheckers
from autosched.transform.framework.context import PassContext
from kit.pages import outcome_at_edges
from kit.random_graphs import try_graph
from kit.random_programs import try_program
from kit.random_statements import try_statements
from kit.types import SameResult

CPU = cpu_target(threads=2)
CHECKED = PassContext(config={"tir.instrument_bound_checkers": True})
PARAMETERS = (
    "n: int32, k: int32, A: Buffer((8,), float32), B: Buffer((8,), float32), "
    "J: Buffer((8,), int32), S: Buffer((n,), float32), M: Buffer((2, 4), float32, strides=(8, 1))"
)


def function_of(*lines: str) -> PrimFunc:
    return parse_func("\n    ".join([f"def main({PARAMETERS}):", *lines]) + "\n")


def checks(*lines: str) -> list[str]:
    """The conditions of the checks."""
    func = InstrumentBoundCheckers()(function_of(*lines))
    return [repr(s.condition) for s in stmts(func.body) if isinstance(s, AssertStmt)]


PROVEN = {
    "loops": ["for i in range(8):", "    B[i] = A[7 - i]"],
    "vectors": ["B[0:4] = A[4:8]"],
    "a loop over a size": ["for i in range(n):", "    S[i] = 1.0"],
    "an if": ["for i in range(9):", "    if likely(i < 8):", "        B[i] = 1.0"],
    "the other branch": [
        "for i in range(16):",
        "    if i < 8:",
        "        B[i] = 1.0",
        "    else:",
        "        B[i - 8] = 1.0",
    ],
    "padding": ["for i in range(9):", "    B[i // 2] = if_then_else(1 <= i, A[i - 1], 0.0)"],
    "a Select": ["for i in range(8):", "    B[i] = Select(i < 1, 0.0, A[i - 1])"],
    "a predicate": ["for i in range(9):", "    store(B[i], A[i], predicate=i < 8)"],
    "an allocation": ['L = allocate((4,), float32, "global")', "L[k % 4] = 1.0", "B[0] = L[3]"],
    "a variable": ["m: int32 = k % 8", "B[m] = 1.0"],
    "an address": ['call_extern("f", address_of(A[k]), dtype=int32)'],
    "unknown memory": ["M[k, k] = 1.0"],
    "a side effect": ['B[call_extern("f", dtype=int32)] = 1.0'],
    "a mask": ["B[0:4] = load(A[k:k + 4], predicate=ramp(k, 1, 4) < broadcast(n, 4))"],
}
AT_K = "k >= 0 and k < 8"
CHECKS = {
    "a load and a store": (["B[k] = A[k + 1]"], ["k + 1 >= 0 and k + 1 < 8", AT_K]),
    "one end": (["for i in range(8):", "    B[i] = A[i + 1]"], ["i + 1 < 8"]),
    "the same twice": (["B[k] = A[k] * A[k]"], [AT_K]),
    "a constant": (["B[0] = A[8]"], ["False"]),
    "loads inside of indices first": (["B[0] = A[J[k]]"], [AT_K, "J[k] >= 0 and J[k] < 8"]),
    "an arm": (
        ["for i in range(9):", "    B[0] = if_then_else(1 <= i, A[i], 0.0)"],
        ["if_then_else(1 <= i, i < 8, True)"],
    ),
    "the other arm of a Select": (
        ["for i in range(8):", "    B[i] = Select(i < k, 0.0, A[i - k + 1])"],
        ["if_then_else(i < k, True, i - k + 1 < 8)"],
    ),
    "arms inside of arms": (
        ["B[0] = if_then_else(0 <= k, if_then_else(A[k] < 1.0, A[k + 1], 0.0), 1.0)"],
        [
            "if_then_else(0 <= k, k < 8, True)",
            "if_then_else(0 <= k, if_then_else(A[k] < 1.0, k + 1 < 8, True), True)",
        ],
    ),
    "conditions": (
        ["if A[k] < 1.0 and A[k + 1] < 1.0:", "    B[0] = 1.0"],
        [AT_K, "k + 1 >= 0 and k + 1 < 8"],
    ),
    "a let": (
        ["B[0] = (let m = k + k in A[m])"],
        ["let m = k + k in m >= 0 and m < 8"],
    ),
    "an extent": (["for i in range(J[k]):", "    B[0] = 1.0"], [AT_K]),
    "both ends of a vector": (
        ["B[0:4] = A[k:k + 4]"],
        ["k >= 0 and k < 8 and k + 3 >= 0 and k + 3 < 8"],
    ),
    "each round of a while": (["while 0 < J[k]:", "    J[0] = J[0] - 1"], [AT_K] * 2),
    "a size": (["S[k] = 1.0"], ["k >= 0 and k < n"]),
    "an allocation": (['L = allocate((n,), float32, "global")', "L[3] = 1.0"], ["3 < n"]),
    "a predicate": (
        ["store(B[k], A[k], predicate=k < 8)"],
        ["if_then_else(k < 8, k >= 0, True)"],
    ),
}


@pytest.mark.parametrize("name", PROVEN)
def test_what_is_proven_or_unknown_has_no_check(name: str) -> None:
    func = function_of(*PROVEN[name])
    assert InstrumentBoundCheckers()(func) is func


@pytest.mark.parametrize("name", CHECKS)
def test_the_checks(name: str) -> None:
    lines, wanted = CHECKS[name]
    assert checks(*lines) == wanted


def test_only_where_the_context_says_so() -> None:
    func = function_of("B[k] = 1.0")
    assert InstrumentBoundCheckers(by_config=True)(func) is func
    with CHECKED:
        assert InstrumentBoundCheckers(by_config=True)(func) is not func


# -- what is run


def run(func: PrimFunc) -> dict[str, Callable[..., Any]]:
    """The ways to run a function with its checks."""
    with CHECKED:
        lowered = lower_func(func, CPU)
    return {
        "a kernel": load(build_func(lowered, CPU)),
        "packed arguments": load_host(build_host(lowered, CPU)),
        "as lowered": lambda *args: interp.run(lowered, args),
        "as written": lambda *args: interp.run(InstrumentBoundCheckers()(func), args),
    }


HEAD = "def main(A: Buffer((8,), float32), J: Buffer((8,), int32), B: Buffer((8,), float32)):\n    "
READS = {
    "serial": "for i in range(8):\n        B[i] = A[J[i]]",
    "vectorized": "for i in vectorized(8):\n        B[i] = A[J[i]]",
    "unrolled": "for i in unrolled(8):\n        B[i] = A[J[i]]",
    "parallel": "for i in parallel(8):\n        B[i] = A[J[i]]",
    "vectors in a parallel loop": (
        "for i in parallel(2):\n        for j in vectorized(4):\n"
        "            B[i * 4 + j] = A[J[i * 4 + j]]"
    ),
    "an allocation": (
        'L = allocate((8,), float32, "global")\n    for i in range(8):\n        L[i] = A[i]\n'
        "    for i in range(8):\n        B[i] = L[J[i]]"
    ),
    "a store": "for i in range(8):\n        B[J[i]] = A[J[i]]",
}
VALUES = np.arange(8, dtype=np.float32)
RIGHT = np.arange(7, -1, -1, dtype=np.int32)


@pytest.mark.parametrize("name", READS)
@pytest.mark.parametrize("wrong", [-1, 8, 2**31 - 1])
def test_what_is_outside_is_reported(name: str, wrong: int) -> None:
    memory = "L" if name == "an allocation" else "A"
    message = rf"load of {memory}\[J\[.*: the index is outside of {memory}, which has 8 elements"
    indices = RIGHT.copy()
    indices[5] = wrong
    for kernel in run(parse_func(HEAD + READS[name] + "\n")).values():
        result = np.zeros_like(VALUES)
        kernel(VALUES, RIGHT, result)
        np.testing.assert_array_equal(result, VALUES if name == "a store" else VALUES[RIGHT])
        with pytest.raises((MeasureError, interp.InterpreterError), match=message):
            kernel(VALUES, indices, np.zeros_like(VALUES))


def test_nothing_outside_is_read() -> None:
    """Reading or writing the pages beside the arrays would end the process."""
    func = parse_func(f"{HEAD}for i in vectorized(8):\n        B[J[i]] = A[J[i] * 4096]\n")
    kernel = run(func)["a kernel"]
    assert outcome_at_edges(kernel, [VALUES, RIGHT], [VALUES]) == ["an error"] * 2


def test_a_statement_of_ones_own_in_te() -> None:
    A = te.placeholder((8,), name="A")

    def body(inputs: list[Any], outputs: list[Any]) -> Any:
        return BufferStore(outputs[0], inputs[0][9], (const(0),))

    B = te.extern((1,), [A], body, dtype="float32", name="B")
    with CHECKED:
        kernel = load(build(te.create_schedule(B.op), [A, B], CPU))
    with pytest.raises(MeasureError, match=r"main: assertion failed: load of A\[9\]: the index is"):
        kernel(VALUES)


def test_padding_is_no_false_alarm(same_result: SameResult) -> None:
    """Not even where the condition is data, of which nothing is known."""
    func = parse_func(
        f"{HEAD}for i in vectorized(8):\n"
        "        B[i] = if_then_else(0 <= J[i] and J[i] < 8, A[J[i]], 1.0)"
        " + Select(J[i] == 3, A[J[i]], 2.0)\n"
    )
    indices = np.array([-1, 8, 3, 0, 7, -5, 9, 2**31 - 1], np.int32)
    wanted = np.array([3, 3, 6, 2, 9, 3, 3, 3], np.float32)
    for kernel in run(func).values():
        result = np.zeros_like(VALUES)
        kernel(VALUES, indices, result)
        np.testing.assert_array_equal(result, wanted)
    same_result(func, InstrumentBoundCheckers()(func))


def gathered() -> tuple[Any, list[Any]]:
    """Rows that are looked up, padded and summed: one load has an index that is data."""
    A, J = te.placeholder((9, 5), name="A"), te.placeholder((7,), "int32", name="J")
    row = te.compute((7, 5), lambda i, j: A[J[i], j], name="row")
    padded = te.compute(
        (9, 7),
        lambda i, j: te.if_then_else(
            te.all(i >= 1, i < 8, j >= 1, j < 6), row[i - 1, j - 1], te.const(0.0)
        ),
        name="padded",
    )
    k = te.reduce_axis((0, 3), name="k")
    total = te.compute((7, 5), lambda i, j: te.sum(padded[i + k, j + k], axis=k), name="total")
    sch = te.create_schedule(total.op)
    outer = sch[total].split(total.op.axis[0], factor=3)[0]
    sch[padded].compute_at(sch[total], outer)
    sch[row].compute_at(sch[padded], padded.op.axis[0])
    sch[total].parallel(outer)
    sch[total].vectorize(total.op.axis[1])
    return sch, [A, J, total]


def test_a_schedule_with_a_gather() -> None:
    """Only the index that is data has a check, which finds what is wrong in any thread."""
    sch, args = gathered()
    with CHECKED:
        func = lower(sch, args, CPU)
    found = [s.message for s in stmts(func.body) if isinstance(s, AssertStmt)]
    assert found and all(re.match(r"load of A\[.*J\[", message) for message in found)
    table = np.arange(45, dtype=np.float32).reshape(9, 5)
    indices = np.array([8, 0, 3, 3, 1, 7, 2], np.int32)
    checked, plain = load(build_func(func, CPU)), load(build(sch, args, CPU))
    np.testing.assert_array_equal(checked(table, indices), plain(table, indices))
    indices[6] = 9
    with pytest.raises(MeasureError, match="the index is outside of A, which has 45 elements"):
        checked(table, indices)


@pytest.mark.parametrize("number", range(8))
def test_random_schedules_do_the_same(number: int) -> None:
    with CHECKED:
        outcomes = [try_program(7, number, False), try_graph(7, number, False)]
        outcomes += [try_statements(7, number)]
    assert all(outcome.what != "wrong" for outcome in outcomes), outcomes


def test_a_gpu_is_refused() -> None:
    sch, args = gathered()
    with CHECKED, pytest.raises(ConfigError, match=r"'tir\.instrument_bound_checkers' is for CPUs"):
        lower(sch, args, cuda_target())
