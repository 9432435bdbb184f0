"""The queue: what a message does to a busy conversation, what goes together, and what can be changed.

Drives `store/queue` and `store/claims`.
"""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import AsyncIterator
from typing import Any

import msgspec
import pytest

from perdure.core import texts
from perdure.core.journal import MessagesJoined, QuestionAsked, TurnCancelled, TurnFinished, TurnInterrupted, fold
from perdure.core.messages import Inbound, Sender, Stored
from perdure.core.queue import QUEUE_MODE_NAMES, Fate, QueueMode, QueueRules
from perdure.core.states import CancelReason, TurnState
from perdure.store.chat_commands import ChatCommand
from perdure.store.claims import Claim, claim
from perdure.store.database import Tx
from perdure.store.inbox import InboxKind
from perdure.store.queue import convert_to_message, switch_mode
from perdure.store.transitions import Turn, transition
from support.store_gateway import DatabaseLocation, StoreGateway, chat_address, key_of, message

pytestmark = pytest.mark.anyio

KEY = key_of()


def rules(mode: QueueMode = "queue", **others: Any) -> QueueRules:
    return QueueRules(mode, **others)


async def hears(
    gateway: StoreGateway,
    text: str,
    given: QueueRules | QueueMode = "queue",
    *,
    kind: InboxKind = "message",
    now: int | None = None,
    **fields: Any,
) -> Stored:
    given = given if isinstance(given, QueueRules) else rules(given)
    inbound = msgspec.structs.replace(message(text), **fields)
    at = gateway.now() if now is None else now
    return await gateway.store.inbox.receive(inbound, "", KEY, at, kind, rules=given)


async def claims(gateway: StoreGateway, given: QueueRules | None = None, now: int | None = None) -> Claim | None:
    at = gateway.now() if now is None else now
    return await gateway.store.turns.claim(KEY, gateway.run, at, given or QueueRules())


def words(claim: Claim | None) -> list[str]:
    assert claim is not None, "nothing could be claimed"
    return [cause.text for cause in fold(claim.records).causes]


async def answered(gateway: StoreGateway, given: QueueRules | None = None) -> list[list[str]]:
    """What waits, turn by turn, each ended as soon as it was claimed."""
    turns = []
    while (claim := await claims(gateway, given)) is not None:
        turns.append(words(claim))
        assert await gateway.finishes_turn(claim.turn)
    return turns


async def amends(gateway: StoreGateway, original: str, text: str, **fields: Any) -> Stored:
    about = msgspec.structs.replace(message(original), text=text, kind="edit", version=text)
    change = msgspec.structs.replace(about, **fields)
    return await gateway.store.queue.amend(
        change, "", KEY, gateway.now(), resolve_key=lambda _: KEY, rules=rules("collect")
    )


async def deletes(gateway: StoreGateway, original: str, **fields: Any) -> Stored:
    return await amends(gateway, original, "", kind="delete", version="", **fields)


async def commands(gateway: StoreGateway) -> list[ChatCommand]:
    return await gateway.store.chat_commands.waiting(gateway.run)


async def owed(gateway: StoreGateway) -> list[str]:
    return [row.text for row in await gateway.store.outbox.open_deliveries()]


@pytest.fixture
async def sqlite_gateway(sqlite_place: DatabaseLocation) -> AsyncIterator[StoreGateway]:
    """For what would only take longer on the other database."""
    gateway = await StoreGateway(sqlite_place).open()
    yield gateway
    await gateway.crash()


# ── the manner ──────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("mode", QUEUE_MODE_NAMES)
async def test_b80_manner_is_fixed_when_the_message_is_stored(gateway: StoreGateway, mode: QueueMode) -> None:
    await hears(gateway, "hello", mode)
    await gateway.reopen()
    assert await gateway.query("SELECT manner FROM inbox") == [(mode,)]
    assert await answered(gateway, rules("queue")) == [["hello"]]


async def test_b80_mode_of_a_conversation_goes_before_the_configured_one(gateway: StoreGateway) -> None:
    await hears(gateway, "first")
    await gateway.store.chat_commands.execute_verb(KEY, switch_mode(KEY, "steer", 9), at=9)
    await gateway.reopen()
    assert await gateway.store.queue.mode(KEY, "queue") == "steer"
    assert await gateway.store.queue.mode(key_of("another"), "queue") == "queue"
    await hears(gateway, "second")
    assert await gateway.query("SELECT manner FROM inbox ORDER BY position") == [("queue",), ("steer",)]


