"""What a task asks of its lowering: how it is written, what is loaded, what is said of mistakes."""

import copy
import json
import pickle
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from autosched import user_file
from autosched.driver import lower_steps
from autosched.errors import ConfigError, ScheduleError
from autosched.lowering import NO_LOWERING, SETTINGS, ChosenPass, Lowering
from autosched.task import Task
from autosched.transform.framework.context import CONFIG_KEYS, PassContext
from autosched.transform.framework.instruments import BaseInstrument
from autosched.transform.framework.pass_names import OWN_PASSES
from autosched.transform.framework.passes import FunctionPass
from autosched.user_file import load_object
from kit.passes import ONE, TASK, TILED, line

AB = "A: float32[16, 16], B: float32[16, 16]"


def lowered(lowering: Lowering) -> str:
    with lowering.context():
        return str(lower_steps(TASK.dag, TILED, TASK.target))


def test_nothing_is_asked_for_unless_it_is_said() -> None:
    assert not NO_LOWERING
    assert Lowering.parse({}) == NO_LOWERING == Lowering.parse({"passes": [], "config": {}})
    assert NO_LOWERING.to_json() == {} and NO_LOWERING.text == ""
    NO_LOWERING.require()
    assert "in parallel(" in lowered(NO_LOWERING)


def test_what_is_written_is_read_again(passes: Path) -> None:
    config = {"tir.InjectDoubleBuffer": {"split_loop": 2}, "tir.disable_cse_tir": True}
    asked = Lowering.parse(
        {
            "passes": [ONE, {"pass": "my_passes.py:Whole", "phase": 1}],
            "disabled_pass": ["UnrollLoop", "Simplify", "Simplify"],
            "config": config,
        }
    )
    asked.require()
    entry = json.loads(json.dumps(asked.to_json()))
    assert [each["phase"] for each in entry["passes"]] == [3, 1]
    assert all(len(each["sha256"]) == 16 for each in entry["passes"])
    assert entry["disabled_pass"] == ["Simplify", "UnrollLoop"] and entry["config"] == config
    again = Lowering.parse(entry)
    assert again == asked == copy.deepcopy(asked) == pickle.loads(pickle.dumps(asked))
    assert hash(again) == hash(asked)
    assert asked.text == (
        'with OneThread and Whole (phase 1) and tir.InjectDoubleBuffer={"split_loop": 2} and '
        "tir.disable_cse_tir=true, without Simplify and UnrollLoop"
    )
    assert Lowering.parse({"disabled_pass": ["Simplify"]}).text == "without Simplify"


def test_reading_runs_no_file(passes: Path) -> None:
    passes.write_text("raise SystemExit\n")
    assert Lowering.parse({"passes": [{"pass": ONE, "phase": 0}]}).passes == (ChosenPass(ONE, 0),)


@pytest.mark.parametrize("spec", [ONE, "my_passes.py:unrolled", "my_passes.py:Whole"])
@pytest.mark.parametrize("phase", [0, 1, 2, 3])
def test_passes_change_the_code(passes: Path, spec: str, phase: int) -> None:
    after = lowered(Lowering.parse({"passes": [{"pass": spec, "phase": phase}]}))
    assert "parallel(" not in after
    assert ("unrolled(" in after) == (spec.endswith("unrolled") and phase >= 2)


def test_a_pass_that_is_asked_for_runs_whatever_its_level(passes: Path) -> None:
    text = passes.read_text()
    passes.write_text(text.replace('name = "Whole"', 'name = "Whole"\n    opt_level = 9'))
    assert "parallel(" not in lowered(Lowering.parse({"passes": ["my_passes.py:Whole"]}))


def test_passes_and_settings_of_the_pipeline(passes: Path) -> None:
    off = Lowering.parse({"config": {"tir.noalias": False}})
    assert "tir.noalias=False" in lowered(off) and "tir.noalias=True" in lowered(NO_LOWERING)
    without = Lowering.parse({"disabled_pass": ["VectorizeLoop", "PromoteAccumulators"]})
    assert lowered(without) != lowered(NO_LOWERING)
    own = Lowering.parse({"passes": [ONE], "disabled_pass": ["OneThread"]})
    own.require()
    assert "parallel(" in lowered(own)


