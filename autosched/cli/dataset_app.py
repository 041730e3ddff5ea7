"""`autosched dataset`: the options of its commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autosched.cli.help import Group, examples
from autosched.cli.interrupt import interrupts_raise
from autosched.cli.only_for import require_given
from autosched.cli.options import TUNING, Features, Force, Trust, Workload
from autosched.user_file import trusting

dataset_app = typer.Typer(
    cls=Group,
    no_args_is_help=True,
    help="Datasets of features and times.",
    epilog=examples("autosched dataset export matmul.jsonl -o matmul.npz"),
)


@dataset_app.command(
    "export", epilog=examples("autosched dataset export *.jsonl -o all.npz --split 0.8/0.1/0.1")
)
def export(
    records: Annotated[list[Path], typer.Argument(help="Record files.")],
    output: Annotated[
        Path, typer.Option("-o", "--output", readable=False, help=".parquet, .csv or .npz file.")
    ],
    split: Annotated[
        str | None, typer.Option(help="Shares of the splits, e.g. 0.8/0.1/0.1.")
    ] = None,
    by: Annotated[
        str | None,
        typer.Option(help="What a split keeps together: workload (the default), shape, random."),
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of the split (0).")] = None,
    features: Features = TUNING,
    workload: Workload = None,
    trust: Trust = False,
    force: Force = False,
) -> None:
    """Features and times of every candidate, a row per stored buffer."""
    from autosched.cli import dataset as command

    interrupts_raise()  # so that half-written files are removed

    if split is None:
        require_given("--split SHARES", by=by, seed=seed)
    by, seed = by or "workload", seed or 0
    with trusting(trust):
        command.export(
            records, output, split, by, seed, features, force=force, workloads=workload or ()
        )


@dataset_app.command("info", epilog=examples("autosched dataset info all.npz"))
def info(file: Annotated[Path, typer.Argument(help="An exported dataset.")]) -> None:
    """Sizes, tasks, throughputs and schema of a dataset."""
    from autosched.cli import dataset as command

    command.info(file)
