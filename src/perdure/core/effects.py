"""What repeating a tool call would mean, and so what becomes of one that was cut off."""

from __future__ import annotations

from enum import StrEnum


class Effect(StrEnum):
    """Every tool declares one; a tool that declares none is `once`."""

    PURE = "pure"  # may be repeated
    KEYED = "keyed"  # repeated with the same idempotency key
    ATTACHED = "attached"  # outlives us: run again with the same key, it attaches to what is there
    ONCE = "once"  # never repeated unasked


class Remedy(StrEnum):
    """What we do with a call that is in doubt: its intent is journalled, its result is not."""

    REPEAT = "repeat"
    ATTACH = "attach"
    SAY_UNKNOWN = "say unknown"


REMEDIES = {
    Effect.PURE: Remedy.REPEAT,
    Effect.KEYED: Remedy.REPEAT,
    Effect.ATTACHED: Remedy.ATTACH,
    Effect.ONCE: Remedy.SAY_UNKNOWN,
}
