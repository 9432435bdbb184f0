"""Personal data: an export of a session or a person for people to read, and what an erasure removes, in words."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from perdure.core import texts
from perdure.core.address import decode_session_key
from perdure.core.file_names import chat_folder
from perdure.core.messages import Inbound
from perdure.core.transfer import export_format
from perdure.core.transfer.export_format import ExportedAttachment, ExportedMessage, ExportedSession
from perdure.errors import NotFound
from perdure.operations.people import parse_person_id
from perdure.store.api import Store
from perdure.store.erasure import ErasedSession
from perdure.store.ids import Clock, wall_clock
from perdure.tools.attachments import AttachmentFiles
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
    """The session of that id, or all sessions of a key, as one readable document; and how many there are."""
    named = await store.sessions.find_by_name(name)
    if not named:
        raise NotFound(texts.phrases.session_not_found(name), hint=texts.phrases.SESSION_NAMES_HINT)
    keys = sorted({session.key for session in named})
    wanted = {session.id for session in named}
    found = [one for key in keys for one in await store.transfer.dump(key) if one.id in wanted]
    return _document(clock(), found), len(found)


async def export_person(store: Store, who: str, *, clock: Clock = wall_clock) -> tuple[str, int]:
    """What is of the person PLATFORM:ID as one readable document, and the number of sessions in it."""
    platform, person = parse_person_id(who)
    own: list[ExportedSession] = []
    messages: list[OwnMessage] = []
    for key in await store.transfer.keys():
        if decode_session_key(key).address.platform == platform:
            for session in await store.transfer.dump(key):
                theirs = _own_messages(session, person)
                if theirs and _is_only_speaker(session, person):
                    own.append(session)
                else:
                    messages += theirs
    known = [
        one for one in await store.people.page(limit=100_000) if (one.platform, one.person) == (platform, person)
    ]
    if not (own or messages or known):
        raise NotFound(texts.cli.nothing_of_person(who), hint=texts.cli.NOTHING_OF_PERSON_HINT)
    return _document(clock(), own, person=who, known=known, messages=messages), len(own)


def _document(at: int, found: Sequence[ExportedSession], **more: Any) -> str:
    document = {"perdure": export_format.document_head(__version__, at), **more, "sessions": found}
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def _is_only_speaker(session: ExportedSession, person: str) -> bool:
    """Whether nobody else has talked in the session, or may."""
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


async def copy_attachments(store: Store, home: Path, document: str, folder: Path) -> int:
    """Copy every file that a document refers to and that is still stored, each below its id; count them."""
    ids = _referenced_ids(msgspec.json.decode(document))
    found = [await store.attachments.get(file_id) for file_id in ids["files"]]
    found += await store.attachments.of_turns(ids["turns"])
    stored_files, count = AttachmentFiles(home), 0
    for file in found:
        path = stored_files.find(file.path) if file is not None else None
        if file is not None and path is not None:
            _copy(path, folder / file.id)
            count += 1
    return count


def _referenced_ids(document: dict[str, Any]) -> dict[str, list[str]]:
    """The ids of the messages' files, and of the turns, in a document."""
    sessions = document["sessions"]
    messages = [*document.get("messages", []), *(message for session in sessions for message in session["inbox"])]
    files = [file["id"] for message in messages for file in message["attachments"]]
    return {"files": files, "turns": [turn["id"] for session in sessions for turn in session["turns"]]}


def _copy(source_path: Path, folder: Path) -> None:
    for directory in (folder.parent, folder):
        directory.mkdir(mode=0o700, exist_ok=True)
    copy = folder / source_path.name
    with (
        source_path.open("rb") as source,
        os.fdopen(os.open(copy, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as target,
    ):
        shutil.copyfileobj(source, target)


async def erasure_preview(store: Store, name: str, home: Path) -> list[str]:
    """The sessions that an erasure would remove, one line each, and the folders of their chats."""
    lines, found = [], await store.sessions.find_by_name(name)
    for session in found:
        turns = len(await store.turns.of_session(session.id))
        lines.append(texts.cli.session_to_erase(session.id, session.state, session.key, turns))
    if not lines:
        raise NotFound(texts.phrases.session_not_found(name), hint=texts.phrases.SESSION_NAMES_HINT)
    folders = dict.fromkeys(chat_folder(session.key) for session in found)
    return [*lines, *(texts.cli.folder_to_erase(folder) for folder in folders if (home / folder).is_dir())]


def erased_line(erased: ErasedSession) -> str:
    """The parts of a session that were erased, as one line."""
    counts = {
        "turn": erased.turns,
        "message": erased.messages,
        "reply": erased.replies,
        "attachment": erased.attachments,
        "process": erased.processes,
    }
    return texts.cli.erased_session(erased.session, erased.key, counts)
