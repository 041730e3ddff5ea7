"""YAML files that would take forever to read, or are none."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from autosched.cli.read_config import load_config
from autosched.errors import ConfigError

_BOMB = "a0: &a0 [x, x]\n" + "".join(
    f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 9)}]\n" for k in range(1, 40)
)

_DEEP = "workload:\n" + "\n".join("  " * k + " a:" for k in range(400))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (_BOMB, r"c\.yaml:\d+: expected at most 20000 values; an alias"),
        ("workload: &a [*a]\n", r"c\.yaml:1: the alias \*a is inside of what it stands for"),
        (
            "workload: &a\n  op: {x: *a}\n",
            r"c\.yaml:2: the alias \*a is inside of what it stands for",
        ),
        ("workload: " + "[" * 5000, r"c\.yaml:1: expected values nested at most 32 levels"),
        (_DEEP, r"c\.yaml:33: expected values nested at most 32 levels"),
        (f"search: {{trials: {'9' * 5000}}}\n", r"c\.yaml: not valid YAML: Exceeds the limit"),
        (f"search: {{trials: 0x{'f' * 9000}}}\n", r"c\.yaml: an integer of 36000 bits"),
        ("x" * (1 << 21), r"c\.yaml: expected at most 1 MiB"),
        (
            '{"environment": {}, "hash": "1"}\n' * 70_000,
            r"c\.yaml is a record file, not a configuration; `autosched replay c\.yaml` takes it",
        ),
        ("inputs: {A: {constant: 1" + "0" * 400 + "}}\n", "expected a number up to 1.8e308"),
        ("inputs: {A: {file: /dev/zero}}\n", "inputs: A: expected a file, found the folder, dev"),
        ("inputs: {A: {file: pipe}}\n", "inputs: A: expected a file, found the folder, dev"),
        ('inputs: {A: {file: "a\\0b"}}\n', "inputs: A: cannot read 'a.x00b'"),
    ],
)
def test_what_is_no_configuration_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    rest = "workload: {op: matmul, args: {M: 8, N: 8, K: 8}}\n"
    Path("c.yaml").write_text(text if text.startswith("workload") else text + rest)
    with pytest.raises(ConfigError, match=said):
        load_config("c.yaml")


def test_a_device_is_no_configuration() -> None:
    with pytest.raises(ConfigError, match="/dev/zero: it is a device or pipe; write it to"):
        load_config("/dev/zero")
