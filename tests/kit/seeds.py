"""Random tests that draw all they need from one generator: a loop over fixed seeds."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable

Test = Callable[..., None]


def each_seed(count: int) -> Callable[[Test], Test]:
    """Runs a test with `seed` = 0 ... count - 1; an error says for which it failed.

    A seed has nothing that hypothesis could shrink, and its draws cost as much as a small test.
    """

    def decorate(test: Test) -> Test:
        @functools.wraps(test)
        def run(**fixtures: object) -> None:
            for seed in range(count):
                try:
                    test(**fixtures, seed=seed)
                except BaseException as error:
                    error.add_note(f"{test.__name__}: seed {seed}")
                    raise

        signature = inspect.signature(test)
        kept = [p for name, p in signature.parameters.items() if name != "seed"]
        run.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]  # pytest reads it
        return run

    return decorate
