"""An export of some sessions alone, for people to read: one that is named, or what is of one person.

What a person said to the agent alone is theirs, with all that came of it. Where others talk as well, only their
own messages are. `perdure import` takes such a file like any other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from msgspec import Struct

from perdure.core import texts
from perdure.core.address import decode_session_key
from perdure.core.messages import Inbound
from perdure.core.transfer import export_format
from perdure.core.transfer.export_format import ExportedAttachment, ExportedMessage, ExportedSession
from perdure.errors import NotFound
from perdure.operations.people import parse_person_id
from perdure.store.api import Store
from perdure.store.ids import Clock, wall_clock
from perdure.version import __version__

PERSON_KINDS = ("message", "command", "change")  # kinds of messages that a person wrote


class OwnMessage(Struct, frozen=True):
    """A message of a person in a conversation that others share."""

    session: str
    key: str
    id: str
    received_at: int
    text: str
    attachments: tuple[ExportedAttachment, ...] = ()


async def export_named(store: Store, name: str, *, clock: Clock = wall_clock) -> tuple[str, int]:
    """The session of that id, or all of a key, as one readable document; and how many there are."""
    named = await store.sessions.find_by_name(name)
    if not named:
        raise NotFound(texts.phrases.session_not_found(name), hint=texts.phrases.SESSION_NAMES_HINT)
    keys = sorted({session.key for session in named})
    wanted = {session.id for session in named}
    found = [one for key in keys for one in await store.transfer.dump(key) if one.id in wanted]
    return _document(clock(), found), len(found)


async def export_person(store: Store, who: str, *, clock: Clock = wall_clock) -> tuple[str, int]:
    """What is of one person, named PLATFORM:ID, as one readable document; and how many sessions that is."""
    platform, person = parse_person_id(who)
    own: list[ExportedSession] = []
    said: list[OwnMessage] = []
    for key in await store.transfer.keys():
        if decode_session_key(key).address.platform == platform:
            for session in await store.transfer.dump(key):
                theirs = _own_messages(session, person)
                if theirs and _is_only_speaker(session, person):
                    own.append(session)
                else:
                    said += theirs
    known = [
        one for one in await store.people.page(limit=100_000) if (one.platform, one.person) == (platform, person)
    ]
    if not (own or said or known):
        raise NotFound(texts.transfer.nothing_of_person(who), hint=texts.transfer.NOTHING_OF_PERSON_HINT)
    return _document(clock(), own, person=who, known=known, messages=said), len(own)


def _document(at: int, found: Sequence[ExportedSession], **more: Any) -> str:
    document = {"perdure": export_format.document_head(__version__, at), **more, "sessions": found}
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def _is_only_speaker(session: ExportedSession, person: str) -> bool:
    """Whether nobody else has talked in it, nor may."""
    if decode_session_key(session.key).shared:
        return False
    return all(_decode_inbound(one).sender.id == person for one in session.inbox if one.kind in PERSON_KINDS)


def _own_messages(session: ExportedSession, person: str) -> list[OwnMessage]:
    return [
        OwnMessage(session.id, session.key, one.id, one.received_at, inbound.text, one.attachments)
        for one in session.inbox
        if one.kind in PERSON_KINDS and (inbound := _decode_inbound(one)).sender.id == person
    ]


def _decode_inbound(message: ExportedMessage) -> Inbound:
    return msgspec.json.decode(message.body, type=Inbound)
