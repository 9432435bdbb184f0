"""A program that exchanges two names of a folder for each other, again and again, until it is killed."""

from __future__ import annotations

import ctypes
import os
import sys

RENAME_EXCHANGE = 2
AT_FDCWD = -100


def exchange(one: str, other: str) -> None:
    library = ctypes.CDLL(None, use_errno=True)
    if library.renameat2(AT_FDCWD, os.fsencode(one), AT_FDCWD, os.fsencode(other), RENAME_EXCHANGE):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


if __name__ == "__main__":
    sys.stdout.write("exchanging\n")
    sys.stdout.flush()
    while True:
        exchange(sys.argv[1], sys.argv[2])
