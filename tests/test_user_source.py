"""Digests of functions in users' files: what they do counts, what stands beside them does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from autosched.errors import ConfigError
from autosched.user_source import require_source, source_digest

SOURCE = """
import numpy as np
SCALE = 2.0
if SCALE > 1:
    OFFSET = 1
else:
    OFFSET = 0

def helper(shape):
    return np.full(shape, SCALE) + OFFSET

def make(rng, shape, dtype):
    return helper(shape).astype(dtype)

def other():
    return 1
"""


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("def make", "# a comment\ndef make", True),
        ("(shape).astype", "( shape )  .astype", True),
        ("return 1", "return 2", True),
        ("def other", "UNUSED = 3\n\ndef other", True),
        (".astype(dtype)", ".astype(dtype) * 2", False),
        ("SCALE = 2.0", "SCALE = 3.0", False),
        ("OFFSET = 0", "OFFSET = 2", False),
        ("+ OFFSET", "- OFFSET", False),
        ("import numpy as np", "import jax.numpy as np", False),
        ("def make", "SCALE += 1\n\ndef make", False),
    ],
)
def test_what_a_function_uses_counts(tmp_path: Path, old: str, new: str, same: bool) -> None:
    spec = f"{tmp_path / 'gen.py'}:make"
    (tmp_path / "gen.py").write_text(SOURCE)
    before = source_digest(spec)
    assert len(before) == 16
    assert old in SOURCE
    (tmp_path / "gen.py").write_text(SOURCE.replace(old, new))
    assert (source_digest(spec) == before) == same
    require_source("A", spec, "")  # nothing was recorded
    if not same:
        with pytest.raises(ConfigError, match=r"^A: .*gen.py:make is not the function that was"):
            require_source("A", spec, before)
        with pytest.raises(ConfigError, match=r"make is not the pass that was recorded"):
            require_source("A", spec, before, "pass")


@pytest.mark.parametrize("text", [None, "def other(): pass", "def make(:", "\0"])
def test_what_cannot_be_read_has_none(tmp_path: Path, text: str | None) -> None:
    if text is not None:
        (tmp_path / "gen.py").write_text(text)
    assert source_digest(f"{tmp_path / 'gen.py'}:make") == ""
