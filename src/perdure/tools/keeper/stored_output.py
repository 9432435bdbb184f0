"""Writes the output of a command to its directory: the keeper's side of `output.py`."""

from __future__ import annotations

import os

TYPE_CHECKING = False  # see program.py
if TYPE_CHECKING:
    from perdure.tools.keeper.directory import error_reason
else:
    from directory import error_reason


class OutputFiles:
    """The output of a command on disk: its beginning and its end.

    The file `output` holds the first half of what may be stored. The other half rolls: later output fills files
    of a quarter each, named by their offset in the whole, and before a third is opened the oldest is removed. So
    the names say what the files hold, whenever the keeper dies.
    """

    def __init__(self, directory_fd: int, max_bytes: int) -> None:
        self._directory_fd, self._quarter = directory_fd, max_bytes // 4
        self._rolling: list[tuple[str, int]] = []  # name and descriptor of the rolling files
        self._file, self._room = self._open("output"), max_bytes - 2 * self._quarter
        self._head = self._file
        self.total_bytes = self.stored_bytes = 0
        self.problem: list[str] | None = None

    def append(self, piece: bytes) -> None:
        """Count a piece of output, and store it unless the disk refuses."""
        at, self.total_bytes = self.total_bytes, self.total_bytes + len(piece)
        try:
            while piece and self.problem is None and self._make_room(at):
                written = os.write(self._file, piece[: self._room])
                piece, at = piece[written:], at + written
                self.stored_bytes += written
                self._room -= written
        except OSError as error:
            # For good, even if the disk has space again: output has no gap but the one in the middle.
            self.problem = ["output", "", error_reason(error)]

    def _make_room(self, offset: int) -> bool:
        """Whether output at this offset can be stored; after a full file a new one is opened."""
        if not self._room and self._quarter:
            if len(self._rolling) == 2:
                self._drop(*self._rolling.pop(0))
            self._file, self._room = self._open(f"output.{offset}"), self._quarter
            self._rolling.append((f"output.{offset}", self._file))
        return self._room > 0

    def _open(self, name: str) -> int:
        return os.open(name, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600, dir_fd=self._directory_fd)

    def _drop(self, name: str, file: int) -> None:
        os.unlink(name, dir_fd=self._directory_fd)
        os.close(file)
        self.stored_bytes -= self._quarter

    def close(self) -> None:
        """Sync the files to disk and close them."""
        for file in (self._head, *(each for _, each in self._rolling)):
            try:
                os.fsync(file)
            except OSError as error:
                self.problem = self.problem or ["output", "", error_reason(error)]
            os.close(file)