def test_what_the_caller_has_counts_as_well(passes: Path) -> None:
    class Seen(BaseInstrument):
        def __init__(self) -> None:
            self.names: list[str] = []

        def run_after_pass(self, program: Any, info: Any) -> None:
            self.names.append(info.name)

    seen, traced = Seen(), list[str]()
    config = {"tir.noalias": False, "tir.disable_vectorize": True}
    lowering = Lowering.parse(
        {"passes": [ONE], "disabled_pass": ["Simplify"], "config": {"tir.noalias": True}}
    )
    with PassContext(
        instruments=[seen], config=config, trace=lambda _, info, before: traced.append(info.name)
    ):
        text = lowered(lowering)
    assert "tir.noalias=False" in text
    assert seen.names.count("OneThread") == 1 and traced.count("OneThread") == 2
    assert "Simplify" not in seen.names and "UnrollLoop" in seen.names


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([], "lowering: expected passes, disabled_pass and config, .*found "),
        ({"pass": []}, "lowering: expected passes, disabled_pass and config, .*found "),
        ({"passes": ONE}, "lowering: passes: expected a list of file.py:Name, .*found 'my_pass"),
        ({"passes": 3}, "lowering: passes: expected a list of file.py:Name, .*found 3"),
        ({"passes": [3]}, "lowering: passes: expected a class, file.py:Name, .*found 3"),
        ({"passes": [{"phase": 1}]}, "lowering: passes: expected file.py:Name, .*found {'phase'"),
        ({"passes": [{"pass": ONE, "x": 1}]}, "lowering: passes: expected file.py:Name, .*found"),
        *[
            (
                {"passes": [{"pass": ONE, "phase": phase}]},
                f"{ONE}: phase: expected 0 .*found {text}",
            )
            for phase, text in ((4, "4"), (-1, "-1"), (True, "True"), (1.0, "1.0"), ("1", "'1'"))
        ],
        ({"disabled_pass": "Simplify"}, "lowering: disabled_pass: expected a list of names"),
        ({"disabled_pass": [1]}, "lowering: disabled_pass: expected names of passes, found 1"),
        ({"config": []}, "lowering: config: expected settings by their keys, found"),
        ({"config": {"tir.x": 1}}, "lowering: config: unknown configuration key 'tir.x'"),
        ({"config": {1: 1}}, "lowering: config: unknown configuration key 1"),
        ({"config": {"tir.noalia": True}}, "Did you mean 'tir.noalias'"),
        ({"config": {"tir.noalias": 1}}, "lowering: config: 'tir.noalias' must be a bool, found 1"),
        ({"config": {"tir.noalias": None}}, "lowering: config: 'tir.noalias' is None"),
        ({"config": {"tir.RemoveNoOp": {"x": 1}}}, "'tir.RemoveNoOp' has no option 'x'"),
        (
            {"config": {"tir.add_lower_pass": []}},
            "'tir.add_lower_pass' is for a PassContext .*passes of your own stand under `passes`",
        ),
        ({"config": {"tir.instrument_lwp": True}}, "'tir.instrument_lwp' is for a PassContext"),
    ],
)
def test_what_is_wrong_is_said(data: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        Lowering.parse(data)
    assert str(caught.value).startswith("lowering: ")


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"passes": ["nowhere.py:X"]}, "passes: there is no file nowhere.py"),
        ({"passes": ["my_passes.py:Nobody"]}, "passes: my_passes.py defines no pass Nobody"),
        ({"passes": ["my_passes.py"]}, "passes: expected file.py:pass, found 'my_passes.py'"),
        (
            {"passes": ["my_passes.py:ForKind"]},
            "my_passes.py:ForKind is no pass: expected a class that derives from FunctionPass or ",
        ),
        ({"passes": ["my_passes.py:nop"]}, "my_passes.py:nop is no pass: expected a FunctionPass"),
        ({"passes": ["my_passes.py:NoName"]}, "my_passes.py:NoName has no name"),
        ({"passes": ["my_passes.py:NoApply"]}, "NoApply does not define apply$"),
        (
            {"passes": ["my_passes.py:Requiring"]},
            r"has `required`, .*; call them, e.g. Simplify\(\)\(func\)$",
        ),
        ({"passes": ["my_passes.py:NoApplyModule"]}, "does not define apply_module$"),
        ({"passes": ["my_passes.py:WithArguments"]}, r"WithArguments\(\) failed: TypeError: "),
        ({"disabled_pass": ["UnrolLoop"]}, "disabled_pass: no pass is called 'UnrolLoop'; .*: Unr"),
    ],
)
def test_what_is_not_there_is_said(passes: Path, data: Any, message: str) -> None:
    with pytest.raises(ConfigError, match=message) as caught:
        Lowering.parse(data).require()
    assert str(caught.value).startswith("lowering: ")


