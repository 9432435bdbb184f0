"""The queue against a model of plain lists: random people, chats, modes, commands, edits and crashes.

Drives `store/queue` and `store/claims`.

B78, B80, B85: whatever happens, no message is lost, none is heard twice, and each chat keeps its order.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import hypothesis.strategies as st
import msgspec
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule
from msgspec import Struct, field

from perdure.core.journal import MessagesJoined, TurnFinished, TurnRequeued, fold
from perdure.core.messages import Inbound, Sender, Stored
from perdure.core.queue import QUEUE_MODE_NAMES, Fate, QueueMode, QueueRules
from perdure.store.claims import Claim
from perdure.store.inbox import InboxKind
from perdure.store.queue import convert_to_message, switch_mode
from perdure.store.transitions import Turn
from support.store_gateway import DatabaseLocation, StoreGateway, chat_address, everybody_may_join, key_of

T = TypeVar("T")

CHATS = ("a", "b")
PEOPLE = ("ann", "bob")
RULES = QueueRules("queue", cap=7)

VERBS = [  # the more often here, the more often done
    *("write", "write", "write", "write", "album", "again", "claim", "claim", "claim", "listen", "listen"),
    *("finish", "finish", "command", "switch", "switch", "put", "obey", "obey", "edit", "delete", "crash"),
]


class Said(Struct):
    """A message or a command as it must be."""

    name: str
    text: str
    sender: str
    kind: InboxKind = "message"
    manner: QueueMode | None = "queue"
    album: str | None = None
    state: str = "waiting"
    turn: str | None = None


class Talk(Struct):
    """A chat as it must be."""

    said: list[Said] = field(default_factory=list)
    mode: QueueMode | None = None
    turn: Turn | None = None  # the one that runs
    heard: dict[str, list[str]] = field(default_factory=dict)  # by turn, what it is about

    def waiting(self, *, all_of_it: bool = False) -> list[Said]:
        """What may begin a turn: nothing behind a command that is not obeyed."""
        found = []
        for each in self.said:
            if each.state == "waiting" and each.kind == "command" and not all_of_it:
                break
            if each.state == "waiting" and each.kind == "message":
                found.append(each)
        return found

    def commands(self) -> list[Said]:
        return [each for each in self.said if each.state == "waiting" and each.kind == "command"]

    def next_turn(self) -> list[Said]:
        waiting = self.waiting()
        pressing = [each for each in waiting if each.manner == "interrupt"]
        if not waiting or pressing:
            return pressing
        first, turn = waiting[0], [waiting[0]]
        alike = first.manner == "collect"
        for each in waiting[1:]:
            alike = alike and each.manner == "collect"
            if alike or (first.album is not None and each.album == first.album):
                turn.append(each)
        return turn

    def take(self, turn: str, found: list[Said]) -> None:
        for each in found:
            each.state, each.turn = "taken", turn
        self.heard.setdefault(turn, []).extend(each.text for each in found)


class QueueModel(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self._folder = Path(tempfile.mkdtemp(prefix="perdure-queue-"))
        self._runner = asyncio.Runner()
        self._gateway = StoreGateway(DatabaseLocation(f"sqlite:///{self._folder}/perdure.db", self._folder))
        self._run(self._gateway.open())
        self.chats = {name: Talk() for name in CHATS}
        self._count = 0

    def teardown(self) -> None:
        self._run(self._gateway.crash())
        self._runner.close()
        shutil.rmtree(self._folder)

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(coroutine)

    @rule(verb=st.sampled_from(VERBS), name=st.sampled_from(CHATS), number=st.integers(0, 99))
    def act(self, verb: str, name: str, number: int) -> None:
        """One event. They are one rule, so that walks get far: each needs the others."""
        chat, person = self.chats[name], PEOPLE[number % 2]
        match verb:
            case "write" | "album":
                self._write(name, chat, person, f"x{number % 2}" if verb == "album" else None)
            case "again":
                self._again(name, chat, number)
            case "command" | "switch" | "put":
                words = {
                    "command": "/status",
                    "switch": f"/queue {QUEUE_MODE_NAMES[number % 4]}",
                    "put": f"/put {number}",
                }
                self._receive(name, chat, Said(self._name(), words[verb], person, "command", None))
            case "obey":
                self._obey(name, chat)
            case "claim":
                self._claim(name, chat)
            case "listen":
                self._listen(chat)
            case "finish":
                self._finish(chat)
            case "edit" | "delete":
                self._amend(name, chat, verb, number)
            case _:
                self._crash()

    # ── coming in ───────────────────────────────────────────────────────────────────────────────────────────

    def _name(self) -> str:
        self._count += 1
        return f"m{self._count}"

    def _write(self, name: str, chat: Talk, person: str, album: str | None) -> None:
        said = self._name()
        self._receive(name, chat, Said(said, said, person, "message", chat.mode or RULES.mode, album))

    def _receive(self, name: str, chat: Talk, said: Said) -> None:
        full = said.kind == "message" and len(chat.waiting(all_of_it=True)) >= RULES.cap
        stored = self._store(name, said)
        assert stored.fresh
        assert stored.fate is (Fate.FULL if full else Fate.WAITS)
        said.state = "refused" if full else "waiting"
        ends = chat.turn is not None and said.manner == "interrupt" and not full
        assert stored.ended == (chat.turn.id if ends and chat.turn else None)
        chat.turn = None if ends else chat.turn
        chat.said.append(said)

    def _store(self, name: str, said: Said) -> Stored:
        inbound = self._inbound(name, said)
        now = self._gateway.now()
        return self._run(
            self._gateway.store.inbox.receive(
                inbound, "", key_of(name), now, said.kind, rules=RULES, may_join=everybody_may_join
            )
        )

    @staticmethod
    def _inbound(name: str, said: Said) -> Inbound:
        return Inbound(chat_address(name), said.name, Sender(said.sender), said.text, album=said.album)

    def _again(self, name: str, chat: Talk, number: int) -> None:
        if chat.said:
            said = chat.said[number % len(chat.said)]
            stored = self._store(name, said)
            assert not stored.fresh
            assert stored.fate is (Fate.FULL if said.state == "refused" else Fate.WAITS)

    # ── commands ────────────────────────────────────────────────────────────────────────────────────────────

    def _obey(self, name: str, chat: Talk) -> None:
        commands = self._run(self._gateway.store.chat_commands.waiting(self._gateway.run))
        here = [order for order in commands if order.key == key_of(name)]
        assert [order.message for order in here] == [each.name for each in chat.commands()]
        if not here:
            return
        order, said, now, store = here[0], chat.commands()[0], self._gateway.now(), self._gateway.store
        verb, _, rest = order.text.partition(" ")
        said.state = "obeyed"
        if verb == "/queue":
            mode = next(mode for mode in QUEUE_MODE_NAMES if mode == rest)
            switching = switch_mode(order.key, mode, order.position, may_join=everybody_may_join)
            done = self._run(store.chat_commands.execute(order, switching, lambda _: "", now))
            assert done is not None
            self._switched(chat, said, mode, done.ended)
        elif verb == "/put":
            full = len(chat.waiting(all_of_it=True)) >= RULES.cap
            putting = convert_to_message(order, rest, "steer", RULES)
            put = self._run(store.chat_commands.execute(order, putting, lambda _: "", now))
            assert put is not None
            assert put.taken is not full
            if not full:
                said.kind, said.manner, said.text, said.state = "message", "steer", rest, "waiting"
        else:
            self._run(store.chat_commands.execute(order, lambda _: None, lambda _: "", now))

    @staticmethod
    def _switched(chat: Talk, command: Said, mode: QueueMode, ended: str | None) -> None:
        chat.mode = mode
        behind = chat.said[chat.said.index(command) + 1 :]
        follow = [each for each in chat.waiting() if each in behind]
        for each in follow:
            each.manner = mode
        ends = bool(follow) and mode == "interrupt" and chat.turn is not None
        assert ended == (chat.turn.id if ends and chat.turn else None)
        chat.turn = None if ends else chat.turn

    # ── turns ───────────────────────────────────────────────────────────────────────────────────────────────

    def _claim(self, name: str, chat: Talk) -> None:
        claim = self._claimed(name)
        expected = [] if chat.turn is not None else chat.next_turn()
        assert (claim is not None) == bool(expected)
        if claim is not None:
            chat.turn = claim.turn
            chat.take(claim.turn.id, expected)
            assert [cause.text for cause in fold(claim.records).causes] == chat.heard[claim.turn.id]

    def _claimed(self, name: str) -> Claim | None:
        gateway = self._gateway
        return self._run(
            gateway.store.turns.claim(key_of(name), gateway.run, gateway.now(), RULES, may_join=everybody_may_join)
        )

    def _listen(self, chat: Talk) -> None:
        if chat.turn is None:
            return
        expected = [each for each in chat.waiting() if each.manner == "steer"]
        records = self._run(
            self._gateway.store.queue.join(chat.turn, RULES, self._gateway.now(), may_join=everybody_may_join)
        )
        assert records is not None
        entries = [record.entry for record in records]
        joined = [cause.text for entry in entries if isinstance(entry, MessagesJoined) for cause in entry.causes]
        assert joined == [each.text for each in expected]
        chat.take(chat.turn.id, expected)

    def _finish(self, chat: Talk) -> None:
        if chat.turn is not None:
            assert self._run(self._gateway.appends(chat.turn, TurnFinished("done")))
            chat.turn = None

    # ── edits ───────────────────────────────────────────────────────────────────────────────────────────────

    def _amend(self, name: str, chat: Talk, verb: str, number: int) -> None:
        if not chat.said:
            return
        said, by, text = chat.said[number % len(chat.said)], PEOPLE[number // 2 % 2], f"{self._name()} edited"
        edit = msgspec.structs.replace(
            self._inbound(name, said), sender=Sender(by), text=text, kind="edit", version=text
        )
        change = msgspec.structs.replace(edit, text="", kind="delete", version="") if verb == "delete" else edit
        stored = self._run(
            self._gateway.store.queue.amend(
                change,
                "",
                key_of(name),
                self._gateway.now(),
                resolve_key=lambda _: key_of(name),
                rules=RULES,
                may_join=everybody_may_join,
            )
        )
        if verb == "delete" and said.state == "deleted":
            assert stored.fate is Fate.DELETED, "whoever deletes it again hears the same"
        elif said.state == "refused" or by != said.sender:
            assert stored.fate is Fate.UNKNOWN
        elif said.state != "waiting":
            assert stored.fate is Fate.TOO_LATE
        elif verb == "delete":
            assert stored.fate is Fate.DELETED
            said.state = "deleted"
        else:
            assert stored.fate is Fate.CHANGED
            self._reworded(chat, said, text, stored.ended)

    @staticmethod
    def _reworded(chat: Talk, said: Said, text: str, ended: str | None) -> None:
        was, said.text = said.kind, text
        if was == "command":
            said.kind, said.manner = "message", chat.mode or RULES.mode
        ends = was == "command" and said.manner == "interrupt" and chat.turn is not None
        assert ended == (chat.turn.id if ends and chat.turn else None)
        chat.turn = None if ends else chat.turn

    # ── crashes ─────────────────────────────────────────────────────────────────────────────────────────────

    def _crash(self) -> None:
        """Die, come back, and go on with what was cut off; what wants to steer it joins it."""
        self._run(self._gateway.reopen())
        lost = {turn.key: turn for turn in self._run(self._gateway.lost_turns())}
        running = {key_of(name): chat for name, chat in self.chats.items() if chat.turn is not None}
        assert lost.keys() == running.keys()
        for name, chat in self.chats.items():
            if chat.turn is not None:
                mine = self._run(self._gateway.interrupts_turn(chat.turn))
                assert mine is not None
                assert self._run(self._gateway.appends(mine, TurnRequeued()))
                claim = self._claimed(name)
                assert claim is not None
                chat.turn = claim.turn
                chat.take(claim.turn.id, [each for each in chat.waiting() if each.manner == "steer"])

    # ── what must always be true ────────────────────────────────────────────────────────────────────────────

    @invariant()
    def queue_is_as_the_model_says(self) -> None:
        for name, chat in self.chats.items():
            sql = "SELECT body, kind, manner, state, turn FROM inbox WHERE key = :key AND kind <> 'change' "
            rows = self._run(
                self._gateway.query(f"{sql} AND body IS NOT NULL ORDER BY position", key=key_of(name))
            )
            texts = [msgspec.json.decode(row[0], type=Inbound).text for row in rows]
            found = [(text, *row[1:]) for text, row in zip(texts, rows, strict=True)]
            kept = [each for each in chat.said if each.state != "refused"]
            assert found == [(each.text, each.kind, each.manner, each.state, each.turn) for each in kept]
            for turn, heard in chat.heard.items():
                records = self._run(self._gateway.store.journal.of_turn(self._session(turn), turn))
                assert [cause.text for cause in fold(records).causes] == heard, "heard once, and in order"

    def _session(self, turn: str) -> str:
        found = self._run(self._gateway.store.turns.get(turn))
        assert found is not None
        return found.session


QueueModel.TestCase.settings = settings(
    max_examples=40,
    stateful_step_count=50,
    deadline=None,
    report_multiple_bugs=False,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
TestQueueModel = pytest.mark.timeout(900)(QueueModel.TestCase)  # thousands of real commits