async def test_b80_switching_changes_only_what_came_behind_it(gateway: StoreGateway) -> None:
    before = await hears(gateway, "before")
    await hears(gateway, "/queue collect", kind="command")
    await hears(gateway, "behind")
    await hears(gateway, "/status", kind="command")
    await hears(gateway, "far behind")
    (command, _) = await commands(gateway)
    done = switch_mode(KEY, "collect", command.position)
    switched = await gateway.store.chat_commands.execute(command, done, lambda done: done.mode, gateway.now())
    assert switched is not None
    assert switched.ended is None
    rows = await gateway.query("SELECT manner FROM inbox WHERE kind = 'message' ORDER BY position")
    assert rows == [("queue",), ("collect",), ("queue",)]
    assert before.fate is Fate.WAITS


async def test_b80_message_right_behind_the_switch_to_interrupt_interrupts(gateway: StoreGateway) -> None:
    turn = await gateway.begins_turn("work")
    await hears(gateway, "/queue interrupt", kind="command")
    await hears(gateway, "stop that")
    (command,) = await commands(gateway)
    done = switch_mode(KEY, "interrupt", command.position)
    switched = await gateway.store.chat_commands.execute(command, done, lambda _: "", gateway.now())
    assert switched is not None
    assert switched.ended == turn.id
    assert words(await claims(gateway)) == ["stop that"]


# ── steer ───────────────────────────────────────────────────────────────────────────────────────────────────


async def joins(gateway: StoreGateway, turn: Turn) -> list[str] | None:
    records = await gateway.store.queue.join(turn, QueueRules(), gateway.now())
    if records is None:
        return None
    entries = [record.entry for record in records]
    return [cause.text for entry in entries if isinstance(entry, MessagesJoined) for cause in entry.causes]


async def test_b80_messages_that_steer_join_the_running_turn_in_order_and_once(gateway: StoreGateway) -> None:
    turn = await gateway.begins_turn("work")
    for text, mode in (("a", "steer"), ("own turn", "queue"), ("b", "steer")):
        await hears(gateway, text, mode)  # type: ignore[arg-type]
    assert await gateway.store.queue.has_steering_message(KEY)
    assert await joins(gateway, turn) == ["a", "b"]
    assert await joins(gateway, turn) == []
    assert not await gateway.store.queue.has_steering_message(KEY)
    view = await gateway.view(turn)
    assert [cause.text for cause in view.causes] == ["work", "a", "b"]
    assert view.reply_to == "b", "B79: the reply is attached to the newest message"
    await gateway.finishes_turn(turn)
    assert await answered(gateway) == [["own turn"]]


async def test_b80_message_that_steers_never_overtakes_a_command(gateway: StoreGateway) -> None:
    turn = await gateway.begins_turn("work")
    await hears(gateway, "a", "steer")
    await hears(gateway, "/status", kind="command")
    await hears(gateway, "b", "steer")
    assert await joins(gateway, turn) == ["a"]
    assert not await gateway.store.queue.has_steering_message(KEY)
    (command,) = await commands(gateway)
    await gateway.store.chat_commands.execute(command, lambda _: None, lambda _: "", gateway.now())
    assert await joins(gateway, turn) == ["b"]


async def test_b80_message_that_steers_gets_its_own_turn_when_none_runs(gateway: StoreGateway) -> None:
    turn = await gateway.begins_turn("work")
    await hears(gateway, "late", "steer")
    await gateway.finishes_turn(turn)
    assert await joins(gateway, turn) is None
    assert await answered(gateway) == [["late"]]


async def test_b80_nothing_joins_a_turn_that_somebody_else_has(gateway: StoreGateway) -> None:
    turn = await gateway.begins_turn("work")
    await hears(gateway, "a", "steer")
    await gateway.reopen()
    assert await gateway.interrupts_turn(turn) is not None
    assert await joins(gateway, turn) is None
    assert await gateway.store.inbox.count_waiting(KEY) == 1


async def test_b80_what_has_joined_is_a_part_of_the_turn_after_a_crash(gateway: StoreGateway) -> None:
    turn = await gateway.begins_turn("work")
    await hears(gateway, "a", "steer")
    assert await joins(gateway, turn) == ["a"]
    await gateway.reopen()
    assert [cause.text for cause in (await gateway.view(turn)).causes] == ["work", "a"]
    assert await gateway.store.inbox.count_waiting(KEY) == 0


# ── interrupt ───────────────────────────────────────────────────────────────────────────────────────────────


