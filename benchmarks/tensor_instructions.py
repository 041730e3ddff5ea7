"""Operators of narrow types by tensor instructions, against PyTorch (oneDNN) and the peak.

    python benchmarks/tensor_instructions.py --trials 64
    python benchmarks/tensor_instructions.py --only "matmul 512" --types int8 --records records
    python benchmarks/tensor_instructions.py --types int8 bfloat16 --packed

Each operator is tuned for `--trials` candidates, checked, and timed in turns with PyTorch as in
benchmarks/suite.py, with the arguments of both aligned to cache lines. PyTorch's calls are
torch._int_mm (int8), a quantised convolution of uint8 by int8 with sums as float32, and plain calls
in bfloat16 and float16, whose results PyTorch rounds to their type while ours stay float32.
"float16-sums" are float16 throughout, where PyTorch still sums in float32. "peak" is the peak of
the instruction that the kernel uses, measured in registers; for "float16-sums" it is that of
AVX512-FP16. Other kernels without an instruction have no peak. "best" is the share of the shortest
batch, as in benchmarks/suite.py. The clock is lower where tiles are loaded
(docs/tensor_intrinsics.md): only 0.82 to 0.86 of AMX's peak can be reached.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from suite import OURS, in_turns, quotient

import autosched
from autosched.measure.instruction_peak import instruction_peak
from autosched.measure.peak import float16_peak
from autosched.measure.records import read_log
from autosched.measure.standing import best_of
from autosched.runtime.cpu import CpuKernel, aligned_copy
from autosched.session.load_best import load_best
from autosched.state.steps import InstructionStep
from autosched.target import Target, cpu_target
from autosched.task import Task
from autosched.te.intrin.registry import instruction

Call = Callable[[], Any]
HALF_SUMS = "float16-sums"
TYPES = ("int8", "bfloat16", "float16", HALF_SUMS)
_CONVOLUTION = {"N": 1, "KH": 3, "KW": 3, "stride": 1, "padding": 1}
OPERATORS: dict[str, tuple[str, dict[str, Any]]] = {
    "matmul 512": ("matmul", {"M": 512, "N": 512, "K": 512}),
    "matmul 1024": ("matmul", {"M": 1024, "N": 1024, "K": 1024}),
    "dense 256x1024x1024": ("dense_bias_relu", {"M": 256, "N": 1024, "K": 1024}),
    "conv2d 56 64": ("conv2d_nhwc", {**_CONVOLUTION, "H": 56, "W": 56, "CI": 64, "CO": 64}),
    "conv2d 14 256": ("conv2d_nhwc", {**_CONVOLUTION, "H": 14, "W": 14, "CI": 256, "CO": 256}),
}


def task_of(name: str, dtype: str, target: Target, layout: str = "none") -> Task:
    """The task of an operator in this type, with sums in int32 or float32."""
    workload, sizes = OPERATORS[name]
    first = "uint8" if dtype == "int8" and workload == "conv2d_nhwc" else dtype
    types: dict[str, Any] = {"in_dtype": first, "weight_dtype": dtype}
    if dtype == HALF_SUMS:
        types = dict.fromkeys(("in_dtype", "acc_dtype", "out_dtype"), "float16")
    elif dtype == "float16":
        types["acc_dtype"] = types["out_dtype"] = "float32"
    return Task.from_workload(workload, **sizes, **types, target=target, layout_rewrite=layout)


def peer(workload: str, dtype: str, inputs: list[Any]) -> Call:
    """PyTorch's call on the same values."""
    tensors = [_torch(x) for x in inputs]
    if workload == "conv2d_nhwc":
        x = tensors[0].permute(0, 3, 1, 2)
        w = tensors[1].permute(3, 2, 0, 1).contiguous(memory_format=torch.channels_last)
        return _int_conv(x, w) if dtype == "int8" else lambda: torch.conv2d(x, w, padding=1)
    a, b = tensors[:2]
    multiply = torch._int_mm if dtype == "int8" else torch.matmul
    if workload == "matmul":
        return lambda: multiply(a, b)
    bias = tensors[2] if dtype == "int8" else tensors[2].to(a.dtype)
    if dtype == "int8":
        return lambda: torch.relu(multiply(a, b.t()) + bias)
    return lambda: torch.relu(torch.nn.functional.linear(a, b, bias))


