"""A CPU back end that misbehaves on request, in real processes: candidates with faults.

The tuning process assigns faults to new candidates in a given order and writes the assignment to a
file, which the builders read. A builder replaces the candidate's native code by code that fails,
hangs or spoils its process. The runner's process does what no kernel can do, such as hang in the
check.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import sys
import tempfile
import time
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from autosched.cli import app
from autosched.codegen.llvm_compile import compile_object
from autosched.errors import MeasureError
from autosched.measure import build, cpu_runner, process_runner, run
from autosched.measure.build import Builder
from autosched.measure.cpu_runner import CpuRunner
from autosched.measure.records import Record, read_log
from autosched.measure.result import Failure
from autosched.measure.standing import is_race
from autosched.process.worker import Handler
from autosched.runtime.artifact import CpuArtifact
from autosched.state.steps import Step, steps_to_json
from autosched.target import cpu_target
from autosched.task import Task
from kit.forks import fresh

# the file with each candidate's fault; all processes inherit its name
PLAN = "AUTOSCHED_TEST_FAULTS"
GOOD = "none"
ENDING = 20.0  # seconds that a killed process has to end before it counts as left over
LONG = 600.0  # the limit for calls that must succeed, however busy the machine is

_IR = """
@calls = internal global i64 0
@text = private constant [32 x i8] c"ABCDEFGHIJKLMNOPQRSTUVWXYZ\\00\\00\\00\\00\\00\\00"
@zeros = private constant [32 x i8] zeroinitializer
declare void @llvm.trap()
declare i32 @raise(i32)
declare i32 @pause()
declare i32 @fork()
declare i32 @setsid()
declare i32 @close(i32)
declare void @exit(i32)
declare void @abort()
declare ptr @malloc(i64)
declare ptr @memset(ptr, i32, i64)
declare i64 @write(i32, ptr, i64)
define i32 @SYMBOL(ptr %args) {
entry:
  %before = load i64, ptr @calls
  %now = add i64 %before, 1
  store i64 %now, ptr @calls
  %now_is_it = icmp eq i64 %now, AT
  br i1 %now_is_it, label %fault, label %done
fault:
BODY
done:
  ret i32 0
}
"""

_EACH_FILE = """
  br label %loop
loop:
  %fd = phi i32 [ 3, %fault ], [ %next, %loop ]
CALL
  %next = add i32 %fd, 1
  %more = icmp slt i32 %next, 64
  br i1 %more, label %loop, label %done
"""

_STOP = "  unreachable"
_ON = "  br label %done"

_BODIES = {
    "segfault": "  store volatile i32 1, ptr inttoptr (i64 8 to ptr)\n" + _ON,
    "illegal instruction": "  call void @llvm.trap()\n" + _STOP,
    "abort": "  call void @abort()\n" + _STOP,
    "exit": "  call void @exit(i32 3)\n" + _STOP,
    # A large allocation for any memory limit, and the system's signal where there is no limit.
    "memory": """  %p = call ptr @malloc(i64 268435456)
  %q = call ptr @memset(ptr %p, i32 1, i64 268435456)
  %r = call i32 @raise(i32 9)
"""
    + _ON,
    "out of bounds": """  %slot = getelementptr i64, ptr %args, i64 2
  %out = load ptr, ptr %slot
  br label %loop
loop:
  %i = phi i64 [ 0, %fault ], [ %next, %loop ]
  %p = getelementptr i64, ptr %out, i64 %i
  store volatile i64 -1, ptr %p
  %next = add i64 %i, 1
  br label %loop""",
    "spins": "  br label %loop\nloop:\n  %c = load volatile i64, ptr @calls\n  br label %loop",
    "sleeps": "  br label %loop\nloop:\n  %r = call i32 @pause()\n  br label %loop",
    "stops": f"  %r = call i32 @raise(i32 {int(signal.SIGSTOP)})\n{_ON}",
    "text to its socket": _EACH_FILE.replace(
        "CALL", "  %r = call i64 @write(i32 %fd, ptr @text, i64 32)"
    ),
    "zeros to its socket": _EACH_FILE.replace(
        "CALL", "  %r = call i64 @write(i32 %fd, ptr @zeros, i64 32)"
    ),
    "closes its files": _EACH_FILE.replace("CALL", "  %r = call i32 @close(i32 %fd)"),
    "forks": """  %pid = call i32 @fork()
  %child = icmp eq i32 %pid, 0
  br i1 %child, label %loop, label %done
loop:
  %r = call i32 @pause()
  br label %loop""",
    "both go on": "  %pid = call i32 @fork()\n" + _ON,
    # The child keeps the connection and moves to a session of its own.
    "leaves and dies": """  %pid = call i32 @fork()
  %child = icmp eq i32 %pid, 0
  br i1 %child, label %leave, label %die
