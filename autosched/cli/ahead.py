"""Worker processes of a tuning run, started while the command still imports its modules."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from autosched.measure.workers import default_workers
from autosched.process.ahead import end_ahead, start_ahead

# As their modules name them; importing those would take long.
BUILD = ("autosched.measure.build:make_handler", 8 << 30)
RUN = ("autosched.measure.run:make_handler", 0)


@contextmanager
def started_ahead(wanted: bool) -> Iterator[None]:
    """Start the processes that a run with default settings on this machine's CPU needs.

    They start in the order in which they are needed: during the search one process builds alone.
    Processes that are not taken over end with this context.
    """
    if wanted:
        start_ahead((BUILD, RUN, *[BUILD] * (default_workers("cpu") - 1)))
    try:
        yield
    finally:
        end_ahead()
