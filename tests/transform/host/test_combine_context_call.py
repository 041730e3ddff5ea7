"""Where contexts are computed, and how often."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from autosched.errors import CompileError
from autosched.tir import interp
from autosched.tir.parser import parse_func
from autosched.tir.verify import verify
from autosched.transform.host.combine_context_call import CombineContextCall

CONTEXT = 'tvm_thread_context(call_extern("context", {}, dtype=handle))'


def use(*args: str) -> str:
    return f'call_extern("fadd", {", ".join(CONTEXT.format(a) for a in args)}, dtype=int32)'


def combined(body: str, calls: int | None = None) -> list[str]:
    """The lines after the pass; both programs use the same contexts.

    The second asks for `calls` of them, where that is given.
    """
    text = f'def main(n: int32):\n    attrs(target="cpu")\n{body}'
    before = parse_func(text)
    after = CombineContextCall()(before)
    verify(after)
    seen: list[Any] = []
    asked: list[int] = []
    interp.register_extern("fadd", lambda *args: seen.append(args))

    def context(*args: Any) -> tuple[Any, ...]:
        asked.append(0)
        return args

    interp.register_extern("context", context)
    interp.run(before, [3])
    first = seen.copy()
    seen.clear()
    asked.clear()
    interp.run(after, [3])
    assert seen == first
    assert calls is None or len(asked) == calls
    assert CombineContextCall()(after) is after
    return [line.strip() for line in repr(after).splitlines()[2:]]


def test_the_example_of_the_seed() -> None:
    """Document 003: contexts in the order in which they are met, outside of the allocation."""

    def fadd(number: int) -> str:
        context = CONTEXT.format(f"dev_type, {number}")
        return f'call_extern("fadd", {context}, A, dtype=int32)'

    before = parse_func(f"""\
def main(dev_type: int32, n: int32):
    attrs(target="llvm")
    A = allocate((n,), float32, "global")
    for i in range(n):
        {fadd(0)}
        for j in range(10):
            {fadd(1)}
            {fadd(0)}
""")
    assert (
        repr(CombineContextCall()(before))
        == """\
def main(dev_type: int32, n: int32):
    attrs(target="llvm")
    ctx_cache_: handle = call_extern("context", dev_type, 0)
    ctx_cache__1: handle = call_extern("context", dev_type, 1)
    A = allocate((n,), float32, "global")
    for i in range(n):
        call_extern("fadd", ctx_cache_, A, dtype=int32)
        for j in range(10):
            call_extern("fadd", ctx_cache__1, A, dtype=int32)
            call_extern("fadd", ctx_cache_, A, dtype=int32)"""
    )


def test_regions_have_contexts_of_their_own() -> None:
    lines = combined(
        f"    {use('0')}\n    for i in parallel(n):\n        {use('0')}\n        {use('0')}\n", 2
    )
    assert lines == [
        'ctx_cache_: handle = call_extern("context", 0)',
        'call_extern("fadd", ctx_cache_, dtype=int32)',
        'ctx_cache__1: handle = call_extern("context", 0)',
        "for i in parallel(n):",
        *['call_extern("fadd", ctx_cache__1, dtype=int32)'] * 2,
    ]


def test_what_depends_on_a_loop_is_computed_in_it() -> None:
    """The reference hoists it all the same, and leaves a variable that nothing binds (FIX-21)."""
    lines = combined(
        f"""\
    for i in range(n):
        for j in range(2):
            {use("i", "i + j", "n", "i")}
""",
        1 + 3 + 6,
    )
    places = [line.split(" ")[0] for line in lines]
    assert places[0].startswith("ctx_cache_") and places[1] == "for"
    assert places[2].startswith("ctx_cache_") and places[3] == "for"
    assert places[4].startswith("ctx_cache_")


def test_contexts_of_contexts() -> None:
    inner = CONTEXT.format("i")
    outer = f'tvm_thread_context(call_extern("context", {inner}, dtype=handle))'
    lines = combined(
        f'    for i in range(n):\n        call_extern("fadd", {outer}, {inner}, dtype=int32)\n', 6
    )
    assert lines[0] == "for i in range(n):"


def test_one_that_reads_memory_stays_where_it_is() -> None:
    lines = combined(
        f"""\
    A = allocate((1,), int32, "global")
    for i in range(n):
        A[0] = i
        {use("A[0]")}
""",
        3,
    )
    assert not any(line.startswith("ctx_cache_") for line in lines)


@pytest.mark.parametrize("seed", range(6))
def test_random_programs_use_the_same_contexts(seed: int) -> None:
    rng = np.random.default_rng(seed)

    def lines(depth: int, indent: str, known: list[str]) -> list[str]:
        found: list[str] = []
        for _ in range(int(rng.integers(1, 4))):
            new = f"v{int(rng.integers(0, 10**9))}"
            args = [f"{rng.choice(known)} + {int(rng.integers(0, 2))}" for _ in range(2)]
            head = (
                f"for {new} in range(2):",
                f"for {new} in parallel(2):",
                f"with {new}: int32 = {args[0]}:",
                f"if {args[0]} < 2:",
            )[int(rng.integers(0, 4))]
            if depth and rng.random() < 0.6:
                inside = known if head.startswith("if") else [*known, new]
                found += [indent + head, *lines(depth - 1, indent + "    ", inside)]
            else:
                found.append(indent + use(*args))
        return found

    combined("\n".join(lines(3, "    ", ["n"])) + "\n")


def test_functions_that_are_not_the_hosts_stay() -> None:
    func = parse_func(f"def main(n: int32):\n    {use('n')}\n")
    assert CombineContextCall()(func) is func
    kernel = func.with_attrs(target="cuda")
    assert CombineContextCall()(kernel) is kernel


def test_functions_without_contexts_stay_however_deep_they_are() -> None:
    lines = "".join(f"    x{k}: int32 = A[{k}]\n    A[0] = x{k}\n" for k in range(1500))
    head = 'def main(A: Buffer((1500,), int32)):\n    attrs(target="cpu")\n'
    func = parse_func(head + lines)
    assert CombineContextCall()(func) is func


def test_a_context_is_a_handle() -> None:
    text = 'def main(n: int32):\n    attrs(target="cpu")\n    tvm_thread_context(n)'
    with pytest.raises(CompileError, match="a context is a handle"):
        CombineContextCall()(parse_func(text))
