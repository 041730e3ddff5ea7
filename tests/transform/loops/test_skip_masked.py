"""SkipMasked: what conditions leave out is the same, and no other loops change."""

from __future__ import annotations

import numpy as np
import pytest

from autosched.driver import build_steps, schedule_ops
from autosched.runtime.cpu import load
from autosched.search.space import SearchSpace
from autosched.task import Task
from autosched.tir import interp
from autosched.tir.function import PrimFunc
from autosched.tir.parser import parse_func
from autosched.tir.stmt import BufferStore, For, IfThenElse
from autosched.tir.walk import stmts
from autosched.transform.cpu_loops import CPU_LOOPS
from autosched.transform.framework.passes import Sequential
from autosched.transform.loops.masked_tiles import extent_of
from autosched.transform.loops.skip_masked import SkipMasked
from kit.types import SameResult

CONDITIONS = {
    "lower": "j <= i",
    "strictly lower": "j < i",
    "upper": "j >= i",
    "not upper": "not (j > i)",
    "turned": "i + j < 20",
    "window": "abs(i - j) < 8",
    "two": "j <= i and j > i - 9",
    "steep": "2 * j <= i",
}
STATEMENTS = {
    "product": "C[i, k] = sum(j, A[i, j] * B[j, k] if {c} else 0)",
    "factor": "C[i, k] = sum(j, where({c}, A[i, j], 0) * B[j, k])",
    "truth value": "C[i, k] = sum(j, ({c}) * A[i, j] * B[j, k])",
    "stored": "P[i, j] = A[i, j] if {c} else 0; C[i, k] = sum(j, P[i, j] * B[j, k]) + 1",
    "maximum": "C[i] = max(j, A[i, j] if {c} else -3.4028234663852886e38)",
    "minimum": "C[i] = min(j, A[i, j] if {c} else 3.4028234663852886e38)",
    "of products": "C[i] = prod(j, A[i, j] * 0.1 + 1 if {c} else 1)",
    "scores": "S[i, j] = sum(e, A[i, e] * B[e, j]); C[i] = sum(j, S[i, j] ** 2 if {c} else 0)",
    "two stages": "S[i, j] = sum(e, A[i, e] * B[e, j]); R[i, j] = S[i, j] * 2 + D[i, j];"
    "C[i, k] = sum(j, R[i, j] if {c} else 0) * D[i, k]",
    "filled": "C[i, j] = sum(e, A[i, e] * B[e, j]) if {c} else 7.5",
}


def task_of(text: str, rows: int, columns: int) -> Task:
    """A task of `text`, whose index i has `rows` values and j has `columns`."""
    inner = "sum(e" in text
    shapes = {
        "A": (rows, 5) if inner else (rows, columns),
        "B": (5, columns) if inner else (columns, 6),
        "D": (rows, columns),
    }
    return Task.from_expression(text, {k: v for k, v in shapes.items() if f"{k}[" in text})


def loops_of(task: Task, steps: object = ()) -> PrimFunc:
    """The function that the pass gets."""
    sch, tensors = task.dag.apply_steps(steps)  # type: ignore[arg-type]
    return Sequential(CPU_LOOPS)(schedule_ops(sch, tensors))


def conditions_in(func: PrimFunc) -> int:
    return sum(isinstance(s, IfThenElse) for s in stmts(func.body))


@pytest.mark.parametrize("condition", CONDITIONS.values(), ids=CONDITIONS)
@pytest.mark.parametrize("statement", STATEMENTS.values(), ids=STATEMENTS)
def test_what_is_skipped_does_not_matter(
    statement: str, condition: str, same_result: SameResult
) -> None:
    """Rows and columns that tiles divide or not, and results bit for bit as before."""
    changed = 0
    for rows, columns in ((20, 20), (33, 150), (150, 17)):
        before = loops_of(task_of(statement.format(c=condition), rows, columns))
        after = SkipMasked()(before)
        same_result(before, after)
        changed += after is not before and conditions_in(after) > conditions_in(before)
    assert changed


