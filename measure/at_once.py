"""Timing pieces of work that several threads do at the same moment."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

Seconds = list[list[float]]


def seconds_at_once(work: Sequence[Callable[[], object]], rounds: int) -> Seconds:
    """Seconds of each piece, each in a thread of its own, in each of the rounds.

    The pieces of a round begin together. Work should let go of the interpreter's lock.
    """
    barrier = threading.Barrier(len(work))
    seconds = [[0.0] * len(work) for _ in range(rounds)]

    def one(index: int) -> None:
        for row in seconds:
            barrier.wait()
            begin = time.perf_counter()
            work[index]()
            row[index] = time.perf_counter() - begin

    threads = [threading.Thread(target=one, args=(index,)) for index in range(len(work))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return seconds
