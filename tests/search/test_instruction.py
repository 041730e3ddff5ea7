"""Candidates that use a tensor instruction: where it fits, and that they compute the same."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from autosched import te
from autosched.driver import lower_func, lower_steps
from autosched.errors import ConfigError, ScheduleError
from autosched.measure import ansor_log
from autosched.measure.result import MeasureResult
from autosched.runtime.cpu import build_artifact, load
from autosched.search.initial import may_move
from autosched.search.options import SearchOptions
from autosched.search.population import Structures, moved_factors
from autosched.search.rules import instruction as instruction_rule
from autosched.search.rules.instruction import fixed_splits
from autosched.search.rules.protocol import Context
from autosched.search.space import SearchSpace
from autosched.state.dag import ComputeDAG
from autosched.state.iterator import Annotation
from autosched.state.python_schedule import python_schedule
from autosched.state.stage import ComputeAt
from autosched.state.state import State
from autosched.state.steps import InstructionStep, SplitStep, Step, steps_from_json, steps_to_json
from autosched.target import cpu_target
from autosched.task import Task
from autosched.te.intrin.registry import available, instruction
from autosched.te.lowering.to_prim_func import schedule_to_prim_func
from autosched.te.operations.tensor import Tensor
from autosched.tir.equal import structural_equal
from autosched.tir.expr import Expr
from autosched.tir.interp import run
from autosched.tir.stmt import Allocate, BufferRealize
from autosched.tir.walk import stmts
from autosched.workloads.evaluate import evaluate

TARGET = cpu_target(1)
TYPES = {
    "vpdpbusd.zmm": ("uint8", "int8", "int32"),
    "vpdpbusd.zmm.s8": ("int8", "int8", "int32"),
    "vpdpwssd.zmm": ("int16", "int16", "int32"),
    "vdpbf16ps.zmm": ("bfloat16", "bfloat16", "float32"),
    "vpmaddwd.ymm": ("int16", "int16", "int32"),
    "vpmaddwd.zmm.s8.u8": ("int8", "uint8", "int32"),
    "vfmadd.zmm.f16": ("float16", "float16", "float32"),
    "vpmaddwd.ymm.s8": ("int8", "int8", "int32"),
    "vpmaddwd.ymm.u8.s8": ("uint8", "int8", "int32"),
    "vfmadd.ymm.bf16": ("bfloat16", "bfloat16", "float32"),
    "vfmadd.ymm.f16": ("float16", "float16", "float32"),
    "amx.tdpbssd": ("int8", "int8", "int32"),
    "amx.tdpbf16ps": ("bfloat16", "bfloat16", "float32"),
    "amx.tdpbf16ps.f16": ("float16", "float16", "float32"),
}


def product(
    types: tuple[str, str, str], m: int, n: int, k: int, *, turned: bool = False
) -> list[Tensor]:
    """A, B (`turned`: [n, k]), and a bias and relu of their product."""
    a, b, c = types
    left, right = (
        te.placeholder((m, k), a, "A"),
        te.placeholder((n, k) if turned else (k, n), b, "B"),
    )
    bias = te.placeholder((n,), c, "bias")
    total = _product(left, right, c, turned)
    out = te.compute((m, n), lambda i, j: te.max(total[i, j] + bias[j], te.const(0, c)), "D")
    return [left, right, bias, out]


def of_computed_weights(
    types: tuple[str, str, str], m: int, n: int, k: int, *, turned: bool = False
) -> list[Tensor]:
    """The product of A and weights that a stage of their own computes."""
    a, b, c = types
    shape = (n, k) if turned else (k, n)
    left, given = te.placeholder((m, k), a, "A"), te.placeholder(shape, "float32", "W")
    right = te.compute(shape, lambda i, j: (given[i, j] + 1.0).astype(b), "B")
    return [left, given, _product(left, right, c, turned)]


def _product(left: Tensor, right: Tensor, dtype: str, turned: bool) -> Tensor:
    """The product of two matrices, of which the second may be transposed."""
    (m, k), n = left.shape, right.shape[0 if turned else 1]
    r = te.reduce_axis((0, k), "r")

    def element(i: Expr, j: Expr) -> Expr:
        weight = right[j, r] if turned else right[r, j]
        total: Expr = te.sum(left[i, r].astype(dtype) * weight.astype(dtype), axis=r)
        return total

    product: Tensor = te.compute((m, n), element, "C")
    return product


def batches(types: tuple[str, str, str], b: int, m: int, n: int, k: int) -> list[Tensor]:
    """The products of b pairs of matrices."""
    left, right = (
        te.placeholder((b, m, k), types[0], "A"),
        te.placeholder((b, k, n), types[1], "B"),
    )
    r, c = te.reduce_axis((0, k), "r"), types[2]
    out = te.compute(
        (b, m, n),
        lambda h, i, j: te.sum(left[h, i, r].astype(c) * right[h, r, j].astype(c), axis=r),
        "C",
    )
    return [left, right, out]


def mixture(types: tuple[str, str, str], experts: int, m: int, n: int, k: int) -> list[Tensor]:
    """The products of four groups of rows, each with the matrix of an expert that data choose."""
    left = te.placeholder((4, m, k), types[0], "A")
    right = te.placeholder((experts, k, n), types[1], "B")
    chosen = te.placeholder((4,), "uint8", "I")
    r, c = te.reduce_axis((0, k), "r"), types[2]
    out = te.compute(
        (4, m, n),
        lambda h, i, j: te.sum(
            left[h, i, r].astype(c) * right[chosen[h] % experts, r, j].astype(c), axis=r
        ),
        "C",
    )
    return [left, right, chosen, out]


def embedded(types: tuple[str, str, str], words: int, m: int, n: int, k: int) -> list[Tensor]:
    """The product of rows of a table that data choose and a matrix."""
    left, right = te.placeholder((words, k), types[0], "A"), te.placeholder((k, n), types[1], "B")
    chosen = te.placeholder((m,), "uint8", "I")
    r, c = te.reduce_axis((0, k), "r"), types[2]
    out = te.compute(
        (m, n),
        lambda i, j: te.sum(
            left[chosen[i].astype("int32") % words, r].astype(c) * right[r, j].astype(c), axis=r
        ),
        "C",
    )
    return [left, right, chosen, out]


def convolution(
    types: tuple[str, str, str], size: int, ci: int, co: int, *, rows: int | None = None
) -> list[Tensor]:
    a, b, c = types
    rows = rows or size
    left, right = (
        te.placeholder((1, rows, size, ci), a, "A"),
        te.placeholder((3, 3, ci, co), b, "B"),
    )
    y, x, r = (te.reduce_axis((0, e), name) for e, name in ((3, "y"), (3, "x"), (ci, "r")))
    out = te.compute(
        (1, rows - 2, size - 2, co),
        lambda n, i, j, o: te.sum(
            left[n, i + y, j + x, r].astype(c) * right[y, x, r, o].astype(c), axis=[y, x, r]
        ),
        "C",
    )
    return [left, right, out]


def padded(types: tuple[str, str, str], size: int, ci: int, co: int, step: int) -> list[Tensor]:
    """A convolution of three rows and columns with a border, every `step` of them."""
    a, b, c = types
    left, right = te.placeholder((size, size, ci), a, "A"), te.placeholder((3, 3, ci, co), b, "B")
    border = te.compute(
        (size + 2, size + 2, ci),
        lambda i, j, r: te.if_then_else(
            te.all(i >= 1, i <= size, j >= 1, j <= size), left[i - 1, j - 1, r], te.const(0, a)
        ),
        "border",
    )
    y, x, r = (te.reduce_axis((0, e), name) for e, name in ((3, "y"), (3, "x"), (ci, "r")))
    out = te.compute(
        ((size - 1) // step + 1, (size - 1) // step + 1, co),
        lambda i, j, o: te.sum(
            border[i * step + y, j * step + x, r].astype(c) * right[y, x, r, o].astype(c),
            axis=[y, x, r],
        ),
        "C",
    )
    return [left, right, out]


def space_of(tensors: list[Tensor], *names: str) -> SearchSpace:
    dag, options = ComputeDAG(tensors), SearchOptions(space="autosched")
    found = tuple(map(instruction, names))
    return SearchSpace.of(Context(dag, TARGET.hardware, False, options, found))


def using(space: SearchSpace) -> list[State]:
    return [s for s in space.sketches if any(isinstance(p, InstructionStep) for p in s.steps)]


def arrays(tensors: list[Tensor], rng: np.random.Generator) -> list[np.ndarray[Any, Any]]:
    found = []
    for tensor in tensors:
        shape = [int(e.value) for e in tensor.shape]  # type: ignore[attr-defined]  # constants
        most = 511 if tensor.dtype.name == "float16" else 100  # nine bits: more than bfloat16 has
        values = rng.integers(-most, most, shape)
        found.append(
            (np.abs(values) if tensor.dtype.name[0] == "u" else values).astype(tensor.dtype.numpy)
        )
    return found


CASES: dict[str, tuple[str, list[Tensor]]] = {
    "tiles divide": ("vpdpbusd.zmm", product(TYPES["vpdpbusd.zmm"], 24, 64, 16)),
    "nothing divides": ("vpdpbusd.zmm", product(TYPES["vpdpbusd.zmm"], 17, 50, 33)),
    "signed bytes": ("vpdpbusd.zmm.s8", product(TYPES["vpdpbusd.zmm.s8"], 17, 50, 33)),
    "signed bytes, tiles divide": (
        "vpdpbusd.zmm.s8",
        product(TYPES["vpdpbusd.zmm.s8"], 24, 64, 16),
    ),
    "signed bytes of batches": ("vpdpbusd.zmm.s8", batches(TYPES["vpdpbusd.zmm.s8"], 3, 9, 33, 20)),
    "signed bytes of images": ("vpdpbusd.zmm.s8", padded(TYPES["vpdpbusd.zmm.s8"], 6, 5, 20, 1)),
    "signed bytes by rows": (
        "vpdpbusd.zmm.s8",
        product(TYPES["vpdpbusd.zmm.s8"], 9, 64, 128, turned=True),
    ),
    "16 bits": ("vpdpwssd.zmm", product(TYPES["vpdpwssd.zmm"], 5, 31, 17)),
    "bfloat16": ("vdpbf16ps.zmm", product(TYPES["vdpbf16ps.zmm"], 13, 40, 15)),
    "bfloat16 by rows": ("vdpbf16ps.zmm", product(TYPES["vdpbf16ps.zmm"], 6, 32, 32, turned=True)),
    "float16 by rows": ("vfmadd.zmm.f16", product(TYPES["vfmadd.zmm.f16"], 6, 32, 32, turned=True)),
    "bytes by rows, as int16": (
        "vpmaddwd.zmm.s8.u8",
        product(TYPES["vpmaddwd.zmm.s8.u8"], 14, 64, 64, turned=True),
    ),
    "convolution": ("vpdpbusd.zmm", convolution(TYPES["vpdpbusd.zmm"], 7, 6, 20)),
    "pairs in place": ("vpmaddwd.ymm", product(TYPES["vpmaddwd.ymm"], 12, 32, 16)),
    "bytes in pairs": ("vpmaddwd.ymm.s8", product(TYPES["vpmaddwd.ymm.s8"], 24, 64, 16)),
    "bytes in pairs, nothing divides": (
        "vpmaddwd.ymm.s8",
        product(TYPES["vpmaddwd.ymm.s8"], 17, 34, 9),
    ),
    "bytes in pairs by rows": (
        "vpmaddwd.ymm.s8",
        product(TYPES["vpmaddwd.ymm.s8"], 24, 64, 16, turned=True),
    ),
    "convolution in pairs": (
        "vpmaddwd.ymm.u8.s8",
        padded(TYPES["vpmaddwd.ymm.u8.s8"], 6, 5, 20, 1),
    ),
    "bfloat16 as float32": ("vfmadd.ymm.bf16", product(TYPES["vfmadd.ymm.bf16"], 17, 34, 9)),
    "float16 as float32": ("vfmadd.ymm.f16", padded(TYPES["vfmadd.ymm.f16"], 5, 8, 16, 2)),
    "whole tiles": ("amx.tdpbssd", product(TYPES["amx.tdpbssd"], 32, 48, 128)),
    "parts of tiles": ("amx.tdpbssd", product(TYPES["amx.tdpbssd"], 17, 50, 33)),
    "tiles of bfloat16": ("amx.tdpbf16ps", product(TYPES["amx.tdpbf16ps"], 20, 35, 40)),
    "weights by rows": ("vpdpbusd.zmm", product(TYPES["vpdpbusd.zmm"], 24, 64, 16, turned=True)),
    "tiles of weights by rows": (
        "amx.tdpbf16ps",
        product(TYPES["amx.tdpbf16ps"], 32, 64, 64, turned=True),
    ),
    "parts of weights by rows": (
        "amx.tdpbf16ps.f16",
        product(TYPES["amx.tdpbf16ps.f16"], 32, 64, 64, turned=True),
    ),
    "convolution by tiles": ("amx.tdpbssd", convolution(TYPES["amx.tdpbssd"], 18, 64, 16)),
    "tiles over rows of the image": ("amx.tdpbssd", padded(TYPES["amx.tdpbssd"], 6, 33, 32, 1)),
    "parts over rows of the image": (
        "amx.tdpbf16ps.f16",
        convolution(TYPES["amx.tdpbf16ps.f16"], 18, 32, 32, rows=6),
    ),
    "rows in steps of two": ("amx.tdpbssd", padded(TYPES["amx.tdpbssd"], 11, 33, 20, 2)),
    "parts of float16": ("amx.tdpbf16ps.f16", product(TYPES["amx.tdpbf16ps.f16"], 32, 64, 64)),
    "parts of float16 in parts of tiles": (
        "amx.tdpbf16ps.f16",
        padded(TYPES["amx.tdpbf16ps.f16"], 5, 33, 16, 2),
    ),
    "experts": ("vpdpbusd.zmm", mixture(TYPES["vpdpbusd.zmm"], 5, 9, 33, 20)),
    "experts, signed bytes": ("vpdpbusd.zmm.s8", mixture(TYPES["vpdpbusd.zmm.s8"], 3, 9, 64, 16)),
    "experts, tiles": ("amx.tdpbf16ps", mixture(TYPES["amx.tdpbf16ps"], 3, 32, 48, 64)),
    "rows of a table": ("vdpbf16ps.zmm", embedded(TYPES["vdpbf16ps.zmm"], 50, 13, 40, 16)),
    "packed rows of a table": (
        "vpdpbusd.zmm.s8",
        embedded(TYPES["vpdpbusd.zmm.s8"], 11, 13, 40, 16),
    ),
    "computed weights": ("vpdpbusd.zmm", of_computed_weights(TYPES["vpdpbusd.zmm"], 24, 64, 16)),
    "computed weights by rows": (
        "vdpbf16ps.zmm",
        of_computed_weights(TYPES["vdpbf16ps.zmm"], 24, 64, 32, turned=True),
    ),
    "tiles of computed weights": (
        "amx.tdpbf16ps",
        of_computed_weights(TYPES["amx.tdpbf16ps"], 32, 48, 64),
    ),
    "fewer rows than a tile": ("amx.tdpbf16ps", product(TYPES["amx.tdpbf16ps"], 5, 35, 40)),
}


@pytest.mark.parametrize("case", CASES)
def test_computes_the_same(case: str) -> None:
    """Bit for bit: machine code, where this CPU has the instruction, and the interpreter.

    The latter runs one sketch then, both elsewhere.
    """
    name, tensors = CASES[case]
    space, rng = space_of(tensors, name), np.random.default_rng(0)
    dag = space.context.dag
    values = arrays(tensors[:-1], rng)
    (expected,) = evaluate(tensors, values)
    expected = expected.astype(tensors[-1].dtype.numpy)
    assert using(space), "the instruction fits"
    compiled = instruction(name) in available(TARGET)
    for number, sketch in enumerate(using(space)[:2]):
        steps = space.sample(rng, 1, sketch=sketch)[0]
        assert steps_from_json(json.loads(json.dumps(steps_to_json(steps)))) == steps
        func = lower_steps(dag, steps, TARGET)
        if compiled:
            kernel = load(build_artifact(func, TARGET))
            np.testing.assert_array_equal(kernel(*values), expected)  # small integers are exact
        if number == 0 or not compiled:
            found = np.zeros_like(expected)
            run(func, [*values, found])
            np.testing.assert_array_equal(found, expected)


def _steps(case: str = "nothing divides") -> tuple[SearchSpace, tuple[Step, ...]]:
    space = space_of(CASES[case][1], "vpdpbusd.zmm")
    return space, space.sample(np.random.default_rng(0), 1, sketch=using(space)[0])[0]


@pytest.mark.parametrize(
    "name", ["vpdpbusd.zmm.s8", "vdpbf16ps.zmm", "vpmaddwd.zmm.s8.u8", "vfmadd.zmm.f16"]
)
def test_weights_by_rows_are_turned_in_registers(name: str) -> None:
    """Where whole tiles of sixteen words divide them; a gather for each vector elsewhere."""
    depth = instruction(name).extent("k")
    for k, expected in ((16 * depth, True), (8 * depth, False)):
        space = space_of(product(TYPES[name], 8, 64, k, turned=True), name)
        found = [state.stages for state in using(space)]
        assert found
        packs = [s for stages in found for s in stages if s.name == "B.pack"]
        turned = {any(it.annotation is Annotation.TENSORIZE for it in s.iters) for s in packs}
        assert turned == {expected}


@pytest.mark.parametrize(
    ("case", "inside"), [("signed bytes", True), ("signed bytes of images", False)]
)
def test_what_an_offset_adds_is_computed_once_for_many_rows(case: str, inside: bool) -> None:
    """For a block of columns, or for all images; samples and mutations leave it there."""
    name, tensors = CASES[case]
    space, rng = space_of(tensors, name), np.random.default_rng(0)
    for steps in space.sample(rng, 5, sketch=using(space)[0]):
        state = space.context.dag.state_of(steps)
        (number,) = (k for k, s in enumerate(state.stages) if s.name == "C.excess")
        assert (state.stages[number].compute_at is ComputeAt.ITER) is inside
        assert not may_move(state, number)


def test_tiles_are_stored_where_they_are_computed() -> None:
    """The loop over the rows of a tile was another place to draw, where no statement fits."""
    space = space_of(padded(TYPES["amx.tdpbssd"], 15, 33, 70, 2), "amx.tdpbssd")
    rng = np.random.default_rng(0)
    for sketch in using(space):
        for steps in space.sample(rng, 3, sketch=sketch):
            state = space.context.dag.state_of(steps)
            (number,) = (k for k, s in enumerate(state.stages) if s.name == "C.sums")
            assert state.stages[number].compute_at is ComputeAt.ITER
            assert not may_move(state, number)


def test_sums_that_stay_in_tiles_are_one_block() -> None:
    """At the root, the tiles held the sums of the last block alone, and all blocks got them."""
    space = space_of(product(TYPES["amx.tdpbssd"], 64, 64, 128), "amx.tdpbssd")
    for sketch in using(space):
        steps = space.sample(np.random.default_rng(0), 1, sketch=sketch)[0]
        s, tensors = space.context.dag.apply_steps(steps)
        next(stage for stage in s.stages if stage.op.name == "C.tile").compute_root()
        with pytest.raises(ScheduleError, match=r"mo has extent \d, the block of sums that fits"):
            schedule_to_prim_func(s, tensors)


def test_printed_python_schedules_the_same() -> None:
    space, steps = _steps()
    dag = space.context.dag
    names: dict[str, Any] = {"te": te}
    names |= {op.name: op.output(0) for op in dag.outputs}
    exec(python_schedule(dag, steps), names)
    expected = schedule_to_prim_func(dag.apply_steps(steps)[0], list(dag.tensors))
    assert structural_equal(schedule_to_prim_func(names["s"], list(dag.tensors)), expected)


def test_tiles_of_the_instruction_are_never_mutated() -> None:
    _, steps = _steps("tiles divide")
    fixed = fixed_splits(steps)
    assert [type(steps[k]) for k in sorted(fixed)] == [SplitStep, SplitStep]
    structures = Structures()
    rows = structures.rows([steps] * 20)
    moved = structures.candidates(moved_factors(structures, rows, np.random.default_rng(0), 64))
    assert any(candidate != steps for candidate in moved)
    assert all(candidate[k] == steps[k] for candidate in moved for k in fixed)


def test_words_that_packing_turns_are_never_mutated() -> None:
    """Other candidates than with sixteen words were drawn, and none of them could be lowered."""
    space = space_of(product(TYPES["vpdpbusd.zmm"], 24, 64, 256, turned=True), "vpdpbusd.zmm")
    rng = np.random.default_rng(0)
    (steps,) = space.sample(rng, 1, sketch=using(space)[0])[:1]
    structures = Structures()
    moved = moved_factors(structures, structures.rows([steps] * 40), rng, 64)
    candidates = structures.candidates(moved)
    assert any(candidate != steps for candidate in candidates)
    for candidate in candidates:
        lower_steps(space.context.dag, candidate, TARGET)


@pytest.mark.parametrize(
    "rows, turned, first", [(256, False, "i"), (255, False, "j"), (256, True, "j")]
)
def test_threads_share_rows_where_these_are_many(rows: int, turned: bool, first: str) -> None:
    """Fewer do not pay for packing B once a thread."""
    tensors = product(TYPES["amx.tdpbssd"], rows, 32, 64, turned=turned)
    sketches = using(space_of(tensors, "amx.tdpbssd"))
    assert sketches
    assert {sketch.stages[-1].iters[0].name for sketch in sketches} == {f"{first}.0.0"}


def test_operators_whose_statements_do_not_match_keep_their_other_sketches() -> None:
    sizes: dict[str, Any] = {
        "N": 1,
        "H": 8,
        "W": 8,
        "CI": 32,
        "CO": 32,
        "K": 3,
        "stride": 1,
        "padding": 1,
    }
    task = Task.from_workload("conv2d_capsule_nhwijc", **sizes, in_dtype="int8", target=TARGET)
    found = (instruction("amx.tdpbssd"), instruction("vpdpbusd.zmm"))
    options = SearchOptions(space="autosched")
    space = SearchSpace.of(Context(task.dag, TARGET.hardware, False, options, found))
    assert space.sketches and not using(space)
    lower_steps(task.dag, space.sample(np.random.default_rng(0), 1)[0], TARGET)


def test_what_it_is_not_for() -> None:
    tensors = product(TYPES["vpdpbusd.zmm"], 8, 16, 8)
    dag = ComputeDAG(tensors)
    ansor = SearchSpace.of(Context(dag, TARGET.hardware, False, SearchOptions(space="ansor")))
    assert not using(ansor)
    assert not using(space_of(product(TYPES["vpdpbusd.zmm"], 8, 12, 8), "vpdpbusd.zmm"))  # narrow
    large = space_of(product(TYPES["vpdpbusd.zmm"], 128, 128, 64), "vpdpbusd.zmm")
    assert using(large) == list(large.sketches)  # nothing else is worth a trial
    s = te.create_schedule(tensors[-1].op)
    with pytest.raises(ScheduleError, match="no product of matrices of the types of vdpbf16ps"):
        s.use_instruction(tensors[-1].op.inputs[0], "vdpbf16ps.zmm", (4, 4))
    odd = product(TYPES["vpdpbusd.zmm"], 8, 16, 7)
    s = te.create_schedule(odd[-1].op)
    with pytest.raises(ScheduleError, match=r"cannot read A\[i, r\] in place; use pack_a"):
        s.use_instruction(odd[-1].op.inputs[0], "vpdpbusd.zmm", (4, 4))


@pytest.mark.parametrize("tile", [(0, 2), (-1, 2), (6, 2.5), (6,), 6, "62"])
def test_tiles_of_no_calls_are_refused(tile: Any) -> None:
    """(-1, 2) was taken and made a tensor of a negative size."""
    tensors = product(TYPES["vpdpbusd.zmm"], 64, 64, 64)
    s = te.create_schedule(tensors[-1].op)
    with pytest.raises(ScheduleError, match=r"use_instruction: stage C: tile: expected two whole"):
        s.use_instruction(tensors[-1].op.inputs[0], "vpdpbusd.zmm", tile)


def test_loops_that_leave_out_zeros_are_tried_as_well() -> None:
    """A transposed convolution in bfloat16: they take a third of the time."""
    sizes: dict[str, Any] = {"N": 1, "H": 16, "W": 16, "CI": 16, "CO": 32, "K": 4}
    window: dict[str, Any] = {"stride": 2, "padding": 1, "in_dtype": "bfloat16"}
    task = Task.from_workload("conv2d_transpose_nhwc", target=TARGET, **sizes, **window)
    space = space_of(list(task.dag.tensors), "vdpbf16ps.zmm")
    assert 0 < len(using(space)) < len(space.sketches)


def test_what_data_choose_is_not_packed_for_a_few_products() -> None:
    """All experts would be packed, and all rows of a table."""
    types, signed = TYPES["vpdpbusd.zmm"], TYPES["vpdpbusd.zmm.s8"]
    assert using(space_of(mixture(types, 64, 256, 32, 8), "vpdpbusd.zmm"))
    assert not using(space_of(mixture(types, 64, 2, 32, 8), "vpdpbusd.zmm"))
    assert using(space_of(embedded(types, 5000, 8, 32, 8), "vpdpbusd.zmm"))  # read in place
    assert not using(space_of(embedded(signed, 5000, 8, 32, 8), "vpdpbusd.zmm.s8"))


def test_another_instruction_where_rows_of_tiles_lie_anywhere() -> None:
    tensors = embedded(TYPES["vpdpbusd.zmm"], 50, 32, 64, 64)
    found = using(space_of(tensors, "amx.tdpbusd", "vpdpbusd.zmm"))
    names = [
        s.instruction for state in found for s in state.steps if isinstance(s, InstructionStep)
    ]
    assert set(names) == {"vpdpbusd.zmm"}


def test_sums_that_begin_elsewhere_are_no_products() -> None:
    """The instruction's sums began with 0."""
    a, b = te.placeholder((8, 8), "uint8", "A"), te.placeholder((8, 16), "int8", "B")
    k = te.reduce_axis((0, 8), "k")
    from_5 = te.comm_reducer(lambda x, y: x + y, lambda t: te.const(5, t), "from_5")

    def element(i: Any, j: Any) -> Any:
        return from_5(a[i, k].astype("int32") * b[k, j].astype("int32"), axis=k)

    c = te.compute((8, 16), element, "C")
    with pytest.raises(ScheduleError, match="no product of matrices"):
        te.create_schedule(c.op).use_instruction(c, "vpdpbusd.zmm", (4, 1))


