"""The store against a model of plain dictionaries: random walks, with a crash between any two calls.

Drives `store/turns` and `store/outbox`.

The model says what each call must answer. After every step the database is read and compared with it.
"""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import hypothesis.strategies as st
import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from msgspec import Struct, field

from perdure.core.delivery import OPEN_DELIVERY_STATES, DeliveryState
from perdure.core.effects import Effect
from perdure.core.journal import (
    Entry,
    QuestionAnswered,
    QuestionAsked,
    RecoveryDecided,
    RecoveryNoted,
    ToolEnded,
    ToolStarted,
    TurnCancelled,
    TurnFailed,
    TurnFinished,
    TurnInterrupted,
    TurnRequeued,
    fold,
)
from perdure.core.messages import Sender
from perdure.core.recovery.decision import RecoveryChoice, RecoveryRule
from perdure.core.states import ATTEMPT_MOVES, FINAL_STATES, OPEN_STATES, TURN_MOVES, TurnState
from perdure.store.outbox import OutboxDelivery, OutboxReply
from perdure.store.transitions import Turn
from support.store_gateway import DatabaseLocation, DatabaseSnapshot, StoreGateway, answer_with_calls, chat_address

T = TypeVar("T")

CHATS = ("a", "b")
MOVING = {
    "fail": TurnFailed("no"),
    "cancel": TurnCancelled("stopped"),
    "ask": QuestionAsked("q", "Which?"),
    "answer": QuestionAnswered("q", "This.", Sender("ada")),
    "interrupt": TurnInterrupted("shutdown_timeout"),
    "requeue": TurnRequeued(),
}
DECISIONS = {
    "stale": RecoveryDecided(RecoveryChoice.SKIP, "stale", rule=RecoveryRule.STALE),
    "off": RecoveryDecided(RecoveryChoice.SKIP, "off", rule=RecoveryRule.OFF),
}

VERBS = [  # the more often here, the more often done
    *("receive", "receive", "receive", "claim", "claim", "claim", "claim", "wish calls", "wish calls"),
    *("start a call", "end a call", "note", "finish", "finish", "fail", "cancel", "ask", "answer", "answer"),
    *("interrupt", "interrupt", "requeue", "requeue", "stale", "off", "take over in vain"),
]

chats = st.sampled_from(CHATS)
handles = st.sampled_from([0, 0, 0, 0, 1, 2])  # 0 is the newest turn that a caller holds, the others are stale


class Message(Struct):
    text: str
    position: int


class ModelTurn(Struct):
    """A turn as it must be."""

    chat: str
    causes: list[str]
    answers: list[str] = field(default_factory=list)
    state: TurnState = TurnState.RUNNING
    epoch: int = 0
    attempt: int = 1
    interruptions: int = 0
    asked_at: int = 0
    interrupted_at: int = 0  # the place in the chat
    noted: bool = True  # the model was told of the newest interruption
    decided: str | None = None
    calls: dict[str, int] = field(default_factory=dict)  # how many results each call has


class ModelRow(Struct):
    """A row of the outbox as it must be."""

    chat: str
    text: str
    reply: str
    state: str = "owed"
    attempts: int = 0
    live: bool = False  # started by the run that lives now


