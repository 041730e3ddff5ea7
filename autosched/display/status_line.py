"""The status line of a running session: the most important parts that fit the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_GAP = "  "
_BAR = 10  # characters of the shortest bar
_LONGEST_BAR = 30


@dataclass(frozen=True, slots=True)
class Status:
    """The contents of the line. `done` of `total` trials include those of the current round.

    `eta` is in seconds, None while it is not known. Texts that are empty are left out; `phase` is
    `search`, `build 3/16` and the like.
    """

    phase: str
    done: int
    total: int
    best: str = ""
    rate: str = ""
    peak: str = ""
    model: str = ""
    failures: str = ""
    name: str = ""
    eta: float | None = None

    @property
    def share(self) -> float:
        """The share of the trials that are done, 0 to 1."""
        return min(1.0, self.done / max(1, self.total))


def status_line(status: Status, width: int, *, ascii_only: bool = False) -> str:
    """The status line, of at most `width` characters.

    Percentage, best and time to go stay longest; a bar takes what room is left.

        build 3/16    27%  17/64  best 1.23 ms  122.8 GFLOP/s  41% of peak  ETA 0:23
    """
    best = f"best {status.best}" if status.best else "none valid yet"
    # In the order of the line, each with its rank: the higher, the sooner it is left out.
    pieces = [
        (5, f"{status.phase:11}"),
        (0, f"{status.share:4.0%}"),
        (3, f"{status.done}/{status.total}"),
        (6, status.name),
        (1, best),
        (4, status.rate),
        (7, status.peak),
        (9, status.model),
        (8, status.failures),
        (2, f"ETA {clock(status.eta)}"),
    ]
    kept = _kept([(rank, text) for rank, text in pieces if text], width)
    room = width - len(_GAP.join(kept)) - len(_GAP)
    if room >= _BAR:
        kept.insert(1, bar(status.share, min(room, _LONGEST_BAR), ascii_only=ascii_only))
    return _GAP.join(kept)[: max(0, width)].rstrip()


def bar(share: float, width: int, *, ascii_only: bool = False) -> str:
    """A progress bar: `━━━━──────`."""
    full, empty = "=-" if ascii_only else "━─"
    filled = round(share * width)
    return full * filled + empty * (width - filled)


def clock(seconds: float | None) -> str:
    """A duration: `0:23`, `1:02:03`, or `-:--` if it is not known."""
    if seconds is None:
        return "-:--"
    minutes, second = divmod(max(0, round(seconds)), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"


def _kept(pieces: Sequence[tuple[int, str]], width: int) -> list[str]:
    """The texts, in order; those of the highest ranks are left out until the others fit."""
    chosen = list(pieces)
    while len(chosen) > 1 and len(_GAP.join(text for _, text in chosen)) > width:
        chosen.remove(max(chosen))
    return [text for _, text in chosen]
