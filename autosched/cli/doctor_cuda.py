"""The checks of `autosched doctor --target cuda`, from the compiler to the devices.

PyCUDA is imported in a separate process, so that a driver that hangs or a module that aborts costs
only a line.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

from autosched.cli import doctor_stages
from autosched.cli.build_pycuda import commands
from autosched.cli.diagnosis import Diagnosis, Finding, Level
from autosched.cli.doctor_gpu import nvml_and_clocks, tried, without_gpu
from autosched.codegen.nvdisasm import HOW_TO_INSTALL as INSTALL_NVDISASM
from autosched.codegen.nvdisasm import find_nvdisasm
from autosched.codegen.nvrtc import Nvrtc, load_nvrtc, nearest_arch
from autosched.codegen.nvrtc_find import nvidia_folders
from autosched.errors import CompileError, ConfigError
from autosched.runtime.cuda_driver import driver_problem, driver_version
from autosched.target import cuda_target

_ADD = """\
extern "C" __global__ void __launch_bounds__(64) add(const float* a, const float* b, float* c) {
  int i = (int)blockIdx.x * 64 + (int)threadIdx.x;
  c[i] = a[i] + b[i];
}
"""
_REBUILD = "rebuild it as below (docs/cuda.md)"
_SECONDS = 60

_PYCUDA = """
import json, os, sys
found = {"stage": "package"}
try:
    import pycuda
    found["version"] = pycuda.VERSION_TEXT
    found["stage"] = "driver"
    import pycuda.driver as driver
    found["built"] = list(driver.get_version())
    found["stage"] = "init"
    driver.init()
    found["stage"] = "devices"
    found["devices"] = [
        [d.name(), *d.compute_capability(), d.total_memory()]
        for d in map(driver.Device, range(driver.Device.count()))
    ]
except Exception as error:
    found["error"] = [type(error).__name__, str(error), getattr(error, "name", None)]
