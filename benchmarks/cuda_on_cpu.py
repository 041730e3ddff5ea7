"""Run the printed CUDA C of random candidates on the CPU and compare the results with NumPy.

    python benchmarks/cuda_on_cpu.py [--candidates 4] [--programs 40] [--seed 5]

This checks the text itself where there is no GPU. A C++ compiler (g++ with C++20) turns the kernels
into functions. Each thread of a block is a thread of the CPU, `__syncthreads` and `__syncwarp` are
real barriers, and shuffles go through memory. Blocks run one after another. It cannot check the
parts of the prelude in PTX, NVRTC's code, or speed. Programs (`tests/kit/random_programs.py`) have
values of all types and one exact result. The exit code is 1 when a candidate or a program differs.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import math
import random
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from autosched.driver import (
    cuda_source,
    lower_for_features,
    lower_func,
    lower_to_kernels,
    schedule_ops,
)
from autosched.errors import CompileError, ScheduleError
from autosched.runtime.cuda_artifact import Alloc, CudaArtifact, Kernel, cuda_artifact
from autosched.search.options import SearchOptions
from autosched.search.rules.protocol import Context
from autosched.search.space import SearchSpace
from autosched.target import HardwareParams, cuda_target
from autosched.task import Task

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
from kit.random_programs import difference, random_program, random_schedule

MOST_THREADS = 96
WORKLOADS: dict[str, dict[str, Any]] = {
    "matmul": {"M": 24, "N": 36, "K": 20},
    "batch_matmul": {"B": 3, "M": 4, "N": 6, "K": 8},
    "conv1d_nlc": {"N": 1, "L": 12, "CI": 4, "CO": 8, "K": 3, "stride": 2, "padding": 1},
    "depthwise_conv2d_nhwc": {"N": 1, "H": 6, "W": 6, "C": 4, "K": 3, "stride": 1, "padding": 1},
    "max_pool2d_nchw": {"N": 1, "C": 2, "H": 8, "W": 8, "K": 3, "stride": 2, "padding": 1},
    "dense_bias_relu": {"M": 6, "N": 12, "K": 16},
    "norm_bmn": {"B": 2, "M": 12, "N": 16},
    "softmax": {"M": 6, "N": 40},
    "layer_norm": {"M": 4, "N": 64},
    "add_relu": {"M": 6, "N": 32},
}
SHIM = r"""
#include <algorithm>
#include <barrier>
#include <cmath>
#include <cstring>
#include <limits>
#include <memory>
#include <thread>
#include <vector>
struct Index { int x, y, z; };
static thread_local Index threadIdx, blockIdx;
static thread_local int number;
static int threads;
static std::barrier<>* whole_block;
static std::barrier<>* warp[32];
#define __global__
#define __launch_bounds__(...)
#define __restrict__
#define __shared__ static
#define __align__(n) __attribute__((aligned(n)))
#define __syncthreads() whole_block->arrive_and_wait()
#define __syncwarp() warp[number / 32]->arrive_and_wait()
static double exchanged[1024];
template <class T> T from(T value, int source) {
  exchanged[number] = value; __syncwarp();
  T got = source < threads ? (T)exchanged[source] : value; __syncwarp();
  return got;
}
template <class T> T __shfl_down_sync(unsigned, T value, int by, int) {
  return from(value, number % 32 + by < 32 ? number + by : number);
}
template <class T> T __shfl_sync(unsigned, T value, int lane, int) {
  return from(value, number / 32 * 32 + lane % 32);
}
static float rsqrtf(float x) { return 1.0f / sqrtf(x); }
template <class A, class B> auto max(A a, B b) { return a > b ? a : b; }
template <class A, class B> auto min(A a, B b) { return a < b ? a : b; }
#define __device__
#define __forceinline__ static
template <class To, class From> To rounded_to_zero(From x) {
  constexpr To low = std::numeric_limits<To>::min(), high = std::numeric_limits<To>::max();
  if (x != x) return 0;
  return x <= (From)low ? low : x >= (From)high ? high : (To)x;
}
#define __float2int_rz rounded_to_zero<int>
#define __float2uint_rz rounded_to_zero<unsigned>
#define __float2ll_rz rounded_to_zero<long long>
#define __float2ull_rz rounded_to_zero<unsigned long long>
#define __double2int_rz rounded_to_zero<int>
#define __double2uint_rz rounded_to_zero<unsigned>
#define __double2ll_rz rounded_to_zero<long long>
#define __double2ull_rz rounded_to_zero<unsigned long long>
#define __fadd_rn(x, y) ((x) + (y))
#define __dadd_rn(x, y) ((x) + (y))
#define __fsub_rn(x, y) ((x) - (y))
#define __dsub_rn(x, y) ((x) - (y))
#define __fmul_rn(x, y) ((x) * (y))
#define __dmul_rn(x, y) ((x) * (y))
#define __fdiv_rn(x, y) ((x) / (y))
#define __ddiv_rn(x, y) ((x) / (y))
static float __uint_as_float(unsigned x) { float y; memcpy(&y, &x, 4); return y; }
static unsigned __float_as_uint(float x) { unsigned y; memcpy(&y, &x, 4); return y; }
"""
IN_PTX = {
    r"asm\(.cvt.f32.f16 [^;]*;[^;]*;": "_Float16 half; memcpy(&half, &x.bits, 2); y = half;",
    r"asm\(.cvt.rn.f16.f(32|64) [^;]*;[^;]*;": "_Float16 half = x; memcpy(&y.bits, &half, 2);",
}
"""Replacements for the prelude's instructions that convert float16."""


