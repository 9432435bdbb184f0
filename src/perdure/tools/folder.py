"""The folder that the file tools never leave."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from perdure.core import notes
from perdure.errors import ToolFailed
from perdure.tools.cabinet import FOLDER

# Calls of one step run side by side. Without a lock, of two edits of one file the first would be lost.
_LOCKS = [threading.Lock() for _ in range(64)]


class Folder:
    """A folder, and what is in it by the paths that a model uses."""

    def __init__(self, root: Path, home: Path | None = None) -> None:
        """`home` has the files that came with messages: they can be read, by whoever was told where they are."""
        self._root = root.absolute()
        self._arrived = home.absolute() / FOLDER if home is not None else None

    def find(self, path: str, *, arrived: bool = False) -> Path:
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
            raise ToolFailed(notes.bad_path(path, error)) from error
        if not place.is_relative_to(root) and not (arrived and self._has_arrived(place)):
            raise ToolFailed(notes.outside(path, str(root)))
        return place

    def name(self, place: Path) -> str:
        """A place as a model may ask for it again."""
        root = self._root.resolve()
        whole = root == Path(root.anchor) or not place.is_relative_to(root)
        shown = place if whole else place.relative_to(root)
        return str(shown).encode(errors="replace").decode()

    def _has_arrived(self, place: Path) -> bool:
        """Whether it is a file of a message: only the file, so that nobody can look which others there are."""
        if self._arrived is None or not place.is_relative_to(self._arrived.resolve()):
            return False
        return len(place.relative_to(self._arrived.resolve()).parts) == 2

    @contextmanager
    def changing(self, path: str) -> Iterator[Path]:
        """The place of a path, while nobody else of this process changes it."""
        place = self.find(path)
        with _LOCKS[hash(place) % len(_LOCKS)], in_words(self.name(place)):
            yield place


@contextmanager
def in_words(name: str) -> Iterator[None]:
    """Errors of the file system are told as a sentence."""
    try:
        yield
    except FileNotFoundError as error:
        raise ToolFailed(notes.no_such_file(name)) from error
    except (FileExistsError, NotADirectoryError) as error:
        raise ToolFailed(notes.file_for_folder(name)) from error
    except OSError as error:
        raise ToolFailed(notes.file_trouble(name, error.strerror or str(error))) from error
