"""Taking turns back: once, with the answer, on the turn above the command, and asking the same again.

Drives `store/undo`.
"""

from __future__ import annotations

import pytest

from perdure.core import texts
from perdure.core.conversation import build_conversation, turn_views, visible_turns
from perdure.core.effects import Effect
from perdure.core.journal import ConversationCompacted, ModelAnswered, ToolEnded, ToolStarted, TurnUndone
from perdure.core.messages import Attachment, Inbound, Sender
from perdure.core.states import RecoveryState, SessionState, TurnState
from perdure.operations.personal_data import export_named
from perdure.operations.transfer import import_sessions
from perdure.store import session_verbs
from perdure.store.chat_commands import ChatCommand
from perdure.store.goals import set_goal
from perdure.store.processes import ProcessEnd, ProcessRequest
from perdure.store.transitions import Turn
from perdure.store.undo import UndoResult, retry_turn, undo_turn
from support.store_gateway import StoreGateway, answer_with_calls, chat_address, key_of, message

pytestmark = pytest.mark.anyio

ADA = Sender("ada", "Ada")


async def commands(gateway: StoreGateway, text: str, *, id: str | None = None) -> ChatCommand:  # noqa: A002 reason: reads best
    """Receive a command; the order that it is."""
    await gateway.store.inbox.receive(message(text, id=id), "", key_of(), gateway.now(), "command")
    return (await gateway.store.chat_commands.waiting(gateway.run))[-1]


async def undoes(gateway: StoreGateway, order: ChatCommand) -> UndoResult | None:
    work = undo_turn(order.key, order.sender, before=order.position)
    return await gateway.store.chat_commands.execute(order, work, lambda taken: taken.outcome, gateway.now())


async def retries(gateway: StoreGateway, order: ChatCommand) -> UndoResult | None:
    work = retry_turn(order.key, ADA, command=order.id, message=order.message, before=order.position)
    return await gateway.store.chat_commands.execute(order, work, lambda taken: taken.outcome, gateway.now())


async def answers(gateway: StoreGateway, text: str, reply: str = "fine", *, id: str | None = None) -> Turn:  # noqa: A002
    """A turn with an answer, which is sent."""
    await gateway.receives(text, id=id)
    claim = await gateway.claims()
    assert claim is not None
    await gateway.appends(claim.turn, ModelAnswered(1, reply, (), "stop"))
    await gateway.finishes_turn(claim.turn, reply)
    await gateway.delivers()
    return claim.turn


async def known(gateway: StoreGateway, turn: Turn) -> list[str]:
    """What a model that answers this turn reads, in the way in which an attempt recalls it."""
    history = visible_turns(turn_views(await gateway.store.journal.read_before(turn.session, turn.first_seq)))
    return [message.text for message in build_conversation(history, await gateway.view(turn)).messages]


async def begun(gateway: StoreGateway) -> Turn:
    claim = await gateway.claims()
    assert claim is not None
    return claim.turn


# ── undo ────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_turn_that_was_taken_back_is_not_read_by_a_model(gateway: StoreGateway) -> None:
    """B81."""
    await answers(gateway, "one", "first")
    second = await answers(gateway, "two", "second")
    assert await undoes(gateway, await commands(gateway, "/undo")) == UndoResult("done", "two")
    await gateway.reopen()
    view = await gateway.view(second)
    assert (view.undone, view.state, view.records[-1].entry) == (True, TurnState.DONE, TurnUndone("ada"))
    third = await gateway.begins_turn("three")
    assert await known(gateway, third) == ["one", "first", "three"]


