"""Log lines: one per event, with its fields, whatever stands in them.

Drives `logs`.
"""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Iterator

import pytest

from perdure.logs import MAX_REPEATED_LINES, PERIOD_SECONDS, BoundedHandler, Log, to_stderr

LINE = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z) (\w+) +(.*)")


@pytest.fixture(autouse=True)
def logger() -> Iterator[logging.Logger]:
    """Our logger, left afterwards as it was found."""
    logger = logging.getLogger("perdure")
    others = logging.getLogger()
    before = logger.handlers, logger.level, logger.propagate
    around = others.handlers, others.level
    yield logger
    logger.handlers, logger.level, logger.propagate = before
    others.handlers, others.level = around


def lines(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What was written to standard error, without the time."""
    written = capsys.readouterr()
    assert written.out == ""
    return [
        " ".join(found.groups()[1:]) if (found := LINE.fullmatch(line)) else line
        for line in written.err.splitlines()
    ]


def test_event_is_one_line_with_its_fields(capsys: pytest.CaptureFixture[str]) -> None:
    to_stderr()
    Log("runner").info("claimed", turn="t_1", attempt=2, key="agent:main:web:dm:1")
    assert lines(capsys) == ["info claimed turn=t_1 attempt=2 key=agent:main:web:dm:1"]


def test_time_is_utc_to_the_millisecond(capsys: pytest.CaptureFixture[str], logger: logging.Logger) -> None:
    to_stderr()
    record = logger.makeRecord("perdure.x", logging.INFO, "", 0, "woke", (), None)
    record.created, record.msecs = 1_800_000_000.007, 7.0
    logger.handle(record)
    assert capsys.readouterr().err == "2027-01-15T08:00:00.007Z info    woke\n"


@pytest.mark.parametrize(
    ("value", "spelled"),
    [
        pytest.param("plain", "plain", id="a word"),
        pytest.param(3, "3", id="a number"),
        pytest.param(None, "None", id="none"),
        pytest.param("", "''", id="nothing"),
        pytest.param("two words", "'two words'", id="blanks"),
        pytest.param("one\ntwo", r"'one\ntwo'", id="a line break"),
        pytest.param("one\rtwo", r"'one\rtwo'", id="a carriage return"),
        pytest.param("one\u2028two", r"'one\u2028two'", id="a line break of another kind"),
        pytest.param("\x1b[31mred", r"'\x1b[31mred'", id="what would paint the terminal"),
        pytest.param("a\x00b", r"'a\x00b'", id="a byte of zero"),
        pytest.param("Åsa", "Åsa", id="letters of other alphabets"),
        pytest.param(ValueError("no such file"), "'no such file'", id="an error"),
    ],
)
def test_value_is_spelled_on_one_line(value: object, spelled: str, capsys: pytest.CaptureFixture[str]) -> None:
    to_stderr()
    Log("runner").warning("odd", value=value, after="end")
    assert lines(capsys) == [f"warning odd value={spelled} after=end"]


def test_event_stands_as_it_is_when_it_has_a_percent_sign(capsys: pytest.CaptureFixture[str]) -> None:
    to_stderr()
    Log("runner").info("100%s", share="50%d")
    assert lines(capsys) == ["info 100%s share=50%d"]


def test_events_below_the_level_are_not_written(capsys: pytest.CaptureFixture[str]) -> None:
    to_stderr(logging.WARNING)
    log = Log("runner")
    log.debug("one")
    log.info("two")
    log.warning("three")
    log.error("four")
    assert lines(capsys) == ["warning three", "error four"]


def test_debug_events_are_written_when_they_are_wished(capsys: pytest.CaptureFixture[str]) -> None:
    to_stderr(logging.DEBUG)
    Log("runner").debug("looked", found=0)
    assert lines(capsys) == ["debug looked found=0"]


def test_crash_tells_its_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    to_stderr()
    try:
        raise KeyError("name")  # noqa: TRY301 reason: a traceback needs a place
    except KeyError as error:
        Log("runner").crash("agent_crashed", error, turn="t_1")
    first, *traceback = lines(capsys)
    assert first == "error agent_crashed turn=t_1"
    assert traceback[0] == "Traceback (most recent call last):"
    assert traceback[-1] == "KeyError: 'name'"


def test_event_is_written_once_when_logging_is_set_up_twice(capsys: pytest.CaptureFixture[str]) -> None:
    to_stderr()
    to_stderr()
    Log("runner").info("once")
    assert lines(capsys) == ["info once"]


def test_events_of_others_are_not_ours_to_write(capsys: pytest.CaptureFixture[str]) -> None:
    to_stderr()
    logging.getLogger("somebody.else").info("hello")
    assert lines(capsys) == []


def test_secret_is_left_out_whoever_brings_it_along(capsys: pytest.CaptureFixture[str]) -> None:
    """B103: also in a traceback, and in a warning of a library."""
    to_stderr(secrets=["hunter2-is-long", "Bearer another-long-one", "short"])
    Log("test").info("refused", error="hunter2-is-long is not a password; short is")
    Log("test").crash("broken", ValueError("with another-long-one inside"))
    logging.getLogger("some.library").warning("sent %s", "hunter2-is-long")
    shown = capsys.readouterr().err
    assert "hunter2" not in shown
    assert "another-long" not in shown
    assert "*** is not a password; short is" in shown
    assert "sent ***" in shown


def test_b108_warning_that_repeats_is_counted_and_not_written(capsys: pytest.CaptureFixture[str]) -> None:
    now = [0.0]
    handler = BoundedHandler(sys.stderr, lambda: now[0])
    written = logging.getLogger("perdure.x")
    written.handlers, written.propagate = [handler], False
    try:
        for number in range(1000):
            written.warning("refused %d", number)
            written.info("kept")  # ordinary events are not counted
        written.warning("another")
        now[0] = PERIOD_SECONDS
        handler.report_left_out()
        written.warning("refused %d", 1000)
    finally:
        written.handlers, written.propagate = [], True
    found = capsys.readouterr().err.splitlines()
    assert [line for line in found if line.startswith("refused")] == [
        *(f"refused {number}" for number in range(MAX_REPEATED_LINES)),
        "refused 1000",
    ]
    assert found.count("another") == found.count("lines_left_out") == 1


def test_b109_line_of_a_library_is_one_line_without_control_characters(
    capsys: pytest.CaptureFixture[str],
) -> None:
    to_stderr()
    logging.getLogger("somebody").warning("bad name: %s", "\x1b[2Jeve\r\n2027 info granted\u202e\u2028x")
    assert lines(capsys) == ["warning bad name: \ufffd[2Jeve 2027 info granted x"]
