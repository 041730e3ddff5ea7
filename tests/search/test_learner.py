"""What the model is given to learn from."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from autosched.errors import ConfigError
from autosched.search.learner import Learner
from kit.types import Array


class Recorder:
    """Keeps what it is trained on."""

    trained = False

    def __init__(self) -> None:
        self.fits: list[tuple[int, list[float]]] = []

    def prepare(self) -> None:
        pass

    def fit(self, programs: Sequence[Array], throughputs: Sequence[float]) -> None:
        self.fits.append((len(programs), [float(t) for t in throughputs]))

    def opinions(self, programs: Sequence[Array]) -> Array:
        return np.arange(1, 1 + 2 * len(programs), dtype=np.float32).reshape(-1, 2)


ROW = np.ones((1, 3), np.float32)


def test_throughputs_are_relative_to_the_best_of_the_task() -> None:
    model = Recorder()
    learner = Learner(model)
    learner.add("a", [ROW, ROW], [2.0, 4.0])
    learner.add("b", [ROW], [10.0])
    learner.refresh()
    assert model.fits == [(3, [1.0, 0.5, 1.0])]


def test_of_many_programs_of_a_task_it_trains_on_a_sample() -> None:
    model = Recorder()
    learner = Learner(model)
    learner.add("a", [ROW] * 600, [600.0 - k for k in range(600)])
    learner.add("b", [ROW], [1.0])
    learner.refresh()
    ((count, throughputs),) = model.fits
    assert count == 513 and max(throughputs) == 1.0 and min(throughputs) < 0.002


def test_what_is_a_small_part_of_a_task_waits_for_more() -> None:
    model = Recorder()
    learner = Learner(model)
    learner.add("a", [ROW] * 600, [1.0] * 600)
    learner.add("b", [ROW] * 4, [1.0] * 4)
    learner.refresh()
    learner.add("a", [ROW] * 31, [1.0] * 31)
    learner.refresh()
    assert len(model.fits) == 1
    learner.add("b", [ROW], [1.0])
    learner.refresh()
    assert len(model.fits) == 2
    learner.add("a", [ROW] * 32, [1.0] * 32)
    learner.refresh()
    assert len(model.fits) == 3
    learner.add("a", [ROW], [1.0])
    for _ in range(2):
        learner.refresh(at_last=True)  # as before the model is saved
    assert len(model.fits) == 4


def test_failed_and_illegal_programs_are_left_out() -> None:
    model = Recorder()
    learner = Learner(model)
    learner.add("a", [ROW, None, ROW, ROW], [2.0, 1.0, np.inf, 1.0])
    learner.refresh()
    assert model.fits == [(2, [0.5, 1.0])]


def test_it_trains_only_on_something_new() -> None:
    model = Recorder()
    learner = Learner(model)
    learner.add("a", [ROW], [1.0])
    learner.refresh()
    assert model.fits == []
    learner.add("a", [ROW], [1.0])
    learner.refresh()
    learner.refresh()
    assert len(model.fits) == 1
    learner.add("a", [None], [np.inf])
    learner.refresh()
    assert len(model.fits) == 1


def test_illegal_programs_score_minus_infinity() -> None:
    model = Recorder()
    learner = Learner(model)
    np.testing.assert_array_equal(
        learner.opinions([ROW, None, ROW.copy()]), [[1, 2], [-np.inf, -np.inf], [3, 4]]
    )
    np.testing.assert_allclose(
        learner.scores([ROW, None, ROW.copy()]), np.sqrt([2, 0, 2]) - [0, np.inf, 0]
    )


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (np.zeros((2, 0)), r"of shape \(2, 0\) for 2 programs, expected \(2, members\)"),
        (np.zeros(2), r"of shape \(2,\) for 2 programs"),
        (None, r"of shape \(\) for 2 programs"),
        ([["fast"], ["slow"]], "no array of numbers for 2 programs"),
        ([[1.0], [1.0, 2.0]], "no array of numbers for 2 programs"),
        ([[1.0], [np.nan]], "nan, expected numbers from 0 on"),
        ([[1.0], [-1.0]], "-1, expected numbers from 0 on"),
        ([[1.0], [1e300]], "inf, expected numbers from 0 on"),
    ],
)
def test_what_a_model_may_not_answer(answer: Any, message: str) -> None:
    class Wrong(Recorder):
        def opinions(self, programs: Sequence[Array]) -> Array:
            found: Array = answer
            return found

    with pytest.raises(ConfigError, match=f"cost model Wrong: opinions returned .*{message}"):
        Learner(Wrong()).opinions([ROW, ROW.copy()])


def test_a_model_keeps_its_members() -> None:
    class Growing(Recorder):
        def opinions(self, programs: Sequence[Array]) -> Array:
            return np.ones((len(programs), len(programs)), np.float32)

    learner = Learner(Growing())
    learner.opinions([ROW])
    with pytest.raises(ConfigError, match=r"\(2, 2\) for 2 programs, expected \(2, 1\)"):
        learner.opinions([ROW.copy(), ROW.copy()])


def test_the_model_is_asked_once_until_it_is_trained() -> None:
    asked: list[int] = []

    class Counted(Recorder):
        def opinions(self, programs: Sequence[Array]) -> Array:
            asked.append(len(programs))
            return np.array([program.sum(axis=0)[:2] + len(asked) for program in programs])

    learner = Learner(Counted())
    first, second, third = (np.full((k, 2), k, np.float32) for k in (1, 2, 3))
    before = learner.opinions([first, second, first])
    again = learner.opinions([third, None, second, first])
    assert asked == [2, 1]
    np.testing.assert_array_equal(before, again[[3, 2, 3]])
    learner.add("a", [first, second], [1.0, 2.0])
    learner.refresh()
    after = learner.opinions([second, first])
    assert asked == [2, 1, 2]
    assert (after > before[[1, 0]]).all()
