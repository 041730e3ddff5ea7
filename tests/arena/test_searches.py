"""Searches of the user in a contest: what they see, what they may answer, and how they fail."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from autosched.arena import Pool, Round, Settings, contest, searcher
from autosched.errors import ConfigError
from autosched.features.ansor.rows import FeatureRows

Numbers = npt.NDArray[np.float64]
SECONDS = 1 + np.random.default_rng(5).permutation(20).astype(np.float64)
POOL = Pool("t", "t", [np.array([[s]], np.float32) for s in SECONDS], SECONDS)
OTHER = Pool("other", "other", POOL.programs, SECONDS)
SMALL = Settings(trials=10, batch=4, seeds=2)


class Telling:
    """Predicts the time that is the only feature; counts how often it learned."""

    name = "telling"

    def __init__(self) -> None:
        self.taught = 0

    def fit(self, programs: Sequence[FeatureRows], throughputs: Numbers) -> None:
        self.taught += 1

    def predict(self, programs: Sequence[FeatureRows]) -> Numbers:
        return np.array([-float(program[0, 0]) for program in programs])


class Noting:
    """Takes the open candidates in order; notes what it was told."""

    name = "noting"

    def __init__(self) -> None:
        self.rounds: list[tuple[list[int], list[float], list[int], int]] = []
        self.seeds: list[int] = []

    def seed(self, number: int) -> None:
        self.seeds.append(number)

    def choose(self, known: Round) -> Sequence[int]:
        left: list[int] = known.open.tolist()
        self.rounds.append((known.measured, known.seconds.tolist(), left, known.count))
        return left[: known.count]


class ByScore:
    """The best by the model, as `greedy` chooses where no scores are equal."""

    name = "by-score"

    def choose(self, known: Round) -> npt.NDArray[np.intp]:
        scores = known.scores
        if scores is None:
            return known.rng.permutation(known.open)[: known.count]
        return known.open[np.argsort(-scores[known.open])][: known.count]


def test_a_search_is_told_what_was_measured_and_what_is_left() -> None:
    search = Noting()
    results = contest([POOL], ["random"], [search], SMALL)
    assert search.seeds == [0, 1] and len(search.rounds) == 2 * 3
    seconds = SECONDS.tolist()
    for k, (measured, times, left, count) in enumerate(search.rounds[:3]):
        assert measured == list(range(4 * k)) and left == list(range(4 * k, 20))
        assert times == seconds[: 4 * k] and count == (4, 4, 2)[k]
    assert search.rounds[3] == search.rounds[0]  # a run of its own
    best = np.minimum.accumulate(SECONDS[:10]) / SECONDS.min() - 1
    assert all(np.array_equal(run.regret, best) for run in results.runs)
    assert {run.player for run in results.runs} == {"random, noting"}


def test_a_search_that_chooses_as_greedy_does_finds_the_same() -> None:
    results = contest([POOL, OTHER], [Telling()], [ByScore(), "greedy"], SMALL)
    own, greedy = (
        [r.regret for r in results.runs if r.search == s] for s in ("by-score", "greedy")
    )
    assert len(own) == 4 and all(map(np.array_equal, own, greedy))
    assert all(regret[0] == 0 for regret in own)


def test_what_a_model_cannot_tell_apart_is_tried_in_random_order() -> None:
    """Not in that of the file: all seeds chose the same, and no interval told of chance."""

    class Same(Telling):
        name = "same"

        def predict(self, programs: Sequence[FeatureRows]) -> Numbers:
            return np.zeros(len(programs))

    for search in ("autosched", "greedy", "epsilon-greedy"):
        runs = contest([POOL, OTHER], [Same()], [search], Settings(10, 4, held_out="task")).runs
        assert len({tuple(run.regret) for run in runs if run.task == "t"}) == 6, search


def test_a_model_learns_only_for_a_search_that_asks_it() -> None:
    model = Telling()
    contest([POOL], [model], [Noting(), "random"], SMALL)
    assert model.taught == 0
    contest([POOL], [model], [ByScore()], SMALL)
    assert model.taught == 2 * 2  # in each round but the first of each run


def test_a_search_changes_nothing_that_others_see() -> None:
    class Spoiling(Noting):
        name = "spoiling"

        def choose(self, known: Round) -> Sequence[int]:
            chosen = super().choose(known)
            known.programs.clear()
            known.measured.clear()
            known.seconds[:] = 0
            known.open[:] = 0
            return chosen

    class Writing(Noting):
        def choose(self, known: Round) -> Sequence[int]:
            known.programs[0][:] = 0
            return []

    alone = contest([POOL], ["random"], [Noting()], SMALL)
    beside = contest([POOL], ["random"], [Spoiling(), Noting()], SMALL)
    own = [run for run in beside.runs if run.search == "noting"]
    spoiled = [run for run in beside.runs if run.search == "spoiling"]
    for one, two, three in zip(alone.runs, own, spoiled, strict=True):
        assert np.array_equal(one.regret, two.regret) and np.array_equal(one.regret, three.regret)
    with pytest.raises(ConfigError, match=r"search noting: choose failed at .*read-only"):
        contest([POOL], ["random"], [Writing()], SMALL)
    assert [program[0, 0] for program in POOL.programs] == SECONDS.tolist()


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ([0, 1, 2], "found 3"),
        ([0, 1, 2, 2], "found 2 twice"),
        ([0, 1, 2, 20], "found 20, which was measured before or is no candidate"),
        ([0, 1, 2, -1], "found -1, which was measured before or is no candidate"),
        ([0.0, 1.0, 2.0, 3.0], "found"),
        ([True, False, True, False], "found"),
        (np.zeros((2, 2), int), "found array"),
        ([[0, 1], [2]], "found"),
        (None, "found"),
        (3, "found"),
    ],
)
def test_wrong_choices_are_refused(answer: Any, message: str) -> None:
    class Wrong(Noting):
        def choose(self, known: Round) -> Sequence[int]:
            found: Sequence[int] = answer
            return found

    expected = "^search noting: choose: expected 4 different numbers of known.open, "
    with pytest.raises(ConfigError, match=expected + message):
        contest([POOL], ["random"], [Wrong()], SMALL)


def test_a_candidate_is_not_measured_twice() -> None:
    class Again(Noting):
        def choose(self, known: Round) -> Sequence[int]:
            return list(range(known.count))

    with pytest.raises(ConfigError, match="found 0, which was measured before"):
        contest([POOL], ["random"], [Again()], SMALL)


@pytest.mark.parametrize("method", ["choose", "seed"])
@pytest.mark.parametrize("error", [KeyError("n"), SystemExit(0)])
def test_a_search_that_fails_is_named(method: str, error: BaseException) -> None:
    def fails(*_: object) -> None:
        raise error

    search = type("Broken", (Noting,), {method: fails, "name": "broken"})()
    kind = type(error).__name__
    message = rf"search broken: {method} failed at .*test_searches\.py:\d+: {kind}: "
    with pytest.raises(ConfigError, match=message):
        contest([POOL], ["random"], [search], SMALL)


@pytest.mark.parametrize(
    ("search", "message"),
    [
        ("gready", "search: expected autosched, greedy, epsilon-greedy, random or file.py:name"),
        (Noting, r"search: Noting is a class, not an object of it; give Noting\(\)"),
        (object(), r"search object: expected .*; choose\(\), name \(text\) is missing"),
        (type("Nameless", (Noting,), {"name": " "})(), r"search Nameless: .*; name \(text\) is"),
        (lambda known: known.open, r"search function: .*; choose\(\), name \(text\) is missing"),
        ("gone.py:Mine", "search: there is no file gone.py"),
        (":", "search: expected file.py:search"),
    ],
)
def test_what_cannot_compete(search: object, message: str) -> None:
    with pytest.raises(ConfigError, match=f"^{message}"):
        searcher(search)


def test_a_search_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(
        "class Last:\n    name = 'last'\n"
        "    def choose(self, known):\n        return known.open[::-1][: known.count]\n"
        "class Never(Last):\n    def __init__(self):\n        1 / 0\n"
        "last = Last()\n"
    )
    for name in ("Last", "last"):
        results = contest([POOL], ["random"], [f"{tmp_path / 'mine.py'}:{name}"], SMALL)
        assert results.runs[0].regret[0] == SECONDS[-1] / SECONDS.min() - 1
    with pytest.raises(ConfigError, match=r"mine\.py:7: Never\(\) failed: ZeroDivisionError"):
        searcher(f"{tmp_path / 'mine.py'}:Never")


def test_the_first_round_of_a_search_of_the_user_is_not_called_drawn() -> None:
    one_round = Settings(trials=8, batch=8, seeds=1)
    drawn = contest([POOL], ["xgboost", "random"], ["autosched"], one_round)
    assert "drawn at random" in drawn.text()
    assert (
        "drawn at random"
        not in contest([POOL], ["xgboost"], [Noting(), "greedy"], one_round).text()
    )
