"""What a driver's error codes mean for a candidate, and for the process that got them.

Codes and names are those of `CUresult` in CUDA's driver API.
"""

from __future__ import annotations

from autosched.errors import DeviceError

_NAMES = {
    1: "invalid value",
    2: "out of memory",
    46: "device unavailable",
    100: "no device",
    200: "invalid image",
    209: "no kernel image for this device",
    214: "uncorrectable ECC error",
    218: "invalid PTX",
    222: "unsupported PTX version",
    226: "contained error",
    700: "illegal address",
    701: "launch out of resources",
    702: "launch timeout",
    710: "assertion",
    714: "hardware stack error",
    715: "illegal instruction",
    716: "misaligned address",
    717: "invalid address space",
    718: "invalid program counter",
    719: "launch failed",
    720: "cooperative launch too large",
    802: "system not ready",
    803: "driver and library differ",
    804: "compatibility not supported on this device",
    805: "connection to the MPS server failed",
    999: "unknown error",
}

# The kind of failure of each code; kinds in _KEEPS keep the process.
_KINDS = {
    **dict.fromkeys((1, 701, 720), "illegal"),
    **dict.fromkeys((2,), "memory"),
    **dict.fromkeys((200, 209, 218, 222), "error"),
    **dict.fromkeys((700, 710, 714, 715, 716, 717, 718, 719), "crash"),
    **dict.fromkeys((702,), "timeout"),
    **dict.fromkeys((46, 100, 214, 226, 802, 803, 804, 805, 999), "lost"),
}
CODES = tuple(_KINDS)
IMAGE_CODES = (200, 209, 218, 222)  # of loading: driver and compiler do not fit
_KEEPS = ("illegal", "memory")


def device_error(code: int, where: str, stage: str) -> DeviceError:
    """The error for a driver's result `code` in `where` (the name of a kernel or call).

    An unknown code ends the process, because its context may no longer work. An invalid value is
    the candidate's fault only at a launch.
    """
    kind = _KINDS.get(code, "error")
    if code == 1 and stage != "run":
        kind = "error"
    ends = not (kind in _KEEPS or code in IMAGE_CODES or code == 1)
    name = _NAMES.get(code, "an error that is not known here")
    text = f"{name} in {where} (CUDA error {code})"
    return DeviceError(text, stage=stage, kind=kind, code=code, worker_ends=ends)
