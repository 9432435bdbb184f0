"""What was measured of the pages, and the goals it is held against."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import quantiles

from bench.results import Goal
from bench.web_pages import Pages

PAGES = 1_000
EACH = 40 * 1024  # bytes
GROWTH = 2048  # bytes of a page in ten minutes: what a process's memory wavers by, and no more
SOON = 0.050  # seconds


class Results:
    def __init__(self, live: Pages, hurried: Pages) -> None:
        self.live = live
        self.hurried = hurried
        self.syncs: list[float] = []
        self.bystanders = 0.0

    @property
    def quiet(self) -> bool:
        return self.bystanders < 0.15

    @property
    def growth(self) -> float:
        """Bytes by page, from when each had shown a message until ten minutes later."""
        return (self.hurried.ended - self.hurried.settled) / PAGES

    def goals(self) -> list[Goal]:
        p99 = percentile(self.live.seen, 99)
        return [
            Goal(
                f"memory of the gateway for each of {PAGES:,} pages",
                f"at most {EACH / 1024:.0f} KB",
                f"{self.live.each / 1024:.1f} KB",
                self.live.each <= EACH,
            ),
            Goal(
                "growth in ten minutes, for each page",
                f"at most {GROWTH / 1024:.0f} KB",
                f"{self.growth / 1024:.2f} KB",
                self.growth <= GROWTH,
            ),
            Goal(
                "from the writing of a message until its page shows it, p99",
                f"at most {SOON * 1000:.0f} ms",
                f"{p99 * 1000:.1f} ms",
                p99 <= SOON,
            ),
        ]


def percentile(seconds: Sequence[float], which: int) -> float:
    return quantiles(seconds, n=100, method="inclusive")[which - 1]
