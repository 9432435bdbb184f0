"""Log events with a name and fields, written to standard error without secrets."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from perdure.core.redaction import redact


class Log:
    """A logger of events; one event per transition, named as its journal entry."""

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
        """Log an unexpected error with its traceback."""
        self._write(logging.ERROR, event, fields, error)

    def _write(
        self, level: int, event: str, fields: dict[str, Any], exc_info: BaseException | None = None
    ) -> None:
        if not self._logger.isEnabledFor(level):
            return
        crash = (type(exc_info), exc_info, exc_info.__traceback__) if exc_info else None
        # Not by `Logger.log`, which walks the stack for its caller: our lines do not name it.
        record = logging.LogRecord(self._logger.name, level, "", 0, event, None, crash)
        record.__dict__["fields"] = fields
        self._logger.handle(record)


class _EventFormatter(logging.Formatter):
    """Formats an event as one line, without the secrets that an error message may contain."""

    def __init__(self, secrets: Sequence[str] = ()) -> None:
        super().__init__()
        self._secrets = secrets

    def format(self, record: logging.LogRecord) -> str:
        return redact(self._format_event(record), self._secrets)

    def _format_event(self, record: logging.LogRecord) -> str:
        fields = "".join(
            f" {name}={_format_field(value)}" for name, value in getattr(record, "fields", {}).items()
        )
        when = f"{_format_second(int(record.created))}.{int(record.msecs):03}Z"
        line = f"{when} {record.levelname.lower():7} {record.getMessage()}{fields}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


@lru_cache(maxsize=1)
def _format_second(seconds: int) -> str:
    """A time to the second; cached, because several events share a second."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


def _format_field(value: Any) -> str:
    text = str(value)
    return text if text and text.isprintable() and " " not in text else repr(text)


def to_stderr(level: int = logging.INFO, secrets: Sequence[str] = ()) -> None:
    """Write our events to standard error, one line each, and the warnings of libraries."""
    writer = logging.StreamHandler(sys.stderr)
    writer.setFormatter(_EventFormatter(secrets))
    logger = logging.getLogger("perdure")
    logger.handlers = [writer]
    logger.setLevel(level)
    logger.propagate = False
    others = logging.getLogger()
    others.handlers = [writer]
    others.setLevel(logging.DEBUG if level == logging.DEBUG else logging.WARNING)
    # Our lines name neither thread nor process, so no record needs them.
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
