"""Export recorded kernels as files for users without autosched."""

from __future__ import annotations

import json
import keyword
import shutil
import sys
import tempfile
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from autosched import arguments
from autosched.candidate import build_candidate
from autosched.codegen.c_words import HEADERS
from autosched.codegen.known_cpu import ask_llvm
from autosched.errors import ConfigError, MeasureError
from autosched.export import cpu, cuda
from autosched.export.adapt import nearest, other_shape
from autosched.export.bundle import names_of
from autosched.export.c_files import CMAKE_TARGETS, LIBRARIES
from autosched.export.candidate import Candidate, named, unused
from autosched.measure.check import compare
from autosched.measure.record_log import RecordLog
from autosched.measure.records import LogContents, Record
from autosched.measure.result import Failure
from autosched.measure.tolerance import tolerances
from autosched.output_file import real_path
from autosched.referee.check import Verdict, check_candidate
from autosched.runtime.cpu import load
from autosched.session.this_cpu import for_this_cpu, is_for_here
from autosched.target import cpu_target, kind_of_triple
from autosched.task import Task
from autosched.words import count, last_line

_HIDING = {
    *sys.stdlib_module_names,
    "numpy",
    "ml_dtypes",
    "autosched",
    *HEADERS,
    *LIBRARIES,
    *CMAKE_TARGETS,
}
"""Names that files must not have: others would be hidden by them, or CMake reserves them."""
_LONGEST_NAME = 200  # file systems allow 255 bytes, and the files have endings
_PLAIN_CPUS = ("", "generic", "x86-64")