def test_rows_that_share_a_vector_have_no_sketch() -> None:
    """ARM's bfmmla; the search ended with a ValueError."""
    tensors = product(("bfloat16", "bfloat16", "float32"), 64, 64, 64)
    found = space_of(tensors, "neon.bfmmla")
    assert found.sketches and not using(found)
    s = te.create_schedule(tensors[-1].op)
    with pytest.raises(ScheduleError, match="rows share the vectors of neon"):
        s.use_instruction(tensors[-1].op.inputs[0], "neon.bfmmla", (1, 1), pack_a=True)


def test_ansor_logs_cannot_hold_them() -> None:
    task = Task.from_workload("matmul", M=8, N=8, K=8)
    steps = (InstructionStep(2, "vpdpbusd.zmm", 4, 4),)
    with pytest.raises(ConfigError, match="step TI, which Ansor does not have"):
        ansor_log.format_line(task.to_json(), steps, MeasureResult((1.0,)), 0)


def test_what_is_packed_keeps_its_type() -> None:
    """Memory that is read by its bits is not widened to the type that sums have."""
    name, tensors = CASES["bfloat16"]
    space = space_of(tensors, name)
    steps = space.sample(np.random.default_rng(0), 1, sketch=using(space)[0])[0]
    func = lower_steps(space.context.dag, steps, TARGET)
    packed = [
        s for s in stmts(func.body) if isinstance(s, Allocate) and "pack" in s.buffer_var.name
    ]
    assert [s.dtype.bits for s in packed] == [16, 16]


