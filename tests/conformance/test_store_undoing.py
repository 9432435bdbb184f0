"""Taking turns back: once, with the answer, on the turn above the command, and asking the same again."""

from __future__ import annotations

import pytest

from perdure.core import notes
from perdure.core.conversation import conversation, recalled, views
from perdure.core.effects import Effect
from perdure.core.journal import Compacted, ModelAnswered, ToolEnded, ToolStarted, Undone
from perdure.core.messages import Attachment, Inbound, Sender
from perdure.core.session import Recovery, SessionState
from perdure.core.turn import State
from perdure.operations import import_sessions
from perdure.operations.personal import export_named
from perdure.store import verbs
from perdure.store.goals import set_goal
from perdure.store.moves import Turn
from perdure.store.orders import Order
from perdure.store.processes import End, Wish
from perdure.store.undoing import TakenBack, retry, undo
from support.stores import Gateway, calling, chat, key_of, message

pytestmark = pytest.mark.anyio

ADA = Sender("ada", "Ada")


async def orders(gateway: Gateway, text: str, *, id: str | None = None) -> Order:  # noqa: A002 reason: reads best
    """Receive a command; the order that it is."""
    await gateway.store.inbox.receive(message(text, id=id), "", key_of(), gateway.now(), "command")
    return (await gateway.store.orders.waiting(gateway.run))[-1]


async def undoes(gateway: Gateway, order: Order) -> TakenBack | None:
    work = undo(gateway.store.ids, order.key, order.sender, gateway.now(), before=order.position)
    return await gateway.store.orders.obey(order, work, lambda taken: taken.what, gateway.now())


async def retries(gateway: Gateway, order: Order) -> TakenBack | None:
    ids, now = gateway.store.ids, gateway.now()
    work = retry(ids, order.key, ADA, now, order=order.id, message=order.message, before=order.position)
    return await gateway.store.orders.obey(order, work, lambda taken: taken.what, gateway.now())


async def answers(gateway: Gateway, text: str, reply: str = "fine", *, id: str | None = None) -> Turn:  # noqa: A002
    """A turn with an answer, which is sent."""
    await gateway.hears(text, id=id)
    claim = await gateway.claims()
    assert claim is not None
    await gateway.appends(claim.turn, ModelAnswered(1, reply, (), "stop"))
    await gateway.finishes(claim.turn, reply)
    await gateway.delivers()
    return claim.turn


async def known(gateway: Gateway, turn: Turn) -> list[str]:
    """What a model that answers this turn reads, in the way in which an attempt recalls it."""
    history = recalled(views(await gateway.store.journal.before(turn.session, turn.first_seq)))
    return [message.text for message in conversation(history, await gateway.view(turn)).messages]


async def begun(gateway: Gateway) -> Turn:
    claim = await gateway.claims()
    assert claim is not None
    return claim.turn


# ── undo ────────────────────────────────────────────────────────────────────────────────────────────────────


async def test_turn_that_was_taken_back_is_not_read_by_a_model(gateway: Gateway) -> None:
    """B81."""
    await answers(gateway, "one", "first")
    second = await answers(gateway, "two", "second")
    assert await undoes(gateway, await orders(gateway, "/undo")) == TakenBack("done", "two")
    await gateway.reopen()
    view = await gateway.view(second)
    assert (view.undone, view.state, view.records[-1].entry) == (True, State.DONE, Undone("ada"))
    third = await gateway.begins("three")
    assert await known(gateway, third) == ["one", "first", "three"]


async def test_each_command_takes_one_turn_back_and_the_same_one_no_other(gateway: Gateway) -> None:
    """B71: two that come at once go two turns back; one that comes twice goes one turn back."""
    for text in ("one", "two", "three"):
        await answers(gateway, text)
    first, second = await orders(gateway, "/undo", id="u1"), await orders(gateway, "/undo", id="u2")
    assert (await undoes(gateway, first), await undoes(gateway, second)) == (
        TakenBack("done", "three"),
        TakenBack("done", "two"),
    )
    assert await undoes(gateway, second) is None
    stored = await gateway.store.inbox.receive(message("/undo", id="u2"), "", key_of(), gateway.now(), "command")
    assert not stored.fresh
    assert await known(gateway, await gateway.begins("four")) == ["one", "fine", "four"]


async def test_going_back_ends_where_there_is_nothing(gateway: Gateway) -> None:
    await answers(gateway, "one")
    assert await undoes(gateway, await orders(gateway, "/undo", id="u1")) == TakenBack("done", "one")
    assert await undoes(gateway, await orders(gateway, "/undo", id="u2")) == TakenBack("nothing")
    assert await known(gateway, await gateway.begins("two")) == ["two"]


