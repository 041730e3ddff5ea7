"""Options that mean something only beside another one."""

from __future__ import annotations

from autosched.errors import ConfigError


def require_given(other: str, **given: object) -> None:
    """Raise ConfigError if one of `given` was given, because `other` was not.

        require_given("--race", share=share)

    Options are named as Python names them; None and False are the values of those that were not
    given.
    """
    for name, value in given.items():
        if value is not None and value is not False:
            option = f"--{name.replace('_', '-')}"
            raise ConfigError(f"{option} is only for {other}; add that option, or omit this one")
