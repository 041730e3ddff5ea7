"""The interface of a search to the tuner: that of autosched, or one of the user's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from autosched.search.policy import Begin, Candidate
from autosched.search.structure import Steps


class Proposer(Protocol):
    """The search of one task, as `Tuner` asks it: `SketchPolicy` and `OwnSearch`."""

    @property
    def name(self) -> str:
        """The name of the search in records; empty for the search of autosched."""
        ...

    @property
    def why_nothing(self) -> str:
        """Why the last `next_batch` was empty; an empty text if the space holds no more."""
        ...

    @property
    def asks_model(self) -> bool:
        """Whether the search asks the cost model, which then is trained before the next batch."""
        ...

    def tell(self, candidates: Sequence[Steps], costs: Sequence[float]) -> None:
        """Take note of measured costs (seconds per call, infinity for a failure)."""
        ...

    def skip(self, candidates: Iterable[tuple[Steps, str]]) -> None:
        """Never propose these candidates, each given with its `state` (empty where unknown)."""
        ...

    def next_batch(self, count: int, begin: Begin) -> list[Candidate]:
        """Up to `count` new candidates; `begin` is called with those that are chosen early."""
        ...

    def draw_ahead(self, count: int, rounds: int, begin: Begin) -> None:
        """Work ahead for `rounds` rounds of `count` candidates each, while others are built."""
        ...

    def state(self, steps: Steps) -> str:
        """A hash of the candidate's loop nest, 16 hex digits; empty if the candidate is illegal."""
        ...
