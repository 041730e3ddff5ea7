"""What autosched does on a GPU, in ten minutes and one report: for the person who has one.

    python benchmarks/gpu.py                        # writes gpu-report.md
    python benchmarks/gpu.py --seconds 300 --trials 32 --out report.md
    python benchmarks/gpu.py --fake                 # without a GPU: that this program itself works

In this order: doctor; faulty kernels under compute-sanitizer, where it is installed; 20 golden
candidates on whole numbers, equal to NumPy to the bit; kernels that hang, trap or write where they
must not, each of which may cost one measurement and nothing else; eight operators tuned and timed
beside PyTorch (cuBLAS, cuDNN), where it is installed. It keeps to --seconds itself: what there is
no time for is named in the report.

Exit status: 0 when all was as it should be, 1 when not, 2 when there is no GPU.
"""

from __future__ import annotations

import argparse
import base64
import gzip
import importlib.util
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from autosched.cli.doctor import lines_of
from autosched.cli.doctor_cuda import diagnose
from autosched.codegen.nvrtc import load_nvrtc
from autosched.driver import build_cuda, cuda_source, lower_steps, lower_to_kernels, verify_gpu
from autosched.errors import AutoschedError, CompileError, ConfigError, ScheduleError
from autosched.measure import gpu_runner
from autosched.measure.gpu_runner import GpuRunner
from autosched.measure.records import Record, RecordLog
from autosched.measure.runner import RunOptions
from autosched.referee.check import lowered
from autosched.referee.mutants import mutants
from autosched.runtime.cuda_artifact import CudaArtifact, Kernel, Launch, cuda_artifact
from autosched.runtime.device import Device
from autosched.runtime.launch_plan import LoadedPlan
from autosched.search.space import SearchSpace
from autosched.search.tuner import TuneOptions
from autosched.session.model import ModelOptions
from autosched.session.session import Job, MeasureOptions, Session
from autosched.state.steps import Step, steps_from_json
from autosched.target import HardwareParams, Target, cuda_target
from autosched.task import Task
from autosched.workloads.workload import shape_of

ROOT = Path(__file__).resolve().parent.parent
GOLDEN = ROOT / "tests" / "golden"
_FAKE = "**The GPU was the fake one of the tests: no figure here says anything.**"
_RESERVE = 15.0  # seconds for starting, for processes that end, and for the report
_FOUND = 77  # compute-sanitizer's status when it found something

EXACT = (  # sums, products and maxima of small whole numbers are exact in float32
    *("matmul", "batch_matmul", "dense_bias_relu", "conv1d_nlc", "conv2d_nhwc", "conv3d_ndhwc"),
    *("depthwise_conv2d_nhwc", "conv2d_transpose_nhwc", "conv2d_capsule_nhwijc"),
    *("max_pool2d_nchw", "add_relu"),
)
_PADDED = {"stride": 1, "padding": 1}
_CONV = {"KH": 3, "KW": 3, **_PADDED}
OPERATORS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("matmul", {"M": 1024, "N": 1024, "K": 1024}),
    ("softmax", {"M": 4096, "N": 1024}),
    ("conv2d_nhwc", {"N": 1, "H": 56, "W": 56, "CI": 64, "CO": 64, **_CONV}),
    ("depthwise_conv2d_nhwc", {"N": 1, "H": 112, "W": 112, "C": 32, "K": 3, **_PADDED}),
    ("matmul", {"M": 4096, "N": 4096, "K": 4096}),
    ("layer_norm", {"M": 4096, "N": 1024}),
    ("dense_bias_relu", {"M": 256, "N": 1024, "K": 1024}),
    ("batch_matmul", {"B": 16, "M": 512, "N": 512, "K": 64}),
)
_KERNEL = """\
extern "C" __global__ void __launch_bounds__(64) NAME(const float* a, const float* b, float* c) {
  BODY
}
"""
# What is wrong, how often it is launched, the kind of failure that it must be, and the fake's part.
FAULTS: tuple[tuple[str, str, int, str, dict[str, Any]], ...] = (
    (
        "endless loop",
        "while (*(volatile const float*)a == *(volatile const float*)a) {}",
        *(1, "timeout", {"hang": True}),
    ),
    (
        "illegal address",
        "*(volatile float*)((unsigned long long)c + (1ull << 40)) = 1.f;",
        *(1, "crash", {"run": 700}),
    ),
    (
        "misaligned address",
        "*(volatile float*)((char*)c + 1) = 1.f;",
        *(1, "crash", {"run": 716}),
    ),
    ("trap", "__trap();", 1, "crash", {"run": 719}),
    ("wrong numbers", "c[threadIdx.x] = 1.f;", 1, "wrong_answer", {"wrong": "value"}),
    (
        "a write behind the output",
        "c[64 * 64 + threadIdx.x] = 1.f;",
        *(1, "wrong_answer", {"wrong": "guard"}),
    ),
    (
        "full launch queue",
        "while (*(volatile const float*)a == *(volatile const float*)a) {}",
        *(3000, "timeout", {"hang": True}),
    ),
)


