"""Complete kernel calls that leave outputs out or give them as `out`, before the native checks.

This file needs the standard library and NumPy only, because exported modules hold a copy of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from autosched.runtime.memory import maker
from autosched.runtime.quick_call import Expected


class MadeOutputs:
    """Completes calls of a kernel whose arguments are `expected` and have the names `names`.

    `inputs` is the number of arguments that are no outputs. It is -1 where they do not all come
    first, or where there is no output: every argument must then be given.
    """

    def __init__(self, expected: Sequence[Expected], names: Sequence[str]) -> None:
        inputs = sum(not e.written for e in expected)
        last = inputs < len(expected) and all(e.written for e in expected[inputs:])
        self.inputs = inputs if last else -1
        self._has_out = "out" in names
        self._makers = [maker(e.shape, e.dtype) for e in expected if e.written]

    def complete(
        self, args: tuple[Any, ...], named: Mapping[str, Any]
    ) -> tuple[tuple[Any, ...], Sequence[np.ndarray[Any, Any]]]:
        """All arguments of `kernel(*inputs)` or `kernel(*inputs, out=...)`, and the outputs made.

        New outputs start at cache lines. Both are empty for any other call.
        """
        if len(args) != self.inputs:
            return (), ()
        if not named:
            made = [make() for make in self._makers]
            return (*args, *made), made
        out = named.get("out")
        if out is None or len(named) > 1 or self._has_out:
            return (), ()
        return (*args, *(out if isinstance(out, tuple | list) else (out,))), ()
