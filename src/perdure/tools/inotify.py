"""Folders whose files change: the kernel says so, and nobody needs to look at them again and again."""

from __future__ import annotations

import os
import struct

_EVENT = struct.Struct("iIII")  # which folder, what happened, and how long the name behind it is
_EVENT_MASK = 0x2 | 0x80 | 0x100  # something was written, moved to it, or made in it
_OVERFLOW = -1  # instead of a folder: there were too many events, and some were lost
_READ_BYTES = 1 << 16  # bytes of events that are read at once


class InotifyWatcher:
    """The folders that we are told of. `OSError` if the kernel does not, or does not tell of so many."""

    def __init__(self) -> None:
        import ctypes  # here, because few gateways watch anything, and it takes long to load

        self._library = ctypes.CDLL(None, use_errno=True)
        self._problem = ctypes.get_errno
        self.handle = self._call("inotify_init1", os.O_NONBLOCK | os.O_CLOEXEC)

    def _call(self, name: str, *arguments: int | bytes) -> int:
        result: int = getattr(self._library, name)(*arguments)
        if result < 0:
            raise OSError(self._problem(), os.strerror(self._problem()))
        return result

    def add_watch(self, folder: str) -> int:
        """Be told of a folder from now on, under this number."""
        return self._call("inotify_add_watch", self.handle, os.fsencode(folder), _EVENT_MASK)

    def remove_watch(self, number: int) -> None:
        """Be told of it no more; it may be gone already."""
        self._library.inotify_rm_watch(self.handle, number)

    def read_changed_watches(self) -> set[int] | None:
        """The numbers of the folders in which something has changed; None: it may be any of them."""
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
