"""`autosched doctor`: every part that may be missing or broken, on fake modules and libraries."""

from __future__ import annotations

import re
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest

from autosched.cli import doctor_cuda, doctor_software, doctor_stages
from autosched.cli.build_pycuda import commands
from autosched.cli.diagnosis import Finding, Level
from autosched.cli.doctor import lines_of
from autosched.measure import gpu_runner
from autosched.runtime import cuda_driver
from kit.cli import Cli

WORKING = """
VERSION_TEXT = "2026.1"
"""
DRIVER = """
class Device:
    def __init__(self, number): pass
    @staticmethod
    def count(): return {count}
    def name(self): return "Fake GPU"
    def compute_capability(self): return (9, 0)
    def total_memory(self): return 80 * 2**30
def get_version(): return {built}
def init(): {init}
"""
NVML = """
class NVMLError(Exception): pass
def nvmlInit(): {init}
def nvmlDeviceGetCount(): return 1
def nvmlSystemGetDriverVersion(): return "580.1"
def nvmlDeviceGetHandleByIndex(number): return number
def nvmlDeviceGetClockInfo(gpu, which): return 1200 * which
def nvmlDeviceGetMaxClockInfo(gpu, which): return 1980
def nvmlDeviceGetTemperature(gpu, sensor): raise NVMLError("Not Supported")
def nvmlDeviceGetCurrentClocksEventReasons(gpu): return {reasons}
"""
Fake = Callable[..., None]
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch) -> None:
    """No driver and no nvdisasm, whatever this machine has."""
    monkeypatch.setattr(cuda_driver, "LIBRARY", "libnowhere.so.1")
    monkeypatch.setattr(doctor_cuda, "find_nvdisasm", lambda *_: None)