async def test_each_command_takes_one_turn_back_and_the_same_one_no_other(gateway: StoreGateway) -> None:
    """B71: two that come at once go two turns back; one that comes twice goes one turn back."""
    for text in ("one", "two", "three"):
        await answers(gateway, text)
    first, second = await commands(gateway, "/undo", id="u1"), await commands(gateway, "/undo", id="u2")
    assert (await undoes(gateway, first), await undoes(gateway, second)) == (
        UndoResult("done", "three"),
        UndoResult("done", "two"),
    )
    assert await undoes(gateway, second) is None
    stored = await gateway.store.inbox.receive(message("/undo", id="u2"), "", key_of(), gateway.now(), "command")
    assert not stored.fresh
    assert await known(gateway, await gateway.begins_turn("four")) == ["one", "fine", "four"]


async def test_going_back_ends_where_there_is_nothing(gateway: StoreGateway) -> None:
    await answers(gateway, "one")
    assert await undoes(gateway, await commands(gateway, "/undo", id="u1")) == UndoResult("done", "one")
    assert await undoes(gateway, await commands(gateway, "/undo", id="u2")) == UndoResult("nothing")
    assert await known(gateway, await gateway.begins_turn("two")) == ["two"]


@pytest.mark.parametrize("how", ["failed", "stopped"])
async def test_turn_that_did_not_end_well_is_taken_back_as_well(gateway: StoreGateway, how: str) -> None:
    turn = await gateway.begins_turn("work")
    await (gateway.fails_turn(turn) if how == "failed" else gateway.cancels_turn(turn))
    assert await undoes(gateway, await commands(gateway, "/undo")) == UndoResult("done", "work")
    assert await known(gateway, await gateway.begins_turn("two")) == ["two"]


async def test_turn_that_has_not_ended_is_not_taken_back(gateway: StoreGateway) -> None:
    turn = await gateway.begins_turn("work")
    order = await commands(gateway, "/undo", id="u1")
    assert await undoes(gateway, order) == UndoResult("running")
    await gateway.reopen()
    await gateway.interrupts_turn(turn)
    assert await undoes(gateway, await commands(gateway, "/undo", id="u2")) == UndoResult("running")
    assert await retries(gateway, await commands(gateway, "/retry", id="r")) == UndoResult("running")
    assert not (await gateway.view(turn)).undone


async def test_nothing_is_taken_back_while_a_message_above_the_command_waits(gateway: StoreGateway) -> None:
    first = await answers(gateway, "one")
    await gateway.receives("two")
    assert await undoes(gateway, await commands(gateway, "/undo")) == UndoResult("waiting")
    assert not (await gateway.view(first)).undone


async def test_message_below_the_command_does_not_keep_it(gateway: StoreGateway) -> None:
    await answers(gateway, "one")
    order = await commands(gateway, "/undo")
    await gateway.receives("two")
    assert await undoes(gateway, order) == UndoResult("done", "one")
    assert await known(gateway, await begun(gateway)) == ["two"]


async def test_what_was_not_sent_yet_is_not_sent_any_more(gateway: StoreGateway) -> None:
    turn = await gateway.begins_turn("work")
    await gateway.finishes_turn(turn, "part one", "part two")
    await gateway.delivers()
    await undoes(gateway, await commands(gateway, "/undo"))
    assert [row.text for row in await gateway.outbox_heads()] == ["done"]
    states = [(row.text, row.state.value) for row in await gateway.store.outbox.of_turn(turn.id)]
    assert states == [("part one", "sent"), ("part two", "withdrawn")]


async def test_answer_says_whether_tools_did_something_and_whether_a_command_lives(gateway: StoreGateway) -> None:
    turn = await gateway.begins_turn("look around")
    looked = ToolStarted("c1", "look", Effect.PURE, "k1")
    await gateway.appends(turn, answer_with_calls("c1"), looked, ToolEnded("c1", "ok", "seen"))
    await gateway.finishes_turn(turn)
    assert await undoes(gateway, await commands(gateway, "/undo", id="u1")) == UndoResult("done", "look around")
    turn = await gateway.begins_turn("build")
    built = ToolStarted("c1", "shell", Effect.ATTACHED, "k2")
    await gateway.appends(turn, answer_with_calls("c1"), built, ToolEnded("c1", "ok", "begun"))
    process = await gateway.store.processes.record(
        ProcessRequest(turn.id, "c1", "d1", "make"), gateway.run, gateway.now()
    )
    await gateway.finishes_turn(turn)
    taken = await undoes(gateway, await commands(gateway, "/undo", id="u2"))
    assert taken == UndoResult("done", "build", acted=True, process_running=True)
    assert (
        await gateway.store.processes.record_end(process, ProcessEnd(exit_code=0), lambda _: "over", gateway.now())
        == "report"
    )


