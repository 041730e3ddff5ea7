"""What the tuner asks for candidates: the search of autosched, or one of the user's."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from autosched.search.policy import Begin, Candidate
from autosched.search.structure import Steps


class Proposer(Protocol):
    """The search of one task, as `Tuner` asks it: `SketchPolicy` and `OwnSearch`."""

    @property
    def name(self) -> str:
        """What records call who proposed a candidate; empty for the search of autosched."""
        ...

    @property
    def why_nothing(self) -> str:
        """Why the last `next_batch` was empty; an empty text where the space holds no more."""
        ...

    @property
    def asks_model(self) -> bool:
        """Whether the cost model is asked, and worth being trained before the next batch."""
        ...

    def tell(self, candidates: Sequence[Steps], costs: Sequence[float]) -> None:
        """Take note of measured costs (seconds per call, infinity for a failure)."""
        ...

    def skip(self, candidates: Iterable[tuple[Steps, str]]) -> None:
        """Never propose these; each with its `state`, or an empty text where that is not known."""
        ...

    def next_batch(self, count: int, begin: Begin) -> list[Candidate]:
        """Up to `count` new candidates; `begin` is told of those that are chosen early."""
        ...

    def draw_ahead(self, count: int, rounds: int, begin: Begin) -> None:
        """Work ahead for the next `rounds`, of `count` candidates each, while others are built."""
        ...

    def state(self, steps: Steps) -> str:
        """16 hex digits that tell loop nests apart; empty where the candidate is illegal."""
        ...
