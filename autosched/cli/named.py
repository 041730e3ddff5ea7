"""`--workload CONFIG` and `--workload KEY=CONFIG`: the meaning of unknown Ansor workload keys."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from autosched.cli.console import warn
from autosched.errors import ConfigError
from autosched.measure.workload_keys import Computation, WorkloadKeys


def workload_keys(options: Sequence[str]) -> WorkloadKeys:
    """The computations of the given configurations, by key.

    Raises ConfigError if a configuration is wrong, or if two have the same key or none.
    """
    if options:  # imported only then: it takes a quarter of a second
        from autosched.cli.read_config import load_config
    named: dict[str, Computation] = {}
    other: Computation | None = None
    for option in options:
        key, path = _split(option)
        computation = Computation.of(path, load_config(path).task())
        if key in named:
            raise ConfigError(f"--workload names {key} twice; give each key one configuration")
        if key:
            named[key] = computation
        elif other is not None:
            raise ConfigError(
                f"--workload {other.source} and --workload {path}: which key is which? Give "
                "--workload KEY=CONFIG"
            )
        else:
            other = computation
    return WorkloadKeys(named, other)


def tell_unused(keys: WorkloadKeys) -> None:
    """Print a note about configurations whose key did not occur."""
    for source in keys.unused:
        warn(f"note: --workload {source}: no line has such a workload key; it was not used")


def _split(option: str) -> tuple[str, str]:
    """(key, path of the configuration); the key is empty if none is given."""
    if "=" not in option or Path(option).exists():
        return "", option
    key, _, path = option.partition("=")
    if not key or not path:
        raise ConfigError(f"--workload {option}: expected CONFIG or KEY=CONFIG")
    return key, path
