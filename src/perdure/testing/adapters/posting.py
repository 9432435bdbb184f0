"""From a platform that posts to us: only what it posts itself is taken, and success means that it is stored."""

from __future__ import annotations

from perdure.testing.adapters.checks import Checks, check
from perdure.testing.adapters.performance import Performance, expect


class Posting(Checks):
    """What happens to posts. Where an adapter takes none, there is nothing to prove."""

    @check
    async def test_post_of_somebody_else_is_refused_and_not_stored(self, play: Performance) -> None:
        """B103: whoever does not know the secret reaches nobody."""
        if not play.takes_posts:
            return
        async with play.serving() as gateway:
            answered = await play.stage.forge("forged")
            answer = await play.converse(gateway, "hello")
        refused = bool(answered) and all(400 <= status < 500 for status in answered)
        expect(refused, f"forged posts were answered with {answered}; expected a refusal, from 400 to 499")
        keys = {event.key for event in play.seam.handed}
        expect(len(keys) == 1, f"one message was posted by the platform, and {sorted(keys)} were handed over")
        await play.expect(answer)

    @check
    async def test_post_is_answered_with_success_once_it_is_stored(self, play: Performance) -> None:
        """B70: and never before, so that the platform does not forget what we do not have."""
        if not play.takes_posts:
            return
        kept = ["before"] if play.can.keeps_missed else []
        async with play.filling() as (gateway, database):
            database.fill()
            number = len(play.door.posts)
            await play.say("before")
            await play.until("the adapter is told that it was not stored", lambda: play.seam.failed)
            await play.until("the post is answered", lambda: play.door.posts[number].status)
            expect(not _succeeded(play, number), "what could not be stored was answered with success")
            database.mend()
            await play.say("after")
            await play.heard(gateway, *kept, "after")
            await play.until("what is stored is answered with success", lambda: _succeeded(play, -1))

    @check
    async def test_post_whose_answer_is_lost_comes_again_and_is_one_turn(self, play: Performance) -> None:
        """B71: what is known already is answered with success, too; otherwise it would come for ever."""
        if not (play.takes_posts and play.can.keeps_missed):
            return
        async with play.serving() as gateway:
            play.door.losing, before = 1, len(play.door.posts)
            answer = await play.converse(gateway, "hello")
            await play.confirmed()
            posts = len(play.door.posts) - before
            last = await play.converse(gateway, "good night")
        expect(posts > 1, "the stage did not post again what was not answered, though `keeps_missed` is claimed")
        expect(play.turns("hello") == 1, "the same post began two turns: its key must always be the same")
        await play.expect(answer, last)


def _succeeded(play: Performance, number: int) -> bool:
    status = play.door.posts[number].status
    return status is not None and status < 300
