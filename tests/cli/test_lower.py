"""`autosched lower`: the pipeline, pass by pass."""

import re
from pathlib import Path

import pytest

from autosched.measure.record_log import RecordLog
from autosched.measure.records import Record
from autosched.measure.result import MeasureResult
from autosched.state.steps import steps_from_json
from autosched.task import Task
from autosched.transform.pipeline import DEVICE_PIPELINE, GPU_PIPELINE, HOST_PIPELINE
from kit.cli import Cli


def test_the_last_program_is_printed(cli: Cli, config: Path) -> None:
    done = cli("lower", config)
    assert done.status == 0
    assert done.out.startswith("def main(A: Buffer((16, 16), float32)")


def test_a_recorded_candidate_is_lowered(cli: Cli, config: Path, log: Path) -> None:
    assert "in parallel(4)" in cli("lower", config, "--record", f"{log}:1").out


def test_one_pass_or_all(cli: Cli, config: Path) -> None:
    assert cli("lower", config, "--print-after", "StorageFlatten").out.startswith(
        "# after StorageFlatten\ndef main("
    )
    every = cli("lower", config, "--print-after", "all").out
    names = re.findall(r"^# after (\w+)", every, re.MULTILINE)
    assert names[0] == "ScheduleOps"
    assert names[-1] == "LowerIntrin"
    assert "# after VectorizeLoop (unchanged)" in every


def test_times_of_passes(cli: Cli, config: Path) -> None:
    lines = cli("lower", config, "--time-passes").out.splitlines()
    assert all(re.fullmatch(r" *\d+\.\d{3} ms  \w+", line) for line in lines)
    assert lines[-1].endswith("total")
    names = [line.split()[-1] for line in lines]
    assert names[:3] == ["apply_steps", "ScheduleOps", "InjectPrefetch"]
    assert names.count("Simplify") == 2
    seconds = [float(line.split()[0]) for line in lines]
    assert abs(sum(seconds[:-1]) - seconds[-1]) < 0.02  # each line is rounded


def test_passes_of_ones_own_choice(cli: Cli, config: Path) -> None:
    done = cli("lower", config, "--passes", "StorageFlatten", "--print-after", "all")
    names = re.findall(r"^# after (\w+)", done.out, re.MULTILINE)
    assert names == ["ScheduleOps", "StorageFlatten"]
    flat = cli("lower", config, "--passes", "StorageFlatten").out
    unrolled = cli("lower", config, "--passes", "StorageFlatten, UnrollLoop{auto_max_step=32}").out
    assert unrolled.count("=") > flat.count("=")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--print-after", "Simplif"), "expected all or one of ScheduleOps, "),
        (("--print-after", "Simplif"), "LowerIntrin. Did you mean 'Simplify'?\n"),
        (("--print-after", "SplitHostDevice"), "expected all or one of ScheduleOps, "),
        (("--target", "gpu"), "--target gpu: target.kind: expected 'cpu' or 'cuda', found text"),
        (("--passes", "Simplif"), "passes: unknown pass 'Simplif'; expected one of "),
        (("--record", "mm.jsonl"), "expected FILE:N, e.g. matmul.jsonl:0"),
        (("--record", "mm.jsonl:\u00b2"), "expected FILE:N"),
        (("--record", "mm.jsonl:7"), "--record N: 7 is not one of 0 to 2\n"),
        (("--record", "none.jsonl:0"), "none.jsonl does not exist"),
    ],
)
def test_what_cannot_be_lowered_is_said(
    cli: Cli, config: Path, log: Path, args: tuple[str, str], message: str
) -> None:
    done = cli("lower", config, *args)
    assert done.status == 2
    assert message in done.err
    assert done.out == ""


def test_a_record_of_another_task_is_refused(cli: Cli, config: Path, log: Path) -> None:
    config.write_text("workload: {op: matmul, args: {M: 16, N: 16, K: 8}}\n")
    done = cli("lower", config, "--record", f"{log}:1")
    assert done.status == 2
    assert "it is a candidate of matmul(M=16, N=16, K=16) on cpu" in done.err
    assert "the configuration is matmul(M=16, N=16, K=8) on cpu" in done.err


