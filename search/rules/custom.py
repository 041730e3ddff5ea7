"""Sketch rules of the user: load them from a file, and check their answers."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from autosched.arguments import found
from autosched.errors import ConfigError
from autosched.search.rules.protocol import Context, Decision, Next, SketchRule
from autosched.state.state import State
from autosched.user_file import load_object, watched

# More steps than any sketch has: a rule that would be applied for ever is stopped there.
_MAX_STEPS = 500


def load_rules(specs: Sequence[str]) -> tuple[SketchRule, ...]:
    """Load the rules that `specs` name (file.py:name, of a rule or a list of rules), in order.

    Running the user's file executes whatever it contains. Raises ConfigError when there is no
    such file or name, or what it names is not a sketch rule.
    """
    rules: list[SketchRule] = []
    for spec in specs:
        _, named = load_object(spec, "sketch_rules", "rule")
        many = named if isinstance(named, list | tuple) else [named]
        for rule in many:
            require_rule(rule, spec)
            rules.append(rule)
    return tuple(rules)


def rules_of(rules: Any) -> tuple[SketchRule, ...]:
    """`rules`, which must be a list of sketch rules; else ConfigError."""
    if not isinstance(rules, list | tuple):
        raise ConfigError(f"sketch_rules: expected a list of rules, {found(rules)}")
    for index, rule in enumerate(rules):
        require_rule(rule, f"number {index}")
    return tuple(rules)


def require_rule(rule: object, where: str) -> None:
    """Raise ConfigError unless `rule` has a name, a condition and an apply."""
    for name in ("condition", "apply"):
        if isinstance(rule, type) or not callable(getattr(rule, name, None)):
            raise ConfigError(
                f"sketch_rules: {where}: expected a rule with a name, condition(context, state, "
                f"stage_id) and apply(context, state, stage_id), found {rule!r}; "
                "see docs/searching.md"
            )
    if not isinstance(getattr(rule, "name", None), str):
        raise ConfigError(f"sketch_rules: {where}: the rule {rule!r} has no name")


@dataclass(frozen=True, slots=True)
class CheckedRule:
    """A user's rule whose failures and wrong answers are ConfigErrors naming rule and stage."""

    rule: SketchRule

    @property
    def name(self) -> str:
        """The name of the user's rule."""
        return self.rule.name

    def condition(self, context: Context, state: State, stage_id: int) -> Decision:
        """The rule's decision."""
        with watched(self._where("condition", state, stage_id)):
            decision = self.rule.condition(context, state, stage_id)
        if not isinstance(decision, Decision):
            raise ConfigError(
                f"{self._where('condition', state, stage_id)} returned {decision!r}; expected "
                "Decision.SKIP, Decision.APPLY or Decision.APPLY_AND_SKIP_REST"
            )
        return decision

    def apply(self, context: Context, state: State, stage_id: int) -> Next:
        """The rule's results, each a state and the id of the stage to go on with."""
        with watched(self._where("apply", state, stage_id)):
            given = self.rule.apply(context, state, stage_id)
            results = list(given) if isinstance(given, Iterable) else None
        if results is None:
            raise ConfigError(
                f"{self._where('apply', state, stage_id)}: expected a list of pairs (state, next "
                f"stage), {found(given)}"
            )
        for result in results:
            problem = _problem(result, state, stage_id)
            if problem:
                raise ConfigError(f"{self._where('apply', state, stage_id)} {problem}")
        return results

    def _where(self, function: str, state: State, stage_id: int) -> str:
        stage = state.stages[stage_id].name
        return f"sketch rule {self.name!r}: {function} on stage {stage_id} ({stage})"


def _problem(result: object, state: State, stage_id: int) -> str:
    """What is wrong with a result of `apply` on `state`, or an empty text."""
    if not isinstance(result, tuple) or len(result) != 2:
        return f"returned {result!r} in its list; expected pairs (state, next stage)"
    following, next_id = result
    if not isinstance(following, State):
        return f"returned {following!r} in place of a state"
    if following.dag is not state.dag:
        return "returned a state of another task; make states from the one that it was given"
    if type(next_id) is not int or not -1 <= next_id < len(following.stages):
        return (
            f"returned {next_id!r} as the next stage; expected one of 0 to "
            f"{len(following.stages) - 1}, or -1 to end (usually stage_id - 1)"
        )
    endless = following.steps == state.steps and next_id >= stage_id
    if endless or len(following.steps) > _MAX_STEPS:
        return "would be applied for ever; return stage_id - 1 to go on with the next stage"
    return ""
