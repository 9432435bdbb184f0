"""Rulesets of Landlock: which files, ports and processes a confined command reaches, by what the kernel knows."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from perdure.tools.sandbox.system_paths import DEVICE_FILES, shown_system_paths

_CREATE_RULESET, _ASK_VERSION = 444, 1
TRUNCATE_ABI, NETWORK_ABI, DEVICE_ABI, SCOPE_ABI = 3, 4, 5, 6  # the versions that brought these rights

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_FOLDER = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_MAKE_CHARACTER_DEVICE, _MAKE_BLOCK_DEVICE, _TRUNCATE, _DEVICE_CONTROL = 1 << 6, 1 << 11, 1 << 14, 1 << 15
_ALL_FILE_RIGHTS = {3: (1 << 15) - 1, 4: (1 << 15) - 1}  # of ABI 5 and later, one more
_RIGHTS_ON_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _DEVICE_CONTROL
_READ = _EXECUTE | _READ_FILE | _READ_FOLDER
_BIND_TCP, _CONNECT_TCP = 1 << 0, 1 << 1
_ABSTRACT_SOCKETS, _SIGNALS = 1 << 0, 1 << 1

Ruleset = dict[str, Any]  # as `keeper/confinement.py` reads it


def landlock_abi() -> int:
    """The version of Landlock in this kernel; 0 without it."""
    if sys.platform != "linux":
        return 0
    return max(0, int(ctypes.CDLL(None).syscall(_CREATE_RULESET, None, 0, _ASK_VERSION)))


def scope_ruleset(abi: int, ports: Sequence[int] | None) -> Ruleset | None:
    """Rules for a command in bubblewrap: no right on files, because any would forbid it to mount.

    `ports` are those that TCP may connect to; None means all. The kernel is asked for no more than it knows.
    """
    return _ruleset(abi, 0, [], ports)


def file_ruleset(abi: int, read: Sequence[Path], write: Sequence[Path], ports: Sequence[int] | None) -> Ruleset:
    """Rules for a command without bubblewrap: the system and `read` can be read, `write` can be changed."""
    handled = _ALL_FILE_RIGHTS.get(abi, (1 << 16) - 1)
    devices = _READ_FILE | _WRITE_FILE | _DEVICE_CONTROL
    changes = handled & ~(_MAKE_CHARACTER_DEVICE | _MAKE_BLOCK_DEVICE)
    wanted = [(path, _READ) for path in (*shown_system_paths(), Path("/proc"), *read) if path.exists()]
    wanted += [(path, devices) for path in DEVICE_FILES if path.exists()]
    wanted += [(path, changes) for path in write]
    rules = [(path, rights & handled & (-1 if path.is_dir() else _RIGHTS_ON_FILES)) for path, rights in wanted]
    return _ruleset(abi, handled, [[str(path), rights] for path, rights in rules], ports) or {}


def _ruleset(abi: int, files: int, paths: list[list[Any]], ports: Sequence[int] | None) -> Ruleset | None:
    network = _BIND_TCP | _CONNECT_TCP if ports is not None and abi >= NETWORK_ABI else 0
    scope = _ABSTRACT_SOCKETS | _SIGNALS if abi >= SCOPE_ABI else 0
    if not files | network | scope:
        return None
    fields = 1 + (abi >= NETWORK_ABI) + (abi >= SCOPE_ABI)
    # To bind to port 0 is to take any free one. To bind to a chosen one could take the place of the gateway.
    rules = [[port, _CONNECT_TCP] for port in ports or ()] + [[0, _BIND_TCP]] if network else []
    return {"handled": [files, network, scope][:fields], "paths": paths, "ports": rules}
