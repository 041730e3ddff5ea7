"""The arguments of a model by name, however a call gives them: by position, by name or not."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from autosched.arguments import found
from autosched.errors import ConfigError

PLAIN = (bool, int, float, str, type(None))
"""Arguments that are no tensors, whose values become part of a graph."""


@dataclass(frozen=True, slots=True)
class Parameters:
    """The parameters of a model: those that a position may give, and the plain defaults of all.

    Of the first, `unnamed` are those that no name may give.
    """

    positional: tuple[str, ...]
    unnamed: tuple[str, ...]
    defaults: Mapping[str, Any]

    def by_name(self, inputs: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        """Every argument of a call, also those left out that have a plain default.

        First come those that a position may give, in their order. What is given beyond the
        parameters, to `*args`, is called by its number.
        """
        numbers = map(str, range(len(self.positional), len(inputs)))
        places = (*self.positional, *numbers)
        given = {**self.defaults, **dict(zip(places, inputs, strict=False)), **named}
        first = [name for name in places if name in given]
        return {name: given[name] for name in (*first, *(n for n in given if n not in first))}

    def by_position(self, arguments: Mapping[str, Any]) -> int:
        """How many arguments, of what `by_name` returns, a call may give by position."""
        names = list(arguments)
        end = next((i for i, p in enumerate(self.positional) if names[i : i + 1] != [p]), None)
        if end is None:
            end = sum(name in self.positional or name.isdigit() for name in names)
        return end

    def split(
        self, arguments: Mapping[str, Any], given: int
    ) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The call of what `by_name` returns: as many by position as were `given` so, the others
        by name, where they have one: a decorator of `forward` may look for them there.
        """
        values = list(arguments.values())
        end = max(given, sum(name in self.unnamed for name in arguments))
        return tuple(values[:end]), dict(list(arguments.items())[end:])

    def twice(self, inputs: Sequence[Any], named: Mapping[str, Any]) -> bool:
        """Whether a call gives an argument by position and by name, which Python refuses."""
        return any(name in named for name in self.positional[: len(inputs)])


def parameters_of(model: Any) -> Parameters:
    """Those of the model's `forward`; none where it does not tell them."""
    signature = _signature(model)
    several = () if signature is None else signature.parameters.values()
    places = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return Parameters(
        tuple(p.name for p in several if p.kind in places),
        tuple(p.name for p in several if p.kind is inspect.Parameter.POSITIONAL_ONLY),
        {p.name: p.default for p in several if isinstance(p.default, PLAIN)},
    )


def check_examples(model: Any, inputs: Sequence[Any], named: Mapping[str, Any]) -> None:
    """Raise ConfigError for examples that the model does not take, or that are not plain."""
    places = {f"example_inputs[{i}]": value for i, value in enumerate(inputs)}
    for place, value in {**places, **named}.items():
        if not isinstance(value, (torch.Tensor, *PLAIN)):
            raise ConfigError(
                f"{place}: expected a tensor or a number, {found(value)}; {_instead(value)}"
            )
        if isinstance(value, torch.Tensor) and value.is_nested:
            raise ConfigError(
                f"{place}: expected a tensor of one shape, found a nested one; give a padded one, "
                "value.to_padded_tensor(0.0)"
            )
    signature = _signature(model)
    if signature is None:
        return
    try:
        signature.bind(*inputs, **named)
    except TypeError as error:
        raise ConfigError(
            f"example_inputs: expected the arguments of the model, forward{signature}, found "
            f"others: {error}; give them as you call the model"
        ) from error


def _instead(value: Any) -> str:
    """What to give, or to do, instead."""
    wrapped = "wrap the model in a torch.nn.Module that takes tensors"
    if isinstance(value, np.ndarray):
        return "torch.from_numpy makes a tensor of an array"
    if isinstance(value, list | tuple):
        return f"give the arguments one by one, as you call the model, or {wrapped}"
    return wrapped


def _signature(model: Any) -> inspect.Signature | None:
    try:
        return inspect.signature(model.forward)
    except ValueError:  # a ScriptModule's
        return None
