"""What the pipelines make of ten schedules and of blocks, at three vector widths and for a GPU.

The texts stand in tests/golden/pipeline; `--update-golden` rewrites them.
"""

from collections.abc import Sequence

import pytest

from autosched.codegen.cuda import emit_cuda
from autosched.codegen.nvrtc import load_nvrtc
from autosched.errors import CompileError, ScheduleError
from autosched.tir.function import IRModule, PrimFunc
from autosched.tir.parser import parse_func
from autosched.tir.printer import to_text
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import Pass, Sequential
from autosched.transform.framework.user_passes import UserPasses
from autosched.transform.low_precision.fixed_point import register_fixed_point
from autosched.transform.low_precision.lower_custom_datatypes import LowerCustomDatatypes
from autosched.transform.pipeline import (
    DEVICE_PIPELINE,
    FROM_BLOCKS,
    GPU_PIPELINE,
    cpu_pipeline,
)
from kit import pipeline_cases
from kit.block_programs import sums_of_rows
from kit.golden import Golden
from kit.gpu_texts import GPU_CONFIG, GPU_TEXTS
from kit.types import SameResult

register_fixed_point()
CUSTOM = """\
def main(A: Buffer((8,), custom[fixed]16)):
    for i in range(8):
        A[i] = A[i] + A[i]
"""
WIDTHS = (16, 32, 64)
CPU_CONFIG = {"tir.instrument_lwp": True, "tir.reset_start_id": True}
CASES = (*pipeline_cases.CASES, "blocks")


def lowered(name: str, gpu: bool) -> PrimFunc:
    """A function as the pipelines get it."""
    return sums_of_rows(gpu) if name == "blocks" else pipeline_cases.lowered(name, gpu)


def text_of(passes: tuple[Pass, ...], func: PrimFunc) -> str:
    """The text of `func` after the passes, or what they refuse."""
    try:
        return to_text(Sequential(passes)(func))
    except (CompileError, ScheduleError) as error:
        return str(error)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", CASES)
def test_cpu(name: str, width: int, golden: Golden, same_result: SameResult) -> None:
    before = lowered(name, gpu=False)
    after = Sequential(cpu_pipeline(width))(before)
    golden.check(f"pipeline/{name}-{width}.tir", to_text(after))
    same_result(before, after)


@pytest.mark.parametrize("name", CASES)
def test_gpu(name: str, golden: Golden, same_result: SameResult) -> None:
    before = lowered(name, gpu=True)
    after = Sequential(GPU_PIPELINE)(before)
    golden.check(f"pipeline/{name}-cuda.tir", to_text(after))
    same_result(before, after)


def test_host_code_for_a_gpu(golden: Golden) -> None:
    text = text_of(GPU_PIPELINE, lowered("tiled_matmul", gpu=False))
    golden.check("pipeline/tiled_matmul-refused.txt", text)


def places(passes: tuple[Pass, ...]) -> list[int]:
    return [k for k, pass_ in enumerate(passes) if pass_.name != UserPasses.name]


def changed_by(
    passes: tuple[Pass, ...], place: int, funcs: Sequence[tuple[str, PrimFunc]]
) -> list[str]:
    """The cases whose final text is another when the pass at `place` is taken out."""
    without = passes[:place] + passes[place + 1 :]
    return [name for name, func in funcs if text_of(without, func) != text_of(passes, func)]


def functions(pass_: Pass, gpu: bool) -> list[tuple[str, PrimFunc]]:
    """Functions that `pass_` may have work in: schedules make no blocks, nor types of one's own."""
    if pass_.name == LowerCustomDatatypes.name:
        return [("a type of one's own", parse_func(CUSTOM))]
    names = ("blocks",) if pass_ in FROM_BLOCKS else pipeline_cases.CASES
    return [(name, lowered(name, gpu)) for name in names]


def ids(passes: tuple[Pass, ...]) -> list[str]:
    return [f"{k}-{passes[k].name}" for k in places(passes)]


@pytest.mark.parametrize("place", places(cpu_pipeline()), ids=ids(cpu_pipeline()))
def test_every_pass_for_a_cpu_is_noticed(place: int) -> None:
    funcs = functions(cpu_pipeline()[place], gpu=False)
    with PassContext(config=CPU_CONFIG):
        assert any(changed_by(cpu_pipeline(width), place, funcs) for width in WIDTHS)


@pytest.mark.parametrize("place", places(GPU_PIPELINE), ids=ids(GPU_PIPELINE))
def test_every_pass_for_a_gpu_is_noticed(place: int) -> None:
    funcs = functions(GPU_PIPELINE[place], gpu=True)
    funcs.append(("host", lowered("tiled_matmul", gpu=False)))
    funcs += [(name, parse_func(text)) for name, text in GPU_TEXTS.items()]
    with PassContext(config=GPU_CONFIG):
        assert changed_by(GPU_PIPELINE, place, funcs)


@pytest.mark.parametrize("name", GPU_TEXTS)
def test_kernels_written_by_hand(name: str, same_result: SameResult) -> None:
    """With all settings on: what runs is the same, and what is printed compiles."""
    before = parse_func(GPU_TEXTS[name])
    with PassContext(config=GPU_CONFIG):
        after = Sequential(GPU_PIPELINE)(before)
        module = Sequential(DEVICE_PIPELINE)(IRModule({after.name: after}))
    same_result(before, after)
    kernels = [f for f in module.functions.values() if f.attrs.get("calling_conv") == 2]
    load_nvrtc("sm_80").compile(emit_cuda(kernels).text, "sm_80")
