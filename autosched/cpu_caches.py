"""The sizes of a CPU's caches."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

TYPICAL = (32 * 2**10, 2**20, 32 * 2**20)
"""L1, L2 and L3 in bytes where the system does not report them: a server core of recent years."""

_UNITS = {"K": 2**10, "M": 2**20, "G": 2**30}


@lru_cache(maxsize=1)
def cache_sizes(folder: Path = Path("/sys/devices/system/cpu/cpu0/cache")) -> tuple[int, ...]:
    """Bytes of the first core's data or unified L1, L2 and L3, as Linux reports them.

    A level the system does not report gets its size from TYPICAL.
    """
    found = dict(enumerate(TYPICAL, 1))
    for entry in sorted(folder.glob("index*")):
        try:
            if (entry / "type").read_text().strip() == "Instruction":
                continue
            text = (entry / "size").read_text().strip()
            level = int((entry / "level").read_text())
            found[level] = int(text.rstrip("KMG")) * _UNITS.get(text[-1:], 1)
        except (OSError, ValueError):
            continue
    return found[1], found[2], found[3]
