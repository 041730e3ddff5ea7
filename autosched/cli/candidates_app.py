"""The options of the commands about recorded candidates."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autosched.arguments import one_of
from autosched.cli.interrupt import interrupts_raise
from autosched.cli.only_for import require_given
from autosched.cli.options import (
    FEATURE_SETS,
    FORMS,
    TUNING,
    Best,
    Features,
    Force,
    Index,
    Json,
    Records,
    Share,
    Trust,
    Workload,
)
from autosched.errors import ConfigError
from autosched.user_file import trusting


def replay(
    records: Records,
    best: Best = False,
    index: Index = None,
    all_: Annotated[bool, typer.Option("--all", help="Every valid record.")] = False,
    no_check: Annotated[
        bool, typer.Option("--no-check", help="Do not compare with the reference.")
    ] = False,
    workload: Workload = None,
    share: Share = False,
    trust: Trust = False,
    as_json: Json = False,
) -> None:
    """Rebuild from the records alone, check, time again, compare with the recorded interval."""
    from autosched.cli import replay as command

    with trusting(trust):
        command.run(
            records,
            _choice(best, index, all_),
            check=not no_check,
            share=share,
            as_json=as_json,
            workloads=workload or (),
        )


def build(
    records: Annotated[list[Path], typer.Argument(help="Record files.")],
    output: Annotated[
        Path, typer.Option("-o", "--output", readable=False, help="Folder to write to.")
    ],
    name: Annotated[
        str, typer.Option(help="Name of the library and module (default: the operator's).")
    ] = "",
    best: Best = False,
    index: Index = None,
    dispatch: Annotated[
        bool,
        typer.Option("--dispatch", help="Add a function per operator that chooses by shape."),
    ] = False,
    also: Annotated[
        list[str] | None,
        typer.Option(
            metavar="M=100,N=64",
            help="With --dispatch: another shape, by the nearest tuned schedule that is legal for "
            "it; may be repeated.",
        ),
    ] = None,
    arch: Annotated[
        list[str] | None,
        typer.Option(help="CUDA architecture, sm_90 (default: the record's); may be repeated."),
    ] = None,
    no_check: Annotated[
        bool,
        typer.Option("--no-check", help="Do not check CUDA kernels in the interpreter first."),
    ] = False,
    workload: Workload = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace files that no build wrote.")
    ] = False,
    trust: Trust = False,
    as_json: Json = False,
) -> None:
    """Write kernels for users without autosched: the best of each task.

    For a CPU a shared library, a C header, an example, a CMake file and a Python module that needs
    NumPy only. For CUDA source, cubin, PTX, launch sizes and a Python module for arrays of CuPy,
    PyTorch, PyCUDA and NumPy; no GPU is needed. docs/export.md explains the files.
    """
    from autosched.cli import build as command

    interrupts_raise()  # so that half-written files are removed
    from autosched.session.export import ExportOptions

    others = tuple(command.sizes(text) for text in also or ())
    options = ExportOptions(name, dispatch, others, tuple(arch or ()), not no_check, force)
    with trusting(trust):
        command.run(
            records,
            output,
            _choice(best, index, False),
            options,
            as_json=as_json,
            workloads=workload or (),
        )


def show(
    records: Records,
    form: Annotated[
        str,
        typer.Option(
            "--as",
            help="loops, steps, te, python, tir, llvm, asm, cuda, ptx or features.",
            autocompletion=FORMS,
        ),
    ] = "loops",
    features: Annotated[
        str | None,
        typer.Option(
            help="Of --as features: autosched-1, which tune learns from (the default), or "
            "ansor-0.19.",
            autocompletion=FEATURE_SETS,
        ),
    ] = None,
    arch: Annotated[
        str | None,
        typer.Option(help="CUDA architecture of cuda, ptx, asm: sm_90 (default: the record's)."),
    ] = None,
    best: Best = False,
    index: Index = None,
    workload: Workload = None,
    trust: Trust = False,
) -> None:
    """Print one candidate. No GPU is needed for those of CUDA.

    cuda is the source that is compiled; asm is nvdisasm's where that is installed.
    """
    from autosched.cli import show as command

    if form != "features":
        require_given("--as features", features=features)
    with trusting(trust):
        command.run(
            records,
            _choice(best, index, False),
            form,
            features or TUNING,
            arch=arch,
            workloads=workload or (),
        )


def failures(
    records: Records,
    repro: Annotated[
        int | None, typer.Option(min=0, help="Print a program that tries the N-th record again.")
    ] = None,
    workload: Workload = None,
    trust: Trust = False,
    as_json: Json = False,
) -> None:
    """What failed, grouped by stage, kind and message, with an example of each."""
    from autosched.cli import failures as command

    with trusting(trust):
        command.run(records, repro=repro, as_json=as_json, workloads=workload or ())


def report(
    records: Annotated[list[Path], typer.Argument(help="Record files; several are compared.")],
    output: Annotated[
        Path,
        typer.Option(
            "-o", "--output", readable=False, help="The page to write; - is standard output."
        ),
    ] = Path("report.html"),
    no_measure: Annotated[
        bool,
        typer.Option(
            "--no-measure", help="Do not measure this machine's peak and bandwidths (no roofline)."
        ),
    ] = False,
    workload: Workload = None,
    trust: Trust = False,
    force: Force = False,
) -> None:
    """Write one page of charts that opens in a browser without a network.

    Tuning curve, best loop nest, roofline, accuracy of the cost model, failures, time by phase,
    environment. Needs the extra report: pip install 'autosched[report]'. docs/report.md says more.
    """
    from autosched.cli import report as command

    interrupts_raise()
    with trusting(trust):
        command.run(records, output, measure=not no_measure, force=force, workloads=workload or ())


def arena(
    records: Annotated[
        list[Path], typer.Argument(help="Record files: searches choose among their candidates.")
    ],
    model: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME|FILE.py:NAME",
            help="xgboost, random, or a model of yours (the file is run); may be repeated "
            "(default: xgboost and random).",
        ),
    ] = None,
    search: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME|FILE.py:NAME",
            help="autosched (the default), greedy, epsilon-greedy, random, or a search of yours "
            "(the file is run); may be repeated.",
        ),
    ] = None,
    trials: Annotated[
        int, typer.Option(min=1, help="Candidates that each search may choose.")
    ] = 128,
    batch: Annotated[int, typer.Option(min=1, help="Candidates in each round.")] = 16,
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each search.")] = 6,
    held_out: Annotated[
        str,
        typer.Option(
            help="What models must not learn from before a search: the task's operator, the task, "
            "or all records (they begin with nothing)."
        ),
    ] = "operator",
    others: Annotated[
        int, typer.Option(min=1, help="At most this many candidates of other tasks to learn from.")
    ] = 1024,
    features: Features = TUNING,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--output", readable=False, help=".csv: every run; .html: regret curves (plotly)."
        ),
    ] = None,
    workload: Workload = None,
    trust: Trust = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the output file.")] = False,
    as_json: Json = False,
) -> None:
    """Compare cost models and searches on recorded candidates; nothing is measured.

    Prints how well each model ranks the candidates of operators that it has not seen, and how
    much slower the best candidate of each search is than the best recorded one.
    """
    from autosched.arena import HELD_OUT, Settings
    from autosched.cli import arena as command

    interrupts_raise()  # so that half-written files are removed
    if output is None:
        require_given("--output FILE", force=force)
    one_of("--held-out", held_out, HELD_OUT)
    with trusting(trust):
        command.run(
            records,
            model or ("xgboost", "random"),
            search or ("autosched",),
            Settings(trials, batch, seeds, held_out, others),
            features,
            output,
            workload or (),
            force=force,
            as_json=as_json,
        )


def _choice(best: bool, index: int | None, every: bool) -> int | str:
    """`best`, `all` or an index. Raises ConfigError if more than one was asked for."""
    if best + (index is not None) + every > 1:
        raise ConfigError("give only one of --best, --index and (for replay) --all")
    if every:
        return "all"
    return "best" if index is None else index
