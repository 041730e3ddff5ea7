"""Steps survive JSON; malformed ones are refused by name."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from autosched import te
from autosched.errors import ConfigError
from autosched.state.iterator import Annotation
from autosched.state.steps import (
    STEP_CODES,
    AnnotationStep,
    CacheReadStep,
    CacheWriteStep,
    ComputeAtStep,
    ComputeInlineStep,
    ComputeRootStep,
    FollowFusedSplitStep,
    FollowSplitStep,
    FuseStep,
    InstructionStep,
    PragmaStep,
    ReorderStep,
    RfactorStep,
    SplitStep,
    Step,
    StorageAlignStep,
    inserted_stages,
    step_from_json,
    steps_from_json,
    steps_to_json,
)
from autosched.te.intrin.registry import INSTRUCTIONS

ids = st.integers(0, 40)
id_lists = st.lists(ids, max_size=6).map(tuple)
lengths = st.lists(st.integers(1, 512), max_size=5).map(tuple)
texts = st.text(max_size=12)
STEPS = st.one_of(
    st.builds(AnnotationStep, ids, ids, st.sampled_from(Annotation)),
    st.builds(FuseStep, ids, id_lists),
    st.builds(PragmaStep, ids, ids, texts),
    st.builds(ReorderStep, ids, id_lists),
    st.builds(SplitStep, ids, ids, st.none() | st.integers(1, 4096), lengths, st.booleans()),
    st.builds(FollowSplitStep, ids, ids, ids, st.integers(1, 6)),
    st.builds(FollowFusedSplitStep, ids, ids, id_lists, ids, st.booleans()),
    st.builds(StorageAlignStep, ids, ids, ids, ids),
    st.builds(ComputeAtStep, ids, ids, ids),
    st.builds(ComputeInlineStep, ids),
    st.builds(ComputeRootStep, ids),
    st.builds(CacheReadStep, ids, texts, id_lists),
    st.builds(CacheWriteStep, ids, texts),
    st.builds(RfactorStep, ids, ids, ids),
    st.builds(InstructionStep, ids, texts, st.integers(1, 9), st.integers(1, 9), st.booleans()),
)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.lists(STEPS, max_size=8).map(tuple))
def test_round_trip(steps: tuple[Step, ...]) -> None:
    text = json.dumps(steps_to_json(steps))
    again = steps_from_json(json.loads(text))
    assert again == steps
    assert hash(again) == hash(steps)
    assert json.dumps(steps_to_json(again)) == text


def test_every_code_is_known() -> None:
    assert " ".join(STEP_CODES) == "AN FU PR RE SP FSP FFSP SA CA CI CR CHR CHW RF TI XM"


def test_worked_example() -> None:
    step = step_from_json(["SP", 2, 0, 16, [1, 1, 8], 1])
    assert step == SplitStep(2, 0, 16, (1, 1, 8), True)
    assert SplitStep(2, 0, None, (4,), False).to_json() == ["SP", 2, 0, 0, [4], 0]
    assert step_from_json(["SP", 2, 0, 0, [4], 0]) == SplitStep(2, 0, None, (4,), False)


def test_a_length_still_open_cannot_be_written() -> None:
    with pytest.raises(ValueError, match="not been chosen yet"):
        SplitStep(0, 0, 8, (None, 2)).to_json()


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ([], "non-empty array"),
        ("AN", "non-empty array"),
        (["XX", 1], "unknown step 'XX': expected one of AN, FU"),
        ([["AN"], 1], "unknown step"),
        (["AN", 1, 2], "step AN needs 3 values after the code, found 2"),
        (["AN", 1, 2, 12], "annotation from 0 to 11, found 12"),
        (["AN", -1, 2, 1], "step AN, stage_id: expected at least 0, found -1"),
        (["AN", True, 2, 1], "stage_id: expected an integer, found True"),
        (["FU", 1, 2], "iter_ids: expected an array of integers, found 2"),
        (["FU", 1, ["a"]], "iter_ids: expected an integer, found 'a'"),
        (["SP", 1, 0, 8, [0], 1], "lengths: expected at least 1, found 0"),
        (["SP", 1, 0, 8, [2**63], 1], "lengths: expected a number of 64 bits, found 92233720"),
        (["SP", 1, 0, 8, [2], 2], "inner_to_outer: expected 0 or 1, found 2"),
        (["PR", 1, 0, 3], "pragma: expected a string, found 3"),
        (["FSP", 1, 0, 0, 0], "n_split: expected at least 1, found 0"),
    ],
)
def test_refuses(values: object, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        step_from_json(values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "name",
    [it.name for it in INSTRUCTIONS.values() if it.kind == "cpu" and not it.mixes_rows],
)
def test_an_instruction_inserts_as_many_stages_as_in_a_schedule(name: str) -> None:
    it = INSTRUCTIONS[name]
    m, n, k = (max(2, it.extent(axis)) for axis in "mnk")
    a, b = (
        te.placeholder((m, k), it.a.dtype.name, "A"),
        te.placeholder((k, n), it.b.dtype.name, "B"),
    )
    r, c = te.reduce_axis((0, k), "r"), it.c.dtype.name
    out = te.compute(
        (m, n), lambda i, j: te.sum(a[i, r].astype(c) * b[r, j].astype(c), axis=r), "C"
    )
    made = te.create_schedule(out.op).use_instruction(out, name, (1, 1), pack_a=True)
    assert inserted_stages(InstructionStep(2, name, 1, 1, pack_a=True)) == len(made)


def test_equal_splits_and_pragmas_are_one_object() -> None:
    split, pragma = SplitStep(2, 0, 512, (8, None)), PragmaStep(2, 0, "auto_unroll_max_step$16")
    other = SplitStep(2, 0, 64, (8, 4))
    assert split.with_lengths((8, 4)) is split.with_lengths((8, 4)) == SplitStep(2, 0, 512, (8, 4))
    assert split.with_lengths((8, 4)).with_extent(64) is other.with_extent(64) == other
    assert pragma.with_number(64) is pragma.with_number(64)
    assert pragma.with_number(64) == PragmaStep(2, 0, "auto_unroll_max_step$64")
