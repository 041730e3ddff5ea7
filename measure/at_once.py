"""Time pieces of work that several threads do at the same moment."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

Seconds = list[list[float]]


def seconds_at_once(work: Sequence[Callable[[], object]], rounds: int) -> Seconds:
    """Run each piece of work in a thread of its own, `rounds` times; time each in seconds.

    Row r, column i of the result is piece i in round r. All pieces of a round begin together. A
    piece must release the interpreter's lock to run in parallel with the others.
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
