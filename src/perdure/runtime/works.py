"""`/background`: work in a session of its own, whose answer comes to the chat that asked."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec.structs import replace

from perdure.core import notes
from perdure.core.address import background_key
from perdure.core.commands import Aim, is_verb, read_aim
from perdure.core.explain import STATES
from perdure.core.messages import Inbound
from perdure.runtime.runner import Runner
from perdure.store import verbs
from perdure.store.api import Store
from perdure.store.ids import Clock
from perdure.store.inbox import LATEST
from perdure.store.orders import Order
from perdure.store.works import begin_work

USAGE = "/background [TEXT | stop N]"


class WorkCommand:
    """Begins work, lists it, and lets the other commands reach it by its number."""

    def __init__(
        self,
        store: Store,
        runner: Runner,
        most: int,
        clock: Clock,
        command: Callable[[Order, str, str], Awaitable[None]],
    ) -> None:
        """`most` may go on in one chat; `command` carries out another command, by its name and its words."""
        self._store = store
        self._runner = runner
        self._most = most
        self._clock = clock
        self._command = command

    async def run(self, order: Order, rest: str) -> None:
        aim = read_aim(rest)
        if aim is not None:
            await self._reach(order, aim)
        elif is_verb(rest):
            await self._say(order, notes.usage(USAGE, rest))
        elif rest:
            await self._begin(order, rest)
        else:
            await self._say(order, "\n".join(await self.lines(order.key)) or notes.NO_WORK)

    async def lines(self, key: str) -> list[str]:
        """What is going on in the background of a chat."""
        going = await self._store.works.going(key)
        return [notes.work_line(work.number, STATES[work.state], work.text) for work in going]

    async def _begin(self, order: Order, text: str) -> None:
        now, files = self._clock(), order.attachments
        said = Inbound(order.address, order.message, order.sender, text, attachments=files)
        begin = begin_work(self._store.ids, order.key, said, f"background:{order.id}", now, self._most)
        number = await self._store.orders.obey(order, begin, self._told, now)
        if number is not None:
            self._runner.wake(background_key(order.key, number))

    def _told(self, number: int | None) -> str:
        return notes.too_many_works(self._most) if number is None else notes.work_begun(number)

    async def _reach(self, order: Order, aim: Aim) -> None:
        """Carry out a command on a work. What comes of it is answered in the chat."""
        key = background_key(order.key, aim.number)
        if not await self._store.works.exists(key):
            await self._say(order, notes.no_such_work(aim.number))
            return
        there = replace(order, key=key, bound=None, position=LATEST)
        if aim.verb == "answer":
            await self._answer(there, aim.words)
        else:
            await self._command(there, aim.verb, "all" if aim.verb == "stop" else aim.words)
        self._runner.wake(key)

    async def _answer(self, order: Order, text: str) -> None:
        now = self._clock()
        answering = verbs.answer(self._store.ids, order.key, order.sender, text, now)
        await self._store.orders.obey(order, answering, notes.work_answered, now)

    async def _say(self, order: Order, text: str) -> None:
        await self._store.orders.obey(order, lambda _: None, lambda _: text, self._clock())
