"""The command line's front: options in, exit status out.

Exit status: 0 done; 2 the user's input is wrong; 3 nothing valid was measured; 130 interrupted.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from autosched import __version__
from autosched.cli.cache_app import cache_app
from autosched.cli.complete import choices, operators, operators_and_files
from autosched.cli.console import open_closed_streams, plain, warn
from autosched.cli.dataset_app import dataset_app
from autosched.cli.help import Group, examples, fit, start
from autosched.cli.interrupt import interrupts_end, interrupts_raise
from autosched.cli.options import (
    FORMS,
    TARGETS,
    TUNING,
    Best,
    Dtype,
    Einsum,
    Expr,
    Features,
    Force,
    Index,
    Json,
    Records,
    Set,
    Shape,
    Share,
    Target,
    Trust,
    Workload,
)
from autosched.cli.records_app import records_app
from autosched.errors import AutoschedError, ConfigError
from autosched.user_file import trusting

_INTERRUPTED = 130

# The class of all errors in the use of options; typer does not export it by name.
_UsageError: Any = typer.BadParameter.__bases__[0]

app = typer.Typer(
    cls=Group,
    epilog=examples("autosched tune matmul M=512 N=512 K=512", "autosched tune --help"),
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
app.add_typer(dataset_app, name="dataset")
app.add_typer(records_app, name="records")
app.add_typer(cache_app, name="cache")


def _version(wanted: bool) -> None:
    if wanted:
        plain(f"autosched {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def options(
    context: typer.Context,
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Show the version and exit.", is_eager=True, callback=_version
        ),
    ] = False,
) -> None:
    """Find fast schedules for tensor operators with a learned cost model."""
    if context.invoked_subcommand is None:
        start()


@app.command(
    epilog=examples(
        "autosched tune configs/matmul.yaml",
        "autosched tune matmul M=512 N=512 K=512 --set search.trials=128",
        "autosched tune --expr 'C[i,j] = sum(k, A[i,k] * B[k,j])' --shape A=64,64 --shape B=64,64",
    )
)
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
    trials: Annotated[int | None, typer.Option(min=1, help="Candidates to measure.")] = None,
    target: Target = None,
    records: Annotated[Path | None, typer.Option(help="Record file to write.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Seed of every random draw.")] = None,
    time_budget: Annotated[
        float | None, typer.Option(min=0.1, help="Stop after this many seconds.")
    ] = None,
    fresh: Annotated[
        bool, typer.Option("--fresh", help="Do not continue: write a new record file.")
    ] = False,
    share: Share = False,
    ray: Annotated[
        str | None,
        typer.Option(
            metavar="ADDRESS",
            help="Build and measure on the nodes of a Ray cluster: ray://HOST:PORT, HOST:PORT, "
            "auto or local.",
        ),
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            help="Sketches and sampled candidates (--trials of them) only; for cuda they are "
            "compiled and checked.",
        ),
    ] = False,
    warm_start: Annotated[
        list[Path] | None,
        typer.Option(help="Records of other tasks to train the model on; may be repeated."),
    ] = None,
    workload: Workload = None,
    load_model: Annotated[Path | None, typer.Option(help="Cost model to start from.")] = None,
    save_model: Annotated[Path | None, typer.Option(help="File for the trained model.")] = None,
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
    trust: Trust = False,
    force: Force = False,
    as_json: Json = False,
) -> None:
    """Tune a workload, or several; continues from the record file."""
    from autosched.cli import tune as command

    interrupts_raise()
    from autosched.cli.asked import Asked
    from autosched.cli.tune_settings import ManyFlags, ModelFlags, Overrides

    with trusting(trust):
        command.run(
            Asked(config or (), expr, einsum, shape or (), dtype or (), settings or ()),
            Overrides(trials, target, records, seed, time_budget, share, ray),
            ModelFlags(load_model, save_model, warm_start or (), workload or ()),
            ManyFlags(strategy, weights),
            fresh=fresh,
            dry_run=dry_run,
            force=force,
            as_json=as_json,
        )


@app.command(epilog=examples("autosched replay matmul.jsonl"))
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


@app.command(epilog=examples("autosched build matmul.jsonl conv.jsonl -o kernels"))
def build(
    records: Annotated[list[Path], typer.Argument(help="Record files.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="Folder to write to.")],
    name: Annotated[
        str, typer.Option(help="Of the library and module (default: the operator's).")
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
        typer.Option("--no-check", help="Do not run CUDA kernels in the interpreter before."),
    ] = False,
    workload: Workload = None,
    force: Annotated[
        bool, typer.Option("--force", help="Replace files that no build wrote.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Write kernels for users without autosched: the best of each task.

    For a CPU a shared library, a C header, an example, a CMake file and a Python module that needs
    NumPy only. For CUDA source, cubin, PTX, launch sizes and a Python module for arrays of CuPy,
    PyTorch, PyCUDA and NumPy; no GPU is needed. docs/export.md explains the files.
    """
    from autosched.cli import build as command
    from autosched.session.export import ExportOptions

    others = tuple(command.sizes(text) for text in also or ())
    options = ExportOptions(name, dispatch, others, tuple(arch or ()), not no_check, force)
    command.run(
        records,
        output,
        _choice(best, index, False),
        options,
        as_json=as_json,
        workloads=workload or (),
    )


