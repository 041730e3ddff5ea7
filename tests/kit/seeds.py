"""Run random tests that draw everything from one generator, in a loop over fixed seeds."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable

Test = Callable[..., None]


def each_seed(count: int) -> Callable[[Test], Test]:
    """Run a test with `seed` = 0 ... count - 1; an error names the seed.

    A seed has nothing that hypothesis could shrink, and hypothesis takes as long to draw one as a
    small test.
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
