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

    A class or a function makes it, which is called with the `Tools` of the task. `name` is the name
    of the policy in records and errors. A candidate is a tuple of transform steps.
    """

    name: str

    def propose(self, count: int) -> Sequence[Steps]:
        """Return candidates to measure, best first; at most the first `count` are measured.

        Candidates that are illegal, known, or were proposed before are left out. If none is left,
        `propose` is called again; after several such answers the search of the task ends.
        """
        ...

    def tell(self, candidates: Sequence[Steps], seconds: Sequence[float]) -> None:
        """Take note of what was measured: seconds per call, infinity for a failure.

        Earlier records come first, before the first `propose` (a sample of 512 if there are more).
        """
        ...


class Tools:
    """The tools of a user's policy: the task, its space, random numbers, features and scores.

    Attributes:
        task: the task that is tuned.
        space: the `SearchSpace` of the task.
        rng: a NumPy generator with the seed of the run. If the run continues from earlier records,
            it draws other numbers than in the run before.
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
        """The scores of the run's cost model, higher for faster candidates: (candidates,).

        -inf for an illegal one. All others are equal until the model is trained.
        """
        self._scored = True
        found = self._rows(candidates, "scores")
        self._learner.refresh()
        if self._learner.trained:
            return self._learner.scores(found).astype(float)
        return np.array([-np.inf if rows is None else 0.0 for rows in found])

    @property
    def asks_model(self) -> bool:
        """Whether the policy has asked for scores so far."""
        return self._scored

    def _rows(self, candidates: Sequence[Steps], where: str) -> list[FeatureRows | None]:
        asked = [as_recorded(steps) for steps in require_candidates(candidates, where)]
        readable = [steps for steps in asked if isinstance(steps, tuple)]
        rows = iter(self._featurize(readable))
        return [next(rows) if isinstance(steps, tuple) else None for steps in asked]


class WatchedPolicy:
    """A user's policy whose answers are checked and whose exceptions become ConfigErrors.

    The error names the policy, the method and the line. The policy gets copies of all lists.
    """

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self.name = policy.name
        self.shown = f"policy {visible(self.name)}"

    def propose(self, count: int) -> Sequence[Sequence[Step]]:
        """The candidates of the policy, each a list or a tuple of steps, as it returns them."""
        with watched(f"{self.shown}: propose"):
            answered = self._policy.propose(count)
        return require_candidates(answered, f"{self.shown}: propose")

    def tell(self, candidates: Sequence[Steps], seconds: Sequence[float]) -> None:
        """Tell the policy what was measured."""
        with watched(f"{self.shown}: tell"):
            self._policy.tell(list(candidates), list(seconds))


class Policies:
    """Makes the policies of a run from a class or function of the user, or from `file.py:name`.

    The file is run once, by the first `load` or `make`. Error messages begin with `where`.
    """

    def __init__(self, given: Callable[[Tools], Policy] | str, where: str) -> None:
        self._given = given
        self._where = where
        self._kind: Callable[[Tools], Policy] | None = None if isinstance(given, str) else given

    def load(self) -> Callable[[Tools], Policy]:
        """The class or function that makes policies. ConfigError if there is no file or name."""
        if self._kind is None:
            _, found = load_object(str(self._given), self._where, "policy")
            self._kind = _require_kind(found, f"{self._where}: {self._given}")
        return self._kind

    def make(self, tools: Tools) -> WatchedPolicy:
        """Make the policy of a task. Raises ConfigError when that fails, or a member is missing."""
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
    """The candidate as a record gives it back, with Python's integers for NumPy's.

    If no record can hold it, a text that says why.
    """
    try:
        return steps_from_json(_plain(steps_to_json(candidate)))
    except (ConfigError, TypeError, ValueError, OverflowError) as error:
        return f"{error}"


def _plain(value: Any) -> Any:
    """A value of JSON with Python's integers for NumPy's."""
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
