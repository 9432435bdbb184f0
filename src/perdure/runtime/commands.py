"""Slash commands: one registry, from which /help, menus and docs are made.

A command works at any time and never reaches the model. It is carried out once, in the same transaction as its
answer, and acts on the turn that was current when it was stored, not on whatever runs by the time it is read.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from perdure.boundary import contain
from perdure.core import notes
from perdure.core.address import read_session_key, work_of
from perdure.core.commands import Words, nearest, read_command
from perdure.core.explain import explain
from perdure.core.messages import Inbound
from perdure.core.queueing import Rules
from perdure.core.recovery import Reason
from perdure.errors import NewerEntry, Unavailable
from perdure.logs import Log
from perdure.runtime.access import Access, Verb
from perdure.runtime.bell import Bell
from perdure.runtime.goals import GoalCommand
from perdure.runtime.queueing import QueueCommand
from perdure.runtime.runner import Runner
from perdure.runtime.tasks import Failures
from perdure.runtime.undoing import UndoCommand
from perdure.runtime.works import USAGE, WorkCommand
from perdure.store import verbs
from perdure.store.api import Store
from perdure.store.ids import Clock
from perdure.store.orders import Order
from perdure.store.runs import ask_restart

log = Log("commands")

TURN = "t_"  # how the id of a turn begins, and that of a session does not

Run = Callable[[Order, str], Awaitable[None]]


class Command(Struct, frozen=True):
    name: str
    usage: str
    summary: str
    run: Run
    verb: Verb = "command"

    @property
    def takes_words(self) -> bool:
        return self.usage != f"/{self.name}"


class Control(Protocol):
    """What commands may ask of the gateway itself."""

    @property
    def stopping(self) -> Reason | None:
        """What an orderly stop under way marks turns with; None: there is none under way."""

    def describe(self) -> list[str]:
        """The gateway's situation, one sentence a line."""

    def restart(self) -> bool:
        """Ask for a restart. False: a stop or restart is under way already."""


