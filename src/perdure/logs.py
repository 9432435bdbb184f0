"""Log events with a name and fields, written to standard error without secrets.

Of one warning or error, a minute has only so many lines; the others are counted, and their number is logged. So a
stranger who makes the gateway fail again and again fills no disk.
"""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, TextIO

from perdure.core.printable_text import printable_line, printable_text, redact

MAX_REPEATED_LINES = 30  # of one warning or error, in each period
PERIOD_SECONDS = 60.0
MAX_COUNTED_EVENTS = 1000  # in memory; beyond, a new period begins


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
        line = f"{when} {record.levelname.lower():7} {printable_line(record.getMessage())}{fields}"
        return f"{line}\n{printable_text(self.formatException(record.exc_info))}" if record.exc_info else line


class BoundedHandler(logging.StreamHandler[TextIO]):
    """Writes log lines; of warnings and errors that repeat, no more than so many in each period."""

    def __init__(self, stream: TextIO, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(stream)
        self._clock = clock
        self._period_began = clock()
        self._lines: dict[tuple[str, str], int] = {}  # in this period, by logger and event

    def emit(self, record: logging.LogRecord) -> None:
        self.report_left_out()
        if record.levelno < logging.WARNING:
            super().emit(record)
            return
        event = (record.name, str(record.msg).partition("\n")[0][:100])
        self._lines[event] = self._lines.get(event, 0) + 1
        if self._lines[event] <= MAX_REPEATED_LINES:
            super().emit(record)

    def report_left_out(self) -> None:
        """At the end of a period, log how many lines of which event were left out."""
        if self._clock() - self._period_began >= PERIOD_SECONDS or len(self._lines) > MAX_COUNTED_EVENTS:
            self._begin_period()

    def _begin_period(self) -> None:
        counted, self._lines, self._period_began = self._lines, {}, self._clock()
        for (name, event), lines in counted.items():
            if lines > MAX_REPEATED_LINES:
                record = logging.LogRecord(name, logging.WARNING, "", 0, "lines_left_out", None, None)
                record.__dict__["fields"] = {"event": event, "count": lines - MAX_REPEATED_LINES}
                super().emit(record)

    def close(self) -> None:
        self._begin_period()
        super().close()


@lru_cache(maxsize=1)
def _format_second(seconds: int) -> str:
    """A time to the second; cached, because several events share a second."""
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))


def _format_field(value: Any) -> str:
    text = str(value)
    return text if text and text.isprintable() and " " not in text else repr(text)


def to_stderr(level: int = logging.INFO, secrets: Sequence[str] = ()) -> None:
    """Write our events to standard error, one line each, and the warnings of libraries."""
    writer = BoundedHandler(sys.stderr)
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


def report_left_out() -> None:
    """Log how many lines were left out, if it is time; otherwise they are told with the next line."""
    for handler in logging.getLogger("perdure").handlers:
        if isinstance(handler, BoundedHandler):
            handler.report_left_out()
