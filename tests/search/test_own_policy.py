"""Policies of the user: what may be given, what they answer, and what they work with."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autosched.errors import ConfigError
from autosched.features.lowering import features_of_steps
from autosched.search.cost_model import RandomModel
from autosched.search.featurize import task_featurizer
from autosched.search.learner import Learner
from autosched.search.own_model import OwnCostModel, own_model
from autosched.search.own_policy import Tools, as_recorded, own_policies
from autosched.search.space import SearchSpace
from autosched.state.steps import SplitStep
from autosched.task import Task
from kit.measurer import Steps
from kit.types import Array


class Drawn:
    """Random search."""

    name = "drawn"

    def __init__(self, tools: Tools) -> None:
        self.tools = tools

    def propose(self, count: int) -> Sequence[Steps]:
        return self.tools.space.sample(self.tools.rng, count)

    def tell(self, candidates: Sequence[Steps], seconds: Sequence[float]) -> None:
        pass


class Wide:
    """A cost model: the first feature of the first store."""

    name = "wide"

    def fit(self, programs: Sequence[Array], throughputs: Array) -> None:
        pass

    def predict(self, programs: Sequence[Array]) -> Array:
        return np.array([float(each.sum()) for each in programs])


@pytest.fixture(scope="module")
def task() -> Task:
    return Task.from_workload("matmul", M=8, N=8, K=8)


@pytest.fixture(scope="module")
def make_tools(task: Task) -> Callable[..., Tools]:
    """(learner) -> the tools of a small task."""

    def make(learner: Learner | None = None) -> Tools:
        rng = np.random.default_rng(0)
        known = learner or Learner(RandomModel())
        return Tools(task, SearchSpace(task), rng, known, task_featurizer(task))

    return make


@pytest.fixture
def tools(make_tools: Callable[..., Tools]) -> Tools:
    return make_tools()


def policies(given: Any) -> Any:
    return own_policies(given, "policy")


def test_classes_functions_and_files_make_policies(tools: Tools, tmp_path: Path) -> None:
    assert policies("autosched") is None
    assert policies(Drawn).make(tools).name == "drawn"
    assert policies(lambda tools: Drawn(tools)).make(tools).name == "drawn"
    (tmp_path / "mine.py").write_text(
        f"print('run', file=open({str(tmp_path / 'ran')!r}, 'a'))\n"
        "class Mine:\n"
        "    name = 'mine'\n"
        "    def __init__(self, tools): pass\n"
        "    def propose(self, count): return []\n"
        "    def tell(self, candidates, seconds): pass\n"
        "made = Mine(None)\n"
    )
    given = policies(f"{tmp_path / 'mine.py'}:Mine")
    assert not (tmp_path / "ran").exists()
    one, other = given.make(tools), given.make(tools)
    assert one.name == "mine" and one is not other
    assert (tmp_path / "ran").read_text() == "run\n"  # once
    with pytest.raises(ConfigError, match=r"^policy: .*mine\.py:made: .*; give its class: each ta"):
        policies(f"{tmp_path / 'mine.py'}:made").load()


def fails(tools: Tools) -> Any:
    raise KeyError("n")


def leaves(tools: Tools) -> Any:
    raise SystemExit(1)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("annealing", "^policy: expected autosched or file.py:name, found 'annealing'$"),
        (7, r"^policy: expected autosched, file\.py:name, or a class of policies, .*found 7 \(int"),
        (None, r"^policy: expected autosched, .*found None$"),
        (Drawn.__new__(Drawn), r"found <.*; give its class: each task has an object of its own$"),
        ("none.py:Mine", "^policy: there is no file none.py; relative paths start from"),
        (
            fails,
            r"^policy fails: fails\(tools\) failed at .*test_own_policy.py:\d+: KeyError: 'n'$",
        ),
        (leaves, r"^policy leaves: .* failed at .*: SystemExit: 1$"),
        (type("Plain", (), {}), r"Plain\(tools\) failed at the call: TypeError: Plain\(\) takes"),
        (lambda tools: None, r"expected an object with name, propose\(count\) and tell\(.*missing"),
        (
            lambda tools: type("Half", (), {"propose": len, "name": " "})(),
            r"; tell\(\), name \(text\) is missing$",
        ),
    ],
)
def test_what_is_no_policy(given: Any, message: str, tools: Tools) -> None:
    with pytest.raises(ConfigError, match=message):
        policies(given).make(tools)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("x = 1", "^policy: mine.py defines no policy Mine$"),
        ("1 / 0", "^policy: mine.py:1: the file failed: ZeroDivisionError"),
        ("Mine = 7", r"^policy: mine.py:Mine: expected autosched, .*, found 7 \(int\)$"),
        (
            "class Mine:\n    def __init__(self, tools, heat): pass",
            r"^policy mine.py:Mine: Mine\(tools\) failed at the call: .*argument: 'heat'$",
        ),
        (
            "class Mine:\n    def __init__(self, tools):\n        self.heat = tools.heat",
            r"^policy mine.py:Mine: Mine\(tools\) failed at mine.py:3: AttributeError",
        ),
    ],
)
def test_what_is_wrong_in_a_file(
    source: str, message: str, tools: Tools, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("mine.py").write_text(source)
    with pytest.raises(ConfigError, match=message):
        policies("mine.py:Mine").make(tools)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (None, "expected a list of candidates, found None$"),
        (iter(()), r"expected a list of candidates, found <.*iterator"),
        ("steps", r"expected a list of candidates, found 'steps' \(str\)$"),
        ([None], "candidate 0: expected a tuple of steps, as SearchSpace.sample .* found None$"),
        ((SplitStep(2, 0, 8, (2,)),), "candidate 0: expected a tuple of steps, .*SplitStep"),
        ([(), ["SP"]], r"candidate 1: expected a tuple of steps, .* found \['SP'\] \(list\)$"),
    ],
)
def test_what_is_no_answer(answer: Any, message: str, tools: Tools) -> None:
    class Other(Drawn):
        def propose(self, count: int) -> Any:
            return answer

    with pytest.raises(ConfigError, match=f"^policy drawn: propose: {message}"):
        policies(Other).make(tools).propose(4)


def test_an_object_that_cannot_be_shown_is_told_by_its_class(tools: Tools) -> None:
    class Closed(Drawn):
        def __repr__(self) -> str:
            raise RuntimeError("no text")

        def propose(self, count: int) -> Any:
            return self

    with pytest.raises(ConfigError, match=r"found an object of the class Closed; give its class"):
        policies(Closed(tools))
    with pytest.raises(ConfigError, match=r"propose: .* found an object of the class Closed$"):
        policies(Closed).make(tools).propose(4)


def test_a_method_that_fails_is_told_with_its_line(tools: Tools) -> None:
    class Failing(Drawn):
        def propose(self, count: int) -> Any:
            return self.tools.scores(7)  # type: ignore[arg-type]  # no candidates

        def tell(self, candidates: Sequence[Steps], seconds: Sequence[float]) -> None:
            raise SystemExit("enough")

    watched = policies(Failing).make(tools)
    place = r"at .*test_own_policy\.py:\d+: "
    with pytest.raises(ConfigError, match=rf"^policy drawn: tell failed {place}SystemExit: enough"):
        watched.tell([], [])
    expected = rf"propose failed {place}ConfigError: scores: expected a list of candidates, found 7"
    with pytest.raises(ConfigError, match=expected):
        watched.propose(4)


def test_ctrl_c_in_a_policy_is_no_mistake_of_its(tools: Tools) -> None:
    class Stopped(Drawn):
        def propose(self, count: int) -> Any:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        policies(Stopped).make(tools).propose(4)


def test_a_name_is_told_as_it_was_and_shows_nothing_hidden(tools: Tools) -> None:
    class Coloured(Drawn):
        name = "a\x1b[31m"

        def propose(self, count: int) -> Any:
            self.name = "other"

    watched = policies(Coloured).make(tools)
    for _ in range(2):
        with pytest.raises(ConfigError, match=r"^policy a\\x1b\[31m: propose: expected"):
            watched.propose(4)


def test_what_a_policy_is_told_is_its_own_to_change(tools: Tools) -> None:
    class Clearing(Drawn):
        def tell(self, candidates: Any, seconds: Any) -> None:
            candidates.clear()
            seconds.append(0.0)

    candidates, seconds = tools.space.sample(tools.rng, 2), [1.0, 2.0]
    policies(Clearing).make(tools).tell(candidates, seconds)
    assert len(candidates) >= 2 and seconds == [1.0, 2.0]


def test_features_are_those_of_the_lowered_candidate_and_cannot_be_written_to(
    tools: Tools,
) -> None:
    first, *_ = tools.space.sample(tools.rng, 4)
    illegal, still_open = (*first, SplitStep(99, 0, 8, (2,))), tools.space.sketches[0].steps
    rows, none, no_steps = tools.features([first, illegal, still_open])
    assert none is None and no_steps is None and rows is not None
    expected = features_of_steps(tools.task.dag, first, tools.task.target, "autosched-1")
    np.testing.assert_array_equal(rows, expected)
    with pytest.raises(ValueError, match="read-only"):
        rows[:] = 0


def test_scores_are_the_cost_models(make_tools: Callable[..., Tools]) -> None:
    learner = Learner(OwnCostModel(own_model(Wide(), "cost_model")))
    tools = make_tools(learner)
    found = tools.space.sample(tools.rng, 6)[:6]
    illegal = (*found[0], SplitStep(99, 0, 8, (2,)))
    before = tools.scores([*found, illegal])
    assert before.tolist() == [0.0] * 6 + [-np.inf]
    rows = tools.features(found)
    wide = np.array([float(each.sum()) for each in rows if each is not None])
    learner.add(tools.task.key, rows, (1 / wide).tolist())
    after = tools.scores([*found, illegal])  # learned from what was added, too
    assert after[-1] == -np.inf
    assert np.argsort(after[:-1]).tolist() == np.argsort(wide).tolist()
    assert tools.scores([]).shape == (0,)


def test_candidates_become_what_a_record_holds(tools: Tools) -> None:
    steps = tools.space.sample(tools.rng, 1)[0]
    k = next(k for k, step in enumerate(steps) if isinstance(step, SplitStep))
    split = steps[k]
    assert isinstance(split, SplitStep)
    lengths: Any = tuple(np.int64(length or 1) for length in split.lengths)
    found = as_recorded([*steps[:k], replace(split, lengths=lengths), *steps[k + 1 :]])
    assert found == steps and isinstance(found, tuple)
    changed = found[k]
    assert isinstance(changed, SplitStep) and type(changed.lengths[0]) is int
    for wrong, problem in (((0, 2), "expected at least 1"), ([2, 2], "int"), ((None,), "chosen")):
        text = as_recorded([replace(split, lengths=wrong)])  # type: ignore[arg-type]  # no lengths
        assert isinstance(text, str) and problem in text
