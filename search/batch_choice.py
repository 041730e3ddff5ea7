"""Order candidates for measuring when the members of a cost model disagree."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, cycle
from typing import Any

import numpy as np
import numpy.typing as npt

Opinions = npt.NDArray[np.floating[Any]]


def in_turns(
    opinions: Opinions,
    known: Opinions,
    preferred: npt.NDArray[np.bool_],
    rng: np.random.Generator,
) -> list[int]:
    """The indices of all candidates, best first (Thompson sampling in batches).

    `opinions` is (candidates, members), `known` (measured candidates, members), higher is better.
    Members take turns to choose a candidate, first among the `preferred`, then among the others. A
    candidate that no member can tell apart from one already measured or chosen goes to the end of
    the list.
    """
    first: list[int] = []
    last: list[int] = []
    seen = {row.tobytes() for row in known}
    ranking = np.argsort(-opinions, axis=0, kind="stable")[:, rng.permutation(opinions.shape[1])]
    for index in chain(_turns(ranking, preferred), _turns(ranking, ~preferred)):
        key = opinions[index].tobytes()
        (last if key in seen else first).append(index)
        seen.add(key)
    return first + last


def _turns(ranking: npt.NDArray[np.intp], among: npt.NDArray[np.bool_]) -> Iterator[int]:
    """Yield the candidates in the mask `among`, by the columns of `ranking` in turn.

    Each column yields the first of its candidates that is left.
    """
    taken = ~among
    queues = [iter(column) for column in ranking.T]
    open_queues = len(queues)
    for queue in cycle(queues):
        index = next((int(k) for k in queue if not taken[k]), None)
        if index is not None:
            taken[index] = True
            open_queues = len(queues)
            yield index
        else:
            open_queues -= 1
            if open_queues == 0:
                return
