import itertools
from typing import Never

import pytest

from autosched.tir.buffer import decl_buffer
from autosched.tir.expr import IntImm, Var
from autosched.tir.function import PrimFunc
from autosched.tir.stmt import BufferStore, For, ForKind
from autosched.transform.expressions.simplify import Simplify
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.instruments import (
    PassTiming,
    PrintAfter,
    PrintDiff,
    Verify,
)
from autosched.transform.framework.passes import Sequential
from autosched.transform.loops.remove_no_op import RemoveNoOp
from kit.types import MakeFunc


@pytest.fixture
def func(make_func: MakeFunc) -> PrimFunc:
    A, i = decl_buffer((64,), "float32", "A"), Var("i")
    store = BufferStore(A, A[i] + 1.0, (i + i,))
    return make_func(For(i, IntImm(0), IntImm(8), ForKind.SERIAL, store), A)


PASSES = Sequential((Simplify(), RemoveNoOp()), label="cleanup")


def test_printing(func: PrimFunc) -> None:
    lines: list[str] = []
    with PassContext(instruments=[PrintAfter(("Simplify",), lines.append)]):
        PASSES(func)
    (text,) = lines
    assert text.startswith("# after Simplify\ndef main(") and "A[i * 2]" in text


def test_diff_shows_only_what_changed(func: PrimFunc) -> None:
    diffs: list[str] = []
    with PassContext(instruments=[PrintDiff(diffs.append)]):
        Sequential((Simplify(), Simplify()))(func)
    inner, whole = diffs
    assert "before Simplify" in inner and "+" in inner
    assert "before Sequential" in whole


def test_timing_tree(func: PrimFunc) -> None:
    ticks = itertools.count()
    timing = PassTiming(clock=lambda: next(ticks) * 1e-6)
    with PassContext(instruments=[timing]):
        PASSES(func)
        text = timing.render()
    assert text == (
        "cleanup: 5 us [3 us] (100.00%; 100.00%)\n"
        "\tSimplify: 1 us [1 us] (20.00%; 20.00%)\n"
        "\tRemoveNoOp: 1 us [1 us] (20.00%; 20.00%)"
    )
    assert timing.render() == ""  # leaving the context clears the tree


def test_rendering_inside_a_pass_is_refused(func: PrimFunc) -> None:
    timing = PassTiming()
    timing.run_before_pass(func, Simplify().info)
    with pytest.raises(RuntimeError, match="inside a running pass: Simplify"):
        timing.render()


def test_verify_names_the_pass(func: PrimFunc) -> None:
    def check(_: PrimFunc) -> Never:
        raise ValueError("broken")

    with (
        PassContext(instruments=[Verify(check)]),
        pytest.raises(ValueError, match="broken") as info,
    ):
        Simplify()(func)
    assert "after pass Simplify on main" in info.value.__notes__[0]


def test_verify_checks_again_only_what_a_pass_made(func: PrimFunc) -> None:
    seen: list[PrimFunc] = []
    with PassContext(instruments=[Verify(seen.append)]):
        done = PASSES(func)
        PASSES(done)
    assert len(seen) == len({id(f) for f in seen})
    assert seen[-1] is done
