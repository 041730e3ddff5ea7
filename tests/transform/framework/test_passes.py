from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from autosched.errors import ConfigError
from autosched.tir.function import IRModule, PrimFunc
from autosched.tir.stmt import nop
from autosched.transform.device.shared_to_dynamic import SharedToDynamic
from autosched.transform.device.thread_sync import ThreadSync
from autosched.transform.framework.context import PassContext
from autosched.transform.framework.passes import FunctionPass, ModulePass, Sequential
from autosched.transform.loops.loop_partition import LoopPartition
from autosched.transform.loops.unroll_loop import UnrollLoop
from autosched.transform.vector.vectorize_innermost import VectorizeInnermost
from autosched.transform.vector.vectorize_loop import VectorizeLoop
from kit.types import MakeFunc


@dataclass(frozen=True)
class Tag(FunctionPass):
    """Appends its tag to an attribute."""

    tag: str = "x"
    name: ClassVar[str] = "Tag"

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        return func.with_attrs(tags=func.attrs.get("tags", "") + self.tag)


@dataclass(frozen=True)
class Needs(Tag):
    name: ClassVar[str] = "Needs"
    required: ClassVar[tuple[str, ...]] = ("First",)


@dataclass(frozen=True)
class DropPrivate(FunctionPass):
    name: ClassVar[str] = "DropPrivate"

    def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc | None:
        return None if func.attrs.get("private") else func


@dataclass(frozen=True)
class Keep(ModulePass):
    name: ClassVar[str] = "Keep"
    result: object = "same"

    def apply_module(self, module: IRModule, ctx: PassContext) -> IRModule:
        return module if self.result == "same" else self.result  # type: ignore[return-value]  # wrong on purpose


@pytest.fixture
def module(make_func: MakeFunc) -> IRModule:
    return IRModule({"f": make_func(nop()), "g": make_func(nop(), private=True)})


def test_a_function_pass_runs_on_every_function(module: IRModule) -> None:
    after = Tag("a")(module)
    assert [f.attrs["tags"] for f in after.functions.values()] == ["a", "a"]


def test_none_removes_a_function(module: IRModule) -> None:
    after = DropPrivate()(module)
    assert list(after.functions) == ["f"]
    with pytest.raises(ValueError, match="DropPrivate removed the function main"):
        DropPrivate()(module["g"])


def test_what_is_no_function_is_told(module: IRModule) -> None:
    class Text(FunctionPass):
        name = "Text"

        def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
            return "text"  # type: ignore[return-value]  # wrong on purpose

    for program in (module, module["f"]):
        with pytest.raises(
            TypeError, match=r"Text: apply: expected a PrimFunc, found 'text' \(str\)"
        ):
            Text()(program)

    class Body(FunctionPass):
        name = "Body"

        def apply(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
            return func.body  # type: ignore[return-value]  # wrong on purpose

    with pytest.raises(TypeError, match=r"^Body: apply: expected a PrimFunc, found .{,100}$"):
        Body()(module["f"])


def test_nothing_changed_is_the_same_module(module: IRModule) -> None:
    once = DropPrivate()(module)
    assert DropPrivate()(once) is once


def test_module_passes(module: IRModule) -> None:
    assert Keep()(module) is module
    assert Keep()(module["f"]) is module["f"]
    with pytest.raises(TypeError, match="Keep returned None, expected an IRModule"):
        Keep(None)(module)


def test_sequences_nest_and_run_what_is_required(make_func: MakeFunc) -> None:
    func = make_func(nop())
    inner = Sequential((Tag("b"), Needs("c")), registry={"First": lambda: Tag("1")})
    assert Sequential((Tag("a"), inner))(func).attrs["tags"] == "ab1c"


def test_required_passes_are_not_remembered(make_func: MakeFunc) -> None:
    twice = Sequential((Needs("c"), Needs("d")), registry={"First": lambda: Tag("1")})
    assert twice(make_func(nop())).attrs["tags"] == "1c1d"


@pytest.mark.parametrize("passes", [(Keep,), ("Keep",), Keep(), [Tag("a"), None]])
def test_what_is_no_pass_is_refused(passes: Any) -> None:
    with pytest.raises(
        ConfigError, match=r"Sequential: expected (a tuple|objects) of passes.* found"
    ):
        Sequential(passes)


@pytest.mark.parametrize("program", [3, None, nop()])
def test_what_is_no_program_is_refused(program: Any) -> None:
    for pass_ in (Tag("a"), Keep(), Sequential((Tag("a"),), "some")):
        with pytest.raises(ConfigError, match=r"(Tag|Keep|some): expected a PrimFunc or IRModule"):
            pass_(program)


def test_unknown_required_pass(make_func: MakeFunc) -> None:
    with pytest.raises(ConfigError, match="Needs requires the pass 'First', which is not in"):
        Sequential((Needs(),))(make_func(nop()))


@dataclass(frozen=True)
class Shift(FunctionPass):
    name: ClassVar[str] = "Shift"
    by: int = -1
    mark: bool = False


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: LoopPartition(max_growth=-3), "LoopPartition: max_growth: expected at least 0"),
        (lambda: UnrollLoop(auto_max_step=True), "UnrollLoop: auto_max_step: expected an integer"),
        (lambda: VectorizeInnermost(0), "VectorizeInnermost: vector_bytes: expected at least 1"),
        (lambda: SharedToDynamic(limit=-1), "SharedToDynamic: limit: expected at least 0"),
        (lambda: VectorizeLoop(masked=1), "VectorizeLoop: masked: expected True or False, found 1"),  # type: ignore[arg-type]
        (lambda: ThreadSync(3), r"ThreadSync: scope: expected a str, found 3 \(int\)"),  # type: ignore[arg-type]
        (lambda: Shift(by=2.0), r"Shift: by: expected an integer, found 2.0 \(float\)"),  # type: ignore[arg-type]
    ],
)
def test_options_of_another_type_are_refused_at_once(
    make: Callable[[], FunctionPass], message: str
) -> None:
    with pytest.raises(ConfigError, match=message):
        make()


def test_options_of_ones_own_pass_may_be_negative() -> None:
    assert Shift().by == -1 and SharedToDynamic(limit=None).limit is None