class Budget:
    """Seconds of wall time that all parts share."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._start = time.monotonic()

    @property
    def spent(self) -> float:
        return time.monotonic() - self._start

    @property
    def left(self) -> float:
        return self.seconds - self.spent


@dataclass
class Report:
    """The file, which is written anew after each part, and what was not as it should be."""

    path: Path
    fake: bool
    text: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    def add(self, *lines: str) -> None:
        """Lines for the file and the terminal."""
        print(*lines, sep="\n", flush=True)
        self.text += lines
        partial = self.path.with_name(self.path.name + ".part")
        partial.write_text("\n".join([*self._head(), *self.text]) + "\n")
        partial.replace(self.path)

    def fail(self, line: str) -> None:
        """Something is wrong."""
        self.wrong.append(line)
        self.add(f"WRONG: {line}")

    def _head(self) -> list[str]:
        found = "all that ran was as it should be" if not self.wrong else "; ".join(self.wrong)
        return ["# autosched on a GPU", "", *([_FAKE, ""] if self.fake else []), found, ""]


@dataclass(frozen=True)
class Bench:
    """What the parts need: the GPU's architecture and facts, the time, and the report."""

    facts: dict[str, Any]
    environment: dict[str, Any]
    budget: Budget
    report: Report
    trials: int
    operators: Sequence[tuple[str, dict[str, Any]]]
    fake: bool

    @property
    def arch(self) -> str:
        major, minor = self.facts["capability"]
        return f"sm_{major}{minor}"

    @property
    def target(self) -> Target:
        return cuda_target(self.arch)

    def compile(self, source: str, *options: str) -> bytes:
        """A cubin. Raises CompileError."""
        driver = int(self.facts["driver"].partition(".")[0])
        return load_nvrtc(self.arch, driver).compile(source, self.arch, options).cubin


def doctor(bench: Bench) -> None:
    """What the machine has."""
    found = diagnose(bench.arch)
    bench.report.add("```", *lines_of(found.findings, 100), found.verdict, "```")
    if found.failed and not bench.fake:
        bench.report.fail("doctor found something to repair")


def golden() -> Iterator[tuple[Task, tuple[Step, ...]]]:
    """Golden CUDA candidates of operators that are exact, in turns over their settings."""
    settings: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for name in ("ansor_v06.jsonl.gz", "ansor_v06_batch.jsonl.gz"):
        with gzip.open(GOLDEN / name, "rt") as file:
            for line in map(json.loads, file):
                if line.get("target") == "cuda" and line.get("workload") in EXACT:
                    if "steps" in line:
                        settings[json.dumps([line["workload"], line["args"]])].append(line)
    for place in range(max(map(len, settings.values()))):
        for lines in settings.values():
            if place < len(lines):
                line = lines[place]
                target = Target("cuda", HardwareParams.from_list(line["hardware"]))
                task = Task.from_workload(line["workload"], target=target, **line["args"])
                steps = tuple(steps_from_json(line["steps"]))
                try:
                    verify_gpu(lowered(task, steps)[0], target)
                except ScheduleError:
                    continue
                yield task, steps


