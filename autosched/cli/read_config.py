"""Reading and checking of configurations from YAML files and the command line, with clear messages.

Nothing in a configuration is evaluated as code.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from ruamel.yaml.comments import CommentedMap, TaggedScalar

from autosched.cli.config import Config, WorkloadSection
from autosched.cli.yaml_file import parse_yaml, read_yaml
from autosched.errors import ConfigError
from autosched.words import shortened
from autosched.workloads.source import SOURCES

_MOST_BITS = 4096  # of an integer; Python refuses to print much longer ones
_EXAMPLE = "--set search.trials=128"
Location = tuple[Any, ...]


@dataclass(slots=True)
class Written:
    """The unchecked values of a configuration, and where each was written.

    `data` are the values of a file, with their lines, or of the command line. `name` is the
    source's name in messages. `words` maps keys to the words of the command line that set them, for
    messages.
    """

    data: CommentedMap
    name: str
    path: Path | None = None
    words: dict[Location, str] = field(default_factory=dict)

    def put(self, location: Sequence[str], value: Any, word: str) -> None:
        """Set a key as the word `word` of the command line asks."""
        node = self.data
        for depth, key in enumerate(location[:-1], 1):
            inner = node.get(key)
            if isinstance(inner, CommentedMap):
                node[key] = inner.copy()  # an alias of it elsewhere keeps its value
            else:
                node[key] = CommentedMap()
                self.words[tuple(location[:depth])] = word
            node = node[key]
        node[location[-1]] = value
        self.words[tuple(location)] = word

    def where(self, location: Location) -> str:
        """Where a key stands, or should: `mm.yaml:3`, `--set search.trials=many` or `M=many`."""
        for length in range(len(location), 0, -1):
            if location[:length] in self.words:
                return self.words[location[:length]]
        if self.path is None:
            return self.name
        return f"{self.path}:{_line(self.data, location)}"


def load_config(path: Path | str, sets: Sequence[str] = (), target: str | None = None) -> Config:
    """Read and check a YAML file; `sets` are KEY=VALUE that replace some of its values.

    `target`, the kind given by --target, also replaces that of the file. Raises ConfigError with
    file, line, key, what was found and what is allowed.
    """
    path = Path(path)
    data = read_yaml(path)
    if not isinstance(data, CommentedMap):
        found = "an empty file" if data is None else _kind(data)
        raise ConfigError(f"{path}: expected keys such as `workload:`, found {found}")
    return checked(Written(data, str(path), path), path.stem, sets, target)


def checked(
    written: Written, name: str, sets: Sequence[str] = (), target: str | None = None
) -> Config:
    """Check a configuration; `name` becomes its name if it has none. Raises ConfigError.

    --target is applied before any check, because what is valid depends on the kind of target.
    """
    for text in sets:
        _set(written, text)
    if target is not None:
        written.put(("target", "kind"), target, f"--target {target}")
    data = written.data
    if data.get("name") in (None, ""):
        data["name"] = name
    try:
        config = Config.model_validate(_values(written))
    except ValidationError as error:
        explained = dict.fromkeys(_explain(written, e) for e in error.errors())
        raise ConfigError("\n".join(explained)) from error
    try:  # build the workload itself, so that wrong arguments are reported with their place
        _ = config.task().dag
    except ConfigError as error:
        place = written.where(_suspect(config.workload, str(error)))
        raise ConfigError(f"{place}: {error}") from error
    return config


def _set(written: Written, text: str) -> None:
    """Apply `KEY=VALUE` of --set; the value is YAML."""
    word = f"--set {text}"
    key, equals, value = text.partition("=")
    location = key.strip().split(".")
    if not equals or not all(location):
        raise ConfigError(f"{word}: expected KEY=VALUE, e.g. {_EXAMPLE}")
    written.put(location, parse_yaml(value, word, lambda line: word), word)


def _suspect(workload: WorkloadSection, message: str) -> Location:
    """The key that `message` about the workload refers to."""
    for start in ("expr", "einsum", "dtype"):
        if message.startswith(f"{start}:") and getattr(workload, start) is not None:
            return ("workload", start)
    if message.startswith("inputs: "):
        return ("inputs", message.split(":")[1].strip())
    for name in ("threads", "cpu", "arch", "tf32"):
        if message.startswith(f"target.{name}:"):
            return ("target", name)
    if message.startswith("lowering: "):
        return ("lowering", message.split(":")[1].strip())
    if message.startswith("layout_rewrite:"):
        return ("layout_rewrite",)
    if message.startswith("layout_free:"):
        return ("workload", "layout_free")
    words = set(re.findall(r"\w+", message.partition(", expected")[0]))
    for section, names in (("args", workload.args), ("shapes", workload.shapes)):
        named = [name for name in names if name in words]
        if named:
            return ("workload", section, named[0])
    if workload.args and "argument" in words:
        return ("workload", "args")
    source = next(key for key in SOURCES if getattr(workload, key) is not None)
    return ("workload", source)


def _values(written: Written) -> Any:
    try:
        return _plain(written.data)
    except ConfigError as error:
        raise ConfigError(f"{written.name}: {error}") from None


def _plain(value: Any) -> Any:
    """ruamel's round-trip values as plain Python ones; text where a tag (`!!str 17`) is unknown."""
    if isinstance(value, TaggedScalar):
        return str(value.value)
    if isinstance(value, dict):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_plain(v) for v in value]
    for kind in (bool, int, float, str):
        if isinstance(value, kind):
            if isinstance(value, int) and value.bit_length() > _MOST_BITS:
                raise ConfigError(f"an integer of {value.bit_length()} bits; none is that large")
            return kind(value)
    return value


