"""The search of one task: which candidates to measure next (spec search 9 to 11)."""

from __future__ import annotations

import heapq
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from autosched.errors import ScheduleError
from autosched.state.dag import ComputeDAG
from autosched.target import Target
from features.extract import FeatureRows
from search.learner import Learner
from search.mutation import Steps, mutate
from search.options import SearchOptions
from search.rules.protocol import Context, SketchRule
from search.sample import sample_population
from search.sketch import generate_sketches

Featurize = Callable[[Sequence[Steps]], list[FeatureRows | None]]


@dataclass(frozen=True, slots=True)
class Candidate:
    """A candidate to measure and the score it was chosen for (None: chosen at random)."""

    steps: Steps
    predicted: float | None


class SketchPolicy:
    """Sketches, a sampled population, evolution under the cost model, an eps-greedy pick.

    Candidates are told apart by the text of their loop nest; none is proposed twice. Without a
    trained model nothing is evolved: scores that mean nothing would only narrow the samples.
    """

    def __init__(
        self,
        dag: ComputeDAG,
        target: Target,
        learner: Learner,
        options: SearchOptions,
        rng: np.random.Generator,
        featurize: Featurize,
        custom_rules: Sequence[SketchRule] = (),
        task_key: str = "",
    ) -> None:
        self.context = Context(dag, target.hardware, target.is_gpu, options)
        self._learner = learner
        self._task_key = task_key
        self._rng = rng
        self._featurize = featurize
        self._sketches = generate_sketches(
            dag, target.hardware, target.is_gpu, options, custom_rules
        )
        self._measured: dict[Steps, float] = {}
        self._texts: set[str] = set()
        self._text_of: dict[Steps, str] = {}
        self._space = sys.maxsize  # how many different samples there are, as far as known

    def tell(self, candidates: Sequence[Steps], costs: Sequence[float]) -> None:
        """Take note of measured costs (seconds per call, infinity for a failure)."""
        for steps, cost in zip(candidates, costs, strict=True):
            self._measured[steps] = cost
            self._texts.add(self._text(steps))
        self._learner.add(self._task_key, self._featurize(candidates), costs)

    def next_batch(self, count: int) -> list[Candidate]:
        """Up to `count` new candidates; empty when none was found."""
        options = self.context.options
        for _ in range(options.retry_search_one_round_on_empty + 1):
            batch = self._round(count)
            if batch:
                return batch
        return []

    def _round(self, count: int) -> list[Candidate]:
        options = self.context.options
        self._learner.refresh()
        n_random = int(options.eps_greedy * count)
        wanted = min(max(options.sample_init_min_population, count), self._space)
        population = sample_population(self.context, self._sketches, self._rng, wanted, self._legal)
        if len(population) < wanted:  # a small space: do not look for more again
            self._space = max(1, len(population))
        if self._learner.trained:
            elite = round(
                options.sample_init_use_measured_ratio * options.evolutionary_search_population
            )
            valid = [steps for steps, cost in self._measured.items() if np.isfinite(cost)]
            best = heapq.nsmallest(elite, valid, key=self._measured.__getitem__)
            good = self._evolve([*population, *best], 2 * count)
        else:
            good = [Candidate(steps, None) for steps in population]
        order = self._rng.permutation(len(population))
        chance = [Candidate(population[i], None) for i in order]
        return self._pick(good, chance, count, n_random)

    def _legal(self, candidates: Sequence[Steps]) -> list[bool]:
        return [rows is not None and bool(rows.any()) for rows in self._featurize(candidates)]

    def _pick(
        self, good: list[Candidate], chance: list[Candidate], count: int, n_random: int
    ) -> list[Candidate]:
        """The best ones, then random ones, falling back to the other list; no text twice."""
        chosen: list[Candidate] = []
        taken: set[str] = set()
        queues = [iter(good), iter(chance)]
        while len(chosen) < count:
            first = 0 if len(chosen) < count - n_random else 1
            candidate = next(queues[first], None) or next(queues[1 - first], None)
            if candidate is None:
                break
            text = self._text(candidate.steps)
            if text and text not in taken and text not in self._texts:
                taken.add(text)
                chosen.append(candidate)
        return chosen

    def _evolve(self, population: list[Steps], size: int) -> list[Candidate]:
        """Evolve the population under the model; the best `size` unmeasured ones, best first."""
        options = self.context.options
        best: dict[Steps, float] = {}
        for generation in range(options.evolutionary_search_num_iters + 1):
            scores = self._scores(population)
            for steps, score in zip(population, scores, strict=True):
                if score > -np.inf and steps not in self._measured:
                    best[steps] = float(score)
            if generation == options.evolutionary_search_num_iters:
                break
            population = self._offspring(population, scores)
        top = heapq.nlargest(4 * size, best.items(), key=lambda item: item[1])
        return [Candidate(steps, score) for steps, score in top]

    def _offspring(self, population: list[Steps], scores: np.ndarray) -> list[Steps]:
        weights = np.maximum(np.where(np.isfinite(scores), scores, 0.0), 0.0).astype(float)
        total = weights.sum()
        probabilities = weights / total if total > 0 else None
        options = self.context.options
        size = options.evolutionary_search_population
        parents = self._rng.choice(len(population), size=size, p=probabilities)
        offspring: dict[Steps, None] = {}
        for parent in parents:
            steps: Steps | None = population[parent]
            if self._rng.random() < options.evolutionary_search_mutation_prob:
                steps = mutate(self.context, population[parent], self._rng)
            if steps is not None:
                offspring.setdefault(steps)
        return list(offspring) or population

    def _scores(self, population: Sequence[Steps]) -> np.ndarray:
        return self._learner.scores(self._featurize(population))

    def _text(self, steps: Steps) -> str:
        """The loop nest that identifies the candidate; empty when it is illegal."""
        text = self._text_of.get(steps)
        if text is None:
            try:
                text = self.context.dag.infer_bound_of(steps).to_str()
            except ScheduleError:
                text = ""
            self._text_of[steps] = text
        return text