die:
  store volatile i32 1, ptr inttoptr (i64 8 to ptr)
  br label %done
leave:
  %s = call i32 @setsid()
  br label %loop
loop:
  %r = call i32 @pause()
  br label %loop""",
    "wrong numbers": _ON,
}


@dataclass(frozen=True, slots=True)
class Fault:
    """A candidate's fault, and the failure that its record must have.

    `kernel` is the native code, and `at` the number of the call that misbehaves. For a hang,
    `hangs` names the request that never ends.
    """

    stage: str
    kind: str
    message: str
    kernel: str = ""
    at: int = 1
    hangs: str = ""


def _dies(number: int) -> str:
    return f"the process died with signal {number}$"


_LATE = "took longer than .*; the process was ended"

FAULTS: dict[str, Fault] = {
    "hang": Fault("run", "timeout", _LATE, "spins", hangs="first"),
    "hang later": Fault("run", "timeout", _LATE, "sleeps", at=2, hangs="time"),
    "stop": Fault("run", "timeout", _LATE, "stops", hangs="first"),
    "segfault": Fault("run", "crash", _dies(11), "segfault"),
    "segfault later": Fault("run", "crash", _dies(11), "segfault", at=2),
    # The trap is ud2 on x86-64 and brk (signal 5) on aarch64.
    "illegal instruction": Fault("run", "crash", "died with signal [45]$", "illegal instruction"),
    "abort": Fault("run", "crash", _dies(6), "abort"),
    "exit": Fault("run", "crash", "died with exit status 3$", "exit"),
    "memory": Fault("run", "memory", _dies(9), "memory"),
    "allocation": Fault("run", "memory", "Unable to allocate"),
    "out of bounds": Fault("run", "crash", "died with signal (11|7)$", "out of bounds"),
    "text to its socket": Fault("run", "crash", "unreadable answer", "text to its socket"),
    "zeros to its socket": Fault("run", "crash", "unreadable answer", "zeros to its socket"),
    "closes its files": Fault("run", "crash", "died with exit status 0", "closes its files"),
    "fork": Fault("run", "crash", "started a process", "forks"),
    "fork later": Fault("run", "crash", "started a process", "forks", at=2),
    "fork, both go on": Fault("run", "crash", "started a process", "both go on"),
    "fork, then segfault": Fault("run", "crash", _dies(11), "leaves and dies"),
    "wrong numbers": Fault("check", "wrong_answer", "differ", "wrong numbers"),
    "exception": Fault("run", "error", "KeyError: 'a bug'"),
    "hang in the check": Fault("check", "timeout", "no answer within", hangs="check"),
    "death in the check": Fault("check", "crash", _dies(11)),
    "exception in the check": Fault("check", "error", "KeyError: 'a bug'"),
    "cut artifact": Fault("load", "error", "expected .* bytes, found"),
    "hang in the builder": Fault("compile", "timeout", "not built within", hangs="build"),
    "death in the builder": Fault("compile", "crash", _dies(11)),
    "exception in the builder": Fault("compile", "error", "KeyError: 'a bug'"),
    "memory in the builder": Fault("compile", "memory", "out of memory"),
    "text from the builder": Fault("compile", "crash", "unreadable answer"),
}
HARMLESS = ("prints", "complains")  # these write garbage to standard output and error


def key_of(steps: Sequence[Any]) -> str:
    """A short name of a candidate, from the JSON of its steps."""
    return f"{zlib.crc32(json.dumps(list(steps)).encode()):08x}"


def kernel(artifact: CpuArtifact, fault: Fault) -> bytes:
    """Native code of a fault, to replace an artifact's code."""
    text = _IR.replace("SYMBOL", artifact.symbol).replace(", AT", f", {fault.at}")
    text = text.replace("BODY", _BODIES[fault.kernel])
    return compile_object(text, cpu_target(), "light")


def make_builder() -> Handler:
    """The builder's handler, which applies the faults that the plan assigns to candidates."""
    right = build.make_handler()
    plan = Path(os.environ[PLAN])

    def handle(request: tuple[dict[str, Any], list[Any]]) -> Any:
        name = json.loads(plan.read_text()).get(key_of(request[1]), GOOD)
        match name:
            case "hang in the builder":
                time.sleep(10 * LONG)
            case "death in the builder":
                os.kill(os.getpid(), signal.SIGSEGV)
            case "exception in the builder":
                raise KeyError("a bug")
            case "memory in the builder":
                bytearray(1 << 40)
            case "text from the builder":
                _babble()
        data, seconds = right(request)
        if name == "cut artifact":
            return data[:-100], seconds
        artifact = CpuArtifact.from_bytes(data)
        if name in FAULTS and FAULTS[name].kernel:
            artifact = replace(artifact, object_code=kernel(artifact, FAULTS[name]))
        return replace(artifact, messages=(*artifact.messages, name)).to_bytes(), seconds

    return handle