def test_sketches_are_lowered_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[State] = []
    lowered = instruction_rule._can_be_lowered

    def counted(context: Context, state: State) -> bool:
        calls.append(state)
        return lowered(context, state)

    monkeypatch.setattr(instruction_rule, "_can_be_lowered", counted)
    space = space_of(product(TYPES["amx.tdpbssd"], 96, 96, 64), "amx.tdpbssd")
    assert len(calls) == len(using(space)) > 1


def test_an_instruction_like_any_other_leaves_the_other_sketches() -> None:
    """Multiply-adds of float32 are what every sketch has, so that both kinds are tried."""
    sizes = (128, 128, 64)
    found = space_of(product(TYPES["vfmadd.ymm.bf16"], *sizes), "vfmadd.ymm.bf16")
    assert 0 < len(using(found)) < len(found.sketches)
    pairs = space_of(product(TYPES["vpmaddwd.ymm.s8"], *sizes), "vpmaddwd.ymm.s8")
    assert using(pairs) == list(pairs.sketches)


def test_what_is_float32_as_it_is_needs_no_packing() -> None:
    """The copy with a border of bfloat16 is kept as float32; one of float16 is not."""
    for name, uses in (("vfmadd.ymm.bf16", False), ("vfmadd.ymm.f16", True)):
        assert bool(using(space_of(padded(TYPES[name], 14, 16, 16, 1), name))) is uses


