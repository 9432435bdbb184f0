"""Log events have a name and fields: one event per transition, with the same word as the journal's entry."""

from __future__ import annotations

import logging
import sys
import time
from typing import Any


class Log:
    """A logger whose events are a name and fields."""

    def __init__(self, room: str) -> None:
        self._logger = logging.getLogger(f"perdure.{room}")

    def debug(self, event: str, **fields: Any) -> None:
        self._write(logging.DEBUG, event, fields)

    def info(self, event: str, **fields: Any) -> None:
        self._write(logging.INFO, event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        self._write(logging.WARNING, event, fields)

    def error(self, event: str, **fields: Any) -> None:
        self._write(logging.ERROR, event, fields)

    def crash(self, event: str, error: BaseException, **fields: Any) -> None:
        """An error that nobody foresaw, with its traceback."""
        self._write(logging.ERROR, event, fields, error)

    def _write(
        self, level: int, event: str, fields: dict[str, Any], exc_info: BaseException | None = None
    ) -> None:
        if self._logger.isEnabledFor(level):
            self._logger.log(level, event, extra={"fields": fields}, exc_info=exc_info)


class _Format(logging.Formatter):
    converter = staticmethod(time.gmtime)

    def format(self, record: logging.LogRecord) -> str:
        fields = "".join(f" {name}={_plain(value)}" for name, value in getattr(record, "fields", {}).items())
        when = self.formatTime(record, "%Y-%m-%dT%H:%M:%S")
        line = f"{when}.{record.msecs:03.0f}Z {record.levelname.lower():7} {record.getMessage()}{fields}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


def _plain(value: Any) -> str:
    text = str(value)
    return text if text and text.isprintable() and " " not in text else repr(text)


def to_stderr(level: int = logging.INFO) -> None:
    """Write events of ours to standard error, one line each."""
    writer = logging.StreamHandler(sys.stderr)
    writer.setFormatter(_Format())
    logger = logging.getLogger("perdure")
    logger.handlers = [writer]
    logger.setLevel(level)
    logger.propagate = False