def test_a_gpu_s_passes_down_to_the_kernels(cli: Cli, config: Path) -> None:
    done = cli("lower", config, "--target", "cuda", "--print-after", "all")
    assert done.status == 0
    said = "note: a candidate was drawn at random (seed 0); --record FILE:N lowers a recorded one"
    assert done.err == f"{said}\n"
    printed = re.findall(r"^# after (\w+)", done.out, re.MULTILINE)
    wanted = [
        "ScheduleOps",
        *(p.name for p in (*GPU_PIPELINE, *DEVICE_PIPELINE) if p.name != "UserPasses"),
    ]
    assert printed == wanted
    timed = re.findall(r"^ *\d+\.\d{3} ms  (\w+)$", done.out, re.MULTILINE)
    assert timed == ["apply_steps", *wanted, "total"]


def test_the_end_is_the_host_and_its_kernels_as_they_are_compiled(cli: Cli, config: Path) -> None:
    done = cli("lower", config, "--target", "cuda")
    assert re.findall(r"^def (\w+)", done.out, re.MULTILINE) == ["matmul", "matmul_kernel"]
    host, kernel = re.split(r"^def matmul_kernel", done.out, flags=re.MULTILINE)
    assert 'call_packed("matmul_kernel"' in host
    assert "launch(threadIdx.x, " in kernel
    last = cli("lower", config, "--target", "cuda", "--print-after", "LowerIntrin").out
    assert last.partition("\n")[2] == done.out


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_on_to_host_code(cli: Cli, config: Path, target: str) -> None:
    done = cli("lower", config, "--target", target, "--host", "--print-after", "all")
    printed = re.findall(r"^# after (\w+)", done.out, re.MULTILINE)
    assert printed[-len(HOST_PIPELINE) :] == [p.name for p in HOST_PIPELINE]
    last = done.out.split("# after CombineContextCall")[1]
    assert re.findall(r"^def (\w+)", cli("lower", config, "--target", target, "--host").out) == [
        "matmul" if target == "cuda" else "main"
    ]
    assert (done.status, "ms  CombineContextCall" in last) == (0, True)
    kernel = 'call_packed_lowered("matmul_kernel"' in done.out.split("# after LowerTVMBuiltin")[1]
    assert kernel is (target == "cuda")


def test_host_code_of_passes_of_ones_own_choice(cli: Cli, config: Path) -> None:
    done = cli("lower", config, "--passes", "StorageFlatten", "--host")
    assert done.status == 2 and "leave one of them out" in done.err


def test_the_seed_of_the_configuration_draws(cli: Cli, config: Path) -> None:
    first = cli("lower", config, "--target", "cuda").out
    assert cli("lower", config, "--target", "cuda").out == first
    config.write_text(config.read_text() + "search: {seed: 5}\n")
    done = cli("lower", config, "--target", "cuda")
    assert "drawn at random (seed 5)" in done.err
    assert done.out != first


