"""`autosched lower`: the pipeline, pass by pass."""

import re
from pathlib import Path

import pytest

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
        (("--passes", "Simplif"), "passes: unknown pass 'Simplif'; expected one of "),
        (("--record", "mm.jsonl"), "expected FILE:N, e.g. matmul.jsonl:0"),
        (("--record", "mm.jsonl:7"), "--record N: 7 is not one of 0 to 2"),
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
