"""InstrumentProfileIntrinsics: seed document 003's example, and which loops get brackets."""

from __future__ import annotations

import re
import textwrap

import pytest

from autosched.tir.function import PrimFunc
from autosched.tir.parser import parse_func
from autosched.tir.printer import to_text
from autosched.transform.framework.context import PassContext
from autosched.transform.loops.instrument_profile_intrinsics import InstrumentProfileIntrinsics
from kit.types import SameResult

SHAPE = "Buffer((8, 8, 128), int32)"
HEAD = f"""\
def main(A: {SHAPE}, B: {SHAPE}, C: {SHAPE}):
    with block("root"):
        for i in range(8):
            for j in range(8):
"""
NEST = """\
for k in range(8):
    for l in range(16):
        with block("{to}"):
            vi = axis.data_par(0:8, i)
            vj = axis.data_par(0:8, j)
            vk = axis.data_par(0:8, k)
            vl = axis.data_par(0:16, l)
            reads({of}[vi:vi + 1, vj:vj + 1, vk * 16 + vl:vk * 16 + vl + 1])
            writes({to}[vi:vi + 1, vj:vj + 1, vk * 16 + vl:vk * 16 + vl + 1])
            {to}[vi, vj, vk * 16 + vl] = {of}[vi, vj, vk * 16 + vl] * 2
"""


def test_the_example_of_the_seed(same_result: SameResult) -> None:
    """Blocks B and C: ids 3 and 5. The seed leaves out the brackets of the function, id 0."""
    nests = [NEST.format(to="B", of="A"), NEST.format(to="C", of="B")]
    before = parse_func(HEAD + textwrap.indent("".join(nests), " " * 16))
    bracketed = "".join(
        f"start_profile_intrinsic({n})\n{nest}end_profile_intrinsic({n})\n"
        for n, nest in zip((3, 5), nests, strict=True)
    )
    after = InstrumentProfileIntrinsics(reset_start_id=True, disable_func_prof=True)(before)
    wanted = parse_func(HEAD + textwrap.indent(bracketed, " " * 16))
    assert to_text(after) == to_text(wanted)
    same_result(before, after)


LOOPS = """\
def main(A: Buffer((8, 8, 8, 8), int32)):
    for i in range(8):
        for j in range(8):
            for k in range(8):
                for l in range(8):
                    A[i, j, k, l] = 1
            for k in range(8):
                if k < 4:
                    for l in range(8):
                        A[i, j, k, l] = 2
"""
PARALLEL = """\
def main(A: Buffer((8, 8, 8), int32)):
    for i in parallel(8):
        for j in range(8):
            for k in range(8):
                A[i, j, k] = 1
        for j in range(8):
            for k in range(8):
                A[i, j, k] = A[i, j, k] + 2
    for i in range(8):
        for j in range(8):
            A[i, j, 0] = 3
        for j in parallel(8):
            for k in range(8):
                A[i, j, k] = 4
"""


def ids(func: PrimFunc) -> list[int]:
    """The ids that are started, in order; each is ended once."""
    text = to_text(func)
    starts, ends = (re.findall(rf"{w}_profile_intrinsic\((\d+)\)", text) for w in ("start", "end"))
    assert sorted(starts) == sorted(ends) and len(set(starts)) == len(starts)
    return list(map(int, starts))


@pytest.mark.parametrize(
    ("text", "options", "wanted"),
    [
        (LOOPS, {}, [0, 3, 5]),
        (LOOPS, {"min_height": 2}, [0]),
        (LOOPS, {"min_height": 0}, [0, 3, 5]),  # l has no siblings
        (LOOPS, {"siblings": False}, [0, 1]),
        (LOOPS, {"siblings": False, "max_depth": 2, "min_height": 0}, [0, 1, 2, 3, 5]),
        (LOOPS, {"siblings": False, "max_depth": 9}, [0, 1, 2, 3, 5]),
        (LOOPS, {"disable_func_prof": True}, [3, 5]),
        # FIX-2: TVM brackets j inside the outermost parallel loop. Siblings at the root are none.
        (PARALLEL, {"min_height": 0}, [0, 7, 8]),
        (PARALLEL, {"siblings": False, "max_depth": 9, "min_height": 0}, [0, 1, 6, 7, 8]),
    ],
)
def test_which_loops(
    text: str, options: dict[str, int], wanted: list[int], same_result: SameResult
) -> None:
    before = parse_func(text)
    after = InstrumentProfileIntrinsics(**{**options, "reset_start_id": True})(before)  # type: ignore[arg-type]  # bools are ints
    assert ids(after) == wanted
    same_result(before, after)


def test_ids_are_unique_in_the_process() -> None:
    func = parse_func(LOOPS)
    first = ids(InstrumentProfileIntrinsics(reset_start_id=True)(func))
    second = ids(InstrumentProfileIntrinsics()(func))
    assert second == [n + 7 for n in first]


def test_the_settings_of_a_context() -> None:
    func = parse_func(LOOPS)
    by_config = InstrumentProfileIntrinsics(by_config=True)
    assert by_config(func) is func
    config = {
        "tir.instrument_lwp": True,
        "tir.instr_siblings": False,
        "tir.lwp_max_depth": 1,
        "tir.lwp_min_height": 2,
        "tir.lwp_disable_func_prof": True,
        "tir.reset_start_id": True,
    }
    with PassContext(config=config):
        assert ids(by_config(func)) == [1, 2]
