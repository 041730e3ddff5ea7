"""Passes and their options as text: `UnrollLoop{auto_max_step=16, mark_only=True}, Simplify`."""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from typing import Any

from autosched.errors import ConfigError
from autosched.transform.framework.passes import Pass

Registry = Mapping[str, Callable[..., Pass]]

_ONE = re.compile(r"\s*(?P<name>\w+)\s*(?:\{(?P<options>[^}]*)\})?\s*(?:,|$)")


def parse_passes(text: str, registry: Registry) -> tuple[Pass, ...]:
    """Parse passes with options in braces, in order.

    Option values are Python literals. Raises ConfigError for text of another form, for a name that
    is not in `registry`, for an option that the pass does not have, and for a value of another
    type.
    """
    passes: list[Pass] = []
    at = 0
    while at < len(text):
        found = _ONE.match(text, at)
        if found is None:
            raise ConfigError(
                f"passes {text!r}: expected NAME or NAME{{option=value, ...}} at {text[at:]!r}, "
                "separated by commas"
            )
        passes.append(_pass(found["name"], found["options"] or "", registry))
        at = found.end()
    if not passes:
        raise ConfigError("passes '': expected at least one name of a pass")
    return tuple(passes)


def _pass(name: str, options: str, registry: Registry) -> Pass:
    make = registry.get(name)
    if make is None:
        close = difflib.get_close_matches(name, registry, 1)
        hint = f". Did you mean {close[0]!r}?" if close else ""
        raise ConfigError(
            f"passes: unknown pass {name!r}; expected one of {', '.join(sorted(registry))}{hint}"
        )
    known: dict[str, Any] = {f.name: f for f in fields(make)} if is_dataclass(make) else {}
    values: dict[str, Any] = {}
    for option in filter(None, map(str.strip, options.split(","))):
        key, equals, value = (part.strip() for part in option.partition("="))
        if not equals or key not in known:
            raise ConfigError(
                f"passes: {name} has no option {option!r}; expected option=value with one of "
                f"{', '.join(known) or 'no options'}"
            )
        values[key] = _value(name, key, value, known[key].default)
    return make(**values)


def _value(name: str, key: str, text: str, default: Any) -> Any:
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        value = text
    if default is not None and type(value) is not type(default):
        raise ConfigError(
            f"passes: {name}{{{key}={text}}}: expected a value of type "
            f"{type(default).__name__}, such as {default!r}"
        )
    return value
