"""Hand-over: which of several gateways takes over a turn whose gateway is gone, and what stays behind."""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

from msgspec import Struct

from perdure.core.effects import Effect
from perdure.core.entries import Entry, ToolStarted

# Tools that leave files on the gateway's machine; commands do so by their effect.
LOCAL_TOOLS = frozenset(("write_file", "edit_file"))


def is_local_call(entry: Entry) -> bool:
    """Whether an entry begins a call that leaves a command or a file on the gateway's machine."""
    if not isinstance(entry, ToolStarted):
        return False
    return entry.effect is Effect.ATTACHED or entry.tool in LOCAL_TOOLS


class Taker(Struct, frozen=True):
    """A living run that can serve a chat and does not stop."""

    run: str
    instance: str


def choose_taker(key: str, instance: str | None, takers: Sequence[Taker]) -> str | None:
    """Return the run that takes over the turn of a key: its former gateway, started again, or else one by hash.

    Every gateway chooses the same one, so the turns of a dead gateway are spread over those that live.
    """
    back = [taker.run for taker in takers if taker.instance == instance]
    return max(back or [taker.run for taker in takers], key=lambda run: _weight(run, key), default=None)


def _weight(run: str, key: str) -> bytes:
    return sha256(f"{run} {key}".encode()).digest()
