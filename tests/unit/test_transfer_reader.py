"""Reading an export: the whole file is refused, one record is refused, or a warning is enough.

Drives `core/transfer/export_format` and `core/transfer/validation`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Raw

from perdure.core.transfer.export_format import MAX_TIME_MS, format_time, parse_time, read_document
from perdure.core.transfer.validation import read_session_record
from perdure.errors import BadImport, RecordRefused

KEY = "agent:main:web:dm:c1"
Json = dict[str, Any]


def entry(seq: int, kind: str, **body: object) -> Json:
    return {"seq": seq, "kind": kind, "version": 1, "body": body, "at": seq}


def record() -> Json:
    """A session with a finished turn, its message, and its reply in two parts, one of which is still owed."""
    body: Json = {"address": {"platform": "web", "kind": "dm", "chat": "c1"}, "message": "m1", "text": "hi"}
    cause = {"inbox": "in_1", "text": "hi", "sender": {"id": "ada"}, "message": "m1"}
    journal = [
        entry(1, "began", causes=[cause]),
        entry(2, "claimed", run="run_1", epoch=1, attempt=1),
        entry(3, "model_answered", step=1, text="", calls=[{"id": "c", "tool": "look", "arguments": {}}]),
        entry(4, "tool_ended", call="c", outcome="ok", text="seen"),
        entry(5, "finished", text="hello there"),
    ]
    turn: Json = {"id": "t_1", "key": KEY, "generation": 1, "state": "done", "epoch": 1, "attempt": 1}
    message: Json = {"id": "in_1", "event_key": "e1", "key": KEY, "state": "taken", "turn": "t_1", "raw": "{}"}
    file: Json = {
        "id": "att_1",
        "ordinal": 0,
        "name": "a",
        "reference": "r",
        "media_type": "text/plain",
        "size": None,
    }
    return {
        "key": KEY,
        "id": "s_1",
        "state": "open",
        "address": {"platform": "web", "kind": "dm", "chat": "c1", "thread": None},
        "created_at": 1,
        "updated_at": 1,
        "turns": [turn | {"began_at": 1, "updated_at": 5, "journal": journal}],
        "inbox": [
            message
            | {
                "body": body | {"sender": {"id": "ada"}},
                "position": 1,
                "received_at": 1,
                "attachments": [file | {"state": "referenced", "problem": None}],
            }
        ],
        "outbox": [delivery(0, state="sent", position=2), delivery(1, state="owed", position=None)],
    }


def delivery(part: int, **fields: object) -> Json:
    row: Json = {
        "id": f"out_{part}",
        "delivery_key": f"t_1:{part}",
        "lane": "web:dm:c1",
        "key": KEY,
        "turn": "t_1",
    }
    row |= {"reply": "t_1", "part": part, "text": "hello", "reply_to": None, "attempts": 0, "due_at": 5}
    return row | {"receipt": None, "problem": None, "created_at": 5, "updated_at": 5} | fields


def read(value: object) -> tuple[Any, list[str]]:
    return read_session_record(Raw(json.dumps(value)))


def put(path: str, value: object) -> Callable[[Json], None]:
    """Write a value at a path such as `turns.0.state`."""

    def change(target: Any) -> None:
        *steps, last = [int(step) if step.isdigit() else step for step in path.split(".")]
        for step in steps:
            target = target[step]
        target[last] = value

    return change


def cut(path: str) -> Callable[[Json], None]:
    """Remove what is at a path."""

    def change(target: Any) -> None:
        *steps, last = [int(step) if step.isdigit() else step for step in path.split(".")]
        for step in steps:
            target = target[step]
        del target[last]

    return change


# ── the whole file ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("text", "says"),
    [
        pytest.param("", "the import is empty", id="empty"),
        pytest.param('{"perdure":\n {"format": 1,, }}', "line 2, column 15: ", id="not JSON"),
        pytest.param('{"é": "é",\n "é": oops}', "line 2, column 7: ", id="not JSON behind letters of two bytes"),
        pytest.param('{"perdure": {"format": 1}, "sessions": [', "line 1, column 41: it ends", id="cut off"),
        pytest.param('{"a":' * 100_000, "nested too deeply", id="nested without end"),
        pytest.param("[1, 2]", "expected `object`, got `array`", id="a list"),
        pytest.param('{"sessions": []}', "`perdure.format` should be a number", id="of another program"),
        pytest.param('{"perdure": {"format": "1"}, "sessions": []}', "`perdure.format`", id="format as text"),
        pytest.param('{"perdure": {"format": 1}}', "expected `array`, got `null`", id="no sessions"),
        pytest.param(
            '{"perdure": {"format": 1}, "sessions": {}}', "expected `array`", id="sessions are an object"
        ),
        pytest.param('{"perdure": {"format": 2, "version": "9"}, "sessions": []}', "the format 2", id="newer"),
    ],
)
def test_import_is_refused_as_a_whole_with_place_and_hint(text: str, says: str) -> None:
    with pytest.raises(BadImport) as caught:
        read_document(text)
    assert says in caught.value.message
    assert caught.value.hint


def test_unknown_field_beside_the_sessions_is_a_warning() -> None:
    records, warnings = read_document('{"perdure": {"format": 1}, "sessions": [1, {}], "people": []}')
    assert [bytes(one) for one in records] == [b"1", b"{}"]
    assert warnings == ["people: an unknown field, ignored"]


# ── one record ──────────────────────────────────────────────────────────────────────────────────────────────


def test_record_that_our_store_could_have_written_is_believed() -> None:
    session, warnings = read(record())
    assert (session.id, len(session.turns), warnings) == ("s_1", 1, [])


@pytest.mark.parametrize("address", [None, "web:dm:c1", {"platform": "web", "kind": "dm", "chat": "c1"}])
def test_address_may_be_spelled_in_several_ways(address: object) -> None:
    assert read(record() | {"address": address})[1] == []


@pytest.mark.parametrize("value", [None, 7, "text", [], True])
def test_record_that_is_no_object_is_refused(value: object) -> None:
    with pytest.raises(RecordRefused, match="expected `object`, got"):
        read(value)


FAULTS = [
    (cut("key"), ".key", "expected this field, got none"),
    (put("key", "agent:main:web"), ".key", "not a session key: 'agent:main:web'. A key looks like"),
    (put("key", "agent:main:web:dm:%41"), ".key", 'expected "agent:main:web:dm:A", got "agent:main:web:dm:%41"'),
    (put("id", ""), ".id", 'expected `str` of length >= 1, got ""'),
    (put("state", "asleep"), ".state", 'expected one of open, suspended, closed, got "asleep"'),
    (put("address", "web:dm:c2"), ".address", 'got "web:dm:c2"'),
    (put("address", {"platform": "web", "kind": "dm", "chat": "c2"}), ".address", "as its key says, got"),
    (put("address", {"chat": "c1"}), ".address", 'as its key says, got {"chat":"c1"}'),
    (put("created_at", "today"), ".created_at", "expected `int`, got `str`"),
    (put("updated_at", -5), ".updated_at", "expected `int` >= 0, got -5"),
    (put("resume_pending", "yes"), ".resume_pending", "expected `bool | null`, got `str`"),
    (put("was_auto_reset", True), ".auto_reset_reason", "expected a text, as was_auto_reset is true, got null"),
    (put("turns", {}), ".turns", "expected `array`, got `object`"),
    (put("turns.0", 3), ".turns[0]", "expected `object`, got `int`"),
    (put("turns.0.key", "x"), ".turns[0].key", "not a session key"),
    (put("turns.0.state", "stuck"), ".turns[0].state", 'got "stuck"'),
    (put("turns.0.state", "failed"), ".turns[0].state", 'expected "done", as its journal says, got "failed"'),
    (put("turns.0.journal", []), ".turns[0].journal", 'expected "began" as its first entry'),
    (cut("turns.0.journal.0"), ".turns[0].journal", 'expected "began" as its first entry'),
    (cut("turns.0.journal.1"), ".turns[0].journal[3]", "a turn that is queued cannot be finished"),
    (
        cut("turns.0.journal.2"),
        ".turns[0].journal[2].body.call",
        "expected a call that a model wished for, got 'c'",
    ),
    (put("turns.0.journal.1.seq", 1), ".turns[0].journal[1].seq", "expected more than 1, got 1"),
    (put("turns.0.journal.1.kind", "hoped"), ".turns[0].journal[1].kind", "an entry 'hoped' of version 1"),
    (put("turns.0.journal.1.version", 9), ".turns[0].journal[1].kind", "of version 9, which this version cannot"),
    (put("turns.0.journal.1.version", 0), ".turns[0].journal[1].version", "expected `int` >= 1, got 0"),
    (put("turns.0.journal.1.body", []), ".turns[0].journal[1].body", "expected `object`, got `array`"),
    (cut("turns.0.journal.1.body.run"), ".turns[0].journal[1].body.run", "expected this field, got none"),
    (put("turns.0.journal.1.body.run", 1), ".turns[0].journal[1].body.run", "expected `str`, got `int`"),
    (put("inbox.0.state", "rejected"), ".inbox[0].state", "expected one of waiting, taken"),
    (put("inbox.0.state", "waiting"), ".inbox[0].turn", 'expected null, as the state is waiting, got "t_1"'),
    (put("inbox.0.turn", None), ".inbox[0].turn", "expected a value, as the state is taken, got null"),
    (put("inbox.0.turn", "t_9"), ".inbox[0].turn", 'expected the id of a turn of this session, got "t_9"'),
    (cut("inbox.0.body.text"), ".inbox[0].body.text", "expected this field, got none"),
    (put("inbox.0.attachments.0.state", "failed"), ".inbox[0].attachments[0].problem", "expected a value"),
    (put("outbox.0.state", "sending"), ".outbox[0].state", "expected one of owed, sent, unknown"),
    (put("outbox.1.state", "sent"), ".outbox[1].position", "expected a value, as the state is sent, got null"),
    (put("outbox.0.lane", "web:c1"), ".outbox[0].lane", "expected PLATFORM:KIND:CHAT[:THREAD]"),
    (put("outbox.1.id", "out_0"), ".outbox", 'expected each id once, got "out_0" twice'),
    (put("outbox.0.position", 1), "", "expected each position in a chat once"),
    (put("outbox.0.due_at", 2**70), ".outbox[0].due_at", "<= 253402300799999, got"),
]


@pytest.mark.parametrize(
    ("change", "place", "reason"), FAULTS, ids=[f"{n} {fault[1]}" for n, fault in enumerate(FAULTS)]
)
def test_malformed_record_is_refused_with_place_expected_and_got(
    change: Callable[[Json], None], place: str, reason: str
) -> None:
    """B5."""
    broken = record()
    change(broken)
    with pytest.raises(RecordRefused) as caught:
        read(broken)
    assert caught.value.place == place
    assert reason in caught.value.reason


def test_number_that_nobody_can_hold_is_refused_with_its_record() -> None:
    """B5."""
    text = json.dumps(record() | {"mood": 1}).replace('"mood": 1', '"mood": 1e999')
    with pytest.raises(RecordRefused, match="number out of range"):
        read_session_record(Raw(text))


def test_fields_that_nobody_knows_are_warnings_by_their_place() -> None:
    odd = record()
    for path in ("mood", "turns.0.mood", "turns.0.journal.2.mood", "inbox.0.mood", "inbox.0.attachments.0.mood"):
        put(path, 1)(odd)
    put("turns.0.journal.2.body.mood", 1)(odd)  # stays: the body is kept as it is
    _, warnings = read(odd)
    assert [warning.removesuffix(": an unknown field, ignored") for warning in warnings] == [
        ".mood",
        ".turns[0].mood",
        ".turns[0].journal[2].mood",
        ".inbox[0].mood",
        ".inbox[0].attachments[0].mood",
    ]


# ── the mark ────────────────────────────────────────────────────────────────────────────────────────────────


def test_recovery_fields_that_differ_from_the_journal_are_warnings() -> None:
    said = record() | {"resume_pending": False, "resume_reason": "tired", "interruptions": 2}
    _, warnings = read(said)
    assert warnings == [
        ".resume_reason: it says 'tired'; None was taken, as its journal says",
        ".interruptions: it says 2; 0 was taken, as its journal says",
    ]


def test_mark_without_a_reason_is_kept_with_a_warning() -> None:
    session, warnings = read(record() | {"resume_pending": True, "last_resume_marked_at": 7})
    assert json.loads(bytes(session.turns[1].journal[1].body))["reason"] == "unknown"
    assert warnings == [".resume_reason: a mark without a reason, imported as 'unknown'"]


def test_mark_on_a_turn_that_waits_for_a_person_is_refused() -> None:
    waiting = record() | {"resume_pending": True, "resume_reason": "restart_timeout"}
    waiting["turns"][0]["journal"][-1] = entry(5, "asked", question="q", text="which?")
    waiting["turns"][0]["state"] = "waiting"
    with pytest.raises(RecordRefused, match="expected false, as its turn is waiting, got true"):
        read(waiting)


@given(st.integers(0, MAX_TIME_MS))
def test_time_is_the_same_when_written_as_text_and_read(at: int) -> None:
    assert parse_time(format_time(at)) == parse_time(at) == at


@pytest.mark.parametrize(
    ("value", "at"),
    [
        ("1970-01-01T00:00:01.500Z", 1500),
        ("1970-01-01T01:00:01+01:00", 1000),
        ("1970-01-01 00:00:01", 1000),
        ("1970-01-02", 86_400_000),
        ("1969-12-31T23:59:59Z", None),
        ("yesterday", None),
        ("", None),
        (True, None),
        (-1, None),
        (1.5, None),
        (MAX_TIME_MS + 1, None),
        ([], None),
        (None, None),
    ],
)
def test_time_is_read_from_text_or_number(value: object, at: int | None) -> None:
    assert parse_time(value) == at
