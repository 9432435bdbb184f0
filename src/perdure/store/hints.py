"""Where hints go: to one run, to every run, to whoever holds a chat or may claim it, to whoever runs a turn."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Protocol

from msgspec import Struct

from perdure.store.conditions import can_serve, lease_is_free_or_ours, may_move
from perdure.store.database import Tx

EVERY_RUN = "perdure"  # the channel that every run listens to
_CHANNEL_PREFIX = "perdure_"  # of the channel of one run


class AddressedHint(Struct, frozen=True):
    """An encoded hint for a run, for the holder of a key, or for the run that has a turn; or else for all."""

    payload: str
    run: str = ""
    key: str = ""
    turn: str = ""


class HintChannel(Protocol):
    """Carries hints between the runs on one database. What is sent may be lost."""

    async def send(self, sender: str, hints: Sequence[AddressedHint]) -> None:
        """Send hints of a run. After return: they are on their way to every run that listens now."""

    def listen(self, run: str) -> AsyncGenerator[str | None]:
        """Yield None as soon as hints for a run are heard, then each payload; raise when the connection ends."""

    async def close(self) -> None: ...


def channel_of(run: str) -> str:
    return f"{_CHANNEL_PREFIX}{run}"


def send(tx: Tx, sender: str, hints: Sequence[AddressedHint]) -> None:
    """Notify the channels of these hints, with one statement for each kind of address."""
    groups: dict[str, list[tuple[str, str]]] = {}
    for hint in hints:
        statement, name = _address(hint)
        groups.setdefault(statement, []).append((name, hint.payload))
    for statement, group in groups.items():
        names, payloads = zip(*group, strict=True)
        tx.all(statement, names=list(names), payloads=list(payloads), run=sender, now=tx.time)


def _address(hint: AddressedHint) -> tuple[str, str]:
    """Return the statement that sends a hint, and the name that the statement looks up."""
    if hint.key:
        return _TO_HOLDERS, hint.key
    if hint.turn:
        return _TO_TURNS, hint.turn
    return _TO_CHANNELS, channel_of(hint.run) if hint.run else EVERY_RUN


_HINTS = "unnest(CAST(:names AS TEXT[]), CAST(:payloads AS TEXT[])) AS h(name, payload)"
_TO_CHANNELS = f"SELECT pg_notify(h.name, h.payload) FROM {_HINTS}"
# A chat that nobody holds is claimed by the sender itself; if the sender may not, whoever may is told.
_SENDER_STAYS = "EXISTS (SELECT 1 FROM runs s WHERE s.id = :run AND s.draining = 0)"
_SENDER_MAY_CLAIM = f"({can_serve('l')} AND {may_move('l')} AND {_SENDER_STAYS})"
_RECEIVER_MAY_CLAIM = (
    f"{can_serve('l', 'r.id')} AND r.draining = 0 AND (l.instance IS NULL OR l.instance = r.instance)"
)
_TO_HOLDERS = (
    f"SELECT pg_notify('{_CHANNEL_PREFIX}' || r.id, h.payload) FROM {_HINTS} JOIN leases l ON l.key = h.name "
    "JOIN runs r ON r.ended_at IS NULL AND r.id <> :run WHERE r.id = l.run "
    f"OR ({lease_is_free_or_ours('l')} AND NOT {_SENDER_MAY_CLAIM} AND {_RECEIVER_MAY_CLAIM})"
)
_TO_TURNS = (
    f"SELECT pg_notify('{_CHANNEL_PREFIX}' || l.run, h.payload) FROM {_HINTS} JOIN turns t ON t.id = h.name "
    "JOIN leases l ON l.key = t.key WHERE l.run <> :run"
)
