"""File locks of the operating system, which allow one gateway per home and per database file.

A lock ends with the process that holds it, however the process ends: a zombie or a reused process id never counts
as alive. The process id in the file is only for people to read.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from perdure.errors import ConfigurationError, LockHeld


class FileLock:
    """An exclusive lock, held from `take()` until `release()` or the end of the process."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._descriptor: int | None = None

    def take(self) -> None:
        descriptor = self._open()
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(descriptor, 32).decode(errors="replace").strip() or "unknown"
            os.close(descriptor)
            raise LockHeld(
                f"another gateway is at work here: {self._path} is locked by process {holder}",
                hint="Stop that gateway first, or give this one its own home with PERDURE_HOME.",
            ) from None
        os.ftruncate(descriptor, 0)
        os.write(descriptor, f"{os.getpid()}\n".encode())
        self._descriptor = descriptor

    def _open(self) -> int:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            return os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise ConfigurationError(
                f"{self._path} cannot be written: {error.strerror}",
                hint="A gateway must be able to write there: make it writable, or choose another home.",
            ) from error

    def release(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def lock_holder(lock: Path) -> int | None:
    """Return the id of the process that holds a lock; None if no process does."""
    try:
        with lock.open() as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                written = file.read().strip()
                return int(written) if written.isdecimal() else None
    except FileNotFoundError:
        pass
    return None
