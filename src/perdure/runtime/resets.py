"""When a conversation is begun afresh though nobody asked for it: after long silence, or with a new day."""

from __future__ import annotations

from datetime import datetime, time, timedelta

from perdure.core.session import Reset
from perdure.settings import SessionSettings


def resets(settings: SessionSettings, now: int) -> list[Reset]:
    """The rules that hold now, in the time of this machine."""
    rules = []
    if settings.idle:
        rules.append(Reset("idle", now - int(settings.idle * 1000)))
    if settings.daily is not None:
        rules.append(Reset("daily", _last(time.fromisoformat(settings.daily), now)))
    return rules


def _last(hour: time, now: int) -> int:
    """When it was last that time of the day."""
    today = datetime.fromtimestamp(now / 1000).astimezone()
    last = today.replace(hour=hour.hour, minute=hour.minute, second=0, microsecond=0)
    return int((last if last <= today else last - timedelta(days=1)).timestamp() * 1000)
