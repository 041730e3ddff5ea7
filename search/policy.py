"""The search of one task: which candidates to measure next."""

from __future__ import annotations

import hashlib
import heapq
import sys
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import NamedTuple

import numpy as np

from autosched.errors import ScheduleError
from autosched.features.ansor.rows import FeatureRows
from autosched.search.batch_choice import in_turns
from autosched.search.cost_model import consensus
from autosched.search.doubt import Doubt
from autosched.search.evolution import evolved
from autosched.search.learned import learned_from
from autosched.search.learner import Learner
from autosched.search.mutation import restructured
from autosched.search.population import Rows, Structures
from autosched.search.space import SearchSpace
from autosched.search.structure import Steps
from autosched.search.surrogate import Scores, Surrogate
from autosched.state.dag import ComputeDAG

_FOR_EACH = 8  # samples for each place of a small batch
_POOL = 2048  # candidates that are kept for later rounds
_STAGES = 2  # stages of evolution, each with a surrogate that also knows what the last one found
_LEARNED_FROM = 8  # candidates that a stage must find at least, or there are fewer stages
_LOOKED_AT = 4  # evolved candidates for each place of a batch whose features are computed
_ATTEMPTS = 4  # samples for each place of a batch whose features are not computed
_TAUGHT = 1024  # candidates of the pool that the surrogate first learns from
_RESTRUCTURED = 8  # the best candidates, of which another structure is tried
_NEW_SKETCHES = 4  # one in so many places of a batch is for sketches without a measured candidate
_HOPE = 0.5  # score that the best of such a sketch must have, relative to the best score of all
Featurize = Callable[[Sequence[Steps]], list[FeatureRows | None]]
Begin = Callable[[Sequence[Steps]], None]
"""Called with the candidates chosen so far, to begin building them. Now and then it is called with
none, so that the builder can go on."""


def _nobody(_: Sequence[Steps]) -> None:
    """The default `begin`: build nothing early."""