def equal_to_the_bit(bench: Bench, number: int = 20, share: float = 0.25) -> None:
    """Golden candidates on whole numbers, without fused multiply-add, against NumPy."""
    end = bench.budget.spent + share * bench.budget.left
    runner, equal, different = GpuRunner(RunOptions()), 0, list[str]()
    try:
        for task, steps in golden():
            if equal + len(different) == number or bench.budget.spent > end:
                break
            inputs = task.tensors[: -task.num_outputs]
            whole = task.with_inputs({t.name: {"integers": [-4, 4]} for t in inputs})
            whole = replace(whole, target=bench.target)
            artifact = cuda_source(whole.dag, steps, whole.target, whole.function_name)
            cubin = bench.compile(artifact.source, "--fmad=false")
            artifact = replace(artifact, cubins={bench.arch: cubin})
            runner.reference(whole)
            try:
                outputs = runner.outputs(whole, artifact.to_bytes())
            except AutoschedError as error:
                different.append(f"{task.name}: {error}")
                continue
            same = all(map(np.array_equal, outputs, runner.expected))
            equal += same
            if not same:
                different.append(task.name)
    finally:
        runner.close()
    bench.report.add(f"{equal} of {equal + len(different)} candidates equal NumPy to the bit.")
    for name in different:
        bench.report.fail(f"not equal to the bit: {name}")
    if equal + len(different) < number:
        bench.report.add(f"No time for the other {number - equal - len(different)}.")


def faults(bench: Bench) -> None:
    """Each fault between two good candidates: it must cost one measurement and nothing else."""
    task = Task.from_workload("matmul", M=64, N=64, K=64, target=bench.target)
    (steps, *_) = SearchSpace(task).sample(np.random.default_rng(0), 1)
    good = build_cuda(task.dag, steps, task.target, task.function_name)
    batch = [good.to_bytes()]
    for number, (_, body, launches, _, fake) in enumerate(FAULTS):
        name = f"fault_{number}"
        source = _KERNEL.replace("NAME", name).replace("BODY", body)
        cubin = json.dumps(fake).encode() if bench.fake else bench.compile(source)
        artifact = replace(
            good,
            kernels=(Kernel(name, (1, 1, 1), (64, 1, 1), 0, 0),),
            plan=(Launch(name, tuple(spec.name for spec in good.params)),) * launches,
            source=source,
            cubins={bench.arch: cubin},
        )
        batch += [artifact.to_bytes(), good.to_bytes()]
    options = RunOptions(timeout=2.0)
    runner = GpuRunner(options)
    try:
        results = runner.run(task, batch)
    finally:
        runner.close()
    bench.report.add("| fault | must be | was |", "|---|---|---|")
    for (what, _, _, kind, _), (_, failure) in zip(FAULTS, results[1::2], strict=True):
        found = "measured" if failure is None else failure.kind
        bench.report.add(f"| {what} | {kind} | {found} |")
        if found != kind:
            bench.report.fail(f"{what}: expected {kind}, found {failure or found}")
    kept = sum(failure is None and bool(seconds) for seconds, failure in results[::2])
    bench.report.add("", f"{kept} of {len(FAULTS) + 1} good candidates between them were measured.")
    if kept < len(FAULTS) + 1:
        bench.report.fail("a fault cost more than one measurement")


def sanitizer(bench: Bench, share: float = 0.2) -> None:
    """Mutants of small kernels under compute-sanitizer; the kernels themselves must be clean."""
    program = find_sanitizer()
    if program is None:
        bench.report.add("compute-sanitizer is not installed (it comes with the CUDA toolkit).")
        if not bench.fake:
            return
    end = bench.budget.spent + share * bench.budget.left
    found: Counter[tuple[str, str]] = Counter()
    kernels: tuple[tuple[str, dict[str, Any]], ...] = (
        ("matmul", {"M": 64, "N": 64, "K": 64}),
        ("softmax", {"M": 16, "N": 256}),
    )
    for name, args in kernels:
        task = Task.from_workload(name, target=bench.target, **args)
        (steps, *_) = SearchSpace(task).sample(np.random.default_rng(0), 1)
        func = lower_steps(task.dag, steps, task.target, task.function_name)
        every = [("the kernel itself", func)]
        if program is not None:
            every += {m.kind: (m.kind, m.func) for m in mutants(func)}.values()
        for kind, changed in every:
            try:
                artifact = cuda_artifact(lower_to_kernels(changed), changed.name)
                artifact = replace(artifact, cubins={bench.arch: bench.compile(artifact.source)})
            except (ScheduleError, CompileError):
                continue
            for tool in ("memcheck", "racecheck"):
                if bench.budget.spent > end:
                    found["stopped: no time left", tool] += 1
                    break
                said = launched(program, tool, task, artifact, bench.fake)
                found[kind, f"{tool}: {said}"] += 1
                if kind == "the kernel itself" and said not in ("clean", "ran"):
                    bench.report.fail(f"{task.name}: {tool} says: {said}")
    bench.report.add("| kernel | tool: what it found | how many |", "|---|---|---|")
    for (kind, said), number in sorted(found.items()):
        bench.report.add(f"| {kind} | {said} | {number} |")


