"""Jinja filters: how the pages show times, durations, chats and states."""

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
    """How long ago a moment was, or how long until it comes."""
    now = wall_clock()
    return (
        f"in {texts.phrases.duration(at - now)}" if at > now + 1_000 else f"{texts.phrases.duration(now - at)} ago"
    )


def exact_time(at: int) -> str:
    """A moment in UTC with milliseconds, to compare with a log."""
    return _utc(at).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + " UTC"


def iso_time(at: int) -> str:
    return _utc(at).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _utc(at: int) -> datetime:
    return datetime.fromtimestamp(at / 1000, UTC)


def duration(milliseconds: int) -> str:
    """A length of time in its largest fitting unit; below 100 seconds with one decimal place."""
    if milliseconds < 1_000:
        return f"{max(0, milliseconds)} ms"
    seconds = milliseconds / 1000
    if seconds < 100:
        return f"{seconds:.1f} s".replace(".0 ", " ")
    minutes, hours = seconds / 60, seconds / 3600
    return f"{minutes:.0f} min" if minutes < 100 else f"{hours:.0f} h" if hours < 72 else f"{hours / 24:.0f} d"


def chat_label(key: str) -> str:
    """The platform, chat and thread of a session key, for people."""
    address = split_session_key(key)[1]
    thread = f" · {address.thread}" if address.thread else ""
    return f"{address.platform} · {address.chat}{thread}"


def badge_level(word: str) -> str:
    """The colour of the badge for a state: `good`, `warn`, `bad`, or none."""
    return _LEVEL_OF.get(word, "")


def underscores_as_spaces(word: str) -> str:
    return word.replace("_", " ")


def backticks_as_code(text: str) -> Any:
    """The text as HTML: words between backticks as `<code>`, everything else escaped."""
    from markupsafe import Markup, escape  # jinja2 brings it, and is loaded with the first page

    parts = text.split("`")
    shown = [
        escape(part) if index % 2 == 0 else Markup("<code>%s</code>") % part for index, part in enumerate(parts)
    ]
    return Markup("").join(shown) if len(parts) % 2 else escape(text)


def capitalised(text: str) -> str:
    return text[:1].upper() + text[1:]


def with_full_stop(text: str) -> str:
    """The text with a full stop: messages of errors have none."""
    return text if text.endswith((".", "!", "?")) else f"{text}."


FILTERS: dict[str, Callable[..., Any]] = {
    each.__name__: each
    for each in (
        relative_time,
        exact_time,
        iso_time,
        duration,
        chat_label,
        badge_level,
        underscores_as_spaces,
        backticks_as_code,
        capitalised,
        with_full_stop,
    )
}
