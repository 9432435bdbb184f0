"""How fast turns are decided about: the pure decision, and all of it through the store.

`python -m bench.recovery_decisions` prints a `Pure`, and with `URL HOME` a `Taken`, each as a JSON list.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from perdure.core.effects import Effect
from perdure.core.journal import (
    Cause,
    Entry,
    JournalRecord,
    ModelAnswered,
    ModelAsked,
    QuestionAsked,
    RecoveryDecided,
    ToolCall,
    ToolEnded,
    ToolStarted,
    TurnBegan,
    TurnClaimed,
    TurnInterrupted,
    TurnRequeued,
    decode_entry,
    encode_entry,
    fold,
)
from perdure.core.messages import Sender
from perdure.core.recovery.decision import (
    InterruptionReason,
    RecoveryChoice,
    RecoveryContext,
    RecoveryPolicy,
    decide,
)
from perdure.runtime.instance import load_instance
from perdure.store.api import Store, open_database
from perdure.store.ids import wall_clock
from perdure.store.transitions import Turn

SECONDS = 0.5
AROUND = RecoveryContext(authorised=True, last_sign_of_life=1_000)
POLICY = RecoveryPolicy()


class Pure(NamedTuple):
    """In a second, on one thread."""

    decided: float  # about turns that were read and folded before
    read_and_decided: float  # from the entries as JSON


class Taken(NamedTuple):
    """What a start does with the turns of a dead run, in seconds."""

    turns: int
    opened: float  # from nothing to a list of them
    marked: float  # all but one taken over, at once
    marked_one: float  # the last one, alone
    requeued: float  # read, decided about and put back in the queue
    cpu: float

    @property
    def rate(self) -> float:
        """Turns marked, decided about and put back in the queue, in a second."""
        return self.turns / (self.marked + self.marked_one + self.requeued)


# ── pure ────────────────────────────────────────────────────────────────────────────────────────────────────


def pure() -> Pure:
    """One turn for each thing that a turn can end with, over and over."""
    journals = [[(seq, entry.kind, encode_entry(entry)) for seq, entry in enumerate(turn, 1)] for turn in _turns()]
    views = [fold(_read(journal)) for journal in journals]
    return Pure(
        _rate(lambda: [decide(view, AROUND, POLICY, 2_000) for view in views]),
        _rate(lambda: [decide(fold(_read(journal)), AROUND, POLICY, 2_000) for journal in journals]),
    )


def _read(journal: Sequence[tuple[int, str, str]]) -> list[JournalRecord]:
    return [JournalRecord(seq, 1_000, decode_entry(kind, 1, body)) for seq, kind, body in journal]


def _turns() -> list[list[Entry]]:
    began = [TurnBegan((Cause("in_1", "step look", Sender("ada"), "m1"),)), TurnClaimed("run_1", 1, 1)]
    call = ToolCall("c1.1", "step", {"name": "look", "seconds": 0.0})
    wished = [*began, ModelAsked(1, "offline"), ModelAnswered(1, "", (call,), "tool_calls")]
    inside = [*wished, ToolStarted(call.id, call.tool, Effect.PURE, "t_1:c1.1")]
    after = [*inside, ToolEnded(call.id, "ok", "look: done")]
    ends: list[list[Entry]] = [
        [*began],
        inside,
        after,
        [*after, ModelAsked(2, "offline"), ModelAnswered(2, "I have loo", finish="length")],
        [*after, ModelAsked(2, "offline"), ModelAnswered(2, "I have looked.", finish="stop")],
    ]
    cut = TurnInterrupted(InterruptionReason.RESTART_INTERRUPTED, "run_1")
    asked: list[Entry] = [*began, QuestionAsked("q_1", "Which one?", ("this", "that"))]
    return [*([*turn, cut] for turn in ends), asked]


def _rate(decisions: Callable[[], Sequence[object]]) -> float:
    begin, count = time.perf_counter(), 0
    while (now := time.perf_counter()) - begin < SECONDS:
        count += len(decisions())
    return count / (now - begin)


# ── through the store ───────────────────────────────────────────────────────────────────────────────────────


async def through_store(url: str, home: Path) -> Taken:
    """Take over, decide about and put back in the queue whatever a dead run has left."""
    cpu, begin = time.process_time(), time.perf_counter()
    store = Store(await open_database(url, home=home))
    run = (await store.runs.begin(load_instance(home), "0")).run
    lost = [each.turn for each in await store.turns.lost(run)]
    opened = time.perf_counter()
    taken = await asyncio.gather(*(_mark(store, turn, run) for turn in lost[1:]))
    marked = time.perf_counter()
    taken.append(await _mark(store, lost[0], run))
    marked_one = time.perf_counter()
    await asyncio.gather(*(_requeue(store, turn) for turn in taken))
    requeued = time.perf_counter()
    used = time.process_time() - cpu
    await store.runs.end(run)
    await store.close()
    steps = (opened - begin, marked - opened, marked_one - marked, requeued - marked_one)
    return Taken(len(lost), *steps, used)


async def _mark(store: Store, turn: Turn, run: str) -> Turn:
    taken = await store.turns.take_over(
        turn.id, turn.key, InterruptionReason.RESTART_INTERRUPTED, run, wall_clock()
    )
    assert taken is not None, f"turn {turn.id} was not taken over"
    return taken


async def _requeue(store: Store, turn: Turn) -> None:
    view = fold(await store.journal.of_turn(turn.session, turn.id))
    session = await store.sessions.get(turn.session)
    run = await store.runs.get(view.content_run or "")
    assert session is not None, f"session {turn.session} is gone"
    assert run is not None, f"run {view.content_run} is gone"
    around = RecoveryContext(
        authorised=True, session=session.state, last_sign_of_life=max(run.heartbeat_at, view.content[-1].at)
    )
    decision = decide(view, around, POLICY, wall_clock())
    assert decision.choice is RecoveryChoice.RESUME, f"turn {turn.id}: {decision.why}"
    decided = RecoveryDecided(decision.choice, decision.why, decision.evidence, decision.rule)
    assert await store.turns.append(turn, [decided, TurnRequeued()], wall_clock()), f"turn {turn.id} has moved on"


if __name__ == "__main__":
    print(json.dumps(asyncio.run(through_store(sys.argv[1], Path(sys.argv[2]))) if sys.argv[1:] else pure()))
