"""The command line in a shell: examples, completion, widths, colours, the bare command."""

import io
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from rich.text import Text

from autosched.cli import console
from autosched.cli.app import app
from autosched.cli.help import START
from autosched.display.console import literal_console
from kit.cli import Cli

ROOT: Any = typer.main.get_command(app)


def walk(command: Any, words: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Every command and group, with the words that lead to it."""
    yield words, command
    for name, inner in getattr(command, "commands", {}).items():
        yield from walk(inner, (*words, name))


COMMANDS = dict(walk(ROOT))
UsageError: Any = typer.BadParameter.__bases__[0]


def parse(line: str) -> None:
    """Raise what the command line would say of these words; nothing runs."""
    for part in line.split(" && "):
        words = shlex.split(part.partition(">")[0])
        command, context = ROOT, None
        assert words.pop(0) == "autosched", line
        while True:
            name = command.name if context else "autosched"
            context = command.make_context(name, words, parent=context)
            if not hasattr(command, "commands"):
                return
            rest = [*context._protected_args, *context.args]
            _, command, words = command.resolve_command(context, rest)


def test_every_help_has_examples_that_the_command_line_takes() -> None:
    for words, command in COMMANDS.items():
        _, found, examples = (command.epilog or "").partition("Example")
        assert found and "autosched " in examples, f"{words}: --help has no example"
        for line in re.findall(r"autosched [^;\n]+", examples):
            if "--help" not in line:
                parse(line.strip())


@pytest.mark.parametrize("line", ["autosched records top x y", "autosched show x --bogus 1"])
def test_an_example_that_is_wrong_would_be_found(line: str) -> None:
    with pytest.raises(UsageError):
        parse(line)


@pytest.mark.parametrize("columns", [40, 80])
def test_every_help_fits(cli: Cli, columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    for line in cli("workloads").out.splitlines():
        assert len(line) <= columns
    for words in COMMANDS:
        done = cli(*words, "--help")
        assert (done.status, done.err) == (0, "")
        prose, _, _ = done.out.partition("Example")  # what is to be copied is not broken
        too_long = [line for line in prose.splitlines() if len(line) > columns]
        assert all(len(line.split()) == 1 for line in too_long), (words, too_long)


def test_the_bare_command_says_what_most_people_want(cli: Cli) -> None:
    done = cli()
    assert (done.status, done.out, done.err) == (0, START, "")
    commands = re.findall(r"^  (autosched .*)$", START, flags=re.M)
    assert len(commands) == 4
    for line in commands:
        parse(line)
    assert all(len(line) <= 40 for line in START.splitlines())


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("autosched rep", {"replay"}),
        ("autosched records t", {"top", "trim"}),
        ("autosched doctor --target ", {"cpu", "cuda"}),
        ("autosched show --as t", {"te", "tir"}),
        ("autosched tune m", {"matmul", "mm.yaml"}),
        ("autosched replay mm", set()),  # the shell's files
    ],
)
@pytest.mark.usefixtures("config")
def test_the_shell_completes(
    cli: Cli, line: str, expected: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("_AUTOSCHED_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(len(re.split(r"\s", line)) - 1))
    done = cli()
    assert done.status == 0
    assert expected <= set(done.out.split()) and (expected or not done.out.strip())


def test_files_in_folders_are_completed(cli: Cli, tmp_path: Path) -> None:
    from autosched.cli.complete import operators_and_files

    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "x.yaml").touch()
    (tmp_path / "a" / "x.py").touch()
    cli("--version")  # which goes to the folder
    assert operators_and_files("a/") == operators_and_files("a/x") == ["a/x.yaml"]
    assert operators_and_files("nowhere/x") == []


def test_no_color_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    colour = re.compile(r"\x1b\[[\d;]*[34][0-7]m")
    for wanted in (False, True):
        if not wanted:
            monkeypatch.setenv("NO_COLOR", "1")
        else:
            monkeypatch.delenv("NO_COLOR")
        stream = io.StringIO()
        terminal = literal_console(file=stream, force_terminal=True, color_system="standard")
        terminal.print(Text("slow", style="red"))
        assert bool(colour.search(stream.getvalue())) is wanted


def test_messages_are_wrapped_on_a_terminal_only(monkeypatch: pytest.MonkeyPatch) -> None:
    text = (
        "error: cannot read the record file some/long/folder/of/many/parts/mm.jsonl: no such file"
    )
    for columns in (40, 80, None):
        stream = io.StringIO()
        terminal = literal_console(
            file=stream, force_terminal=columns is not None, width=columns or 80
        )
        monkeypatch.setattr(console, "err", terminal)
        console.warn(f"{text}\n\nnext line")
        lines = stream.getvalue().splitlines()
        assert " ".join(lines).split() == f"{text} next line".split()
        assert lines[-2:] == ["", "next line"]
        assert (len(lines) > 3) is (columns is not None)
        assert all(len(line) <= columns for line in lines if columns)


@pytest.mark.parametrize("columns", ["0", "1", "3"])
def test_a_width_that_nothing_fits_or_that_is_not_known(
    cli: Cli, log: Path, columns: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They were a ValueError: 0 stands for a width that is not known, as of some terminals."""
    monkeypatch.delenv("COLUMNS", raising=False)
    wide = cli("records", "best", log)
    monkeypatch.setenv("COLUMNS", columns)
    monkeypatch.setattr(console, "out", literal_console())
    narrow = cli("records", "best", log)
    assert (narrow.status, narrow.err) == (0, "")
    assert "matmul(M=16," in narrow.out.split()
    assert (narrow.out == wide.out) is (columns == "0")
    assert (console.out.width == int(columns)) is (columns != "0")


def test_lines_of_reports_are_wrapped_beside_their_labels(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    console.labelled("race", "word " * 30)
    assert capsys.readouterr().out == f"race      {'word ' * 30}\n"
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setattr(console, "out", literal_console())
    console.labelled("race", "word " * 30)
    first, *others = capsys.readouterr().out.splitlines()
    assert first.startswith("race      word") and all(len(line) <= 40 for line in others)
    assert all(line.startswith(" " * 10 + "word") for line in others)