def test_a_gpu_without_room_for_any_candidate(
    cli: Cli, config: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("autosched.search.thread_tiles._ROUNDS", 1)
    monkeypatch.setattr("autosched.search.sample._BARREN_BATCHES", 1)
    hardware = "{max_shared_memory_per_block: 1}"
    config.write_text(config.read_text() + f"target: {{kind: cuda, hardware: {hardware}}}\n")
    done = cli("lower", config)
    assert (done.status, done.out) == (2, "")
    assert "no randomly drawn candidate is within the limits of cuda (sm_80); autosc" in done.err


def test_a_record_for_the_other_target_names_the_flag(cli: Cli, config: Path, log: Path) -> None:
    done = cli("lower", config, "--target", "cuda", "--record", f"{log}:1")
    assert done.status == 2
    assert "the configuration is matmul(M=16, N=16, K=16) on cuda; give --target cpu\n" in done.err


def test_a_recorded_candidate_for_a_gpu(cli: Cli, config: Path, tmp_path: Path) -> None:
    task = Task.from_workload("matmul", M=16, N=16, K=16, target="cuda")
    steps = [["FU", 2, [0, 1]], ["SP", 2, 0, 256, [32], 1], ["AN", 2, 0, 5], ["AN", 2, 1, 6]]
    made = Record(task.to_json(), steps_from_json(steps), MeasureResult((1e-3,), None))
    RecordLog(tmp_path / "gpu.jsonl").append([made])
    done = cli("lower", config, "--target", "cuda", "--record", "gpu.jsonl:0")
    assert (done.status, done.err) == (0, "")
    assert "launch(blockIdx.x, 8)" in done.out
    assert "launch(threadIdx.x, 32)" in done.out


def test_a_profile_of_a_record(cli: Cli, log: Path) -> None:
    done = cli("lower", "--profile", f"{log}:1")
    assert done.status == 0
    lines = done.out.splitlines()
    assert lines[0].startswith("matmul(M=16, N=16, K=16) on cpu (")
    assert lines[1].split() == ["id", "loop", "stores", "calls", "total", "share"]
    assert re.match(r" 0  whole function +1 +\S+ \S+ +[\d.]+%$", lines[2])
    assert re.match(r" 1    for i.outer in parallel\(4\) +C +1 ", lines[3])
    assert lines[-1].startswith("a call without this timing takes ")
    assert "nothing in a parallel loop is timed; --profile-serial runs it on one" in done.err


def test_a_profile_inside_parallel_loops(cli: Cli, log: Path) -> None:
    """Tiles whose sums fit 16 registers of 8 floats, and too many steps to unroll with registers
    of 16: one loop over `k` on every machine."""
    task = Task.from_workload("matmul", M=16, N=16, K=64)
    steps = steps_from_json([["SP", 2, 0, 16, [4], 1], ["AN", 2, 0, 3]])
    RecordLog(log).append([Record(task.to_json(), steps, MeasureResult((1e-3,), None))])
    done = cli("lower", "--profile", f"{log}:3", "--profile-serial", "--profile-depth", "0")
    assert done.status == 0
    assert re.search(r"^ 1    for i.outer in range\(4\) +C +1 ", done.out, re.MULTILINE)
    assert not re.search(r"^ 2 ", done.out, re.MULTILINE)
    deeper = cli("lower", "--profile", f"{log}:3", "--profile-serial", "--profile-depth", "1").out
    assert re.search(r"^ 2      for k in .* C.acc +4 ", deeper, re.MULTILINE)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ((), "lower: expected CONFIG, a YAML file or operator, or --profile FILE:N"),
        (("--profile", "mm.jsonl:0", "mm.yaml"), "as it was recorded; leave out CONFIG"),
        (("--profile", "mm.jsonl:0", "--time-passes"), "leave out --time-passes"),
        (("mm.yaml", "--profile-depth", "2"), "--profile-depth is only for --profile FILE:N; add"),
        (("mm.yaml", "--profile-serial"), "--profile-serial is only for --profile FILE:N; add"),
        (("mm.yaml", "--workload", "mm.yaml"), "--workload is only for --profile FILE:N; add"),
        (("--profile", "mm.jsonl:0", "--profile-depth", "-1"), "-1: expected 0 or more"),
        (("--profile", "mm.jsonl:7"), "--profile FILE:N: 7 is not one of 0 to 2"),
        (("--profile", "mm.jsonl:-7"), "--profile FILE:N: -7 is not one of 0 to 2"),
        (("--profile", "gpu.jsonl:0"), "a candidate for cuda (sm_80); profiles are taken on CPUs"),
    ],
)
def test_what_cannot_be_profiled_is_said(
    cli: Cli, config: Path, log: Path, tmp_path: Path, args: tuple[str, ...], message: str
) -> None:
    task = Task.from_workload("matmul", M=16, N=16, K=16, target="cuda")
    made = Record(task.to_json(), (), MeasureResult((1e-3,), None))
    RecordLog(tmp_path / "gpu.jsonl").append([made])
    done = cli("lower", *args)
    assert (done.status, done.out) == (2, "")
    assert message in done.err
