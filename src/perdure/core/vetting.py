"""Whether a record of an import is one that our own store could have written."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import chain

import msgspec
from msgspec import Raw

from perdure.core.address import CHAT_KINDS, Address, join_parts, read_session_key, split_parts
from perdure.core.commands import AGAIN
from perdure.core.delivery import Delivery
from perdure.core.exports import ExportedDelivery, ExportedEntry, ExportedMessage, ExportedSession, ExportedTurn
from perdure.core.imports import explained, read_shape, shown
from perdure.core.journal import Began, Record, TurnView, decode
from perdure.core.marks import settle_mark
from perdure.core.messages import Inbound
from perdure.core.queueing import MODES
from perdure.core.session import SessionState
from perdure.core.turn import BEGUN, State
from perdure.errors import BadKey, IllegalMove, NewerEntry, RecordRefused

MESSAGE_STATES = ("waiting", "taken", "obeyed", "withdrawn", "expired", "deleted")
MESSAGE_KINDS = ("message", "command", "wish", "report", "aside", "change")
FILE_STATES = ("referenced", "failed")  # a fetched file is exported as a reference
DELIVERY_STATES = tuple(state.value for state in Delivery if state is not Delivery.SENDING)


def read_record(raw: Raw) -> tuple[ExportedSession, list[str]]:
    """A session that can be imported, and the warnings that go with it."""
    session, unknown = read_shape(raw)
    _vet(session)
    session, warnings = settle_mark(session)
    return session, [*(f"{place}: an unknown field, ignored" for place in unknown), *warnings]


def _vet(session: ExportedSession) -> None:
    _vet_head(session)
    for number, turn in enumerate(session.turns):
        _vet_turn(turn, f".turns[{number}]")
    turns = {turn.id for turn in session.turns}
    for number, message in enumerate(session.inbox):
        _vet_message(message, turns, f".inbox[{number}]")
    for number, delivery in enumerate(session.outbox):
        _vet_delivery(delivery, turns, f".outbox[{number}]")
    _vet_together(session)


# ── one by one ──────────────────────────────────────────────────────────────────────────────────────────────


def _vet_head(session: ExportedSession) -> None:
    address = _vet_key(session.key, ".key")
    _vet_one_of(session.state, tuple(SessionState), ".state")
    if session.address not in (None, address.lane) and not _is(address, session.address):
        expected = shown(address)
        raise RecordRefused(".address", f"expected {expected}, as its key says, got {shown(session.address)}")
    if session.was_auto_reset is not None and session.was_auto_reset != (session.auto_reset_reason is not None):
        expected = "a text" if session.was_auto_reset else "null"
        got = shown(session.auto_reset_reason)
        raise RecordRefused(
            ".auto_reset_reason",
            f"expected {expected}, as was_auto_reset is {shown(session.was_auto_reset)}, got {got}",
        )


def _vet_turn(turn: ExportedTurn, place: str) -> None:
    _vet_key(turn.key, f"{place}.key")
    _vet_one_of(turn.state, tuple(State), f"{place}.state")
    view = TurnView()
    for number, line in enumerate(turn.journal):
        _vet_entry(line, view, f"{place}.journal[{number}]")
    if not view.records or not isinstance(view.records[0].entry, Began):
        raise RecordRefused(f"{place}.journal", 'expected "began" as its first entry, got none')
    if view.state != turn.state:
        raise RecordRefused(f"{place}.state", f'expected "{view.state}", as its journal says, got "{turn.state}"')


def _vet_entry(line: ExportedEntry, view: TurnView, place: str) -> None:
    if view.records and line.seq <= view.records[-1].seq:
        raise RecordRefused(f"{place}.seq", f"expected more than {view.records[-1].seq}, got {line.seq}")
    try:
        view.apply(Record(line.seq, line.at, decode(line.kind, line.version, bytes(line.body))))
    except NewerEntry as error:
        raise RecordRefused(
            f"{place}.kind", f"{error.message}; import it with the version that wrote it"
        ) from None
    except msgspec.DecodeError as error:
        raise explained(error, msgspec.json.decode(line.body), f"{place}.body") from None
    except IllegalMove as error:
        raise RecordRefused(place, error.message) from None
    except KeyError as error:
        raise RecordRefused(
            f"{place}.body.call", f"expected a call that a model wished for, got {error}"
        ) from None


def _vet_message(message: ExportedMessage, turns: Collection[str], place: str) -> None:
    _vet_key(message.key, f"{place}.key")
    _vet_one_of(message.state, MESSAGE_STATES, f"{place}.state")
    _vet_one_of(message.kind, MESSAGE_KINDS, f"{place}.kind")
    if message.manner is not None:
        _vet_one_of(message.manner, MODES, f"{place}.manner")
        _vet_presence(message.manner, message.kind, "message", f"{place}.manner")
    _vet_turn_of(message.turn, turns, f"{place}.turn")
    _vet_presence(message.turn, message.state, "taken", f"{place}.turn")
    try:
        msgspec.json.decode(message.body, type=Inbound)
    except msgspec.DecodeError as error:
        raise explained(error, msgspec.json.decode(message.body), f"{place}.body") from None
    for number, file in enumerate(message.attachments):
        _vet_one_of(file.state, FILE_STATES, f"{place}.attachments[{number}].state")
        _vet_presence(file.problem, file.state, "failed", f"{place}.attachments[{number}].problem")


def _vet_delivery(delivery: ExportedDelivery, turns: Collection[str], place: str) -> None:
    _vet_key(delivery.key, f"{place}.key")
    _vet_one_of(delivery.state, DELIVERY_STATES, f"{place}.state")
    _vet_turn_of(delivery.turn, turns, f"{place}.turn")
    _vet_presence(delivery.position, delivery.state, "sent", f"{place}.position")
    parts = split_parts(delivery.lane)
    if not (len(parts) in (3, 4) and parts[1] in CHAT_KINDS and join_parts(*parts) == delivery.lane):
        raise RecordRefused(f"{place}.lane", f"expected PLATFORM:KIND:CHAT[:THREAD], got {shown(delivery.lane)}")


# ── all together ────────────────────────────────────────────────────────────────────────────────────────────


def _vet_together(session: ExportedSession) -> None:
    _vet_unique((turn.id for turn in session.turns), ".turns", "id")
    _vet_unique((turn.generation for turn in session.turns), ".turns", "generation")
    _vet_unique((line.seq for turn in session.turns for line in turn.journal), ".turns", "seq in a journal")
    _vet_unique((turn.key for turn in session.turns if turn.state in BEGUN), ".turns", "key of a turn under way")
    _vet_unique((message.id for message in session.inbox), ".inbox", "id")
    _vet_unique((message.event_key for message in session.inbox), ".inbox", "event_key")
    _vet_unique((delivery.id for delivery in session.outbox), ".outbox", "id")
    _vet_unique((delivery.delivery_key for delivery in session.outbox), ".outbox", "delivery_key")
    written = (message for message in session.inbox if not message.event_key.startswith(AGAIN))
    rows: Iterable[ExportedMessage | ExportedDelivery] = chain(written, session.outbox)
    _vet_unique(((row.key, row.position) for row in rows if row.position is not None), "", "position in a chat")


def _vet_unique(values: Iterable[object], place: str, name: str) -> None:
    seen = set()
    for value in values:
        if value in seen:
            raise RecordRefused(place, f"expected each {name} once, got {shown(value)} twice")
        seen.add(value)


# ── small questions ─────────────────────────────────────────────────────────────────────────────────────────


def _vet_key(key: str, place: str) -> Address:
    try:
        found = read_session_key(key)
    except BadKey as error:
        raise RecordRefused(place, f"{error.message}. {error.hint}") from None
    if found.key != key:
        raise RecordRefused(place, f"expected {shown(found.key)}, got {shown(key)}")
    return found.address


def _is(address: Address, said: object) -> bool:
    try:
        return msgspec.convert(said, Address) == address
    except msgspec.ValidationError:
        return False


def _vet_one_of(value: str, known: Collection[str], place: str) -> None:
    if value not in known:
        raise RecordRefused(place, f"expected one of {', '.join(known)}, got {shown(value)}")


def _vet_turn_of(turn: str | None, turns: Collection[str], place: str) -> None:
    if turn is not None and turn not in turns:
        raise RecordRefused(place, f"expected the id of a turn of this session, got {shown(turn)}")


def _vet_presence(value: object, state: str, with_value: str, place: str) -> None:
    """A field that one state has, and no other."""
    if (value is not None) != (state == with_value):
        expected = "a value" if state == with_value else "null"
        raise RecordRefused(place, f"expected {expected}, as the state is {state}, got {shown(value)}")
