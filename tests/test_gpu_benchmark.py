"""benchmarks/gpu.py: what it says without a GPU, its time, and all of it on the fake one."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from autosched.measure import gpu_runner
from autosched.runtime.fake_device import FACTS

ROOT = Path(__file__).resolve().parent.parent
SCRIPT = ROOT / "benchmarks" / "gpu.py"


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(SCRIPT.parent)
    return importlib.import_module("gpu")


def test_without_a_gpu_it_says_so_in_one_sentence(
    gpu: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gpu_runner, "FACTORY", "kit.fake_gpu:make_refusing")
    monkeypatch.setattr("sys.argv", ["gpu.py"])
    assert gpu.main() == 2
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "benchmarks/gpu.py needs a GPU: device unavailable\n")
    assert not Path("gpu-report.md").exists()


@pytest.mark.parametrize("seconds", [0.0, 60.0])
def test_parts_begin_while_there_is_time(
    gpu: ModuleType, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    def part(bench: object) -> None:
        gpu_report.fail("it broke")

    monkeypatch.setattr(gpu, "PARTS", {"one": part, "other": part})
    path = Path("r.md")
    gpu_report = gpu.Report(path, fake=True)
    facts = {"capability": FACTS.capability, "driver": FACTS.driver}
    gpu.run(gpu.Bench(facts, {}, gpu.Budget(seconds), gpu_report, 1, (), True), ["one"])
    text = path.read_text()
    assert "the fake one of the tests" in text and "## other" not in text
    assert ("No time left." in text) == (seconds == 0)
    assert text.splitlines()[4] == ("it broke" if seconds else "all that ran was as it should be")


@pytest.mark.slow
def test_all_of_it_on_the_fake_gpu(tmp_path: Path) -> None:
    if "AUTOSCHED_SLOW" not in os.environ:
        pytest.skip("minutes of compiling and tuning: set AUTOSCHED_SLOW=1 to run it")
    out = tmp_path / "r.md"
    command = [sys.executable, str(SCRIPT), "--fake", "--trials", "4", "--out", str(out)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=700)
    assert done.returncode == 0, done.stdout + done.stderr
    text = out.read_text()
    assert "20 of 20 candidates equal NumPy to the bit." in text
    assert "8 of 8 good candidates between them were measured." in text
    assert text.count("| 4 | 4 |") == 8
