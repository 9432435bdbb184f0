"""Checks of webhooks: only the platform's own posts are accepted, and success means that an event is stored."""

from __future__ import annotations

from perdure.testing.adapter_conformance.checks import AdapterChecks, adapter_check
from perdure.testing.adapter_conformance.context import CheckContext, expect


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
