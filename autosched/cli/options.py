"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autosched.cli.complete import choices

TARGETS = choices("cpu", "cuda")
FEATURE_SETS = choices("autosched-1", "ansor-0.19")
FORMS = choices(
    *("loops", "steps", "te", "python", "tir", "llvm", "asm", "cuda", "ptx", "features")
)

Records = Annotated[Path, typer.Argument(help="Record file: autosched's or Ansor v0.6.")]
Index = Annotated[
    int | None, typer.Option("--index", help="The N-th record, from 0; -1 is the last.")
]
Best = Annotated[bool, typer.Option("--best", help="The fastest valid record (the default).")]
Features = Annotated[
    str,
    typer.Option(
        help="Feature set: autosched-1, which tune learns from, or ansor-0.19.",
        autocompletion=FEATURE_SETS,
    ),
]
Workload = Annotated[
    list[str] | None,
    typer.Option(
        metavar="CONFIG|KEY=CONFIG",
        help="The computation of Ansor log lines whose workload key is a hash or unknown; with "
        "KEY= of the lines with that key; may be repeated.",
    ),
]
Expr = Annotated[
    str | None,
    typer.Option(help="Instead of CONFIG: a computation, e.g. 'C[i,j] = sum(k, A[i,k] * B[k,j])'."),
]
Einsum = Annotated[
    str | None,
    typer.Option(help="The same in NumPy's notation, e.g. ij,jk->ik; inputs by --shape."),
]
Shape = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=SIZES", help="With --expr: an input's shape, e.g. A=64,64."),
]
Dtype = Annotated[
    list[str] | None,
    typer.Option(metavar="TYPE|NAME=TYPE", help="With --expr: type of all tensors, or of one."),
]
Set = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Any key of the configuration, e.g. search.trials=128; may be repeated.",
    ),
]
Target = Annotated[str | None, typer.Option(help="cpu or cuda.", autocompletion=TARGETS)]
TUNING = "autosched-1"  # of features.sets, which takes too long to import here
Trust = Annotated[bool, typer.Option("--trust", help="Run the Python files that the records name.")]
Force = Annotated[bool, typer.Option("--force", help="Replace a file of another kind.")]
Share = Annotated[
    bool, typer.Option("--share", help="Measure although other processes use the GPU.")
]
Ray = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS",
        help="Build and measure on the nodes of a Ray cluster: ray://HOST:PORT, HOST:PORT, "
        "auto or local.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")]