def find_sanitizer() -> str | None:
    """The program, on PATH or in the toolkit that CUDA_HOME names."""
    homes = (os.environ.get(name) for name in ("CUDA_HOME", "CUDA_PATH"))
    folders = [os.environ.get("PATH", ""), *(f"{home}/bin" for home in homes if home)]
    return shutil.which("compute-sanitizer", path=os.pathsep.join(folders))


def launched(program: str | None, tool: str, task: Task, artifact: CudaArtifact, fake: bool) -> str:
    """What the tool says of one launch: clean, found, or how the process ended; ran without it."""
    watch = [program, "--tool", tool, "--error-exitcode", str(_FOUND)] if program else []
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        data = base64.b64encode(artifact.to_bytes()).decode()
        json.dump({"task": task.to_json(), "artifact": data}, file)
        file.flush()
        command = [*watch, sys.executable, __file__, "--launch", file.name, *["--fake"] * fake]
        try:
            done = subprocess.run(command, capture_output=True, timeout=60, check=False)
        except subprocess.TimeoutExpired:
            return "no end within 60 s"
    status = {0: "clean" if program else "ran", _FOUND: "found"}
    return status.get(done.returncode, f"ended with status {done.returncode}")


def launch(path: Path, fake: bool) -> None:
    """In a process of its own: one call of an artifact, each array in memory of its own."""
    data = json.loads(path.read_text())
    task, artifact = Task.from_json(data["task"]), base64.b64decode(data["artifact"])
    device = open_device(fake)
    plan = CudaArtifact.from_bytes(artifact)
    inputs = [np.ascontiguousarray(array) for array in task.inputs(seed=0)]
    addresses = {}
    for place, (spec, tensor) in enumerate(zip(plan.params, task.tensors, strict=True)):
        size = math.prod(shape_of(tensor)) * tensor.dtype.numpy.itemsize
        addresses[spec.name] = device.alloc(size)
        if place < len(inputs):
            device.upload(addresses[spec.name], inputs[place])
    LoadedPlan(device, device.facts(), plan, addresses).call()
    device.synchronize()
    sys.stdout.flush()
    os._exit(0)  # PyCUDA aborts a process that ends with a context


def open_device(fake: bool) -> Device:
    """The GPU, or the one of the tests."""
    if not fake:
        from autosched.runtime.cuda import CudaDevice

        return CudaDevice()
    from autosched.runtime.fake_device import FakeDevice
    from kit.fake_gpu import behave_mixed

    return FakeDevice(behave_mixed)


def tuning(bench: Bench) -> None:
    """The operators, one after the other, each with an equal share of the time that is left."""
    theirs = pytorch(bench)
    table = ["| operator | trials | valid | best | GFLOP/s | PyTorch | we are |", "|" + "---|" * 7]
    records: list[Record] = []
    ratios: list[float] = []
    for place, (name, args) in enumerate(bench.operators):
        share = (bench.budget.left - _RESERVE - 5) / (len(bench.operators) - place)
        if share < 5:
            table.append(f"| {name} {args} | no time left | | | | | |")
            continue
        task = Task.from_workload(name, target=bench.target, **args)
        options = TuneOptions(trials=bench.trials, time_budget_s=share)
        model = ModelOptions("random" if bench.fake else "xgboost")
        with Session(
            [Job(task, options)], model=model, measure=MeasureOptions(share=True)
        ) as session:
            result = session.run().tasks[0]
        valid, best = sum(r.result.valid for r in result.records), result.best
        failed = ", ".join(f"{n} x {what}" for what, n in result.progress.failures.most_common())
        row = f"| {task.name} | {len(result.records)} | {valid}{failed and f' ({failed})'} "
        if not result.records:
            table.append(f"| {task.name} | no time left | | | | | |")
            continue
        if best is None:
            table.append(f"{row}| none | | | |")
            bench.report.fail(f"{task.name}: no candidate was valid")
            continue
        seconds, peer = best.result.cost, theirs.get((name, json.dumps(args)), "")
        speed = ""
        if isinstance(peer, float):
            ratios.append(peer / seconds)
            peer, speed = f"{peer * 1e6:.1f} us", f"{ratios[-1]:.2f} times as fast"
        rate = task.dag.flop_count / seconds / 1e9
        table.append(f"{row}| {seconds * 1e6:.1f} us | {rate:.0f} | {peer} | {speed} |")
        records.append(best)
        if result.interrupted:
            break
    bench.report.add(*table)
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        bench.report.add("", f"Geometric mean: {mean:.2f} times the speed of PyTorch.")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "best.jsonl"
        RecordLog(path, beside=bench.environment).append(records)
        text = path.read_text().rstrip()
    bench.report.add("", "A record file of the best (autosched replay):", "", "```", text, "```")


