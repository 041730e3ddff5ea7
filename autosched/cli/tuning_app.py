"""`autosched tune` and `autosched lower`: their options."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from autosched.cli.complete import choices, operators_and_files
from autosched.cli.interrupt import interrupts_raise
from autosched.cli.only_for import require_given
from autosched.cli.options import (
    Dtype,
    Einsum,
    Expr,
    Force,
    Json,
    Ray,
    Set,
    Shape,
    Share,
    Target,
    Trust,
    Workload,
)
from autosched.errors import ConfigError
from autosched.user_file import trusting


def tune(
    config: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[CONFIG|OPERATOR [NAME=VALUE]...]...",
            help="YAML file, see configs/, or a built-in operator (autosched workloads) with its "
            "arguments; several are tuned together.",
            autocompletion=operators_and_files,
        ),
    ] = None,
    expr: Expr = None,
    einsum: Einsum = None,
    shape: Shape = None,
    dtype: Dtype = None,
    settings: Set = None,
    trials: Annotated[
        int | None, typer.Option(min=1, max=2**31 - 1, help="Candidates to measure.")
    ] = None,
    target: Target = None,
    records: Annotated[
        Path | None, typer.Option(readable=False, help="Record file to write.")
    ] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of every random draw.")] = None,
    time_budget: Annotated[
        float | None, typer.Option(min=0.1, help="Stop after this many seconds.")
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Do not continue: write a new record file.")
    ] = False,
    share: Share = False,
    ray: Ray = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Measure nothing: show the sketches and sampled candidates (--trials of them); "
            "for cuda also compile and check them.",
        ),
    ] = False,
    warm_start: Annotated[
        list[Path] | None,
        typer.Option(help="Records of other tasks to train the model on; may be repeated."),
    ] = None,
    workload: Workload = None,
    load_model: Annotated[Path | None, typer.Option(help="Cost model to start from.")] = None,
    save_model: Annotated[
        Path | None, typer.Option(readable=False, help="File for the trained model.")
    ] = None,
    strategy: Annotated[
        str,
        typer.Option(
            help="Several tasks: gradient or round-robin.",
            autocompletion=choices("gradient", "round-robin"),
        ),
    ] = "gradient",
    weights: Annotated[
        str | None, typer.Option(help="Several tasks: their weights, e.g. 1,2.5,1.")
    ] = None,
    objective: Annotated[
        str | None,
        typer.Option(
            metavar="FILE.py:NAME",
            help="Several tasks: minimise this function of the list of their best times in "
            "seconds, instead of the weighted sum.",
        ),
    ] = None,
    trust: Trust = False,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Tune a workload, or several; continues from the record file."""
    from autosched.cli.ahead import started_ahead

    with started_ahead(not dry_run and ray is None), trusting(trust):
        from autosched.cli import tune as command

        interrupts_raise()
        from autosched.cli.asked import Asked
        from autosched.cli.tune_settings import ManyFlags, ModelFlags, Overrides

        command.run(
            Asked(config or (), expr, einsum, shape or (), dtype or (), settings or ()),
            Overrides(trials, target, records, seed, time_budget, share, ray),
            ModelFlags(load_model, save_model, warm_start or (), workload or ()),
            ManyFlags(strategy, weights, objective),
            fresh=fresh,
            dry_run=dry_run,
            force=force,
            as_json=as_json,
        )


def lower(
    config: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[CONFIG|OPERATOR [NAME=VALUE]...]",
            help="YAML file or built-in operator; not needed with --profile.",
        ),
    ] = None,
    expr: Expr = None,
    einsum: Einsum = None,
    shape: Shape = None,
    dtype: Dtype = None,
    settings: Set = None,
    target: Target = None,
    record: Annotated[
        str | None,
        typer.Option(
            help="FILE:N: the candidate to lower; default: no steps, for cuda a drawn one."
        ),
    ] = None,
    print_after: Annotated[
        str | None, typer.Option(help="A pass name: print the TIR after it; or all, with times.")
    ] = None,
    time_passes: Annotated[bool, typer.Option("--time-passes", help="Time each pass.")] = False,
    host: Annotated[
        bool, typer.Option("--host", help="Go on to host code, which checks its arguments.")
    ] = False,
    passes: Annotated[
        str | None,
        typer.Option(help="Run these instead: 'StorageFlatten, LoopPartition{max_growth=8}'."),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(help="FILE or FILE:N: run that candidate, print the time of each loop (CPU)."),
    ] = None,
    profile_depth: Annotated[
        int | None,
        typer.Option(help="With --profile: time loops inside at most this many others (1)."),
    ] = None,
    profile_serial: Annotated[
        bool,
        typer.Option(
            "--profile-serial", help="With --profile: run and time parallel loops on one thread."
        ),
    ] = False,
    workload: Workload = None,
    trust: Trust = False,
) -> None:
    """Show the lowering pipeline, stage by stage; for cuda down to the kernels, without a GPU.

    With --profile a recorded candidate runs on this CPU, and a table says where its time goes.
    """
    from autosched.cli import lower as command

    if profile is not None:
        unused: dict[str, object] = {"CONFIG": config, "--record": record, "--set": settings}
        unused |= {"--expr": expr, "--einsum": einsum, "--shape": shape, "--dtype": dtype}
        unused |= {"--print-after": print_after, "--host": host or None}
        unused |= {"--passes": passes, "--target": target, "--time-passes": time_passes or None}
        with trusting(trust):
            depth = 1 if profile_depth is None else profile_depth
            command.profile(profile, depth, profile_serial, workload or (), unused)
        return
    require_given(
        "--profile FILE:N",
        profile_depth=profile_depth,
        profile_serial=profile_serial,
        workload=workload,
    )
    from autosched.cli.asked import Asked

    asked = Asked(config or (), expr, einsum, shape or (), dtype or (), settings or ())
    if asked == Asked():
        raise ConfigError("lower: expected CONFIG, a YAML file or operator, or --profile FILE:N")
    command.run(
        asked, record, print_after, passes, time_passes=time_passes, host=host, target=target
    )
