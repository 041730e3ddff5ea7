"""Cubins kept in a folder, so that no source is compiled twice (`kept_files.py`).

The key covers everything that the cubin depends on: source, options (with the architecture),
version and size of the compiler.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from autosched.cache_folder import cache_folder
from autosched.codegen.nvrtc import Compiled, Nvrtc, nearest_arch
from autosched.codegen.nvrtc_log import resources
from autosched.errors import ConfigError
from autosched.kept_files import KeptFiles

_LENGTH = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class CubinCache:
    """At most about `max_bytes` of cubins in `folder`; the least recently used ones go first."""

    folder: Path
    max_bytes: int = 1 << 28

    @property
    def files(self) -> KeptFiles:
        """The folder's files."""
        return KeptFiles(self.folder, ".cubin", b"ASCUBIN3", self.max_bytes)

    def compile(
        self,
        nvrtc: Nvrtc,
        source: str,
        arch: str,
        extra: Sequence[str] = (),
        statements: Mapping[int, str] | None = None,
    ) -> Compiled:
        """The result of `nvrtc.compile`, from the folder if it is there (then in 0 seconds)."""
        chosen = nearest_arch(arch, nvrtc.archs)
        if chosen is None:
            return nvrtc.compile(source, arch, extra, statements)  # this says what is wrong
        key = cache_key(source, nvrtc.options(chosen, extra), nvrtc.build)
        found = self.get(key)
        if found is None:
            found = nvrtc.compile(source, arch, extra, statements)
            self.put(key, found)
        return found

    def get(self, key: str) -> Compiled | None:
        """The entry of `key`, or None."""
        content = self.files.get(key)
        if content is None:
            return None
        (length,) = _LENGTH.unpack_from(content)
        cubin = _LENGTH.size + length  # where it begins
        header = json.loads(content[_LENGTH.size : cubin])
        log: str = header["log"]
        return Compiled(content[cubin:], log, resources(log), 0.0, header["arch"])

    def put(self, key: str, compiled: Compiled) -> None:
        """Keep an entry; if the folder cannot be written, the cache stays as it is."""
        header = json.dumps({"log": compiled.log, "arch": compiled.arch}).encode()
        self.files.put(key, _LENGTH.pack(len(header)) + header + compiled.cubin)


def cubin_cache() -> CubinCache | None:
    """The cubins of kernels that processes have built, `cubins` in the folder of the cache.

    None where the user has no folder.
    """
    try:
        return CubinCache(cache_folder() / "cubins")
    except ConfigError:
        return None


def cache_key(source: str, options: Sequence[str], build: str) -> str:
    """The name of an entry: a hash of everything that determines the cubin."""
    parts = json.dumps([source, list(options), build])
    return hashlib.sha256(parts.encode()).hexdigest()
