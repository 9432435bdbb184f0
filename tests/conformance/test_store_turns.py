"""Turns: claiming is the only door into running, and every move is guarded by state and epoch.

Drives `store/turns` and `store/transitions`.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence

import pytest

from perdure.core.effects import Effect
from perdure.core.journal import (
    Entry,
    ModelAnswered,
    ModelAsked,
    QuestionAnswered,
    QuestionAsked,
    RecoveryDecided,
    RecoveryNoted,
    ToolEnded,
    ToolStarted,
    TurnBegan,
    TurnCancelled,
    TurnClaimed,
    TurnFailed,
    TurnFinished,
    TurnInterrupted,
    TurnRequeued,
)
from perdure.core.messages import Sender
from perdure.core.recovery.decision import RecoveryChoice, RecoveryRule
from perdure.core.states import ATTEMPT_MOVES, FINAL_STATES, TURN_MOVES, TurnMove, TurnState
from perdure.store.journal import MAX_INLINE_ENTRIES
from perdure.store.outbox import OutboxReply
from perdure.store.transitions import Turn
from support.store_gateway import StoreGateway, answer_with_calls, chat_address, key_of

pytestmark = pytest.mark.anyio

ASKED = QuestionAsked("q1", "Which one?", ("this", "that"))
ANSWERED = QuestionAnswered("q1", "this", Sender("ada"))
INTERRUPTED = TurnInterrupted("shutdown_timeout")
DECIDED = RecoveryDecided(RecoveryChoice.DELIVER, "the final answer is written", rule=RecoveryRule.FINAL_ANSWER)
# One entry per move that can be appended; claiming is not among them.
MOVING: dict[TurnMove, Entry] = {
    TurnMove.FINISHED: TurnFinished("done"),
    TurnMove.ASKED: ASKED,
    TurnMove.ANSWERED: ANSWERED,
    TurnMove.FAILED: TurnFailed("no"),
    TurnMove.CANCELLED: TurnCancelled("stopped"),
    TurnMove.INTERRUPTED: INTERRUPTED,
    TurnMove.REQUEUED: TurnRequeued(),
}
WAY_TO: dict[TurnState, Sequence[Entry]] = {
    TurnState.RUNNING: (),
    TurnState.WAITING: (ASKED,),
    TurnState.QUEUED: (INTERRUPTED, TurnRequeued()),
    TurnState.INTERRUPTED: (INTERRUPTED,),
    TurnState.DONE: (TurnFinished("done"),),
    TurnState.FAILED: (TurnFailed("no"),),
    TurnState.CANCELLED: (TurnCancelled("stopped"),),
}


async def turn_in(gateway: StoreGateway, state: TurnState, chat_name: str = "c1") -> Turn:
    """A turn of ours that got to its state by moves of its own."""
    turn = await gateway.begins_turn("work", chat_name=chat_name)
    for entry in WAY_TO[state]:
        assert await gateway.appends(turn, entry) is not None
    return await gateway.turn_row(turn)


# ── claiming ────────────────────────────────────────────────────────────────────────────────────────────────


async def test_claim_begins_a_turn_from_the_oldest_waiting_message(gateway: StoreGateway) -> None:
    first = await gateway.receives("one")
    await gateway.receives("two")
    claim = await gateway.claims()
    assert claim is not None
    turn = claim.turn
    assert (turn.session, turn.key, turn.state) == (first.session, key_of(), TurnState.RUNNING)
    assert (turn.generation, turn.epoch, turn.attempt, turn.first_seq) == (1, 1, 1, 1)
    began, claimed = (record.entry for record in claim.records)
    assert isinstance(began, TurnBegan)
    assert [(cause.inbox, cause.text, cause.message) for cause in began.causes] == [(first.message, "one", "one")]
    assert claimed == TurnClaimed(gateway.run, 1, 1)
    assert await gateway.turn_row(turn) == turn
    assert await gateway.store.inbox.count_waiting(key_of()) == 1


async def test_claim_gives_nothing_when_nothing_waits(gateway: StoreGateway) -> None:
    assert await gateway.claims() is None
    await gateway.finishes_turn(await gateway.begins_turn("hello"))
    before = await gateway.all_rows()
    assert await gateway.claims() is None
    assert await gateway.all_rows() == before


async def test_claim_brings_the_earlier_turns_of_its_session_unless_they_are_too_many(
    gateway: StoreGateway,
) -> None:
    first = await gateway.begins_turn("one")
    await gateway.finishes_turn(first)
    await gateway.receives("two")
    claim = await gateway.claims()
    assert claim is not None
    assert claim.earlier is not None
    assert list(claim.earlier) == await gateway.store.journal.read_before(first.session, claim.turn.first_seq)
    assert [turn for turn, _ in claim.earlier] == [first.id] * 3
    await gateway.appends(claim.turn, *[RecoveryNoted(str(n)) for n in range(MAX_INLINE_ENTRIES)])
    await gateway.finishes_turn(claim.turn)
    await gateway.receives("three")
    claim = await gateway.claims()
    assert claim is not None
    assert claim.earlier is None


@pytest.mark.parametrize("state", [TurnState.RUNNING, TurnState.INTERRUPTED])
async def test_claim_gives_nothing_while_a_turn_of_the_key_is_begun(
    gateway: StoreGateway, state: TurnState
) -> None:
    await turn_in(gateway, state)
    await gateway.receives("next")
    before = await gateway.all_rows()
    assert await gateway.claims() is None
    assert await gateway.all_rows() == before


@pytest.mark.parametrize(("words", "chosen"), [("THIS", True), ("neither", False)])
async def test_b67_claim_takes_the_next_words_for_the_answer_when_a_turn_waits(
    gateway: StoreGateway, words: str, chosen: bool
) -> None:
    turn = await gateway.begins_turn("work")
    await gateway.receives("from before")
    await gateway.appends(turn, ASKED)
    assert await gateway.claims() is None, "a message from before the question is not its answer"
    await gateway.receives(words)
    claim = await gateway.claims()
    assert claim is not None
    assert claim.turn.id == turn.id
    answer = (await gateway.view(turn)).answer
    assert answer is not None
    assert (answer.text, answer.chosen) == ("this" if chosen else words, chosen)
    assert await gateway.store.inbox.count_waiting(key_of()) == 1


async def test_claim_takes_the_queued_turn_before_any_message(gateway: StoreGateway) -> None:
    turn = await gateway.begins_turn("work")
    await gateway.receives("next")
    await gateway.appends(turn, INTERRUPTED, TurnRequeued())
    claim = await gateway.claims()
    assert claim is not None
    assert claim.turn.id == turn.id
    assert (claim.turn.state, claim.turn.attempt, claim.turn.generation) == (TurnState.RUNNING, 2, 1)
    assert claim.turn.epoch > turn.epoch
    assert list(claim.records) == await gateway.store.journal.of_turn(turn.session, turn.id)
    assert claim.records[-1].entry == TurnClaimed(gateway.run, claim.turn.epoch, 2)
    assert await gateway.store.inbox.count_waiting(key_of()) == 1


async def test_b49_message_supersedes_an_interrupted_turn_when_it_was_held_back_for_good(
    gateway: StoreGateway,
) -> None:
    old = await gateway.begins_turn("old work")
    await gateway.appends(old, answer_with_calls("a"), INTERRUPTED)
    await gateway.receives("next")
    assert await gateway.claims() is None
    await gateway.appends(old, RecoveryDecided(RecoveryChoice.SKIP, "it is stale", rule=RecoveryRule.STALE))
    claim = await gateway.claims()
    assert claim is not None
    assert [cause.text for cause in (await gateway.view(claim.turn)).causes] == ["next"]
    view = await gateway.view(old)
    assert (view.ended, view.open_calls) == (TurnCancelled("superseded"), [])
    assert (await gateway.turn_row(old)).state is view.state is TurnState.CANCELLED


async def test_b49_message_joins_an_interrupted_turn_when_it_was_held_back_for_now(gateway: StoreGateway) -> None:
    turn = await gateway.begins_turn("old work")
    await gateway.receives("stored before the interruption")
    await gateway.appends(turn, INTERRUPTED)
    await gateway.appends(turn, RecoveryDecided(RecoveryChoice.SKIP, "it is off here", rule=RecoveryRule.OFF))
    assert await gateway.claims() is None
    await gateway.receives("one more")
    await gateway.receives("and another")
    claim = await gateway.claims()
    assert claim is not None
    assert claim.turn.id == turn.id
    view = await gateway.view(turn)
    assert [cause.text for cause in view.causes] == ["old work", "one more", "and another"]
    assert (await gateway.turn_row(turn)).state is view.state is TurnState.RUNNING
    assert await gateway.store.inbox.count_waiting(key_of()) == 1


async def test_claim_leaves_a_held_back_turn_alone_when_no_message_waits(gateway: StoreGateway) -> None:
    turn = await turn_in(gateway, TurnState.INTERRUPTED)
    await gateway.appends(turn, RecoveryDecided(RecoveryChoice.SKIP, "it is stale", rule=RecoveryRule.STALE))
    before = await gateway.all_rows()
    assert await gateway.claims() is None
    assert await gateway.all_rows() == before


async def test_claims_follow_the_order_of_the_messages_when_reopened_in_between(gateway: StoreGateway) -> None:
    texts = [f"m{n}" for n in range(6)]
    await asyncio.gather(*(gateway.receives(text) for text in texts))
    answered = []
    for turn_number in range(6):
        claim = await gateway.claims()
        assert claim is not None
        assert claim.turn.generation == turn_number + 1
        answered += [cause.text for cause in (await gateway.view(claim.turn)).causes]
        await gateway.finishes_turn(claim.turn)
        if turn_number % 2:
            await gateway.reopen()
    assert answered == texts
    assert await gateway.claims() is None


async def test_claimable_names_the_keys_that_have_something_to_do(gateway: StoreGateway) -> None:
    await turn_in(gateway, TurnState.QUEUED, "queued")
    await turn_in(gateway, TurnState.RUNNING, "running")
    await gateway.receives("hello", chat_name="waiting")
    await gateway.receives("hello", chat_name="running")
    await turn_in(gateway, TurnState.DONE, "done")
    assert sorted(await gateway.store.turns.claimable_keys(gateway.run)) == sorted(
        [key_of("queued"), key_of("waiting")]
    )


async def test_b78_one_turn_is_begun_when_two_claims_race(gateway: StoreGateway) -> None:
    await gateway.receives("one")
    await gateway.receives("two")
    claims = await asyncio.gather(*(gateway.claims() for _ in range(8)))
    assert len([claim for claim in claims if claim]) == 1
    states = await gateway.query("SELECT state FROM turns")
    assert states == [("running",)]


async def test_b78_one_turn_is_begun_when_two_gateways_race(
    two_gateways: tuple[StoreGateway, StoreGateway],
) -> None:
    for number in range(12):
        name = f"c{number}"
        await two_gateways[number % 2].receives("one", chat_name=name)
        await two_gateways[number % 2].receives("two", chat_name=name)
        claims = await asyncio.gather(*(gateway.claims(name) for gateway in two_gateways))
        assert len([claim for claim in claims if claim]) == 1
    begun = await two_gateways[0].query("SELECT key, count(*) FROM turns GROUP BY key")
    assert sorted(begun) == sorted((key_of(f"c{number}"), 1) for number in range(12))
    taken = await two_gateways[0].query("SELECT count(*), count(DISTINCT turn) FROM inbox WHERE state = 'taken'")
    assert taken == [(12, 12)]


# ── appending facts ─────────────────────────────────────────────────────────────────────────────────────────


async def test_append_writes_facts_in_order_behind_the_last_one(gateway: StoreGateway) -> None:
    turn = await gateway.begins_turn("hello")
    entries = [ModelAsked(1, "offline"), answer_with_calls("a", "b"), ToolStarted("a", "look", Effect.PURE, "k")]
    first = await gateway.appends(turn, *entries)
    second = await gateway.appends(turn, ToolEnded("a", "ok", "seen"))
    assert first is not None
    assert second is not None
    assert [record.seq for record in first + second] == [3, 4, 5, 6]
    await gateway.reopen()
    records = await gateway.store.journal.of_turn(turn.session, turn.id)
    assert records[2:] == first + second
    assert [record.entry for record in records[2:5]] == entries


async def test_append_writes_nothing_when_the_epoch_is_stale(gateway: StoreGateway) -> None:
    old = await gateway.begins_turn("hello")
    await gateway.appends(old, INTERRUPTED, TurnRequeued())
    assert await gateway.claims() is not None
    before = await gateway.all_rows()
    for entries in (
        (ModelAsked(1, "m"),),
        (ToolEnded("a", "ok", ""),),
        (TurnFinished("x"),),
        (TurnCancelled("stopped"),),
    ):
        assert await gateway.appends(old, *entries) is None
    assert await gateway.finishes_turn(old, "a reply that nobody may see") is None
    assert await gateway.all_rows() == before


async def test_append_writes_nothing_when_the_turn_is_unknown(gateway: StoreGateway) -> None:
    turn = await gateway.begins_turn("hello")
    stranger = Turn("t_unknown", turn.session, turn.key, 1, TurnState.RUNNING, turn.epoch, 1, 1, 1, 1)
    before = await gateway.all_rows()
    assert await gateway.appends(stranger, ModelAsked(1, "m")) is None
    assert await gateway.appends(stranger, TurnFinished("x")) is None
    assert await gateway.all_rows() == before


@pytest.mark.parametrize("state", [state for state in TurnState if state is not TurnState.RUNNING])
async def test_append_writes_nothing_when_the_turn_is_not_running(gateway: StoreGateway, state: TurnState) -> None:
    turn = await turn_in(gateway, state)
    before = await gateway.all_rows()
    assert await gateway.appends(turn, ModelAsked(1, "offline")) is None
    assert await gateway.appends(turn, ModelAnswered(1, "hi", finish="stop")) is None
    assert await gateway.appends(turn, RecoveryNoted("note")) is None
    assert await gateway.all_rows() == before


async def test_late_result_is_accepted_when_the_turn_was_interrupted_in_the_same_epoch(
    gateway: StoreGateway,
) -> None:
    turn = await gateway.begins_turn("work")
    await gateway.appends(turn, answer_with_calls("a"), ToolStarted("a", "look", Effect.ONCE, "k"), INTERRUPTED)
    assert await gateway.appends(turn, ToolEnded("a", "ok", "late but true")) is not None
    view = await gateway.view(turn)
    assert (await gateway.turn_row(turn)).state is view.state is TurnState.INTERRUPTED
    assert view.open_calls == []


async def test_b15_late_result_is_refused_when_the_call_was_cancelled(gateway: StoreGateway) -> None:
    turn = await gateway.begins_turn("work")
    await gateway.appends(turn, answer_with_calls("a"), ToolStarted("a", "look", Effect.ONCE, "k"), INTERRUPTED)
    before = await gateway.all_rows()
    result = ToolEnded("a", "ok", "returned after its cancellation")
    assert await gateway.store.turns.append(turn, [result], gateway.now(), late=False) is None
    assert await gateway.all_rows() == before


async def test_late_decision_is_accepted_when_the_turn_is_interrupted(gateway: StoreGateway) -> None:
    turn = await turn_in(gateway, TurnState.INTERRUPTED)
    assert await gateway.appends(turn, RecoveryDecided("skip", "it is stale", {"age_ms": 5})) is not None
    assert (await gateway.turn_row(turn)).state is TurnState.INTERRUPTED


@pytest.mark.parametrize("state", sorted(FINAL_STATES))
async def test_b77_late_result_is_refused_when_the_turn_is_final(gateway: StoreGateway, state: TurnState) -> None:
    turn = await gateway.begins_turn("work")
    await gateway.appends(turn, answer_with_calls("a"), *WAY_TO[state])
    before = await gateway.all_rows()
    assert await gateway.appends(turn, ToolEnded("a", "ok", "too late")) is None
    assert await gateway.all_rows() == before


async def test_b77_late_result_is_refused_when_the_turn_was_taken_over(gateway: StoreGateway) -> None:
    turn = await gateway.begins_turn("work")
    await gateway.appends(turn, answer_with_calls("a"))
    await gateway.reopen()
    assert await gateway.interrupts_turn(turn) is not None
    before = await gateway.all_rows()
    assert await gateway.appends(turn, ToolEnded("a", "ok", "from the dead")) is None
    assert await gateway.all_rows() == before


async def test_late_facts_are_refused_when_something_else_comes_with_them(gateway: StoreGateway) -> None:
    turn = await gateway.begins_turn("work")
    await gateway.appends(turn, answer_with_calls("a"), INTERRUPTED)
    before = await gateway.all_rows()
    assert await gateway.appends(turn, ToolEnded("a", "ok", ""), ModelAsked(2, "m")) is None
    assert await gateway.all_rows() == before


# ── moving ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("state", TurnState)
async def test_move_is_made_when_it_is_legal(gateway: StoreGateway, state: TurnState) -> None:
    for move, after in TURN_MOVES[state].items():
        if move is TurnMove.CLAIMED or (state is TurnState.QUEUED and move in ATTEMPT_MOVES):
            continue  # these have doors of their own: the claim, and taking over
        turn = await turn_in(gateway, state, move)
        owed = OutboxReply(chat_address(move), move, ("hi",))
        by_decision = [DECIDED] if state is TurnState.INTERRUPTED and move in ATTEMPT_MOVES else []
        entries = [*by_decision, MOVING[move]]
        assert await gateway.store.turns.append(turn, entries, gateway.now(), replies=[owed]) is not None
        assert (await gateway.turn_row(turn)).state is (await gateway.view(turn)).state is after
        assert len(await gateway.store.outbox.of_turn(turn.id)) == 1


@pytest.mark.parametrize("state", TurnState)
async def test_move_changes_nothing_when_it_is_illegal(gateway: StoreGateway, state: TurnState) -> None:
    turn = await turn_in(gateway, state)
    before = await gateway.all_rows()
    for move in MOVING.keys() - TURN_MOVES[state].keys():
        owed = OutboxReply(chat_address(), "a reply that nobody may see", ("hi",))
        assert await gateway.store.turns.append(turn, [MOVING[move]], gateway.now(), replies=[owed]) is None
        assert await gateway.all_rows() == before


@pytest.mark.parametrize("move", sorted(ATTEMPT_MOVES))
@pytest.mark.parametrize("state", [TurnState.INTERRUPTED, TurnState.QUEUED])
async def test_b15_turn_without_an_attempt_is_not_moved_by_what_an_earlier_one_returns(
    gateway: StoreGateway, state: TurnState, move: TurnMove
) -> None:
    turn = await turn_in(gateway, state)
    before = await gateway.all_rows()
    owed = OutboxReply(chat_address(), "a reply that nobody may see", ("hi",))
    said = ModelAnswered(1, "half of it", finish="stop")
    for entries in ([MOVING[move]], [said, MOVING[move]]):
        assert await gateway.store.turns.append(turn, entries, gateway.now(), replies=[owed]) is None
    assert await gateway.all_rows() == before


async def test_moves_of_one_append_are_made_together_or_not_at_all(gateway: StoreGateway) -> None:
    turn = await gateway.begins_turn("work")
    before = await gateway.all_rows()
    assert await gateway.appends(turn, INTERRUPTED, TurnRequeued(), TurnFinished("not from here")) is None
    assert await gateway.all_rows() == before
    assert await gateway.appends(turn, INTERRUPTED, TurnFinished("from here")) is not None
    assert (await gateway.turn_row(turn)).state is TurnState.DONE


async def test_moves_race_and_one_of_them_wins(gateway: StoreGateway) -> None:
    turn = await gateway.begins_turn("work")
    endings = [TurnFinished("a"), TurnFailed("b"), TurnCancelled("stopped"), INTERRUPTED]
    results = await asyncio.gather(*(gateway.appends(turn, ending) for ending in endings * 3))
    kinds = [records[0].entry for records in results if records]
    view = await gateway.view(turn)
    assert (await gateway.turn_row(turn)).state is view.state
    assert kinds == [record.entry for record in view.records[2:]]


async def test_answer_puts_the_turn_back_in_the_queue(gateway: StoreGateway) -> None:
    turn = await turn_in(gateway, TurnState.WAITING)
    assert await gateway.appends(turn, ANSWERED) is not None
    claim = await gateway.claims()
    assert claim is not None
    assert (claim.turn.id, claim.turn.attempt) == (turn.id, 2)
    assert (await gateway.view(turn)).answer == ANSWERED


# ── ending ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "ending", [TurnFinished("x"), TurnFailed("x"), TurnCancelled("stopped")], ids=lambda entry: entry.kind
)
async def test_b64_every_ending_gives_each_open_call_exactly_one_result(
    gateway: StoreGateway, ending: Entry
) -> None:
    turn = await gateway.begins_turn("work")
    await gateway.appends(turn, answer_with_calls("a", "b", "c"), ToolStarted("a", "look", Effect.ONCE, "k"))
    await gateway.appends(turn, ToolEnded("b", "ok", "seen"))
    assert await gateway.appends(turn, ending) is not None
    await gateway.reopen()
    view = await gateway.view(turn)
    results = [record.entry for record in view.records if isinstance(record.entry, ToolEnded)]
    assert sorted((result.call, result.outcome) for result in results) == [
        ("a", "cancelled"),
        ("b", "ok"),
        ("c", "cancelled"),
    ]
    assert view.records[-1].entry == ending


async def test_b64_result_that_comes_with_the_ending_is_not_given_twice(gateway: StoreGateway) -> None:
    turn = await gateway.begins_turn("work")
    await gateway.appends(turn, answer_with_calls("a", "b"))
    assert await gateway.appends(turn, ToolEnded("a", "error", "no"), TurnCancelled("stopped")) is not None
    results = [
        record.entry for record in (await gateway.view(turn)).records if isinstance(record.entry, ToolEnded)
    ]
    assert sorted((result.call, result.outcome) for result in results) == [("a", "error"), ("b", "cancelled")]


async def test_b64_calls_that_come_with_the_ending_get_a_result_too(gateway: StoreGateway) -> None:
    turn = await gateway.begins_turn("work")
    assert await gateway.appends(
        turn, answer_with_calls("a", "b"), ToolEnded("b", "ok", ""), TurnFailed("too many steps")
    )
    view = await gateway.view(turn)
    assert view.open_calls == []
    results = [record.entry for record in view.records if isinstance(record.entry, ToolEnded)]
    assert sorted((result.call, result.outcome) for result in results) == [("a", "cancelled"), ("b", "ok")]


async def test_b64_interrupted_turn_that_is_cancelled_leaves_no_open_call(gateway: StoreGateway) -> None:
    turn = await gateway.begins_turn("work")
    await gateway.appends(turn, answer_with_calls("a"))
    await gateway.reopen()
    mine = await gateway.interrupts_turn(turn)
    assert mine is not None
    assert await gateway.cancels_turn(mine, "dropped")
    assert (await gateway.view(turn)).open_calls == []


async def test_b64_open_calls_stay_open_when_the_turn_is_only_interrupted(gateway: StoreGateway) -> None:
    turn = await gateway.begins_turn("work")
    await gateway.appends(turn, answer_with_calls("a"))
    await gateway.appends(turn, INTERRUPTED)
    assert [call.request.id for call in (await gateway.view(turn)).open_calls] == ["a"]


async def test_b73_end_and_reply_are_written_together(gateway: StoreGateway) -> None:
    turn = await gateway.begins_turn("hello")
    assert await gateway.finishes_turn(turn, "one", "two")
    await gateway.reopen()
    assert (await gateway.turn_row(turn)).state is TurnState.DONE
    rows = await gateway.store.outbox.of_turn(turn.id)
    assert [(row.part, row.text, row.state, row.attempts) for row in rows] == [
        (0, "one", "owed", 0),
        (1, "two", "owed", 0),
    ]


async def test_b73_neither_end_nor_reply_is_written_when_one_of_them_cannot_be(gateway: StoreGateway) -> None:
    turn = await gateway.begins_turn("hello")
    before = await gateway.all_rows()
    unsendable = OutboxReply(chat_address(), "reply", ("fine", None))  # type: ignore[arg-type]
    with pytest.raises(Exception, match=r"(?i)not.null"):
        await gateway.store.turns.append(turn, [TurnFinished("x")], gateway.now(), replies=[unsendable])
    assert await gateway.all_rows() == before
    assert await gateway.finishes_turn(turn, "now it can") is not None


async def test_turn_row_is_the_fold_of_its_journal_after_every_append(gateway: StoreGateway) -> None:
    turn = await gateway.begins_turn("work")
    steps: list[Entry] = [ModelAsked(1, "m"), answer_with_calls("a"), ToolEnded("a", "ok", ""), ASKED, ANSWERED]
    for entry in steps:
        await gateway.appends(turn, entry)
        row, view = await gateway.turn_row(turn), await gateway.view(turn)
        assert (row.state, row.attempt) == (view.state, view.attempt)
    claim = await gateway.claims()
    assert claim is not None
    row, view = await gateway.turn_row(turn), await gateway.view(turn)
    assert (row.state, row.attempt) == (view.state, view.attempt) == (TurnState.RUNNING, 2)


async def test_turns_of_a_session_come_in_order(gateway: StoreGateway) -> None:
    turns = []
    for number in range(3):
        turns.append(await gateway.begins_turn(f"m{number}"))
        await gateway.finishes_turn(turns[-1])
        await gateway.reopen()
    found = await gateway.store.turns.of_session(turns[0].session)
    assert [turn.id for turn in found] == [turn.id for turn in turns]
    assert [turn.generation for turn in found] == [1, 2, 3]


async def test_journal_is_read_before_and_behind_a_place(gateway: StoreGateway) -> None:
    first = await gateway.begins_turn("one")
    await gateway.finishes_turn(first)
    second = await gateway.begins_turn("two")
    journal = gateway.store.journal
    everything = await journal.read_after(first.session, 0)
    assert [record.seq for _, record in everything] == [1, 2, 3, 4, 5]
    assert [turn for turn, _ in everything] == [first.id] * 3 + [second.id] * 2
    assert second.first_seq == 4
    assert await journal.read_before(first.session, second.first_seq) == everything[:3]
    assert await journal.read_after(first.session, 2, limit=2) == everything[2:4]


async def test_append_of_many_sessions_at_once_keeps_each_order(gateway: StoreGateway) -> None:
    turns = [await gateway.begins_turn("work", chat_name=f"c{n}") for n in range(4)]
    steps = itertools.product(range(25), turns)
    await asyncio.gather(*(gateway.appends(turn, ModelAsked(step, "m")) for step, turn in steps))
    for turn in turns:
        records = (await gateway.store.journal.of_turn(turn.session, turn.id))[2:]
        assert [record.entry for record in records] == [ModelAsked(step, "m") for step in range(25)]
