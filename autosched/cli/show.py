"""`autosched show`: print one candidate in one of its forms."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from pprint import pformat

from autosched.candidate import lower_candidate
from autosched.cli.chosen import chosen, task_of
from autosched.cli.code_process import code_of
from autosched.cli.console import out, plain, print_json, seconds_text, warn
from autosched.cli.feature_table import feature_table
from autosched.cli.gpu_code import cuda_c, machine_code, ptx
from autosched.cli.known_cpu import require_known_cpu
from autosched.cli.named import tell_unused, workload_keys
from autosched.driver import lower_for_features
from autosched.errors import CompileError, ConfigError, MeasureError, ScheduleError
from autosched.features.sets import TUNING, FeatureSet, feature_set
from autosched.layout import LayoutOption
from autosched.measure.records import Record
from autosched.state.layout_rewrite import LayoutRewrite, rewrite_layout
from autosched.state.python_schedule import python_program, python_schedule
from autosched.target import Target, cpu_target
from autosched.task import Task
from autosched.tir.function import PrimFunc


def run(
    path: Path,
    choice: int | str,
    form: str,
    features: str = TUNING,
    *,
    arch: str | None = None,
    workloads: Sequence[str] = (),
) -> None:
    """Print the chosen record (by default each task's best one) as `form`.

    `features` names a feature set. `arch` is the architecture for cuda, ptx and asm of a CUDA
    candidate. Exits with 3 if a candidate has no such form because it is illegal.
    """
    show = FORMS.get(form)
    if show is None:
        raise ConfigError(f"--as {form!r} is unknown, expected one of {', '.join(FORMS)}")
    if arch is not None:
        show = _for_arch(form, arch)
    elif form == "features":
        show = partial(_features, feature_set(features))
    keys = workload_keys(workloads)
    records = chosen(path, choice, keys=keys)
    tell_unused(keys)
    failed = False
    for number, record in enumerate(records):
        task = task_of(record, to_run=form in _OF_LOWERED)
        if len(records) > 1:
            mark = ";" if form == "llvm" else "//" if _is_gpu_code(form, task) else "#"
            plain(f"{chr(10) if number else ''}{mark} {_title(task, record)}")
        try:
            _tell_layouts(task, record)
            show(task, record)
        except (ScheduleError, CompileError, MeasureError) as error:
            failed = True
            warn(f"{_title(task, record)}: {error}")
    if failed:
        sys.exit(3)


def _title(task: Task, record: Record) -> str:
    """`matmul(M=4, N=4, K=4) on cpu, 1.2 ms`."""
    time = seconds_text(record.result.cost) if record.result.valid else "failed"
    name = " ".join(task.name.split())  # expressions may contain newlines
    return f"{name} on {task.target.kind}, {time}"


def _tell_layouts(task: Task, record: Record) -> None:
    """Print notes about how the inputs of a layout rewrite are stored."""
    if task.layout == LayoutOption.NO_REWRITE:
        return
    changes = {c.name: c for c in _rewritten(task, record).changes}
    for tensor in task.layout_free:
        change = changes.get(tensor.name)
        if change is None:
            warn(f"note: {tensor.name} keeps its order: these loops suggest no other")
        elif task.layout == LayoutOption.FOR_PRE_TRANSFORMED:
            warn(f"note: {change.text}, the order in which the kernel expects {change.name}")
        else:
            warn(f"note: {change.text}, made by a stage of its own")


def _rewritten(task: Task, record: Record) -> LayoutRewrite:
    return rewrite_layout(task.dag, record.steps, task.layout)


def _tir_of(task: Task, record: Record) -> PrimFunc:
    return lower_candidate(task, record.steps, _host(task))


def _loops(task: Task, record: Record) -> None:
    rewritten = _rewritten(task, record)
    plain(rewritten.dag.infer_bound_of(rewritten.steps).to_str())


def _steps(task: Task, record: Record) -> None:
    for step in record.to_json()["steps"]:
        print_json(step)


def _te(task: Task, record: Record) -> None:
    rewritten = _rewritten(task, record)
    plain(python_schedule(rewritten.dag, rewritten.steps))


def _python(task: Task, record: Record) -> None:
    title = _title(task, record).replace("\\", "\\\\").replace('"', '\\"')
    rewritten = _rewritten(task, record)
    imports, source, dag, arguments = "", "", "task.dag", "task.tensors"
    if rewritten.changes:
        imports, source = _IMPORTS, _rewrite_of(record)
        dag, arguments = "dag", "dag.arguments_of(s)"
    code = python_program(rewritten.dag, rewritten.steps, dag, _TAKEN)
    lowered = f"print(lower(s, {arguments}, task.target, lenient=True))"
    if task.lowering:
        lowered = f"with task.lowering.context():\n    {lowered}"
    plain(
        f'"""The schedule of {title}; running it prints its TIR."""\n\n'
        f"from autosched import Task, te\nfrom autosched.driver import lower\n{imports}\n"
        f"task = {python_of(task)}\n"
        f"{source}{code}{lowered}"
    )


_TAKEN = [
    "Task",
    "dag",
    "list",
    "lower",
    "print",
    "rewrite_layout",
    "steps",
    "steps_from_json",
    "task",
]
_IMPORTS = (
    "from autosched.state.layout_rewrite import rewrite_layout\n"
    "from autosched.state.steps import steps_from_json\n"
)


def _rewrite_of(record: Record) -> str:
    """Code that stores the inputs of the task as the record's steps suggest."""
    steps = pformat(record.to_json()["steps"], width=90).replace("\n", "\n    ")
    return (
        f"steps = steps_from_json(\n    {steps}\n)\n"
        "dag = rewrite_layout(task.dag, steps, task.layout).dag\n"
    )


def _tir(task: Task, record: Record) -> None:
    plain(repr(_tir_of(task, record)))


def python_of(task: Task) -> str:
    """A Python expression that creates the task again."""
    entry = pformat(task.to_json(), width=90, sort_dicts=False).replace("\n", "\n    ")
    trust = ",\n    trust=True,  # runs the file that it names" if task.runs_code else ""
    return f"Task.from_json(\n    {entry}{trust}\n)"


def _llvm(task: Task, record: Record) -> None:
    if task.target.is_gpu:
        raise ConfigError(f"llvm is a form of CPU candidates; {_recorded(task)}: --as cuda or ptx")
    plain(code_of(task, record.steps, _host(task), "llvm"))


def _asm(task: Task, record: Record, arch: str | None = None) -> None:
    if task.target.is_gpu:
        plain(machine_code(task, record.steps, arch))
        return
    if arch is not None:
        raise ConfigError(f"--arch is for CUDA candidates; {_recorded(task)}")
    target = _host(task)
    require_known_cpu(target)
    plain(code_of(task, record.steps, target, "asm"))


def _features(features: FeatureSet, task: Task, record: Record) -> None:
    as_ansor = features.as_ansor
    # The record may be of a space with other limits.
    func = lower_for_features(task.dag, record.steps, task.target, as_ansor, verified=False)
    rows, buffers = features.with_buffers(func, task.target)
    plain(feature_table(features.groups, buffers, rows.tolist(), width=out.width))


def _cuda(task: Task, record: Record, arch: str | None = None) -> None:
    plain(cuda_c(_gpu_only(task), record.steps, arch))


def _ptx(task: Task, record: Record, arch: str | None = None) -> None:
    plain(ptx(_gpu_only(task), record.steps, arch))


def _gpu_only(task: Task) -> Task:
    if not task.target.is_gpu:
        raise ConfigError(
            f"cuda and ptx are forms of CUDA candidates; {_recorded(task)}: --as llvm or asm"
        )
    return task


def _recorded(task: Task) -> str:
    return f"{task.name} was recorded for {'CUDA' if task.target.is_gpu else 'the CPU'}"


def _is_gpu_code(form: str, task: Task) -> bool:
    return form in _OF_AN_ARCH and task.target.is_gpu


def _for_arch(form: str, arch: str) -> Callable[[Task, Record], None]:
    """The function for `form` and `arch`. Raises ConfigError if the form is not generated code."""
    if form not in _OF_AN_ARCH:
        forms = ", ".join(_OF_AN_ARCH)
        raise ConfigError(f"--arch {arch}: --as {form} does not depend on it; {forms} do")
    return partial(_OF_AN_ARCH[form], arch=arch)


def _host(task: Task) -> Target:
    """The target itself, or this machine if an Ansor record does not state its CPU."""
    return task.target if task.target.is_gpu or task.target.cpu else cpu_target()


_OF_LOWERED = ("tir", "llvm", "asm", "cuda", "ptx")
_OF_AN_ARCH: dict[str, Callable[..., None]] = {"cuda": _cuda, "ptx": _ptx, "asm": _asm}

FORMS: dict[str, Callable[[Task, Record], None]] = {
    "loops": _loops,
    "steps": _steps,
    "te": _te,
    "python": _python,
    "tir": _tir,
    "llvm": _llvm,
    "asm": _asm,
    "cuda": _cuda,
    "ptx": _ptx,
    "features": partial(_features, feature_set(TUNING)),
}
