"""Cubins kept in a folder, so that no source is compiled twice.

The key covers everything that the cubin depends on: source, options (with the architecture),
version and size of the compiler. An entry is one file, written under another name and renamed, so
that several processes may share the folder. A file that is damaged or has another format counts as
missing.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from autosched.codegen.nvrtc import Compiled, Nvrtc, nearest_arch
from autosched.codegen.nvrtc_log import resources

_MAGIC = b"ASCUBIN2"
_LENGTH = struct.Struct("<Q")
_SUFFIX = ".cubin"


@dataclass(frozen=True, slots=True)
class CubinCache:
    """At most about `max_bytes` of cubins in `folder`; the least recently used ones go first."""

    folder: Path
    max_bytes: int = 1 << 28

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
        path = self.folder / (key + _SUFFIX)
        try:
            data = path.read_bytes()
            os.utime(path)  # marks it as just used
        except OSError:
            return None
        return _read(data)

    def put(self, key: str, compiled: Compiled) -> None:
        """Keep an entry; if the folder cannot be written, the cache stays as it is."""
        header = json.dumps({"log": compiled.log, "arch": compiled.arch}).encode()
        content = _LENGTH.pack(len(header)) + header + compiled.cubin
        with suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self.folder, prefix=".new-")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(_MAGIC + hashlib.sha256(content).digest() + content)
                Path(name).replace(self.folder / (key + _SUFFIX))
            except OSError:
                Path(name).unlink(missing_ok=True)
                raise
            self._shrink()

    def clear(self) -> int:
        """Remove all entries; returns how many there were."""
        removed = 0
        for path in self.folder.glob("*" + _SUFFIX):
            with suppress(OSError):  # another process may have removed it
                path.unlink()
                removed += 1
        return removed

    def _shrink(self) -> None:
        entries = []
        for path in self.folder.glob("*" + _SUFFIX):
            with suppress(OSError):  # another process may have removed it
                status = path.stat()
                entries.append((status.st_mtime_ns, path, status.st_size))
        total = sum(size for _, _, size in entries)
        for _, path, size in sorted(entries):
            if total <= self.max_bytes:
                return
            path.unlink(missing_ok=True)
            total -= size


def cache_key(source: str, options: Sequence[str], build: str) -> str:
    """The name of an entry: a hash of everything that determines the cubin."""
    parts = json.dumps([source, list(options), build])
    return hashlib.sha256(parts.encode()).hexdigest()


def _read(data: bytes) -> Compiled | None:
    """The entry in a file, or None where the file is damaged or has another format."""
    start = len(_MAGIC) + hashlib.sha256().digest_size
    digest, content = data[len(_MAGIC) : start], data[start:]
    if data[: len(_MAGIC)] != _MAGIC or hashlib.sha256(content).digest() != digest:
        return None
    (length,) = _LENGTH.unpack_from(content)
    cubin = _LENGTH.size + length  # where it begins
    header = json.loads(content[_LENGTH.size : cubin])
    log: str = header["log"]
    return Compiled(content[cubin:], log, resources(log), 0.0, header["arch"])
