"""The effects of tools: what repeating a call would mean, and so what happens to an interrupted call."""

from __future__ import annotations

from enum import StrEnum


class Effect(StrEnum):
    """What repeating a call of a tool would mean; a tool that declares no effect is `once`."""

    PURE = "pure"  # may be repeated
    KEYED = "keyed"  # repeated with the same idempotency key
    ATTACHED = "attached"  # outlives the gateway: started again with the same key, it attaches to the running one
    ONCE = "once"  # never repeated without being asked


class Remedy(StrEnum):
    """What recovery does with a call in doubt, whose intent is journalled and whose result is not."""

    REPEAT = "repeat"
    ATTACH = "attach"
    SAY_UNKNOWN = "say unknown"


REMEDIES = {
    Effect.PURE: Remedy.REPEAT,
    Effect.KEYED: Remedy.REPEAT,
    Effect.ATTACHED: Remedy.ATTACH,
    Effect.ONCE: Remedy.SAY_UNKNOWN,
}