async def test_going_back_ends_at_a_summary(gateway: StoreGateway) -> None:
    """A summary stands also when the turn in which it was made is taken back: it is of what came before that."""
    await answers(gateway, "one", "first")
    second = await answers(gateway, "two", "second")
    through = (await gateway.view(second)).records[-1].seq
    third = await gateway.begins_turn("three")
    await gateway.appends(
        third, ConversationCompacted(through, "one and two"), ModelAnswered(1, "third", (), "stop")
    )
    await gateway.finishes_turn(third, "third")
    await gateway.delivers()
    assert await undoes(gateway, await commands(gateway, "/undo", id="u1")) == UndoResult("done", "three")
    assert await undoes(gateway, await commands(gateway, "/undo", id="u2")) == UndoResult("summed")
    fourth = await gateway.begins_turn("four")
    assert await known(gateway, fourth) == [texts.agents.summary_note("one and two"), "four"]


async def test_turn_that_is_half_summed_up_is_not_taken_back(gateway: StoreGateway) -> None:
    turn = await gateway.begins_turn("long")
    await gateway.appends(turn, answer_with_calls("c1"), ToolStarted("c1", "look", Effect.PURE, "k"))
    records = await gateway.appends(turn, ToolEnded("c1", "ok", "much"))
    assert records is not None
    await gateway.appends(turn, ConversationCompacted(records[0].seq, "it looked"))
    await gateway.finishes_turn(turn, "done")
    assert await undoes(gateway, await commands(gateway, "/undo")) == UndoResult("summed")


async def test_mark_of_a_turn_that_was_taken_back_counts_no_more(gateway: StoreGateway) -> None:
    turn = await gateway.begins_turn("work")
    await gateway.reopen()
    await gateway.interrupts_turn(turn)
    row = await gateway.turn_row(turn)
    verb = session_verbs.resume(key_of(), gateway.run, message(""))
    await gateway.store.chat_commands.execute_verb(key_of(), verb, at=gateway.now())
    claim = await gateway.claims()
    assert claim is not None
    await gateway.finishes_turn(claim.turn, "never sent")
    assert (await gateway.store.sessions.recovery(row.session)).resume_pending
    await undoes(gateway, await commands(gateway, "/undo"))
    assert await gateway.store.sessions.recovery(row.session) == RecoveryState()


async def test_goal_does_not_go_on_after_a_turn_that_was_taken_back(gateway: StoreGateway) -> None:
    """B84: nor does what such a turn said of the goal end it."""
    setting = set_goal(key_of(), message("be done"), 5)
    await gateway.store.chat_commands.execute_verb(key_of(), setting, at=gateway.now())
    turn = await begun(gateway)
    await gateway.finishes_turn(turn, "GOAL REACHED")
    taken = await undoes(gateway, await commands(gateway, "/undo", id="u1"))
    assert taken == UndoResult("done", "be done", goal=True)
    assert (await gateway.claims(), await gateway.store.turns.claimable_keys(gateway.run)) == (None, [])
    await answers(gateway, "go on")
    goal = await begun(gateway)
    assert (await gateway.view(goal)).causes[0].text == "be done"


async def test_session_that_was_set_aside_does_not_go_on_with_what_was_taken_back(gateway: StoreGateway) -> None:
    await gateway.begins_turn("work")
    suspended = session_verbs.suspend(key_of())
    await gateway.store.chat_commands.execute_verb(key_of(), suspended, at=gateway.now())
    assert await undoes(gateway, await commands(gateway, "/undo")) == UndoResult("done", "work")
    verb = session_verbs.resume(key_of(), gateway.run, message("", id="w"))
    assert (await gateway.store.chat_commands.execute_verb(key_of(), verb, at=gateway.now())).outcome == "session"
    assert await gateway.claims() is None


