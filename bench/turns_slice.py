"""One contender in a process of its own: `python -m bench.turns_slice SLICE`, a slice being JSON."""

from __future__ import annotations

import asyncio
import gc
import sys
import tempfile
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

import msgspec
from msgspec import Struct

from bench.turns_crowd import Contender, Crowd, Spent
from bench.turns_gateway import Street, of_model, serving
from bench.turns_model import TEXT
from perdure import logs

Who = Literal["bare", "limit", "gateway", "offline", "web"]


class Phase(Struct, frozen=True):
    """So many people talk for so many seconds; without seconds, everybody writes once, at the same moment."""

    sessions: int
    warm_up: float = 0.0
    seconds: float = 0.0
    spread: float = 0.0


class Slice(Struct, frozen=True):
    """What to measure in one process."""

    who: Who
    phases: Sequence[Phase]
    model: str = ""  # the address of the model; the offline one needs none
    streamed: bool = False
    store: str | None = None  # the URL of a PostgreSQL database; SQLite in a new home unless given


async def measure(wanted: Slice) -> AsyncIterator[Spent]:
    """Measure the phases one after another, on the same gateway."""
    words, reply = ("say: hi", "hi") if wanted.who == "offline" else ("How is it?", TEXT)
    async with _contender(wanted) as contender:
        for phase in wanted.phases:
            gc.collect()
            crowd = Crowd(contender, words, reply)
            if phase.seconds:
                yield await crowd.talk(phase.sessions, phase.warm_up, phase.seconds, phase.spread)
            else:
                yield await crowd.burst(phase.sessions)


@asynccontextmanager
async def _contender(wanted: Slice) -> AsyncIterator[Contender]:
    if wanted.who in ("bare", "limit"):
        from bench.turns_bare import BareLoop  # loads the libraries of the model

        bare = BareLoop(wanted.model, streamed=wanted.streamed, our_way=wanted.who == "limit")
        yield Contender(bare.begin)
        await bare.model.close()
        return
    with tempfile.TemporaryDirectory(prefix="perdure-bench-") as name:
        home, settings = Path(name), of_model(wanted.model) if wanted.model else {}
        if wanted.store is not None:
            settings["STORE__URL"] = wanted.store
        if wanted.who == "web":
            from bench.turns_web import running

            with running(home, **settings) as contender:
                yield contender
        else:
            street = Street(streamed=wanted.streamed)
            async with serving(home, street, **settings) as database:
                yield Contender(street.begin, lambda: database.tally)


async def main(wanted: Slice) -> None:
    """Print what was measured, one JSON line for each phase."""
    async for spent in measure(wanted):
        print(msgspec.json.encode(spent).decode(), flush=True)


if __name__ == "__main__":
    logs.to_stderr()  # as a gateway does
    asyncio.run(main(msgspec.json.decode(sys.argv[1], type=Slice)))
