"""Object code of compiled loops (`compiled_loops.py`), kept for the next processes.

The key covers everything that the code depends on: what Python runs as the function and as those
that it calls, the integers of their modules, the kinds of the arguments, the machine, LLVM, and the
code generator's sources.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from autosched.cache_folder import cache_folder
from autosched.errors import ConfigError
from autosched.kept_files import KeptFiles
from autosched.target import Target


class Kind(NamedTuple):
    """What is known of an argument, or a field of one, when a function is compiled.

    `name` is what the function calls it. For an array also `dtype`, the number of `axes`, and
    whether elements along the last one are `adjacent`; an integer has no `dtype`.
    """

    name: str
    dtype: str = ""
    axes: int = 0
    adjacent: bool = False


_PACKAGE = Path(__file__).resolve().parent.parent
_GENERATOR = ("tir/*.py", "codegen/*.py", "runtime/*loops*.py")


def loop_files() -> KeptFiles | None:
    """The files in `loops` in the folder of the cache; None where the user has no folder."""
    try:
        return KeptFiles(cache_folder() / "loops", ".o", b"ASLOOP1\n", 1 << 24, private=True)
    except ConfigError:
        return None


def loop_key(
    definition: Callable[..., None], kinds: tuple[Kind, ...], target: Target
) -> str | None:
    """The name of a function's code; None where the code generator's sources are not known."""
    generator = _generator()
    if generator is None:
        return None
    parts = generator, sys.implementation.cache_tag, target, kinds, *_meaning(definition)
    return hashlib.sha256(repr(parts).encode()).hexdigest()


def _meaning(definition: Callable[..., None]) -> Iterator[Any]:
    """What the function is to Python, with all that it uses of its module."""
    code = definition.__code__
    yield code.co_name, code.co_code, code.co_consts, code.co_varnames, code.co_names
    for name in code.co_names:
        value = definition.__globals__.get(name)
        if isinstance(value, int):
            yield int(value)
        elif called := getattr(value, "definition", None):
            yield from _meaning(called)


@lru_cache(maxsize=1)
def _generator() -> tuple[str, str] | None:
    """LLVM's version, and a hash of the code generator's sources (5 ms)."""
    import llvmlite

    found, files = hashlib.sha256(), [p for own in _GENERATOR for p in _PACKAGE.glob(own)]
    try:
        for path in sorted(files):
            found.update(path.read_bytes())
    except OSError:
        return None
    return (str(llvmlite.__version__), found.hexdigest()) if files else None