async def test_only_the_current_session_goes_back_after_a_fresh_one_was_begun(gateway: StoreGateway) -> None:
    old = await answers(gateway, "old")
    await gateway.store.chat_commands.execute_verb(key_of(), session_verbs.renew(key_of()), at=gateway.now())
    assert await undoes(gateway, await commands(gateway, "/undo", id="u1")) == UndoResult("nothing")
    wish = message("", id="wish")
    back = session_verbs.resume(key_of(), gateway.run, wish, session=old.session)
    await gateway.store.chat_commands.execute_verb(key_of(), back, at=gateway.now())
    assert await undoes(gateway, await commands(gateway, "/undo", id="u2")) == UndoResult("done", "old")


# ── retry ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("how", ["done", "failed", "stopped"])
async def test_same_is_asked_again_once_and_anchored_to_the_same_message(gateway: StoreGateway, how: str) -> None:
    files = (Attachment("a.png", "ref", "image/png", 3), Attachment("b.txt", "ref2"))
    said = Inbound(chat_address(), "m7", ADA, "what is this?", sent_at=5, attachments=files)
    await gateway.store.inbox.receive(said, "raw", key_of(), gateway.now())
    turn = await begun(gateway)
    ends = {"done": gateway.finishes_turn, "failed": gateway.fails_turn, "stopped": gateway.cancels_turn}
    await ends[how](turn)
    order = await commands(gateway, "/retry")
    assert await retries(gateway, order) == UndoResult("done", "what is this?")
    assert await retries(gateway, order) is None
    await gateway.reopen()
    again = await begun(gateway)
    (cause,) = (await gateway.view(again)).causes
    assert (cause.text, cause.message, cause.sender, cause.attachments) == ("what is this?", "m7", ADA, files)
    assert again.session == turn.session
    assert await known(gateway, again) == ["what is this?"]
    assert await gateway.claims() is None
    rows = await gateway.query("SELECT name FROM attachments WHERE inbox = :id ORDER BY ordinal", id=cause.inbox)
    assert rows == [("a.png",), ("b.txt",)]


async def test_message_that_is_asked_again_does_not_stand_in_the_chat_twice(gateway: StoreGateway) -> None:
    await answers(gateway, "hello")
    await retries(gateway, await commands(gateway, "/retry"))
    seen = await gateway.store.inbox.chat_messages(key_of(), 0)
    assert [one.text for one in seen] == ["hello", "fine", "/retry"]


async def test_all_that_joined_the_turn_is_asked_again_as_one_message(gateway: StoreGateway) -> None:
    turn = await gateway.begins_turn("one")
    await gateway.reopen()
    await gateway.interrupts_turn(turn)
    await gateway.receives("two")
    verb = session_verbs.resume(key_of(), gateway.run, message(""))
    await gateway.store.chat_commands.execute_verb(key_of(), verb, at=gateway.now())
    claim = await gateway.claims()
    assert claim is not None
    await gateway.finishes_turn(claim.turn, "both")
    await retries(gateway, await commands(gateway, "/retry"))
    (cause,) = (await gateway.view(await begun(gateway))).causes
    assert (cause.text, cause.message) == ("one\n\ntwo", "two")


async def test_turn_that_no_message_began_is_not_asked_again(gateway: StoreGateway) -> None:
    setting = set_goal(key_of(), message("be done"), 5)
    await gateway.store.chat_commands.execute_verb(key_of(), setting, at=gateway.now())
    turn = await begun(gateway)
    await gateway.cancels_turn(turn)
    assert await retries(gateway, await commands(gateway, "/retry")) == UndoResult("unasked")
    assert not (await gateway.view(turn)).undone


