"""A crowd that talks: as many people as there are sessions, each of whom waits for the reply and writes again.

A conversation grows with every turn, and whoever answers reads all of it: so each person begins a new one after a
few turns, or a quick contender would be punished with long conversations.
"""

from __future__ import annotations

import asyncio
import os
import resource
import time
from collections.abc import Callable
from pathlib import Path
from statistics import quantiles
from typing import NamedTuple, Protocol

TURNS_OF_A_CHAT = 8
PATIENCE = 20.0  # seconds in which everything must come to rest
SETTLED = 0.1  # seconds without another transaction: then nothing is under way any more
_PAGE = resource.getpagesize()


class Talk(Protocol):
    """One conversation."""

    async def say(self, text: str) -> str:
        """Write a message; the reply to it."""

    async def leave(self) -> None: ...


class Tally(NamedTuple):
    """How much a contender has asked of its store so far."""

    jobs: int = 0  # transactions that write, for the sake of a session
    commits: int = 0  # of the disk: many jobs may share one
    reads: int = 0


class Contender(NamedTuple):
    """Whoever answers, and how to look at its process."""

    begin: Callable[[str], Talk]  # a conversation of this name
    tally: Callable[[], Tally] = Tally
    cpu: Callable[[], float] = time.process_time
    rss: Callable[[], int] = lambda: resident()
    pid: int = 0  # of its process, if that is not ours


class Spent(NamedTuple):
    """What a contender did in one window, and what that cost."""

    turns: int
    seconds: float
    cpu: float  # seconds, of all threads of the contender's process
    p50: float  # seconds from a message to its reply
    p99: float
    rss: int  # bytes, at the end
    jobs: float  # a turn, over everything from the first to the last
    commits: float
    reads: float

    @property
    def rate(self) -> float:
        return self.turns / self.seconds

    @property
    def cpu_per_turn(self) -> float:
        return self.cpu / self.turns


class Crowd:
    """Talks to one contender, and counts."""

    def __init__(self, contender: Contender, words: str, reply: str) -> None:
        """Everybody writes `words`, and must get `reply`."""
        self._contender = contender
        self._words = words
        self._reply = reply
        self._turns = 0
        self._latencies: list[float] = []
        self._over = False

    async def talk(self, sessions: int, warm_up: float, seconds: float, spread: float = 0.0) -> Spent:
        """Let everybody talk for a while, and look at what happens after the warm-up.

        They begin one after another within `spread` seconds, so that they do not all write at the same moment.
        """
        before = self._contender.tally()
        async with asyncio.TaskGroup() as group:
            for place in range(sessions):
                group.create_task(self._person(f"{sessions}-{place}", spread * place / sessions))
            await asyncio.sleep(warm_up)
            self._latencies, began = [], self._look()
            await asyncio.sleep(seconds)
            ended, latencies, rss = self._look(), self._latencies, self._contender.rss()
            self._over, self._latencies = True, []
        return await self._spent(began, ended, latencies, rss, before)

    async def burst(self, sessions: int) -> Spent:
        """Let everybody write one message at the same moment, and look at what happens until the last reply."""
        before, began = self._contender.tally(), self._look()
        async with asyncio.TaskGroup() as group:
            for place in range(sessions):
                group.create_task(self._turn(self._contender.begin(f"{sessions}-{place}")))
        return await self._spent(began, self._look(), self._latencies, self._contender.rss(), before)

    async def _person(self, name: str, delay: float) -> None:
        await asyncio.sleep(delay)
        chat = 0
        while not self._over:
            chat += 1
            talk = self._contender.begin(f"{name}.{chat}")
            for _ in range(TURNS_OF_A_CHAT):
                if not self._over:
                    await self._turn(talk)
            await talk.leave()

    async def _turn(self, talk: Talk) -> None:
        began = time.perf_counter()
        reply = await talk.say(self._words)
        self._latencies.append(time.perf_counter() - began)
        self._turns += 1
        if reply != self._reply:
            raise RuntimeError(f"expected the reply {self._reply!r}, got {reply!r}")

    def _look(self) -> tuple[float, float]:
        return time.perf_counter(), self._contender.cpu()

    async def _spent(
        self,
        began: tuple[float, float],
        ended: tuple[float, float],
        latencies: list[float],
        rss: int,
        before: Tally,
    ) -> Spent:
        percents = quantiles(latencies, n=100, method="inclusive")
        asked = [(late - early) / self._turns for early, late in zip(before, await self._settled(), strict=True)]
        seconds, cpu = ended[0] - began[0], ended[1] - began[1]
        return Spent(len(latencies), seconds, cpu, percents[49], percents[98], rss, *asked)

    async def _settled(self) -> Tally:
        """What was asked of the store in all, once the last turn is over and recorded."""
        async with asyncio.timeout(PATIENCE):
            tally, last = self._contender.tally(), None
            while tally != last:
                await asyncio.sleep(SETTLED)
                last, tally = tally, self._contender.tally()
            return tally


def resident(pid: int | None = None) -> int:
    """The bytes of memory that a process holds; ours unless another one is named."""
    fields = Path(f"/proc/{pid or os.getpid()}/statm").read_text().split()
    return int(fields[1]) * _PAGE