class StoreModel(RuleBasedStateMachine):
    """What one gateway may do with its store, and what must be true of it at any time."""

    def __init__(self) -> None:
        super().__init__()
        self._folder = Path(tempfile.mkdtemp(prefix="perdure-model-"))
        self._runner = asyncio.Runner()
        self._gateway = StoreGateway(DatabaseLocation(f"sqlite:///{self._folder}/perdure.db", self._folder))
        self._run(self._gateway.open())
        self.received: dict[str, list[str]] = {name: [] for name in CHATS}
        self.waiting: dict[str, list[Message]] = {name: [] for name in CHATS}
        self.position = dict.fromkeys(CHATS, 0)
        self.turns: dict[str, ModelTurn] = {}
        self.handles: dict[str, list[Turn]] = {name: [] for name in CHATS}
        self.ours: set[str] = set()  # chats whose lease this run has
        self.outbox: list[ModelRow] = []
        self._calls = 0

    def teardown(self) -> None:
        self._run(self._gateway.crash())
        self._runner.close()
        shutil.rmtree(self._folder)

    def _run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        return self._runner.run(coroutine)

    def _begun(self, name: str) -> tuple[str, ModelTurn] | None:
        found = [
            (key, turn) for key, turn in self.turns.items() if turn.chat == name and turn.state in OPEN_STATES
        ]
        assert len(found) < 2, "two turns of one key are begun"
        return found[0] if found else None

    def _held(self, name: str, age: int) -> Turn | None:
        """A turn as some caller once got it, and still holds it."""
        held = self.handles[name]
        return held[-1 - age] if len(held) > age else None

    @rule(verb=st.sampled_from(VERBS), name=chats, age=handles, number=st.integers(0, 20))
    def act(self, verb: str, name: str, age: int, number: int) -> None:
        """One call about a message or a turn. They are one rule, so that walks get far: each needs the others."""
        match verb:
            case "receive":
                self.receive(name, number)
            case "claim":
                self.claim(name)
            case "wish calls":
                self.wish_calls(name, age, 1 + number % 3)
            case "start a call" | "end a call":
                self.start_or_end_a_call(name, age, number, verb == "end a call")
            case "note":
                self.note(name, age)
            case "stale" | "off":
                self.hold_back(name, age, verb)
            case "finish":
                self._moved(name, age, TurnFinished("done"), number % 4)
            case "take over in vain":
                self.take_over_in_vain(name, age)
            case _:
                self._moved(name, age, MOVING[verb])

    # ── messages and claims ─────────────────────────────────────────────────────────────────────────────────

    def receive(self, name: str, number: int) -> None:
        text = f"m{number}"
        stored = self._run(self._gateway.receives(text, chat_name=name))
        assert stored.fresh == (text not in self.received[name])
        if stored.fresh:
            self.position[name] += 1
            self.received[name].append(text)
            self.waiting[name].append(Message(text, self.position[name]))

    def claim(self, name: str) -> None:
        expected = self._claimable(name)
        claim = self._run(self._gateway.claims(name))
        assert (claim is not None) == expected
        if claim is None:
            return
        model = self._claimed(name, claim.turn)
        self.handles[name].append(claim.turn)
        assert [cause.text for cause in fold(claim.records).causes] == model.causes

    def _claimable(self, name: str) -> bool:
        begun = self._begun(name)
        if begun is None:
            return bool(self.waiting[name])
        turn = begun[1]
        if name not in self.ours or turn.state is TurnState.RUNNING:
            return False
        if turn.state is TurnState.WAITING:
            return bool(self._answers(turn))
        return turn.state is TurnState.QUEUED or self._superseded(turn) or self._joined(turn)

    def _answers(self, turn: ModelTurn) -> list[Message]:
        """What came behind the question, and so may answer it."""
        return [message for message in self.waiting[turn.chat] if message.position > turn.asked_at]

    def _superseded(self, turn: ModelTurn) -> bool:
        return turn.decided == "stale" and bool(self.waiting[turn.chat])

    def _joined(self, turn: ModelTurn) -> bool:
        return turn.decided is not None and bool(self._arrived(turn))

    def _arrived(self, turn: ModelTurn) -> list[Message]:
        return [message for message in self.waiting[turn.chat] if message.position > turn.interrupted_at]

    def _claimed(self, name: str, turn: Turn) -> ModelTurn:
        begun = self._begun(name)
        if begun is not None and begun[1].state is TurnState.INTERRUPTED and self._superseded(begun[1]):
            self._end(begun[1], TurnState.CANCELLED)
            begun = None
        if begun is None:
            assert turn.id not in self.turns
            self.turns[turn.id] = ModelTurn(name, [self.waiting[name].pop(0).text])
        else:
            assert turn.id == begun[0]
            if begun[1].state is TurnState.WAITING:
                answer = self._answers(begun[1])[0]
                self.waiting[name].remove(answer)
                begun[1].answers.append(answer.text)
            self._go_on(begun[1])
        model = self.turns[turn.id]
        assert turn.epoch > model.epoch
        model.state, model.epoch = TurnState.RUNNING, turn.epoch
        self.ours.add(name)
        assert (turn.state, turn.attempt) == (model.state, model.attempt)
        return model

    def _go_on(self, model: ModelTurn) -> None:
        model.attempt += 1
        arrived = [] if model.noted else self._arrived(model)
        model.causes += [message.text for message in arrived]
        self.waiting[model.chat] = [message for message in self.waiting[model.chat] if message not in arrived]

    # ── appending ───────────────────────────────────────────────────────────────────────────────────────────

    def _append(self, turn: Turn, entry: Entry, *owed: OutboxReply) -> bool:
        return (
            self._run(self._gateway.store.turns.append(turn, [entry], self._gateway.now(), replies=owed))
            is not None
        )

    @staticmethod
    def _end(model: ModelTurn, state: TurnState) -> None:
        model.state = state
        model.calls = {call: max(1, results) for call, results in model.calls.items()}

    def wish_calls(self, name: str, age: int, count: int) -> None:
        if turn := self._held(name, age):
            model = self.turns[turn.id]
            calls = [f"call{self._calls + number}" for number in range(count)]
            self._calls += count
            accepted = self._append(turn, answer_with_calls(*calls))
            assert accepted == (model.state is TurnState.RUNNING and model.epoch == turn.epoch)
            if accepted:
                model.calls |= dict.fromkeys(calls, 0)

    def start_or_end_a_call(self, name: str, age: int, choice: int, ends: bool) -> None:
        turn = self._held(name, age)
        open_calls = [call for call, results in self.turns[turn.id].calls.items() if not results] if turn else []
        if not turn or not open_calls:
            return
        model, call = self.turns[turn.id], open_calls[choice % len(open_calls)]
        entry = ToolEnded(call, "ok", "") if ends else ToolStarted(call, "look", Effect.PURE, call)
        states = (TurnState.RUNNING, TurnState.WAITING, TurnState.INTERRUPTED) if ends else (TurnState.RUNNING,)
        accepted = self._append(turn, entry)
        assert accepted == (model.state in states and model.epoch == turn.epoch)
        model.calls[call] += accepted and ends

    def note(self, name: str, age: int) -> None:
        if turn := self._held(name, age):
            model = self.turns[turn.id]
            accepted = self._append(turn, RecoveryNoted("you were cut off"))
            assert accepted == (model.state is TurnState.RUNNING and model.epoch == turn.epoch)
            model.noted = model.noted or accepted

    def _moved(self, name: str, age: int, entry: Entry, parts: int = 0) -> None:
        turn, move = self._held(name, age), entry.move
        if turn is None or move is None:
            return
        model, reply = self.turns[turn.id], f"reply {len(self.outbox)}"
        texts = tuple(f"{reply} part {part}" for part in range(parts))
        accepted = self._append(turn, entry, OutboxReply(chat_address(name), reply, texts))
        too_late = move in ATTEMPT_MOVES and model.state is not TurnState.RUNNING  # nobody's attempt runs any more
        assert accepted == (move in TURN_MOVES[model.state] and not too_late and model.epoch == turn.epoch)
        if accepted:
            self._end(model, state) if (state := TURN_MOVES[model.state][move]) in FINAL_STATES else self._step(
                model, state
            )
            self.outbox += [ModelRow(name, text, reply) for text in texts]

    def _step(self, model: ModelTurn, state: TurnState) -> None:
        model.state = state
        if state is TurnState.WAITING:
            model.asked_at = self.position[model.chat]
        if state is TurnState.INTERRUPTED:
            model.interruptions += 1
            model.interrupted_at = self.position[model.chat]
            model.noted, model.decided = False, None

    def hold_back(self, name: str, age: int, rule_name: str) -> None:
        """Decide that an interrupted turn does not go on by itself."""
        turn = self._held(name, age)
        if turn is None or self.turns[turn.id].state is not TurnState.INTERRUPTED:
            return
        model = self.turns[turn.id]
        accepted = self._append(turn, DECISIONS[rule_name])
        assert accepted == (model.epoch == turn.epoch)
        if accepted:
            model.decided = rule_name

    # ── crashes ─────────────────────────────────────────────────────────────────────────────────────────────

    @rule(clean=st.booleans(), recover=st.booleans())
    def reopen(self, clean: bool, recover: bool) -> None:
        self._run(self._gateway.reopen(clean=clean))
        self.ours.clear()
        for row in self.outbox:
            row.live = False
        if recover:
            self.recover()

    def recover(self) -> None:
        """What a gateway does first: every turn of a dead run is taken over, every send of one is unknown."""
        lost = self._run(self._gateway.lost_turns())
        expected = [
            key for key, turn in self.turns.items() if turn.state in OPEN_STATES and turn.chat not in self.ours
        ]
        assert sorted(turn.id for turn in lost) == sorted(expected)
        for turn in lost:
            mine = self._run(self._gateway.interrupts_turn(turn))
            assert mine is not None
            self._taken_over(mine)
        orphans = [row for row in self.outbox if row.state == "sending" and not row.live]
        assert self._run(self._gateway.store.outbox.mark_orphans_unknown(self._gateway.now())) == len(orphans)
        for row in orphans:
            row.state, row.attempts = "unknown", row.attempts + 1

    def _taken_over(self, turn: Turn) -> None:
        model = self.turns[turn.id]
        assert turn.epoch > model.epoch
        if model.state in (TurnState.QUEUED, TurnState.RUNNING):
            self._step(model, TurnState.INTERRUPTED)
        model.epoch = turn.epoch
        self.ours.add(model.chat)
        self.handles[model.chat].append(turn)
        assert turn.state is model.state

    def take_over_in_vain(self, name: str, age: int) -> None:
        """What is ours already, or over, is not taken over."""
        turn = self._held(name, age)
        if turn is not None and (name in self.ours or self.turns[turn.id].state in FINAL_STATES):
            assert self._run(self._gateway.interrupts_turn(turn)) is None

    # ── sending ─────────────────────────────────────────────────────────────────────────────────────────────

    def _heads(self) -> dict[str, ModelRow]:
        """The first open row of each lane; where a turn must be taken over, the recoverer goes first."""
        heads: dict[str, ModelRow] = {}
        for row in self.outbox:
            ours = row.chat in self.ours or self._begun(row.chat) is None
            if row.state in OPEN_DELIVERY_STATES and ours:
                heads.setdefault(row.chat, row)
        return heads

    @precondition(lambda self: bool(self._heads()))
    @rule(
        choice=st.integers(0, 5),
        outcome=st.sampled_from(["sent", "sent", "busy", "cut off", "refused", "nothing"]),
    )
    def send(self, choice: int, outcome: str) -> None:
        rows = self._run(self._gateway.outbox_heads())
        expected = self._heads()
        assert {row.address.chat: row.text for row in rows} == {name: row.text for name, row in expected.items()}
        row = rows[choice % len(rows)]
        model = expected[row.address.chat]
        assert (row.state, row.attempts) == (model.state, model.attempts)
        started = self._run(self._gateway.starts_delivery(row))
        assert started == (model.state != "sending")
        self.ours.add(model.chat)
        if started:
            model.state, model.live = "sending", True
            self._sent(row, model, outcome)

    def _sent(self, row: OutboxDelivery, model: ModelRow, outcome: str) -> None:
        outbox, now = self._gateway.store.outbox, self._gateway.now()
        if outcome == "sent":
            assert self._run(outbox.record_sent(row, "r", now))
            model.state = "sent"
            self.position[model.chat] += 1
        elif outcome == "busy":
            assert self._run(outbox.retry_later(row, now, now, problem="busy", counts=True))
            # What may have arrived before is not forgotten because it could not be tried again now.
            model.state = "unknown" if row.state is DeliveryState.UNKNOWN else "owed"
            model.attempts += 1
        elif outcome == "cut off":
            assert self._run(outbox.record_unknown(row, now, now, problem="cut off"))
            model.state, model.attempts = "unknown", model.attempts + 1
        elif outcome == "refused":
            assert self._run(outbox.record_refused(row, now, problem="no"))
            for other in self.outbox:
                if other.reply == model.reply and other.state in OPEN_DELIVERY_STATES:
                    other.state = "refused"

    # ── what must always be true ────────────────────────────────────────────────────────────────────────────

    @invariant()
    def database_is_as_the_model_says(self) -> None:
        snapshot = self._run(self._gateway.snapshot())
        self._check_turns(snapshot)
        for name in CHATS:
            self._begun(name)
            self._check_messages(snapshot, name)
            self._check_lane(snapshot, name)

    def _check_turns(self, snapshot: DatabaseSnapshot) -> None:
        assert {turn.id for turn in snapshot.turns} == self.turns.keys()
        for turn in snapshot.turns:
            model, view = self.turns[turn.id], fold(snapshot.journal[turn.id])
            assert (turn.state, turn.attempt, turn.epoch) == (model.state, model.attempt, model.epoch)
            assert (view.state, view.attempt) == (turn.state, turn.attempt)
            assert len(view.interruptions) == model.interruptions
            assert [cause.text for cause in view.causes] == model.causes
            results = [record.entry.call for record in view.records if isinstance(record.entry, ToolEnded)]
            assert {call: results.count(call) for call in view.calls} == model.calls
            assert turn.state not in FINAL_STATES or set(model.calls.values()) <= {1}

    def _check_messages(self, snapshot: DatabaseSnapshot, name: str) -> None:
        """None is lost, none is taken twice, and each turn has those that it was begun or joined with."""
        rows = [row for row in snapshot.inbox if row.chat == name]
        assert [row.text for row in rows] == self.received[name]
        waiting = [row.text for row in rows if row.turn is None]
        assert waiting == [message.text for message in self.waiting[name]]
        for key, model in self.turns.items():
            if model.chat == name:
                assert sorted(row.text for row in rows if row.turn == key) == sorted(model.causes + model.answers)

    def _check_lane(self, snapshot: DatabaseSnapshot, name: str) -> None:
        rows = [row for row in snapshot.outbox if row.address == chat_address(name)]
        expected = [(row.text, row.state, row.attempts) for row in self.outbox if row.chat == name]
        assert [(row.text, row.state, row.attempts) for row in rows] == expected
        places = [row.position for row in rows if row.position is not None]
        assert places == sorted(set(places))


StoreModel.TestCase.settings = settings(
    max_examples=50,
    stateful_step_count=50,
    deadline=None,
    report_multiple_bugs=False,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
TestStoreModel = pytest.mark.timeout(900)(StoreModel.TestCase)  # thousands of real commits