async def test_news_that_a_turn_took_along_is_told_again_with_its_message(gateway: StoreGateway) -> None:
    first = await gateway.begins_turn("build")
    wish = ProcessRequest(first.id, "c1", "d1", "make", patterns=("error",))
    process = await gateway.store.processes.record(wish, gateway.run, gateway.now())
    await gateway.finishes_turn(first)
    await gateway.store.processes.record_end(
        process, ProcessEnd(exit_code=0), lambda _: "make has ended", gateway.now()
    )
    await gateway.execute_sql("UPDATE inbox SET kind = 'aside' WHERE kind = 'report'")
    await answers(gateway, "and now?")
    await retries(gateway, await commands(gateway, "/retry"))
    causes = (await gateway.view(await begun(gateway))).causes
    assert [(cause.text, cause.note) for cause in causes] == [("make has ended", True), ("and now?", False)]


async def test_asking_again_brings_back_a_session_that_was_set_aside(gateway: StoreGateway) -> None:
    turn = await gateway.begins_turn("work")
    suspended = session_verbs.suspend(key_of())
    await gateway.store.chat_commands.execute_verb(key_of(), suspended, at=gateway.now())
    assert await retries(gateway, await commands(gateway, "/retry")) == UndoResult("done", "work")
    again = await begun(gateway)
    session = await gateway.store.sessions.current(key_of())
    assert session is not None
    assert (again.session, session.id, session.state) == (turn.session, turn.session, SessionState.OPEN)


async def test_message_right_behind_retry_is_answered_after_what_is_asked_again(gateway: StoreGateway) -> None:
    await answers(gateway, "one")
    order = await commands(gateway, "/retry")
    await gateway.receives("two")
    await retries(gateway, order)
    first = await begun(gateway)
    await gateway.finishes_turn(first)
    second = await begun(gateway)
    texts = [(await gateway.view(turn)).causes[0].text for turn in (first, second)]
    assert texts == ["one", "two"]


async def test_what_is_asked_again_is_exported_and_imported_with_the_rest(gateway: StoreGateway) -> None:
    turn = await answers(gateway, "one")
    await retries(gateway, await commands(gateway, "/retry"))
    text, _ = await export_named(gateway.store, key_of())
    await gateway.store.erasure.begin(turn.session, gateway.now())
    await gateway.store.erasure.finish(turn.session, gateway.now())
    await gateway.store.runs.end(gateway.run)
    report = await import_sessions(gateway.store, text)
    assert (report.imported, report.problems) == (1, [])
    assert (await gateway.view(turn)).undone


async def test_undo_right_behind_retry_leaves_the_turn_before_alone(gateway: StoreGateway) -> None:
    first = await answers(gateway, "one")
    await answers(gateway, "two")
    retrying, undoing = await commands(gateway, "/retry"), await commands(gateway, "/undo")
    assert await retries(gateway, retrying) == UndoResult("done", "two")
    assert await undoes(gateway, undoing) == UndoResult("waiting")
    assert not (await gateway.view(first)).undone


async def test_retry_right_behind_retry_asks_once(gateway: StoreGateway) -> None:
    await answers(gateway, "one")
    first, second = await commands(gateway, "/retry", id="r1"), await commands(gateway, "/retry", id="r2")
    assert await retries(gateway, first) == UndoResult("done", "one")
    assert await retries(gateway, second) == UndoResult("waiting")
    assert await gateway.store.inbox.count_waiting(key_of()) == 1


async def test_undo_of_both_gateways_at_once_takes_one_turn_back(
    two_gateways: tuple[StoreGateway, StoreGateway],
) -> None:
    one, two = two_gateways
    await answers(one, "one")
    await answers(one, "two")
    order = await commands(one, "/undo")
    found = [await undoes(one, order), await undoes(two, order)]
    assert found == [UndoResult("done", "two"), None]
    kinds = await one.query("SELECT turn FROM journal WHERE kind = 'undone'")
    assert len(kinds) == 1