def make_runner() -> Handler:
    """The runner's handler, which applies the faults that kernels cannot cause."""
    right = run.make_handler()
    names: dict[int, str] = {}

    def handle(request: tuple[Any, ...]) -> Any:
        if request[0] == "load":
            with contextlib.suppress(MeasureError):
                names[request[1]] = fault_of(request[2])
        asked = request[0] in ("first", "check")
        match request[0], names[request[1]] if asked else GOOD:
            case "first", "exception":
                raise KeyError("a bug")
            case "first", "allocation":
                np.empty(1 << 58, np.int8)
            case "first", "prints":
                os.write(1, bytes(range(256)) * 256)
            case "first", "complains":
                os.write(2, bytes(range(256)) * 1024)
            case "check", "hang in the check":
                time.sleep(10 * LONG)
            case "check", "death in the check":
                os.kill(os.getpid(), signal.SIGSEGV)
            case "check", "exception in the check":
                raise KeyError("a bug")
        return right(request)

    return handle


def fault_of(artifact: bytes) -> str:
    """The fault that the builder noted in an artifact; GOOD for artifacts of this process."""
    return (GOOD, *CpuArtifact.from_bytes(artifact).messages)[-1]


def _babble() -> None:
    for name in Path("/proc/self/fd").iterdir():
        if name.is_socket():
            os.write(int(name.name), b"warning: all is well\n")


@dataclass
class Faults:
    """Assigns the faults of `order` to the candidates of a run; later candidates have none.

    A request that hangs gets a limit of `short` seconds, all others LONG, so that nothing depends
    on how busy the machine is.
    """

    order: Sequence[str]
    path: Path
    short: float
    plan: dict[str, str] = field(default_factory=dict)
    _loaded: dict[int, str] = field(default_factory=dict)

    @contextlib.contextmanager
    def injected(self) -> Iterator[None]:
        """Inside this context, runs of this process meet the faults."""
        begun, built = Builder.begin, Builder.build
        collected, called = Builder._collect, CpuRunner._call

        def begin(own: Builder, task: Task, batch: Sequence[tuple[Step, ...]] = ()) -> None:
            self._deal([key_of(steps_to_json(steps)) for steps in batch])
            begun(own, task, batch)

        def build_(own: Builder, task: Task, batch: Sequence[tuple[Step, ...]], *more: Any) -> Any:
            self._deal([key_of(steps_to_json(steps)) for steps in batch])
            return built(own, task, batch, *more)

        def collect(own: Builder, seconds: float) -> None:
            jobs = [key_of(steps_to_json(s.jobs[0].steps)) for s in own._slots if s.jobs]
            own.timeout = own._limit = self._limit("build", [self.plan[job] for job in jobs])
            collected(own, min(seconds, own._limit))

        def call(own: CpuRunner, request: tuple[Any, ...], stage: str, timeout: float = 0.0) -> Any:
            name = GOOD
            match request:
                case ("load", index, artifact):
                    with contextlib.suppress(MeasureError):
                        self._loaded[index] = fault_of(artifact)
                case ("first" | "time" | "check", index, *_):
                    name = self._loaded[index]
            return called(own, request, stage, self._limit(request[0], [name]))

        with (
            mock.patch.object(build, "FACTORY", "kit.faults:make_builder"),
            mock.patch.object(cpu_runner, "FACTORY", "kit.faults:make_runner"),
            mock.patch.object(cpu_runner, "START_SECONDS", LONG),
            mock.patch.object(process_runner, "START_SECONDS", LONG),
            mock.patch.object(process_runner, "_WAKE_SECONDS", LONG),  # none is too slow to visit
            mock.patch.object(Builder, "begin", begin),
            mock.patch.object(Builder, "build", build_),
            mock.patch.object(Builder, "_collect", collect),
            mock.patch.object(CpuRunner, "_call", call),
            mock.patch.dict(os.environ, {PLAN: str(self.path)}),
        ):
            yield

    def _limit(self, request: str, names: Sequence[str]) -> float:
        hang = all(name in FAULTS and FAULTS[name].hangs == request for name in names)
        return self.short if hang else LONG

    def _deal(self, keys: list[str]) -> None:
        for key in keys:
            if key not in self.plan:
                at = len(self.plan)
                self.plan[key] = self.order[at] if at < len(self.order) else GOOD
        written = self.path.with_suffix(".new")  # builders may be reading the current file
        written.write_text(json.dumps(self.plan))
        written.replace(self.path)

    def wrong(self, record: Record) -> str:
        """The difference between a record's failure and the expected one; empty if none."""
        name = self.plan.get(key_of(steps_to_json(record.steps)), "never built")
        found = record.result.failure
        if name in (GOOD, *HARMLESS):
            return "" if record.result.valid and record.result.checked else f"{name}: {found}"
        fault = FAULTS.get(name)
        if fault is None or found is None:
            return f"{name}: {found}"
        same = (found.stage, found.kind) == (fault.stage, fault.kind)
        if same and re.search(fault.message, found.message) and record.result.total_seconds > 0:
            return ""
        return f"{name}: {found}, expected {fault}"