@pytest.mark.parametrize("how", ["failed", "stopped"])
async def test_turn_that_did_not_end_well_is_taken_back_as_well(gateway: Gateway, how: str) -> None:
    turn = await gateway.begins("work")
    await (gateway.fails(turn) if how == "failed" else gateway.cancels(turn))
    assert await undoes(gateway, await orders(gateway, "/undo")) == TakenBack("done", "work")
    assert await known(gateway, await gateway.begins("two")) == ["two"]


async def test_turn_that_has_not_ended_is_not_taken_back(gateway: Gateway) -> None:
    turn = await gateway.begins("work")
    order = await orders(gateway, "/undo", id="u1")
    assert await undoes(gateway, order) == TakenBack("running")
    await gateway.reopen()
    await gateway.interrupts(turn)
    assert await undoes(gateway, await orders(gateway, "/undo", id="u2")) == TakenBack("running")
    assert await retries(gateway, await orders(gateway, "/retry", id="r")) == TakenBack("running")
    assert not (await gateway.view(turn)).undone


async def test_nothing_is_taken_back_while_a_message_above_the_command_waits(gateway: Gateway) -> None:
    first = await answers(gateway, "one")
    await gateway.hears("two")
    assert await undoes(gateway, await orders(gateway, "/undo")) == TakenBack("waiting")
    assert not (await gateway.view(first)).undone


async def test_message_below_the_command_does_not_keep_it(gateway: Gateway) -> None:
    await answers(gateway, "one")
    order = await orders(gateway, "/undo")
    await gateway.hears("two")
    assert await undoes(gateway, order) == TakenBack("done", "one")
    assert await known(gateway, await begun(gateway)) == ["two"]


async def test_what_was_not_sent_yet_is_not_sent_any_more(gateway: Gateway) -> None:
    turn = await gateway.begins("work")
    await gateway.finishes(turn, "part one", "part two")
    await gateway.delivers()
    await undoes(gateway, await orders(gateway, "/undo"))
    assert [row.text for row in await gateway.heads()] == ["done"]
    states = [(row.text, row.state.value) for row in await gateway.store.outbox.of_turn(turn.id)]
    assert states == [("part one", "sent"), ("part two", "withdrawn")]


async def test_answer_says_whether_tools_did_something_and_whether_a_command_lives(gateway: Gateway) -> None:
    turn = await gateway.begins("look around")
    looked = ToolStarted("c1", "look", Effect.PURE, "k1")
    await gateway.appends(turn, calling("c1"), looked, ToolEnded("c1", "ok", "seen"))
    await gateway.finishes(turn)
    assert await undoes(gateway, await orders(gateway, "/undo", id="u1")) == TakenBack("done", "look around")
    turn = await gateway.begins("build")
    built = ToolStarted("c1", "shell", Effect.ATTACHED, "k2")
    await gateway.appends(turn, calling("c1"), built, ToolEnded("c1", "ok", "begun"))
    process = await gateway.store.processes.record(Wish(turn.id, "c1", "d1", "make"), gateway.run, gateway.now())
    await gateway.finishes(turn)
    taken = await undoes(gateway, await orders(gateway, "/undo", id="u2"))
    assert taken == TakenBack("done", "build", acted=True, lives=True)
    assert (
        await gateway.store.processes.end(process, End(exit_code=0), lambda _: "over", gateway.now()) == "report"
    )


async def test_going_back_ends_at_a_summary(gateway: Gateway) -> None:
    """A summary stands also when the turn in which it was made is taken back: it is of what came before that."""
    await answers(gateway, "one", "first")
    second = await answers(gateway, "two", "second")
    through = (await gateway.view(second)).records[-1].seq
    third = await gateway.begins("three")
    await gateway.appends(third, Compacted(through, "one and two"), ModelAnswered(1, "third", (), "stop"))
    await gateway.finishes(third, "third")
    await gateway.delivers()
    assert await undoes(gateway, await orders(gateway, "/undo", id="u1")) == TakenBack("done", "three")
    assert await undoes(gateway, await orders(gateway, "/undo", id="u2")) == TakenBack("summed")
    fourth = await gateway.begins("four")
    assert await known(gateway, fourth) == [notes.summary("one and two"), "four"]


async def test_turn_that_is_half_summed_up_is_not_taken_back(gateway: Gateway) -> None:
    turn = await gateway.begins("long")
    await gateway.appends(turn, calling("c1"), ToolStarted("c1", "look", Effect.PURE, "k"))
    records = await gateway.appends(turn, ToolEnded("c1", "ok", "much"))
    assert records is not None
    await gateway.appends(turn, Compacted(records[0].seq, "it looked"))
    await gateway.finishes(turn, "done")
    assert await undoes(gateway, await orders(gateway, "/undo")) == TakenBack("summed")


