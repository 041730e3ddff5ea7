"""Random schedules of any graph, with all primitives; steps that do not fit are left out.

For a CPU, steps come in any order: splits, fusions, reorderings, vectorised, unrolled and parallel
loops, `compute_at` anywhere, inlining, caches of caches, `rfactor` with its stages placed anywhere,
`double_buffer`, `storage_align`, `prefetch`, `set_scope`, pragmas. For a GPU the same steps are
followed by a binding of each stage. A stage is bound to blocks, virtual threads and threads,
perhaps with its reduction across threads (directly or by `rfactor`), or it is placed in a reader,
where the threads share its work.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from autosched import te
from autosched.errors import ScheduleError
from autosched.te.operations.operation import ComputeOp, PlaceholderOp, ScanOp
from autosched.te.relations import AttachType
from autosched.te.schedule.schedule import Schedule
from autosched.te.schedule.stage import Stage
from autosched.tir.expr import IterKind, IterVar

_MOST_LOOPS, _MOST_STAGES = 7, 9
_FACTORS = (1, 2, 3, 4, 5, 7, 8, 16, 16)


def random_steps(draw: random.Random, schedule: Schedule, gpu: bool) -> list[str]:
    """Change the schedule at random; return the steps as a user would write them."""
    steps = _Steps(draw, schedule, gpu)
    if gpu:
        steps.some(draw.randrange(4))
        steps.bind_all()
    else:
        steps.some(draw.randrange(2, 14))
    return steps.done


class _Steps:
    def __init__(self, draw: random.Random, schedule: Schedule, gpu: bool) -> None:
        self.draw, self.schedule, self.gpu = draw, schedule, gpu
        self.done: list[str] = []
        self.threads = draw.choice((2, 3, 4, 8))
        self.scopes = ("local", "shared") if gpu else ("global", "global", "local")

    def some(self, count: int) -> None:
        """Try `count` steps and leave out those that do not fit."""
        loops = [self.split, self.fuse, self.reorder, self.annotate, self.vectorize]
        stages: list[Callable[[Stage], None]] = [self.inline, self.cache_write, self.cache_read]
        stages += [self.rfactor, self.rfactor]
        if self.gpu:
            loops = [self.split]
        else:
            loops += [self.place] * 2
            stages += [self.inline, self.root, self.align, self.double_buffer, self.prefetch]
            stages += [self.scope, self.pragma, *[self.place] * 2]
        for _ in range(count):
            full = len(self.schedule.stages) > _MOST_STAGES
            step = self.draw.choice(loops if full else loops * 3 + stages)
            stage = self.draw.choice(self.stages())
            self.attempt(step, stage)

    def attempt(self, step: Callable[[Stage], None], stage: Stage) -> bool:
        """Apply a step; return whether it fits."""
        try:
            step(stage)
        except ScheduleError:
            return False
        return True

    def note(self, stage: Stage, text: str) -> None:
        self.done.append(f"s[{stage.name}].{text}")

    def stages(self) -> list[Stage]:
        """The stages that compute."""
        return [s for s in self.schedule.stages if isinstance(s.op, ComputeOp)]

    def readers(self, stage: Stage) -> list[Stage]:
        return [s for s in self.schedule.stages if any(t.op is stage.op for t in s.op.inputs)]

    def some_loop(self, stage: Stage) -> IterVar:
        return self.draw.choice(stage.leaf_iter_vars)

    # -- loops

    def split(self, stage: Stage) -> None:
        if len(stage.leaf_iter_vars) >= _MOST_LOOPS:
            return
        self.cut(stage, self.some_loop(stage), self.draw.choice(_FACTORS), self.draw.random() < 0.3)

    def cut(
        self, stage: Stage, loop: IterVar, number: int, outer: bool = False
    ) -> tuple[IterVar, IterVar]:
        """Split a loop into (outer, inner); `number` is the outer extent if `outer`, else inner."""
        found = stage.split(loop, nparts=number) if outer else stage.split(loop, factor=number)
        self.note(stage, f"split({_name(loop)}, {'nparts' if outer else 'factor'}={number})")
        return found

    def fuse(self, stage: Stage) -> None:
        loops = stage.leaf_iter_vars
        first = self.draw.randrange(len(loops))
        some = loops[first : first + self.draw.choice((2, 2, 3))]
        self.fused(stage, some)

    def reorder(self, stage: Stage) -> None:
        loops = self.draw.sample(
            stage.leaf_iter_vars, self.draw.randrange(1, len(stage.leaf_iter_vars) + 1)
        )
        self.order(stage, loops)

    def annotate(self, stage: Stage) -> None:
        loop, name = self.some_loop(stage), self.draw.choice(("vectorize", "unroll", "parallel"))
        getattr(stage, name)(loop)
        self.note(stage, f"{name}({_name(loop)})")

    def vectorize(self, stage: Stage) -> None:
        loop = stage.leaf_iter_vars[-1]
        stage.vectorize(loop)
        self.note(stage, f"vectorize({_name(loop)})")

    def pragma(self, stage: Stage) -> None:
        loop = self.some_loop(stage)
        key, value = self.draw.choice(
            [
                *(("auto_unroll_max_step", 16), ("auto_unroll_max_step", 512)),
                *(("unroll_explicit", True), ("unroll_explicit", False)),
                *(("loop_partition_hint", 1), ("of nobody", 1)),
            ]
        )
        stage.pragma(loop, key, value)
        self.note(stage, f"pragma({_name(loop)}, {key!r}, {value})")

    # -- placement and storage

    def place(self, stage: Stage) -> None:
        """Attach the stage to a loop of its reader, rarely of one of several or of any stage."""
        found = self.readers(stage)
        if not self.gpu and self.draw.random() < 0.1:
            found = [s for s in self.stages() if s is not stage]
        if not found or (len(found) > 1 and self.draw.random() < 0.7):
            return
        reader = self.draw.choice(found)
        if not reader.leaf_iter_vars or reader.attach_type is AttachType.INLINE:
            return
        loop = self.some_loop(reader)
        stage.compute_at(reader, loop)
        self.note(stage, f"compute_at(s[{reader.name}], {_name(loop)})")

    def inline(self, stage: Stage) -> None:
        if all(other.attach_stage is not stage for other in self.schedule.stages):
            stage.compute_inline()
            self.note(stage, "compute_inline()")

    def root(self, stage: Stage) -> None:
        stage.compute_root()
        self.note(stage, "compute_root()")

    def scope(self, stage: Stage) -> None:
        scope = self.draw.choice(("local", "global", "", "shared"))
        stage.set_scope(scope)
        self.note(stage, f"set_scope({scope!r})")

    def align(self, stage: Stage) -> None:
        assert isinstance(stage.op, ComputeOp)
        axis = self.draw.choice(stage.op.axis)
        factor, offset = self.draw.choice((0, 1, 2, 4, 8, 32)), self.draw.choice((0, 1, 3))
        stage.storage_align(axis, factor, offset)
        self.note(stage, f"storage_align({_name(axis)}, {factor}, {offset})")

    def double_buffer(self, stage: Stage) -> None:
        stage.double_buffer()
        self.note(stage, "double_buffer()")

    def prefetch(self, stage: Stage) -> None:
        if not stage.op.inputs:
            return
        tensor, loop = self.draw.choice(stage.op.inputs), self.some_loop(stage)
        offset = self.draw.choice((0, 1, 2))
        stage.prefetch(tensor, loop, offset)
        self.note(stage, f"prefetch({tensor.name}, {_name(loop)}, {offset})")

    # -- stages that are added

    def cache_write(self, stage: Stage) -> None:
        scope, tensors = self.draw.choice(self.scopes), list(stage.op.outputs)
        self.schedule.cache_write(tensors if len(tensors) > 1 else tensors[0], scope)
        self.done.append(f"s.cache_write({stage.name}, {scope!r})")

    def cache_read(self, stage: Stage) -> None:
        if not stage.op.inputs:
            return
        scope, tensor = self.draw.choice(self.scopes), self.draw.choice(stage.op.inputs)
        self.schedule.cache_read(tensor, scope, stage.op)
        self.done.append(f"s.cache_read({tensor.name}, {scope!r}, [{stage.name}])")

    def rfactor(self, stage: Stage) -> None:
        loops = [v for v in stage.leaf_iter_vars if v.kind == IterKind.REDUCE]
        if not loops:
            return
        loop, position = self.draw.choice(loops), self.draw.randrange(-2, 3)
        self.done.append(f"s.rfactor({stage.name}, {_name(loop)}, {position})")
        try:
            self.schedule.rfactor(stage.op.output(0), loop, position)
        except ScheduleError:
            self.done.pop()
            raise

    # -- threads

    def bind_all(self) -> None:
        """Bind every stage to blocks and threads, or place it in a loop of a reader."""
        inside: set[Stage] = set()
        for stage in reversed(list(self.schedule.stages)):
            if isinstance(stage.op, PlaceholderOp) or stage.attach_type is AttachType.INLINE:
                continue
            if isinstance(stage.op, ScanOp):
                if self.draw.random() < 0.8 and self.attempt(self.scan_threads, stage):
                    first = [t.op for t in (*stage.op.init, *stage.op.update)]
                    inside |= {s for s in self.schedule.stages if s.op in first}
            elif stage in inside:
                self.attempt(self.share, stage)
            elif stage.attach_type is AttachType.SCAN_UPDATE:
                continue
            elif self.draw.random() < 0.75 and self.placed(stage):
                self.attempt(self.inner, stage)
            else:
                self.attempt(self.bind, stage)

    def scan_threads(self, stage: Stage) -> None:
        """Bind the threads in which all steps of a scan run."""
        count = self.threads
        stage.env_threads([te.thread_axis((0, count), "threadIdx.x")])
        self.note(stage, f'env_threads([te.thread_axis((0, {count}), "threadIdx.x")])')

    def placed(self, stage: Stage) -> bool:
        """Try to place the stage in a loop of a reader; return whether it is attached to one."""
        if stage.is_output or not self.attempt(self.place, stage):
            return False
        return stage.attach_type is AttachType.SCOPE

    def inner(self, stage: Stage) -> None:
        """Schedule a stage inside another: shared by all threads or vectorised, in some scope."""
        shared = self.draw.random() < 0.5
        if self.draw.random() < 0.8:
            some = ("shared", "shared", "shared.dyn", "warp") if shared else ("local", "shared")
            scope = self.draw.choice(some)
            stage.set_scope(scope)
            self.note(stage, f"set_scope({scope!r})")
        if shared:
            self.share(stage)
        elif self.draw.random() < 0.5:
            _, last = self.cut(stage, self.some_loop(stage), self.draw.choice((2, 3, 4)))
            if last.kind != IterKind.REDUCE:
                self.order(stage, [*(v for v in stage.leaf_iter_vars if v is not last), last])
                stage.vectorize(last)
                self.note(stage, f"vectorize({_name(last)})")
        if self.draw.random() < 0.15:
            self.double_buffer(stage)
        if self.draw.random() < 0.2:
            self.align(stage)

    def share(self, stage: Stage) -> None:
        """Share the work of the stage among all threads."""
        assert isinstance(stage.op, ComputeOp)
        axes = list(stage.op.axis)
        if stage.leaf_iter_vars[: len(axes)] == axes:
            _, last = self.cut(stage, self.fused(stage, axes), self.threads)
            self.thread(stage, last, "threadIdx.x")

    def bind(self, stage: Stage) -> None:
        """Bind blocks and threads, perhaps with virtual threads, or reduce across threads."""
        spatial = [v for v in stage.leaf_iter_vars if v.kind == IterKind.DATA_PAR]
        reduced = [v for v in stage.leaf_iter_vars if v.kind == IterKind.REDUCE]
        if not spatial:
            return
        self.order(stage, [*spatial, *reduced])
        fused = self.fused(stage, spatial)
        if reduced and self.draw.random() < 0.35:
            self.across_threads(stage, fused, self.draw.choice(reduced))
            return
        block, rest = self.cut(stage, fused, self.threads * self.draw.choice((1, 1, 2)))
        self.thread(stage, block, "blockIdx.x")
        if self.draw.random() < 0.3:
            virtual, rest = self.cut(stage, rest, 2, outer=True)
            self.thread(stage, virtual, "vthread")
        thread, inner = self.cut(stage, rest, self.threads, outer=True)
        self.thread(stage, thread, "threadIdx.x")
        if not reduced and self.draw.random() < 0.4:
            stage.vectorize(inner)
            self.note(stage, f"vectorize({_name(inner)})")
        if reduced and self.draw.random() < 0.5:
            self.cut(stage, self.draw.choice(reduced), self.draw.choice((2, 3, 4)))

    def across_threads(self, stage: Stage, block: IterVar, loop: IterVar) -> None:
        """Let each thread do a part of the reduction, and combine the parts of all threads."""
        outer, inner = self.cut(stage, loop, self.threads, outer=self.draw.random() < 0.4)
        thread = self.draw.choice((outer, inner))
        if self.draw.random() < 0.6:
            self.thread(stage, block, "blockIdx.x")
            self.thread(stage, thread, "threadIdx.x")
            return
        made = self.schedule.rfactor(stage.op.output(0), thread)
        factor = made[0] if isinstance(made, tuple) else made
        self.done.append(f"s.rfactor({stage.name}, {_name(thread)})")
        assert isinstance(stage.op, ComputeOp)
        (last,) = stage.op.reduce_axis
        self.thread(stage, stage.op.axis[0], "blockIdx.x")
        self.thread(stage, last, "threadIdx.x")
        self.schedule[factor].compute_at(stage, last)
        self.note(self.schedule[factor], f"compute_at(s[{stage.name}], {_name(last)})")

    def fused(self, stage: Stage, loops: Sequence[IterVar]) -> IterVar:
        found = stage.fuse(*loops) if len(loops) > 1 else loops[0]
        self.note(stage, f"fuse({_names(loops)})")
        return found

    def order(self, stage: Stage, loops: Sequence[IterVar]) -> None:
        stage.reorder(*loops)
        self.note(stage, f"reorder({_names(loops)})")

    def thread(self, stage: Stage, loop: IterVar, tag: str) -> None:
        stage.bind(loop, te.thread_axis(tag))
        self.note(stage, f'bind({_name(loop)}, te.thread_axis("{tag}"))')


def _name(loop: IterVar) -> str:
    return loop.var.name


def _names(loops: Sequence[IterVar]) -> str:
    return ", ".join(map(_name, loops))
