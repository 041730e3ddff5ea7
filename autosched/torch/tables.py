"""Tables of what was found in a model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from autosched.task import Task
from autosched.torch.element_types import NARROW
from autosched.torch.matches import LeftOut
from autosched.words import aligned
from autosched.workloads.workload import shape_of


def inputs_text(task: Task) -> str:
    """The inputs of a task: `X[8, 64] W[32, 64] b[32]`.

    Types of 16 bits are told, until others follow: `bfloat16 X[8, 64] g[64] float32 f[64]`.
    """
    told, texts = "float32", []
    for t in task.tensors[: -task.num_outputs]:
        if t.dtype.name != told and t.dtype.name in (*NARROW, "float32"):
            told = t.dtype.name
            texts.append(told)
        texts.append(f"{t.name}{list(shape_of(t))}")
    return " ".join(texts)


def left_out_lines(left_out: Iterable[LeftOut]) -> list[str]:
    """What is left out, with a heading: equal operations and reasons are one line."""
    places: dict[tuple[str, str], list[str]] = {}
    for each in left_out:
        places.setdefault((each.operation, each.reason), []).append(each.place)
    rows = [
        (f"{len(found)}x", operation, reason, ", ".join(filter(None, found)))
        for (operation, reason), found in places.items()
    ]
    return ["left to PyTorch:", *table(rows)] if rows else []


def table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Indented lines of cells, each column as wide as its widest one."""
    return [f"  {line}" for line in aligned(rows)]
