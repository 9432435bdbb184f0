"""Resolves paths of the file tools, and refuses those outside of their folder."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from perdure.core import texts
from perdure.errors import ToolFailed
from perdure.tools.attachments import ATTACHMENTS_FOLDER

# Calls of one step run side by side. Without a lock, two edits of one file would lose the first.
_LOCKS = [threading.Lock() for _ in range(64)]


class Workspace:
    """A folder, and the files in it by the paths that a model uses."""

    def __init__(self, root: Path, home: Path | None = None) -> None:
        """`home` has the attachments, which can be read by their paths."""
        self._root = root.absolute()
        self._attachments = home.absolute() / ATTACHMENTS_FOLDER if home is not None else None

    def resolve(self, path: str, *, allow_attachments: bool = False) -> Path:
        """The real path of a file, all links followed; `ToolFailed` if that is outside of the folder.

        With `allow_attachments` it may also be an attachment. The links are followed now: another program that
        puts a link there before the file is used could still lead out of the folder, so only trusted programs may
        write to it.
        """
        try:
            root = self._root.resolve()
            relative = Path(path).expanduser() if path.split("/", 1)[0] == "~" else Path(path)
            resolved = (root / relative).resolve()
        except (OSError, RuntimeError, ValueError) as error:  # a loop of links, no home, a zero byte
            raise ToolFailed(texts.file_tools.bad_path(path, error)) from error
        if not resolved.is_relative_to(root) and not (allow_attachments and self._is_attachment(resolved)):
            raise ToolFailed(texts.file_tools.outside_root(path, str(root)))
        return resolved

    def display_path(self, path: Path) -> str:
        """A path as a model may use it again."""
        root = self._root.resolve()
        whole = root == Path(root.anchor) or not path.is_relative_to(root)
        shown = path if whole else path.relative_to(root)
        return str(shown).encode(errors="replace").decode()

    def _is_attachment(self, path: Path) -> bool:
        """Whether a path is an attachment itself; directories are refused, so that nobody can list the others."""
        if self._attachments is None or not path.is_relative_to(self._attachments.resolve()):
            return False
        return len(path.relative_to(self._attachments.resolve()).parts) == 2

    @contextmanager
    def locked(self, path: str) -> Iterator[Path]:
        """The real path of a file, while no other call of this process changes it."""
        file = self.resolve(path)
        with _LOCKS[hash(file) % len(_LOCKS)], translate_file_errors(self.display_path(file)):
            yield file


@contextmanager
def translate_file_errors(name: str) -> Iterator[None]:
    """Turn errors of the file system into `ToolFailed` with a sentence."""
    try:
        yield
    except FileNotFoundError as error:
        raise ToolFailed(texts.file_tools.no_such_file(name)) from error
    except (FileExistsError, NotADirectoryError) as error:
        raise ToolFailed(texts.file_tools.parent_is_file(name)) from error
    except OSError as error:
        raise ToolFailed(texts.file_tools.unusable(name, error.strerror or str(error))) from error
