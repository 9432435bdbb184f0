"""The folder that the file tools never leave."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from perdure.core import texts
from perdure.errors import ToolFailed
from perdure.tools.attachments import ATTACHMENTS_FOLDER

# Calls of one step run side by side. Without a lock, of two edits of one file the first would be lost.
_LOCKS = [threading.Lock() for _ in range(64)]


class Workspace:
    """A folder, and what is in it by the paths that a model uses."""

    def __init__(self, root: Path, home: Path | None = None) -> None:
        """`home` has the files that came with messages: they can be read, by whoever was told where they are."""
        self._root = root.absolute()
        self._attachments = home.absolute() / ATTACHMENTS_FOLDER if home is not None else None

    def resolve(self, path: str, *, allow_attachments: bool = False) -> Path:
        """The real place of a path, all links followed; refused if that is not inside the folder.

        With `arrived`, it may also be a file that came with a message. It is looked at now. Another program that
        puts a link there before the place is used could still lead us out, so the folder belongs to nobody whom
        one would not trust with that.
        """
        try:
            root = self._root.resolve()
            asked = Path(path).expanduser() if path.split("/", 1)[0] == "~" else Path(path)
            place = (root / asked).resolve()
        except (OSError, RuntimeError, ValueError) as error:  # a loop of links, no home, a zero byte
            raise ToolFailed(texts.file_tools.bad_path(path, error)) from error
        if not place.is_relative_to(root) and not (allow_attachments and self._is_attachment(place)):
            raise ToolFailed(texts.file_tools.outside_root(path, str(root)))
        return place

    def display_path(self, path: Path) -> str:
        """A place as a model may ask for it again."""
        root = self._root.resolve()
        whole = root == Path(root.anchor) or not path.is_relative_to(root)
        shown = path if whole else path.relative_to(root)
        return str(shown).encode(errors="replace").decode()

    def _is_attachment(self, path: Path) -> bool:
        """Whether it is a file of a message: only the file, so that nobody can look which others there are."""
        if self._attachments is None or not path.is_relative_to(self._attachments.resolve()):
            return False
        return len(path.relative_to(self._attachments.resolve()).parts) == 2

    @contextmanager
    def locked(self, path: str) -> Iterator[Path]:
        """The place of a path, while nobody else of this process changes it."""
        place = self.resolve(path)
        with _LOCKS[hash(place) % len(_LOCKS)], translate_file_errors(self.display_path(place)):
            yield place


@contextmanager
def translate_file_errors(name: str) -> Iterator[None]:
    """Errors of the file system are told as a sentence."""
    try:
        yield
    except FileNotFoundError as error:
        raise ToolFailed(texts.file_tools.no_such_file(name)) from error
    except (FileExistsError, NotADirectoryError) as error:
        raise ToolFailed(texts.file_tools.parent_is_file(name)) from error
    except OSError as error:
        raise ToolFailed(texts.file_tools.unusable(name, error.strerror or str(error))) from error
