"""`lower --profile`: a candidate that hangs or dies costs a message."""

from __future__ import annotations

import os
import signal
import threading
from pathlib import Path

import pytest

from autosched.cli import profile_process
from autosched.measure.record_log import RecordLog
from autosched.measure.records import Record, read_log
from autosched.measure.result import Failure, MeasureResult
from autosched.process.worker import Handler
from autosched.task import Task
from kit.cli import Cli

PASSES = """
from dataclasses import dataclass
from typing import ClassVar

from autosched.tir.dtype import int32
from autosched.tir.expr import Call, StringImm
from autosched.tir.stmt import Evaluate, SeqStmt
from autosched.transform.framework.passes import FunctionPass


@dataclass(frozen=True)
class Abort(FunctionPass):
    name: ClassVar[str] = "Abort"

    def apply(self, func, ctx):
        abort = Evaluate(Call(int32, "call_extern", (StringImm("abort"),)))
        return func.with_body(SeqStmt((abort, func.body)))
"""


def make_hanging() -> Handler:
    return lambda _: threading.Event().wait()


def make_dying() -> Handler:
    return lambda _: os.kill(os.getpid(), signal.SIGSEGV)


@pytest.mark.parametrize(
    ("factory", "said"),
    [
        ("make_dying", "the process died with signal 11"),
        ("make_hanging", "the process was ended"),
    ],
)
def test_it_hangs_or_dies(
    cli: Cli, log: Path, monkeypatch: pytest.MonkeyPatch, factory: str, said: str
) -> None:
    monkeypatch.setattr(profile_process, "FACTORY", f"test_profile_process:{factory}")
    monkeypatch.setattr(profile_process, "SECONDS", 0.5 if factory == "make_hanging" else 300.0)
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    done = cli("lower", "--profile", f"{log}:0")
    assert (done.status, done.out) == (2, "")
    assert f"--profile {log}:0: the candidate failed when it ran: " in done.err
    assert said in done.err


def test_a_record_of_a_candidate_that_crashed(
    cli: Cli, log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("passes.py").write_text(PASSES)
    steps = read_log(log).records[0].steps
    task = Task.from_workload("matmul", M=16, N=16, K=16).with_lowering(["passes.py:Abort"])
    failed = MeasureResult((), Failure("run", "crash", "the process died with signal 6"))
    RecordLog("crash.jsonl").append([Record(task.to_json(), steps, failed)])
    done = cli("lower", "--profile", "crash.jsonl:0", "--trust")
    assert (done.status, done.out) == (2, "")
    assert "the candidate failed when it ran: the process died with signal 6" in done.err
    done = cli("lower", "--profile", "crash.jsonl", "--trust")
    assert done.status == 2
    assert "none of its 1 record is valid" in done.err
    assert "choose one with --profile FILE:N, or see `autosched failures`" in done.err