@pytest.fixture(autouse=True)
def stages(monkeypatch: pytest.MonkeyPatch) -> list[Finding]:
    """The stages of a run are ok: test_doctor_stages.py breaks them."""
    found = [Finding(Level.OK, part, "fine") for part in ("sketch", "record")]
    monkeypatch.setattr(doctor_stages, "tried", lambda *_, **options: found)
    monkeypatch.setattr(doctor_software, "findings", list)
    return found


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder before all others on the path of the processes that import PyCUDA and NVML.

    Both are missing until a test writes them.
    """
    folder = tmp_path / "modules"
    (folder / "pycuda").mkdir(parents=True)
    for path, name in ((folder / "pycuda" / "__init__.py", "pycuda"), (folder / "pynvml.py", "")):
        name = name or "pynvml"
        path.write_text(f"raise ModuleNotFoundError('No module named', name={name!r})\n")
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return folder


@pytest.fixture
def pycuda(modules: Path) -> Fake:
    """pycuda(init=..., count=..., built=...) or pycuda(driver=...), the text of pycuda.driver."""

    def write(
        driver: str = DRIVER, init: str = "pass", count: int = 1, built: str = "(13, 0, 0)"
    ) -> None:
        (modules / "pycuda" / "__init__.py").write_text(WORKING)
        text = driver.format(init=init, count=count, built=built) if driver is DRIVER else driver
        (modules / "pycuda" / "driver.py").write_text(text)

    return write


@pytest.fixture
def with_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    """A driver that knows CUDA 13.0."""
    monkeypatch.setattr(doctor_cuda, "driver_version", lambda: (13, 0))


def parts(text: str) -> dict[str, str]:
    """Level and text of each part, on one line."""
    joined = re.sub(r"\n {23}", " ", text)
    rows = re.findall(
        r"^(ok|missing|broken|-) +(\w+(?: kernel| flush)?) +(.*)$", joined, re.MULTILINE
    )
    return {part: f"{level} {text}" for level, part, text in rows}


@pytest.mark.usefixtures("modules")
def test_a_machine_without_a_gpu_compiles(cli: Cli) -> None:
    done = cli("doctor", "--target", "cuda")
    assert (done.status, done.err) == (0, "")
    assert done.out.endswith("\ncan compile, cannot measure\n")
    found = parts(done.out)
    assert list(found) == [
        *("NVRTC", "architectures", "compile", "nvdisasm"),
        *("driver", "PyCUDA", "devices", "context", "add kernel", "L2 flush", "NVML", "clocks"),
        *("sketch", "record"),
    ]
    assert re.match(r"ok \d+\.\d+, .*libnvrtc", found["NVRTC"])
    assert " sm_90 " in found["architectures"]
    assert re.match(r"ok an add kernel for sm_80 in \d", found["compile"])
    assert found["nvdisasm"].endswith("prints PTX; pip install nvidia-cuda-nvdisasm")
    assert found["driver"].startswith("missing libnowhere.so.1 not found, nothing can be measured")
    assert found["PyCUDA"] == "missing not installed; it is built from source: docs/cuda.md"
    assert found["devices"].startswith("- not listed")
    assert found["add kernel"] == "- not tried without a GPU"
    assert found["clocks"] == "- not known without NVML"
    assert found["NVML"].endswith("pip install nvidia-ml-py")


@pytest.mark.usefixtures("modules")
def test_without_nvrtc_nothing_compiles(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AUTOSCHED_NVRTC", "/nowhere/libnvrtc.so")
    done = cli("doctor", "--target", "cuda")
    assert done.status == 1
    found = parts(done.out)
    assert found["NVRTC"].startswith("broken NVRTC, which compiles CUDA C, was not found: install")
    assert "/nowhere/libnvrtc.so: cannot open" in found["NVRTC"]
    assert found["compile"] == "- not tried without NVRTC"
    assert "can neither compile nor measure; autosched lower and show --as cuda work" in done.out


def test_everything_there(
    cli: Cli, modules: Path, pycuda: Fake, with_driver: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    pycuda(count=2)
    monkeypatch.setattr(gpu_runner, "FACTORY", "kit.fake_gpu:make_handler")
    (modules / "pynvml.py").write_text(NVML.format(init="pass", reasons=0x44))
    done = cli("doctor", "--target", "cuda")
    assert done.status == 0
    assert done.out.endswith("\ncan compile and measure\n")
    found = parts(done.out)
    assert found["driver"] == "ok CUDA 13.0"
    assert found["PyCUDA"] == "ok 2026.1, built for CUDA 13.0"
    assert found["devices"] == "ok Fake GPU (sm_90, 80 GiB), Fake GPU (sm_90, 80 GiB)"
    assert found["context"] == "ok fake GPU, sm_90, 132 multiprocessors, 1 GiB, fake"
    assert found["add kernel"] == "ok adds 256 numbers as it should"
    assert found["L2 flush"] == "ok 105 MB in 50 us (2097 GB/s)"
    assert found["NVML"] == "ok driver 580.1, 1 devices"
    assert found["clocks"] == (
        "ok SM 1200 of 1980 MHz, memory 2400 MHz, slowed down by: hardware thermal slowdown; for "
        "steadier times, as root: nvidia-smi -lgc 1980 (nvidia-smi -rgc undoes it)"
    )


def test_a_gpu_that_does_not_work_is_to_be_repaired(
    cli: Cli, pycuda: Fake, with_driver: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    pycuda()
    monkeypatch.setattr(gpu_runner, "FACTORY", "kit.fake_gpu:make_wrong_adder")
    done = cli("doctor", "--target", "cuda")
    assert done.status == 1
    assert done.out.endswith("\ncan compile, cannot measure\n")
    found = parts(done.out)
    assert found["context"].startswith("ok fake GPU")
    assert found["add kernel"] == (
        "broken the GPU adds 1 of 256 numbers wrongly; see what nvidia-smi says, and the kernel's "
        "log"
    )
    assert found["L2 flush"] == "- not tried after that"


@pytest.mark.parametrize(
    ("change", "part", "message"),
    [
        ({"built": "(14, 1, 0)"}, "PyCUDA", "broken 2026.1 was built for CUDA 14.1, the driver ha"),
        (
            {"driver": "raise ImportError('_driver.so: undefined symbol: cuArrayCreate_v2')"},
            "PyCUDA",
            "broken 2026.1 was linked without the driver library (_driver.so: undefined symbol: cu",
        ),
        ({"driver": "import nothing_here"}, "PyCUDA", "broken 2026.1: ModuleNotFoundError: No mod"),
        ({"driver": "import os; os.abort()"}, "PyCUDA", "broken cannot be imported: died: the pro"),
    ],
)
def test_a_pycuda_that_does_not_work_beside_a_driver(
    cli: Cli, pycuda: Fake, with_driver: None, change: dict[str, str], part: str, message: str
) -> None:
    pycuda(**change)
    done = cli("doctor", "--target", "cuda")
    assert done.status == 1
    assert parts(done.out)[part].startswith(message)
    assert "\ncan compile, cannot measure\n\nBuild PyCUDA like this" in done.out


@pytest.mark.usefixtures("modules", "with_driver")
def test_a_driver_without_pycuda_is_to_be_repaired(
    cli: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # no nvcc
    done = cli("doctor", "--target", "cuda")
    assert done.status == 1
    _, *lines = done.out.partition("\nBuild PyCUDA like this")[2].splitlines()
    assert lines == commands(13)


def built(lines: list[str], folder: Path) -> list[str]:
    """The lines of the wheels as documented, where the folder of the headers is `$INC`."""
    text = "\n".join(lines).replace(f"{folder}/cu13/include", "$INC")
    text = text.replace("--no-cache-dir --force-reinstall ", "").replace('"$INC"', "$INC")
    return sorted(re.split(r"[\s|\\]+", text))


def test_the_commands_are_those_of_the_documentation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    packages = Path(sysconfig.get_path("purelib"), "nvidia")
    text = (ROOT / "docs" / "cuda.md").read_text()
    documented = text.partition('```sh\npip install numpy "nvidia')[2].partition("```")[0]
    lines = ['pip install numpy "nvidia' + documented.strip()]
    lines = [line for line in lines[0].splitlines() if not line.startswith("INC=")]
    lines = [line.replace('"$INC/', "$INC/").replace('.h"', ".h") for line in lines]
    assert built(commands(13), packages) == built(lines, packages)
    twelve = "\n".join(commands(12))
    assert "nvidia-cuda-runtime-cu12" in twelve and "-cu12" not in "".join(commands(14))
    assert f'CUDA_INC_DIR = ["{packages}/cuda_runtime/include", "{packages}/cuda_prof' in twelve


def test_with_a_toolkit_its_headers_are_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parts = [tmp_path / part for part in ("bin/nvcc", "include/cuda.h", "lib64/stubs/libcuda.so")]
    for part in parts:
        assert len(commands(13)) > 2  # an nvcc elsewhere misleads PyCUDA
        part.parent.mkdir(parents=True)
        part.touch(0o755)
        monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert len(commands(13)) == 2 and "CUDA_ENABLE_CURAND" in commands(13)[0]


@pytest.mark.parametrize(
    "change",
    [{"init": "raise RuntimeError('cuInit failed: no CUDA-capable device')"}, {"count": 0}],
)
def test_a_driver_without_a_usable_gpu(
    cli: Cli, pycuda: Fake, with_driver: None, change: dict[str, str]
) -> None:
    pycuda(**change)
    done = cli("doctor", "--target", "cuda")
    assert done.status == 0
    assert parts(done.out)["devices"].startswith("missing driver found, no usable GPU")
    assert done.out.endswith("\ncan compile, cannot measure\n")


def test_without_a_driver_pycuda_waits_and_nothing_is_to_be_repaired(
    cli: Cli, modules: Path, pycuda: Fake
) -> None:
    pycuda(driver="raise ImportError('libcuda.so.1: cannot open shared object file')")
    (modules / "pynvml.py").write_text(NVML.format(init="raise NVMLError('no library')", reasons=0))
    done = cli("doctor", "--target", "cuda")
    assert done.status == 0
    assert parts(done.out)["PyCUDA"] == "ok 2026.1, which needs the driver"
    assert parts(done.out)["NVML"] == "- nothing to watch without a driver"


@pytest.mark.usefixtures("modules")
def test_a_compiler_newer_than_the_driver(cli: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_cuda, "driver_version", lambda: (11, 8))
    found = parts(cli("doctor", "--target", "cuda").out)
    assert re.match(
        r"broken NVRTC .* is newer than the driver, which knows CUDA 11", found["NVRTC"]
    )


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--target", "gpu"), "--target 'gpu': expected cpu or cuda"),
        (("--arch", "sm_80"), "--arch is only for --target cuda; add that option, or omit"),
        (
            ("--target", "cuda", "--arch", "90"),
            "CUDA architecture: found '90', expected sm_ and a number",
        ),
    ],
)
def test_what_it_does_not_know(cli: Cli, args: tuple[str, ...], message: str) -> None:
    done = cli("doctor", *args)
    assert (done.status, done.out) == (2, "")
    assert message in done.err


def test_lines_fit_and_file_names_stay_whole() -> None:
    found = Finding(Level.OK, "NVRTC", "13.5, /a/very/long/folder-name/" + "x" * 60, "or not")
    lines = lines_of([found], 60)
    assert lines[0] == "ok      NVRTC          13.5,"
    assert lines[1].strip() == "/a/very/long/folder-name/" + "x" * 60 + ";"
    for width in (40, 60, 80):
        lines = lines_of([Finding(Level.OK, "p", "word " * 40, "more " * 10)], width)
        assert all(len(line) <= width for line in lines)
