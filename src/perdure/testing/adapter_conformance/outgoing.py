"""Checks of what an adapter sends: replies, files, buttons, growing answers."""

from __future__ import annotations

import asyncio

import msgspec

from perdure.core import texts
from perdure.core.delivery import DeliveryState
from perdure.core.messages import LocalFile, Outbound, Stored
from perdure.errors import NotConnected, SendError, SendRefused, SendRetry
from perdure.platforms.api import Adapter, Event
from perdure.testing.adapter_conformance.context import (
    GROW,
    HOLD,
    LONG,
    PREVIEW_TEXT,
    AdapterChecks,
    CheckContext,
    adapter_check,
    answer_to,
    expect,
    normalize_spaces,
    require,
    unique_words,
)
from perdure.testing.adapter_conformance.stage import HaltPoint, Mishap

UNLIMITED_TEXT_CHARS = 20_000  # length of a long answer, in characters, for a platform without a limit
LARGE_FILE_BYTES = 1_000_000  # bytes of the test file for a platform without a limit
EVERY_BYTE = bytes(range(256))

NOT_SENT_ERRORS = (NotConnected, SendRetry, SendRefused)


class OutgoingChecks(AdapterChecks):
    """Checks of sends: lost receipts, crashes, refusals, waits, order, length and files."""

    # ── the send whose outcome nobody knows ─────────────────────────────────────────────────────────────────

    @adapter_check
    async def test_answer_comes_once_or_marked_when_its_receipt_is_lost(self, context: CheckContext) -> None:
        """B74."""
        if not await context.stage.befall(Mishap.LOST_ANSWER):
            return
        async with context.serving() as gateway:
            answer = await context.converse(gateway, "hello")
        error = context.spy.send_calls[0].error
        expect(
            not isinstance(error, NOT_SENT_ERRORS),
            f"the message is there, and the adapter says it is not: {error!r}",
        )
        await context.expect_messages(answer, *([] if error is None else _marked_duplicates(context, answer)))

    @adapter_check
    async def test_answer_comes_once_or_marked_when_the_gateway_dies_after_sending(
        self, context: CheckContext
    ) -> None:
        """B74."""
        answer = await _crash_while_sending(context, "hello", sent=True)
        async with context.serving() as gateway:
            await context.wait_until_quiet(gateway)
        await context.expect_messages(answer, *_marked_duplicates(context, answer))

    @adapter_check
    async def test_answer_comes_once_when_the_gateway_dies_before_sending(self, context: CheckContext) -> None:
        """B73, B74: marked where nobody can tell that it never left."""
        answer = await _crash_while_sending(context, "hello", sent=False)
        async with context.serving() as gateway:
            await context.wait_until_quiet(gateway)
        await context.expect_messages(
            answer if _can_deduplicate(context) else texts.delivery.maybe_duplicate(answer)
        )

    @adapter_check
    async def test_answer_is_given_up_with_a_notice_when_the_operator_prefers_that(
        self, context: CheckContext
    ) -> None:
        """B74."""
        answer = await _crash_while_sending(context, "hello", sent=True)
        async with context.serving(DELIVERY__UNKNOWN="drop") as gateway:
            await context.wait_until_quiet(gateway)
        await context.expect_messages(
            answer, *([] if _can_deduplicate(context) else [texts.delivery.REPLY_DROPPED])
        )

    @adapter_check
    async def test_sent_message_can_be_looked_up_by_its_delivery_key(self, context: CheckContext) -> None:
        """B74: by another adapter too, and only if it is there."""
        if not context.capabilities.read_back:
            return
        async with context.serving() as gateway:
            await context.converse(gateway, "hello")
            sent = context.spy.send_calls[0]
        async with context.serving():
            found = await context.spy.inner.find_sent(sent.outbound.key)
            expect(found is not None and found == sent.receipt, f"found {found!r}; expected {sent.receipt!r}")
            other = await context.spy.inner.find_sent("turn-that-never-was:0")
            expect(other is None, f"{other!r} was found for a key that was never sent")

    # ── what a platform says to a message ───────────────────────────────────────────────────────────────────

    @adapter_check
    async def test_answer_waits_when_the_platform_says_so(self, context: CheckContext) -> None:
        """B75: it arrives once, before those behind it, and a wait that the platform names uses up no attempt."""
        if not await context.stage.befall(Mishap.WAIT):
            return
        async with context.serving() as gateway:
            answers = [await context.say(text) for text in ("one", "two", "three")]
            await context.wait_until_quiet(gateway, "three")
            turn = context.echo_agent.heard[0][0]
            (row,) = await gateway.store.outbox.of_turn(turn)
        error = context.spy.send_calls[0].error
        expect(error is None or isinstance(error, SendRetry), f"it is to wait, and the adapter says {error!r}")
        named = error is None or (isinstance(error, SendRetry) and error.after > 0)
        expect(not named or row.attempts == 0, f"{row.attempts} attempts were used up by waiting")
        await context.expect_messages(*answers)

    @adapter_check
    async def test_answers_keep_their_order(self, context: CheckContext) -> None:
        """B75."""
        async with context.serving() as gateway:
            answers = [await context.say(f"number {number}") for number in range(5)]
            await context.wait_until_quiet(gateway, "number 4")
        await context.expect_messages(*answers)

    @adapter_check
    async def test_refused_answer_is_given_up_and_the_next_one_comes(self, context: CheckContext) -> None:
        """B75."""
        if not await context.stage.befall(Mishap.REFUSED):
            return
        async with context.serving() as gateway:
            await context.converse(gateway, "one")
            turn = context.echo_agent.heard[0][0]
            (row,) = await gateway.store.outbox.of_turn(turn)
            answer = await context.converse(gateway, "two")
        expect(
            row.state is DeliveryState.REFUSED,
            f"it was refused, and the adapter said {context.spy.send_calls[0].error!r}",
        )
        await context.expect_messages(answer)

    @adapter_check
    async def test_long_answer_arrives_whole(self, context: CheckContext) -> None:
        """B75: in as few messages as the longest allows, and the longest one has room for a mark."""
        limit = context.capabilities.max_length
        async with context.serving() as gateway:
            asked = f"{LONG} {2 * limit if limit else UNLIMITED_TEXT_CHARS}"
            await context.converse(gateway, asked)
            parts = await context.texts()
            expect(
                " ".join(parts) == normalize_spaces(unique_words(int(asked.split()[1]))),
                f"people see only {parts}",
            )
            expect((len(parts) > 1) == bool(limit), f"it came in {len(parts)} parts; the longest is {limit}")
        answer = unique_words(limit or UNLIMITED_TEXT_CHARS)
        await _crash_while_sending(context, f"{LONG} {limit or UNLIMITED_TEXT_CHARS}", sent=True)
        async with context.serving() as gateway:
            await context.wait_until_quiet(gateway)
        await context.expect_messages(*parts, answer, *_marked_duplicates(context, answer))

    @adapter_check
    async def test_file_arrives_as_it_is(self, context: CheckContext) -> None:
        """The largest that it takes, byte for byte. The gateway never asks it to send a larger one."""
        if not context.capabilities.files:
            return
        size = context.capabilities.max_file or LARGE_FILE_BYTES
        content = (EVERY_BYTE * (size // len(EVERY_BYTE) + 1))[:size]
        async with context.serving() as gateway:
            answer = await context.converse(gateway, "hello")
            await _send_file(context, content)
            shown = await context.stage.seen()
        expect(normalize_spaces(shown[0].text) == answer, f"people see {shown[0].text!r}; expected {answer!r}")
        arrived = [each.file for each in shown if each.file is not None]
        sizes = [len(each) for each in arrived]
        expect(sizes == [size], f"a file of {size} bytes was sent, and files of {sizes} bytes are there")
        expect(arrived == [content], f"a file of {size} bytes was sent, and other bytes arrived")

    # ── the end ─────────────────────────────────────────────────────────────────────────────────────────────

    @adapter_check
    async def test_adapter_lets_go_when_it_is_told_to(self, context: CheckContext) -> None:
        """`receive` ends when it is cancelled, `close` leaves no task running, and the next adapter connects."""
        before, adapter = asyncio.all_tasks(), context.stage.adapter()
        context.webhook_server.route_to(adapter)
        await adapter.open()
        handed = asyncio.Event()
        receiving = asyncio.create_task(_receive_events(adapter, handed))
        await context.say("for nobody")
        await context.wait_until("the message is handed over", handed.is_set)
        receiving.cancel()
        await context.wait_until("`receive` ends when it is cancelled", receiving.done)
        expect(receiving.cancelled(), "`receive` did not pass on that it was cancelled")
        closing = asyncio.create_task(adapter.close())
        await context.wait_until("`close` returns", closing.done)
        await closing
        context.webhook_server.route_to(None)
        await context.wait_until("nothing of it runs any more", lambda: asyncio.all_tasks() <= before)
        async with context.serving() as gateway:
            answer = await context.converse(gateway, "hello")
        await context.expect_messages(answer)


async def _crash_while_sending(context: CheckContext, text: str, *, sent: bool) -> str:
    """Crash before or after a send; return the answer."""
    halt = HaltPoint.AFTER_SEND if sent else HaltPoint.BEFORE_SEND
    async with context.crashing(halt):
        answer = await context.say(text)
        await context.wait_for_halt(halt)
    return answer


def _can_deduplicate(context: CheckContext) -> bool:
    """Tell whether the platform can detect that a message was already sent."""
    return context.capabilities.idempotent_send or context.capabilities.read_back


def _marked_duplicates(context: CheckContext, answer: str) -> list[str]:
    """Return the marked duplicates that may follow an answer whose outcome was unknown."""
    return [] if _can_deduplicate(context) else [texts.delivery.maybe_duplicate(answer)]


async def _send_file(context: CheckContext, content: bytes) -> None:
    """Let the adapter send a file to the chat of its last answer."""
    file, there = context.home.with_name("notes.bin"), context.spy.send_calls[0].outbound.address
    file.write_bytes(content)
    local = LocalFile(str(file), file.name, "application/octet-stream", len(content))
    try:
        await context.spy.inner.send(Outbound(there, file.name, "turn-with-a-file:0", file=local))
    except SendError as error:
        raise AssertionError(f"a file of {len(content)} bytes is not taken: {error}") from error


async def _receive_events(adapter: Adapter, handed: asyncio.Event) -> None:
    async for event in adapter.receive():
        if isinstance(event, Event):
            await event.ack(Stored("", "", "", fresh=True))
            handed.set()


class PreviewChecks(AdapterChecks):
    """Checks of previews and of the typing indicator."""

    @adapter_check
    async def test_answer_grows_in_one_message(self, context: CheckContext) -> None:
        """B76: the same edit again changes nothing."""
        if not context.capabilities.edit:
            return
        async with context.serving() as gateway:
            answer = await context.say(f"{GROW} now")
            if context.capabilities.grows and not context.capabilities.live:
                await context.wait_until("the answer begins to grow", context.stage.seen)
                beginning = await context.texts()
                expect(len(beginning) == 1 and beginning[0].startswith(PREVIEW_TEXT), f"people saw {beginning}")
            context.echo_agent.release.set()
            await context.wait_until_quiet(gateway, f"{GROW} now")
            await context.expect_messages(answer)
            sent = context.spy.send_calls[0]
            receipt = require(sent.receipt, "the first message has no receipt")
            changed = msgspec.structs.replace(sent.outbound, text=answer_to("something else"), preview=False)
            for _ in range(2):
                await context.spy.inner.edit(receipt, changed)
        await context.expect_messages(changed.text)

    @adapter_check
    async def test_glimpse_of_an_answer_leaves_nothing_behind(self, context: CheckContext) -> None:
        if not context.capabilities.live:
            return
        async with context.serving() as gateway:
            answer = await context.say(f"{GROW} now")
            await context.wait_until("a glimpse is shown", lambda: context.spy.glimpsed)
            shown, there = await context.stage.glimpses(), await context.texts()
            context.echo_agent.release.set()
            await context.wait_until_quiet(gateway, f"{GROW} now")
        glimpsed = bool(shown) and shown[0].startswith(PREVIEW_TEXT)
        expect(glimpsed and not there, f"people saw the glimpses {shown}, and the messages {there}")
        await context.expect_messages(answer)

    @adapter_check
    async def test_typing_is_seen_where_the_answer_will_be_and_only_when_told_to(
        self, context: CheckContext
    ) -> None:
        """The gateway says when, and for the last time before the answer: an adapter that goes on lies."""
        if context.capabilities.typing_every is None:
            return
        thread = "tea" if context.capabilities.threads else None
        async with context.serving() as gateway:
            answer = await context.say(f"{HOLD} on", thread=thread)
            await context.wait_until(
                "the adapter says that it has shown that we type", lambda: context.spy.typing_shown
            )
            shown = await context.stage.typed(thread=thread)
            context.echo_agent.release.set()
            await context.wait_until_quiet(gateway, f"{HOLD} on")
        expect(
            shown > 0,
            "the adapter says that it has shown that we type, and nobody sees it where the answer will be",
        )
        requested, total = context.spy.typing_requests, await context.stage.typed(thread=thread)
        expect(
            total <= requested,
            f"people saw {total} times that we begin to type; the adapter was told to {requested} times",
        )
        elsewhere = await context.stage.typed("bob") + (await context.stage.typed() if thread else 0)
        expect(elsewhere == 0, "people saw that we type where no answer was under way")
        await context.expect_messages(answer, thread=thread)