async def test_b80_message_that_interrupts_ends_the_running_turn_and_runs_next(gateway: StoreGateway) -> None:
    turn = await gateway.begins_turn("work")
    await hears(gateway, "waits")
    stored = await hears(gateway, "now", "interrupt")
    assert stored.ended == turn.id
    assert (await gateway.view(turn)).ended == TurnCancelled(CancelReason.REPLACED)
    again = await hears(gateway, "now", "interrupt")
    assert (again.fresh, again.ended) == (False, None)
    await gateway.reopen()
    assert await gateway.lost_turns() == [], "for good: there is nothing to resume"
    assert await answered(gateway) == [["now"], ["waits"]]


async def test_b80_messages_that_interrupt_are_heard_together_when_none_has_begun(gateway: StoreGateway) -> None:
    await gateway.begins_turn("work")
    for text, mode in (("a", "interrupt"), ("own turn", "queue"), ("b", "interrupt")):
        await hears(gateway, text, mode)  # type: ignore[arg-type]
    assert await answered(gateway) == [["a", "b"], ["own turn"]]


async def test_b80_message_that_interrupts_ends_a_turn_that_is_about_to_go_on(gateway: StoreGateway) -> None:
    turn = await gateway.begins_turn("work")
    asked = QuestionAsked("q", "Which?")
    await gateway.appends(turn, asked)
    await hears(gateway, "this one", "interrupt")
    claim = await claims(gateway)
    assert claim is not None
    assert claim.turn.id == turn.id, "one that waits for an answer is answered"
    assert fold(claim.records).answer is not None


async def test_b49_message_that_interrupts_joins_a_turn_that_was_cut_off(gateway: StoreGateway) -> None:
    turn = await gateway.begins_turn("work")
    await gateway.appends(turn, TurnInterrupted("shutdown_timeout"))
    stored = await hears(gateway, "hello", "interrupt")
    assert stored.ended is None
    assert (await gateway.turn_row(turn)).state is TurnState.INTERRUPTED


async def test_b80_message_that_interrupts_waits_behind_a_command(gateway: StoreGateway) -> None:
    await hears(gateway, "first")
    await hears(gateway, "/new", kind="command")
    await hears(gateway, "now", "interrupt")
    assert words(await claims(gateway)) == ["first"]


# ── collect, and albums ─────────────────────────────────────────────────────────────────────────────────────


async def test_b80_messages_to_collect_become_one_turn(gateway: StoreGateway) -> None:
    for text, mode in (("a", "collect"), ("b", "collect"), ("own turn", "queue"), ("c", "collect")):
        await hears(gateway, text, mode)  # type: ignore[arg-type]
    await gateway.reopen()
    assert await answered(gateway) == [["a", "b"], ["own turn"], ["c"]]


async def test_b80_messages_to_collect_are_not_collected_over_a_command(gateway: StoreGateway) -> None:
    await hears(gateway, "a", "collect")
    await hears(gateway, "/status", kind="command")
    await hears(gateway, "b", "collect")
    claim = await claims(gateway)
    assert words(claim) == ["a"]


async def test_b80_turn_of_several_begins_when_nothing_more_comes(gateway: StoreGateway) -> None:
    quiet = rules("collect", quiet_ms=100)
    await hears(gateway, "a", quiet, now=1000)
    await hears(gateway, "b", quiet, now=1090)
    assert await claims(gateway, quiet, now=1189) is None
    assert await gateway.store.turns.claimable_keys(gateway.run) == [KEY], "a restart or a look around finds it"
    assert words(await claims(gateway, quiet, now=1190)) == ["a", "b"]


async def test_b80_clock_that_was_set_back_makes_nobody_wait(gateway: StoreGateway) -> None:
    quiet = rules("collect", quiet_ms=100)
    await hears(gateway, "a", quiet, now=900_000)
    assert words(await claims(gateway, quiet, now=1000)) == ["a"]


@pytest.mark.parametrize("mode", QUEUE_MODE_NAMES)
async def test_album_becomes_one_turn_in_every_mode(gateway: StoreGateway, mode: QueueMode) -> None:
    quiet = rules(mode, quiet_ms=100)
    first = await hears(gateway, "one", quiet, album="x", now=1000)
    await hears(gateway, "two", quiet, album="x", now=1010)
    assert first.quiet
    assert await claims(gateway, quiet, now=1050) is None
    assert words(await claims(gateway, quiet, now=1110)) == ["one", "two"]


