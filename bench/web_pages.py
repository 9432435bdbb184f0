"""Many pages that follow their chats, while somebody writes now and then.

`python -m bench.web_pages PAGES MESSAGES PAUSE [hurried]`: a real `perdure run`, its pages streams of events. A
message goes to one page's chat after another, with a pause in between.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from bench.processes_idle import chat_of, memory
from bench.startup import COMMAND
from bench.turns_web import WebChat, running

WARM = 50  # pages that come and go before the count begins: what is made once must not count for each
AT_ONCE = 20  # pages that connect at the same moment
PATIENCE = 60.0
HURRIED = (sys.executable, "-m", "bench.hurried")


class Pages(NamedTuple):
    """What the pages cost, and how soon they saw what happened."""

    opened: float  # seconds until all were connected
    each: float  # bytes of memory of the gateway, by page
    cpu: float  # CPU seconds of the gateway in the window
    seconds: float  # of the window
    seen: list[float]  # seconds from the writing of a message until its page showed it
    answered: list[float]  # until its page showed the answer
    settled: int  # bytes of the gateway, once the caches were full
    ended: int  # bytes of it, at the end


class Crowd:
    """Pages that are open at the same time, each on a chat of its own."""

    def __init__(self) -> None:
        self.pages: list[WebChat] = []

    async def open(self, pages: list[WebChat]) -> float:
        began = time.perf_counter()
        for first in range(0, len(pages), AT_ONCE):
            together = pages[first : first + AT_ONCE]
            await asyncio.wait_for(asyncio.gather(*(page.follow() for page in together)), PATIENCE)
        self.pages += pages
        return time.perf_counter() - began

    async def talk(self, messages: int, pause: float) -> tuple[list[float], list[float]]:
        """Write, in one chat after another; when each page showed the message, and when its answer."""
        seen, answered = [], []
        for number in range(messages):
            next_at = time.perf_counter() + pause
            times = await asyncio.wait_for(self.pages[number % len(self.pages)].time("say: yes"), PATIENCE)
            seen.append(times[0])
            answered.append(times[1])
            await asyncio.sleep(max(0.0, next_at - time.perf_counter()))
        return seen, answered

    async def close(self) -> None:
        for page in self.pages:
            await page.leave()
        self.pages.clear()


async def measure(pages: int, messages: int, pause: float, command: tuple[str, ...]) -> Pages:
    crowd = Crowd()
    with tempfile.TemporaryDirectory(prefix="perdure-bench-") as name, running(Path(name), command) as gateway:
        await crowd.open([chat_of(gateway.begin(f"warm{number}")) for number in range(WARM)])
        await crowd.talk(WARM, 0)
        await crowd.close()
        await asyncio.sleep(1)  # the gateway notices that they are gone
        empty = memory(gateway.pid)
        opened = await crowd.open([chat_of(gateway.begin(f"page{number}")) for number in range(pages)])
        each = (memory(gateway.pid) - empty) / pages
        await crowd.talk(pages, 0)  # each page has had something to show, and the caches are full
        settled, began, cpu = memory(gateway.pid), time.perf_counter(), gateway.cpu()
        seen, answered = await crowd.talk(messages, pause)
        seconds, used = time.perf_counter() - began, gateway.cpu() - cpu
        measured = Pages(opened, each, used, seconds, seen, answered, settled, memory(gateway.pid))
        await crowd.close()
        return measured


if __name__ == "__main__":
    program = HURRIED if sys.argv[4:] == ["hurried"] else (str(COMMAND),)
    print(json.dumps(asyncio.run(measure(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]), program))))