print("\\n" + json.dumps(found), flush=True)
os._exit(0)
"""


def diagnose(arch: str) -> Diagnosis:
    """The findings, in the order in which a candidate passes through the parts.

    Raises ConfigError if `arch` is no architecture.
    """
    nearest_arch(arch, ())
    driver = driver_version()
    compiler = _compiler(arch, driver)
    driving, pycuda, devices = _driver(driver), *_pycuda(driver)
    reached = all(f.level is Level.OK for f in (driving, pycuda, devices))
    on_gpu = tried() if reached else without_gpu("not tried without a GPU")
    watching = nvml_and_clocks(probe, driver)
    compiles = all(f.level is Level.OK for f in compiler)
    measures = reached and all(f.level is Level.OK for f in on_gpu)
    stages = doctor_stages.tried(cuda_target(arch), on_gpu=measures)
    broken = [finding.part for finding in stages if finding.level is Level.BROKEN]
    findings = (*compiler, _nvdisasm(), driving, pycuda, devices, *on_gpu, *watching, *stages)
    failed = not compiles or any(f.level is Level.BROKEN for f in (driving, *on_gpu, *stages))
    failed |= driver is not None and pycuda.level is not Level.OK
    if compiles:
        verdict = "can compile and measure" if measures else "can compile, cannot measure"
    else:
        verdict = "can neither compile nor measure; autosched lower and show --as cuda work"
    if compiles and broken:
        verdict = f"cannot tune: {' and '.join(broken)} broken"
    build: list[str] = []
    if driver is not None and pycuda.level is not Level.OK:
        build = commands(driver[0])
    return Diagnosis(findings, verdict, failed, tuple(build))


def _compiler(arch: str, driver: tuple[int, int] | None) -> list[Finding]:
    try:
        nvrtc = load_nvrtc(arch, None if driver is None else driver[0])
    except ConfigError as error:
        text = "; ".join(map(str.strip, str(error).splitlines()))
        return [
            Finding(Level.BROKEN, "NVRTC", text),
            Finding(Level.SKIPPED, "architectures", "not known without NVRTC"),
            Finding(Level.SKIPPED, "compile", "not tried without NVRTC"),
        ]
    version = f"{nvrtc.version[0]}.{nvrtc.version[1]}"
    return [
        Finding(Level.OK, "NVRTC", f"{version}, {nvrtc.path}"),
        Finding(Level.OK, "architectures", " ".join(f"sm_{a}" for a in nvrtc.archs)),
        _test_compile(nvrtc, arch),
    ]


def _test_compile(nvrtc: Nvrtc, arch: str) -> Finding:
    try:
        compiled = nvrtc.compile(_ADD, arch)
    except CompileError as error:
        text = " ".join(str(error).split())
        return Finding(Level.BROKEN, "compile", text, "install nvidia-cuda-nvrtc again")
    text = f"an add kernel for {compiled.arch} in {compiled.seconds:.2f} s"
    return Finding(Level.OK, "compile", text)


def _nvdisasm() -> Finding:
    program = find_nvdisasm(os.environ, nvidia_folders())
    if program is None:
        text = "not found, show --as asm prints PTX"
        return Finding(Level.MISSING, "nvdisasm", text, INSTALL_NVDISASM)
    return Finding(Level.OK, "nvdisasm", program)


def _driver(version: tuple[int, int] | None) -> Finding:
    if version is not None:
        return Finding(Level.OK, "driver", f"CUDA {version[0]}.{version[1]}")
    problem = driver_problem()
    if problem is None:
        text = "the library libcuda.so.1 does not report its version"
        return Finding(Level.BROKEN, "driver", text, "install NVIDIA's driver again")
    text = f"{problem}, nothing can be measured here"
    return Finding(Level.MISSING, "driver", text, "if this machine has a GPU, install its driver")


def _pycuda(driver: tuple[int, int] | None) -> tuple[Finding, Finding]:
    """The findings about PyCUDA and the devices that it sees."""
    found = probe(_PYCUDA)
    kind, text, module = found.get("error") or ("", "", None)
    skipped = Finding(Level.SKIPPED, "devices", "not listed without the driver and PyCUDA")
    if found["stage"] == "package":
        if module == "pycuda":
            remedy = "it is built from source: docs/cuda.md"
            return Finding(Level.MISSING, "PyCUDA", "not installed", remedy), skipped
        why = f"cannot be imported: {kind}: {text}"
        return Finding(Level.BROKEN, "PyCUDA", why, _REBUILD), skipped
    version = found.get("version", "")
    if found["stage"] == "driver":
        if "libcuda.so" in text and driver is None:
            said = Finding(Level.OK, "PyCUDA", f"{version}, which needs the driver")
        elif "undefined symbol" in text:
            why = f"{version} was linked without the driver library ({text})"
            said = Finding(Level.BROKEN, "PyCUDA", why, _REBUILD)
        else:
            said = Finding(Level.BROKEN, "PyCUDA", f"{version}: {kind}: {text}", _REBUILD)
        return said, skipped
    built = ".".join(map(str, found["built"][:2]))
    if driver is not None and found["built"][0] > driver[0]:
        why = f"{version} was built for CUDA {built}, the driver has {driver[0]}.{driver[1]}"
        return Finding(Level.BROKEN, "PyCUDA", why, _REBUILD), skipped
    said = Finding(Level.OK, "PyCUDA", f"{version}, built for CUDA {built}")
    if kind:
        why = f"driver found, no usable GPU: {text}"
        return said, Finding(Level.MISSING, "devices", why, "see what nvidia-smi says")
    if not found["devices"]:
        why = "driver found, no usable GPU"
        return said, Finding(Level.MISSING, "devices", why, "see what nvidia-smi says")
    names = ", ".join(
        f"{name} (sm_{major}{minor}, {memory / 2**30:.0f} GiB)"
        for name, major, minor, memory in found["devices"]
    )
    return said, Finding(Level.OK, "devices", names)


def probe(script: str) -> dict[str, Any]:
    """Run a script that prints JSON in a separate process, and return what it printed.

    If the process dies, hangs or prints something else, the result has an `error` and the stage
    `package`.
    """
    command = [sys.executable, "-P", "-c", script, *filter(None, sys.path)]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=_SECONDS
        )
    except subprocess.TimeoutExpired:
        return _dead(f"no answer within {_SECONDS} s")
    try:
        found: dict[str, Any] = json.loads("{" + done.stdout.rpartition("\n{")[2])
    except json.JSONDecodeError:
        said = (done.stderr.strip().splitlines() or ["it printed nothing"])[-1]
        return _dead(f"the process ended with status {done.returncode}: {said}")
    return found


def _dead(text: str) -> dict[str, Any]:
    return {"stage": "package", "error": ["died", text, None]}