@pytest.mark.parametrize("statement", STATEMENTS.values(), ids=STATEMENTS)
def test_candidates_are_right(statement: str) -> None:
    task = task_of(statement.format(c="j <= i"), 70, 134)
    inputs = task.inputs(seed=1)
    (want,) = task.reference(inputs)
    for steps in SearchSpace(task).sample(np.random.default_rng(0), 4):
        got = np.empty_like(want)
        load(build_steps(task.dag, steps, task.target))(*inputs, got)
        np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-4)


def test_a_third_of_what_is_left_out_is_read_by_nobody() -> None:
    """What an infinite or NaN weight meets is zero: it is no factor of the product then."""
    task = task_of("C[i, k] = sum(j, where(j <= i, A[i, j], 0) * B[j, k])", 300, 300)
    a, b = np.ones((300, 300), np.float32), np.ones((300, 6), np.float32)
    b[299] = np.nan
    got = np.empty((300, 6), np.float32)
    load(build_steps(task.dag, (), task.target))(a, b, got)
    np.testing.assert_array_equal(got[:100, 0], np.arange(1, 101))
    assert np.isnan(got[299]).all()


@pytest.mark.parametrize(
    ("loops", "sizes"),
    [("ijk", {"i.i": 8, "j.i": 32}), ("ikj", {"i.i": 8, "j.i": 128})],
    ids=["lanes along the result", "lanes along the sum"],
)
def test_tiles_fit_narrow_windows(loops: str, sizes: dict[str, int]) -> None:
    """A tile beside a window of 15 is mostly steps that need not run."""
    extents = {"i": 512, "j": 512, "k": 16}
    body = "".join(
        f"{' ' * 4 * d}for {v} in range({extents[v]}):\n" for d, v in enumerate(loops, 1)
    )
    func = parse_func(f"""
def main(A: Buffer((512, 512), float32), C: Buffer((512, 16), float32)):
    attrs(tir.noalias=True)
{body}                C[i, k] = C[i, k] + if_then_else(j - i < 8 and i - j < 8, A[i, j], 0.0)
""")
    tiles = [s for s in stmts(SkipMasked()(func).body) if isinstance(s, For)]
    assert sizes == {s.loop_var.name: extent_of(s) for s in tiles if s.loop_var.name.endswith(".i")}


def test_scores_behind_the_condition_are_not_computed() -> None:
    func = SkipMasked()(loops_of(task_of(STATEMENTS["two stages"].format(c="j <= i"), 64, 128)))
    tiles = [s for s in stmts(func.body) if isinstance(s, IfThenElse)]
    inside = {x.buffer.name for s in tiles for x in stmts(s) if isinstance(x, BufferStore)}
    assert {"S", "R"} <= inside


UNCHANGED = {
    "border": "C[i] = sum(j < 3, A[i + j - 1, 0] if 1 <= i + j and i + j < 41 else 0)",
    "half": "C[i] = A[i, 0] if i < 20 else 0",
    "data": "C[i, k] = sum(j, A[i, j] * B[j, k] if A[i, j] <= B[j, k] else 0)",
    "other number": "C[i] = sum(j, A[i, j] if j <= i else 2)",
    "least of a sum": "C[i] = sum(j, A[i, j] if j <= i else -3.4028234663852886e38)",
    "zero of a maximum": "C[i] = max(j, A[i, j] if j <= i else 0)",
    "always": "C[i] = sum(j, A[i, j] if j <= i + 100 else 0)",
    "equal": "C[i, k] = sum(j, A[i, j] * B[j, k] if j == i else 0)",
}


@pytest.mark.parametrize("text", UNCHANGED.values(), ids=UNCHANGED)
def test_others_stay(text: str) -> None:
    shapes = {"A": (40, 40), "B": (40, 6)}
    given: dict[str, tuple[int, ...]] = {k: v for k, v in shapes.items() if f"{k}[" in text}
    if "i + j - 1" in text:
        given["C"] = (40,)
    func = loops_of(Task.from_expression(text, given))
    assert SkipMasked()(func) is func


