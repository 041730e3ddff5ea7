"""Check and measure autosched on a GPU: ten minutes and one report, for somebody who has one.

    python benchmarks/gpu.py                        # writes gpu-report.md
    python benchmarks/gpu.py --seconds 300 --trials 32 --out report.md
    python benchmarks/gpu.py --fake                 # without a GPU: that this program itself works

The parts run in this order: doctor; faulty kernels under compute-sanitizer, if it is installed; 20
golden candidates on whole numbers, which must equal NumPy to the bit; kernels that hang, trap or
write out of bounds, each of which may cost one measurement and nothing else; ten operators, tuned
and timed beside PyTorch (cuBLAS, cuDNN), if it is installed. The program keeps to --seconds itself;
the report names the parts for which there was no time.

Exit status: 0 when all was as it should be, 1 when not, 2 when there is no GPU.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import math
import signal
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from gpu_bench import Bench, Budget, Report
from gpu_faults import faults
from gpu_sanitizer import launch, sanitizer

from autosched.cli.doctor import lines_of
from autosched.cli.doctor_cuda import diagnose
from autosched.driver import cuda_source, verify_gpu
from autosched.errors import AutoschedError, ConfigError, ScheduleError
from autosched.measure import gpu_runner
from autosched.measure.gpu_runner import GpuRunner
from autosched.measure.record_log import RecordLog
from autosched.measure.records import Record
from autosched.measure.run_options import RunOptions
from autosched.referee.check import lowered
from autosched.search.tuner import TuneOptions
from autosched.session.model import ModelOptions
from autosched.session.session import Job, MeasureOptions, Session
from autosched.state.steps import Step
from autosched.task import Task

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from kit.golden_lines import candidate_of, golden_candidates

_RESERVE = 15.0  # seconds for the start, for ending processes, and for the report

EXACT = (  # sums, products and maxima of small whole numbers are exact in float32
    *("matmul", "batch_matmul", "dense_bias_relu", "conv1d_nlc", "conv2d_nhwc", "conv3d_ndhwc"),
    *("depthwise_conv2d_nhwc", "conv2d_transpose_nhwc", "conv2d_capsule_nhwijc"),
    *("max_pool2d_nchw", "add_relu"),
)
_PADDED = {"stride": 1, "padding": 1}
_CONV = {"KH": 3, "KW": 3, **_PADDED}
_HALF = {"acc_dtype": "float32"}  # on tensor cores, as in PyTorch
OPERATORS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("matmul", {"M": 1024, "N": 1024, "K": 1024}),
    ("softmax", {"M": 4096, "N": 1024}),
    ("conv2d_nhwc", {"N": 1, "H": 56, "W": 56, "CI": 64, "CO": 64, **_CONV}),
    ("depthwise_conv2d_nhwc", {"N": 1, "H": 112, "W": 112, "C": 32, "K": 3, **_PADDED}),
    ("matmul", {"M": 4096, "N": 4096, "K": 4096}),
    ("layer_norm", {"M": 4096, "N": 1024}),
    ("dense_bias_relu", {"M": 256, "N": 1024, "K": 1024}),
    ("batch_matmul", {"B": 16, "M": 512, "N": 512, "K": 64}),
    ("matmul", {"M": 4096, "N": 4096, "K": 4096, "dtype": "bfloat16", **_HALF}),
    (
        "conv2d_nhwc",
        {"N": 8, "H": 56, "W": 56, "CI": 64, "CO": 64, **_CONV, "dtype": "float16", **_HALF},
    ),
)


def doctor(bench: Bench) -> None:
    """Add the report of doctor."""
    found = diagnose(bench.arch)
    bench.report.add("```", *lines_of(found.findings, 100), found.verdict, "```")
    if found.failed and not bench.fake:
        bench.report.fail("doctor found something to repair")


def golden() -> Iterator[tuple[Task, tuple[Step, ...]]]:
    """Golden CUDA candidates of exact operators, in turns over their settings."""
    settings: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for line in golden_candidates("ansor_v06.jsonl.gz", "ansor_v06_batch.jsonl.gz", target="cuda"):
        if line["workload"] in EXACT:
            settings[json.dumps([line["workload"], line["args"]])].append(line)
    for place in range(max(map(len, settings.values()))):
        for lines in settings.values():
            if place < len(lines):
                task, steps = candidate_of(lines[place])
                try:
                    verify_gpu(lowered(task, steps)[0], task.target)
                except ScheduleError:
                    continue
                yield task, steps


def equal_to_the_bit(bench: Bench, number: int = 20, share: float = 0.25) -> None:
    """Compare golden candidates on whole numbers, without fused multiply-add, with NumPy."""
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


def tuning(bench: Bench) -> None:
    """Tune the operators, one after the other, each with an equal share of the remaining time."""
    theirs = pytorch(bench)
    table = ["| operator | trials | valid | best | GFLOP/s | PyTorch | we are |", "|" + "---|" * 7]
    bests: list[Record] = []
    ratios: list[float] = []
    for place, (name, args) in enumerate(bench.operators):
        share = (bench.budget.left - _RESERVE - 5) / (len(bench.operators) - place)
        if share < 5:
            table.append(f"| {name} {args} | no time left | | | | | |")
            continue
        task = Task.from_workload(name, target=bench.target, **args)
        options = TuneOptions(trials=bench.trials, time_budget_s=share)
        model = ModelOptions("random" if bench.fake else "xgboost")
        measure = MeasureOptions(share=True)
        records = bench.folder and bench.folder / f"{place}_{name}.jsonl"
        with Session(
            [Job(task, options)], records=records, model=model, measure=measure
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
        bests.append(best)
        if result.interrupted:
            break
    bench.report.add(*table)
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        bench.report.add("", f"Geometric mean: {mean:.2f} times the speed of PyTorch.")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "best.jsonl"
        RecordLog(path, beside=bench.environment).append(bests)
        text = path.read_text().rstrip()
    bench.report.add("", "A record file of the best (autosched replay):", "", "```", text, "```")


def pytorch(bench: Bench) -> dict[tuple[str, str], float | str]:
    """PyTorch's seconds for each operator, or the reason for none; empty without PyTorch."""
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
    """Run the parts until the time is used up."""
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
    parser.add_argument("--records", type=Path, help="a folder for the records of every trial")
    parser.add_argument("--fake", action="store_true", help="the fake GPU of the tests")
    parser.add_argument("--launch", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.fake:
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
    if args.records:
        args.records.mkdir(parents=True, exist_ok=True)
    report = Report(args.out, args.fake)
    report.add("```", json.dumps(environment, indent=1), "```")
    operators = [(name, _small(a)) for name, a in OPERATORS] if args.fake else OPERATORS
    bench = Bench(
        facts, environment, budget, report, args.trials, operators, args.fake, args.records
    )
    # A part that exceeds its time ends as by Ctrl-C, which loses no measurement.
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
    return {name: min(v, 32) if isinstance(v, int) else v for name, v in args.items()}


if __name__ == "__main__":
    sys.exit(main())
