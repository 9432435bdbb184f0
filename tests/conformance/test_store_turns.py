"""Turns: claiming is the only door into running, and every move is guarded by state and epoch."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Sequence

import pytest

from perdure.core.effects import Effect
from perdure.core.journal import (
    Answered,
    Asked,
    Began,
    Cancelled,
    Claimed,
    Decided,
    Entry,
    Failed,
    Finished,
    Interrupted,
    ModelAnswered,
    ModelAsked,
    Noted,
    Requeued,
    ToolEnded,
    ToolStarted,
)
from perdure.core.messages import Sender
from perdure.core.recovery import Choice, Rule
from perdure.core.turn import BY_ATTEMPT, FINAL, MOVES, Move, State
from perdure.store.journal import IN_PASSING
from perdure.store.moves import Turn
from perdure.store.outbox import Owed
from support.stores import Gateway, calling, chat, key_of

pytestmark = pytest.mark.anyio

ASKED = Asked("q1", "Which one?", ("this", "that"))
ANSWERED = Answered("q1", "this", Sender("ada"))
INTERRUPTED = Interrupted("shutdown_timeout")
DECIDED = Decided(Choice.DELIVER, "the final answer is written", rule=Rule.FINAL_ANSWER)
# One entry per move that can be appended; claiming is not among them.
MOVING: dict[Move, Entry] = {
    Move.FINISHED: Finished("done"),
    Move.ASKED: ASKED,
    Move.ANSWERED: ANSWERED,
    Move.FAILED: Failed("no"),
    Move.CANCELLED: Cancelled("stopped"),
    Move.INTERRUPTED: INTERRUPTED,
    Move.REQUEUED: Requeued(),
}
WAY_TO: dict[State, Sequence[Entry]] = {
    State.RUNNING: (),
    State.WAITING: (ASKED,),
    State.QUEUED: (INTERRUPTED, Requeued()),
    State.INTERRUPTED: (INTERRUPTED,),
    State.DONE: (Finished("done"),),
    State.FAILED: (Failed("no"),),
    State.CANCELLED: (Cancelled("stopped"),),
}


async def turn_in(gateway: Gateway, state: State, chat_name: str = "c1") -> Turn:
    """A turn of ours that got to its state by moves of its own."""
    turn = await gateway.begins("work", chat_name=chat_name)
    for entry in WAY_TO[state]:
        assert await gateway.appends(turn, entry) is not None
    return await gateway.row(turn)


# ── claiming ────────────────────────────────────────────────────────────────────────────────────────────────


async def test_claim_begins_a_turn_from_the_oldest_waiting_message(gateway: Gateway) -> None:
    first = await gateway.hears("one")
    await gateway.hears("two")
    claim = await gateway.claims()
    assert claim is not None
    turn = claim.turn
    assert (turn.session, turn.key, turn.state) == (first.session, key_of(), State.RUNNING)
    assert (turn.generation, turn.epoch, turn.attempt, turn.first_seq) == (1, 1, 1, 1)
    began, claimed = (record.entry for record in claim.records)
    assert isinstance(began, Began)
    assert [(cause.inbox, cause.text, cause.message) for cause in began.causes] == [(first.message, "one", "one")]
    assert claimed == Claimed(gateway.run, 1, 1)
    assert await gateway.row(turn) == turn
    assert await gateway.store.inbox.waiting(key_of()) == 1


async def test_claim_gives_nothing_when_nothing_waits(gateway: Gateway) -> None:
    assert await gateway.claims() is None
    await gateway.finishes(await gateway.begins("hello"))
    before = await gateway.everything()
    assert await gateway.claims() is None
    assert await gateway.everything() == before


async def test_claim_brings_the_earlier_turns_of_its_session_unless_they_are_too_many(gateway: Gateway) -> None:
    first = await gateway.begins("one")
    await gateway.finishes(first)
    await gateway.hears("two")
    claim = await gateway.claims()
    assert claim is not None
    assert claim.earlier is not None
    assert list(claim.earlier) == await gateway.store.journal.before(first.session, claim.turn.first_seq)
    assert [turn for turn, _ in claim.earlier] == [first.id] * 3
    await gateway.appends(claim.turn, *[Noted(str(n)) for n in range(IN_PASSING)])
    await gateway.finishes(claim.turn)
    await gateway.hears("three")
    claim = await gateway.claims()
    assert claim is not None
    assert claim.earlier is None


@pytest.mark.parametrize("state", [State.RUNNING, State.INTERRUPTED])
async def test_claim_gives_nothing_while_a_turn_of_the_key_is_begun(gateway: Gateway, state: State) -> None:
    await turn_in(gateway, state)
    await gateway.hears("next")
    before = await gateway.everything()
    assert await gateway.claims() is None
    assert await gateway.everything() == before


@pytest.mark.parametrize(("words", "chosen"), [("THIS", True), ("neither", False)])
async def test_b67_claim_takes_the_next_words_for_the_answer_when_a_turn_waits(
    gateway: Gateway, words: str, chosen: bool
) -> None:
    turn = await gateway.begins("work")
    await gateway.hears("from before")
    await gateway.appends(turn, ASKED)
    assert await gateway.claims() is None, "a message from before the question is not its answer"
    await gateway.hears(words)
    claim = await gateway.claims()
    assert claim is not None
    assert claim.turn.id == turn.id
    answer = (await gateway.view(turn)).answer
    assert answer is not None
    assert (answer.text, answer.chosen) == ("this" if chosen else words, chosen)
    assert await gateway.store.inbox.waiting(key_of()) == 1


async def test_claim_takes_the_queued_turn_before_any_message(gateway: Gateway) -> None:
    turn = await gateway.begins("work")
    await gateway.hears("next")
    await gateway.appends(turn, INTERRUPTED, Requeued())
    claim = await gateway.claims()
    assert claim is not None
    assert claim.turn.id == turn.id
    assert (claim.turn.state, claim.turn.attempt, claim.turn.generation) == (State.RUNNING, 2, 1)
    assert claim.turn.epoch > turn.epoch
    assert list(claim.records) == await gateway.store.journal.of_turn(turn.session, turn.id)
    assert claim.records[-1].entry == Claimed(gateway.run, claim.turn.epoch, 2)
    assert await gateway.store.inbox.waiting(key_of()) == 1


async def test_b49_message_supersedes_an_interrupted_turn_when_it_was_held_back_for_good(gateway: Gateway) -> None:
    old = await gateway.begins("old work")
    await gateway.appends(old, calling("a"), INTERRUPTED)
    await gateway.hears("next")
    assert await gateway.claims() is None
    await gateway.appends(old, Decided(Choice.SKIP, "it is stale", rule=Rule.STALE))
    claim = await gateway.claims()
    assert claim is not None
    assert [cause.text for cause in (await gateway.view(claim.turn)).causes] == ["next"]
    view = await gateway.view(old)
    assert (view.ended, view.open_calls) == (Cancelled("superseded"), [])
    assert (await gateway.row(old)).state is view.state is State.CANCELLED


async def test_b49_message_joins_an_interrupted_turn_when_it_was_held_back_for_now(gateway: Gateway) -> None:
    turn = await gateway.begins("old work")
    await gateway.hears("stored before the interruption")
    await gateway.appends(turn, INTERRUPTED)
    await gateway.appends(turn, Decided(Choice.SKIP, "it is off here", rule=Rule.OFF))
    assert await gateway.claims() is None
    await gateway.hears("one more")
    await gateway.hears("and another")
    claim = await gateway.claims()
    assert claim is not None
    assert claim.turn.id == turn.id
    view = await gateway.view(turn)
    assert [cause.text for cause in view.causes] == ["old work", "one more", "and another"]
    assert (await gateway.row(turn)).state is view.state is State.RUNNING
    assert await gateway.store.inbox.waiting(key_of()) == 1


async def test_claim_leaves_a_held_back_turn_alone_when_no_message_waits(gateway: Gateway) -> None:
    turn = await turn_in(gateway, State.INTERRUPTED)
    await gateway.appends(turn, Decided(Choice.SKIP, "it is stale", rule=Rule.STALE))
    before = await gateway.everything()
    assert await gateway.claims() is None
    assert await gateway.everything() == before


async def test_claims_follow_the_order_of_the_messages_when_reopened_in_between(gateway: Gateway) -> None:
    texts = [f"m{n}" for n in range(6)]
    await asyncio.gather(*(gateway.hears(text) for text in texts))
    answered = []
    for turn_number in range(6):
        claim = await gateway.claims()
        assert claim is not None
        assert claim.turn.generation == turn_number + 1
        answered += [cause.text for cause in (await gateway.view(claim.turn)).causes]
        await gateway.finishes(claim.turn)
        if turn_number % 2:
            await gateway.reopen()
    assert answered == texts
    assert await gateway.claims() is None


async def test_claimable_names_the_keys_that_have_something_to_do(gateway: Gateway) -> None:
    await turn_in(gateway, State.QUEUED, "queued")
    await turn_in(gateway, State.RUNNING, "running")
    await gateway.hears("hello", chat_name="waiting")
    await gateway.hears("hello", chat_name="running")
    await turn_in(gateway, State.DONE, "done")
    assert sorted(await gateway.store.turns.claimable(gateway.run)) == sorted(
        [key_of("queued"), key_of("waiting")]
    )


async def test_b78_one_turn_is_begun_when_two_claims_race(gateway: Gateway) -> None:
    await gateway.hears("one")
    await gateway.hears("two")
    claims = await asyncio.gather(*(gateway.claims() for _ in range(8)))
    assert len([claim for claim in claims if claim]) == 1
    states = await gateway.rows("SELECT state FROM turns")
    assert states == [("running",)]


async def test_b78_one_turn_is_begun_when_two_gateways_race(two_gateways: tuple[Gateway, Gateway]) -> None:
    for number in range(12):
        name = f"c{number}"
        await two_gateways[number % 2].hears("one", chat_name=name)
        await two_gateways[number % 2].hears("two", chat_name=name)
        claims = await asyncio.gather(*(gateway.claims(name) for gateway in two_gateways))
        assert len([claim for claim in claims if claim]) == 1
    begun = await two_gateways[0].rows("SELECT key, count(*) FROM turns GROUP BY key")
    assert sorted(begun) == sorted((key_of(f"c{number}"), 1) for number in range(12))
    taken = await two_gateways[0].rows("SELECT count(*), count(DISTINCT turn) FROM inbox WHERE state = 'taken'")
    assert taken == [(12, 12)]


# ── appending facts ─────────────────────────────────────────────────────────────────────────────────────────


async def test_append_writes_facts_in_order_behind_the_last_one(gateway: Gateway) -> None:
    turn = await gateway.begins("hello")
    entries = [ModelAsked(1, "offline"), calling("a", "b"), ToolStarted("a", "look", Effect.PURE, "k")]
    first = await gateway.appends(turn, *entries)
    second = await gateway.appends(turn, ToolEnded("a", "ok", "seen"))
    assert first is not None
    assert second is not None
    assert [record.seq for record in first + second] == [3, 4, 5, 6]
    await gateway.reopen()
    records = await gateway.store.journal.of_turn(turn.session, turn.id)
    assert records[2:] == first + second
    assert [record.entry for record in records[2:5]] == entries


async def test_append_writes_nothing_when_the_epoch_is_stale(gateway: Gateway) -> None:
    old = await gateway.begins("hello")
    await gateway.appends(old, INTERRUPTED, Requeued())
    assert await gateway.claims() is not None
    before = await gateway.everything()
    for entries in ((ModelAsked(1, "m"),), (ToolEnded("a", "ok", ""),), (Finished("x"),), (Cancelled("stopped"),)):
        assert await gateway.appends(old, *entries) is None
    assert await gateway.finishes(old, "a reply that nobody may see") is None
    assert await gateway.everything() == before


async def test_append_writes_nothing_when_the_turn_is_unknown(gateway: Gateway) -> None:
    turn = await gateway.begins("hello")
    stranger = Turn("t_unknown", turn.session, turn.key, 1, State.RUNNING, turn.epoch, 1, 1, 1, 1)
    before = await gateway.everything()
    assert await gateway.appends(stranger, ModelAsked(1, "m")) is None
    assert await gateway.appends(stranger, Finished("x")) is None
    assert await gateway.everything() == before


@pytest.mark.parametrize("state", [state for state in State if state is not State.RUNNING])
async def test_append_writes_nothing_when_the_turn_is_not_running(gateway: Gateway, state: State) -> None:
    turn = await turn_in(gateway, state)
    before = await gateway.everything()
    assert await gateway.appends(turn, ModelAsked(1, "offline")) is None
    assert await gateway.appends(turn, ModelAnswered(1, "hi", finish="stop")) is None
    assert await gateway.appends(turn, Noted("note")) is None
    assert await gateway.everything() == before


async def test_late_result_is_accepted_when_the_turn_was_interrupted_in_the_same_epoch(gateway: Gateway) -> None:
    turn = await gateway.begins("work")
    await gateway.appends(turn, calling("a"), ToolStarted("a", "look", Effect.ONCE, "k"), INTERRUPTED)
    assert await gateway.appends(turn, ToolEnded("a", "ok", "late but true")) is not None
    view = await gateway.view(turn)
    assert (await gateway.row(turn)).state is view.state is State.INTERRUPTED
    assert view.open_calls == []


async def test_b15_late_result_is_refused_when_the_call_was_cancelled(gateway: Gateway) -> None:
    turn = await gateway.begins("work")
    await gateway.appends(turn, calling("a"), ToolStarted("a", "look", Effect.ONCE, "k"), INTERRUPTED)
    before = await gateway.everything()
    result = ToolEnded("a", "ok", "returned after its cancellation")
    assert await gateway.store.turns.append(turn, [result], gateway.now(), late=False) is None
    assert await gateway.everything() == before


async def test_late_decision_is_accepted_when_the_turn_is_interrupted(gateway: Gateway) -> None:
    turn = await turn_in(gateway, State.INTERRUPTED)
    assert await gateway.appends(turn, Decided("skip", "it is stale", {"age_ms": 5})) is not None
    assert (await gateway.row(turn)).state is State.INTERRUPTED


@pytest.mark.parametrize("state", sorted(FINAL))
async def test_b77_late_result_is_refused_when_the_turn_is_final(gateway: Gateway, state: State) -> None:
    turn = await gateway.begins("work")
    await gateway.appends(turn, calling("a"), *WAY_TO[state])
    before = await gateway.everything()
    assert await gateway.appends(turn, ToolEnded("a", "ok", "too late")) is None
    assert await gateway.everything() == before


async def test_b77_late_result_is_refused_when_the_turn_was_taken_over(gateway: Gateway) -> None:
    turn = await gateway.begins("work")
    await gateway.appends(turn, calling("a"))
    await gateway.reopen()
    assert await gateway.interrupts(turn) is not None
    before = await gateway.everything()
    assert await gateway.appends(turn, ToolEnded("a", "ok", "from the dead")) is None
    assert await gateway.everything() == before


async def test_late_facts_are_refused_when_something_else_comes_with_them(gateway: Gateway) -> None:
    turn = await gateway.begins("work")
    await gateway.appends(turn, calling("a"), INTERRUPTED)
    before = await gateway.everything()
    assert await gateway.appends(turn, ToolEnded("a", "ok", ""), ModelAsked(2, "m")) is None
    assert await gateway.everything() == before


# ── moving ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("state", State)
async def test_move_is_made_when_it_is_legal(gateway: Gateway, state: State) -> None:
    for move, after in MOVES[state].items():
        if move is Move.CLAIMED or (state is State.QUEUED and move in BY_ATTEMPT):
            continue  # these have doors of their own: the claim, and taking over
        turn = await turn_in(gateway, state, move)
        owed = Owed(chat(move), move, ("hi",))
        by_decision = [DECIDED] if state is State.INTERRUPTED and move in BY_ATTEMPT else []
        entries = [*by_decision, MOVING[move]]
        assert await gateway.store.turns.append(turn, entries, gateway.now(), owed=[owed]) is not None
        assert (await gateway.row(turn)).state is (await gateway.view(turn)).state is after
        assert len(await gateway.store.outbox.of_turn(turn.id)) == 1


@pytest.mark.parametrize("state", State)
async def test_move_changes_nothing_when_it_is_illegal(gateway: Gateway, state: State) -> None:
    turn = await turn_in(gateway, state)
    before = await gateway.everything()
    for move in MOVING.keys() - MOVES[state].keys():
        owed = Owed(chat(), "a reply that nobody may see", ("hi",))
        assert await gateway.store.turns.append(turn, [MOVING[move]], gateway.now(), owed=[owed]) is None
        assert await gateway.everything() == before


@pytest.mark.parametrize("move", sorted(BY_ATTEMPT))
@pytest.mark.parametrize("state", [State.INTERRUPTED, State.QUEUED])
async def test_b15_turn_without_an_attempt_is_not_moved_by_what_an_earlier_one_returns(
    gateway: Gateway, state: State, move: Move
) -> None:
    turn = await turn_in(gateway, state)
    before = await gateway.everything()
    owed = Owed(chat(), "a reply that nobody may see", ("hi",))
    said = ModelAnswered(1, "half of it", finish="stop")
    for entries in ([MOVING[move]], [said, MOVING[move]]):
        assert await gateway.store.turns.append(turn, entries, gateway.now(), owed=[owed]) is None
    assert await gateway.everything() == before


async def test_moves_of_one_append_are_made_together_or_not_at_all(gateway: Gateway) -> None:
    turn = await gateway.begins("work")
    before = await gateway.everything()
    assert await gateway.appends(turn, INTERRUPTED, Requeued(), Finished("not from here")) is None
    assert await gateway.everything() == before
    assert await gateway.appends(turn, INTERRUPTED, Finished("from here")) is not None
    assert (await gateway.row(turn)).state is State.DONE


async def test_moves_race_and_one_of_them_wins(gateway: Gateway) -> None:
    turn = await gateway.begins("work")
    endings = [Finished("a"), Failed("b"), Cancelled("stopped"), INTERRUPTED]
    results = await asyncio.gather(*(gateway.appends(turn, ending) for ending in endings * 3))
    kinds = [records[0].entry for records in results if records]
    view = await gateway.view(turn)
    assert (await gateway.row(turn)).state is view.state
    assert kinds == [record.entry for record in view.records[2:]]


async def test_answer_puts_the_turn_back_in_the_queue(gateway: Gateway) -> None:
    turn = await turn_in(gateway, State.WAITING)
    assert await gateway.appends(turn, ANSWERED) is not None
    claim = await gateway.claims()
    assert claim is not None
    assert (claim.turn.id, claim.turn.attempt) == (turn.id, 2)
    assert (await gateway.view(turn)).answer == ANSWERED


# ── ending ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "ending", [Finished("x"), Failed("x"), Cancelled("stopped")], ids=lambda entry: entry.kind
)
async def test_b64_every_ending_gives_each_open_call_exactly_one_result(gateway: Gateway, ending: Entry) -> None:
    turn = await gateway.begins("work")
    await gateway.appends(turn, calling("a", "b", "c"), ToolStarted("a", "look", Effect.ONCE, "k"))
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


async def test_b64_result_that_comes_with_the_ending_is_not_given_twice(gateway: Gateway) -> None:
    turn = await gateway.begins("work")
    await gateway.appends(turn, calling("a", "b"))
    assert await gateway.appends(turn, ToolEnded("a", "error", "no"), Cancelled("stopped")) is not None
    results = [
        record.entry for record in (await gateway.view(turn)).records if isinstance(record.entry, ToolEnded)
    ]
    assert sorted((result.call, result.outcome) for result in results) == [("a", "error"), ("b", "cancelled")]


async def test_b64_calls_that_come_with_the_ending_get_a_result_too(gateway: Gateway) -> None:
    turn = await gateway.begins("work")
    assert await gateway.appends(turn, calling("a", "b"), ToolEnded("b", "ok", ""), Failed("too many steps"))
    view = await gateway.view(turn)
    assert view.open_calls == []
    results = [record.entry for record in view.records if isinstance(record.entry, ToolEnded)]
    assert sorted((result.call, result.outcome) for result in results) == [("a", "cancelled"), ("b", "ok")]


async def test_b64_interrupted_turn_that_is_cancelled_leaves_no_open_call(gateway: Gateway) -> None:
    turn = await gateway.begins("work")
    await gateway.appends(turn, calling("a"))
    await gateway.reopen()
    mine = await gateway.interrupts(turn)
    assert mine is not None
    assert await gateway.cancels(mine, "dropped")
    assert (await gateway.view(turn)).open_calls == []


async def test_b64_open_calls_stay_open_when_the_turn_is_only_interrupted(gateway: Gateway) -> None:
    turn = await gateway.begins("work")
    await gateway.appends(turn, calling("a"))
    await gateway.appends(turn, INTERRUPTED)
    assert [call.request.id for call in (await gateway.view(turn)).open_calls] == ["a"]


async def test_b73_end_and_reply_are_written_together(gateway: Gateway) -> None:
    turn = await gateway.begins("hello")
    assert await gateway.finishes(turn, "one", "two")
    await gateway.reopen()
    assert (await gateway.row(turn)).state is State.DONE
    rows = await gateway.store.outbox.of_turn(turn.id)
    assert [(row.part, row.text, row.state, row.attempts) for row in rows] == [
        (0, "one", "owed", 0),
        (1, "two", "owed", 0),
    ]


async def test_b73_neither_end_nor_reply_is_written_when_one_of_them_cannot_be(gateway: Gateway) -> None:
    turn = await gateway.begins("hello")
    before = await gateway.everything()
    unsendable = Owed(chat(), "reply", ("fine", None))  # type: ignore[arg-type]
    with pytest.raises(Exception, match=r"(?i)not.null"):
        await gateway.store.turns.append(turn, [Finished("x")], gateway.now(), owed=[unsendable])
    assert await gateway.everything() == before
    assert await gateway.finishes(turn, "now it can") is not None


async def test_turn_row_is_the_fold_of_its_journal_after_every_append(gateway: Gateway) -> None:
    turn = await gateway.begins("work")
    steps: list[Entry] = [ModelAsked(1, "m"), calling("a"), ToolEnded("a", "ok", ""), ASKED, ANSWERED]
    for entry in steps:
        await gateway.appends(turn, entry)
        row, view = await gateway.row(turn), await gateway.view(turn)
        assert (row.state, row.attempt) == (view.state, view.attempt)
    claim = await gateway.claims()
    assert claim is not None
    row, view = await gateway.row(turn), await gateway.view(turn)
    assert (row.state, row.attempt) == (view.state, view.attempt) == (State.RUNNING, 2)


async def test_turns_of_a_session_come_in_order(gateway: Gateway) -> None:
    turns = []
    for number in range(3):
        turns.append(await gateway.begins(f"m{number}"))
        await gateway.finishes(turns[-1])
        await gateway.reopen()
    found = await gateway.store.turns.of_session(turns[0].session)
    assert [turn.id for turn in found] == [turn.id for turn in turns]
    assert [turn.generation for turn in found] == [1, 2, 3]


async def test_journal_is_read_before_and_behind_a_place(gateway: Gateway) -> None:
    first = await gateway.begins("one")
    await gateway.finishes(first)
    second = await gateway.begins("two")
    journal = gateway.store.journal
    everything = await journal.after(first.session, 0)
    assert [record.seq for _, record in everything] == [1, 2, 3, 4, 5]
    assert [turn for turn, _ in everything] == [first.id] * 3 + [second.id] * 2
    assert second.first_seq == 4
    assert await journal.before(first.session, second.first_seq) == everything[:3]
    assert await journal.after(first.session, 2, limit=2) == everything[2:4]


async def test_append_of_many_sessions_at_once_keeps_each_order(gateway: Gateway) -> None:
    turns = [await gateway.begins("work", chat_name=f"c{n}") for n in range(4)]
    steps = itertools.product(range(25), turns)
    await asyncio.gather(*(gateway.appends(turn, ModelAsked(step, "m")) for step, turn in steps))
    for turn in turns:
        records = (await gateway.store.journal.of_turn(turn.session, turn.id))[2:]
        assert [record.entry for record in records] == [ModelAsked(step, "m") for step in range(25)]
