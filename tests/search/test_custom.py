"""Sketch rules of the user: loading them, and what is said when they go wrong."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from autosched.errors import ConfigError
from autosched.search.rules.custom import load_rules
from autosched.search.rules.protocol import Context, Decision, FunctionRule, SketchRule
from autosched.search.space import SearchSpace
from autosched.state.state import State
from autosched.task import Task

FILE = """
from autosched.search.rules.protocol import Decision, FunctionRule


class Halves:
    name = "Halves"

    def condition(self, context, state, stage_id):
        mine = state.stages[stage_id].name == "C"
        return Decision.APPLY_AND_SKIP_REST if mine else Decision.SKIP

    def apply(self, context, state, stage_id):
        state, _ = state.split(stage_id, state.stages[stage_id].iters[0], [2])
        return [(state, stage_id - 1)]


halves = Halves()
never = FunctionRule("Never", lambda *_: Decision.SKIP, lambda *_: [])
both = [never, halves]
nothing = 7
nameless = FunctionRule(None, never.condition, never.apply)
"""


@pytest.fixture
def rules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[SketchRule, ...]]:
    """names -> the rules of that name in a user's file."""
    (tmp_path / "mine.py").write_text(FILE)
    monkeypatch.chdir(tmp_path)
    return lambda *names: load_rules([f"mine.py:{name}" for name in names])


@pytest.fixture(scope="module")
def sketches() -> Callable[..., tuple[State, ...]]:
    task = Task.from_workload("matmul", M=16, N=16, K=16)

    def made(*found: SketchRule) -> tuple[State, ...]:
        return SearchSpace(task, custom_rules=found).sketches

    return made


def always(apply: Any, decision: Decision | bool = Decision.APPLY_AND_SKIP_REST) -> FunctionRule:
    condition: Callable[..., Any] = lambda *_: decision  # noqa: E731
    return FunctionRule("Mine", condition, apply)


def test_a_file_gives_rules_and_lists_of_rules(
    rules: Callable[..., tuple[SketchRule, ...]], sketches: Callable[..., tuple[State, ...]]
) -> None:
    assert [rule.name for rule in rules("halves", "both")] == ["Halves", "Never", "Halves"]
    (sketch,) = sketches(*rules("both"))
    assert [step.to_json() for step in sketch.steps] == [["SP", 2, 0, 16, [2], 1]]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("mine.py", "sketch_rules: expected file.py:rule, found 'mine.py'"),
        ("other.py:halves", "sketch_rules: there is no file other.py"),
        ("mine.py:thirds", "sketch_rules: mine.py defines no rule thirds"),
        ("mine.py:nothing", "mine.py:nothing: expected a rule with a name, condition"),
        ("mine.py:Halves", "expected a rule with a name, condition"),
        ("mine.py:nameless", "has no name"),
        ("broken.py:rule", "sketch_rules: broken.py:1: the file failed: ZeroDivisionError"),
    ],
)
def test_what_is_no_rule_is_refused(
    rules: Callable[..., tuple[SketchRule, ...]], tmp_path: Path, spec: str, message: str
) -> None:
    (tmp_path / "broken.py").write_text("1 / 0\n")
    with pytest.raises(ConfigError, match=message):
        load_rules([spec])


def last(context: Context, state: State, stage_id: int) -> list[tuple[State, int]]:
    name: Any = "i"  # not a loop, as it must be
    return [(state.split(stage_id, name, [2])[0], stage_id - 1)]


@pytest.mark.parametrize(
    ("apply", "message"),
    [
        (last, r"apply on stage 2 \(C\) failed at .*test_custom.py:\d+: "),
        (lambda c, s, i: [], "the sketch rules Mine leave no sketch"),
        (lambda c, s, i: [s], "expected pairs"),
        (lambda c, s, i: [(None, i - 1)], "returned None in place of a state"),
        (
            lambda c, s, i: [(Task.from_workload("matmul", M=2, N=2, K=2).dag.init_state, -1)],
            "returned a state of another task; make states from the one that it was given",
        ),
        (lambda c, s, i: [(s, 99)], "returned 99 as the next stage; expected one of 0 to 2"),
        (lambda c, s, i: [(s, i)], "would be applied for ever"),
        (lambda c, s, i: None, "expected a list of pairs .*, found None"),
        (lambda c, s, i: s, r"expected a list of pairs \(state, next stage\), found <.* \(State\)"),
        (
            lambda c, s, i: [(s.split(i, s.stages[i].iters[0], [2.5])[0], i - 1)],
            r"ScheduleError: split: lengths: expected an integer, found 2\.5 \(float\)",
        ),
        (
            lambda c, s, i: [(s.split(i, s.stages[i].iters[0], [1])[0], i)],
            "would be applied for ever",
        ),
    ],
)
def test_an_error_names_the_rule_and_the_stage(
    sketches: Callable[..., tuple[State, ...]], apply: Any, message: str
) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        sketches(always(apply))
    assert "Mine" in str(caught.value)


def test_an_error_in_a_condition_names_the_rule(sketches: Callable[..., tuple[State, ...]]) -> None:
    with pytest.raises(ConfigError, match=r"'Mine': condition on stage 2 \(C\) failed at .*Key"):
        sketches(FunctionRule("Mine", lambda *_: dict[str, Decision]()["x"], last))
    with pytest.raises(ConfigError, match=r"returned True; expected Decision\.SKIP"):
        sketches(always(last, True))