async def test_pictures_of_an_album_find_each_other_among_other_messages(gateway: StoreGateway) -> None:
    for text, album in (("one", "x"), ("hello", None), ("two", "x"), ("three", "y")):
        await hears(gateway, text, album=album)
    assert await answered(gateway) == [["one", "two"], ["hello"], ["three"]]


# ── the cap ─────────────────────────────────────────────────────────────────────────────────────────────────


async def test_b80_message_beyond_the_cap_is_not_taken_and_the_chat_is_told_once(gateway: StoreGateway) -> None:
    full = rules(cap=3)
    fates = [(await hears(gateway, f"m{number}", full)).fate for number in range(6)]
    assert fates == [Fate.WAITS] * 3 + [Fate.FULL] * 3
    assert await owed(gateway) == [texts.turns.queue_full(3)]
    await gateway.reopen()
    again = await hears(gateway, "m4", full)
    assert (again.fresh, again.fate) == (False, Fate.FULL)
    assert await answered(gateway) == [["m0"], ["m1"], ["m2"]]
    assert (await hears(gateway, "m4", full)).fate is Fate.FULL, "it says the same whenever it comes again"
    assert [seen.text for seen in await gateway.store.inbox.chat_messages(KEY, 0)] == ["m0", "m1", "m2"]
    assert len(await owed(gateway)) == 1


async def test_b80_chat_is_told_again_only_when_half_of_the_queue_was_gone(gateway: StoreGateway) -> None:
    full = rules(cap=4)
    for number in range(6):
        await hears(gateway, f"a{number}", full)
    for number in range(3):  # one is answered, one comes in, one is turned away: no news
        claim = await claims(gateway)
        assert claim is not None
        await gateway.finishes_turn(claim.turn)
        assert (await hears(gateway, f"b{number}", full)).fate is Fate.WAITS
        assert (await hears(gateway, f"c{number}", full)).fate is Fate.FULL
    assert len(await owed(gateway)) == 1
    assert len(await answered(gateway)) == 4
    for number in range(6):
        await hears(gateway, f"d{number}", full)
    assert len(await owed(gateway)) == 2


async def test_b80_commands_are_taken_when_the_queue_is_full(gateway: StoreGateway) -> None:
    full = rules(cap=1)
    await hears(gateway, "a", full)
    assert (await hears(gateway, "/status", full, kind="command")).fate is Fate.WAITS


async def test_b78_ten_thousand_messages_wait_and_are_answered_in_order(sqlite_gateway: StoreGateway) -> None:
    """As deep at the end as at the beginning. Many turns share a commit here: it is the order that matters."""
    many, depths = rules(cap=10_000), set[int]()
    for start in range(0, 10_000, 500):
        await asyncio.gather(*(hears(sqlite_gateway, f"m{start + n}", many) for n in range(500)))
    assert (await hears(sqlite_gateway, "one too many", many)).fate is Fate.FULL

    def answer(tx: Tx) -> list[str]:
        claimed = claim(tx, KEY, sqlite_gateway.run, many)
        assert claimed is not None
        depths.add(len(traceback.extract_stack()))
        assert transition(tx, claimed.turn, [TurnFinished("")], ())
        return words(claimed)

    for start in range(0, 10_000, 500):
        heard = await sqlite_gateway.store.database.write(
            lambda tx: [answer(tx) for _ in range(500)], key=KEY, at=10**6
        )
        assert heard == [[f"m{start + n}"] for n in range(500)]
    assert await claims(sqlite_gateway, many) is None
    assert len(depths) == 1


@pytest.mark.parametrize("mode", ["collect", "interrupt"])
async def test_b78_ten_thousand_messages_become_one_turn(sqlite_gateway: StoreGateway, mode: QueueMode) -> None:
    many = rules(mode, cap=10_000)
    for start in range(0, 10_000, 500):
        await asyncio.gather(*(hears(sqlite_gateway, f"m{start + n}", many) for n in range(500)))
    assert words(await claims(sqlite_gateway, many)) == [f"m{number}" for number in range(10_000)]


# ── edits ───────────────────────────────────────────────────────────────────────────────────────────────────


async def test_b85_message_that_has_not_begun_is_edited(gateway: StoreGateway) -> None:
    stored = await hears(gateway, "helo")
    await hears(gateway, "behind")
    changed = await amends(gateway, "helo", "hello")
    assert (changed.message, changed.fate, changed.fresh) == (stored.message, Fate.CHANGED, True)
    await gateway.reopen()
    assert [seen.text for seen in await gateway.store.inbox.chat_messages(KEY, 0)] == ["hello", "behind"]
    assert await answered(gateway) == [["hello"], ["behind"]]


