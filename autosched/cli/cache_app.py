"""`autosched cache`: the options of its commands."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autosched.cli.help import Group, examples
from autosched.cli.interrupt import interrupts_raise
from autosched.cli.options import Json, Trust
from autosched.user_file import trusting

cache_app = typer.Typer(
    cls=Group,
    no_args_is_help=True,
    help="The kernels that autosched.kernel keeps for Python programs.",
    epilog=examples("autosched cache list"),
)


@cache_app.command("path", epilog=examples("autosched cache path"))
def path() -> None:
    """The folder: $AUTOSCHED_CACHE, or autosched/kernels among your caches."""
    from autosched.cli import cache as command

    command.path()


@cache_app.command("list", epilog=examples("autosched cache list --json"))
def list_(as_json: Json = False) -> None:
    """The best kernel of each task: its time, and where and when it was measured."""
    from autosched.cli import cache as command

    command.show(as_json=as_json)


@cache_app.command("add", epilog=examples("autosched cache add matmul.jsonl"))
def add(
    records: Annotated[list[Path], typer.Argument(help="Record files.")],
    trust: Trust = False,
) -> None:
    """Take the records of files, so that autosched.kernel finds them."""
    from autosched.cli import cache as command

    interrupts_raise()  # so that half-written files are removed
    with trusting(trust):
        command.add(records)


@cache_app.command(
    "clear", epilog=examples("autosched cache clear matmul", "autosched cache clear --all")
)
def clear(
    names: Annotated[
        list[str] | None, typer.Argument(help="Operators, or files as cache list shows them.")
    ] = None,
    all_: Annotated[
        bool, typer.Option("--all", help="All kernels, and what was compiled for GPUs.")
    ] = False,
) -> None:
    """Remove kernels, except those that are being tuned."""
    from autosched.cli import cache as command

    command.clear(names or (), everything=all_)
