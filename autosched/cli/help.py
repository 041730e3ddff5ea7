"""Help texts, of `--help` and of the bare command, for terminals of any width."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from autosched.cli.console import plain, results_alone
from autosched.errors import ConfigError

_Formatter: Any = typer.Context.formatter_class  # of click, which typer may bring along itself
_WIDEST = 80
_NO_LIMIT = 1000
_NARROW = 60  # columns; below that, options get lines of their own

START = """\
Tune an operator on this machine:
  autosched tune matmul M=512 N=512 K=64
See the best, and time it again:
  autosched records best matmul.jsonl
  autosched replay matmul.jsonl
Take it along, for C and Python:
  autosched build matmul.jsonl -o out

Is this machine fit? autosched doctor
All commands: autosched --help
"""


def examples(*commands: str) -> str:
    """The end of a command's help: command lines, one per line, never wrapped."""
    return "\n".join(["\b", "Examples:" if len(commands) > 1 else "Example:", *commands])


class _NarrowFormatter(_Formatter):  # type: ignore[misc] # Any: click has no stable place
    """Writes options above their descriptions."""

    def write_dl(self, rows: Sequence[tuple[str, str]], *_: Any, **__: Any) -> None:
        """Write a list of terms and their meanings."""
        for term, text in rows:
            self.write_text(term)
            with self.indentation(), self.indentation():
                self.write_text(text)


def _get_help(command: Any, context: Any) -> str:
    width = shutil.get_terminal_size().columns
    if width >= _NARROW:
        formatter = _Formatter(width=min(width, _WIDEST) - 2)
    else:
        formatter = _NarrowFormatter(width=width)
    command.format_help(context, formatter)
    text: str = formatter.getvalue()
    return text.rstrip("\n")


def _printed(option: Any) -> Any:
    """The option --help, whose text is printed as results are: a reader may go away."""

    def show(context: Any, _: Any, wanted: bool) -> None:
        if wanted and not context.resilient_parsing:
            plain(context.get_help())
            context.exit()

    if option is not None:
        option.callback = show
    return option


def _refuse_empty(command: Any, context: Any, words: Sequence[str]) -> None:
    """Raise ConfigError for an empty text; as a path it would mean the current folder."""
    if not set(words).isdisjoint(context.help_option_names):
        return
    given, _, _ = command.make_parser(context).parse_args(list(words))
    for parameter in command.get_params(context):
        value = given.get(parameter.name)
        if value == "" or (isinstance(value, list | tuple) and "" in value):
            is_option = parameter.param_type_name == "option"
            name = max(parameter.opts, key=len) if is_option else parameter.name.upper()
            raise ConfigError(
                f"{name}: expected a value, found an empty text; where it stands for a variable "
                "of the shell, set that first"
            )


class Command(TyperCommand):
    """A command with help that fits the terminal, and only its results on standard output."""

    def get_help_option(self, ctx: Any) -> Any:
        """The option --help."""
        return _printed(super().get_help_option(ctx))

    def get_help(self, ctx: Any) -> str:
        """The text of --help."""
        return _get_help(self, ctx)

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Read the words after the command. Raises ConfigError for one that is empty."""
        if not ctx.resilient_parsing:
            _refuse_empty(self, ctx, args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        with results_alone():
            return super().invoke(ctx)


class Group(TyperGroup):
    """A group of commands with help that fits the terminal."""

    def get_help_option(self, ctx: Any) -> Any:
        """The option --help."""
        return _printed(super().get_help_option(ctx))

    def get_help(self, ctx: Any) -> str:
        """The text of --help."""
        return _get_help(self, ctx)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list of commands; descriptions are wrapped, not cut."""
        commands = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [
            (name, command.get_short_help_str(_NO_LIMIT))
            for name, command in commands
            if command is not None and not command.hidden
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def fit(app: typer.Typer) -> None:
    """Give every command of `app` help that fits the terminal."""
    for command in app.registered_commands:
        command.cls = Command
    for group in app.registered_groups:
        if group.typer_instance is not None:
            fit(group.typer_instance)


def start() -> None:
    """Print the most common commands, for `autosched` without arguments."""
    plain(START)