def pytorch(bench: Bench) -> dict[tuple[str, str], float | str]:
    """Seconds of PyTorch for each operator, or why there are none; empty without PyTorch."""
    if importlib.util.find_spec("torch") is None or bench.fake:
        bench.report.add("PyTorch is not installed, or the GPU is none: nothing to compare with.")
        return {}
    script = str(Path(__file__).with_name("gpu_torch.py"))
    command = [sys.executable, script, json.dumps(list(bench.operators))]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
        found = json.loads(done.stdout.splitlines()[-1])
    except (subprocess.SubprocessError, ValueError, IndexError) as error:
        bench.report.add(f"PyTorch could not be timed: {error}")
        return {}
    names = [(name, json.dumps(args)) for name, args in bench.operators]
    return dict(zip(names, found, strict=True))


PARTS: dict[str, Callable[[Bench], None]] = {
    "doctor": doctor,
    "compute-sanitizer": sanitizer,
    "equal to the bit": equal_to_the_bit,
    "faults": faults,
    "tuning": tuning,
}


def run(bench: Bench, only: Sequence[str]) -> None:
    """The parts, until the time is used up."""
    for title, part in PARTS.items():
        if only and title not in only:
            continue
        bench.report.add("", f"## {title}", "")
        if bench.budget.left < _RESERVE:
            bench.report.add("No time left.")
            continue
        begun = bench.budget.spent
        try:
            part(bench)
        except AutoschedError as error:
            bench.report.fail(f"{title}: {error}")
        bench.report.add("", f"({bench.budget.spent - begun:.0f} s)")


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("gpu-report.md"), help="the report")
    parser.add_argument("--seconds", type=float, default=600.0, help="for all of it")
    parser.add_argument("--trials", type=int, default=64, help="of each operator")
    parser.add_argument("--only", action="append", choices=list(PARTS), help="these parts")
    parser.add_argument("--fake", action="store_true", help="the fake GPU of the tests")
    parser.add_argument("--launch", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.fake:
        sys.path.insert(0, str(ROOT / "tests"))
        gpu_runner.FACTORY = "kit.fake_gpu:make_mixed_handler"
    if args.launch:
        launch(args.launch, args.fake)
    budget = Budget(args.seconds)
    runner = GpuRunner()
    try:
        facts = runner.open()
        environment = runner.environment()
    except ConfigError as error:
        print(f"benchmarks/gpu.py needs a GPU: {error}", file=sys.stderr)
        return 2
    finally:
        runner.close()
    report = Report(args.out, args.fake)
    report.add("```", json.dumps(environment, indent=1), "```")
    operators = [(name, _small(a)) for name, a in OPERATORS] if args.fake else OPERATORS
    bench = Bench(facts, environment, budget, report, args.trials, operators, args.fake)
    # A part that does not end in time ends as by Ctrl-C, which loses nothing that was measured.
    signal.signal(signal.SIGALRM, signal.default_int_handler)
    signal.setitimer(signal.ITIMER_REAL, max(1.0, budget.left - _RESERVE))
    try:
        run(bench, args.only or ())
    except KeyboardInterrupt:
        report.add("", "Stopped: the time was up, or Ctrl-C.")
    signal.setitimer(signal.ITIMER_REAL, 0)
    report.add("", f"{budget.spent:.0f} of {budget.seconds:.0f} s. {report.path}")
    return 1 if report.wrong else 0


def _small(args: dict[str, Any]) -> dict[str, Any]:
    return {name: min(value, 32) for name, value in args.items()}


if __name__ == "__main__":
    sys.exit(main())
