"""Searches of the user: a class of policies, or a file that has one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from autosched import arguments
from autosched.errors import ConfigError
from autosched.features.ansor.rows import FeatureRows
from autosched.search.initial import Rng
from autosched.search.learner import Learner
from autosched.search.options import OURS, policy_problem
from autosched.search.own_model import unchangeable
from autosched.search.policy import Featurize
from autosched.search.space import SearchSpace, require_candidates
from autosched.search.structure import Steps
from autosched.state.steps import Step, steps_from_json, steps_to_json
from autosched.task import Task
from autosched.user_file import load_object, watched
from autosched.words import visible

Numbers = npt.NDArray[np.float64]
_MEMBERS = "name, propose(count) and tell(candidates, seconds)"


class Policy(Protocol):
    """A search of the user, for `autosched.tune`: one object for each task.

    Its class, or a function, is called with the `Tools` of the task. `name` is what records and
    errors call it. A candidate is a tuple of transform steps.
    """

    name: str

    def propose(self, count: int) -> Sequence[Steps]:
        """A list of candidates to measure, best first; of more than `count` the first are taken.

        What is illegal, known, or was proposed before is left out. An answer that leaves nothing
        is asked for again, some times, until the search of the task ends.
        """
        ...

    def tell(self, candidates: Sequence[Steps], seconds: Sequence[float]) -> None:
        """What was measured: seconds per call, infinity for a failure.

        Earlier records come first, before `propose` is asked (of many a sample of 512).
        """
        ...


class Tools:
    """What a policy of the user works with.

    Attributes:
        task: what is tuned.
        space: the candidates that there are (`SearchSpace`).
        rng: a NumPy generator with the seed of the run; one that continues from earlier records
            draws others than the run before.
    """

    def __init__(
        self, task: Task, space: SearchSpace, rng: Rng, learner: Learner, featurize: Featurize
    ) -> None:
        self.task = task
        self.space = space
        self.rng = rng
        self._learner = learner
        self._featurize = featurize
        self._scored = False

    def features(self, candidates: Sequence[Steps]) -> list[FeatureRows | None]:
        """The rows of each candidate (stored buffers, columns); None for an illegal one."""
        found = self._rows(candidates, "features")
        return [None if rows is None else unchangeable(rows) for rows in found]

    def scores(self, candidates: Sequence[Steps]) -> Numbers:
        """What the cost model of the run thinks of each, higher for faster ones: (candidates,).

        -inf for an illegal one. All others are equal until the model has learned something.
        """
        self._scored = True
        found = self._rows(candidates, "scores")
        self._learner.refresh()
        if self._learner.trained:
            return self._learner.scores(found).astype(float)
        return np.array([-np.inf if rows is None else 0.0 for rows in found])

    @property
    def asks_model(self) -> bool:
        """Whether the policy asked for scores so far."""
        return self._scored

    def _rows(self, candidates: Sequence[Steps], where: str) -> list[FeatureRows | None]:
        asked = [as_recorded(steps) for steps in require_candidates(candidates, where)]
        readable = [steps for steps in asked if isinstance(steps, tuple)]
        rows = iter(self._featurize(readable))
        return [next(rows) if isinstance(steps, tuple) else None for steps in asked]


class WatchedPolicy:
    """A user's policy: its answers are checked, and what goes wrong in it is a ConfigError.

    The error names the policy, the method and the line. It is given lists of its own.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.name = policy.name
        self.shown = f"policy {visible(self.name)}"

    def propose(self, count: int) -> Sequence[Sequence[Step]]:
        """Its candidates, each a list or a tuple of steps, as they are."""
        with watched(f"{self.shown}: propose"):
            answered = self._policy.propose(count)
        return require_candidates(answered, f"{self.shown}: propose")

    def tell(self, candidates: Sequence[Steps], seconds: Sequence[float]) -> None:
        """Tell it what was measured."""
        with watched(f"{self.shown}: tell"):
            self._policy.tell(list(candidates), list(seconds))


class Policies:
    """The policies of a run: made by a class or function of the user, or by `file.py:name`.

    The file is run once, by `load` or when the first is made. `where` begins errors.
    """

    def __init__(self, given: Callable[[Tools], Policy] | str, where: str) -> None:
        self._given = given
        self._where = where
        self._kind: Callable[[Tools], Policy] | None = None if isinstance(given, str) else given

    def load(self) -> Callable[[Tools], Policy]:
        """What makes them. Raises ConfigError when there is no such file or name."""
        if self._kind is None:
            _, found = load_object(str(self._given), self._where, "policy")
            self._kind = _require_kind(found, f"{self._where}: {self._given}")
        return self._kind

    def make(self, tools: Tools) -> WatchedPolicy:
        """The one of a task. Raises ConfigError when it cannot be made, or lacks something."""
        kind = self.load()
        name = getattr(kind, "__name__", type(kind).__name__)
        shown = self._given if isinstance(self._given, str) else name
        with watched(f"{self._where} {shown}: {name}(tools)"):
            made = kind(tools)
            members = {each: getattr(made, each, None) for each in ("name", "propose", "tell")}
        missing = [f"{each}()" for each in ("propose", "tell") if not callable(members[each])]
        if not isinstance(members["name"], str) or not members["name"].strip():
            missing.append("name (text)")
        if missing:
            raise ConfigError(
                f"{self._where} {shown}: expected an object with {_MEMBERS}; "
                f"{', '.join(missing)} is missing"
            )
        return WatchedPolicy(made)


def own_policies(given: Any, where: str) -> Policies | None:
    """The policies that `given` makes: a class or a function, or `file.py:name` (not run yet).

    None for `autosched`. Raises ConfigError that begins with `where`.
    """
    if isinstance(given, str):
        if problem := policy_problem(given):
            raise ConfigError(f"{where}: {problem}")
        return None if given == OURS else Policies(given, where)
    return Policies(_require_kind(given, where), where)


def as_recorded(candidate: Sequence[Step]) -> Steps | str:
    """The candidate as a record gives it back, NumPy's integers as Python's; or why none can."""
    try:
        return steps_from_json(_plain(steps_to_json(candidate)))
    except (ConfigError, TypeError, ValueError, OverflowError) as error:
        return f"{error}"


def _plain(value: Any) -> Any:
    """A value of JSON with NumPy's integers as Python's."""
    if isinstance(value, list):
        return [_plain(each) for each in value]
    return int(value) if isinstance(value, np.integer) else value


def _require_kind(given: Any, where: str) -> Callable[[Tools], Policy]:
    made = not isinstance(given, type) and callable(getattr(type(given), "propose", None))
    if made or not callable(given):
        hint = "; give its class: each task has an object of its own" if made else ""
        raise ConfigError(
            f"{where}: expected {OURS}, file.py:name, or a class of policies, which is called with "
            f"the tools of a task, {arguments.found(given)}{hint}"
        )
    kind: Callable[[Tools], Policy] = given
    return kind
