from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from autosched.errors import ConfigError, ScheduleError
from autosched.tir.function import PrimFunc
from autosched.tir.parser import parse_func
from autosched.tir.stmt import nop
from autosched.transform.expressions.simplify import Simplify
from autosched.transform.framework.context import CONFIG_KEYS, PassContext, PassInfo, Program
from autosched.transform.framework.instruments import BaseInstrument
from autosched.transform.framework.passes import FunctionPass, ProgramT, Sequential
from autosched.transform.framework.user_passes import UserPasses
from kit.types import MakeFunc


@dataclass(frozen=True)
class Mark(FunctionPass):
    """Adds an attribute."""

    name: ClassVar[str] = "Mark"

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        return func.with_attrs(marked=True)


@dataclass(frozen=True)
class Late(FunctionPass):
    name: ClassVar[str] = "Late"
    opt_level: ClassVar[int] = 3

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        return func.with_attrs(late=ctx.opt_level)


@pytest.fixture
def func(make_func: MakeFunc) -> PrimFunc:
    return make_func(nop())


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("tir.noalia", ". Did you mean 'tir.noalias'?"),
        (
            "tir.detect_global_barrier",
            ". Blocks of a kernel do not wait for each other; compute it",
        ),
        *[("tir.bogus", ""), ("bogus", ""), (7, "")],
    ],
)
def test_unknown_key_lists_candidates(key: Any, hint: str) -> None:
    keys = ", ".join(sorted(CONFIG_KEYS))
    with pytest.raises(ConfigError) as caught:
        PassContext(config={key: True})
    said = f"PassContext: unknown configuration key {key!r}; expected one of {keys}{hint}"
    assert str(caught.value).startswith(said) and (hint or str(caught.value) == said)


def test_none_and_wrong_types_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"'tir\.noalias' is None"):
        PassContext(config={"tir.noalias": None})
    with pytest.raises(ConfigError, match="must be a list, found True"):
        PassContext(config={"tir.add_lower_pass": True})
    with pytest.raises(ConfigError, match="has no option 'split'; expected split_loop"):
        PassContext(config={"tir.InjectDoubleBuffer": {"split": 2}})
    with pytest.raises(ConfigError, match=r"'split_loop' of .* must be a int, found True"):
        PassContext(config={"tir.InjectDoubleBuffer": {"split_loop": True}})
    given: Any = [("tir.noalias", False)]
    with pytest.raises(ConfigError, match="config: expected values by their keys, found"):
        PassContext(config=given)
    level: Any = "3"
    with pytest.raises(ConfigError, match="PassContext: opt_level: expected an integer, found '3'"):
        PassContext(opt_level=level)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("tir.InjectDoubleBuffer", {"split_loop": -5}, "'split_loop' .* 0, 1 or an even number"),
        ("tir.InjectDoubleBuffer", {"split_loop": 3}, "'split_loop' .* 0, 1 or an even .* found 3"),
        ("tir.InjectDoubleBuffer", {"split_loop": -2}, "'split_loop' of 'tir.InjectDoubleBuffer'"),
        ("tir.lwp_max_depth", -1, "'tir.lwp_max_depth' must be at least 0, found -1"),
        ("tir.lwp_min_height", -1, "'tir.lwp_min_height' must be at least 0, found -1"),
        ("tir.vtcm_capacity", -1, "'tir.vtcm_capacity' must be at least 0, found -1"),
        (
            "tir.add_lower_pass",
            [[7, Mark()]],
            r"must be pairs \[phase, pass\] .*, found \[\[7, Mark",
        ),
        ("tir.add_lower_pass", [Mark()], "must be pairs"),
        ("tir.add_lower_pass", [[0, Mark]], "objects of passes, found .*class"),
        ("tir.add_lower_pass", [[0, lambda func: func]], "objects of passes, found"),
    ],
)
def test_values_that_no_pass_takes_are_refused_at_once(key: str, value: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=f"PassContext: .*{message}"):
        PassContext(config={key: value})


@pytest.mark.parametrize("key", ["disabled_pass", "required_pass"])
@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["Simplify", "UnrolLoop"], "no pass is called 'UnrolLoop'; candidates: UnrollLoop"),
        ([7], "no pass is called 7; candidates: AlternateRows, .*VerifyMemory"),
        ([""], "no pass is called ''; candidates: AlternateRows, "),
        ("UnrollLoop", "expected a list of names of passes, found 'UnrollLoop'"),
        (3, r"expected a list of names of passes, found 3 \(int\)"),
    ],
)
def test_a_name_that_no_pass_has_is_refused(key: str, names: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=f"PassContext: {key}: {message}"):
        PassContext(**{key: names})


@pytest.mark.parametrize("given", [3, [3], [BaseInstrument], [BaseInstrument(), print]])
def test_what_is_no_instrument_is_refused(given: Any) -> None:
    wanted = r"PassContext: instruments: expected a list of instruments, e.g. \[PassTiming\(\)\]"
    with pytest.raises(ConfigError, match=wanted):
        PassContext(instruments=given)


def test_passes_of_ones_own_are_known_once_they_are_defined(func: PrimFunc) -> None:
    with pytest.raises(ConfigError, match="no pass is called 'DefinedLater'"):
        PassContext(disabled_pass=["DefinedLater"])

    @dataclass(frozen=True)
    class Later(Mark):
        name: ClassVar[str] = "DefinedLater"

    with PassContext(disabled_pass=["DefinedLater"]):
        assert Sequential((Later(),))(func) is func


