"""`autosched records`: the options of its commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autosched.cli.complete import choices
from autosched.cli.help import Group, examples
from autosched.cli.interrupt import interrupts_raise
from autosched.cli.only_for import require_given
from autosched.cli.options import Json, Records, Trust, Workload
from autosched.user_file import trusting

records_app = typer.Typer(
    cls=Group,
    no_args_is_help=True,
    help="Record files: summarise, compare, merge, trim, convert.",
    epilog=examples("autosched records best matmul.jsonl"),
)

Sources = Annotated[
    list[Path], typer.Argument(metavar="RECORDS", help="Record files, read together.")
]
Output = Annotated[
    Path,
    typer.Option("-o", "--output", readable=False, help="File to write; - is standard output."),
]
Replace = Annotated[bool, typer.Option("--force", help="Replace the file to write.")]


@records_app.command("info", epilog=examples("autosched records info matmul.jsonl --json"))
def info(
    source: Records, workload: Workload = None, trust: Trust = False, as_json: Json = False
) -> None:
    """What a record file holds; docs/semantics/records.md has the form of --json."""
    from autosched.cli import records as command

    with trusting(trust):
        command.info(source, as_json=as_json, workloads=workload or ())


@records_app.command("best", epilog=examples("autosched records best *.jsonl"))
def best(
    sources: Sources, workload: Workload = None, trust: Trust = False, as_json: Json = False
) -> None:
    """The best candidate of each task, as a table."""
    from autosched.cli import records_shown as command

    with trusting(trust):
        command.best(sources, as_json=as_json, workloads=workload or ())


@records_app.command("top", epilog=examples("autosched records top 5 matmul.jsonl"))
def top(
    number: Annotated[int, typer.Argument(metavar="N", min=1, help="How many of each task.")],
    sources: Sources,
    workload: Workload = None,
    trust: Trust = False,
    as_json: Json = False,
) -> None:
    """The N best candidates of each task and machine, the best first."""
    from autosched.cli import records_shown as command

    with trusting(trust):
        command.top(number, sources, as_json=as_json, workloads=workload or ())


@records_app.command("diff", epilog=examples("autosched records diff laptop.jsonl server.jsonl"))
def diff(
    a: Annotated[Path, typer.Argument(metavar="A", help="Record file.")],
    b: Annotated[Path, typer.Argument(metavar="B", help="Record file of the same tasks.")],
    race: Annotated[
        bool,
        typer.Option("--race", help="Rebuild the best of A and B and time them here in turns."),
    ] = False,
    share: Annotated[
        bool, typer.Option("--share", help="Race although other processes use the GPU.")
    ] = False,
    workload: Workload = None,
    trust: Trust = False,
    as_json: Json = False,
) -> None:
    """Compare the same tasks in two files: of two machines, or of two versions."""
    from autosched.cli import records_compared as command

    if not race:
        require_given("--race", share=share)
    with trusting(trust):
        command.diff(a, b, race=race, share=share, as_json=as_json, workloads=workload or ())


@records_app.command(
    "merge", epilog=examples("autosched records merge mon.jsonl tue.jsonl -o week.jsonl")
)
def merge(
    sources: Annotated[
        list[Path], typer.Argument(metavar="RECORDS", help="Record files, of any tasks.")
    ],
    output: Output,
    workload: Workload = None,
    force: Replace = False,
) -> None:
    """Write the records of several files to one, in the order in which they were measured.

    What is in two files is written once. A file that is read is never written over.
    """
    from autosched.cli import records as command

    interrupts_raise()  # so that a half-written file is removed
    command.merge(sources, output, force=force, workloads=workload or ())


@records_app.command(
    "trim", epilog=examples("autosched records trim mm.jsonl --best 10 -o small.jsonl")
)
def trim(
    source: Records,
    best: Annotated[int, typer.Option("--best", min=1, help="Candidates of each task to keep.")],
    output: Output,
    workload: Workload = None,
    trust: Trust = False,
    force: Replace = False,
) -> None:
    """Keep the best candidates of each task and machine; the best stays the best."""
    from autosched.cli import records as command

    interrupts_raise()
    with trusting(trust):
        command.trim(source, output, best, force=force, workloads=workload or ())


@records_app.command("convert", epilog=examples("autosched records convert old.jsonl -o new.jsonl"))
def convert(
    source: Records,
    output: Output,
    to: Annotated[
        str,
        typer.Option(
            help="autosched or ansor-v0.6.", autocompletion=choices("autosched", "ansor-v0.6")
        ),
    ] = "autosched",
    workload: Workload = None,
    force: Replace = False,
) -> None:
    """Rewrite records of an older schema, or convert from or to Ansor v0.6 logs."""
    from autosched.cli import records as command

    interrupts_raise()  # so that a half-written file is removed
    command.convert(source, output, to, force=force, workloads=workload or ())
