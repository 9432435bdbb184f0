"""From the platform to us: nothing is lost, nothing acts twice, and everything is heard where it was said."""

from __future__ import annotations

from perdure.testing.adapters.checks import Checks, check
from perdure.testing.adapters.performance import ASK, COLOURS, HOLD, Performance, answer_to, expect, present
from perdure.testing.adapters.seam import Place


class Incoming(Checks):
    """What happens to messages, presses, and things that make no sense."""

    @check
    async def test_each_message_is_answered_once_in_its_chat(self, play: Performance) -> None:
        """And the same words again are another message."""
        async with play.serving() as gateway:
            answer = await play.converse(gateway, "hello")
            other = await play.converse(gateway, "good morning", chat="bob")
            await play.say("hello")
            last = await play.converse(gateway, "good night")
            await play.confirmed()
        await play.expect(answer, answer, last)
        await play.expect(other, chat="bob")

    @check
    async def test_nothing_is_acknowledged_before_it_is_stored(self, play: Performance) -> None:
        """B70: a gateway that dies between the hand-over and the store is handed the message again."""
        if not play.can.keeps_missed:
            return
        async with play.dying(Place.BEFORE_STORE):
            first = await play.say("before")
            await play.halted(Place.BEFORE_STORE)
        expect(await play.stage.unconfirmed() > 0, "the message was acknowledged before it was stored")
        async with play.serving() as gateway:
            second = await play.converse(gateway, "after")
        await play.expect(first, second)

    @check
    async def test_message_that_could_not_be_stored_comes_again(self, play: Performance) -> None:
        """B70: the disk is full, and then it is not."""
        if not play.can.keeps_missed:
            return
        async with play.filling() as (_, database):
            database.fill()
            first = await play.say("before")
            await play.until("the adapter is told that it was not stored", lambda: play.seam.failed)
            kept = await play.stage.unconfirmed()
            database.mend()
        expect(kept > 0, "the message was acknowledged though it could not be stored")
        async with play.serving() as gateway:
            second = await play.converse(gateway, "after")
        await play.expect(first, second)

    @check
    async def test_message_that_is_handed_over_again_is_one_turn(self, play: Performance) -> None:
        """B71: stored and not acknowledged, it comes again after every death."""
        if not play.can.keeps_missed:
            return
        first = await play.say("before")
        for _ in range(2):
            async with play.dying(Place.BEFORE_ACK) as gateway:
                await play.halted(Place.BEFORE_ACK)
                await play.heard(gateway, "before")
        async with play.serving() as gateway:
            second = await play.converse(gateway, "after")
            await play.confirmed()
        expect(play.turns("before") == 1, "the same message began two turns: its key must always be the same")
        await play.expect(first, second)

    @check
    async def test_messages_written_while_nobody_was_there_are_answered_in_order(self, play: Performance) -> None:
        """B72."""
        if not play.can.keeps_missed:
            return
        async with play.serving() as gateway:
            answers = [await play.converse(gateway, "before")]
        answers += [await play.say(text) for text in ("one", "two", "three")]
        async with play.serving() as gateway:
            answers.append(await play.converse(gateway, "after"))
        await play.expect(*answers)

    @check
    async def test_event_that_makes_no_sense_is_kept_as_rejected_and_acknowledged(self, play: Performance) -> None:
        """B70."""
        async with play.serving() as gateway:
            if not await play.stage.garble():
                return
            answer = await play.converse(gateway, "hello")
            rejected = [event.key for event in play.seam.handed if event.inbound is None or event.problem]
            expect(bool(rejected), "what makes no sense was not handed over as an event with a `problem`")
            taken = play.seam.acknowledged
            await play.until("it is acknowledged", lambda: {*rejected} <= {event.key for event in taken})
            await play.confirmed()
        await play.expect(answer)

    @check
    async def test_file_that_somebody_sends_can_be_fetched(self, play: Performance) -> None:
        """B70."""
        async with play.serving():
            content = await play.stage.share("notes.txt")
            if content is None:
                return
            await play.until("the file is handed over", lambda: play.seam.handed)
            inbound = present(play.seam.handed[0].inbound, "it was handed over as something that makes no sense")
            expect(len(inbound.attachments) == 1, f"it was handed over as {inbound!r}")
            fetched = play.seam.inner.fetch(inbound.attachments[0].reference)
            found = b"".join([piece async for piece in fetched])
        expect(found == content, f"{len(found)} bytes were fetched, and they are not what was sent")

    @check
    async def test_each_thread_is_a_conversation_of_its_own(self, play: Performance) -> None:
        """B79: and it is answered there."""
        if not play.can.threads:
            return
        async with play.serving() as gateway:
            tea = await play.converse(gateway, "about tea", thread="tea")
            rain = await play.converse(gateway, "about rain", thread="rain")
            rest = await play.converse(gateway, "about the rest")
            keys = {session.key for session in await gateway.store.sessions.page()}
        await play.expect(tea, thread="tea")
        await play.expect(rain, thread="rain")
        await play.expect(rest)
        expect(len(keys) == 3, f"two threads and a chat are the conversations {sorted(keys)}; expected three")

    @check
    async def test_question_is_answered_by_a_button_after_a_death(self, play: Performance) -> None:
        """B67: where there are no buttons, in words."""
        async with play.dying() as gateway:
            await play.say(ASK)
            await play.until("a turn begins", lambda: play.turns(ASK))
            await play.until("the question is there", play.stage.seen)
            await play.settled(gateway)
            (question,) = await play.stage.seen()
        async with play.serving() as gateway:
            if play.can.buttons:
                expect(question.buttons == COLOURS, f"the question has the buttons {question.buttons}")
                await play.stage.press("blue")
            else:
                await play.stage.write("blue")
            await play.until("the turn goes on", lambda: play.answering.calls > 1)
            await play.heard(gateway)
            await play.confirmed()
        await play.expect(question.text, answer_to("blue"))

    @check
    async def test_what_runs_when_the_line_is_lost_is_answered_once_it_is_back(self, play: Performance) -> None:
        """B75: the answer waits, arrives once, and nobody takes it for a duplicate."""
        async with play.serving() as gateway:
            answer = await play.say(f"{HOLD} on")
            await play.until("the agent thinks", play.answering.holding.is_set)
            await play.stage.cut()
            connected = gateway.loops.connections.connected
            await play.until("the lost line is noticed", lambda: not connected)
            play.answering.go.set()
            await play.until("the reply is owed", gateway.store.outbox.open)
            await play.stage.mend()
            await play.heard(gateway)
            await play.confirmed()
        await play.expect(answer)

    @check
    async def test_platform_that_is_down_at_the_start_is_connected_to_later(self, play: Performance) -> None:
        """B41."""
        await play.stage.cut()
        async with play.serving(reached=False) as gateway:
            await play.until("it is tried to connect", play.seam.tried)
            expect(not play.seam.connected, "`connect` returned though the platform was not there")
            await play.stage.mend()
            await play.connected()
            answer = await play.converse(gateway, "hello")
        await play.expect(answer)
