"""Finds the files that a model names, and opens them beneath the folder of their conversation and nowhere else.

A path is resolved first, with every link, to say what is meant and whether that is inside. Then it is opened by
descriptors without following any link, so that a link that somebody puts there meanwhile leads nowhere.
"""

from __future__ import annotations

import errno
import os
import stat
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct

from perdure.core import texts
from perdure.errors import ToolFailed

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


class ChatFolders(Struct, frozen=True):
    """The folders of one conversation."""

    workspace: Path  # its commands run here, and its file tools work here
    agent_home: Path  # the home directory of its commands
    attachments: tuple[Path, ...] = ()  # files that came or were sent in it, each by its path; only to be read


FindFolders = Callable[[str], Awaitable[ChatFolders]]  # gets a session key; the folders are there when it returns


# Calls of one step run side by side. Without a lock, two edits of one file would lose the first.
_LOCKS = [threading.Lock() for _ in range(64)]
_EXCHANGED = (errno.ELOOP, errno.EXDEV)  # a part of a path became a link after the path was resolved

FileId = tuple[int, int]  # device and inode


class FileLocation(Struct, frozen=True):
    """Where a file or folder is: beneath a folder that the gateway trusts, by parts that are no links."""

    root: Path
    parts: tuple[str, ...]
    name: str  # as a model may use it again
    forbidden: frozenset[FileId] = frozenset()  # files of the gateway, whatever name they have
    opener: OpenBeneath = open_beneath

    @property
    def path(self) -> Path:
        return self.root.joinpath(*self.parts)

    def open(self, flags: int) -> int:
        """Open it without following any link; the caller closes the descriptor."""
        return self._open(self.parts, flags)

    def stat(self) -> os.stat_result:
        """Its status, without opening it for reading: that alone has an effect on some devices."""
        descriptor = self.open(os.O_PATH)
        try:
            return os.fstat(descriptor)
        finally:
            os.close(descriptor)

    @contextmanager
    def opened_parent(self) -> Iterator[int]:
        """The descriptor of the folder that the file is in; the folder is made if it is not there."""
        parents = self.parts[:-1]
        try:
            descriptor = self._open(parents, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:
            self._make_folders(parents)
            descriptor = self._open(parents, os.O_RDONLY | os.O_DIRECTORY)
        try:
            yield descriptor
        finally:
            os.close(descriptor)

    def _make_folders(self, parts: Sequence[str]) -> None:
        self.root.mkdir(parents=True, exist_ok=True)
        for depth, part in enumerate(parts):
            above = self._open(parts[:depth], os.O_PATH | os.O_DIRECTORY)
            try:
                with suppress(FileExistsError):
                    os.mkdir(part, dir_fd=above)
            finally:
                os.close(above)

    def _open(self, parts: Sequence[str], flags: int) -> int:
        root = os.open(self.root, os.O_PATH | os.O_DIRECTORY)
        try:
            return self.opener(root, parts, flags)
        finally:
            os.close(root)


class Workspace:
    """The files of one conversation, by the paths that a model uses."""

    def __init__(self, folders: ChatFolders, home: Path | None = None, opener: OpenBeneath = open_beneath) -> None:
        """`home` is that of the gateway, whose own files are refused."""
        self._root = folders.workspace.absolute()
        self._attachments = [attachment.absolute() for attachment in folders.attachments]
        self._home = home
        self._opener = opener

    def find(self, path: str, *, allow_attachments: bool = False) -> FileLocation:
        """Where a file is, all links followed; `ToolFailed` if that is outside of the folder.

        With `allow_attachments` it may also be an attachment of the conversation, by its path.
        """
        try:
            root = self._root.resolve()
            relative = Path(path).expanduser() if path.split("/", 1)[0] == "~" else Path(path)
            resolved = (root / relative).resolve()
        except (OSError, RuntimeError, ValueError) as error:  # a loop of links, no home, a zero byte
            raise ToolFailed(texts.files.bad_path(path, error)) from error
        forbidden = self._gateway_files(root)
        if allow_attachments and resolved in (each.resolve() for each in self._attachments):
            return FileLocation(resolved.parent, (resolved.name,), _shown(resolved), opener=self._opener)
        if not resolved.is_relative_to(root) or self._is_of_the_gateway(resolved, root):
            raise ToolFailed(texts.files.outside_root(path, str(root)))
        return FileLocation(
            root, resolved.relative_to(root).parts, self._name(resolved, root), forbidden, self._opener
        )

    def _name(self, path: Path, root: Path) -> str:
        return _shown(path if root == Path(root.anchor) else path.relative_to(root))

    def _is_of_the_gateway(self, path: Path, root: Path) -> bool:
        """Whether a path is in the gateway's home, while the folder is outside of it: a folder above the home."""
        home = self._home.resolve() if self._home is not None else None
        return home is not None and path.is_relative_to(home) and not root.is_relative_to(home)

    def _gateway_files(self, root: Path) -> frozenset[FileId]:
        """The gateway's files by number: token, database, configuration; and its home, if that is in the folder.

        A second name for one of them, a hard link, can only be made by whoever reaches the file: nobody in a
        sandbox, and without one somebody who could read the file anyway. But in a folder that has been used
        without a sandbox such a name may have stayed. Other files with several names are fine: installers of
        packages make them all the time.
        """
        if self._home is None:
            return frozenset()
        home = self._home.resolve()
        with suppress(OSError), os.scandir(home) as entries:
            files = {_file_id(entry.stat(follow_symlinks=False)) for entry in entries if _is_plain_file(entry)}
            above = {_file_id(home.stat())} if home.is_relative_to(root) else set()
            return frozenset(files | above)
        return frozenset()

    @contextmanager
    def locked(self, path: str) -> Iterator[FileLocation]:
        """Where a file is, while no other call of this process changes it."""
        location = self.find(path)
        with _LOCKS[hash(location.path) % len(_LOCKS)], translate_file_errors(location.name):
            yield location


def _shown(path: Path) -> str:
    return str(path).encode(errors="replace").decode()


def _is_plain_file(entry: os.DirEntry[str]) -> bool:
    return entry.is_file(follow_symlinks=False)


def _file_id(status: os.stat_result) -> FileId:
    return status.st_dev, status.st_ino


def refuse_forbidden(location: FileLocation, status: os.stat_result) -> None:
    """Refuse an opened file that is no regular one, or that is the gateway's own."""
    if not stat.S_ISREG(status.st_mode):
        raise ToolFailed(texts.files.not_a_file(location.name))
    if _file_id(status) in location.forbidden:
        raise ToolFailed(texts.files.gateway_file(location.name))


@contextmanager
def translate_file_errors(name: str) -> Iterator[None]:
    """Turn errors of the file system into `ToolFailed` with a sentence."""
    try:
        yield
    except FileNotFoundError as error:
        raise ToolFailed(texts.files.no_such_file(name)) from error
    except (FileExistsError, NotADirectoryError) as error:
        raise ToolFailed(texts.files.parent_is_file(name)) from error
    except OSError as error:
        if error.errno in _EXCHANGED:
            raise ToolFailed(texts.files.exchanged(name)) from error
        raise ToolFailed(texts.files.unusable(name, error.strerror or str(error))) from error