@app.command(
    epilog=examples(
        "autosched show matmul.jsonl --as python", "autosched show matmul.jsonl --index 3 --as asm"
    )
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
    features: Features = TUNING,
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

    with trusting(trust):
        command.run(
            records,
            _choice(best, index, False),
            form,
            features,
            arch=arch,
            workloads=workload or (),
        )


@app.command(
    epilog=examples(
        "autosched failures matmul.jsonl", "autosched failures matmul.jsonl --repro 12 > again.py"
    )
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


@app.command(epilog=examples("autosched report before.jsonl after.jsonl -o report.html"))
def report(
    records: Annotated[list[Path], typer.Argument(help="Record files; several are compared.")],
    output: Annotated[Path, typer.Option("-o", "--output", help="The page to write.")] = Path(
        "report.html"
    ),
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

    with trusting(trust):
        command.run(records, output, measure=not no_measure, force=force, workloads=workload or ())


@app.command(
    epilog=examples(
        "autosched lower matmul M=64 N=64 K=64 --print-after all",
        "autosched lower mm.yaml --target cuda --print-after ThreadSync",
        "autosched lower --profile mm.jsonl:0",
    )
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
        typer.Option(help="FILE:N, the candidate to lower; default: no steps, for cuda one drawn."),
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
        int, typer.Option(help="Of --profile: loops inside at most so many others are timed.")
    ] = 1,
    profile_serial: Annotated[
        bool,
        typer.Option(
            "--profile-serial", help="Of --profile: parallel loops on one thread, to look inside."
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
            command.profile(profile, profile_depth, profile_serial, workload or (), unused)
        return
    from autosched.cli.asked import Asked

    asked = Asked(config or (), expr, einsum, shape or (), dtype or (), settings or ())
    if asked == Asked():
        raise ConfigError("lower: expected CONFIG, a YAML file or operator, or --profile FILE:N")
    command.run(
        asked, record, print_after, passes, time_passes=time_passes, host=host, target=target
    )


@app.command(
    epilog=examples(
        "autosched arena records/*.jsonl",
        "autosched arena mm.jsonl conv.jsonl --model xgboost --model mine.py:Mine -o regret.html",
    )
)
def arena(
    records: Annotated[
        list[Path], typer.Argument(help="Record files: their candidates are the space.")
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
            help="autosched (the default), greedy, epsilon-greedy or random; may be repeated."
        ),
    ] = None,
    trials: Annotated[int, typer.Option(min=1, help="Candidates that a search measures.")] = 128,
    batch: Annotated[int, typer.Option(min=1, help="Candidates of a round.")] = 16,
    seeds: Annotated[int, typer.Option(min=1, help="Runs of each search.")] = 6,
    held_out: Annotated[
        str,
        typer.Option(
            help="What models do not learn from before a search: operator (the task's), task, "
            "or all (they begin with nothing)."
        ),
    ] = "operator",
    others: Annotated[
        int, typer.Option(min=1, help="Candidates of other tasks that they learn from at most.")
    ] = 1024,
    features: Features = TUNING,
    output: Annotated[
        Path | None,
        typer.Option("-o", "--output", help=".csv: every run; .html: regret curves (plotly)."),
    ] = None,
    workload: Workload = None,
    trust: Trust = False,
    force: Annotated[bool, typer.Option("--force", help="Replace the output file.")] = False,
    as_json: Json = False,
) -> None:
    """Compare cost models and searches on recorded candidates; nothing is measured.

    Prints how well each model ranks the candidates of operators that it has not seen, and how
    much slower than the best recorded one the best is that each search finds.
    """
    from autosched.arena import Settings
    from autosched.cli import arena as command

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


@app.command(
    epilog=examples(
        "autosched doctor --target cuda",
        "autosched doctor && autosched tune matmul M=512 N=512 K=512",
    )
)
def doctor(
    target: Annotated[str, typer.Option(help="cpu or cuda.", autocompletion=TARGETS)] = "cpu",
    arch: Annotated[str, typer.Option(help="CUDA architecture of the test compile.")] = "sm_80",
    as_json: Json = False,
) -> None:
    """What this machine can do for a target, and what to do about the rest.

    A tiny workload goes through every stage of a run; the stage that is broken is named. What is
    marked "note" works, but times may be worse than they could be. Exit status 1 when something
    must be repaired, otherwise 0: also for cuda where there is no GPU.
    """
    from autosched.cli import doctor as command

    command.run(target, arch, as_json=as_json)


@app.command(epilog=examples("autosched workloads matmul"))
def workloads(
    name: Annotated[
        str | None, typer.Argument(help="One of them.", autocompletion=operators)
    ] = None,
) -> None:
    """The built-in operators and their arguments."""
    from autosched.cli import workloads as command

    command.run(name)


@app.command(epilog=examples("autosched schema > config.schema.json"))
def schema() -> None:
    """The JSON Schema of configuration files."""
    from autosched.cli import schema as command

    command.run()


fit(app)


def _choice(best: bool, index: int | None, every: bool) -> int | str:
    """`best`, `all` or an index; at most one may be asked for."""
    if best + (index is not None) + every > 1:
        raise ConfigError("give only one of --best, --index and (for replay) --all")
    if every:
        return "all"
    return "best" if index is None else index


def run() -> None:
    """Run the command line and exit with its status."""
    open_closed_streams()
    try:
        status = app(
            prog_name="autosched", standalone_mode=False
        )  # of an interrupt; commands themselves return None
        sys.stdout.flush()
        if status == _INTERRUPTED:
            warn("interrupted")
        sys.exit(status)
    except typer.Exit as done:
        sys.exit(done.exit_code)
    except _UsageError as error:
        error.show()
        sys.exit(2)
    except (typer.Abort, KeyboardInterrupt):
        warn("interrupted")
        sys.exit(_INTERRUPTED)
    except AutoschedError as error:
        warn(f"error: {error}")
        sys.exit(2)
    except OSError as error:
        warn(f"error: {error}")
        sys.exit(2)
    finally:
        interrupts_end()