@dataclass(frozen=True, slots=True)
class Exported:
    """The files that were written, and sentences that a user should read."""

    files: tuple[Path, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ExportOptions:
    """How kernels are exported.

    `name` is that of the library and module; default: the operator's, or `kernels` for several.
    `dispatch` adds for each operator a function that chooses by shape. `also` are shapes, as sizes
    by name, that such a function serves with the nearest tuned schedule that is legal. `archs` are
    the CUDA architectures to compile for; default: the recorded one. `check` runs CUDA kernels in
    the interpreter first and compares with NumPy. `force` replaces files that no earlier export
    wrote. Raises ConfigError for values of other types.
    """

    name: str = ""
    dispatch: bool = False
    also: tuple[Mapping[str, int], ...] = ()
    archs: tuple[str, ...] = ()
    check: bool = True
    force: bool = False

    def __post_init__(self) -> None:
        arguments.instance("name", self.name, str, "'matmul'")
        for name in ("dispatch", "check", "force"):
            arguments.flag(name, getattr(self, name))
        for name, kind in (("also", Mapping), ("archs", str)):
            given = getattr(self, name)
            if isinstance(given, str) or not isinstance(given, Sequence):
                raise ConfigError(f"{name}: expected a list, {arguments.found(given)}")
            for k, each in enumerate(given):
                arguments.instance(f"{name}[{k}]", each, kind)


def export(
    records: Sequence[Record],
    folder: Path,
    options: ExportOptions | None = None,
    environments: Mapping[str, Mapping[str, object]] | None = None,
) -> Exported:
    """Write the kernels of `records` to `folder`, all of them for the CPU or all for CUDA.

    Nothing is written unless all can be. `environments` are those of the records' files. Raises
    ConfigError, CompileError, ScheduleError, or MeasureError for a CUDA kernel that is wrong.
    """
    options = ExportOptions() if options is None else options
    arguments.instance("options", options, ExportOptions, "ExportOptions(name='matmul')")
    _require_no_file(folder)
    notes: list[str] = []
    candidates = _candidates(records, notes)
    on_gpu = candidates[0].task.target.is_gpu
    _refuse_options(options, candidates)
    if on_gpu and options.check:
        candidates = [_refereed(candidate, notes) for candidate in candidates]
    if options.also:
        candidates += _others(candidates, options.also, notes)
    taken = names_of(cuda.MODULES if on_gpu else cpu.MODULES)
    candidates = named(candidates, sized=options.dispatch, taken=taken)
    name = _name(candidates, options, taken)
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        # Inside the folder if it exists: its parent may be read-only, or on another file system.
        beside = folder if folder.is_dir() else folder.parent
        place = Path(tempfile.mkdtemp(prefix=".autosched-", dir=beside))
    except OSError as error:
        raise ConfigError(f"cannot write to {folder}: {error.strerror}") from error
    try:
        if on_gpu:
            cuda.export_cuda(candidates, place, name, options.archs)
        else:
            _, note = cpu.export_cpu(candidates, place, name, _choices(candidates, options, taken))
            if note:
                notes.append(note.replace(str(place), str(folder)))
        log = RecordLog(place / f"{name}.records.jsonl")
        log.copy(LogContents(list(records), {k: dict(v) for k, v in (environments or {}).items()}))
        files = _move(place, folder, name, force=options.force)
    except OSError as error:  # the disk is full
        raise ConfigError(f"cannot write to {folder}: {error.strerror}") from error
    finally:
        shutil.rmtree(place, ignore_errors=True)
    return Exported(tuple(files), tuple(notes))


def _require_no_file(folder: Path) -> None:
    """Raise ConfigError if the folder, or one around it, is a file, or the path leads nowhere."""
    real_path(folder)
    try:
        found = next((p for p in (folder, *folder.parents) if p.exists()), folder)
        if not found.exists() or found.is_dir():
            return
    except OSError as error:
        raise ConfigError(f"cannot write to {folder}: {error.strerror}") from error
    raise ConfigError(f"cannot write to {folder}: {found} is not a folder; give another")


def _candidates(records: Sequence[Record], notes: list[str]) -> list[Candidate]:
    if not records:
        raise ConfigError("there is no record to export")
    found = []
    for record in records:
        task = Task.from_json(record.task)
        if not task.target.is_gpu and not task.target.cpu:
            notes.append(f"{task.name}: its record names no CPU; built for this machine's")
            task = for_this_cpu(task)
        seconds = record.result.cost if record.result.valid else None
        if record.result.failure is not None:
            notes.append(_failed(task, record.result.failure))
        if seconds is not None and not record.result.checked:
            notes.append(f"{task.name}: this record was never compared with NumPy")
        checked = "when it was measured" if record.result.checked else ""
        found.append(Candidate(task, record.steps, "", seconds, checked=checked))
    kinds = {c.task.target.kind for c in found}
    if len(kinds) > 1:
        raise ConfigError("the records are for the CPU and for CUDA; build them apart")
    return [replace(c, task=_buildable(c.task, notes)) for c in found]


def _failed(task: Task, failure: Failure) -> str:
    """A note about a record that failed. Raises MeasureError if its kernel was wrong."""
    message = last_line(failure.message)
    if failure.kind == "wrong_answer":
        raise MeasureError(
            f"{task.name}: the kernel was wrong when it was measured, and is not exported: "
            f"{message}",
            stage="check",
            kind="wrong_answer",
        )
    return (
        f"{task.name}: this record failed when it was measured, in {failure.stage} "
        f"({failure.kind}): {message}"
    )


def _buildable(task: Task, notes: list[str]) -> Task:
    """The task, without the CPU or its features if this machine's LLVM does not know them.

    Raises ConfigError where no code can be generated or linked here.
    """
    target = task.target
    if target.is_gpu:
        return task
    here = cpu_target().triple
    if target.triple and kind_of_triple(target.triple) != kind_of_triple(here):
        raise ConfigError(
            f"{task.name} was recorded for {target.triple}; its library can be built on such a "
            f"machine only, and this one is {here}"
        )
    is_x86 = kind_of_triple(target.triple or here)[0] == "x86_64"
    if is_x86 and target.cpu not in _PLAIN_CPUS and not target.features:
        notes.append(
            f"{task.name}: its record does not list the features of {target.cpu}, so the library "
            "does not check for them: a CPU that lacks one ends the process"
        )
    found = ask_llvm(target)
    if found.unknown or found.unused:
        dropped = {*found.unknown, *found.unused}
        kept = [word for word in target.features.split(",") if word not in dropped]
        cpu = "generic" if target.cpu in dropped else target.cpu
        target = replace(target, cpu=cpu, features=",".join(kept))
        if found.unknown:
            notes.append(
                f"{task.name}: this machine's LLVM does not know {', '.join(found.unknown)} of "
                "its record; the code is built without, so it is not the code that was measured"
            )
        found = ask_llvm(target)
    if found.problem:
        raise ConfigError(
            f"{task.name} was recorded for the CPU {task.target.cpu!r}, which this machine's LLVM "
            f"does not support: {found.problem}"
        )
    return replace(task, target=target)


def _refereed(candidate: Candidate, notes: list[str]) -> Candidate:
    """The candidate, checked by the interpreter. Raises MeasureError when it is wrong."""
    report = check_candidate(candidate.task, candidate.steps)
    if report.verdict is Verdict.UNCHECKED:
        notes.append(f"{candidate.task.name} was not compared with NumPy: {report.message}")
        return candidate
    if report.verdict is not Verdict.AGREES:
        raise MeasureError(
            f"{candidate.task.name}: the kernel is wrong and is not exported: {report}",
            stage="check",
            kind="wrong_answer",
        )
    return replace(candidate, checked=f"{report.how}, without a GPU")


def _name(candidates: Sequence[Candidate], options: ExportOptions, taken: Collection[str]) -> str:
    """The name of the library and module. Raises ConfigError for one that cannot be used."""
    name = options.name
    if not name:
        operators = {c.operator(taken) for c in candidates}
        name = operators.pop() if len(operators) == 1 else "kernels"
        name = name if name not in _HIDING else f"{name}_kernels"
    if len(name) > _LONGEST_NAME:
        raise ConfigError(
            f"the name {name[:20]}... has {len(name)} letters, more than the {_LONGEST_NAME} that "
            "the names of the files leave; give another"
        )
    if not name.isidentifier() or not name.isascii() or keyword.iskeyword(name):
        raise ConfigError(
            f"the name {name!r} is not an identifier in both C and Python; give another"
        )
    if name in _HIDING:
        raise ConfigError(
            f"the name {name!r} is taken by a Python module or a C header or library, which "
            "programs that search this folder would no longer find, or by a target of CMake; give "
            "another"
        )
    return name


def _refuse_options(options: ExportOptions, candidates: Sequence[Candidate]) -> None:
    on_gpu = candidates[0].task.target.is_gpu
    if options.also and not options.dispatch:
        raise ConfigError(
            "other shapes (--also) need a function that chooses by shape (--dispatch)"
        )
    if options.dispatch and on_gpu:
        raise ConfigError("choosing by shape (--dispatch) is for CPU kernels only")
    if options.archs and not on_gpu:
        raise ConfigError("architectures (--arch) are for CUDA kernels only")


def _others(
    candidates: Sequence[Candidate], also: Sequence[Mapping[str, int]], notes: list[str]
) -> list[Candidate]:
    """A candidate for each shape in `also` that is not among the records."""
    operators = {c.computation for c in candidates}
    if len(operators) > 1:
        names = ", ".join(sorted(operators))
        raise ConfigError(f"other shapes (--also) need records of one operator, found {names}")
    known = {c.task.name for c in candidates}
    found: list[Candidate] = []
    for sizes in also:
        wanted = other_shape(candidates[0].task, sizes)
        if wanted.name in known:
            notes.append(f"{wanted.name} is among the records, so its own schedule is used")
            continue
        if any(wanted.name == c.task.name for c in found):
            continue
        here = is_for_here(wanted.target)
        other = nearest(wanted, candidates, _compared if here else _built)
        found.append(replace(other, checked="when it was exported") if here else other)
        compared = "compared with NumPy" if here else "not run: it is for another CPU"
        notes.append(f"{wanted.name}: with the schedule of {found[-1].tuned_for}, {compared}")
    return found


def _built(candidate: Candidate) -> None:
    build_candidate(candidate.task, candidate.steps)


def _compared(candidate: Candidate) -> None:
    """Raise MeasureError when the kernel differs from NumPy."""
    task = candidate.task
    kernel = load(build_candidate(task, candidate.steps))
    inputs = task.inputs()
    outputs = kernel(*kernel.prepare(*inputs))
    found = outputs if isinstance(outputs, tuple) else (outputs,)
    names = [tensor.name for tensor in task.tensors[-task.num_outputs :]]
    expected = task.reference(inputs)
    allowed = tolerances(task, inputs, expected)
    for name, got, want, tolerance in zip(names, found, expected, allowed, strict=True):
        problem = compare(name, got, want, tolerance)
        if problem is not None:
            raise MeasureError(problem, stage="check", kind="wrong_answer")


def _choices(
    candidates: Sequence[Candidate], options: ExportOptions, taken: Collection[str]
) -> dict[str, list[str]]:
    """The kernels of each function that chooses by shape, by its name.

    Operators of the same name that compute different things get different names.
    """
    found: dict[tuple[str, str], list[str]] = {}
    if options.dispatch:
        for c in candidates:
            found.setdefault((c.operator(taken), c.computation), []).append(c.symbol)
    names = [c.symbol for c in candidates]
    for operator, _ in found:
        names.append(unused(operator, names))
    return dict(zip(names[len(candidates) :], found.values(), strict=True))


def _move(place: Path, folder: Path, name: str, *, force: bool) -> list[Path]:
    """Move the files to their folder.

    Raises ConfigError where they would replace files that no export wrote, unless `force` is set,
    and OSError.
    """
    files = sorted(path.name for path in place.iterdir())
    about = place / f"{name}.json"
    fields = json.loads(about.read_text(encoding="utf-8"))
    about.write_text(json.dumps({**fields, "files": files}, indent=1) + "\n", encoding="utf-8")
    folder.mkdir(exist_ok=True)
    mine = _written_before(folder / f"{name}.json")
    foreign = [f for f in files if (folder / f).exists() and f not in mine]
    if foreign and not force:
        raise ConfigError(
            f"{folder} has {count(len(foreign), 'file')} that no earlier build wrote and this "
            f"one would replace: {', '.join(foreign)}; give another folder, or --force"
        )
    for stale in mine - set(files):
        (folder / stale).unlink(missing_ok=True)
    for file in files:
        (place / file).replace(folder / file)
    return [folder / file for file in files]


def _written_before(about: Path) -> set[str]:
    """The files of an earlier export of the same name."""
    try:
        fields = json.loads(about.read_text(encoding="utf-8"))
        files = fields["files"]
    except (OSError, ValueError, TypeError, KeyError):
        return set()
    plain = [f for f in files if isinstance(f, str) and f == Path(f).name]
    return set(plain) if "kernels" in fields and "schema" in fields else set()