def test_a_pass_of_another_class_is_known_where_it_is_added(func: PrimFunc) -> None:
    class Foreign:
        name: ClassVar[str] = "Foreign"
        info = PassInfo(name)

        def __call__(self, program: ProgramT) -> ProgramT:
            raise AssertionError("it is disabled")

    with pytest.raises(ConfigError, match="no pass is called 'Foreign'"):
        PassContext(disabled_pass=["Foreign"])
    with PassContext(disabled_pass=["Foreign"], config={"tir.add_lower_pass": [[0, Foreign()]]}):
        assert UserPasses(0)(func) is func


def test_settings_and_defaults() -> None:
    ctx = PassContext(config={"tir.noalias": False})
    assert ctx.setting("tir.noalias") is False
    assert ctx.setting("tir.disable_vectorize") is False
    with pytest.raises(ConfigError, match=r"configuration key 'tir\.noalia'; expected one"):
        ctx.setting("tir.noalia")


def test_contexts_nest() -> None:
    default = PassContext.current()
    assert default.opt_level == 2
    with PassContext(opt_level=0) as outer:
        with PassContext(opt_level=3) as inner:
            assert PassContext.current() is inner
        assert PassContext.current() is outer
    assert PassContext.current() is default


def test_disabled_beats_required(func: PrimFunc) -> None:
    both = PassContext(required_pass=["Mark"], disabled_pass=["Mark"])
    assert not both.pass_enabled(PassInfo("Mark"))
    with both:
        assert Sequential((Mark(),))(func) is func
        assert Mark()(func).attrs["marked"]  # calling a pass does not ask


def test_required_runs_whatever_the_level(func: PrimFunc) -> None:
    with PassContext(opt_level=0):
        assert Sequential((Late(),))(func) is func
    with PassContext(opt_level=0, required_pass=["Late"]):
        assert Sequential((Late(),))(func).attrs["late"] == 0
    with PassContext(opt_level=3):
        assert Sequential((Late(),))(func).attrs["late"] == 3


class Veto(BaseInstrument):
    def should_run(self, program: Program, info: PassInfo) -> bool:
        return info.name != "Mark"


def test_a_veto_leaves_the_program_identical(func: PrimFunc) -> None:
    with PassContext(instruments=[Veto()]):
        assert Mark()(func) is func
        assert Sequential((Mark(),))(func) is func
    with PassContext(instruments=[Veto()], required_pass=["Mark"]):
        assert Mark()(func) is not func


def test_trace_sees_before_and_after(func: PrimFunc) -> None:
    seen = []
    with PassContext(trace=lambda program, info, before: seen.append((info.name, before))):
        Mark()(func)
    assert seen == [("Mark", True), ("Mark", False)]


class Recorder(BaseInstrument):
    def __init__(self, log: list[str], name: str, fails: bool = False) -> None:
        self.log, self.name, self.fails = log, name, fails

    def enter_pass_ctx(self) -> None:
        if self.fails:
            raise RuntimeError(self.name)
        self.log.append(f"enter {self.name}")

    def exit_pass_ctx(self) -> None:
        self.log.append(f"exit {self.name}")


def test_failure_on_entering_leaves_what_was_entered() -> None:
    log: list[str] = []
    ctx = PassContext(
        instruments=[Recorder(log, "a"), Recorder(log, "b"), Recorder(log, "c", fails=True)]
    )
    default = PassContext.current()
    with pytest.raises(RuntimeError, match="c"), ctx:
        pass
    assert log == ["enter a", "enter b", "exit b", "exit a"]
    assert ctx.instruments == []
    assert PassContext.current() is default


def test_an_inner_context_has_what_both_ask_for(func: PrimFunc) -> None:
    log, traced = list[str](), list[str]()

    class Seeing(Recorder):
        def run_before_pass(self, program: Program, info: PassInfo) -> None:
            self.log.append(f"before {info.name}")

        def run_after_pass(self, program: Program, info: PassInfo) -> None:
            self.log.append(f"after {info.name}")

        def should_run(self, program: Program, info: PassInfo) -> bool:
            return info.name != "Late"

    outer = PassContext(
        3,
        disabled_pass=["Simplify"],
        instruments=[Seeing(log, "a")],
        config={"tir.noalias": False, "tir.add_lower_pass": [[0, Late()]]},
        trace=lambda _, info, before: traced.append(f"{info.name} {before}"),
    )
    with outer:
        config = {"tir.noalias": True, "tir.disable_vectorize": True}
        inner = outer.inner(["UnrollLoop"], config, [[0, Mark()]])
        with inner:
            after = UserPasses(0)(func)
        assert log == ["enter a", "before Mark", "after Mark"]
    assert "marked" in after.attrs and "late" not in after.attrs
    assert traced == ["Mark True", "Mark False"]
    assert inner.disabled_pass == {"Simplify", "UnrollLoop"}
    assert inner.setting("tir.disable_vectorize") and not inner.setting("tir.noalias")
    assert [type(each) for _, each in inner.setting("tir.add_lower_pass")] == [Mark, Late]
    assert outer.inner().instruments and not PassContext().inner().instruments


def test_programs_that_are_nested_too_deeply_are_refused_in_words() -> None:
    lines = "".join(f"    x{k}: float32 = A[{k}]\n    A[0] = x{k}\n" for k in range(3000))
    func = parse_func(f"def main(A: Buffer((3000,), float32)):\n{lines}")
    with pytest.raises(ScheduleError, match=r"Simplify: Python's recursion limit of \d+ calls"):
        Simplify()(func)
