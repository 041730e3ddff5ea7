"""Examples of passes, in their docstrings and in files beside their tests, are what they do.

Each is parsed, run through the pass, printed and compared, and both programs must compute the
same. `--update-golden` rewrites them.
"""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from autosched.errors import ScheduleError
from autosched.tir import interp
from autosched.tir.function import IRModule, PrimFunc
from autosched.tir.parser import parse_func
from autosched.tir.printer import to_text
from autosched.transform.framework.pass_text import parse_passes
from autosched.transform.framework.passes import ModulePass, Sequential
from autosched.transform.low_precision.fixed_point import register_fixed_point
from autosched.transform.pipeline import PASSES
from kit.golden import Example, Golden
from kit.modules import run_module
from kit.tir import value_of
from kit.types import Array, SameResult

register_fixed_point()  # of examples
HERE = Path(__file__).resolve().parent
SOURCES = HERE.parent.parent / "autosched" / "transform"
FILE_OF = {name: Path(str(make.__module__).replace(".", "/")) for name, make in PASSES.items()}
PASS_OF = {path.name: name for name, path in FILE_OF.items()}
FILES = [
    *(SOURCES.parent.parent / path.with_suffix(".py") for path in FILE_OF.values()),
    *sorted(HERE.rglob("*.tir")),
]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_examples(path: Path, golden: Golden, same_result: SameResult) -> None:
    own = PASS_OF[path.stem]

    def run(example: Example) -> None:
        before = parse_func(example.before.text)
        example.before.found = to_text(before)
        if isinstance(PASSES[own](), ModulePass):
            run_on_module(example, before, own)
            return
        for block in example.outcomes:
            passes = Sequential(parse_passes(block.label or own, PASSES))
            if block.kind == "refused":
                with pytest.raises(ScheduleError) as caught:
                    passes(before)
                block.found = str(caught.value)
                continue
            after = passes(before)
            assert (after is before) == (block.kind == "unchanged")
            block.found = "" if block.kind == "unchanged" else to_text(after)
            if any(param.element is not None for param in before.params):
                same_memory(before, after)
            elif any(buffer.dtype.is_custom for buffer in before.buffers):
                pass  # means what the pass says; test_fixed_point.py knows what that should be
            elif before.params and after is not before:
                same_result(before, after, *scalars(before))

    assert golden.check_examples(path, run), f"{path.name} holds no example"


def run_on_module(example: Example, before: PrimFunc, own: str) -> None:
    """The same for passes over modules: what they make is the text of all functions."""
    module = IRModule({before.name: before})
    for block in example.outcomes:
        after = Sequential(parse_passes(block.label or own, PASSES))(module)
        assert (after is module) == (block.kind == "unchanged")
        block.found = "" if after is module else repr(after)
        args, others = arguments(before), arguments(before)
        result = interp.run(before, args)
        assert run_module(after, others, before.name) == result
        for a, b in zip(args, others, strict=True):
            np.testing.assert_array_equal(a, b)


def arguments(func: PrimFunc) -> list[Any]:
    """Arrays of ones, and numbers, in the order of the parameters."""
    found: list[Any] = []
    for param in func.params:
        buffer = func.buffer_map.get(param)
        if buffer is not None:
            found.append(np.ones([value_of(e, 3) for e in buffer.shape], buffer.dtype.numpy))
        else:
            found.append(param.dtype.numpy.type(3).item())
    return found


def same_memory(before: PrimFunc, after: PrimFunc) -> None:
    """Both functions, whose parameters are pointers, leave the same bytes behind."""
    drawn = [np.random.default_rng(k).integers(0, 256, 1024) for k in range(len(before.params))]
    left: list[list[Array]] = []
    for func in (before, after):
        memory = [values.astype(np.uint8) for values in drawn]
        kinds = [param.element for param in func.params]
        interp.run(func, [m.view(k.numpy) for m, k in zip(memory, kinds, strict=True) if k])
        left.append(memory)
    np.testing.assert_array_equal(left[0], left[1])


def scalars(func: PrimFunc) -> list[int]:
    """Values for the parameters that are no buffers."""
    return [3 for param in func.params if param not in func.buffer_map]
