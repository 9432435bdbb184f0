"""From us to the platform: each answer arrives, once and in order, or it can be seen why not."""

from __future__ import annotations

import asyncio

from perdure.core import notes
from perdure.core.delivery import Delivery
from perdure.core.messages import LocalFile, Outbound, Stored
from perdure.errors import NotConnected, SendError, SendRefused, SendRetry
from perdure.platforms.api import Adapter
from perdure.testing.adapters.checks import Checks, check
from perdure.testing.adapters.performance import LONG, Performance, expect, plain, words
from perdure.testing.adapters.seam import Place
from perdure.testing.adapters.stage import Mishap

UNLIMITED = 20_000  # characters that a platform takes at once if it names no limit
LARGE = 1_000_000  # bytes of a file if none is too large
EVERY_BYTE = bytes(range(256))

NOTHING_SENT = (NotConnected, SendRetry, SendRefused)


class Outgoing(Checks):
    """What happens to answers."""

    # ── the send whose outcome nobody knows ─────────────────────────────────────────────────────────────────

    @check
    async def test_answer_comes_once_or_marked_when_its_receipt_is_lost(self, play: Performance) -> None:
        """B74."""
        if not await play.stage.befall(Mishap.LOST_ANSWER):
            return
        async with play.serving() as gateway:
            answer = await play.converse(gateway, "hello")
        error = play.seam.sendings[0].error
        expect(
            not isinstance(error, NOTHING_SENT), f"the message is there, and the adapter says it is not: {error!r}"
        )
        await play.expect(answer, *([] if error is None else _again(play, answer)))

    @check
    async def test_answer_comes_once_or_marked_when_the_gateway_dies_after_sending(
        self, play: Performance
    ) -> None:
        """B74."""
        answer = await _die(play, "hello", sent=True)
        async with play.serving() as gateway:
            await play.heard(gateway)
        await play.expect(answer, *_again(play, answer))

    @check
    async def test_answer_comes_once_when_the_gateway_dies_before_sending(self, play: Performance) -> None:
        """B73, B74: marked where nobody can tell that it never left."""
        answer = await _die(play, "hello", sent=False)
        async with play.serving() as gateway:
            await play.heard(gateway)
        await play.expect(answer if _can_tell(play) else notes.maybe_duplicate(answer))

    @check
    async def test_answer_is_given_up_with_a_notice_when_the_operator_prefers_that(
        self, play: Performance
    ) -> None:
        """B74."""
        answer = await _die(play, "hello", sent=True)
        async with play.serving(DELIVERY__UNKNOWN="drop") as gateway:
            await play.heard(gateway)
        await play.expect(answer, *([] if _can_tell(play) else [notes.DROPPED_REPLY]))

    @check
    async def test_sent_message_can_be_looked_up_by_its_delivery_key(self, play: Performance) -> None:
        """B74: by another adapter too, and only if it is there."""
        if not play.can.read_back:
            return
        async with play.serving() as gateway:
            await play.converse(gateway, "hello")
            sent = play.seam.sendings[0]
        async with play.serving():
            found = await play.seam.inner.find_sent(sent.outbound.key)
            expect(found is not None and found == sent.receipt, f"found {found!r}; expected {sent.receipt!r}")
            other = await play.seam.inner.find_sent("turn-that-never-was:0")
            expect(other is None, f"{other!r} was found for a key that was never sent")

    # ── what a platform says to a message ───────────────────────────────────────────────────────────────────

    @check
    async def test_answer_waits_when_the_platform_says_so(self, play: Performance) -> None:
        """B75: it arrives once, before those behind it, and a wait that the platform names uses up no attempt."""
        if not await play.stage.befall(Mishap.WAIT):
            return
        async with play.serving() as gateway:
            answers = [await play.say(text) for text in ("one", "two", "three")]
            await play.heard(gateway, "three")
            turn = play.answering.heard[0][0]
            (row,) = await gateway.store.outbox.of_turn(turn)
        error = play.seam.sendings[0].error
        expect(error is None or isinstance(error, SendRetry), f"it is to wait, and the adapter says {error!r}")
        named = error is None or (isinstance(error, SendRetry) and error.after > 0)
        expect(not named or row.attempts == 0, f"{row.attempts} attempts were used up by waiting")
        await play.expect(*answers)

    @check
    async def test_answers_keep_their_order(self, play: Performance) -> None:
        """B75."""
        async with play.serving() as gateway:
            answers = [await play.say(f"number {number}") for number in range(5)]
            await play.heard(gateway, "number 4")
        await play.expect(*answers)

    @check
    async def test_refused_answer_is_given_up_and_the_next_one_comes(self, play: Performance) -> None:
        """B75."""
        if not await play.stage.befall(Mishap.REFUSED):
            return
        async with play.serving() as gateway:
            await play.converse(gateway, "one")
            turn = play.answering.heard[0][0]
            (row,) = await gateway.store.outbox.of_turn(turn)
            answer = await play.converse(gateway, "two")
        expect(
            row.state is Delivery.REFUSED, f"it was refused, and the adapter said {play.seam.sendings[0].error!r}"
        )
        await play.expect(answer)

    @check
    async def test_long_answer_arrives_whole(self, play: Performance) -> None:
        """B75: in as few messages as the longest allows, and the longest one has room for a mark."""
        limit = play.can.max_length
        async with play.serving() as gateway:
            asked = f"{LONG} {2 * limit if limit else UNLIMITED}"
            await play.converse(gateway, asked)
            parts = await play.texts()
            expect(" ".join(parts) == plain(words(int(asked.split()[1]))), f"people see only {parts}")
            expect((len(parts) > 1) == bool(limit), f"it came in {len(parts)} parts; the longest is {limit}")
        answer = words(limit or UNLIMITED)
        await _die(play, f"{LONG} {limit or UNLIMITED}", sent=True)
        async with play.serving() as gateway:
            await play.heard(gateway)
        await play.expect(*parts, answer, *_again(play, answer))

    @check
    async def test_file_arrives_as_it_is(self, play: Performance) -> None:
        """The largest that it takes, byte for byte. The gateway never asks it to send a larger one."""
        if not play.can.files:
            return
        size = play.can.max_file or LARGE
        content = (EVERY_BYTE * (size // len(EVERY_BYTE) + 1))[:size]
        async with play.serving() as gateway:
            answer = await play.converse(gateway, "hello")
            await _send_file(play, content)
            shown = await play.stage.seen()
        expect(plain(shown[0].text) == answer, f"people see {shown[0].text!r}; expected {answer!r}")
        arrived = [each.file for each in shown if each.file is not None]
        sizes = [len(each) for each in arrived]
        expect(sizes == [size], f"a file of {size} bytes was sent, and files of {sizes} bytes are there")
        expect(arrived == [content], f"a file of {size} bytes was sent, and other bytes arrived")

    # ── the end ─────────────────────────────────────────────────────────────────────────────────────────────

    @check
    async def test_adapter_lets_go_when_it_is_told_to(self, play: Performance) -> None:
        """`receive` ends when it is cancelled, `close` leaves nothing running, and the next one connects."""
        before, adapter = asyncio.all_tasks(), play.stage.adapter()
        play.door.lead_to(adapter)
        await adapter.connect()
        handed = asyncio.Event()
        receiving = asyncio.create_task(_receive(adapter, handed))
        await play.say("for nobody")
        await play.until("the message is handed over", handed.is_set)
        receiving.cancel()
        await play.until("`receive` ends when it is cancelled", receiving.done)
        expect(receiving.cancelled(), "`receive` did not pass on that it was cancelled")
        closing = asyncio.create_task(adapter.close())
        await play.until("`close` returns", closing.done)
        await closing
        play.door.lead_to(None)
        await play.until("nothing of it runs any more", lambda: asyncio.all_tasks() <= before)
        async with play.serving() as gateway:
            answer = await play.converse(gateway, "hello")
        await play.expect(answer)


async def _die(play: Performance, text: str, *, sent: bool) -> str:
    """Die in the middle of a send, before or after the message was sent; what the answer was."""
    halt = Place.AFTER_SEND if sent else Place.BEFORE_SEND
    async with play.dying(halt):
        answer = await play.say(text)
        await play.halted(halt)
    return answer


def _can_tell(play: Performance) -> bool:
    """Whether the platform can tell if a message is there."""
    return play.can.idempotent_send or play.can.read_back


def _again(play: Performance, answer: str) -> list[str]:
    """What comes behind an answer that is there, if nobody knew that it was."""
    return [] if _can_tell(play) else [notes.maybe_duplicate(answer)]


async def _send_file(play: Performance, content: bytes) -> None:
    """Have the adapter send a file to where it has answered before."""
    file, there = play.home.with_name("notes.bin"), play.seam.sendings[0].outbound.address
    file.write_bytes(content)
    local = LocalFile(str(file), file.name, "application/octet-stream", len(content))
    try:
        await play.seam.inner.send(Outbound(there, file.name, "turn-with-a-file:0", file=local))
    except SendError as error:
        raise AssertionError(f"a file of {len(content)} bytes is not taken: {error}") from error


async def _receive(adapter: Adapter, handed: asyncio.Event) -> None:
    async for event in adapter.receive():
        await event.ack(Stored("", "", "", fresh=True))
        handed.set()
