"""Write a candidate as the Python code that schedules it by hand.

    s = te.create_schedule([C.op])
    A, B, C = (stage.op.output(0) for stage in s.stages)
    C_i, C_j, C_k = s[C].op.root_iter_vars
    C_i_outer, C_i_inner = s[C].split(C_i, factor=8)
    s[C].parallel(C_i_outer)

The code runs as it is when the output tensors are bound to their names.
"""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from autosched.state.dag import ComputeDAG
from autosched.state.iterator import ANNOTATION_TEXT, Annotation
from autosched.state.replay import Replay
from autosched.state.steps import (
    AnnotationStep,
    CacheReadStep,
    CacheWriteStep,
    ComputeAtStep,
    ComputeInlineStep,
    ComputeRootStep,
    InstructionStep,
    MatrixTilesStep,
    PragmaStep,
    ReorderStep,
    RfactorStep,
    Step,
    StorageAlignStep,
    inserted_stages,
)
from autosched.te.relations import Fuse, Relation, Singleton, Split
from autosched.te.schedule.instruction_stages import INSTRUCTION
from autosched.te.schedule.stage import Stage
from autosched.tir.expr import IterVar


def python_schedule(dag: ComputeDAG, steps: Iterable[Step]) -> str:
    """The code that applies `steps` to the computation of `dag`; ScheduleError when illegal."""
    return _text(_write(dag, steps, ()).lines)


def python_program(
    dag: ComputeDAG, steps: Iterable[Step], source: str, reserved: Iterable[str]
) -> str:
    """`python_schedule` after a line that binds the output tensors.

    `source` is Python code for the DAG whose outputs they are. Names in `reserved` are not used.
    Raises ScheduleError when the steps are illegal.
    """
    writer = _write(dag, steps, reserved)
    first = f"{_target(writer.outputs)} = (op.output(0) for op in {source}.outputs)"
    return _text([first, *writer.lines])


def _write(dag: ComputeDAG, steps: Iterable[Step], reserved: Iterable[str]) -> _Writer:
    writer = _Writer(dag, reserved)
    steps = tuple(steps)
    for k in range(len(steps)):
        writer.step(steps, k)
    return writer


