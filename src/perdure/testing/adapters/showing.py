"""What people see before an answer is there: that it grows, or that we type. Nothing of it may be left behind."""

from __future__ import annotations

import msgspec

from perdure.testing.adapters.checks import Checks, check
from perdure.testing.adapters.performance import GROW, GROWING, HOLD, Performance, answer_to, expect, present


class Showing(Checks):
    """What happens before an answer."""

    @check
    async def test_answer_grows_in_one_message(self, play: Performance) -> None:
        """B76: the same edit again changes nothing."""
        if not play.can.edit:
            return
        async with play.serving() as gateway:
            answer = await play.say(f"{GROW} now")
            if play.can.grows and not play.can.live:
                await play.until("the answer begins to grow", play.stage.seen)
                beginning = await play.texts()
                expect(len(beginning) == 1 and beginning[0].startswith(GROWING), f"people saw {beginning}")
            play.answering.go.set()
            await play.heard(gateway, f"{GROW} now")
            await play.expect(answer)
            sent = play.seam.sendings[0]
            receipt = present(sent.receipt, "the first message has no receipt")
            changed = msgspec.structs.replace(sent.outbound, text=answer_to("something else"), preview=False)
            for _ in range(2):
                await play.seam.inner.edit(receipt, changed)
        await play.expect(changed.text)

    @check
    async def test_glimpse_of_an_answer_leaves_nothing_behind(self, play: Performance) -> None:
        if not play.can.live:
            return
        async with play.serving() as gateway:
            answer = await play.say(f"{GROW} now")
            await play.until("a glimpse is shown", lambda: play.seam.glimpsed)
            shown, there = await play.stage.glimpses(), await play.texts()
            play.answering.go.set()
            await play.heard(gateway, f"{GROW} now")
        glimpsed = bool(shown) and shown[0].startswith(GROWING)
        expect(glimpsed and not there, f"people saw the glimpses {shown}, and the messages {there}")
        await play.expect(answer)

    @check
    async def test_typing_is_seen_where_the_answer_will_be_and_only_when_told_to(self, play: Performance) -> None:
        """The gateway says when, and for the last time before the answer: an adapter that goes on lies."""
        if play.can.typing_every is None:
            return
        thread = "tea" if play.can.threads else None
        async with play.serving() as gateway:
            answer = await play.say(f"{HOLD} on", thread=thread)
            await play.until("the adapter says that it has shown that we type", lambda: play.seam.typed)
            shown = await play.stage.typed(thread=thread)
            play.answering.go.set()
            await play.heard(gateway, f"{HOLD} on")
        expect(
            shown > 0,
            "the adapter says that it has shown that we type, and nobody sees it where the answer will be",
        )
        told, total = play.seam.told_to_type, await play.stage.typed(thread=thread)
        expect(
            total <= told, f"people saw {total} times that we begin to type; the adapter was told to {told} times"
        )
        elsewhere = await play.stage.typed("bob") + (await play.stage.typed() if thread else 0)
        expect(elsewhere == 0, "people saw that we type where no answer was under way")
        await play.expect(answer, thread=thread)
