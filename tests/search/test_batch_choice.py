"""Who chooses what of a batch: members and groups in turns, nothing that is known already."""

from collections.abc import Sequence

import numpy as np

from autosched.search.batch_choice import in_turns
from kit.types import Array

NOTHING = np.zeros((0, 2), np.float32)


def chosen(
    opinions: Sequence[list[float]] | Array,
    known: Sequence[list[float]] | Array = NOTHING,
    preferred: list[int] | Array | None = None,
    seed: int = 0,
) -> list[int]:
    opinions = np.array(opinions, np.float32)
    known = np.array(known, np.float32).reshape(-1, opinions.shape[1])
    first = np.zeros(len(opinions), bool) if preferred is None else np.array(preferred, bool)
    return in_turns(opinions, known, first, np.random.default_rng(seed))


def test_one_member_chooses_the_best_first() -> None:
    assert chosen([[1.0], [3.0], [2.0]]) == [1, 2, 0]


def test_members_take_turns_by_their_own_order() -> None:
    """The first member ranks 0, 1, 2, 3 and the second 3, 2, 1, 0; either may begin."""
    opinions = [[4.0, 1.0], [3.0, 2.0], [2.0, 3.0], [1.0, 4.0]]
    found = {tuple(chosen(opinions, seed=seed)) for seed in range(8)}
    assert found == {(0, 3, 1, 2), (3, 0, 2, 1)}


def test_those_preferred_come_first_unless_known() -> None:
    """However bad they are; what cannot be told apart from a measured one comes last even so."""
    opinions = [[9.0], [8.0], [7.0], [2.0], [1.0]]
    assert chosen(opinions, preferred=[0, 0, 1, 1, 1]) == [2, 3, 4, 0, 1]
    assert chosen(opinions, preferred=[0, 0, 1, 1, 1], known=[[2.0]]) == [2, 4, 0, 1, 3]


def test_what_cannot_be_told_apart_comes_last() -> None:
    """Of candidates that look alike to all members one is tried, and none that look measured."""
    opinions = [[5.0, 5.0], [5.0, 5.0], [4.0, 4.0], [3.0, 3.0]]
    assert chosen(opinions) == [0, 2, 3, 1]
    assert chosen(opinions, known=[[4.0, 4.0]]) == [0, 3, 1, 2]


def test_nothing_is_lost_or_named_twice() -> None:
    rng = np.random.default_rng(1)
    opinions = rng.integers(0, 4, (40, 8))
    known = opinions[:5]
    preferred = rng.integers(0, 2, 40)
    assert sorted(chosen(opinions, known, preferred)) == list(range(40))
