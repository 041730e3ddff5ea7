"""The best candidate in two forms: its loop nest, and the program made of it."""

from __future__ import annotations

from dataclasses import dataclass, replace

from autosched.candidate import cuda_source_of_candidate, lower_candidate
from autosched.errors import AutoschedError
from autosched.report.runs import Run
from autosched.state.layout_rewrite import rewrite_layout
from autosched.target import cpu_target, cuda_target

_MOST_LINES = 400
_MOST_CHARACTERS = 60_000


@dataclass(frozen=True, slots=True)
class Code:
    """The loop nest of a candidate, and its program, which is written in `language`.

    `problem` says why there are none.
    """

    loops: str = ""
    program: str = ""
    language: str = ""
    problem: str = ""


def code_of(run: Run) -> Code:
    """The code of the best candidate of a run; long texts are cut, with a line that says so."""
    task, best = run.task, run.best
    if task is None:
        return Code(problem=f"The task cannot be rebuilt: {run.problem}.")
    if best is None:
        return Code(problem="No candidate has a time.")
    try:
        rewritten = rewrite_layout(task.dag, best.steps, task.layout)
        loops = rewritten.dag.infer_bound_of(rewritten.steps).to_str()
        if task.target.is_gpu:
            target = replace(task.target, arch=task.target.arch or cuda_target().arch)
            program = cuda_source_of_candidate(task, best.steps, target).source
            return Code(_cut(loops, "loops"), _cut(program, "cuda"), "CUDA C")
        target = task.target if task.target.cpu else cpu_target()
        program = repr(lower_candidate(task, best.steps, target))
    except AutoschedError as error:
        return Code(problem=f"The best candidate cannot be lowered here: {error}.")
    return Code(_cut(loops, "loops"), _cut(program, "tir"), "TIR, before LLVM")


def _cut(text: str, form: str) -> str:
    lines = text.rstrip("\n").split("\n")
    kept = "\n".join(lines[:_MOST_LINES])[:_MOST_CHARACTERS]
    if len(kept) == len("\n".join(lines)):
        return kept
    return f"{kept}\n... cut here; `autosched show RECORDS --as {form}` prints all"
