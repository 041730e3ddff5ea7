"""What a command line asks to compute: files, built-in operators, or an expression."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ruamel.yaml.comments import CommentedMap

from autosched.cli.config import Config
from autosched.cli.console import warn
from autosched.cli.read_config import Written, checked, load_config
from autosched.cli.yaml_file import parse_yaml
from autosched.errors import ConfigError
from autosched.words import in_shell
from autosched.workloads import WORKLOADS

_ARGUMENT = re.compile(r"[A-Za-z_]\w*=")
_PLAIN_NAME = re.compile(r"\w+")
_EXAMPLE = "matmul M=512 N=512 K=512"


@dataclass(frozen=True, slots=True)
class Asked:
    """The words of a command line that say what to compute, and the settings that it changes.

        mm.yaml conv.yaml
        matmul M=512 N=512 K=512 softmax M=64 N=64
        --expr "C[i, j] = sum(k, A[i, k] * B[k, j])" --shape A=64,64 --shape B=64,64

    `sets` are KEY=VALUE with any key of a configuration; values are YAML.
    """

    words: Sequence[str] = ()
    expr: str | None = None
    einsum: str | None = None
    shapes: Sequence[str] = ()
    dtypes: Sequence[str] = ()
    sets: Sequence[str] = ()

    def configs(self, target: str | None = None) -> list[Config]:
        """A configuration for each workload; `target` is the kind given by --target, if any.

        Raises ConfigError, which quotes the wrong word.
        """
        expression = self._expression()
        if expression is not None:
            if self.words:
                raise ConfigError(
                    f"{self.words[0]}: with --expr or --einsum no CONFIG is expected; leave one out"
                )
            return [checked(expression, "expression", self.sets, target)]
        if not self.words and self.sets:
            return [checked(Written(CommentedMap(), "--set"), "settings", self.sets, target)]
        if not self.words:
            raise ConfigError(
                f"expected a YAML file, a built-in operator such as {_EXAMPLE}, or --expr"
            )
        return [self._one(word, arguments, target) for word, arguments in self._groups()]

    def config(self, target: str | None = None) -> Config:
        """The only configuration, as from `configs`. Raises ConfigError if there are several."""
        found = self.configs(target)
        if len(found) > 1:
            raise ConfigError(
                f"expected one workload, found {len(found)}: {', '.join(c.name for c in found)}"
            )
        return found[0]

    def files(self) -> list[Path]:
        """The configuration files among the words."""
        groups = self._groups() if self.words else []
        return [Path(word) for word, arguments in groups if not _is_operator(word, arguments)]

    def _groups(self) -> list[tuple[str, list[str]]]:
        """The files and operators, each with the arguments that follow it."""
        groups: list[tuple[str, list[str]]] = []
        for word in self.words:
            if not _ARGUMENT.match(word) or Path(word).is_file():
                groups.append((word, []))
            elif groups:
                groups[-1][1].append(word)
            else:
                raise ConfigError(f"{word}: an argument follows its operator, e.g. {_EXAMPLE}")
        return groups

    def _one(self, word: str, arguments: Sequence[str], target: str | None) -> Config:
        if _is_operator(word, arguments):
            if Path(word).is_file():
                warn(f"note: {word} is the built-in operator; ./{word} is the file of that name")
            return checked(_operator(word, arguments), word, self.sets, target)
        if not Path(word).exists() and _PLAIN_NAME.fullmatch(word):
            close = difflib.get_close_matches(word, WORKLOADS, 1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise ConfigError(
                f"{word}: neither a file nor a built-in operator{hint or ';'} `autosched "
                "workloads` lists the operators"
            )
        flag = _flag_for(word)
        if flag and not Path(word).exists():
            raise ConfigError(f"{word}: no file has that name; give a computation with {flag}")
        if arguments:
            raise ConfigError(
                f"{arguments[0]}: {word} is a configuration file; "
                f"--set workload.args.{arguments[0]} replaces an argument of it"
            )
        return load_config(word, self.sets, target)

    def _expression(self) -> Written | None:
        given = {"--expr": self.expr, "--einsum": self.einsum}
        texts = {flag: text for flag, text in given.items() if text is not None}
        if not texts:
            for flag, values in (("--shape", self.shapes), ("--dtype", self.dtypes)):
                if values:
                    raise ConfigError(
                        f"{flag} {values[0]}: it is for --expr and --einsum; an operator has "
                        f"arguments, e.g. {_EXAMPLE} dtype=float16"
                    )
            return None
        if len(texts) > 1:
            raise ConfigError("--expr and --einsum: give one of them")
        ((flag, text),) = texts.items()
        written = Written(CommentedMap(), flag)
        written.put(("workload", flag.removeprefix("--")), text, flag)
        for shape in self.shapes:
            name, sizes = _shape(shape)
            _put_once(written, ("workload", "shapes", name), sizes, f"--shape {shape}")
        self._put_dtypes(written)
        return written

    def _put_dtypes(self, written: Written) -> None:
        for text in self.dtypes:
            name, equals, dtype = text.partition("=")
            if not equals and len(self.dtypes) > 1:
                raise ConfigError(
                    f"--dtype {text}: expected one type for all tensors, or NAME=TYPE for each"
                )
            location = ("workload", "dtype", name) if equals else ("workload", "dtype")
            _put_once(written, location, dtype if equals else text, f"--dtype {text}")


def _is_operator(word: str, arguments: Sequence[str]) -> bool:
    """Whether `word` is an operator; a file of the same name wins only if no arguments follow."""
    return word in WORKLOADS and (bool(arguments) or not Path(word).is_file())


def _flag_for(word: str) -> str:
    """The option for a word that looks like an expression or an einsum, else ""."""
    if "->" in word:
        return "--einsum"
    return "--expr" if "[" in word and "=" in word else ""


def _operator(name: str, arguments: Sequence[str]) -> Written:
    written = Written(CommentedMap(), in_shell(name))
    written.put(("workload", "op"), name, name)
    written.put(("workload", "args"), CommentedMap(), name)
    for text in arguments:
        key, _, value = text.partition("=")
        if ("workload", "args", key) in written.words:
            raise ConfigError(f"{text}: {name} has the argument {key} twice")
        written.put(("workload", "args", key), _value(value, text), text)
    return written


def _value(text: str, word: str) -> Any:
    return parse_yaml(text, word, lambda line: word)


def _shape(text: str) -> tuple[str, list[int]]:
    """Parse `A=64,64` into a name and sizes."""
    name, _, sizes = text.partition("=")
    try:
        if name.strip():
            return name.strip(), [int(size) for size in sizes.split(",")]
    except ValueError:
        pass
    raise ConfigError(f"--shape {text}: expected NAME=SIZE,SIZE,..., e.g. A=64,64")


def _put_once(written: Written, location: tuple[str, ...], value: Any, word: str) -> None:
    if location in written.words:
        raise ConfigError(f"{word}: {location[-1]} was given before, {written.words[location]}")
    written.put(location, value, word)