class _Draw(NamedTuple):
    """Samples of a round: `fresh` ones with known features, and `attempts` without features."""

    fresh: list[Steps]
    attempts: list[Steps]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A candidate to measure and the score it was chosen for (None: chosen at random)."""

    steps: Steps
    predicted: float | None


class SketchPolicy:
    """Autosched's search: samples of sketches and evolved candidates, scored by the cost model.

    Candidates are told apart by the text of their loop nest; none is proposed twice. All whose
    features were ever computed stay in a pool until they are measured, because a better-trained
    model may rank them higher. Thousands evolve under a surrogate of the model, which needs no
    features. The features of the best are computed, and their scores by the model train the
    surrogate further. Half of a batch is chosen from random samples, half from evolved candidates:
    evolution alone does not leave the neighbourhood of the best candidate it knows. The samples are
    chosen first, so that they can be built during the evolution. The first of them are the best of
    sketches without a measured candidate, which a model may misjudge. Where candidates are chosen
    by score, a random error is added to each score (`Doubt`). Without a trained model nothing is
    evolved.
    """

    name = ""  # records name policies of the user only
    why_nothing = ""
    asks_model = True

    def __init__(
        self,
        space: SearchSpace,
        learner: Learner,
        rng: np.random.Generator,
        featurize: Featurize,
        task_key: str = "",
    ) -> None:
        self.space = space
        self.context = space.context
        self._learner = learner
        self._task_key = task_key
        self._rng = rng
        self._featurize = featurize
        self._begin: Begin = _nobody
        self._drawn: deque[_Draw] = deque()  # samples drawn ahead, for the next rounds
        self._measured: dict[Steps, float] = {}
        self._known: set[Steps] = set()  # of earlier records, or another run measures them
        self._states: set[str] = set()  # of all measured candidates
        self._state_of: dict[Steps, str] = {}
        self._space = sys.maxsize  # how many different samples there are, as far as known
        self._pool: dict[Steps, bool] = {}  # unmeasured candidates: whether evolution found each
        self._structures = Structures()
        self._surrogate = Surrogate(self._structures)
        self._doubt = Doubt(self._structures, rng)

    def tell(self, candidates: Sequence[Steps], costs: Sequence[float]) -> None:
        """Take note of measured costs (seconds per call, infinity for a failure)."""
        for steps, cost in zip(candidates, costs, strict=True):
            self._measured[steps] = cost
            self._pool.pop(steps, None)
            self._states.add(self.state(steps))
        self._doubt.note(candidates)
        self._learner.add(self._task_key, self._featurize(candidates), costs)

    def skip(self, candidates: Iterable[tuple[Steps, str]]) -> None:
        """Never propose these candidates, each given with its `state` (empty where unknown)."""
        for steps, state in candidates:
            self._known.add(steps)
            self._states.add(state)
            if state:
                self._state_of[steps] = state

    def next_batch(self, count: int, begin: Begin = _nobody) -> list[Candidate]:
        """Up to `count` new candidates; empty when none was found.

        `begin` is called with those that are chosen early, and now and then with none.
        """
        options = self.context.options
        self._begin = begin
        for _ in range(options.retry_search_one_round_on_empty + 1):
            batch = self._round(count)
            if batch:
                return batch
        return []

    def _round(self, count: int) -> list[Candidate]:
        options = self.context.options
        self._learner.refresh()
        if not self._drawn:
            self._drawn.extend(self._draw(count))
        fresh, attempts = self._drawn.popleft()
        by_score = count - int(options.eps_greedy * count)
        chosen: list[Candidate] = []
        good: Iterator[Candidate] = iter(())
        if self._learner.trained:
            for steps in fresh:
                self._enter(steps, evolved=False)
            self._pick(chosen, [self._of_new_sketches()], by_score // _NEW_SKETCHES)
            self._pick(chosen, [self._promising(chosen, 4 * count, evolved=False)], by_score // 2)
            self._begin([candidate.steps for candidate in chosen])
            self._evolve(attempts, count)
            good = self._promising(chosen, 4 * count, evolved=True)
        order = self._rng.permutation(len(fresh))
        chance = iter([Candidate(fresh[i], None) for i in order])
        self._pick(chosen, [good, chance], by_score)
        self._pick(chosen, [chance, good], count)
        return chosen

    def draw_ahead(self, count: int, rounds: int = 1, begin: Begin = _nobody) -> None:
        """Draw the samples of the next `rounds` rounds, of `count` candidates each.

        Does nothing while some are left, or before the model is trained. `begin` is called with
        none now and then.
        """
        self._begin = begin
        if self._learner.trained and not self._drawn:
            self._drawn.extend(self._draw(count, rounds))

    def _draw(self, count: int, rounds: int = 1) -> list[_Draw]:
        """Draw the samples of each round: some with features, and for evolution some without.

        The features of all rounds are computed as one list, which takes a half to a third of the
        time of several lists.
        """
        trained = self._learner.trained
        return [
            _Draw(fresh, self.space.attempts(self._rng, _ATTEMPTS * count) if trained else [])
            for fresh in self._sample(count, rounds)
        ]

    def _sample(self, count: int, rounds: int) -> list[list[Steps]]:
        """Draw new samples of each round and compute their features; more if a model can choose.

        If the space has too few samples for all rounds, they are those of one round.
        """
        wanted = 3 * count
        if self._learner.trained:
            most = self.context.options.sample_init_min_population
            wanted = max(wanted, min(most, _FOR_EACH * count))
        wanted = min(wanted, self._space)
        found = self.space.sample(self._rng, rounds * wanted, self._legal)
        if len(found) < rounds * wanted:  # a small space: do not look for more again
            self._space = max(1, len(found))
            return [found]
        starts = range(0, rounds * wanted, wanted)
        return [found[a:b] for a, b in zip(starts, [*starts[1:], None], strict=True)]

    def _legal(self, candidates: Sequence[Steps]) -> list[bool]:
        self._begin(())
        every = self._featurize(candidates)
        self._begin(())
        return [rows is not None and bool(rows.any()) for rows in every]

    def _pick(
        self, chosen: list[Candidate], queues: Sequence[Iterator[Candidate]], count: int
    ) -> None:
        """Take candidates from `queues`, in order, into `chosen` until it has `count`.

        Known candidates and loop nests that are chosen already are left out.
        """
        taken = {self.state(candidate.steps) for candidate in chosen}
        coming = chain(*queues)
        while len(chosen) < count:
            candidate = next(coming, None)
            if candidate is None:
                break
            steps, state = candidate.steps, self.state(candidate.steps)
            new = steps not in self._known and state not in taken and state not in self._states
            if state and new:
                taken.add(state)
                chosen.append(candidate)

    def _evolve(self, attempts: Sequence[Steps], count: int) -> None:
        """Evolve the pool, `attempts` and the best measured ones; add the best to the pool."""
        taught = self._taught()
        known, scores = self._structures.rows(list(taught)), list(taught.values())
        others = self._structures.rows(attempts)
        looked_at = _LOOKED_AT * count
        stages = max(1, min(_STAGES, looked_at // _LEARNED_FROM))
        for _ in range(stages):
            self._surrogate.fit(known, np.array(scores, np.float32))
            if not self._surrogate.fitted:  # nothing is legal so far
                return
            changed = self._structures.rows(self._restructured(taught))
            start = known.joined(changed).joined(others)
            best = evolved(self.context, self._structures, self._judge(), start, self._rng)
            self._begin(())
            found = self._unseen(best, taught, -(-looked_at // stages))
            if not found:
                return
            new = self._scores(found).tolist()
            self._begin(())
            known, scores = known.joined(self._structures.rows(found)), scores + new
            taught.update(zip(found, new, strict=True))
            for steps, score in zip(found, new, strict=True):
                if score > 0:
                    self._enter(steps, evolved=True)

    def _judge(self) -> Callable[[Rows], Scores]:
        """The score of rows: the surrogate's prediction plus a drawn error of each row's sketch."""
        effects = self._doubt.by_structure(1)[:, 0]
        return lambda rows: self._surrogate.predict(rows) + effects[rows.structures]

    def _taught(self) -> dict[Steps, float]:
        """The candidates that the surrogate first learns from, with their scores; cuts the pool.

        These are the best candidates of the pool, a random choice of its others, and the best
        measured candidates.
        """
        pool = list(self._pool)
        scores = self._scores(pool)
        ranked = np.argsort(-scores, kind="stable")
        for k in ranked[_POOL:]:
            del self._pool[pool[k]]
        others = ranked[_TAUGHT // 2 : _POOL]
        drawn = self._rng.permutation(others)[: _TAUGHT // 2]
        found = {pool[k]: float(scores[k]) for k in (*ranked[: _TAUGHT // 2], *drawn)}
        valid = [steps for steps, cost in self._measured.items() if np.isfinite(cost)]
        options = self.context.options
        share = options.sample_init_use_measured_ratio * options.evolutionary_search_population
        best = heapq.nsmallest(round(share), valid, key=self._measured.__getitem__)
        return found | dict(zip(best, self._scores(best).tolist(), strict=True))

    def _restructured(self, scores: dict[Steps, float]) -> list[Steps]:
        """The best candidates with another structure (a stage or a parallel loop elsewhere)."""
        best = heapq.nlargest(_RESTRUCTURED, scores, key=scores.__getitem__)
        found = [restructured(self.context, steps, self._rng) for steps in best]
        return [steps for steps in found if steps is not None]

    def _unseen(self, best: Rows, seen: Collection[Steps], count: int) -> list[Steps]:
        """The first `count` candidates of `best` that are neither in `seen` nor measured."""
        found: list[Steps] = []
        for at in range(0, len(best), count):
            part = best.take(np.arange(at, min(at + count, len(best))))
            for steps in self._structures.candidates(part):
                if not (steps in seen or steps in self._measured or steps in self._known):
                    found.append(steps)
            if len(found) >= count:
                break
        return found[:count]

    def _enter(self, steps: Steps, *, evolved: bool) -> None:
        if steps not in self._measured and steps not in self._known:
            self._pool.setdefault(steps, evolved)

    def _promising(
        self, chosen: Sequence[Candidate], size: int, *, evolved: bool
    ) -> Iterator[Candidate]:
        """The best `size` candidates of the pool; the members of the model choose them in turns.

        Evolved candidates come first if `evolved` is set, samples otherwise. Candidates that no
        member can tell apart from a measured one, or one of `chosen`, come last.
        """
        known = [*self._learned_from(), *[candidate.steps for candidate in chosen]]
        there = {candidate.steps for candidate in chosen}
        pool = [steps for steps in self._pool if steps not in there]
        opinions = self._learner.opinions(self._featurize(pool))
        scores = consensus(opinions)
        of_known = self._learner.opinions(self._featurize(known))
        factors = np.exp(self._doubt.draw(pool + known, opinions.shape[1]))
        doubted, of_known = opinions * factors[: len(pool)], of_known * factors[len(pool) :]
        preferred = np.array([self._pool[steps] is evolved for steps in pool], bool)
        order = in_turns(doubted, of_known, preferred, self._rng)
        legal = [k for k in order if scores[k] > -np.inf]
        return iter([Candidate(pool[k], float(scores[k])) for k in legal[:size]])

    def _of_new_sketches(self) -> Iterator[Candidate]:
        """The best candidate in the pool of each sketch without a measured one, best first.

        Candidates with less than _HOPE of the best score are left out.
        """
        pool = list(self._pool)
        new = self._doubt.unmeasured(pool)
        if not new:
            return
        scores = self._scores(pool)
        best = [max(those, key=scores.__getitem__) for those in new]
        for k in sorted(best, key=scores.__getitem__, reverse=True):
            if scores[k] >= _HOPE * scores.max():
                yield Candidate(pool[k], float(scores[k]))

    def _learned_from(self) -> list[Steps]:
        """The measured candidates that the model learned from: all, or a sample of many."""
        measured = list(self._measured)
        return [measured[k] for k in learned_from(list(self._measured.values()))]

    def _scores(self, population: Sequence[Steps]) -> np.ndarray:
        return self._learner.scores(self._featurize(population))

    def state(self, steps: Steps) -> str:
        """A hash of the candidate's loop nest, 16 hex digits; empty if the candidate is illegal."""
        state = self._state_of.get(steps)
        if state is None:
            try:
                state = state_of(self.context.dag, steps)
            except ScheduleError:
                state = ""
            self._state_of[steps] = state
        return state


def state_of(dag: ComputeDAG, steps: Steps) -> str:
    """A hash of the loop nest, 16 hex digits. Raises ScheduleError if the steps are illegal."""
    text = dag.infer_bound_of(steps).to_str()
    return hashlib.sha256(text.encode()).hexdigest()[:16]
