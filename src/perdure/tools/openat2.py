"""Opens files beneath a folder by descriptors: no link is followed, and nothing outside of the folder is opened.

Whoever may write to the folder can exchange a part of a path for a link at any moment, so a path that was checked
says nothing about the file that is opened by it later. The kernel checks while it opens, with `openat2` of Linux
5.6; elsewhere each part of the path is opened by itself, from the descriptor of the part before.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

OpenBeneath = Callable[
    [int, Sequence[str], int], int
]  # gets a folder's descriptor, the parts of a path, and flags

_SYSTEM_CALL = 437  # on every architecture that Python is built for, but Alpha
_NO_MAGIC_LINKS, _NO_LINKS, _BENEATH = 0x02, 0x04, 0x08
# A kernel without it; or a filter of system calls that does not know it, and says EPERM.
_NOT_THERE = (errno.ENOSYS, errno.EPERM)


def open_beneath(folder: int, parts: Sequence[str], flags: int) -> int:
    """Open a file or folder beneath an opened folder, and return its descriptor.

    `OSError` with ELOOP, ENOTDIR or EXDEV: a part of the path is a link. The path has no `..`.
    """
    try:
        return _call_openat2(folder, os.fsencode("/".join(parts) or "."), flags | os.O_CLOEXEC)
    except OSError as error:
        if error.errno not in _NOT_THERE:
            raise
    return open_by_parts(folder, parts, flags)


def open_by_parts(folder: int, parts: Sequence[str], flags: int) -> int:
    """Do the same without `openat2`: open each part by its name alone, and never a link."""
    if ".." in parts:
        raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
    at = os.dup(folder)
    try:
        for part in parts[:-1]:
            below = os.open(part, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=at)
            os.close(at)
            at = below
        return os.open(parts[-1] if parts else ".", flags | os.O_NOFOLLOW, dir_fd=at)
    finally:
        os.close(at)


def _call_openat2(folder: int, path: bytes, flags: int) -> int:
    import ctypes  # here, because it loads slowly

    how = (ctypes.c_uint64 * 3)(flags, 0, _BENEATH | _NO_MAGIC_LINKS | _NO_LINKS)
    size = ctypes.c_size_t(ctypes.sizeof(how))
    found: int = _library().syscall(
        ctypes.c_long(_SYSTEM_CALL), ctypes.c_int(folder), ctypes.c_char_p(path), ctypes.byref(how), size
    )
    if found < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return found


@cache
def _library() -> Any:
    import ctypes

    library = ctypes.CDLL(None, use_errno=True)
    library.syscall.restype = ctypes.c_long
    return library
