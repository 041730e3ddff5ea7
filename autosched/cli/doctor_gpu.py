"""The checks of `autosched doctor --target cuda` on a GPU, and the values that NVML reports.

The GPU is used by the process that measures, NVML by another one, so that a process that aborts or
hangs costs only a line.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from autosched.cli.diagnosis import Finding, Level
from autosched.errors import MeasureError
from autosched.measure import gpu_runner
from autosched.measure.clocks import THROTTLED, reason_names
from autosched.measure.gpu_worker import GpuWorker
from autosched.target import arch_of

_PARTS = ("context", "add kernel", "L2 flush")
_START_SECONDS, _SECONDS = 60.0, 10.0
_SEE = "see what nvidia-smi says, and the kernel's log"

NVML = """
import json, os, sys
sys.path += [path for path in sys.argv[1:] if path not in sys.path]
from dataclasses import asdict
from autosched.measure.nvml import Nvml
nvml = Nvml()
found = {"driver": nvml.driver(), "missing": nvml.missing}
found["processes"] = sum(map(len, nvml.processes().values()))
found["gpus"] = [{**asdict(nvml.state(h)), **nvml.settings(h)} for h in nvml.handles()]
print("\\n" + json.dumps(found), flush=True)
os._exit(0)
"""


def without_gpu(why: str) -> list[Finding]:
    """The findings if there is no GPU to try."""
    return [Finding(Level.SKIPPED, part, why) for part in _PARTS]


def tried() -> list[Finding]:
    """Create a context on CUDA's first GPU, run a kernel that adds, and overwrite the L2 cache."""
    worker = GpuWorker(gpu_runner.FACTORY)
    steps: tuple[tuple[str, float, Callable[[Any], str]], ...] = (
        ("facts", _START_SECONDS, _context),
        ("probe", _SECONDS, lambda _: "adds 256 numbers as it should"),
        ("flush", _SECONDS, _flush),
    )
    found: list[Finding] = []
    try:
        for part, (request, seconds, text) in zip(_PARTS, steps, strict=True):
            reply = worker.call((request,), seconds, "run")
            found.append(Finding(Level.OK, part, text(reply)))
    except MeasureError as error:
        found.append(Finding(Level.BROKEN, _PARTS[len(found)], str(error), _SEE))
        found += without_gpu("not tried after that")[len(found) :]
    finally:
        worker.stop()
    return found


def _context(facts: dict[str, Any]) -> str:
    watched = (
        "; a display is attached: kernels that take seconds are ended" * facts["kernel_timeout"]
    )
    return (
        f"{facts['name']}, {arch_of(facts['capability'])}, {facts['processors']} multiprocessors, "
        f"{facts['memory'] / 2**30:.0f} GiB, {facts['runtime']}{watched}"
    )


def _flush(reply: tuple[int, float]) -> str:
    size, seconds = reply
    return f"{size / 1e6:.0f} MB in {seconds * 1e6:.0f} us ({size / seconds / 1e9:.0f} GB/s)"


def nvml_and_clocks(
    probe: Callable[[str], dict[str, Any]], driver: tuple[int, int] | None
) -> tuple[Finding, Finding]:
    """The findings about NVML and the clocks; `probe` runs a script in a separate process."""
    found = probe(NVML)
    if "error" in found:
        found = {"missing": f"NVML failed: {found['error'][1]}"}
    missing = found["missing"]
    unknown = Finding(Level.SKIPPED, "clocks", "not known without NVML")
    if "not installed" in missing:
        text = "not installed, clocks and temperature are not recorded"
        return Finding(Level.MISSING, "NVML", text, "pip install nvidia-ml-py"), unknown
    if missing and driver is None:
        return Finding(Level.SKIPPED, "NVML", "nothing to watch without a driver"), unknown
    if missing:
        text = f"clocks and temperature are not recorded: {missing}"
        return Finding(Level.MISSING, "NVML", text, "see what nvidia-smi says"), unknown
    gpus = found["gpus"]
    busy = f", {found['processes']} processes compute" if found["processes"] else ""
    line = Finding(Level.OK, "NVML", f"driver {found['driver']}, {len(gpus)} devices{busy}")
    return line, _clocks(gpus)


def _clocks(gpus: list[dict[str, Any]]) -> Finding:
    texts = [text for text in map(_clock, gpus) if text]
    if not texts:
        return Finding(Level.SKIPPED, "clocks", "NVML does not report them here")
    highest = [gpu["max_sm_mhz"] for gpu in gpus if gpu["max_sm_mhz"] is not None]
    steady = f"for steadier times, as root: nvidia-smi -lgc {min(highest, default=math.nan)}"
    remedy = f"{steady} (nvidia-smi -rgc undoes it)" if highest else ""
    return Finding(Level.OK, "clocks", "; ".join(texts), remedy)


def _clock(gpu: dict[str, Any]) -> str:
    """A text with the known values of one GPU."""
    of_watts = "" if gpu["power_limit_watts"] is None else f" of {gpu['power_limit_watts']:.0f}"
    of_mhz = "" if gpu["max_sm_mhz"] is None else f" of {gpu['max_sm_mhz']}"
    parts = [
        "" if gpu["sm_mhz"] is None else f"SM {gpu['sm_mhz']}{of_mhz} MHz",
        "" if gpu["memory_mhz"] is None else f"memory {gpu['memory_mhz']} MHz",
        "" if gpu["celsius"] is None else f"{gpu['celsius']} C",
        "" if gpu["watts"] is None else f"{gpu['watts']:.0f}{of_watts} W",
    ]
    held = reason_names((gpu["reasons"] or 0) & THROTTLED)
    return ", ".join([*filter(None, parts), *(f"slowed down by: {name}" for name in held)])