async def test_mark_of_a_turn_that_was_taken_back_counts_no_more(gateway: Gateway) -> None:
    turn = await gateway.begins("work")
    await gateway.reopen()
    await gateway.interrupts(turn)
    row = await gateway.row(turn)
    verb = verbs.resume(gateway.store.ids, key_of(), gateway.run, message(""), gateway.now())
    await gateway.store.orders.perform(key_of(), verb)
    claim = await gateway.claims()
    assert claim is not None
    await gateway.finishes(claim.turn, "never sent")
    assert (await gateway.store.sessions.recovery(row.session)).resume_pending
    await undoes(gateway, await orders(gateway, "/undo"))
    assert await gateway.store.sessions.recovery(row.session) == Recovery()


async def test_goal_does_not_go_on_after_a_turn_that_was_taken_back(gateway: Gateway) -> None:
    """B84: nor does what such a turn said of the goal end it."""
    setting = set_goal(gateway.store.ids, key_of(), message("be done"), 5, gateway.now())
    await gateway.store.orders.perform(key_of(), setting)
    turn = await begun(gateway)
    await gateway.finishes(turn, "GOAL REACHED")
    taken = await undoes(gateway, await orders(gateway, "/undo", id="u1"))
    assert taken == TakenBack("done", "be done", goal=True)
    assert (await gateway.claims(), await gateway.store.turns.claimable(gateway.run)) == (None, [])
    await answers(gateway, "go on")
    goal = await begun(gateway)
    assert (await gateway.view(goal)).causes[0].text == "be done"


async def test_session_that_was_set_aside_does_not_go_on_with_what_was_taken_back(gateway: Gateway) -> None:
    await gateway.begins("work")
    suspended = verbs.suspend(gateway.store.ids, key_of(), gateway.now())
    await gateway.store.orders.perform(key_of(), suspended)
    assert await undoes(gateway, await orders(gateway, "/undo")) == TakenBack("done", "work")
    verb = verbs.resume(gateway.store.ids, key_of(), gateway.run, message("", id="w"), gateway.now())
    assert (await gateway.store.orders.perform(key_of(), verb)).what == "session"
    assert await gateway.claims() is None


async def test_only_the_current_session_goes_back_after_a_fresh_one_was_begun(gateway: Gateway) -> None:
    old = await answers(gateway, "old")
    await gateway.store.orders.perform(key_of(), verbs.renew(gateway.store.ids, key_of(), gateway.now()))
    assert await undoes(gateway, await orders(gateway, "/undo", id="u1")) == TakenBack("nothing")
    wish = message("", id="wish")
    back = verbs.resume(gateway.store.ids, key_of(), gateway.run, wish, gateway.now(), session=old.session)
    await gateway.store.orders.perform(key_of(), back)
    assert await undoes(gateway, await orders(gateway, "/undo", id="u2")) == TakenBack("done", "old")


# ── retry ───────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("how", ["done", "failed", "stopped"])
async def test_same_is_asked_again_once_and_anchored_to_the_same_message(gateway: Gateway, how: str) -> None:
    files = (Attachment("a.png", "ref", "image/png", 3), Attachment("b.txt", "ref2"))
    said = Inbound(chat(), "m7", ADA, "what is this?", sent_at=5, attachments=files)
    await gateway.store.inbox.receive(said, "raw", key_of(), gateway.now())
    turn = await begun(gateway)
    ends = {"done": gateway.finishes, "failed": gateway.fails, "stopped": gateway.cancels}
    await ends[how](turn)
    order = await orders(gateway, "/retry")
    assert await retries(gateway, order) == TakenBack("done", "what is this?")
    assert await retries(gateway, order) is None
    await gateway.reopen()
    again = await begun(gateway)
    (cause,) = (await gateway.view(again)).causes
    assert (cause.text, cause.message, cause.sender, cause.attachments) == ("what is this?", "m7", ADA, files)
    assert again.session == turn.session
    assert await known(gateway, again) == ["what is this?"]
    assert await gateway.claims() is None
    rows = await gateway.rows("SELECT name FROM attachments WHERE inbox = :id ORDER BY ordinal", id=cause.inbox)
    assert rows == [("a.png",), ("b.txt",)]


async def test_message_that_is_asked_again_does_not_stand_in_the_chat_twice(gateway: Gateway) -> None:
    await answers(gateway, "hello")
    await retries(gateway, await orders(gateway, "/retry"))
    seen = await gateway.store.inbox.seen(key_of(), 0)
    assert [one.text for one in seen] == ["hello", "fine", "/retry"]


