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
from autosched.arena.searches import Round, Searcher, agreed, searcher
from autosched.errors import ConfigError
from autosched.features.ansor.rows import FeatureRows
from autosched.search.batch_choice import Opinions
from autosched.search.own_model import unchangeable
from autosched.search.ranking_quality import prediction_quality

HELD_OUT = ("operator", "task", "all")


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
    searches: Sequence[object] = ("autosched",),
    settings: Settings | None = None,
    progress: Callable[[str], None] | None = None,
) -> Results:
    """Play every search with every model on every pool.

    `models` (`contestant`) and `searches` (`searcher`) are names, `file.py:name` or objects.
    `progress` is called with the names of each pool and model before they are played. Raises
    ConfigError for what cannot compete.
    """
    if not pools:
        raise ConfigError("expected at least one pool, found none; pools_of(records) makes pools")
    settings = settings or Settings()
    players = [contestant(model) for model in models]
    searchers = [searcher(search) for search in searches]
    require_different(players, searchers)
    runs = []
    for pool in pools:
        for player in players:
            if progress is not None:
                progress(f"{pool.name}: {player.name}")
            for seed in range(settings.seeds):
                runs += _played(
                    pool, _others(pool, pools, settings, seed), player, searchers, settings, seed
                )
    return Results(tuple(runs), settings.seeds, settings.batch)


def require_different(players: Sequence[Player], searches: Sequence[Searcher]) -> None:
    """Raise ConfigError unless there are models, and searches, of different names."""
    models, names = [player.name for player in players], [search.name for search in searches]
    for kind, given in (("models of different names", models), ("different searches", names)):
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
    searches: Sequence[Searcher],
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
        found = prediction_quality(agreed(before).tolist(), pool.seconds.tolist(), TOP)
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
            search.name,
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
    search: Searcher,
    settings: Settings,
    seed: int,
) -> list[int]:
    """The candidates in the order in which the search measures them."""
    rng = np.random.default_rng(seed)
    most = min(settings.trials, len(pool.programs))
    measured: list[int] = []

    def opinions() -> Opinions | None:
        if not measured:
            return before
        best = pool.seconds[measured].min() / pool.seconds[measured]
        programs = [*others.programs, *(pool.programs[k] for k in measured)]
        model.fit(programs, np.concatenate([others.throughputs, best]))
        return model.opinions(pool.programs)

    search.seed(seed)
    programs = [unchangeable(program) for program in pool.programs]
    while len(measured) < most:
        count = min(settings.batch, most - len(measured))
        seconds = pool.seconds[measured]
        measured += search.choose(Round(programs, measured, seconds, count, rng, opinions))
    return measured


def _regret(pool: Pool, order: Sequence[int]) -> npt.NDArray[np.float64]:
    """How much slower the best so far is than the best of the pool, after each trial: (trials,).

    0.1 for 10%; nan where no candidate is left to try, because any order ends at the best.
    """
    best = np.minimum.accumulate(pool.seconds[list(order)])
    found: npt.NDArray[np.float64] = best / pool.seconds.min() - 1
    found[len(pool.programs) - 1 :] = np.nan
    return found
