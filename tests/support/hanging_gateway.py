"""A program like `perdure run` in which one part hangs; its first argument names the part.

The agent hangs as soon as the file `go` exists in the home, and then makes the file `hangs`.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import suppress
from pathlib import Path
from typing import Any

from perdure.agents.api import Reply, TurnContext
from perdure.config import load_settings
from perdure.core.messages import Outbound, Receipt
from perdure.platforms.api import Adapter, Event
from perdure.platforms.web import WebAdapter
from perdure.runtime.gateway import Gateway
from perdure.web.server import serve

sys.path.insert(0, str(Path(__file__).parents[1]))
from support.waiting import eventually

FOREVER_SECONDS = 3600.0


async def hang_forever() -> None:
    """Hang, ignoring cancellations."""
    while True:
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(FOREVER_SECONDS)


class UncancellableAgent:
    """An agent that hangs: it ignores being cancelled, blocks the event loop, or leaves a thread behind."""

    def __init__(self, what: str, home: Path) -> None:
        self._what = what
        self._home = home

    async def run(self, context: TurnContext) -> Reply:
        await eventually("it may hang", (self._home / "go").exists)
        (self._home / "hangs").touch()
        match self._what:
            case "agent":
                await hang_forever()
            case "loop":
                time.sleep(FOREVER_SECONDS)  # noqa: ASYNC251 reason: that is the accident
            case _:
                await asyncio.to_thread(time.sleep, FOREVER_SECONDS)
        return Reply("never")


class UnclosableAdapter(Adapter):
    """An adapter whose `close` hangs."""

    name = "clinging"

    def __init__(self, what: str) -> None:
        self._what = what

    async def open(self) -> None: ...

    async def receive(self) -> AsyncGenerator[Event]:
        try:
            await asyncio.Event().wait()
            yield Event("", "")
        finally:
            if self._what == "receive":
                await hang_forever()

    async def send(self, outbound: Outbound) -> Receipt:
        return Receipt(outbound.key)

    async def close(self) -> None:
        if self._what == "close":
            await hang_forever()


def main(what: str) -> int:
    settings = load_settings()

    def make(*arguments: Any, **options: Any) -> Gateway:
        agent, adapters = UncancellableAgent(what, settings.home), [WebAdapter(), UnclosableAdapter(what)]
        return Gateway(*arguments, adapters=adapters, agent=agent, **options)

    def announce(url: str) -> None:
        print(f"Perdure is ready: {url}", flush=True)

    return 75 if asyncio.run(serve(settings, on_ready=announce, make_gateway=make)) == "restart" else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
