"""How pages say times, lengths and places."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from perdure.core import texts
from perdure.core.address import split_session_key
from perdure.store.ids import wall_clock

BADGE_LEVELS = {
    "good": ("open", "running", "done", "sent", "connected", "ready", "live", "resume", "deliver", "ok"),
    "warn": ("waiting", "interrupted", "suspended", "unknown", "draining", "skip", "ask_user", "cut", "lost"),
    "bad": ("failed", "refused", "expired", "suspend", "error"),
}
_LEVEL_OF = {word: level for level, words in BADGE_LEVELS.items() for word in words}


def relative_time(at: int) -> str:
    """How long ago, or from now."""
    now = wall_clock()
    return (
        f"in {texts.phrases.duration(at - now)}" if at > now + 1_000 else f"{texts.phrases.duration(now - at)} ago"
    )


def exact_time(at: int) -> str:
    """A moment as an operator compares it with a log."""
    return _utc(at).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + " UTC"


def iso_time(at: int) -> str:
    return _utc(at).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _utc(at: int) -> datetime:
    return datetime.fromtimestamp(at / 1000, UTC)


def duration(milliseconds: int) -> str:
    """A length of time, to two places where it is short."""
    if milliseconds < 1_000:
        return f"{max(0, milliseconds)} ms"
    seconds = milliseconds / 1000
    if seconds < 100:
        return f"{seconds:.1f} s".replace(".0 ", " ")
    minutes, hours = seconds / 60, seconds / 3600
    return f"{minutes:.0f} min" if minutes < 100 else f"{hours:.0f} h" if hours < 72 else f"{hours / 24:.0f} d"


def chat_label(key: str) -> str:
    """Where a conversation is, as people say it."""
    address = split_session_key(key)[1]
    thread = f" · {address.thread}" if address.thread else ""
    return f"{address.platform} · {address.chat}{thread}"


def badge_level(word: str) -> str:
    """Good, warn, bad, or nothing in particular: the colour of a badge."""
    return _LEVEL_OF.get(word, "")


def underscores_as_spaces(word: str) -> str:
    return word.replace("_", " ")


def backticks_as_code(text: str) -> Any:
    """Words between backticks as code; everything else as it is, and never as markup."""
    from markupsafe import Markup, escape  # comes with the templates, which load late

    parts = text.split("`")
    told = [
        escape(part) if place % 2 == 0 else Markup("<code>%s</code>") % part for place, part in enumerate(parts)
    ]
    return Markup("").join(told) if len(parts) % 2 else escape(text)


def capitalised(text: str) -> str:
    return text[:1].upper() + text[1:]


def with_full_stop(text: str) -> str:
    """With its full stop, as errors have none."""
    return text if text.endswith((".", "!", "?")) else f"{text}."


FILTERS: dict[str, Callable[..., Any]] = {
    "since": relative_time,
    "exact": exact_time,
    "iso": iso_time,
    "span": duration,
    "place": chat_label,
    "level": badge_level,
    "spaced": underscores_as_spaces,
    "ticked": backticks_as_code,
    "sentence": capitalised,
    "whole": with_full_stop,
}
