"""Kernels that run one after the other in one native call; what only they read has no array.

A sequence is a function that is compiled for it: it takes workspace memory for the intermediate
results, and calls each kernel with the addresses of its arguments.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from autosched.codegen.llvm_compile import compile_object
from autosched.runtime.cpu import CpuKernel, expected_of
from autosched.runtime.native import kernel_imports, load_object
from autosched.runtime.quick_call import Expected
from autosched.target import cpu_target

_SYMBOL = "autosched_sequence"
_NO_MEMORY = -1
_LINE = 64  # bytes; workspace memory begins at a multiple of it


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of the sequence, by its position."""

    position: int


@dataclass(frozen=True, slots=True)
class Intermediate:
    """What the step with this number computes; no argument of the sequence."""

    step: int


Place = Argument | Intermediate


@dataclass(frozen=True, slots=True)
class Step:
    """A kernel and where each of its arguments is. It has one output, the last argument."""

    kernel: CpuKernel
    places: tuple[Place, ...]


def can_be_step(kernel: CpuKernel) -> bool:
    """Whether its arguments are arrays of constant shapes, with one output, the last."""
    params = kernel.artifact.params
    outputs = [k for k, p in enumerate(params) if p.is_output]
    return bool(expected_of(params)) and outputs == [len(params) - 1]


def sequence(steps: Sequence[Step], shapes: Sequence[tuple[int, ...]]) -> Callable[[Any], int]:
    """A function of a tuple of arrays or tensors that runs the steps, as `CpuKernel.quick` does.

    It returns UNFIT before anything runs where an array does not fit, and the status of a kernel
    that failed, after which the others have not run.

    Args:
        steps: kernels as in `can_be_step`; those with several threads have the same number.
        shapes: of the arguments, each of which is in some step. A step may read one of another
            shape with as many elements.
    """
    offsets, room = _offsets(steps)
    text = _text(steps, offsets, room)
    code = compile_object(text, cpu_target(1), "light")
    library = load_object(code, [_SYMBOL], kernel_imports())
    widest = max((step.kernel for step in steps), key=lambda kernel: kernel.threads)
    call: Any = widest.quick_call(library.addresses[_SYMBOL], _expected(steps, shapes))
    call.steps = library, tuple(steps)  # keeps their code in memory
    return cast("Callable[[Any], int]", call)


def _expected(steps: Sequence[Step], shapes: Sequence[tuple[int, ...]]) -> list[Expected]:
    """What each argument must be: aligned as the strictest of its readers wants it."""
    found: dict[int, Expected] = {}
    for step in steps:
        for place, own in zip(step.places, expected_of(step.kernel.artifact.params), strict=True):
            if isinstance(place, Argument):
                known = found.get(place.position, own)
                found[place.position] = own._replace(
                    shape=shapes[place.position],
                    alignment=max(known.alignment, own.alignment),
                    written=known.written or own.written,
                )
    return [found[k] for k in range(len(shapes))]


def _offsets(steps: Sequence[Step]) -> tuple[dict[int, int], int]:
    """Where in the workspace the result of each step lies that is no argument, and its bytes.

    Memory is used again after the last step that reads it.
    """
    last: dict[int, int] = {}
    for number, step in enumerate(steps):
        for place in step.places:
            if isinstance(place, Intermediate):
                last[place.step] = number
    taken: list[tuple[int, int, int]] = []  # begin, end and last reader of each
    offsets: dict[int, int] = {}
    for number in sorted(last):
        out = expected_of(steps[number].kernel.artifact.params)[-1]
        size = out.dtype.itemsize * math.prod(out.shape)
        begin = 0
        for low, high, until in sorted(taken):
            if until >= number and begin < high and low < begin + size:
                begin = -(-high // _LINE) * _LINE
        offsets[number] = begin
        taken.append((begin, begin + size, last[number]))
    return offsets, max((high for _, high, _ in taken), default=0)


def _text(steps: Sequence[Step], offsets: dict[int, int], room: int) -> str:
    """LLVM assembly: `i32 autosched_sequence(ptr slots)`, which is called as a kernel is."""
    most = max(len(step.places) for step in steps)
    lines = [
        "declare ptr @autosched_workspace_alloc(i64)",
        "declare void @autosched_workspace_free(ptr)",
        f"define i32 @{_SYMBOL}(ptr %slots) {{",
        "entry:",
        f"  %own = alloca [{most} x ptr], align 8",
        f"  %room = call ptr @autosched_workspace_alloc(i64 {max(room, 1)})",
        "  %missing = icmp eq ptr %room, null",
        "  br i1 %missing, label %none, label %step0",
        "none:",
        f"  ret i32 {_NO_MEMORY}",
    ]
    for n, step in enumerate(steps):
        lines.append(f"step{n}:")
        for k, place in enumerate(step.places):
            at = f"{n}.{k}"
            if isinstance(place, Argument):
                lines.append(f"  %p{at} = getelementptr ptr, ptr %slots, i64 {place.position}")
                lines.append(f"  %a{at} = load ptr, ptr %p{at}")
            else:
                offset = offsets[place.step]
                lines.append(f"  %a{at} = getelementptr i8, ptr %room, i64 {offset}")
            lines.append(f"  %o{at} = getelementptr ptr, ptr %own, i64 {k}")
            lines.append(f"  store ptr %a{at}, ptr %o{at}")
        lines += [
            f"  %k{n} = inttoptr i64 {step.kernel.raw_pointer} to ptr",
            f"  %s{n} = call i32 %k{n}(ptr %own)",
            f"  %f{n} = icmp eq i32 %s{n}, 0",
            f"  br i1 %f{n}, label %step{n + 1}, label %done",
        ]
    statuses = [f"[ %s{n}, %step{n} ]" for n in range(len(steps))]
    lines += [
        f"step{len(steps)}:",
        "  br label %done",
        "done:",
        f"  %status = phi i32 {', '.join(statuses)}, [ 0, %step{len(steps)} ]",
        "  call void @autosched_workspace_free(ptr %room)",
        "  ret i32 %status",
        "}",
    ]
    return "\n".join(lines) + "\n"