def test_a_pass_that_only_this_process_knows_is_none_to_leave_out(passes: Path) -> None:
    class Known(FunctionPass):
        name = "OnlyHere"

    PassContext(disabled_pass=[Known.name])
    with pytest.raises(ConfigError, match="no pass is called 'OnlyHere'"):
        Lowering.parse({"disabled_pass": [Known.name]}).require()


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Failing", f"my_passes.py:{line('{}[')}: Failing failed: KeyError: 'x'"),
        ("Exiting", f"my_passes.py:{line('raise SystemExit')}: Exiting failed: SystemExit: 3"),
        (
            "NoReturn",
            f"my_passes.py:{line('class NoReturn') + 3}: NoReturn failed: ValueError: NoReturn "
            "removed the function main; ",
        ),
        (
            "Text",
            f"my_passes.py:{line('class Text') + 3}: Text failed: TypeError: Text: apply: "
            "expected a PrimFunc, found 'text' (str)",
        ),
        (
            "Broken",
            f"my_passes.py:{line('class Broken') + 3}: Broken made a function that is not well "
            "formed: expected a statement, found None",
        ),
        (
            "NoLoops",
            f"my_passes.py:{line('class NoLoops') + 3}: NoLoops made a function that is not well "
            "formed: For.body: expected Stmt, found None",
        ),
        (
            "Fewer",
            f"my_passes.py:{line('class Fewer') + 3}: Fewer made a function that is called "
            f"otherwise: expected the name and arguments of main({AB}, C: float32[16, 16]), "
            f"found main({AB})",
        ),
        ("Turned", "C: float32[16, 16]), found main(C: float32[16, 16], "),
        ("Called", f"found other({AB}, C: float32[16, 16])"),
        (
            "TwoOfIt",
            f"my_passes.py:{line('class TwoOfIt') + 3}: TwoOfIt failed: ValueError: TwoOfIt made "
            "main, more of the function main; expected one function of that name",
        ),
    ],
)
def test_a_pass_that_fails_is_named_with_its_line(passes: Path, name: str, message: str) -> None:
    lowering = Lowering.parse({"passes": [f"my_passes.py:{name}"]})
    lowering.require()
    with pytest.raises(ScheduleError, match=re.escape(message)):
        lowered(lowering)


def test_a_pass_may_make_new_parameters(passes: Path) -> None:
    assert "parallel(" not in lowered(Lowering.parse({"passes": ["my_passes.py:NewParameters"]}))


