"""The interface of sketch rules, and the context in which they see a task."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from autosched.cpu_caches import TYPICAL
from autosched.nest.core import Core, core_of
from autosched.search.options import SearchOptions
from autosched.state.dag import ComputeDAG
from autosched.state.state import State
from autosched.target import HardwareParams
from autosched.te.intrin.instruction import Instruction

Next = list[tuple[State, int]]
"""What a rule makes of a state: new states, each with the stage to work on next."""


class Decision(Enum):
    """Whether a rule applies to a stage, and whether later rules are still tried."""

    SKIP = "skip"
    APPLY = "apply"
    APPLY_AND_SKIP_REST = "apply and skip rest"


@dataclass(frozen=True, slots=True)
class Context:
    """The task as rules see it."""

    dag: ComputeDAG
    hardware: HardwareParams
    is_gpu: bool
    options: SearchOptions
    instructions: tuple[Instruction, ...] = ()
    """The tensor instructions of the target, best first."""
    vector_bytes: int = 0
    """The width of the CPU's vector registers; 0 where only Ansor's `hardware` is known, which
    says 64 for every CPU."""
    second_cache: int = TYPICAL[1]
    """Bytes of the CPU's second cache."""
    copies_ahead: bool = False
    """Whether a GPU copies to shared memory asynchronously, while its threads go on."""
    shared_bytes: int = 48 << 10
    """Bytes of shared memory that the space `autosched` gives a block."""
    vector_registers: int = 0
    """How many vector registers the CPU has; 0 for as many as their width usually has."""
    fitting: bool = False
    """Whether tiles that fit a GPU are drawn in Ansor's space, too; Ansor leaves that to chance."""

    @property
    def fits_tiles(self) -> bool:
        """Whether the lengths of tiled stages are drawn among those that fit a GPU."""
        return self.is_gpu and (self.fitting or self.options.space != "ansor")

    @property
    def most_shared_bytes(self) -> int:
        """Bytes of shared memory that a block may have in the space."""
        if self.options.space == "ansor":
            return self.hardware.max_shared_memory_per_block
        return self.shared_bytes

    @property
    def core(self) -> Core:
        """The CPU core that kernels run on."""
        if not self.vector_bytes:
            return core_of(self.hardware.vector_unit_bytes)
        return core_of(self.vector_bytes, self.vector_registers)


class SketchRule(Protocol):
    """A rule that changes the stage `stage_id` of a state, built-in or user-defined.

    `apply` returns pairs of a new state and the stage to work on next.
    """

    @property
    def name(self) -> str:
        """The name that messages use."""

    def condition(self, context: Context, state: State, stage_id: int) -> Decision:
        """Whether the rule applies to the stage."""

    def apply(self, context: Context, state: State, stage_id: int) -> Next:
        """The new states, each with the stage to work on next."""


@dataclass(frozen=True, slots=True)
class FunctionRule:
    """A sketch rule made of two functions."""

    name: str
    condition: Callable[[Context, State, int], Decision]
    apply: Callable[[Context, State, int], Next]
