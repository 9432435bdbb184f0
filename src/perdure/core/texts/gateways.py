"""The gateways that share a database: what each does, and what came of asking one to drain."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.core.texts.phrases import duration

ID_CHARS = 8  # of a gateway's id, where people read it
GATEWAY_LIST_HINT = "GET /api/gateways and `perdure status` list those that run."
DRAIN_ASKED = "It was asked to drain: it hands over with its next heartbeat, ends its turns, and stops."
DRAINS_ALREADY = "It drains already."


def unknown_gateway(name: str, matches: int) -> str:
    if matches:
        return f"{matches} running gateways have an id that begins with {name!r}"
    return f"no running gateway has the id {name!r}"


def standing_by(platforms: Sequence[str]) -> str:
    return f"Standing by for {', '.join(platforms)}: another gateway receives there, and this one can send"


def gateway_line(
    name: str,
    home: str,
    version: str,
    *,
    receives: Sequence[str],
    standing_by: Sequence[str],
    running: int,
    silent_ms: int,
    draining: bool,
    this: bool,
) -> str:
    """One gateway of several, in a line of `perdure status`."""
    facts = [
        f"receives {', '.join(receives)}" if receives else "receives nothing",
        *([f"stands by for {', '.join(standing_by)}"] if standing_by else []),
        f"turns running: {running}",
        f"last heartbeat {duration(silent_ms)} ago",
        *(["draining"] if draining else []),
    ]
    which = "Gateway" if not this else "This gateway"
    return f"{which} {name[:ID_CHARS]} ({home}, {version}): {'; '.join(facts)}."
