"""Which function of a module is its entry."""

from __future__ import annotations

import pytest

from autosched.tir.function import IRModule
from autosched.tir.parser import parse_module
from autosched.transform.host.annotate_entry_func import ENTRY, AnnotateEntryFunc


def module(*names: str, **attrs: str) -> IRModule:
    """Functions of these names; one that begins with _ is private."""
    text = "\n".join(
        f"def {name}(n: int32):\n    {'attrs(global_symbol=None)' if name[0] == '_' else ''}\n"
        "    evaluate(1)"
        for name in names
    )
    return IRModule(parse_module(text).functions, dict(attrs))


@pytest.mark.parametrize(
    ("names", "entry"),
    [
        (["_a"], "_a"),
        (["a"], "a"),
        (["_a", "b"], "b"),
        (["_a", "b", "_c"], "b"),
        (["a", "b"], None),
        (["_a", "_b"], None),
    ],
)
def test_the_only_function_or_the_only_exported_one(names: list[str], entry: str | None) -> None:
    """Several are no error, which the seed says they may be (passes.md 6.4)."""
    before = module(*names)
    after = AnnotateEntryFunc()(before)
    assert [n for n, f in after.functions.items() if f.attrs.get(ENTRY)] == (
        [entry] if entry else []
    )
    assert (after is before) is (entry is None)
    assert AnnotateEntryFunc()(after) is after


def test_the_ahead_of_time_executor_marks_its_own() -> None:
    before = module("a", executor="aot")
    assert AnnotateEntryFunc()(before) is before