@dataclass(frozen=True, slots=True)
class Held:
    """The resources that this process holds and that a run must give back."""

    files: frozenset[str]
    shared: frozenset[str]
    temporary: frozenset[str]
    children: frozenset[int]

    @classmethod
    def now(cls) -> Held:
        """The open files, shared memory, temporary files and child processes (also zombies)."""
        return cls(
            frozenset(str(p) + _link(p) for p in Path("/proc/self/fd").iterdir() if _link(p)),
            frozenset(p.name for p in Path("/dev/shm").iterdir()),
            frozenset(p.name for p in Path(tempfile.gettempdir()).iterdir()),
            frozenset(_children()),
        )


def _link(path: Path) -> str:
    try:
        return f" {path.readlink()}"
    except OSError:  # the descriptor of the listing itself
        return ""


def _children() -> Iterator[int]:
    for tasks in Path("/proc/self/task").glob("*/children"):
        yield from map(int, tasks.read_text().split())


def _mapped(name: str) -> bool:
    """Whether some process maps this shared memory; such memory belongs to other programs."""
    for maps in Path("/proc").glob("[0-9]*/maps"):
        with contextlib.suppress(OSError):
            if f"/dev/shm/{name}" in maps.read_text():
                return True
    return False


def strays(plan: Path) -> list[int]:
    """The processes that a run with this plan left, whoever their parents are now.

    A process that was killed a moment ago gets time to end.
    """
    mark = f"{PLAN}={plan}".encode()
    found = []
    for environment in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if mark in environment.read_bytes().split(b"\0"):
                pid = int(environment.parent.name)
                process = os.pidfd_open(pid)
                if not wait([process], ENDING):
                    found.append(pid)
                os.close(process)
    return found


CONFIG = """\
workload: {op: matmul, args: {M: 32, N: 32, K: 32}}
cost_model: {kind: random}
search: {batch: 32, sample_init_min_population: 16, evolutionary_search_population: 64,
  evolutionary_search_num_iters: 1}
measure: {check: all, min_repeat_ms: 8}
"""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a run with faults: its records, its failures, and everything that is wrong."""

    records: list[Record]
    failures: list[tuple[str, Failure | None, float]]
    problems: list[str]


def tuned(folder: Path, order: Sequence[str], short: float) -> Outcome:
    """Run `autosched tune` in this process; its n-th candidate has the n-th fault of `order`."""
    faults = Faults(order, folder / "plan.json", short)
    (folder / "mm.yaml").write_text(CONFIG)
    arguments = ["autosched", "tune", "mm.yaml", "--trials", str(len(order)), "--json"]
    temporary = folder / "temporary"
    temporary.mkdir()
    status: object = 0
    with (
        contextlib.chdir(folder),
        mock.patch.object(sys, "argv", arguments),
        mock.patch.object(tempfile, "tempdir", str(temporary)),
        mock.patch.dict(os.environ, {"TMPDIR": str(temporary)}),
        faults.injected(),
        fresh(),  # children of this process, which have the plan in their environment
    ):
        before = Held.now()
        try:
            app.run()
        except SystemExit as end:
            status = end.code or 0
        after = Held.now()
    contents = read_log(folder / "mm.jsonl")
    records = [record for record in contents.records if not is_race(record)]
    problems = [f"exit status {status}"] if status else []
    problems += list(contents.problems)
    problems += [problem for record in records if (problem := faults.wrong(record))]
    keys = [key_of(steps_to_json(record.steps)) for record in records]
    if len(records) != len(order):
        problems.append(f"{len(records)} records of {len(order)} candidates")
    if len(set(keys)) < len(keys):
        problems.append(f"{len(keys) - len(set(keys))} candidates measured twice")
    problems += [f"left: process {pid}" for pid in strays(faults.path)]
    for kind in ("files", "shared", "temporary", "children"):
        left = getattr(after, kind) - getattr(before, kind)
        if kind == "shared":
            left = {name for name in left if not _mapped(name)}
        problems += [f"left: {kind} {each}" for each in sorted(left)]
    unknown = {p.name for p in folder.iterdir()} - {"mm.yaml", "mm.jsonl", "plan.json", "temporary"}
    problems += [f"left: file {name}" for name in sorted(unknown)]
    named = [
        (faults.plan.get(key, "never built"), r.result.failure, r.result.total_seconds)
        for key, r in zip(keys, records, strict=True)
    ]
    return Outcome(records, named, problems)