def launcher(kernel: Kernel, text: str) -> str:
    """A C function that runs all blocks of a kernel."""
    head = text.split(f"{kernel.name}(\n")[1].split(") {")[0]
    params = [part.strip().replace("__restrict__ ", "") for part in head.split(",")]
    names = ", ".join(part.split()[-1] for part in params)
    (bx, by, bz), (gx, gy, gz) = kernel.block, kernel.grid
    count = bx * by * bz
    return f"""
extern "C" void run_{kernel.name}({", ".join(params)}) {{
  threads = {count};
  std::barrier<> all({count});
  whole_block = &all;
  std::vector<std::unique_ptr<std::barrier<>>> warps;
  for (int i = 0; i < {count}; i += 32) {{
    warps.emplace_back(new std::barrier<>(std::min(32, {count} - i)));
    warp[i / 32] = warps.back().get();
  }}
  std::vector<std::thread> running;
  for (int t = 0; t < {count}; ++t) running.emplace_back([=] {{
    number = t;
    threadIdx = Index{{t % {bx}, t / {bx} % {by}, t / {bx * by}}};
    for (int b = 0; b < {gx * gy * gz}; ++b) {{
      blockIdx = Index{{b % {gx}, b / {gx} % {gy}, b / {gx * gy}}};
      {kernel.name}({names});
      whole_block->arrive_and_wait();
    }}
  }});
  for (auto& one : running) one.join();
}}
"""


def run(artifact: CudaArtifact, arrays: list[Any], folder: Path) -> None:
    """Run the launches of an artifact; outputs are written in place."""
    text = artifact.source
    for instruction, plain in IN_PTX.items():
        text = re.sub(instruction, plain, text)
    source = SHIM + text + "".join(launcher(kernel, text) for kernel in artifact.kernels)
    path = folder / f"{hashlib.sha256(source.encode()).hexdigest()[:16]}.cpp"
    path.write_text(source)
    options = ["-std=c++20", "-O1", "-ffp-contract=off", "-w", "-shared", "-fPIC", "-pthread"]
    library = path.with_suffix(".so")
    subprocess.run(["g++", *options, "-o", str(library), str(path)], check=True)
    functions = ctypes.CDLL(str(library))
    memory = {param.name: a for param, a in zip(artifact.params, arrays, strict=True)}
    for step in artifact.plan:
        if isinstance(step, Alloc):
            memory[step.workspace] = np.full(step.size, 255, np.uint8)
            continue
        pointers = [ctypes.c_void_p(memory[str(a)].ctypes.data) for a in step.args]
        getattr(functions, f"run_{step.kernel}")(*pointers)


def check(name: str, count: int, seed: int, folder: Path) -> tuple[int, int]:
    """The number of candidates of a workload that were run, and how many differ from NumPy."""
    target = cuda_target()
    task = Task.from_workload(name, target=target, **WORKLOADS[name])
    inputs = task.inputs(seed=0)
    expected = task.reference(inputs)
    context = Context(task.dag, HardwareParams.default("cuda"), True, SearchOptions())
    tried = wrong = 0
    for steps in SearchSpace.of(context).sample(np.random.default_rng(seed), 4 * count):
        try:
            lower_for_features(task.dag, steps, target)
            artifact = cuda_source(task.dag, steps, target, name)
        except (ScheduleError, CompileError):
            continue
        if max(math.prod(kernel.block) for kernel in artifact.kernels) > MOST_THREADS:
            continue
        outputs = [np.full(e.shape, np.nan, e.dtype) for e in expected]
        run(artifact, [*inputs, *outputs], folder)
        tried += 1
        pairs = zip(outputs, expected, strict=True)
        if not all(np.allclose(a, b, rtol=1e-4, atol=1e-4) for a, b in pairs):
            wrong += 1
            print(f"{name}: another result than NumPy's\n{artifact.source}", file=sys.stderr)
        if tried == count:
            break
    return tried, wrong


def check_programs(count: int, seed: int, folder: Path) -> tuple[int, int]:
    """The number of random programs that were run, and how many differ from NumPy."""
    target = cuda_target()
    tried = wrong = number = 0
    while tried < count:
        draw = random.Random(f"{seed} {number}")
        number += 1
        program = random_program(draw)
        try:
            lowered = lower_func(
                schedule_ops(random_schedule(draw, program, True), program.args), target
            )
            artifact = cuda_artifact(lower_to_kernels(lowered), "main")
        except (ScheduleError, CompileError):
            continue
        if max(math.prod(kernel.block) for kernel in artifact.kernels) > MOST_THREADS:
            continue
        out = np.zeros_like(program.wanted)
        run(artifact, [*program.arrays, out], folder)
        tried += 1
        why = difference(out, program.wanted)
        if why is not None:
            wrong += 1
            print(f"program {number - 1} of seed {seed}: {why}\n{artifact.source}", file=sys.stderr)
    return tried, wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--candidates", type=int, default=4, help="of each workload")
    parser.add_argument("--programs", type=int, default=40, help="random ones of all types")
    parser.add_argument("--seed", type=int, default=5)
    options = parser.parse_args()
    total = np.zeros(2, int)
    with tempfile.TemporaryDirectory() as folder:
        for name in WORKLOADS:
            found = check(name, options.candidates, options.seed, Path(folder))
            print(f"{name:24} {found[0]:4} run {found[1]:4} wrong", flush=True)
            total += found
        found = check_programs(options.programs, options.seed, Path(folder))
        print(f"{'random programs':24} {found[0]:4} run {found[1]:4} wrong", flush=True)
        total += found
    print(f"{'all':24} {total[0]:4} run {total[1]:4} wrong")
    return int(total[1] > 0)


if __name__ == "__main__":
    sys.exit(main())