async def test_all_that_joined_the_turn_is_asked_again_as_one_message(gateway: Gateway) -> None:
    turn = await gateway.begins("one")
    await gateway.reopen()
    await gateway.interrupts(turn)
    await gateway.hears("two")
    verb = verbs.resume(gateway.store.ids, key_of(), gateway.run, message(""), gateway.now())
    await gateway.store.orders.perform(key_of(), verb)
    claim = await gateway.claims()
    assert claim is not None
    await gateway.finishes(claim.turn, "both")
    await retries(gateway, await orders(gateway, "/retry"))
    (cause,) = (await gateway.view(await begun(gateway))).causes
    assert (cause.text, cause.message) == ("one\n\ntwo", "two")


async def test_turn_that_no_message_began_is_not_asked_again(gateway: Gateway) -> None:
    setting = set_goal(gateway.store.ids, key_of(), message("be done"), 5, gateway.now())
    await gateway.store.orders.perform(key_of(), setting)
    turn = await begun(gateway)
    await gateway.cancels(turn)
    assert await retries(gateway, await orders(gateway, "/retry")) == TakenBack("unasked")
    assert not (await gateway.view(turn)).undone


async def test_news_that_a_turn_took_along_is_told_again_with_its_message(gateway: Gateway) -> None:
    first = await gateway.begins("build")
    wish = Wish(first.id, "c1", "d1", "make", patterns=("error",))
    process = await gateway.store.processes.record(wish, gateway.run, gateway.now())
    await gateway.finishes(first)
    await gateway.store.processes.end(process, End(exit_code=0), lambda _: "make has ended", gateway.now())
    await gateway.tampers("UPDATE inbox SET kind = 'aside' WHERE kind = 'report'")
    await answers(gateway, "and now?")
    await retries(gateway, await orders(gateway, "/retry"))
    causes = (await gateway.view(await begun(gateway))).causes
    assert [(cause.text, cause.note) for cause in causes] == [("make has ended", True), ("and now?", False)]


async def test_asking_again_brings_back_a_session_that_was_set_aside(gateway: Gateway) -> None:
    turn = await gateway.begins("work")
    suspended = verbs.suspend(gateway.store.ids, key_of(), gateway.now())
    await gateway.store.orders.perform(key_of(), suspended)
    assert await retries(gateway, await orders(gateway, "/retry")) == TakenBack("done", "work")
    again = await begun(gateway)
    session = await gateway.store.sessions.current(key_of())
    assert session is not None
    assert (again.session, session.id, session.state) == (turn.session, turn.session, SessionState.OPEN)


async def test_message_right_behind_retry_is_answered_after_what_is_asked_again(gateway: Gateway) -> None:
    await answers(gateway, "one")
    order = await orders(gateway, "/retry")
    await gateway.hears("two")
    await retries(gateway, order)
    first = await begun(gateway)
    await gateway.finishes(first)
    second = await begun(gateway)
    texts = [(await gateway.view(turn)).causes[0].text for turn in (first, second)]
    assert texts == ["one", "two"]


async def test_what_is_asked_again_is_exported_and_imported_with_the_rest(gateway: Gateway) -> None:
    turn = await answers(gateway, "one")
    await retries(gateway, await orders(gateway, "/retry"))
    text, _ = await export_named(gateway.store, key_of())
    await gateway.store.erasing.begin(turn.session, gateway.now())
    await gateway.store.erasing.finish(turn.session, gateway.now())
    await gateway.store.runs.end(gateway.run)
    report = await import_sessions(gateway.store, text)
    assert (report.imported, report.problems) == (1, [])
    assert (await gateway.view(turn)).undone


async def test_undo_right_behind_retry_leaves_the_turn_before_alone(gateway: Gateway) -> None:
    first = await answers(gateway, "one")
    await answers(gateway, "two")
    retrying, undoing = await orders(gateway, "/retry"), await orders(gateway, "/undo")
    assert await retries(gateway, retrying) == TakenBack("done", "two")
    assert await undoes(gateway, undoing) == TakenBack("waiting")
    assert not (await gateway.view(first)).undone


async def test_retry_right_behind_retry_asks_once(gateway: Gateway) -> None:
    await answers(gateway, "one")
    first, second = await orders(gateway, "/retry", id="r1"), await orders(gateway, "/retry", id="r2")
    assert await retries(gateway, first) == TakenBack("done", "one")
    assert await retries(gateway, second) == TakenBack("waiting")
    assert await gateway.store.inbox.waiting(key_of()) == 1


async def test_undo_of_both_gateways_at_once_takes_one_turn_back(two_gateways: tuple[Gateway, Gateway]) -> None:
    one, two = two_gateways
    await answers(one, "one")
    await answers(one, "two")
    order = await orders(one, "/undo")
    found = [await undoes(one, order), await undoes(two, order)]
    assert found == [TakenBack("done", "two"), None]
    kinds = await one.rows("SELECT turn FROM journal WHERE kind = 'undone'")
    assert len(kinds) == 1
