"""Says which resets begin a fresh session by themselves: after a long silence, or with a new day."""

from __future__ import annotations

from bisect import bisect_left
from datetime import datetime, time, timedelta

from perdure.core.states import ResetRule
from perdure.settings import SessionSettings


def active_resets(settings: SessionSettings, now: int) -> list[ResetRule]:
    """Return the reset rules of the settings, with times of this machine's clock."""
    rules = []
    if settings.idle:
        rules.append(ResetRule("idle", now - int(settings.idle * 1000)))
    if settings.daily is not None:
        rules.append(ResetRule("daily", _last(time.fromisoformat(settings.daily), now)))
    return rules


def _last(hour: time, now: int) -> int:
    """Return when the wall clock of this machine last came to a time of the day, in milliseconds.

    Tomorrow is among the days: a clock that is set back across midnight has shown tomorrow's first minutes.
    """
    today = datetime.fromtimestamp(now / 1000).date()
    days = (today + timedelta(days=ahead) for ahead in (1, 0, -1))
    moments = (1000 * _first_moment(datetime.combine(day, hour)) for day in days)
    return next(moment for moment in moments if moment <= now)


def _first_moment(wall: datetime) -> int:
    """Return the second at which the wall clock first shows a time, or jumps over it."""
    earlier, later = sorted(int(wall.replace(fold=fold).timestamp()) for fold in (0, 1))
    if datetime.fromtimestamp(earlier) >= wall:
        return earlier
    return earlier + bisect_left(range(earlier, later), True, key=lambda at: datetime.fromtimestamp(at) >= wall)
