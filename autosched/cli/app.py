"""The front of the command line: from options to exit status.

Exit status: 0 done; 2 the user's input is wrong; 3 nothing valid was measured; 130 interrupted.
"""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any

import typer

from autosched import __version__
from autosched.cli.cache_app import cache_app
from autosched.cli.candidates_app import arena, build, failures, replay, report, show
from autosched.cli.complete import operators
from autosched.cli.console import err, open_closed_streams, plain, warn
from autosched.cli.dataset_app import dataset_app
from autosched.cli.help import Group, examples, fit, start
from autosched.cli.interrupt import interrupts_end, interrupts_raise
from autosched.cli.only_for import require_given
from autosched.cli.options import TARGETS, Json
from autosched.cli.records_app import records_app
from autosched.cli.tuning_app import lower, tune
from autosched.display.console import tell
from autosched.errors import AutoschedError
from autosched.needed import failed_import

_INTERRUPTED = 130

# The class of all errors in the use of options; typer does not export it by name.
_UsageError: Any = typer.BadParameter.__bases__[0]


def _front() -> typer.Typer:
    """The command line without commands."""
    return typer.Typer(
        cls=Group,
        epilog=examples("autosched tune matmul M=512 N=512 K=512", "autosched tune --help"),
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
    )


app = _front()
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


def doctor(
    target: Annotated[str, typer.Option(help="cpu or cuda.", autocompletion=TARGETS)] = "cpu",
    arch: Annotated[
        str | None,
        typer.Option(help="Of --target cuda: architecture of the test compile (sm_80)."),
    ] = None,
    as_json: Json = False,
) -> None:
    """What this machine can do for a target, and what to do about the rest.

    A tiny workload goes through every stage of a run; the stage that is broken is named. What is
    marked "note" works, but times may be worse than they could be. Exit status 1 when something
    must be repaired, otherwise 0: also for cuda where there is no GPU.
    """
    from autosched.cli import doctor as command

    if target == "cpu":
        require_given("--target cuda", arch=arch)
    interrupts_raise()  # so that the folder of its stages is removed
    command.run(target, arch or "sm_80", as_json=as_json)


def workloads(
    name: Annotated[
        str | None, typer.Argument(help="One of them.", autocompletion=operators)
    ] = None,
) -> None:
    """The built-in operators and their arguments."""
    from autosched.cli import workloads as command

    command.run(name)


def schema() -> None:
    """The JSON Schema of configuration files."""
    from autosched.cli import schema as command

    command.run()


_COMMANDS: dict[Callable[..., None], tuple[str, ...]] = {
    tune: (
        "autosched tune configs/matmul.yaml",
        "autosched tune matmul M=512 N=512 K=512 --set search.trials=128",
        "autosched tune --expr 'C[i,j] = sum(k, A[i,k] * B[k,j])' --shape A=64,64 --shape B=64,64",
    ),
    replay: ("autosched replay matmul.jsonl",),
    build: ("autosched build matmul.jsonl conv.jsonl -o kernels",),
    show: (
        "autosched show matmul.jsonl --as python",
        "autosched show matmul.jsonl --index 3 --as asm",
    ),
    failures: (
        "autosched failures matmul.jsonl",
        "autosched failures matmul.jsonl --repro 12 > again.py",
    ),
    report: ("autosched report before.jsonl after.jsonl -o report.html",),
    lower: (
        "autosched lower matmul M=64 N=64 K=64 --print-after all",
        "autosched lower mm.yaml --target cuda --print-after ThreadSync",
        "autosched lower --profile mm.jsonl:0",
    ),
    arena: (
        "autosched arena records/*.jsonl",
        "autosched arena mm.jsonl conv.jsonl --model xgboost --model mine.py:Mine -o regret.html",
    ),
    doctor: (
        "autosched doctor --target cuda",
        "autosched doctor && autosched tune matmul M=512 N=512 K=512",
    ),
    workloads: ("autosched workloads matmul",),
    schema: ("autosched schema > config.schema.json",),
}
"""All commands that are not groups, in the order of `--help`, each with its examples."""

for _command, _lines in _COMMANDS.items():
    app.command(epilog=examples(*_lines))(_command)
fit(app)


def front_of(arguments: Sequence[str]) -> typer.Typer:
    """The command line with only the command that `arguments` start with; else all commands.

    Typer takes 2 ms for each command.
    """
    for command, lines in _COMMANDS.items():
        if arguments[:1] == [command.__name__]:
            front = _front()
            front.callback(invoke_without_command=True)(options)
            front.command(epilog=examples(*lines))(command)
            fit(front)
            return front
    return app


def run() -> None:
    """Run the command line and exit with its status."""
    open_closed_streams()
    try:
        status = front_of(sys.argv[1:])(
            prog_name="autosched", standalone_mode=False
        )  # status of an interrupt; commands return None
        sys.stdout.flush()
        if status == _INTERRUPTED:
            warn("interrupted")
        sys.exit(status)
    except typer.Exit as done:
        sys.exit(done.exit_code)
    except _UsageError as error:
        text = io.StringIO()
        error.show(text)
        tell(err, text.getvalue().rstrip("\n"))
        sys.exit(2)
    except (typer.Abort, KeyboardInterrupt):
        warn("interrupted")
        sys.exit(_INTERRUPTED)
    except (AutoschedError, OSError) as error:
        if failed_import(error) is not None:
            raise
        warn(f"error: {error}")
        sys.exit(2)
    except MemoryError as error:
        warn(
            f"error: {': '.join(['not enough memory', *map(str, error.args)])}; see what limits it "
            "(ulimit -v, docker --memory), or end other programs"
        )
        sys.exit(2)
    except RuntimeError as error:
        if "can't start new thread" not in str(error):
            raise
        warn(
            f"error: {error}; see what limits processes and memory (ulimit -a, docker "
            "--pids-limit), or end other programs"
        )
        sys.exit(2)
    finally:
        interrupts_end()
