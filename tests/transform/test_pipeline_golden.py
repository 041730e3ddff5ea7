"""What the pipelines make of ten schedules and of blocks, at three vector widths and for a GPU.

The texts stand in tests/golden/pipeline; `--update-golden` rewrites them.
"""

from collections.abc import Sequence
from functools import cache

import pytest

from autosched.codegen.cuda import emit_cuda
from autosched.codegen.nvrtc import load_nvrtc
from autosched.errors import CompileError, ScheduleError
from autosched.tir.function import IRModule, PrimFunc
from autosched.tir.parser import parse_func
from autosched.tir.printer import to_text
from autosched.transform.expressions.instrument_bound_checkers import InstrumentBoundCheckers
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
OWN_TYPE = "a type of one's own"
CUSTOM = """\
def main(A: Buffer((8,), custom[fixed]16)):
    for i in range(8):
        A[i] = A[i] + A[i]
"""
WIDTHS = (16, 32, 64)
CASES = (*pipeline_cases.CASES, "blocks")
AT_DATA = "an index that is data"
LOOKED_UP = """\
def main(A: Buffer((8,), float32), J: Buffer((8,), int32)):
    for i in range(8):
        A[J[i]] = 1.0
"""
CONFIG = {False: {"tir.instrument_lwp": True, "tir.reset_start_id": True}, True: GPU_CONFIG}
"""The settings, without and with a GPU, with which every pass has work.

Only an index that is data is checked: passes leave statements behind a check as they are.
"""


def lowered(name: str, gpu: bool) -> PrimFunc:
    """A function as the pipelines get it."""
    return sums_of_rows(gpu) if name == "blocks" else pipeline_cases.lowered(name, gpu)


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
    with pytest.raises(ScheduleError) as refused:
        Sequential(GPU_PIPELINE)(lowered("tiled_matmul", gpu=False))
    golden.check("pipeline/tiled_matmul-refused.txt", str(refused.value))


def settings(name: str, gpu: bool) -> PassContext:
    """The settings for the program of this name."""
    return PassContext(
        config={**CONFIG[gpu], "tir.instrument_bound_checkers": name == AT_DATA},
    )


def places(passes: tuple[Pass, ...]) -> list[int]:
    return [k for k, pass_ in enumerate(passes) if pass_.name != UserPasses.name]


@cache
def program(name: str, gpu: bool) -> PrimFunc:
    """A function that some pass may have work in, by its name."""
    texts = {OWN_TYPE: CUSTOM, AT_DATA: LOOKED_UP, **GPU_TEXTS}
    if name in texts:
        return parse_func(texts[name])
    return lowered("tiled_matmul", gpu=False) if name == "host" else lowered(name, gpu)


@cache
def before_pass(passes: tuple[Pass, ...], place: int, name: str, gpu: bool) -> PrimFunc:
    """What the pass at `place` gets of a program; worked out once for all that leave one out."""
    if place == 0:
        return program(name, gpu)
    previous = before_pass(passes, place - 1, name, gpu)
    with settings(name, gpu):
        return Sequential(passes[place - 1 : place])(previous)


def text_without(passes: tuple[Pass, ...], place: int, name: str, gpu: bool) -> str:
    """The final text without the pass at `place`, or what is refused."""
    try:
        previous = before_pass(passes, place, name, gpu)
        with settings(name, gpu):
            return to_text(Sequential(passes[place + 1 :])(previous))
    except (CompileError, ScheduleError) as error:
        return str(error)


@cache
def final_text(passes: tuple[Pass, ...], name: str, gpu: bool) -> str:
    """The final text, or what is refused: nothing is left out behind the last pass."""
    return text_without(passes, len(passes), name, gpu)


def has_work(passes: tuple[Pass, ...], place: int, name: str, gpu: bool) -> bool:
    """Whether the pass at `place` makes something else of a program, or refuses it."""
    try:
        before, after = (before_pass(passes, at, name, gpu) for at in (place, place + 1))
    except (CompileError, ScheduleError):
        return True
    return after is not before


def is_noticed(passes: tuple[Pass, ...], place: int, names: Sequence[str], gpu: bool) -> bool:
    """Whether the final text of a program is another when the pass at `place` is taken out."""
    return any(
        text_without(passes, place, name, gpu) != final_text(passes, name, gpu)
        for name in names
        if has_work(passes, place, name, gpu)
    )


def names_for(pass_: Pass) -> tuple[str, ...]:
    """Programs that `pass_` may have work in.

    The schedules have no blocks, no types of one's own, and no index that may be outside.
    """
    if pass_.name == LowerCustomDatatypes.name:
        return (OWN_TYPE,)
    if pass_.name == InstrumentBoundCheckers.name:
        return (AT_DATA,)
    return ("blocks",) if pass_ in FROM_BLOCKS else tuple(pipeline_cases.CASES)


def ids(passes: tuple[Pass, ...]) -> list[str]:
    return [f"{k}-{passes[k].name}" for k in places(passes)]


@pytest.mark.parametrize("place", places(cpu_pipeline()), ids=ids(cpu_pipeline()))
def test_every_pass_for_a_cpu_is_noticed(place: int) -> None:
    names = names_for(cpu_pipeline()[place])
    assert any(is_noticed(cpu_pipeline(width), place, names, gpu=False) for width in WIDTHS)


@pytest.mark.parametrize("place", places(GPU_PIPELINE), ids=ids(GPU_PIPELINE))
def test_every_pass_for_a_gpu_is_noticed(place: int) -> None:
    names = (*names_for(GPU_PIPELINE[place]), "host", *GPU_TEXTS)
    assert is_noticed(GPU_PIPELINE, place, names, gpu=True)


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
