"""Play searches on recorded candidates: what they would have measured, and how good that was."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from autosched import arguments
from autosched.arena.models import Player, contestant
from autosched.arena.pools import Pool
from autosched.arena.results import TOP, Results, Run
from autosched.errors import ConfigError
from autosched.features.ansor.rows import FeatureRows
from autosched.search.batch_choice import Opinions, in_turns
from autosched.search.ranking_quality import prediction_quality

HELD_OUT = ("operator", "task", "all")
SEARCHES = ("autosched", "greedy", "epsilon-greedy", "random")
_EPSILON = 0.05


@dataclass(frozen=True, slots=True)
class Settings:
    """How a contest is played.

    A search measures `batch` candidates a round, up to `trials`. Before it begins, the model
    learns from records of other tasks for the same kind of target: of all tasks of other operators
    (`held_out="operator"`), of all other tasks (`"task"`), or of none (`"all"`). Of these records
    at most `others` are drawn uniformly. Each search is played with the seeds 0 to `seeds` - 1.
    """

    trials: int = 128
    batch: int = 16
    seeds: int = 6
    held_out: str = "operator"
    others: int = 1024

    def __post_init__(self) -> None:
        for name in ("trials", "batch", "seeds", "others"):
            arguments.integer(name, getattr(self, name), 1)
        arguments.one_of("held_out", self.held_out, HELD_OUT)


def contest(
    pools: Sequence[Pool],
    models: Sequence[object] = ("xgboost", "random"),
    searches: Sequence[str] = ("autosched",),
    settings: Settings | None = None,
    progress: Callable[[str], None] | None = None,
) -> Results:
    """Play every search with every model on every pool.

    `models` are names, `file.py:name` or objects (`contestant`). `progress` is called with the
    names of each pool and model before they are played. Raises ConfigError for what cannot compete.
    """
    if not pools:
        raise ConfigError("expected at least one pool, found none; pools_of(records) makes pools")
    settings = settings or Settings()
    players = [contestant(model) for model in models]
    require_different(players, searches)
    runs = []
    for pool in pools:
        for player in players:
            if progress is not None:
                progress(f"{pool.name}: {player.name}")
            for seed in range(settings.seeds):
                runs += _played(
                    pool, _others(pool, pools, settings, seed), player, searches, settings, seed
                )
    return Results(tuple(runs), settings.seeds, settings.batch)


def require_different(players: Sequence[Player], searches: Sequence[str]) -> None:
    """Raise ConfigError unless there are models of different names, and different searches."""
    for search in searches:
        arguments.one_of("search", search, SEARCHES)
    names = [player.name for player in players]
    for kind, given in (("models of different names", names), ("different searches", searches)):
        if not given or len(set(given)) < len(given):
            raise ConfigError(f"expected {kind}, found {', '.join(given) or 'none'}")


@dataclass(frozen=True, slots=True)
class _Known:
    """Programs that the model learns from before the search, with their throughputs."""

    programs: list[FeatureRows]
    throughputs: npt.NDArray[np.float64]


def _others(pool: Pool, pools: Sequence[Pool], settings: Settings, seed: int) -> _Known:
    chosen = [
        other
        for other in pools
        if other is not pool
        and other.kind == pool.kind
        and settings.held_out != "all"
        and other.task != pool.task
        and (settings.held_out == "task" or other.operator != pool.operator)
    ]
    programs = [program for other in chosen for program in other.programs]
    throughputs = np.concatenate([np.empty(0), *(other.throughputs for other in chosen)])
    if len(programs) > settings.others:
        drawn = np.random.default_rng(seed).choice(len(programs), settings.others, replace=False)
        programs, throughputs = [programs[k] for k in drawn], throughputs[drawn]
    return _Known(programs, throughputs)


def _played(
    pool: Pool,
    others: _Known,
    model: Player,
    searches: Sequence[str],
    settings: Settings,
    seed: int,
) -> list[Run]:
    """One run of each search, with how well the model ranked the pool before it."""
    model.seed(seed)
    accuracy, recall = float("nan"), float("nan")
    before: Opinions | None = None
    if others.programs:
        model.fit(others.programs, others.throughputs)
        before = model.opinions(pool.programs)
        found = prediction_quality(_agreed(before).tolist(), pool.seconds.tolist(), TOP)
        if found is not None:
            accuracy = found.rank_accuracy
            if len(pool.programs) > TOP:  # of so few all are in the top, predicted or not
                recall = found.top8_recall
    return [
        Run(
            pool.name,
            pool.operator,
            len(pool.programs),
            model.name,
            search,
            seed,
            accuracy,
            recall,
            _regret(pool, _order(pool, others, before, model, search, settings, seed)),
        )
        for search in searches
    ]


def _order(
    pool: Pool,
    others: _Known,
    before: Opinions | None,
    model: Player,
    search: str,
    settings: Settings,
    seed: int,
) -> list[int]:
    """The candidates in the order in which the search measures them."""
    rng = np.random.default_rng(seed)
    most = min(settings.trials, len(pool.programs))
    measured: list[int] = []
    opinions = before
    while len(measured) < most:
        if measured and search != "random":
            best = pool.seconds[measured].min() / pool.seconds[measured]
            programs = [*others.programs, *(pool.programs[k] for k in measured)]
            model.fit(programs, np.concatenate([others.throughputs, best]))
            opinions = model.opinions(pool.programs)
        count = min(settings.batch, most - len(measured))
        open_ = np.setdiff1d(np.arange(len(pool.programs)), measured)
        measured += _batch(search, open_, measured, opinions, count, rng)
    return measured


def _batch(
    search: str,
    open_: npt.NDArray[np.intp],
    measured: Sequence[int],
    opinions: Opinions | None,
    count: int,
    rng: np.random.Generator,
) -> list[int]:
    """The next candidates to measure; without opinions they are drawn uniformly."""
    drawn = rng.permutation(open_)
    if opinions is None or search == "random":
        return [int(k) for k in drawn[:count]]
    if search == "autosched":
        one_group = np.zeros(len(open_), bool)
        turns = in_turns(opinions[open_], opinions[list(measured)], one_group, rng)
        return [int(open_[k]) for k in turns[:count]]
    scores = _agreed(opinions)[drawn]  # shuffled, so that equal scores are in random order
    best = drawn[np.argsort(-scores, kind="stable")]
    chance = round(_EPSILON * count) if search == "epsilon-greedy" else 0
    chosen = [int(k) for k in best[: count - chance]]
    return chosen + [int(k) for k in drawn if k not in chosen][:chance]


def _agreed(opinions: Opinions) -> npt.NDArray[np.float64]:
    """The mean score of the members for each program: (programs,)."""
    found: npt.NDArray[np.float64] = opinions.mean(axis=1, dtype=float)
    return found


def _regret(pool: Pool, order: Sequence[int]) -> npt.NDArray[np.float64]:
    """How much slower the best so far is than the best of the pool, after each trial: (trials,).

    0.1 for 10%; nan where no candidate is left to try, because any order ends at the best.
    """
    best = np.minimum.accumulate(pool.seconds[list(order)])
    found: npt.NDArray[np.float64] = best / pool.seconds.min() - 1
    found[len(pool.programs) - 1 :] = np.nan
    return found