async def test_b85_message_that_has_not_begun_is_deleted(gateway: StoreGateway) -> None:
    await hears(gateway, "oops")
    await hears(gateway, "behind")
    assert (await deletes(gateway, "oops")).fate is Fate.DELETED
    assert (await deletes(gateway, "oops")).fate is Fate.DELETED, "delivered twice"
    await gateway.reopen()
    assert [seen.text for seen in await gateway.store.inbox.chat_messages(KEY, 0)] == ["behind"]
    assert await answered(gateway) == [["behind"]]


async def test_b85_later_edits_do_nothing(gateway: StoreGateway) -> None:
    turn = await gateway.begins_turn("hello")
    before = await gateway.all_rows()
    assert (await amends(gateway, "hello", "bye")).fate is Fate.TOO_LATE
    assert (await deletes(gateway, "hello")).fate is Fate.TOO_LATE
    assert await gateway.all_rows() == before
    assert [cause.text for cause in (await gateway.view(turn)).causes] == ["hello"]


async def test_b85_only_the_sender_edits_a_message(gateway: StoreGateway) -> None:
    await hears(gateway, "hello")
    before = await gateway.all_rows()
    assert (await amends(gateway, "hello", "bye", sender=Sender("eve"))).fate is Fate.UNKNOWN
    assert (await deletes(gateway, "hello", sender=Sender("eve"))).fate is Fate.UNKNOWN
    assert (await amends(gateway, "never said", "bye")).fate is Fate.UNKNOWN
    assert await gateway.all_rows() == before


async def test_b85_nobody_edits_who_may_not_talk(gateway: StoreGateway) -> None:
    await hears(gateway, "hello")
    about = msgspec.structs.replace(message("hello"), text="bye", kind="edit", version="1")
    stored = await gateway.store.queue.amend(
        about, "", KEY, gateway.now(), resolve_key=lambda _: None, rules=rules()
    )
    assert stored.fate is Fate.UNKNOWN
    assert await answered(gateway) == [["hello"]]


async def test_b71_edit_that_comes_again_does_not_undo_a_later_one(gateway: StoreGateway) -> None:
    await hears(gateway, "one")
    for text in ("two", "three", "two"):
        assert (await amends(gateway, "one", text)).fate is Fate.CHANGED
    assert await answered(gateway) == [["three"]]


async def test_b85_edit_that_makes_a_command_of_a_message_is_one(gateway: StoreGateway) -> None:
    turn = await gateway.begins_turn("work")
    await hears(gateway, "stop")
    await amends(gateway, "stop", "/stop")
    (command,) = await commands(gateway)
    assert (command.text, command.bound, command.position) == ("/stop", turn.id, 2)
    await amends(gateway, "stop", "stop")
    assert await commands(gateway) == []
    sql = "SELECT manner FROM inbox WHERE kind = 'message' ORDER BY position DESC LIMIT 1"
    assert await gateway.query(sql) == [("collect",)]


async def test_b85_edit_and_claim_at_once_agree(two_gateways: tuple[StoreGateway, StoreGateway]) -> None:
    """The turn has the new words if, and only if, the person was told so."""
    one, two = two_gateways
    for number in range(15):
        text = f"m{number}"
        await hears(one, text)
        change = [amends(two, text, f"new {number}"), deletes(two, text)][:: 1 if number % 2 else -1]
        doing, other = change
        other.close()
        stored, claim = await asyncio.gather(doing, claims(one))
        claim = claim or await claims(one)
        if stored.fate is Fate.DELETED:
            assert claim is None
            continue
        assert words(claim) == [f"new {number}" if stored.fate is Fate.CHANGED else text]
        assert claim is not None
        await one.finishes_turn(claim.turn)


# ── too old ─────────────────────────────────────────────────────────────────────────────────────────────────


async def test_b72_messages_that_are_too_old_when_they_come_are_told_of_once(gateway: StoreGateway) -> None:
    young = rules(max_age_ms=1000)
    for number in range(3):
        assert (await hears(gateway, f"old {number}", young, sent_at=8_999, now=10_000)).fate is Fate.EXPIRED
    old = await hears(gateway, "/restart", young, kind="command", sent_at=8_999, now=10_000)
    assert old.fate is Fate.EXPIRED
    assert (await hears(gateway, "young", young, sent_at=9_000, now=10_000)).fate is Fate.WAITS
    assert (await hears(gateway, "undated", young, now=10_000)).fate is Fate.WAITS
    await gateway.reopen()
    assert not (await hears(gateway, "old 0", young, sent_at=8_999, now=10_000)).fresh
    assert await gateway.store.queue.notify_expired(10_001) == [KEY]
    assert await gateway.store.queue.notify_expired(10_002) == []
    assert await owed(gateway) == [texts.turns.messages_expired(4)]
    assert await commands(gateway) == []
    assert await answered(gateway) == [["young"], ["undated"]]


