"""Checks of what an adapter receives, by polling and by webhook."""

from __future__ import annotations

from perdure.core.messages import Outbound
from perdure.errors import PerdureError
from perdure.testing.adapter_conformance.context import (
    ASK,
    COLOURS,
    HOLD,
    AdapterChecks,
    CheckContext,
    adapter_check,
    answer_to,
    expect,
    require,
)
from perdure.testing.adapter_conformance.stage import HaltPoint

OF_ANOTHER = "This is from a gateway that stands by."


class IncomingChecks(AdapterChecks):
    """Checks of messages, button presses, files and unreadable events."""

    @adapter_check
    async def test_each_message_is_answered_once_in_its_chat(self, context: CheckContext) -> None:
        """The same text again is another message."""
        async with context.serving() as gateway:
            answer = await context.converse(gateway, "hello")
            other = await context.converse(gateway, "good morning", chat="bob")
            await context.say("hello")
            last = await context.converse(gateway, "good night")
            await context.wait_until_confirmed()
        await context.expect_messages(answer, answer, last)
        await context.expect_messages(other, chat="bob")

    @adapter_check
    async def test_nothing_is_acknowledged_before_it_is_stored(self, context: CheckContext) -> None:
        """B70: a gateway that dies between the hand-over and the store is handed the message again."""
        if not context.capabilities.keeps_missed:
            return
        async with context.crashing(HaltPoint.BEFORE_STORE):
            first = await context.say("before")
            await context.wait_for_halt(HaltPoint.BEFORE_STORE)
        expect(await context.stage.unconfirmed() > 0, "the message was acknowledged before it was stored")
        async with context.serving() as gateway:
            second = await context.converse(gateway, "after")
        await context.expect_messages(first, second)

    @adapter_check
    async def test_message_that_could_not_be_stored_comes_again(self, context: CheckContext) -> None:
        """B70: the disk is full, and then it is not."""
        if not context.capabilities.keeps_missed:
            return
        async with context.serving_with_faulty_disk() as (_, database):
            database.fill()
            first = await context.say("before")
            await context.wait_until("the adapter is told that it was not stored", lambda: context.spy.failed)
            pending = await context.stage.unconfirmed()
            database.mend()
        expect(pending > 0, "the message was acknowledged though it could not be stored")
        async with context.serving() as gateway:
            second = await context.converse(gateway, "after")
        await context.expect_messages(first, second)

    @adapter_check
    async def test_message_that_is_handed_over_again_is_one_turn(self, context: CheckContext) -> None:
        """B71: stored and not acknowledged, it comes again after every death."""
        if not context.capabilities.keeps_missed:
            return
        first = await context.say("before")
        for _ in range(2):
            async with context.crashing(HaltPoint.BEFORE_ACK) as gateway:
                await context.wait_for_halt(HaltPoint.BEFORE_ACK)
                await context.wait_until_quiet(gateway, "before")
        async with context.serving() as gateway:
            second = await context.converse(gateway, "after")
            await context.wait_until_confirmed()
        expect(
            context.turn_count("before") == 1, "the same message began two turns: its key must always be the same"
        )
        await context.expect_messages(first, second)

    @adapter_check
    async def test_messages_written_while_nobody_was_there_are_answered_in_order(
        self, context: CheckContext
    ) -> None:
        """B72."""
        if not context.capabilities.keeps_missed:
            return
        async with context.serving() as gateway:
            answers = [await context.converse(gateway, "before")]
        answers += [await context.say(text) for text in ("one", "two", "three")]
        async with context.serving() as gateway:
            answers.append(await context.converse(gateway, "after"))
        await context.expect_messages(*answers)

    @adapter_check
    async def test_event_that_makes_no_sense_is_kept_as_rejected_and_acknowledged(
        self, context: CheckContext
    ) -> None:
        """B70."""
        async with context.serving() as gateway:
            if not await context.stage.garble():
                return
            answer = await context.converse(gateway, "hello")
            rejected = [event.key for event in context.spy.handed if event.inbound is None or event.problem]
            expect(bool(rejected), "what makes no sense was not handed over as an event with a `problem`")
            taken = context.spy.acknowledged
            await context.wait_until("it is acknowledged", lambda: {*rejected} <= {event.key for event in taken})
            await context.wait_until_confirmed()
        await context.expect_messages(answer)

    @adapter_check
    async def test_file_that_somebody_sends_can_be_fetched(self, context: CheckContext) -> None:
        """B70."""
        async with context.serving():
            content = await context.stage.share("notes.txt")
            if content is None:
                return
            await context.wait_until("the file is handed over", lambda: context.spy.handed)
            inbound = require(context.spy.handed[0].inbound, "it was handed over as something that makes no sense")
            expect(len(inbound.attachments) == 1, f"it was handed over as {inbound!r}")
            fetched = context.spy.inner.fetch(inbound.attachments[0].reference)
            found = b"".join([piece async for piece in fetched])
        expect(found == content, f"{len(found)} bytes were fetched, and they are not what was sent")

    @adapter_check
    async def test_each_thread_is_a_conversation_of_its_own(self, context: CheckContext) -> None:
        """B79: and it is answered there."""
        if not context.capabilities.threads:
            return
        async with context.serving() as gateway:
            tea = await context.converse(gateway, "about tea", thread="tea")
            rain = await context.converse(gateway, "about rain", thread="rain")
            rest = await context.converse(gateway, "about the rest")
            keys = {session.key for session in await gateway.store.sessions.page()}
        await context.expect_messages(tea, thread="tea")
        await context.expect_messages(rain, thread="rain")
        await context.expect_messages(rest)
        expect(len(keys) == 3, f"two threads and a chat are the conversations {sorted(keys)}; expected three")

    @adapter_check
    async def test_question_is_answered_by_a_button_after_a_death(self, context: CheckContext) -> None:
        """B67: where there are no buttons, in words."""
        async with context.crashing() as gateway:
            await context.say(ASK)
            await context.wait_until("a turn begins", lambda: context.turn_count(ASK))
            await context.wait_until("the question is there", context.stage.seen)
            await context.wait_for_receipts(gateway)
            (question,) = await context.stage.seen()
        async with context.serving() as gateway:
            if context.capabilities.buttons:
                expect(question.buttons == COLOURS, f"the question has the buttons {question.buttons}")
                await context.stage.press("blue")
            else:
                await context.stage.write("blue")
            await context.wait_until("the turn goes on", lambda: context.echo_agent.calls > 1)
            await context.wait_until_quiet(gateway)
            await context.wait_until_confirmed()
        await context.expect_messages(question.text, answer_to("blue"))

    @adapter_check
    async def test_what_runs_when_the_line_is_lost_is_answered_once_it_is_back(
        self, context: CheckContext
    ) -> None:
        """B75: the answer waits, arrives once, and nobody takes it for a duplicate."""
        async with context.serving() as gateway:
            answer = await context.say(f"{HOLD} on")
            await context.wait_until("the agent thinks", context.echo_agent.is_holding.is_set)
            await context.stage.cut()
            connected = gateway.loops.connections.connected
            await context.wait_until("the lost line is noticed", lambda: not connected)
            context.echo_agent.release.set()
            await context.wait_until("the reply is owed", gateway.store.outbox.open_deliveries)
            await context.stage.mend()
            await context.wait_until_quiet(gateway)
            await context.wait_until_confirmed()
        await context.expect_messages(answer)

    @adapter_check
    async def test_platform_that_is_down_at_the_start_is_connected_to_later(self, context: CheckContext) -> None:
        """B41."""
        await context.stage.cut()
        async with context.serving(reached=False) as gateway:
            await context.wait_until("it is tried to connect", context.spy.has_tried_connecting)
            expect(not context.spy.connected, "`open` returned though the platform was not there")
            await context.stage.mend()
            await context.wait_until_connected()
            answer = await context.converse(gateway, "hello")
        await context.expect_messages(answer)

    @adapter_check
    async def test_opened_adapter_can_send_and_leaves_the_events_to_the_one_that_receives(
        self, context: CheckContext
    ) -> None:
        """B167: so does a gateway that stands by, where `open` is called every minute."""
        standby = context.stage.adapter()
        if not standby.opens_apart:
            return
        async with context.serving() as gateway:
            answer = await context.converse(gateway, "hello")
            there = context.spy.send_calls[0].outbound.address
            await standby.open()
            await standby.open()
            try:
                await standby.send(Outbound(there, OF_ANOTHER, "turn-of-another:0"))
            except PerdureError as error:
                raise AssertionError(
                    f"an adapter that was opened, and does not receive, cannot send: {error}"
                ) from error
            last = await context.converse(gateway, "good night")
            await context.wait_until_confirmed()
            losses = context.spy.connection_losses
            expect(not losses, f"whoever receives was cut off when another adapter was opened: {losses}")
        await standby.close()
        await context.expect_messages(answer, OF_ANOTHER, last)