def _int_conv(x: Any, w: Any) -> Call:
    co, one, none = w.shape[0], [1, 1], "none"
    scales, zeros = torch.ones(co), torch.zeros(co, dtype=torch.int64)
    calls = torch.ops.onednn
    packed = calls.qconv_prepack(w, scales, 1.0, 0, one, one, one, 1, list(x.shape))
    last: tuple[Any, ...] = (1.0, 0, torch.float32, none, [], "")
    return lambda: calls.qconv2d_pointwise(
        x, 1.0, 0, packed, scales, zeros, None, one, one, one, 1, *last
    )


def _torch(x: np.ndarray[Any, Any]) -> Any:
    if x.dtype.name == "bfloat16":
        return torch.from_numpy(x.view(np.int16)).view(torch.bfloat16)
    return torch.from_numpy(x)


def values(task: Task, rng: np.random.Generator) -> list[np.ndarray[Any, Any]]:
    """Small integers in the types of the inputs, for which every product and sum is exact."""
    found = []
    most = 1 if task.dag.tensors[-1].dtype.name == "float16" else 8  # 11 bits hold every sum
    for spec in task.dag.tensors:
        if not spec.op.inputs:
            shape = [int(e.value) for e in spec.shape]  # type: ignore[attr-defined]  # constants
            low = 0 if spec.dtype.name.startswith("u") else -most
            found.append(
                aligned_copy(rng.integers(low, max(most, 2), shape).astype(spec.dtype.numpy))
            )
    return found


def measured(name: str, dtype: str, trials: int, folder: Path, layout: str) -> str:
    """The line of one operator."""
    target = cpu_target(torch.get_num_threads())
    task = task_of(name, dtype, target, layout)
    log = folder / f"{name} {dtype}.jsonl".replace(" ", "_")
    known = sum(r.task["key"] == task.key for r in read_log(log).records) if log.exists() else 0
    if known < trials:
        autosched.tune(task, trials=trials - known, records=log, progress=False)
    kernel = load_best(log, task)
    assert isinstance(kernel, CpuKernel)
    inputs = values(task, np.random.default_rng(0))
    result = task.dag.tensors[-1]
    shape = [int(e.value) for e in result.shape]  # type: ignore[attr-defined]  # constants
    out = aligned_copy(np.zeros(shape, result.dtype.numpy))
    given = kernel.prepare(*inputs)
    kernel(*given, out)
    theirs = peer(OPERATORS[name][0], dtype, inputs)
    expected = theirs().float()
    expected = expected.permute(0, 2, 3, 1) if expected.ndim == 4 else expected
    np.testing.assert_allclose(out, expected.numpy(), rtol=2**-7, atol=1)
    used = instruction_used(log, task)
    times, shortest, peaks = in_turns(
        {OURS: lambda: kernel(*given, out), "PyTorch": theirs},
        12,
        lambda: (
            instruction_peak(target, instruction(used))
            if used
            else float16_peak(target)
            if dtype == HALF_SUMS
            else None
        ),
    )
    ours, torchs = (statistics.median(t) for t in times.values())
    flops = task.dag.flop_count
    needed = [flops / peak for peak in peaks]
    share = f"{quotient(needed, times[OURS]):.2f}" if needed else "-"
    best = f"{min(needed) / shortest[OURS]:.2f}" if needed else "-"
    return (
        f"| {dtype} {name} | {used or '-'} | {ours * 1e3:.4f} | {torchs * 1e3:.4f} | "
        f"{quotient(times['PyTorch'], times[OURS]):.2f} | {flops / ours / 1e9:.0f} | "
        f"{share} | {best} |"
    )


def instruction_used(log: Path, task: Task) -> str:
    """The tensor instruction of the best candidate; "" if it has none."""
    best = best_of(r for r in read_log(log).records if r.task["key"] == task.key)
    steps = best.steps if best else ()
    return next((s.instruction for s in steps if isinstance(s, InstructionStep)), "")


def main() -> None:
    """Tune, measure and print a line for each operator and type."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--types", nargs="+", choices=TYPES, default=list(TYPES))
    parser.add_argument("--only", nargs="+", choices=list(OPERATORS), default=list(OPERATORS))
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--packed", action="store_true", help="our weights are packed ahead")
    parser.add_argument("--records", type=Path, help="folder of records, continued if it is there")
    options = parser.parse_args()
    folder = options.records or Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    print("| | instruction | ms | PyTorch, ms | times as fast | GOPS | share of the peak | best |")
    print("|---|---|---|---|---|---|---|")
    for dtype in options.types:
        for name in options.only:
            layout = "pre-transformed" if options.packed else "none"
            print(measured(name, dtype, options.trials, folder, layout), flush=True)


if __name__ == "__main__":
    main()
