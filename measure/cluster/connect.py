"""Connect to a cluster by its address."""

from __future__ import annotations

import re

from autosched.errors import ConfigError
from autosched.measure.cluster.link import Link
from autosched.needed import needed

_HOST_PORT = re.compile(r"(ray://)?(\[[0-9a-fA-F:]+\]|[\w.-]+):\d{1,5}")
WANTED = "ray://HOST:PORT, HOST:PORT, auto (the cluster of this machine) or local"


def require_address(where: str, address: str) -> str:
    """Return the address. Raises ConfigError, which begins with `where`, if its form is unknown."""
    if address in ("auto", "local") or _HOST_PORT.fullmatch(address):
        return address
    raise ConfigError(f"{where}: expected {WANTED}, found {address!r:.60}")


def connect(address: str) -> Link:
    """Connect to a cluster. Raises ConfigError when Ray is missing or no cluster answers."""
    require_address("target.hosts", address)
    needed(
        "ray",
        "target.hosts needs it: pip install 'autosched[ray]' here and on every node",
        "target.hosts needs it: pip install --force-reinstall ray",
    )
    from autosched.measure.cluster.ray_link import RayLink

    return RayLink(address)
