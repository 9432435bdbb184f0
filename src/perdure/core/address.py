"""Where a conversation is. The only place where an address or a session key becomes text, and back."""

from __future__ import annotations

import re
from typing import Literal, get_args

from msgspec import Struct

from perdure.errors import BadKey

ChatKind = Literal["dm", "group", "channel"]
CHAT_KINDS: tuple[str, ...] = get_args(ChatKind)

KEY_FORM = "agent:NAME:PLATFORM:KIND:CHAT[:THREAD]"
_RESERVED = re.compile(r"[%:\x00-\x20\x7f]")
_ESCAPED = re.compile(r"%([0-9A-F]{2})")


class Address(Struct, frozen=True, order=True):
    """One place on one platform where people and the agent talk."""

    platform: str
    kind: ChatKind
    chat: str
    thread: str | None = None

    @property
    def lane(self) -> str:
        """The address as text: replies of one lane keep their order."""
        thread = () if self.thread is None else (self.thread,)
        return join_parts(self.platform, self.kind, self.chat, *thread)


def join_parts(*parts: str) -> str:
    """Join parts with colons so that no two different lists of parts give the same text."""
    return ":".join(_RESERVED.sub(lambda found: f"%{ord(found[0]):02X}", part) for part in parts)


def split_parts(text: str) -> list[str]:
    """Undo `join_parts`."""
    return [_ESCAPED.sub(lambda found: chr(int(found[1], 16)), part) for part in text.split(":")]


def session_key(agent: str, address: Address) -> str:
    """Name the conversation of one agent at one address, for ever."""
    return f"{join_parts('agent', agent)}:{address.lane}"


def parse_session_key(text: str) -> tuple[str, Address]:
    """Read a session key back into its agent and its address."""
    parts = split_parts(text)
    if len(parts) not in (5, 6) or parts[0] != "agent" or not all(parts):
        raise BadKey(f"not a session key: {text!r}", hint=f"A key looks like {KEY_FORM}.")
    if parts[3] not in CHAT_KINDS:
        kinds = ", ".join(CHAT_KINDS)
        raise BadKey(
            f"not a session key: {text!r} has the kind {parts[3]!r}",
            hint=f"The kind is one of {kinds}; a key looks like {KEY_FORM}.",
        )
    kind: ChatKind = parts[3]  # type: ignore[assignment]  # checked against CHAT_KINDS above
    return parts[1], Address(parts[2], kind, parts[4], parts[5] if len(parts) == 6 else None)


# ── work in the background ──────────────────────────────────────────────────────────────────────────────────

_WORKER = re.compile(r"(.+)~([1-9][0-9]{0,17})")  # no agent's own name has a tilde


def background_key(home: str, number: int) -> str:
    """Name the work of that number in the background of a conversation, at the same address."""
    agent, address = parse_session_key(home)
    return session_key(f"{agent}~{number}", address)


def home_of(key: str) -> str:
    """The key of the conversation whose people hear of it: of work in the background, the one that asked."""
    agent, address = parse_session_key(key) if "~" in key else ("", None)
    found = _WORKER.fullmatch(agent)
    return session_key(found[1], address) if found and address is not None else key


def work_of(key: str) -> int | None:
    """The number of the work in the background that a key names, if it does."""
    found = _WORKER.fullmatch(parse_session_key(key)[0]) if "~" in key else None
    return int(found[2]) if found else None