@pytest.mark.parametrize("k, steps", [(64, [2]), (62, [])])
def test_two_steps_of_the_sum_are_unrolled_where_they_divide_it(k: int, steps: list[int]) -> None:
    tensors = product(TYPES["vpmaddwd.ymm.s8"], 512, 512, k)
    sketch = using(space_of(tensors, "vpmaddwd.ymm.s8"))[0]
    found = [p.lengths[0] for p in sketch.steps if isinstance(p, SplitStep) and p.lengths == (2,)]
    assert found == steps


@pytest.mark.parametrize("name", ["vpmaddwd.ymm.u8.s8", "vpdpbusd.zmm", "vdpbf16ps.zmm"])
@pytest.mark.parametrize("channels, first", [(256, "o"), (16, "i")])
def test_columns_come_first_where_a_large_b_would_be_read_for_few_rows(
    name: str, channels: int, first: str
) -> None:
    """9 * 256 * 256 elements are more than half of most second caches, 9 * 16 * 256 are not."""
    sketches = using(space_of(padded(TYPES[name], 14, channels, 256, 1), name))
    assert {s.stages[-1].iters[0].name.split(".")[0] for s in sketches} == {first}


def test_a_packed_tile_has_as_many_rows_in_the_last_one() -> None:
    """Of 20 rows in tiles of 6, the last tile has two: A.pack still has a constant size."""
    tensors = product(TYPES["vpdpbusd.zmm.s8"], 20, 40, 20)
    out = tensors[-1].op
    s = te.create_schedule(out)
    total = out.inputs[0]
    packed, _, _, tile = s.use_instruction(total, "vpdpbusd.zmm.s8", (6, 1), pack_a=True)
    s[total].compute_inline()
    block, _ = s[out].split(s[out].op.root_iter_vars[0], factor=6)
    for each in (tile, packed):
        s[each].compute_at(s[out], block)
    func = schedule_to_prim_func(s, tensors)
    realized = {r.buffer.name: r.bounds for r in stmts(func.body) if isinstance(r, BufferRealize)}
    assert [repr(r.extent) for r in realized["A.pack"]] == ["6", "20"]
    values = arrays(tensors[:-1], np.random.default_rng(0))
    (expected,) = evaluate(tensors, values)
    found = np.zeros(expected.shape, np.int32)
    run(lower_func(func, TARGET), [*values, found])
    np.testing.assert_array_equal(found, expected)
