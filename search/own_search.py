"""The search of one task by a policy of the user: select what can be measured of its proposals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import takewhile

from autosched.search.learner import Learner
from autosched.search.own_policy import Tools, WatchedPolicy, as_recorded
from autosched.search.policy import Begin, Candidate, Featurize, state_of
from autosched.search.structure import Steps
from autosched.state.steps import Step
from autosched.words import last_line, visible

_ANSWERS = 16  # answers in a row without a new candidate, after which the search ends


class OwnSearch:
    """Asks a policy and leaves out candidates that are illegal, known, or were proposed before.

    As in `SketchPolicy`, candidates are told apart by the text of their loop nest, and measured
    ones train the cost model of the run. A batch comes from a single answer, because the next
    answer may depend on its measurements; for the same reason nothing is drawn ahead. Once
    `is_over` returns true, the policy is not asked any more, and the rest of a long answer is
    skipped.
    """

    def __init__(
        self,
        policy: WatchedPolicy,
        tools: Tools,
        learner: Learner,
        featurize: Featurize,
        is_over: Callable[[], bool],
    ) -> None:
        self.name = policy.name
        self.why_nothing = ""
        self._policy = policy
        self._tools = tools
        self._dag = tools.space.context.dag
        self._task_key = tools.task.key
        self._learner = learner
        self._featurize = featurize
        self._is_over = is_over
        self._known: set[Steps] = set()
        self._states: set[str] = set()  # of all candidates proposed, measured or skipped
        self._state_of: dict[Steps, str] = {}
        self._why_illegal = ""  # of the last illegal candidate

    @property
    def asks_model(self) -> bool:
        """Whether the policy has asked for scores so far."""
        return self._tools.asks_model

    def tell(self, candidates: Sequence[Steps], costs: Sequence[float]) -> None:
        """Take note of measured costs (seconds per call, infinity for a failure)."""
        self.skip((steps, self.state(steps)) for steps in candidates)
        self._learner.add(self._task_key, self._featurize(candidates), costs)
        self._policy.tell(candidates, costs)
        self.why_nothing = ""  # with new measurements the policy may find candidates again

    def skip(self, candidates: Iterable[tuple[Steps, str]]) -> None:
        """Never propose these candidates, each given with its `state` (empty where unknown)."""
        for steps, state in candidates:
            self._known.add(steps)
            self._states.add(state)
            if state:
                self._state_of[steps] = state

    def next_batch(self, count: int, begin: Begin) -> list[Candidate]:
        """The new candidates of the first answer that has any, up to `count`; empty at the end."""
        if self.why_nothing:
            return []
        left_out: Counter[str] = Counter()
        for _ in range(_ANSWERS):
            if self._is_over():
                return []
            batch = self._new(self._policy.propose(count), count, left_out)
            if batch:
                return batch
        told = ", ".join(f"{number} {why}" for why, number in left_out.items())
        if "illegal" in left_out:
            told += f"; the last one: {visible(last_line(self._why_illegal))}"
        told = told and f" ({told})"
        self.why_nothing = f"nothing new of {self._policy.shown} in {_ANSWERS} answers{told}"
        return []

    def draw_ahead(self, count: int, rounds: int, begin: Begin) -> None:
        """Do nothing: the policy is not asked before it knows what is being measured now."""

    def _new(
        self, answer: Sequence[Sequence[Step]], count: int, left_out: Counter[str]
    ) -> list[Candidate]:
        """The first `count` candidates of `answer` that can be measured.

        The others are counted by reason in `left_out`.
        """
        batch: list[Candidate] = []
        coming = takewhile(lambda _: not self._is_over(), answer)
        while len(batch) < count:
            some = self._unknown(coming, count - len(batch), left_out)
            if not some:
                break
            for steps, rows in zip(some, self._featurize(some), strict=True):
                if rows is None:
                    self._why_illegal = "it is not within the limits of its target"
                    left_out["illegal"] += 1
                else:
                    batch.append(Candidate(steps, None))
        return batch

    def _unknown(
        self, coming: Iterator[Sequence[Step]], number: int, left_out: Counter[str]
    ) -> list[Steps]:
        """Take the next `number` candidates with unknown loop nests, and mark them as known."""
        found: list[Steps] = []
        while len(found) < number and (candidate := next(coming, None)) is not None:
            steps = as_recorded(candidate)
            if isinstance(steps, str):
                self._why_illegal = steps
            state = "" if isinstance(steps, str) else self.state(steps)
            if isinstance(steps, str) or not state:
                left_out["illegal"] += 1
            elif steps in self._known or state in self._states:
                left_out["known"] += 1
            else:
                self.skip([(steps, state)])
                found.append(steps)
        return found

    def state(self, steps: Steps) -> str:
        """A hash of the candidate's loop nest, 16 hex digits; empty if the candidate is illegal."""
        state = self._state_of.get(steps)
        if state is None:
            try:
                state = state_of(self._dag, steps)
            except Exception as error:  # steps may be any that the user wrote
                self._why_illegal = f"{error}" or type(error).__name__
                state = ""
            self._state_of[steps] = state
        return state
