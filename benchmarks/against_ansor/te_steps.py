"""Random steps of te schedules, drawn for the stages and loops that are there."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any, ClassVar

from te_programs import Scheduled, Step

from autosched.errors import ScheduleError
from autosched.te.operations.operation import ComputeOp, PlaceholderOp, ScanOp
from autosched.tir.expr import IterKind

FACTORS = (1, 2, 3, 4, 5, 7, 8, 16)
OF_A_LOOP = frozenset(
    ("split", "fuse", "reorder", "tile", "vectorize", "unroll", "parallel", "rfactor")
) | {"bind", "prefetch", "pragma"}
MAKES_STAGES = frozenset(("cache_read", "cache_write", "rfactor"))
KINDS = {
    "split": 4,
    "compute_at": 3,
    "rfactor": 2,
    **dict.fromkeys(("fuse", "reorder", "tile", "vectorize", "unroll", "parallel", "pragma"), 1),
    **dict.fromkeys(("compute_inline", "compute_root", "cache_read", "cache_write"), 1),
    **dict.fromkeys(("set_scope", "double_buffer", "storage_align", "prefetch"), 1),
}
"""What may be drawn, and how often; for GPUs and their scans more."""
OF_GPUS = {"bind": 8, "set_store_predicate": 1}
OF_GPU_SCANS = {"env_threads": 10}


class Draw:
    """Steps of one case; those that do not fit are kept aside."""

    def __init__(self, rng: random.Random, scheduled: Scheduled) -> None:
        self.rng, self.scheduled = rng, scheduled
        self.done: list[Step] = []
        self.refused: list[tuple[int, Step, str]] = []
        self.gpu = rng.random() < 0.3

    def some(self, count: int) -> None:
        """Draw so many steps, and apply those that fit."""
        for _ in range(count):
            step = self.step()
            if step is None:
                continue
            try:
                self.scheduled.apply(step)
                self.done.append(step)
            except ScheduleError as error:
                self.refused.append((len(self.done), step, str(error)))

    def step(self) -> Step | None:
        """One step of some stage; None where what was drawn has nothing to act on."""
        stages = self.scheduled.schedule.stages
        number = self.rng.randrange(len(stages))
        stage = stages[number]
        if isinstance(stage.op, PlaceholderOp) and self.rng.random() < 0.9:
            return None
        kinds = dict(KINDS)
        if self.gpu:
            kinds |= OF_GPUS | (OF_GPU_SCANS if isinstance(stage.op, ScanOp) else {})
        (kind,) = self.rng.choices(list(kinds), list(kinds.values()))
        loops = len(self.scheduled.loops(stage))
        if (kind in OF_A_LOOP and not loops) or (len(stages) > 11 and kind in MAKES_STAGES):
            return None
        loop = [self.rng.randrange(loops)] if loops else []
        if kind not in self.arguments:
            return [kind, number, *(loop if kind in OF_A_LOOP else ())]
        found = self.arguments[kind](self, stage, loops, *loop or (0,))
        return None if found is None else [kind, number, *found]

    def _split(self, stage: Any, loops: int, loop: int) -> list[Any] | None:
        way = self.rng.choice(("factor", "factor", "nparts"))
        return None if loops > 7 else [loop, way, self.rng.choice(FACTORS)]

    def _fuse(self, stage: Any, loops: int, loop: int) -> list[Any]:
        return [list(range(loop, min(loops, loop + self.rng.choice((2, 2, 3)))))]

    def _reorder(self, stage: Any, loops: int, loop: int) -> list[Any]:
        return [self.rng.sample(range(loops), self.rng.randrange(1, loops + 1))]

    def _tile(self, stage: Any, loops: int, loop: int) -> list[Any]:
        return [loop, self.rng.randrange(loops), *self.rng.choices(FACTORS, k=2)]

    def _compute_at(self, stage: Any, loops: int, loop: int) -> list[Any] | None:
        stages = self.scheduled.schedule.stages
        readers = [
            k
            for k, s in enumerate(stages)
            if any(t in stage.op.outputs for t in s.op.inputs) or self.rng.random() < 0.02
        ]
        if not readers:
            return None
        parent = self.rng.choice(readers)
        around = len(self.scheduled.loops(stages[parent]))
        return [parent, self.rng.randrange(around)] if around else None

    def _cache_read(self, stage: Any, loops: int, loop: int) -> list[Any] | None:
        output = self.rng.randrange(len(stage.op.outputs))
        tensor = stage.op.outputs[output]
        stages = self.scheduled.schedule.stages
        readers = [k for k, s in enumerate(stages) if tensor in s.op.inputs]
        if not readers:
            return None
        some = self.rng.sample(readers, self.rng.randint(1, len(readers)))
        return [output, self.rng.choice(("local", "global", "shared")), some]

    def _cache_write(self, stage: Any, loops: int, loop: int) -> list[Any]:
        return [self.rng.choice(("local", "global")), len(stage.op.outputs)]

    def _rfactor(self, stage: Any, loops: int, loop: int) -> list[Any]:
        every = self.scheduled.loops(stage)
        reduced = [k for k, v in enumerate(every) if v.kind == IterKind.REDUCE]
        if not reduced or self.rng.random() < 0.05:
            reduced = [loop]
        return [self.rng.choice(reduced), self.rng.choice((0, 0, -1, 1))]

    def _bind(self, stage: Any, loops: int, loop: int) -> list[Any]:
        tags = ("blockIdx.x", "threadIdx.x", "threadIdx.x", "threadIdx.y", "vthread")
        return [loop, self.rng.choice(tags)]

    def _set_scope(self, stage: Any, loops: int, loop: int) -> list[Any]:
        return [self.rng.choice(("local", "shared", "global", ""))]

    def _storage_align(self, stage: Any, loops: int, loop: int) -> list[Any] | None:
        axes = len(stage.op.axis) if isinstance(stage.op, ComputeOp) else 0
        if not axes:
            return None
        return [self.rng.randrange(axes), self.rng.choice((1, 4, 8)), self.rng.choice((0, 1))]

    def _prefetch(self, stage: Any, loops: int, loop: int) -> list[Any] | None:
        inputs = 0 if isinstance(stage.op, ScanOp) else len(stage.op.inputs)  # named apart
        return [self.rng.randrange(inputs), loop, self.rng.choice((0, 1))] if inputs else None

    def _pragma(self, stage: Any, loops: int, loop: int) -> list[Any]:
        return [loop, "auto_unroll_max_step", 16]

    def _set_store_predicate(self, stage: Any, loops: int, loop: int) -> list[Any]:
        return ["threadIdx.x", self.rng.choice((1, 2, 8))]

    def _env_threads(self, stage: Any, loops: int, loop: int) -> list[Any]:
        return ["threadIdx.x", self.rng.choice((4, 8))]

    arguments: ClassVar[dict[str, Callable[[Draw, Any, int, int], list[Any] | None]]] = {
        "split": _split,
        "fuse": _fuse,
        "reorder": _reorder,
        "tile": _tile,
        "compute_at": _compute_at,
        "cache_read": _cache_read,
        "cache_write": _cache_write,
        "rfactor": _rfactor,
        "bind": _bind,
        "set_scope": _set_scope,
        "storage_align": _storage_align,
        "prefetch": _prefetch,
        "pragma": _pragma,
        "set_store_predicate": _set_store_predicate,
        "env_threads": _env_threads,
    }
