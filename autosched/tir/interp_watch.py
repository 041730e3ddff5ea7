"""What the interpreter watches for while it runs a function, and what it has seen.

A `Watch` is given to `interp.run`. It switches on the shadow state of `interp_shadow.py`, says
which blocks of a kernel run and for how long, and keeps what was written and how memory was
reached.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from autosched.tir.buffer import Buffer
from autosched.tir.expr import Expr
from autosched.tir.interp_counts import AccessCount
from autosched.tir.interp_memory import TooLargeError
from autosched.tir.stmt import Stmt

Array = np.ndarray[Any, Any]
Blocks = Callable[[Mapping[str, int]], Array]
"""Thread extents by tag -> the numbers of the blocks that run, blockIdx.x fastest."""


@dataclass
class Watch:
    """The questions of one run, and the answers that are no errors.

    `races` looks for accesses that nothing orders, in shared, warp and global memory;
    `initialised` for reads of elements that nothing has written. `outputs` names parameters whose
    content before the run means nothing. `blocks` chooses the blocks of each kernel (None: all);
    a sample leaves some of a kernel's output unwritten. `is_vector(buffer, index)` says which
    vector accesses are made as one, and must then be aligned; None means all of up to 16 bytes.
    `seconds` ends the run with TooLargeError. `counting` fills `counts`.
    """

    races: bool = True
    initialised: bool = True
    outputs: Collection[str] = ()
    blocks: Blocks | None = None
    is_vector: Callable[[Buffer, Expr], bool] | None = None
    seconds: float | None = None
    counting: bool = False
    written: dict[str, Array] = field(default_factory=dict)
    """Which elements of each output were written, flat; filled at the end of a run."""
    counts: dict[tuple[Stmt, str, bool], AccessCount] = field(default_factory=dict)
    """Bank conflicts and sectors by (statement, buffer, whether it is a store)."""
    _deadline: float = 0.0

    def start(self) -> None:
        """The time of `seconds` begins."""
        self._deadline = np.inf if self.seconds is None else time.perf_counter() + self.seconds

    def tick(self) -> None:
        """Raises TooLargeError when the time is over."""
        if time.perf_counter() > self._deadline:
            raise TooLargeError(f"not finished after {self.seconds:g} s")
