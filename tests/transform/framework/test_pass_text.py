"""Passes and their options as text."""

import pytest

from autosched.errors import ConfigError
from autosched.transform.device.verify_gpu_code import VerifyGPUCode
from autosched.transform.device.verify_memory import VerifyMemory
from autosched.transform.expressions.simplify import Simplify
from autosched.transform.framework.pass_text import parse_passes
from autosched.transform.framework.passes import FunctionPass
from autosched.transform.loops.unroll_loop import UnrollLoop
from autosched.transform.pipeline import PASSES


@pytest.mark.parametrize(
    ("text", "passes"),
    [
        ("Simplify", (Simplify(),)),
        ("UnrollLoop{auto_max_step=16}", (UnrollLoop(auto_max_step=16),)),
        (
            " UnrollLoop{ auto_max_step = 4 , mark_only=True },Simplify{} ",
            (UnrollLoop(auto_max_step=4, mark_only=True), Simplify()),
        ),
        ('VerifyMemory{kind="cuda"}', (VerifyMemory("cuda"),)),
        ("VerifyMemory{kind=cuda}", (VerifyMemory("cuda"),)),
        ("VerifyGPUCode{max_thread_x=3}", (VerifyGPUCode(max_thread_x=3),)),
    ],
)
def test_text(text: str, passes: tuple[FunctionPass, ...]) -> None:
    assert parse_passes(text, PASSES) == passes


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "expected at least one name"),
        ("Simplif", "unknown pass 'Simplif'; expected one of .*BF16ComputeLegalize, "),
        ("Simplif", "VerifyVTCMLimit. Did you mean 'Simplify'\\?"),
        ("Simplify UnrollLoop", "at 'Simplify UnrollLoop', separated by commas"),
        ("UnrollLoop{step=3}", "UnrollLoop has no option 'step=3'; expected .* auto_max_step"),
        ("UnrollLoop{auto_max_step}", "has no option 'auto_max_step'; expected option=value"),
        (
            "UnrollLoop{auto_max_step=True}",
            "auto_max_step=True}: expected a value of type int, such as 0",
        ),
        ("HoistIfThenElse{x=1}", "expected option=value with one of no options"),
    ],
)
def test_what_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        parse_passes(text, PASSES)