def _line(data: CommentedMap, location: Location) -> int:
    """The line (from 1) of the deepest known key of `location`."""
    line, node = 1, data
    for key in location:
        if not isinstance(node, CommentedMap) or key not in node:
            break
        if key in (node.lc.data or ()):  # None for an !!omap
            line = node.lc.key(key)[0] + 1
        node = node[key]
    return line


def _explain(written: Written, error: Any) -> str:
    location = tuple(error["loc"])
    key = ".".join(map(str, location))
    where = f"{written.where(location)}: "
    if error["type"] == "extra_forbidden":
        known = _known_keys(location[:-1])
        close = _nearest(location, known)
        hint = f" Did you mean {close!r}?" if close else ""
        return f"{where}unknown key {key!r}; allowed here: {', '.join(known)}.{hint}"
    if error["type"] == "missing":
        return f"{where}the key {key!r} is missing{_EXAMPLES.get(key, '')}"
    message = str(error["msg"]).removeprefix("Value error, ")
    if error["type"] == "value_error":
        return f"{where}{key}: {message}"
    message = _EXPECTED.get(error["type"], message)
    for place, expected in _SEVERAL.items():  # pydantic reports one error per type
        own = location[: len(place)]
        alike = len(location) > len(own) and location[-1] != "[key]"
        if alike and all(name in (at, "*") for name, at in zip(place, own, strict=True)):
            value = _kind(_value_at(_plain(written.data), own), whole=True)
            return f"{where}{'.'.join(map(str, own))}: expected {expected}, found {value}"
    message = message.replace("Input should be '", "expected '")
    message = message.replace("Input should be False", "expected false")
    message = message.replace("Input should be", "expected a value")
    return f"{where}{key}: {message}, found {_kind(error['input'])}"


def _value_at(data: Any, location: Location) -> Any:
    for key in location:
        data = data[key]
    return data


def _kind(value: Any, whole: bool = False) -> str:
    """`a list`, `text 'many'`, `the date 2026-01-31`, `0` and the like, as it stands in YAML.

    Lists and mappings are shown if they are to be seen `whole`.
    """
    if isinstance(value, dict) and not whole:
        return "a mapping"
    if isinstance(value, list) and not whole:
        return "a list"
    if isinstance(value, bool) or value is None:
        return {True: "true", False: "false", None: "nothing"}[value]
    if isinstance(value, date):
        return f"the date {value}"
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        return "a very large number"
    if isinstance(value, float) and not math.isfinite(value):
        return {math.inf: ".inf", -math.inf: "-.inf"}.get(value, ".nan")
    shown = shortened(repr(str(value) if isinstance(value, str) else value), 80)
    return f"text {shown}" if isinstance(value, str) else shown


_EXAMPLES = {"workload": ", e.g. workload: {op: matmul, args: {M: 512, N: 512, K: 512}}"}

# The values that keys of several types take, in words; `*` is any name.
_SEVERAL = {
    ("workload", "args", "*"): "an integer or a type's name",
    ("workload", "dtype"): "a type, or one for each tensor, e.g. {A: int8, B: float32}",
    ("measure", "devices"): "all, or a list of numbers and UUIDs",
    ("inputs", "*", "*"): "a finite number, text or two finite numbers [low, high]",
}

# Pydantic's messages in the words of YAML.
_EXPECTED = {
    "model_type": "expected keys and values",
    "dict_type": "expected keys and values",
    "list_type": "expected a list",
    "int_type": "expected an integer",
    "float_type": "expected a number",
    "string_type": "expected text (put it in quotes)",
    "bool_type": "expected true or false",
    "finite_number": "expected a finite number",
}


def _known_keys(location: Location) -> list[str]:
    model: Any = Config
    for key in location:
        model = _section(model.model_fields[key].annotation)
    return list(model.model_fields)


def _section(annotation: Any) -> Any:
    return next((a for a in get_args(annotation) if isinstance(a, type)), annotation)


def _nearest(location: Location, known: Sequence[str]) -> str | None:
    """The key that was probably meant: one of `known`, or one of a similar name elsewhere."""
    name = str(location[-1])
    close = difflib.get_close_matches(name, known, 1)
    if close:
        return close[0]
    elsewhere = {full.rpartition(".")[2]: full for full in _all_keys(Config.model_fields)}
    close = difflib.get_close_matches(name, elsewhere, 1)
    return elsewhere[close[0]] if close else None


def _all_keys(fields: Mapping[str, Any], before: str = "") -> Iterator[str]:
    """`search.trials` and the like: every key of a configuration."""
    for name, each in fields.items():
        yield before + name
        section = _section(each.annotation)
        if isinstance(section, type) and issubclass(section, BaseModel):
            yield from _all_keys(section.model_fields, f"{before}{name}.")