class Commands:
    """Carries out the commands that wait in the inbox."""

    def __init__(
        self,
        store: Store,
        run: str,
        runner: Runner,
        control: Control,
        access: Access,
        *,
        clock: Clock,
        began_at: int,
        goal_turns: int,
        works: int,
        rules: Rules,
        max_length: Callable[[str], int | None],
        answered: Callable[[str], None],
    ) -> None:
        self._store = store
        self._run = run
        self._runner = runner
        self._control = control
        self._access = access
        self._clock = clock
        self._began_at = began_at
        self._max_length = max_length
        self._answered = answered
        self._inherited: set[str] = set()  # orders that were stored before this start
        self._failures = Failures(log)
        self._bell = Bell()
        self._goals = GoalCommand(store, goal_turns, clock)
        self._queue = QueueCommand(store, runner, rules, clock)
        self._undoing = UndoCommand(store, clock)
        self._works = WorkCommand(store, runner, works, clock, self._aimed)
        self.registry = {command.name: command for command in self._all()}

    def _all(self) -> list[Command]:
        return [
            Command("help", "/help", "list the commands", self._help, "look"),
            Command("status", "/status", "say what is going on here", self._status, "look"),
            Command("whoami", "/whoami", "say who you are here, and what you may do", self._whoami, "look"),
            Command(
                "stop", "/stop [all]", "end what is running; with `all`, drop what waits too", self._stop, "end"
            ),
            Command("new", "/new", "begin a fresh conversation", self._new),
            Command("reset", "/reset", "the same as /new", self._new),
            Command("resume", "/resume [ID]", "go on with what was cut off or set aside", self._resume),
            Command("drop", "/drop [ID]", "give up what was cut off", self._drop),
            Command(
                "undo", "/undo", "take the last turn back: I forget it, what it did stays done", self._undoing.undo
            ),
            Command("retry", "/retry", "take the last turn back, and ask the same again", self._undoing.retry),
            Command("approve", "/approve [ID]", "let the call run that waits for it", self._approve, "approve"),
            Command("deny", "/deny [ID]", "do not let it run", self._deny, "approve"),
            Command("sessions", "/sessions", "list the conversations of this chat", self._sessions, "look"),
            Command("why", "/why", "explain what became of the last turn, and why", self._why, "look"),
            Command("goal", "/goal [TEXT | off]", "set, show or end what to work towards", self._goals.run),
            Command(
                "queue",
                notes.QUEUE_USAGE,
                "show or switch what messages do while I work",
                self._queue.queue,
                "look",
            ),
            Command("steer", notes.STEER_USAGE, "let what is running take this in", self._queue.steer),
            Command("background", USAGE, "begin work beside the chat, list it or end it", self._works.run),
            Command("restart", "/restart", "restart the gateway", self._restart, "restart"),
        ]

    def wake(self) -> None:
        self._bell.ring()

    async def catch_up(self) -> None:
        """Obey what was stored before this start: a turn that somebody stopped must not go on first."""
        waiting = await self._store.orders.waiting(self._run)
        self._inherited = {order.id for order in waiting}
        for order in waiting:
            await self._obey_or_refuse(order)

    async def work(self) -> None:
        while True:
            await self._bell.wait()
            await self._failures.contain("commands_not_read", self._obey_all())

    async def _obey_all(self) -> None:
        for order in await self._store.orders.waiting(self._run):
            await self._obey_or_refuse(order)

    async def _obey_or_refuse(self, order: Order) -> None:
        """Carry out one command. While the store is away it waits; any other failure is its answer."""
        defects: list[BaseException] = []

        def report(error: BaseException) -> None:
            self._failures.report("not_obeyed", error, key=order.key, order=order.id)
            defects.extend([] if isinstance(error, Unavailable) else [error])

        await contain(self._obey(order), report)
        for error in defects:
            text = notes.NEWER_ENTRY if isinstance(error, NewerEntry) else notes.COMMAND_FAILED
            await self._failures.contain("not_answered", self._say(order, text), order=order.id)
            self._answered(order.key)

    async def _obey(self, order: Order) -> None:
        order = replace(order, longest=self._max_length(order.address.platform))
        words = read_command(order.text) or Words("", order.text)
        command = self.registry.get(words.name)
        log.info("command", name=words.name, key=order.key, order=order.id)
        if not await self._access.may(order.key, order.sender, "talk"):
            await self._say(order, "")  # whoever may not talk is told nothing
        elif command is None:
            await self._say(order, notes.unknown_command(words.name, nearest(words.name, self.registry)))
        elif not await self._access.may(order.key, order.sender, command.verb):
            await self._say(order, notes.NOT_ALLOWED)
        elif words.rest and not command.takes_words:
            await self._say(order, notes.usage(command.usage, words.rest))
        else:
            await command.run(order, words.rest)
        self._answered(order.key)
        self._runner.wake(order.key)  # messages may wait behind it

    async def _aimed(self, order: Order, name: str, rest: str) -> None:
        """Carry out another command where this one leads."""
        command = self.registry[name]
        if await self._access.may(order.key, order.sender, command.verb):
            await command.run(order, rest)
        else:
            await self._say(order, notes.NOT_ALLOWED)

    async def _say(self, order: Order, text: str) -> None:
        """Answer, and do nothing else."""
        await self._store.orders.obey(order, lambda _: None, lambda _: text, self._clock())

    # ── commands that only look ─────────────────────────────────────────────────────────────────────────────

    async def _help(self, order: Order, _: str) -> None:
        width = max(len(command.usage) for command in self.registry.values())
        lines = [f"{command.usage:{width}}  {command.summary}" for command in self.registry.values()]
        await self._say(order, "\n".join(lines))

    async def _status(self, order: Order, _: str) -> None:
        beside = [*await self._queue.lines(order.key), *await self._goals.lines(order.key)]
        beside += await self._works.lines(order.key)
        beside += await self._processes(order.key)
        await self._say(order, "\n".join([*self._control.describe(), *await self._explained(order), *beside]))

    async def _processes(self, key: str) -> list[str]:
        """The commands that go on in the background here."""
        live = await self._store.processes.live(key)
        return [
            notes.process_line(one.id, one.command, notes.process_state(one.state, None, None)) for one in live
        ]

    async def _whoami(self, order: Order, _: str) -> None:
        person, role = order.sender, await self._access.role(order.address, order.sender)
        there = {"shared": read_session_key(order.key).shared, "alone": order.address.kind == "dm"}
        said = notes.who_you_are(person.id, person.name, role, **there) if role else ""
        await self._say(order, said)

    async def _why(self, order: Order, _: str) -> None:
        await self._say(order, "\n".join(await self._explained(order)))

    async def _explained(self, order: Order) -> list[str]:
        session = await self._store.sessions.current(order.key)
        if session is None:
            return [notes.NOTHING_HERE]
        return explain(await self._store.situations.of_session(session), self._clock())

    async def _sessions(self, order: Order, _: str) -> None:
        now, found = self._clock(), await self._store.sessions.talks(order.key)
        shown = [(talk.id, talk.state.value, now - talk.updated_at, words) for talk, words in found]
        await self._say(order, notes.talks(shown))

    # ── commands that act ───────────────────────────────────────────────────────────────────────────────────

    async def _stop(self, order: Order, rest: str) -> None:
        if rest.lower() not in ("", "all"):
            await self._say(order, notes.usage("/stop [all]", rest))
            return
        now, ids, everything = self._clock(), self._store.ids, bool(rest)
        stop = verbs.stop(ids, order.key, _bound(order), now, everything=everything, before=order.position)
        done = await self._store.orders.obey(
            order, stop, lambda s: notes.stopped(s.turn, s.waiting, s.dropped, s.withdrawn), now
        )
        if done and done.turn:
            self._runner.cut_off(done.turn)

    async def _new(self, order: Order, _: str) -> None:
        now = self._clock()
        renew = verbs.renew(self._store.ids, order.key, now, before=order.position)
        done = await self._store.orders.obey(order, renew, lambda r: notes.renewed(r.turn, r.dropped), now)
        if done and done.turn:
            self._runner.cut_off(done.turn)

    async def _resume(self, order: Order, rest: str) -> None:
        now = self._clock()
        wish = Inbound(order.address, f"{order.message}.wish", order.sender, "")
        session, bound = ("", rest) if rest.startswith(TURN) else (rest, _bound(order))
        resume = verbs.resume(self._store.ids, order.key, self._run, wish, now, session=session, bound=bound)
        await self._store.orders.obey(order, resume, lambda resumed: notes.RESUMED[resumed.what], now)

    async def _drop(self, order: Order, rest: str) -> None:
        if rest and not rest.startswith(TURN):
            await self._say(order, notes.usage("/drop [ID]", rest))
            return
        now = self._clock()
        drop = verbs.drop(self._store.ids, order.key, now, bound=rest or _bound(order))
        done = await self._store.orders.obey(
            order, drop, lambda done: notes.OVER if done.over else notes.dropped(done.turn is not None), now
        )
        if done and done.turn:
            self._runner.cut_off(done.turn)

    async def _approve(self, order: Order, rest: str) -> None:
        await self._judge(order, rest, approve=True)

    async def _deny(self, order: Order, rest: str) -> None:
        await self._judge(order, rest, approve=False)

    async def _judge(self, order: Order, name: str, *, approve: bool) -> None:
        if name and not name.startswith(TURN):
            await self._say(order, notes.usage(self.registry["approve" if approve else "deny"].usage, name))
            return
        now = self._clock()
        judge = verbs.judge(
            self._store.ids, order.key, order.sender, now, approve=approve, name=name, bound=_bound(order)
        )
        await self._store.orders.obey(order, judge, lambda verdict: notes.JUDGED[verdict], now)

    async def _restart(self, order: Order, _: str) -> None:
        """A request from before this start was fulfilled by it, however it came about."""
        if order.id in self._inherited or order.received_at < self._began_at:
            await self._say(order, notes.RESTARTED_SINCE)
        elif self._control.stopping is not None:
            await self._say(order, notes.RESTART_UNDER_WAY)
        else:
            ask = ask_restart(self._run, order.key)
            done = await self._store.orders.obey(order, ask, lambda _: notes.RESTARTING, self._clock())
            if done is not None:
                self._control.restart()


def _bound(order: Order) -> str | None:
    """The turn that a command may act on. One that found no turn must not act on one that began after it.

    Work in the background is named by its number, and any turn of it is meant.
    """
    return None if work_of(order.key) is not None else order.bound or "none"
