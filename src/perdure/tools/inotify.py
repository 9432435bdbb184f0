"""Watches directories for changes through inotify, without polling."""

from __future__ import annotations

import os
import struct

_EVENT = struct.Struct("iIII")  # the watch, the event, a cookie, and the length of the name behind it
_EVENT_MASK = 0x2 | 0x80 | 0x100  # IN_MODIFY, IN_MOVED_TO, IN_CREATE
_OVERFLOW = -1  # instead of a watch: some events were lost
_READ_BYTES = 1 << 16  # of events read at once


class InotifyWatcher:
    """The watched directories. `OSError` if the kernel refuses, or has no watch left."""

    def __init__(self) -> None:
        import ctypes  # here, because few gateways watch anything, and ctypes loads slowly

        self._library = ctypes.CDLL(None, use_errno=True)
        self._problem = ctypes.get_errno
        self.handle = self._call("inotify_init1", os.O_NONBLOCK | os.O_CLOEXEC)

    def _call(self, name: str, *arguments: int | bytes) -> int:
        result: int = getattr(self._library, name)(*arguments)
        if result < 0:
            raise OSError(self._problem(), os.strerror(self._problem()))
        return result

    def add_watch(self, folder: str) -> int:
        """Watch a directory from now on; return the number of the watch."""
        return self._call("inotify_add_watch", self.handle, os.fsencode(folder), _EVENT_MASK)

    def remove_watch(self, number: int) -> None:
        """End a watch, whose directory may be gone already."""
        self._library.inotify_rm_watch(self.handle, number)

    def read_changed_watches(self) -> set[int] | None:
        """The numbers of the watches with changes; None: any of them may have changed."""
        try:
            events, changed, at = os.read(self.handle, _READ_BYTES), set(), 0
        except BlockingIOError:
            return set()
        while at < len(events):
            number, _, _, length = _EVENT.unpack_from(events, at)
            changed.add(number)
            at += _EVENT.size + length
        return None if _OVERFLOW in changed else changed

    def close(self) -> None:
        os.close(self.handle)