def test_what_is_only_spoken_of_runs_no_file(passes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = replace(Lowering.parse({"passes": [ONE]}), trusted=False)
    monkeypatch.setattr(user_file, "_RAN", set())
    assert asked.text == "with OneThread" and asked == Lowering.parse({"passes": [ONE]})
    for again in (asked, copy.deepcopy(asked), pickle.loads(pickle.dumps(asked))):
        for use in (again.require, again.context):
            with pytest.raises(ConfigError, match=r"passes: a record names my_passes\.py:OneT"):
                use()
    with user_file.trusting():
        asked.require()


def test_the_code_of_a_pass_counts(passes: Path) -> None:
    asked = Lowering.parse({"passes": [ONE]})
    text = passes.read_text()
    passes.write_text(text.replace("class Whole", "# a comment\nclass Whole"))
    assert Lowering.parse({"passes": [ONE]}) == asked
    passes.write_text(text.replace("ForKind.SERIAL", "ForKind.UNROLLED"))
    assert Lowering.parse({"passes": [ONE]}) != asked
    again = Lowering.parse(asked.to_json())
    assert again == asked
    with pytest.raises(ConfigError, match="OneThread is not the pass that was recorded; restore"):
        again.require()


def test_a_class_is_named_by_its_file(passes: Path) -> None:
    module, defined = load_object(ONE, "x", "pass")
    assert sys.modules[defined.__module__] is module
    assert Lowering.parse({"passes": [defined]}) == Lowering.parse({"passes": [ONE]})
    for other in (int, type("Local", (FunctionPass,), {"name": "Local", "__module__": "gone"})):
        with pytest.raises(ConfigError, match=r"not at the top level of a file, .* with class"):
            Lowering.parse({"passes": [other]})
    with pytest.raises(ConfigError, match=r"expected a class, .*found OneThread\("):
        Lowering.parse({"passes": [defined()]})


@pytest.mark.parametrize(
    ("kind", "data", "message"),
    [
        (
            "cpu",
            {"disabled_pass": ["Simplify", "SwizzleShared"]},
            "lowering: disabled_pass: SwizzleShared is no pass that candidates for cpu go through: "
            "it would change nothing; they are InjectPrefetch, HoistInvariants, ",
        ),
        ("cuda", {"disabled_pass": ["SinkInit"]}, "disabled_pass: SinkInit is no pass that cand"),
        ("cpu", {"disabled_pass": ["UserPasses"]}, "disabled_pass: UserPasses is no pass that"),
        ("cpu", {"disabled_pass": ["ScheduleOps"]}, "disabled_pass: ScheduleOps is no pass that"),
        (
            "cpu",
            {"config": {"tir.noalias": False, "tir.ptx_ldg32": True}},
            "lowering: config: tir.ptx_ldg32 is read by InjectPTXLDG32, no pass that candidates "
            "for cpu go through: it would change nothing",
        ),
        ("cuda", {"config": {"tir.disable_cse_tir": True}}, "read by CommonSubexprElimTIR, no pa"),
        (
            "cuda",
            {"config": {"tir.instrument_bound_checkers": True}},
            "tir.instrument_bound_checkers is read by InstrumentBoundCheckers, no pass that",
        ),
    ],
)
def test_what_would_change_nothing_is_refused(kind: str, data: Any, message: str) -> None:
    task = Task.from_workload("matmul", M=16, N=16, K=16, target=kind)
    with pytest.raises(ConfigError, match=re.escape(message)) as caught:
        task.with_lowering(**data)
    assert str(caught.value).startswith("lowering: ")
    entry = {**task.to_json(), "lowering": data, "key": "of a record from before"}
    assert Task.from_json(entry).lowering == Lowering.parse(data)  # records may have it


@pytest.mark.parametrize("kind", ["cpu", "cuda"])
def test_what_candidates_go_through_may_be_left_out(passes: Path, kind: str) -> None:
    task = Task.from_workload("matmul", M=16, N=16, K=16, target=kind)
    gpu = ["InjectPTXAsyncCopy", "SplitHostDevice", "MergeSharedMemoryAllocations"]
    own = {"cpu": ["SinkInit", "PromoteAccumulators", "LowerIntrin"], "cuda": gpu}[kind]
    config = {"cpu": {}, "cuda": {"tir.merge_static_smem": False}}[kind]
    for disabled in (own, ["UnrollLoop", "OneThread"]):
        mine = task.with_lowering([ONE], disabled_pass=disabled, config=config)
        assert mine.lowering.disabled_pass == tuple(sorted(disabled))


def test_a_setting_of_a_pass_that_the_user_puts_in_counts(passes: Path) -> None:
    passes.write_text(
        "from autosched.transform.expressions.common_subexpr_elim import CommonSubexprElimTIR\n"
    )
    own, config = ["my_passes.py:CommonSubexprElimTIR"], {"tir.disable_cse_tir": True}
    assert dict(TASK.with_lowering(own, config=config).lowering.config) == config
    with pytest.raises(ConfigError, match=r"tir\.disable_cse_tir is read by CommonSubexprElimTIR"):
        TASK.with_lowering(config=config)


def test_every_setting_is_read_by_a_pass_that_there_is() -> None:
    assert {name for name in SETTINGS.values() if name} <= OWN_PASSES


def test_settings_are_those_of_contexts() -> None:
    assert set(SETTINGS) < set(CONFIG_KEYS)
