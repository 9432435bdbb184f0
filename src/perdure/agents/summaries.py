"""A conversation that has grown too long for its model is shortened: the model sums up its older part."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from perdure.agents.api import Model, ModelRequest, TurnContext
from perdure.core import notes
from perdure.core.compaction import FULL, KEPT, Cut, Instructions, cut, instructions, is_full, shortened, weight
from perdure.core.conversation import Conversation, UserMessage
from perdure.core.journal import Compacted, ModelAnswered, ModelAsked
from perdure.core.tail import is_cut_text, is_final
from perdure.core.windows import FILLED
from perdure.errors import ContextTooLong, ModelError

TRIES = 5  # at a summary whose request is too long itself; each sends half as much as the one before
CUT_ANSWERS = 3  # of one turn; then the conversation is not shortened any more for the sake of its answer
SHORTEST = 64  # tokens, of a summary and of what it is made from
ASKING = instructions(notes.SUMMARISER, ()).tokens + weight([UserMessage(notes.sum_up(""))])


def fills_window(response: ModelAnswered, window: int) -> bool:
    """Whether a response was cut off because the model's window was full."""
    return is_cut_text(response) and response.usage.input + response.usage.output >= window * FILLED


class Shortener:
    """Shortens one conversation before it is answered."""

    def __init__(
        self,
        model: Model,
        context: TurnContext,
        step: int,
        talk: Conversation,
        begins: Instructions,
        answer: Callable[[ModelRequest], Awaitable[ModelAnswered]],
    ) -> None:
        self._model = model
        self._context = context
        self._step = step
        self._talk = talk
        self._begins = begins
        self._answer = answer
        self._size = begins.tokens + weight(talk.messages)

    async def make_room(self) -> bool:
        """Shorten what is nearly full, or what left too little room for its answer. False: nothing was changed."""
        room = self._begins.room(self._model.window)
        if found := self.cut_answer:
            if sum(map(is_cut_text, self._context.view.responses)) >= CUT_ANSWERS:
                return False
            fits = self._model.window * self._size // max(self._size, found.usage.input)
            room = self._begins.room(fits) // 2
        elif not is_full(self._talk, room):
            return False
        return await self._sum_up(room)

    async def make_it_fit(self, refused: ContextTooLong) -> None:
        """Shorten what was refused as too long, or say which part of it is too long to be shortened."""
        alone = refused.fits and self._begins.tokens >= refused.fits
        room = self._begins.room(refused.fits or self._size // 2)
        if alone or not await self._sum_up(min(room, weight(self._talk.messages) // 2)):
            raise ModelError(self._explain(refused.fits or self._size // 2)) from refused

    @property
    def cut_answer(self) -> ModelAnswered | None:
        """The answer that was cut off because it filled the window, if nothing was summed up since."""
        for record in reversed(self._context.view.records):
            if isinstance(record.entry, ModelAnswered):
                return record.entry if fills_window(record.entry, self._model.window) else None
            if isinstance(record.entry, Compacted):
                return None
        return None

    def _explain(self, fits: int) -> str:
        window, begins = self._model.window, self._begins
        if begins.tokens >= fits:
            return notes.instructions_too_long(window, begins.prompt, begins.tools, begins.count)
        now = [message for told in self._talk.now for message in told.messages]
        return notes.message_too_long(window, weight(now), begins.tokens)

    async def _sum_up(self, room: int) -> bool:
        """Let the model sum up as much as it can read at once. False: there is nothing to leave out."""
        readable = max(int(self._model.window * FULL) - ASKING, SHORTEST)
        for _ in range(TRIES):
            where = cut(self._talk, room, readable)
            if where is None:
                return False
            try:
                summed = await self._ask_for_summary(where)
            except ContextTooLong as refused:
                readable = max(min(readable, refused.fits or readable) // 2, SHORTEST)
                continue
            except ModelError as error:
                raise ModelError(notes.summary_failed(error.message)) from error
            text = shortened(summed.text, max(int(room * KEPT), SHORTEST))
            await self._context.append(Compacted(where.through, text, summed.usage))
            return True
        raise ModelError(notes.summary_failed(notes.SUMMARY_TOO_LONG))

    async def _ask_for_summary(self, where: Cut) -> ModelAnswered:
        await self._context.append(ModelAsked(self._step, self._model.name))
        asking = [UserMessage(notes.sum_up(where.transcript))]
        request = ModelRequest(asking, self._step, system_prompt=notes.SUMMARISER, purpose="summary")
        summed = await self._answer(request)
        if not summed.text.strip() or not (is_final(summed) or is_cut_text(summed)):
            raise ModelError(notes.NO_SUMMARY)
        return summed
