"""`--workload CONFIG` and `--workload KEY=CONFIG`: what Ansor's unknown workload keys mean."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from autosched.cli.console import warn
from autosched.errors import ConfigError
from autosched.measure.workload_keys import Computation, WorkloadKeys


def workload_keys(options: Sequence[str]) -> WorkloadKeys:
    """The computations of the configurations that were given, by key.

    Raises ConfigError when a configuration is wrong, or when it is not clear which key two are for.
    """
    if options:  # only then: it costs all commands that read records a quarter of a second
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
    """Say which configurations named nothing."""
    for source in keys.unused:
        warn(f"note: --workload {source}: no line has such a workload key; it was not used")


def _split(option: str) -> tuple[str, str]:
    """The key, empty where there is none, and the configuration's path."""
    if "=" not in option or Path(option).exists():
        return "", option
    key, _, path = option.partition("=")
    if not key or not path:
        raise ConfigError(f"--workload {option}: expected CONFIG or KEY=CONFIG")
    return key, path
