"""Checks of what people see before an answer: previews and the typing indicator. Neither may stay behind."""

from __future__ import annotations

import msgspec

from perdure.testing.adapter_conformance.checks import AdapterChecks, adapter_check
from perdure.testing.adapter_conformance.context import (
    GROW,
    HOLD,
    PREVIEW_TEXT,
    CheckContext,
    answer_to,
    expect,
    require,
)


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
