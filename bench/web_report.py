"""Turns the results of the pages into `docs/benchmarks/web.md`."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from bench.hurried import FACTOR
from bench.report import goals, preamble, table, where
from bench.web_results import PAGES, Results, percentile

MEGABYTE = 1 << 20

SETTING = """\
- **A page** is what an open chat page holds: a stream of events (`GET /api/chats/{{chat}}/events`), each of a chat
  of its own, {pages:,} at once, to a real `perdure run` on SQLite with the offline model. Memory is PSS, before
  they come and when all are there; some had come and gone before, so that what is made once does not count.
- **The delay** is taken at the page: from the first byte of the `POST` of a message until the stream has the
  message itself, which is shown only once it is on disk; and until it has the answer, which takes a whole turn of
  the gateway. One message is written every second, {messages} of them.
- **Growth** is of a second gateway, in an event loop whose clock runs {factor} times as fast: {long} messages, one
  every second of that clock, while every stream gets its signs of life. It counts from when every page had shown a
  message and its answer. This gateway's page cache is small: what SQLite keeps of a growing database, up to its
  limit of 64 MB, is no growth of the pages.
"""


def render(results: Results, versions: dict[str, str], machine: str) -> str:
    """The whole page."""
    setting = SETTING.format(
        pages=PAGES, messages=len(results.live.seen), factor=FACTOR, long=len(results.hurried.seen)
    )
    parts = [
        "# Pages, measured",
        *preamble(quiet=results.quiet),
        _meaning(results),
        "## Goals",
        goals(results.goals()),
        "## Delays",
        table(
            ["until the page shows", "p50", "p99", "worst"],
            [["the message", *_delays(results.live.seen)], ["the answer", *_delays(results.live.answered)]],
        ),
        "## What they cost",
        _costs(results),
        "## What was measured",
        setting.strip(),
        "## Where and with what",
        where(results.syncs, results.bystanders, versions, machine),
    ]
    return "\n\n".join(parts) + "\n"


def _meaning(results: Results) -> str:
    live = results.live
    seen, answered = percentile(live.seen, 50) * 1000, percentile(live.answered, 50) * 1000
    text = (
        f"With {PAGES:,} pages open, a message is on its page {seen:.0f} ms after it was sent, on disk by then, "
        f"and its answer {answered:.0f} ms after. A page costs the gateway {live.each / 1024:.0f} KB of memory "
        f"while it is open, and all of them with a message every second {live.cpu / live.seconds:.1%} of a core."
    )
    return textwrap.fill(text, 115)


def _costs(results: Results) -> str:
    rows = [
        [
            name,
            f"{pages.opened:.1f} s",
            f"{pages.each / 1024:.1f} KB",
            f"{pages.cpu / pages.seconds:.2%} of a core",
            f"{pages.settled / MEGABYTE:,.1f} MB",
            f"{pages.ended / MEGABYTE:,.1f} MB",
        ]
        for name, pages in (("real time", results.live), ("ten minutes in one", results.hurried))
    ]
    return table(["", "all connected within", "each page", "CPU", "gateway, settled", "at the end"], rows)


def _delays(seconds: Sequence[float]) -> list[str]:
    found = percentile(seconds, 50), percentile(seconds, 99), max(seconds)
    return [f"{each * 1000:,.1f} ms" for each in found]
