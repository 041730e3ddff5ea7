"""Results of compilers kept in a folder, so that nothing is compiled twice.

An entry is one file, written under another name and renamed, so that several processes may share
the folder. A file that is damaged, belongs to another key or has another format counts as missing.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class KeptFiles:
    """At most about `max_bytes` of files in `folder`; the least recently used ones go first.

    Their names end in `suffix`, and they begin with `magic`. Where they are `private`, files that
    others own or may write to count as missing, too: what they hold is run by this process.
    """

    folder: Path
    suffix: str
    magic: bytes
    max_bytes: int
    private: bool = False

    def get(self, key: str) -> bytes | None:
        """The content of the entry of `key`, or None."""
        path = self.folder / (key + self.suffix)
        try:
            with path.open("rb") as file:
                if self.private and not _is_private(os.fstat(file.fileno())):
                    return None
                data = file.read()
            os.utime(path)  # marks it as just used
        except OSError:
            return None
        start = len(self.magic) + hashlib.sha256().digest_size
        digest, content = data[len(self.magic) : start], data[start:]
        if data[: len(self.magic)] != self.magic or _digest(key, content) != digest:
            return None
        return content

    def put(self, key: str, content: bytes) -> None:
        """Keep an entry; if the folder cannot be written, it stays as it is."""
        with suppress(OSError):
            self.folder.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=self.folder, prefix=".new-")
            try:
                with os.fdopen(handle, "wb") as file:
                    file.write(self.magic + _digest(key, content) + content)
                Path(name).replace(self.folder / (key + self.suffix))
            except OSError:
                Path(name).unlink(missing_ok=True)
                raise
            self._shrink()

    def clear(self) -> int:
        """Remove all entries; returns how many there were."""
        removed = 0
        for path in self.folder.glob("*" + self.suffix):
            with suppress(OSError):  # another process may have removed it
                path.unlink()
                removed += 1
        return removed

    def _shrink(self) -> None:
        entries = []
        for path in self.folder.glob("*" + self.suffix):
            with suppress(OSError):  # another process may have removed it
                status = path.stat()
                entries.append((status.st_mtime_ns, path, status.st_size))
        total = sum(size for _, _, size in entries)
        for _, path, size in sorted(entries):
            if total <= self.max_bytes:
                return
            path.unlink(missing_ok=True)
            total -= size


def _digest(key: str, content: bytes) -> bytes:
    return hashlib.sha256(key.encode() + b"\0" + content).digest()


def _is_private(status: os.stat_result) -> bool:
    others = stat.S_IWGRP | stat.S_IWOTH
    return status.st_uid == os.geteuid() and not status.st_mode & others
