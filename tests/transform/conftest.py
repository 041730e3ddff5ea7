"""Functions built by hand, and the comparison of a pass's input and output by running both."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from autosched.tir import interp
from autosched.tir.buffer import Buffer
from autosched.tir.dtype import handle
from autosched.tir.expr import Call, StringImm
from autosched.tir.function import PrimFunc
from autosched.tir.printer import to_text
from autosched.transform.host.memory_info import MemoryInfo, register_memory
from kit.stmts import func_of
from kit.tir import value_of, verified_passes
from kit.types import Array, BodyText, MakeFunc, SameResult

# What examples call, and the memory that they use.
for _name in ("example", "f"):
    interp.register_extern(_name, lambda *args: len(args))
interp.register_extern("example_memory", lambda: np.zeros(16, np.float32))
register_memory(
    "global.example",
    MemoryInfo(
        *(32, 512), head_address=lambda: Call(handle, "call_extern", (StringImm("example_memory"),))
    ),
)


def _random_array(buffer: Buffer, rng: np.random.Generator) -> Array:
    shape = [value_of(extent) for extent in buffer.shape]
    if buffer.dtype.is_bool:
        return rng.integers(0, 2, shape).astype(np.bool_)
    low = 0 if buffer.dtype.code == "uint" else -4
    return rng.integers(low, 5, shape).astype(buffer.dtype.numpy)


@pytest.fixture(autouse=True)
def _verified_passes() -> Iterator[None]:
    """Every function that a pass makes in these tests must be well formed."""
    with verified_passes():
        yield


@pytest.fixture
def make_func() -> MakeFunc:
    """make_func(body, *buffers, te=False, scalars=(), **attrs): a PrimFunc over the buffers."""
    return func_of


@pytest.fixture
def body_text() -> BodyText:
    """body_text(func): the printed statements without the head of the function."""

    def text(func: PrimFunc) -> str:
        lines = to_text(func).splitlines()[1:]
        return "\n".join(line[4:] for line in lines if not line.strip().startswith("attrs("))

    return text


@pytest.fixture
def same_result() -> SameResult:
    """same_result(before, after, *scalars): both functions leave equal arrays behind."""

    def check(before: PrimFunc, after: PrimFunc, *scalars: int | float, seed: int = 0) -> None:
        if after is before:
            return
        rng = np.random.default_rng(seed)
        arrays = [_random_array(b, rng) for b in before.buffers]
        others = [a.copy() for a in arrays]
        interp.run(before, [*arrays, *scalars])
        interp.run(after, [*others, *scalars])
        for buffer, a, b in zip(before.buffers, arrays, others, strict=True):
            np.testing.assert_array_equal(a, b, err_msg=buffer.name)

    return check
