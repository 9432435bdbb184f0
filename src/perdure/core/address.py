"""Addresses and session keys: where a conversation is, and their text form, which is made and read only here."""

from __future__ import annotations

import re
from typing import Literal, get_args

from msgspec import Struct

from perdure.errors import BadKey

ChatKind = Literal["dm", "group", "channel"]
CHAT_KINDS: tuple[str, ...] = get_args(ChatKind)

SESSION_KEY_FORM = "agent:NAME:PLATFORM:KIND:CHAT[:THREAD[:PERSON]]"
_RESERVED = re.compile(r"[%:\x00-\x20\x7f]")
_ESCAPED = re.compile(r"%([0-9A-F]{2})")


class Address(Struct, frozen=True, order=True):
    """One chat or thread on one platform where people and the agent talk."""

    platform: str
    kind: ChatKind
    chat: str
    thread: str | None = None

    @property
    def lane(self) -> str:
        """The address as text. Replies with the same lane are sent in order."""
        thread = () if self.thread is None else (self.thread,)
        return join_parts(self.platform, self.kind, self.chat, *thread)


def join_parts(*parts: str) -> str:
    """Join parts with colons so that no two different lists of parts give the same text."""
    return ":".join(_RESERVED.sub(lambda found: f"%{ord(found[0]):02X}", part) for part in parts)


def split_parts(text: str) -> list[str]:
    """Undo `join_parts`."""
    return [_ESCAPED.sub(lambda found: chr(int(found[1], 16)), part) for part in text.split(":")]


class SessionKey(Struct, frozen=True):
    """The parts of a session key: the agent, the address, and the person if the conversation is one person's."""

    agent: str
    address: Address
    person: str | None = None

    @property
    def shared(self) -> bool:
        """Whether several people may talk in this conversation."""
        return self.address.kind != "dm" and self.person is None

    @property
    def text(self) -> str:
        """The session key. A person stands behind the thread, so a missing thread is written as an empty part."""
        own = () if self.person is None else (self.person,)
        gap = ("",) if own and self.address.thread is None else ()
        return ":".join((join_parts("agent", self.agent), self.address.lane, *gap, *map(join_parts, own)))


def session_key(agent: str, address: Address, person: str | None = None) -> str:
    """The permanent session key of an agent at an address, or of one person there."""
    return SessionKey(agent, address, person).text


def split_session_key(text: str) -> tuple[str, Address]:
    """Read the agent and the address from a session key; the person, if there is one, is left out."""
    found = decode_session_key(text)
    return found.agent, found.address


def decode_session_key(text: str) -> SessionKey:
    """Read every part of a session key."""
    parts = split_parts(text)
    optional = 5 if len(parts) == 7 else None  # the thread, if a person follows
    filled = all(part or place == optional for place, part in enumerate(parts))
    if len(parts) not in (5, 6, 7) or parts[0] != "agent" or not filled:
        raise BadKey(f"not a session key: {text!r}", hint=f"A key looks like {SESSION_KEY_FORM}.")
    if parts[3] not in CHAT_KINDS:
        kinds = ", ".join(CHAT_KINDS)
        raise BadKey(
            f"not a session key: {text!r} has the kind {parts[3]!r}",
            hint=f"The kind is one of {kinds}; a key looks like {SESSION_KEY_FORM}.",
        )
    if parts[3] == "dm" and len(parts) == 7:
        raise BadKey(
            f"not a session key: {text!r} names a person in a direct chat, where there is only one",
            hint=f"Only a group or a channel has a conversation per person; a key looks like {SESSION_KEY_FORM}.",
        )
    kind: ChatKind = parts[3]  # type: ignore[assignment]  # checked against CHAT_KINDS above
    thread, person = [*parts[5:], "", ""][:2]
    return SessionKey(parts[1], Address(parts[2], kind, parts[4], thread or None), person or None)


# ── background sessions ─────────────────────────────────────────────────────────────────────────────────────

_BACKGROUND_AGENT = re.compile(r"(.+)~([1-9][0-9]{0,17})")  # no agent's own name has a tilde


def background_session_key(parent: str, number: int) -> str:
    """The key of a conversation's background session of that number, at the same address."""
    found = decode_session_key(parent)
    return session_key(f"{found.agent}~{number}", found.address, found.person)


def parent_session_key(key: str) -> str:
    """The key of the chat's conversation; of a background session, the conversation that started it."""
    worker = decode_session_key(key) if "~" in key else None
    found = _BACKGROUND_AGENT.fullmatch(worker.agent) if worker is not None else None
    return session_key(found[1], worker.address, worker.person) if found and worker is not None else key


def background_number(key: str) -> int | None:
    """The number of the background session that a key names; None if it names none."""
    found = _BACKGROUND_AGENT.fullmatch(split_session_key(key)[0]) if "~" in key else None
    return int(found[2]) if found else None