class WebhookChecks(AdapterChecks):
    """Checks of posted events. They pass at once for an adapter without a webhook."""

    @adapter_check
    async def test_post_of_somebody_else_is_refused_and_not_stored(self, context: CheckContext) -> None:
        """B103: a post without the secret is refused."""
        if not context.takes_posts:
            return
        async with context.serving() as gateway:
            answered = await context.stage.forge("forged")
            answer = await context.converse(gateway, "hello")
        refused = bool(answered) and all(400 <= status < 500 for status in answered)
        expect(refused, f"forged posts were answered with {answered}; expected a refusal, from 400 to 499")
        keys = {event.key for event in context.spy.handed}
        expect(len(keys) == 1, f"one message was posted by the platform, and {sorted(keys)} were handed over")
        await context.expect_messages(answer)

    @adapter_check
    async def test_post_is_answered_with_success_once_it_is_stored(self, context: CheckContext) -> None:
        """B70: and not before, so that the platform keeps an event that is not stored."""
        if not context.takes_posts:
            return
        kept = ["before"] if context.capabilities.keeps_missed else []
        async with context.serving_with_faulty_disk() as (gateway, database):
            database.fill()
            number = len(context.webhook_server.posts)
            await context.say("before")
            await context.wait_until("the adapter is told that it was not stored", lambda: context.spy.failed)
            await context.wait_until("the post is answered", lambda: context.webhook_server.posts[number].status)
            expect(not _was_accepted(context, number), "what could not be stored was answered with success")
            database.mend()
            await context.say("after")
            await context.wait_until_quiet(gateway, *kept, "after")
            await context.wait_until("what is stored is answered with success", lambda: _was_accepted(context, -1))

    @adapter_check
    async def test_post_whose_answer_is_lost_comes_again_and_is_one_turn(self, context: CheckContext) -> None:
        """B71: an event that is known already is answered with success too; otherwise it would come for ever."""
        if not (context.takes_posts and context.capabilities.keeps_missed):
            return
        async with context.serving() as gateway:
            context.webhook_server.lose_answers, before = 1, len(context.webhook_server.posts)
            answer = await context.converse(gateway, "hello")
            await context.wait_until_confirmed()
            posts = len(context.webhook_server.posts) - before
            last = await context.converse(gateway, "good night")
        expect(posts > 1, "the stage did not post again what was not answered, though `keeps_missed` is claimed")
        expect(context.turn_count("hello") == 1, "the same post began two turns: its key must always be the same")
        await context.expect_messages(answer, last)


def _was_accepted(context: CheckContext, number: int) -> bool:
    status = context.webhook_server.posts[number].status
    return status is not None and status < 300
