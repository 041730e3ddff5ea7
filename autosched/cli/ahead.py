"""The processes of a tuning run, started while the command still imports what it needs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from autosched.measure.workers import default_workers
from autosched.process.ahead import end_ahead, start_ahead

# As their owners name them, which take long to import.
BUILD = ("autosched.measure.build:make_handler", 8 << 30)
RUN = ("autosched.measure.run:make_handler", 0)


@contextmanager
def started_ahead(wanted: bool) -> Iterator[None]:
    """Start those of a run on this machine's CPU as its configuration is without a file.

    In the order in which they are needed: while the search goes on one process builds alone. What
    is not taken ends with this.
    """
    if wanted:
        start_ahead((BUILD, RUN, *[BUILD] * (default_workers("cpu") - 1)))
    try:
        yield
    finally:
        end_ahead()
