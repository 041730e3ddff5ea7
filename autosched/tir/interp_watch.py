"""The checks that the interpreter makes while it runs a function, and what it records.

A `Watch` is given to `interp.run`. It enables the shadow memory of `interp_shadow.py`, chooses
which blocks of a kernel run and for how long, and records what was written and how memory was
accessed.
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
"""Maps thread extents by tag to the numbers of the blocks to run, with blockIdx.x fastest."""


@dataclass
class Watch:
    """The checks to make in one run, and its recorded results.

    `races` looks for unordered accesses in shared, warp and global memory; `initialised` for reads
    of elements that nothing has written. `outputs` names parameters whose content before the run is
    undefined. `blocks` chooses the blocks of each kernel (None runs all); a sample leaves some of a
    kernel's output unwritten. `is_vector(buffer, index)` says which vector accesses are single
    instructions, and must be aligned; None means all of up to 16 bytes. A run longer than `seconds`
    raises TooLargeError. With `counting`, `counts` is filled.
    """

    races: bool = True
    initialised: bool = True
    outputs: Collection[str] = ()
    blocks: Blocks | None = None
    is_vector: Callable[[Buffer, Expr], bool] | None = None
    seconds: float | None = None
    counting: bool = False
    written: dict[str, Array] = field(default_factory=dict)
    """For each output a flat array that says which elements were written; set when a run ends."""
    counts: dict[tuple[Stmt, str, bool], AccessCount] = field(default_factory=dict)
    """Bank conflicts and sectors by (statement, buffer, whether it is a store)."""
    _deadline: float = 0.0

    def start(self) -> None:
        """Start the time limit of `seconds`."""
        self._deadline = np.inf if self.seconds is None else time.perf_counter() + self.seconds

    def tick(self) -> None:
        """Raise TooLargeError when the time limit is exceeded."""
        if time.perf_counter() > self._deadline:
            raise TooLargeError(f"not finished after {self.seconds:g} s")