def _text(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


class _Writer:
    """Replays the steps and writes a line for every change of the schedule."""

    def __init__(self, dag: ComputeDAG, reserved: Iterable[str]) -> None:
        self.replay = Replay(dag.ops, dag.outputs)
        self.lines: list[str] = []
        self.taken: set[str] = {"s", "te", "stage", "op", *reserved}
        self.tensors: list[str] = [self.fresh(op.name) for op in dag.ops]
        self.axis_names: dict[IterVar, str] = {}
        self.outputs = [self.tensors[dag.ops.index(op)] for op in dag.outputs]
        outputs = ", ".join(f"{name}.op" for name in self.outputs)
        self.lines.append(f"s = te.create_schedule([{outputs}])")
        self.lines.append(f"{_target(self.tensors)} = (stage.op.output(0) for stage in s.stages)")
        for stage_id in range(len(dag.ops)):
            self.name_roots(stage_id)

    def step(self, steps: Sequence[Step], k: int) -> None:
        """Replay steps[k] and write its effect."""
        step = steps[k]
        before = list(self.replay.stages)
        axes = [list(a) for a in self.replay.axes]
        known = len(before[step.stage_id].relations) if step.stage_id < len(before) else 0
        self.replay.apply(steps, k)
        write = _WRITERS.get(type(step))
        if write is not None:
            write(self, step, [[self.axis_names[iv] for iv in a] for a in axes])
        else:
            stage = self.replay.stages[step.stage_id]
            for relation in stage.relations[known:]:
                self._relation(self.tensors[step.stage_id], stage, relation)

    def inserted(self, position: int, call: str, rewritten: int | None) -> None:
        """Write the call that made a new stage at `position`; name its axes and those of the stage
        `rewritten`, whose loops were reset."""
        name = self.fresh(self.replay.stages[position].op.name)
        self.tensors.insert(position, name)
        self.lines.append(f"{name} = {call}")
        self.name_roots(position)
        if rewritten is not None:
            self.name_roots(rewritten)

    def name_roots(self, stage_id: int) -> None:
        """Write a line that names the axes of a stage."""
        roots = self.replay.stages[stage_id].op.root_iter_vars
        if not roots:
            return
        tensor = self.tensors[stage_id]
        names = [self._axis(tensor, iv) for iv in roots]
        self.lines.append(f"{_target(names)} = s[{tensor}].op.root_iter_vars")

    def _relation(self, tensor: str, stage: Stage, relation: Relation) -> None:
        names = self.axis_names
        match relation:
            case Split(parent=parent, outer=outer, inner=inner, factor=factor, nparts=nparts):
                source = names[parent]
                pair = f"{self._axis(tensor, outer)}, {self._axis(tensor, inner)}"
                size = f"factor={factor!r}" if nparts is None else f"nparts={nparts!r}"
                self.lines.append(f"{pair} = s[{tensor}].split({source}, {size})")
            case Fuse(outer=outer, inner=inner, fused=fused):
                both = f"{names[outer]}, {names[inner]}"
                self.lines.append(f"{self._axis(tensor, fused)} = s[{tensor}].fuse({both})")
            case Singleton(iter=iv):
                self.lines.append(f"{self._axis(tensor, iv)} = s[{tensor}].fuse()")

    def _axis(self, tensor: str, iv: IterVar) -> str:
        self.axis_names[iv] = name = self.fresh(f"{tensor}_{iv.var.name}")
        return name

    def fresh(self, hint: str) -> str:
        """An unused name like `hint`."""
        base = re.sub(r"\W", "_", hint)
        if keyword.iskeyword(base) or not base.isidentifier():
            base = f"_{base}"
        name, k = base, 0
        while name in self.taken:
            k += 1
            name = f"{base}_{k}"
        self.taken.add(name)
        return name


def _target(names: Sequence[str]) -> str:
    return f"{names[0]}," if len(names) == 1 else ", ".join(names)


Names = list[list[str]]


def _annotation(w: _Writer, step: AnnotationStep, axes: Names) -> None:
    text = ANNOTATION_TEXT[step.annotation]
    tensor, axis = w.tensors[step.stage_id], axes[step.stage_id][step.iter_id]
    if step.annotation is Annotation.TENSORIZE:
        name, _, part = str(w.replay.stages[step.stage_id].op.attrs[INSTRUCTION]).partition(":")
        intrin = f'te.tensor_instruction("{name}")["{part}"]'
        w.lines.append(f"s[{tensor}].tensorize({axis}, {intrin})")
        return
    if step.annotation >= Annotation.VTHREAD:
        w.lines.append(f's[{tensor}].bind({axis}, te.thread_axis("{text}"))')
    elif step.annotation is not Annotation.NONE:
        w.lines.append(f"s[{tensor}].{text}({axis})")


def _pragma(w: _Writer, step: PragmaStep, axes: Names) -> None:
    tensor, names = w.tensors[step.stage_id], axes[step.stage_id]
    if step.iter_id >= len(names):
        return
    axis, limit = names[step.iter_id], step.unroll_limit
    if step.pipeline_stages:
        w.lines.append(f's[{tensor}].pragma({axis}, "software_pipeline", {step.pipeline_stages})')
    elif limit is None:
        w.lines.append(f"s[{tensor}].pragma({axis}, {step.pragma!r})")
    else:
        w.lines.append(f's[{tensor}].pragma({axis}, "auto_unroll_max_step", {limit})')
        w.lines.append(f's[{tensor}].pragma({axis}, "unroll_explicit", 1)')


def _reorder(w: _Writer, step: ReorderStep, axes: Names) -> None:
    order = ", ".join(axes[step.stage_id][i] for i in step.after_ids)
    w.lines.append(f"s[{w.tensors[step.stage_id]}].reorder({order})")


def _storage_align(w: _Writer, step: StorageAlignStep, axes: Names) -> None:
    if w.replay.stages[step.stage_id].is_output:
        return
    axis = axes[step.stage_id][step.iter_id]
    tensor = w.tensors[step.stage_id]
    w.lines.append(f"s[{tensor}].storage_align({axis}, {step.factor}, {step.offset})")


def _compute_at(w: _Writer, step: ComputeAtStep, axes: Names) -> None:
    target = w.tensors[step.target_stage_id]
    axis = axes[step.target_stage_id][step.target_iter_id]
    w.lines.append(f"s[{w.tensors[step.stage_id]}].compute_at(s[{target}], {axis})")


def _compute_inline(w: _Writer, step: ComputeInlineStep, axes: Names) -> None:
    w.lines.append(f"s[{w.tensors[step.stage_id]}].compute_inline()")


def _compute_root(w: _Writer, step: ComputeRootStep, axes: Names) -> None:
    w.lines.append(f"s[{w.tensors[step.stage_id]}].compute_root()")


def _cache_read(w: _Writer, step: CacheReadStep, axes: Names) -> None:
    readers = ", ".join(w.tensors[r] for r in step.reader_stage_ids)
    call = f's.cache_read({w.tensors[step.stage_id]}, "{step.scope}", [{readers}])'
    w.inserted(step.stage_id + 1, call, None)


def _cache_write(w: _Writer, step: CacheWriteStep, axes: Names) -> None:
    stage_id = step.stage_id
    tensor = w.tensors[stage_id]
    if len(w.replay.stages[stage_id].op.outputs) == 1:
        call = f's.cache_write({tensor}, "{step.scope}")'
    else:
        call = f's.cache_write(list({tensor}.op.outputs), "{step.scope}")[0]'
    w.inserted(stage_id, call, stage_id + 1)


def _rfactor(w: _Writer, step: RfactorStep, axes: Names) -> None:
    tensor, axis = w.tensors[step.stage_id], axes[step.stage_id][step.iter_id]
    call = f"s.rfactor({tensor}, {axis}, {step.factor_iter_id})"
    if len(w.replay.stages[step.stage_id].op.outputs) > 1:
        call += "[0]"
    w.inserted(step.stage_id, call, step.stage_id + 1)


def _use_instruction(w: _Writer, step: InstructionStep, axes: Names) -> None:
    stage_id, added = step.stage_id, inserted_stages(step)
    tensor = w.tensors[stage_id]
    names = [w.fresh(w.replay.stages[stage_id + k].op.name) for k in range(added)]
    w.tensors[stage_id:stage_id] = names
    tile = f"({step.rows}, {step.columns})"
    call = f's.use_instruction({tensor}, "{step.instruction}", {tile}, {step.pack_a}, {step.over})'
    w.lines.append(f"{_target(names)} = {call}")
    for k in range(added + 1):
        w.name_roots(stage_id + k)


def _matrix_tiles(w: _Writer, step: MatrixTilesStep, axes: Names) -> None:
    tensor, writer = w.tensors[step.stage_id], w.tensors[step.writer_id]
    last = "" if writer == tensor else f", {writer}"
    numbers = ", ".join(map(str, (*step.sizes, step.stages, step.swizzle)))
    added = w.replay.stages[step.stage_id : step.stage_id + inserted_stages(step)]
    names = [w.fresh(stage.op.name) for stage in added]
    w.tensors[step.stage_id : step.stage_id] = names
    call = f's.matrix_tiles({tensor}, te.MatrixTile({numbers}), "{step.instruction}"{last})'
    w.lines.append(f"{_target(names)} = {call}")
    for stage, own in zip(w.replay.stages, w.replay.axes, strict=True):
        for iv in own:
            w.axis_names.setdefault(iv, f"s[{w.tensors[w.replay.stages.index(stage)]}]")


_WRITERS: dict[type[Step], Callable[[_Writer, Any, Names], None]] = {
    AnnotationStep: _annotation,
    PragmaStep: _pragma,
    ReorderStep: _reorder,
    StorageAlignStep: _storage_align,
    ComputeAtStep: _compute_at,
    ComputeInlineStep: _compute_inline,
    ComputeRootStep: _compute_root,
    CacheReadStep: _cache_read,
    CacheWriteStep: _cache_write,
    RfactorStep: _rfactor,
    InstructionStep: _use_instruction,
    MatrixTilesStep: _matrix_tiles,
}