HEAD = "def main(A: Buffer((64, 300), float32), C: Buffer((400,), float32)):\n"
STEP = "if_then_else(j <= i, A[i, j], 0.0)"
BODIES = {
    "elements of several iterations": f"""
    for i in range(64):
        for j in range(300):
            C[i + j] = C[i + j] + {STEP}
""",
    "another element": f"""
    for i in range(64):
        for j in range(300):
            C[i * 2 + 1] = C[i * 2] + {STEP}
""",
    "a condition that reads memory": f"""
    for i in range(64):
        for j in range(300):
            if A[i, 0] < 1.0:
                C[i] = C[i] + {STEP}
""",
    "no number": """
    for i in range(64):
        for j in range(300):
            C[i] = if_then_else(j <= i, A[i, j], C[i + 100])
""",
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_steps_keep_their_order(body: str) -> None:
    func = parse_func(f"{HEAD}    attrs(tir.noalias=True){body}")
    assert SkipMasked()(func) is func


def test_steps_of_one_element_that_two_loops_reach_keep_their_order() -> None:
    """The element of i, r and j is also that of i + 1, r - 1 and j - 1."""
    func = parse_func("""
def main(A: Buffer((64, 300), float32), C: Buffer((67, 303), float32)):
    attrs(tir.noalias=True)
    for i in range(64):
        for r in range(4):
            for j in range(300):
                C[i + r, j + 3 - r] = C[i + r, j + 3 - r] + if_then_else(j <= i, A[i, j], 0.0)
""")
    after = SkipMasked()(func)
    for seed in range(3):
        a = np.random.default_rng(seed).standard_normal((64, 300), np.float32)
        expected, found = (np.zeros((67, 303), np.float32) for _ in range(2))
        interp.run(func, [a, expected])
        interp.run(after, [a, found])
        np.testing.assert_array_equal(found, expected)


def test_two_sums_of_one_element_keep_their_order(same_result: SameResult) -> None:
    """An outer loop of the sum that no condition asks for is not moved into tiles."""
    func = parse_func(f"""{HEAD}
    attrs(tir.noalias=True)
    for i in range(64):
        for r in range(2):
            for j in range(300):
                C[i] = C[i] * 1.0 + A[r, j]
        for r_1 in range(3):
            for j_1 in range(300):
                C[i] = C[i] + {STEP.replace("j", "j_1")} * A[r_1, j_1]
""")
    after = SkipMasked()(func)
    assert after is not func
    same_result(func, after)


@pytest.mark.parametrize(
    "reader",
    ["C[i] = S[i, 63]", "C[i] = A[i, int32(S[i, i])]"],
    ids=["read elsewhere", "its place is read"],
)
def test_what_is_read_without_the_condition_is_computed(
    reader: str, same_result: SameResult
) -> None:
    func = parse_func(f"""{HEAD}
    attrs(tir.noalias=True)
    realize(S[0:64, 0:300], float32, "")
    for i in range(64):
        for j in range(300):
            S[i, j] = A[i, j] * 0.0
    for i_1 in range(64):
        for j_1 in range(300):
            C[i_1] = C[i_1] + if_then_else(j_1 <= i_1, S[i_1, j_1], 0.0)
    for i_2 in range(64):
        {reader.replace("[i", "[i_2").replace(", i]", ", i_2]")}
""")
    after = SkipMasked()(func)
    same_result(func, after)
    first = next(s for s in stmts(after.body) if isinstance(s, BufferStore))
    assert first.buffer.name == "S"
    assert conditions_in(after) == 1


def test_a_place_that_is_read_is_computed_also_where_its_reader_is_skipped() -> None:
    """Tiles have steps that need not run, too; these would read anywhere."""
    text = """
    P[i, j] = I[i, j] + 0
    S[i, j] = A[P[i, j]] * 2
    C[i] = sum(j, S[i, j] if j <= i else 0)
    """.replace("\n    ", "\n").strip()
    shapes = {"I": (40, 100), "A": (30,)}
    types = {"I": "int32", "P": "int32", "A": "float32", "S": "float32", "C": "float32"}
    task = Task.from_expression(text, shapes, dtype=types)
    after = SkipMasked()(loops_of(task))
    tiles = [s for s in stmts(after.body) if isinstance(s, IfThenElse)]
    inside = {x.buffer.name for s in tiles for x in stmts(s) if isinstance(x, BufferStore)}
    assert "S" in inside and "P" not in inside