async def test_b72_messages_that_wait_for_too_long_are_given_up(gateway: StoreGateway) -> None:
    young = rules(max_age_ms=1000)
    await hears(gateway, "a", young, now=10_000)
    await hears(gateway, "b", young, sent_at=9_100, now=10_001)
    await hears(gateway, "c", young, now=10_200)
    assert words(await claims(gateway, young, now=11_150)) == ["c"]
    assert await gateway.store.queue.notify_expired(11_150) == [KEY]
    assert await owed(gateway) == [texts.turns.messages_expired(2)]


async def test_b72_what_waits_everywhere_is_looked_through(gateway: StoreGateway) -> None:
    for name in ("a", "b"):
        await gateway.receives("hello", chat_name=name)
    await hears(gateway, "/stop", kind="command")
    await hears(gateway, "young", now=10_000)
    assert await gateway.store.queue.expire_old(9_000) == sorted([KEY, key_of("a"), key_of("b")])
    assert await gateway.store.queue.expire_old(9_000) == []
    assert await gateway.store.queue.notify_expired(10_000) == sorted([KEY, key_of("a"), key_of("b")])
    assert await owed(gateway) == [texts.turns.messages_expired(1)] * 3
    assert await answered(gateway) == [["young"]]


async def test_b72_message_at_any_age_is_answered_when_there_is_no_limit(gateway: StoreGateway) -> None:
    assert (await hears(gateway, "a", sent_at=0, now=10**12)).fate is Fate.WAITS
    assert words(await claims(gateway, now=10**13)) == ["a"]


async def test_b72_old_message_neither_joins_nor_is_collected(gateway: StoreGateway) -> None:
    turn = await gateway.begins_turn("work")
    await hears(gateway, "old", "steer", now=1_000)
    await hears(gateway, "young", "steer", now=10_000)
    records = await gateway.store.queue.join(turn, rules(max_age_ms=1000), 10_500)
    assert records is not None
    assert [cause.text for cause in (await gateway.view(turn)).causes] == ["work", "young"]


# ── words of commands ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("manner", QUEUE_MODE_NAMES)
async def test_b80_words_of_a_command_take_its_place(gateway: StoreGateway, manner: QueueMode) -> None:
    await hears(gateway, "before")
    await hears(gateway, "/queue hello", kind="command")
    await hears(gateway, "behind")
    (command,) = await commands(gateway)
    putting = convert_to_message(command, "hello", manner, rules())
    put = await gateway.store.chat_commands.execute(command, putting, lambda _: "It waits.", gateway.now())
    assert put is not None
    assert (put.taken, put.busy, put.before) == (True, False, 1)
    assert (
        await gateway.store.chat_commands.execute(command, putting, lambda _: "It waits.", gateway.now()) is None
    )
    rows = await gateway.query("SELECT kind, manner FROM inbox ORDER BY position")
    assert rows[1] == ("message", manner)
    first = [["before"], ["hello"], ["behind"]] if manner != "interrupt" else [["hello"], ["before"], ["behind"]]
    assert await answered(gateway) == first


async def test_b80_words_of_a_command_are_not_taken_when_the_queue_is_full(gateway: StoreGateway) -> None:
    await hears(gateway, "before")
    await hears(gateway, "/queue hello", kind="command")
    (command,) = await commands(gateway)
    putting = convert_to_message(command, "hello", "queue", rules(cap=1))
    put = await gateway.store.chat_commands.execute(command, putting, lambda _: "No.", gateway.now())
    assert put is not None
    assert not put.taken
    assert await commands(gateway) == []
    assert await answered(gateway) == [["before"]]


def test_events_about_a_message_name_it() -> None:
    said = Inbound(chat_address(), "1", Sender("ada"), "hello")
    edits = [msgspec.structs.replace(said, kind="edit", version=version) for version in ("1", "2")]
    assert {edit.original_event_key for edit in edits} == {said.event_key}
    assert len({said.event_key, *(edit.event_key for edit in edits)}) == 3
