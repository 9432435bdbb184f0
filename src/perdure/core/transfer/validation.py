"""Validates a record of an import: accepted if our own store could have written it."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import chain

import msgspec
from msgspec import Raw

from perdure.core.address import CHAT_KINDS, Address, decode_session_key, join_parts, split_parts
from perdure.core.commands import RETRY_KEY_PREFIX
from perdure.core.delivery import DeliveryState
from perdure.core.journal import JournalRecord, TurnBegan, TurnView, decode_entry
from perdure.core.messages import Inbound
from perdure.core.queue import QUEUE_MODE_NAMES
from perdure.core.states import OPEN_STATES, AttachmentState, InboxState, SessionState, TurnState
from perdure.core.transfer.export_format import (
    ExportedDelivery,
    ExportedEntry,
    ExportedMessage,
    ExportedSession,
    ExportedTurn,
    decode_session,
    record_refusal,
    short_json,
)
from perdure.core.transfer.marks import settle_mark
from perdure.errors import BadKey, IllegalMove, NewerEntry, RecordRefused

MESSAGE_STATES = tuple(state.value for state in InboxState if state is not InboxState.REJECTED)
MESSAGE_KINDS = ("message", "command", "wish", "report", "aside", "change")
# A fetched file is exported as a reference.
FILE_STATES = (AttachmentState.REFERENCED.value, AttachmentState.FAILED.value)
DELIVERY_STATES = tuple(state.value for state in DeliveryState if state is not DeliveryState.SENDING)


def read_session_record(raw: Raw) -> tuple[ExportedSession, list[str]]:
    """A session that can be imported, and the warnings that go with it."""
    session, unknown = decode_session(raw)
    _validate_session(session)
    session, warnings = settle_mark(session)
    return session, [*(f"{place}: an unknown field, ignored" for place in unknown), *warnings]


def _validate_session(session: ExportedSession) -> None:
    _validate_head(session)
    for number, turn in enumerate(session.turns):
        _validate_turn(turn, f".turns[{number}]")
    turns = {turn.id for turn in session.turns}
    for number, message in enumerate(session.inbox):
        _validate_message(message, turns, f".inbox[{number}]")
    for number, delivery in enumerate(session.outbox):
        _validate_delivery(delivery, turns, f".outbox[{number}]")
    _validate_uniqueness(session)


# ── each part by itself ─────────────────────────────────────────────────────────────────────────────────────


def _validate_head(session: ExportedSession) -> None:
    address = _validate_key(session.key, ".key")
    _require_one_of(session.state, tuple(SessionState), ".state")
    if session.address not in (None, address.lane) and not _is_same_address(address, session.address):
        expected = short_json(address)
        raise RecordRefused(".address", f"expected {expected}, as its key says, got {short_json(session.address)}")
    if session.was_auto_reset is not None and session.was_auto_reset != (session.auto_reset_reason is not None):
        expected = "a text" if session.was_auto_reset else "null"
        got = short_json(session.auto_reset_reason)
        raise RecordRefused(
            ".auto_reset_reason",
            f"expected {expected}, as was_auto_reset is {short_json(session.was_auto_reset)}, got {got}",
        )


def _validate_turn(turn: ExportedTurn, path: str) -> None:
    _validate_key(turn.key, f"{path}.key")
    _require_one_of(turn.state, tuple(TurnState), f"{path}.state")
    view = TurnView()
    for number, line in enumerate(turn.journal):
        _validate_entry(line, view, f"{path}.journal[{number}]")
    if not view.records or not isinstance(view.records[0].entry, TurnBegan):
        raise RecordRefused(f"{path}.journal", 'expected "began" as its first entry, got none')
    if view.state != turn.state:
        raise RecordRefused(f"{path}.state", f'expected "{view.state}", as its journal says, got "{turn.state}"')


def _validate_entry(exported: ExportedEntry, view: TurnView, path: str) -> None:
    if view.records and exported.seq <= view.records[-1].seq:
        raise RecordRefused(f"{path}.seq", f"expected more than {view.records[-1].seq}, got {exported.seq}")
    try:
        view.apply(
            JournalRecord(
                exported.seq, exported.at, decode_entry(exported.kind, exported.version, bytes(exported.body))
            )
        )
    except NewerEntry as error:
        raise RecordRefused(f"{path}.kind", f"{error.message}; import it with the version that wrote it") from None
    except msgspec.DecodeError as error:
        raise record_refusal(error, msgspec.json.decode(exported.body), f"{path}.body") from None
    except IllegalMove as error:
        raise RecordRefused(path, error.message) from None
    except KeyError as error:
        raise RecordRefused(f"{path}.body.call", f"expected a call that a model wished for, got {error}") from None


def _validate_message(message: ExportedMessage, turns: Collection[str], path: str) -> None:
    _validate_key(message.key, f"{path}.key")
    _require_one_of(message.state, MESSAGE_STATES, f"{path}.state")
    _require_one_of(message.kind, MESSAGE_KINDS, f"{path}.kind")
    if message.manner is not None:
        _require_one_of(message.manner, QUEUE_MODE_NAMES, f"{path}.manner")
        _require_presence(message.manner, message.kind, "message", f"{path}.manner")
    _require_known_turn(message.turn, turns, f"{path}.turn")
    _require_presence(message.turn, message.state, InboxState.TAKEN, f"{path}.turn")
    try:
        msgspec.json.decode(message.body, type=Inbound)
    except msgspec.DecodeError as error:
        raise record_refusal(error, msgspec.json.decode(message.body), f"{path}.body") from None
    for number, file in enumerate(message.attachments):
        _require_one_of(file.state, FILE_STATES, f"{path}.attachments[{number}].state")
        _require_presence(
            file.problem, file.state, AttachmentState.FAILED, f"{path}.attachments[{number}].problem"
        )


def _validate_delivery(delivery: ExportedDelivery, turns: Collection[str], path: str) -> None:
    _validate_key(delivery.key, f"{path}.key")
    _require_one_of(delivery.state, DELIVERY_STATES, f"{path}.state")
    _require_known_turn(delivery.turn, turns, f"{path}.turn")
    _require_presence(delivery.position, delivery.state, DeliveryState.SENT, f"{path}.position")
    parts = split_parts(delivery.lane)
    if not (len(parts) in (3, 4) and parts[1] in CHAT_KINDS and join_parts(*parts) == delivery.lane):
        raise RecordRefused(
            f"{path}.lane", f"expected PLATFORM:KIND:CHAT[:THREAD], got {short_json(delivery.lane)}"
        )


# ── all parts together ──────────────────────────────────────────────────────────────────────────────────────


def _validate_uniqueness(session: ExportedSession) -> None:
    _require_unique((turn.id for turn in session.turns), ".turns", "id")
    _require_unique((turn.generation for turn in session.turns), ".turns", "generation")
    _require_unique((line.seq for turn in session.turns for line in turn.journal), ".turns", "seq in a journal")
    _require_unique(
        (turn.key for turn in session.turns if turn.state in OPEN_STATES), ".turns", "key of a turn under way"
    )
    _require_unique((message.id for message in session.inbox), ".inbox", "id")
    _require_unique((message.event_key for message in session.inbox), ".inbox", "event_key")
    _require_unique((delivery.id for delivery in session.outbox), ".outbox", "id")
    _require_unique((delivery.delivery_key for delivery in session.outbox), ".outbox", "delivery_key")
    written = (message for message in session.inbox if not message.event_key.startswith(RETRY_KEY_PREFIX))
    rows: Iterable[ExportedMessage | ExportedDelivery] = chain(written, session.outbox)
    _require_unique(
        ((row.key, row.position) for row in rows if row.position is not None), "", "position in a chat"
    )


def _require_unique(values: Iterable[object], path: str, name: str) -> None:
    seen = set()
    for value in values:
        if value in seen:
            raise RecordRefused(path, f"expected each {name} once, got {short_json(value)} twice")
        seen.add(value)


# ── single values ───────────────────────────────────────────────────────────────────────────────────────────


def _validate_key(key: str, path: str) -> Address:
    try:
        found = decode_session_key(key)
    except BadKey as error:
        raise RecordRefused(path, f"{error.message}. {error.hint}") from None
    if found.text != key:
        raise RecordRefused(path, f"expected {short_json(found.text)}, got {short_json(key)}")
    return found.address


def _is_same_address(address: Address, said: object) -> bool:
    try:
        return msgspec.convert(said, Address) == address
    except msgspec.ValidationError:
        return False


def _require_one_of(value: str, known: Collection[str], path: str) -> None:
    if value not in known:
        raise RecordRefused(path, f"expected one of {', '.join(known)}, got {short_json(value)}")


def _require_known_turn(turn: str | None, turns: Collection[str], path: str) -> None:
    if turn is not None and turn not in turns:
        raise RecordRefused(path, f"expected the id of a turn of this session, got {short_json(turn)}")


def _require_presence(value: object, state: str, with_value: str, path: str) -> None:
    """Require a value in one state, and none in any other."""
    if (value is not None) != (state == with_value):
        expected = "a value" if state == with_value else "null"
        raise RecordRefused(path, f"expected {expected}, as the state is {state}, got {short_json(value)}")
