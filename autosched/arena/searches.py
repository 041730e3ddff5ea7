"""The searches that compete: how each of them chooses the next candidates to measure."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from autosched import arguments
from autosched.errors import ConfigError
from autosched.features.ansor.rows import FeatureRows
from autosched.search.batch_choice import Opinions, in_turns
from autosched.search.own_model import unchangeable
from autosched.user_file import load_made, require_no_class, tell_seed, watched
from autosched.words import visible

Numbers = npt.NDArray[np.float64]
Places = npt.NDArray[np.intp]
_EPSILON = 0.05


class Round:
    """What a search knows when it chooses candidates, which are numbers from 0.

    - `programs`: the features of every candidate of the task, (stored buffers, columns) each.
    - `measured`: the candidates measured so far, in that order; `seconds` are their times.
    - `open`: the candidates that are left, rising.
    - `count`: how many of these to choose; at most as many as are left.
    - `rng`: a generator of random numbers, the same one in all rounds of a run.
    """

    def __init__(
        self,
        programs: Sequence[FeatureRows],
        measured: Sequence[int],
        seconds: Numbers,
        count: int,
        rng: np.random.Generator,
        ask: Callable[[], Opinions | None],
    ) -> None:
        """`ask` returns `opinions`; it is called when they are first asked for."""
        self.programs = list(programs)
        self.measured = list(measured)
        self.seconds = seconds.copy()
        self.open: Places = np.setdiff1d(np.arange(len(programs)), self.measured)
        self.count = count
        self.rng = rng
        self._ask = ask

    @cached_property
    def opinions(self) -> Opinions | None:
        """The scores of the model's members for all candidates: (candidates, members).

        Higher for faster ones; None while the model has nothing to learn from. The model learns
        from what was measured when this is first asked for.
        """
        found = self._ask()
        return None if found is None else unchangeable(found)

    @property
    def scores(self) -> Numbers | None:
        """The mean of the members' scores: (candidates,); None as for `opinions`."""
        return None if self.opinions is None else agreed(self.opinions)


class Search(Protocol):
    """A search of the user, for the arena.

    `name` is the name of the search in tables and errors. A method `seed(number)`, where there is
    one, is called at the beginning of each run.
    """

    name: str

    def choose(self, known: Round) -> Sequence[int]:
        """The candidates to measure next: `known.count` different ones of `known.open`."""


@dataclass(frozen=True)
class OurSearch:
    """A search of autosched. `choice` orders the open candidates, the first to measure first."""

    name: str
    choice: Callable[[Round], Places]

    def seed(self, number: int) -> None:
        """Do nothing: a round brings the random numbers."""

    def choose(self, known: Round) -> list[int]:
        """The candidates to measure next."""
        return [int(k) for k in self.choice(known)[: known.count]]


class WatchedSearch:
    """A user's search whose answers are checked and whose exceptions become ConfigErrors.

    The error names the search, the method and the line. `name` is the name that the search had when
    this object was made.
    """

    def __init__(self, search: Search) -> None:
        self._search = search
        self.name = search.name
        self._shown = f"search {visible(self.name)}"

    def seed(self, number: int) -> None:
        """Tell the search the seed of a run, if it has a method `seed`."""
        tell_seed(self._search, number, self._shown)

    def choose(self, known: Round) -> list[int]:
        """The candidates to measure next. Raises ConfigError for any other answer."""
        left = set(known.open.tolist())  # before the search, which may change what it is given
        count = known.count
        with watched(f"{self._shown}: choose"):
            answered = self._search.choose(known)
        expected = f"{self._shown}: choose: expected {count} different numbers of known.open"
        try:
            found = np.asarray(answered)
        except ValueError as error:
            raise ConfigError(f"{expected}, {arguments.found(answered)}: {error}") from error
        if found.ndim != 1 or found.dtype.kind not in "iu":
            raise ConfigError(f"{expected}, {arguments.found(answered)}")
        chosen: list[int] = found.tolist()
        if len(chosen) != count:
            raise ConfigError(f"{expected}, found {len(chosen)}")
        for place, k in enumerate(chosen):
            if k not in left:
                twice = k in chosen[:place]
                why = "twice" if twice else "which was measured before or is no candidate"
                raise ConfigError(f"{expected}, found {k}{' ' if twice else ', '}{why}")
            left.remove(k)
        return chosen


Searcher = OurSearch | WatchedSearch


def searcher(given: Any) -> Searcher:
    """A search from a name of SEARCHES, from `file.py:name` (the file is run), or from an object.

    An object has `choose` and `name`. Raises ConfigError that says what is missing.
    """
    if isinstance(given, Searcher):
        return given
    require_no_class(given, "search")
    where = f"search {given}" if isinstance(given, str) else f"search {type(given).__name__}"
    if isinstance(given, str):
        if given in SEARCHES:
            return OurSearch(given, SEARCHES[given])
        if ":" not in given:
            raise ConfigError(
                f"search: expected {', '.join(SEARCHES)} or file.py:name, found {given!r}"
            )
        given = load_made(given, "search", "search")
    with watched(where):
        name, choose = getattr(given, "name", None), getattr(given, "choose", None)
    missing = [] if callable(choose) else ["choose()"]
    if not isinstance(name, str) or not name.strip():
        missing.append("name (text)")
    if missing:
        raise ConfigError(
            f"{where}: expected an object with choose(known) and name; "
            f"{', '.join(missing)} is missing"
        )
    return WatchedSearch(given)


def agreed(opinions: Opinions) -> Numbers:
    """The mean score of the members for each program: (programs,)."""
    found: Numbers = opinions.mean(axis=1, dtype=float)
    return found


# -- the searches of autosched: without opinions, candidates are drawn uniformly ------------------
# They are shuffled before they are ordered, so that those of equal scores are in random order.


def _random(known: Round) -> Places:
    return known.rng.permutation(known.open)


def _turns(known: Round) -> Places:
    drawn = known.rng.permutation(known.open)
    opinions = known.opinions
    if opinions is None:
        return drawn
    one_group = np.zeros(len(drawn), bool)
    own = opinions[drawn], opinions[known.measured]
    return drawn[in_turns(*own, one_group, known.rng)]


def _greedy(known: Round, drawn_share: float = 0.0) -> Places:
    drawn = known.rng.permutation(known.open)
    scores = known.scores
    if scores is None:
        return drawn
    best = drawn[np.argsort(-scores[drawn], kind="stable")]
    chosen = best[: known.count - round(drawn_share * known.count)]
    return np.concatenate([chosen, drawn[~np.isin(drawn, chosen)]])


def _epsilon_greedy(known: Round) -> Places:
    return _greedy(known, _EPSILON)


SEARCHES: dict[str, Callable[[Round], Places]] = {
    "autosched": _turns,
    "greedy": _greedy,
    "epsilon-greedy": _epsilon_greedy,
    "random": _random,
}
