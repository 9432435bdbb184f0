"""Shortens a conversation that has grown too long for its model: the model summarises its older part."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from perdure.agents.api import Model, ModelRequest, TurnContext
from perdure.core import texts
from perdure.core.compaction import (
    COMPACTION_THRESHOLD,
    RETAINED_FRACTION,
    CompactionCut,
    InstructionTokens,
    clip_to_tokens,
    estimate_tokens,
    find_cut,
    is_full,
    measure_instructions,
)
from perdure.core.context_window import FULL_WINDOW_FRACTION
from perdure.core.conversation import Conversation, UserMessage
from perdure.core.journal import ConversationCompacted, ModelAnswered, ModelAsked
from perdure.core.recovery.decision import is_final_response, is_length_limited
from perdure.errors import ContextTooLong, ModelError

MAX_SUMMARY_REQUESTS = 5  # for one summary, if the request itself is too long; each sends half of the one before
MAX_TRUNCATED_ANSWERS = 3  # of one turn; then the conversation is not shortened for its answer any more
MIN_SUMMARY_TOKENS = 64  # of a summary, and of the text that it summarises
SUMMARY_PROMPT_TOKENS = measure_instructions(texts.agents.COMPACTION_SYSTEM_PROMPT, ()).tokens + estimate_tokens(
    [UserMessage(texts.agents.compaction_request(""))]
)


def fills_window(response: ModelAnswered, window: int) -> bool:
    """Whether a response was truncated because the context window was full."""
    return (
        is_length_limited(response)
        and response.usage.input + response.usage.output >= window * FULL_WINDOW_FRACTION
    )


class Compactor:
    """Shortens one conversation before it is answered."""

    def __init__(
        self,
        model: Model,
        context: TurnContext,
        step: int,
        conversation: Conversation,
        preamble: InstructionTokens,
        ask_model: Callable[[ModelRequest], Awaitable[ModelAnswered]],
    ) -> None:
        self._model = model
        self._context = context
        self._step = step
        self._conversation = conversation
        self._preamble = preamble
        self._ask_model = ask_model
        self._conversation_tokens = estimate_tokens(conversation.messages)
        self._request_tokens = preamble.tokens + self._conversation_tokens

    async def compact_if_full(self) -> bool:
        """Shorten a conversation that is nearly full or has truncated its answer. False: nothing was changed."""
        room = self._preamble.room(self._model.window)
        if found := self.truncated_answer:
            if sum(map(is_length_limited, self._context.view.responses)) >= MAX_TRUNCATED_ANSWERS:
                return False
            fits = self._model.window * self._request_tokens // max(self._request_tokens, found.usage.input)
            room = self._preamble.room(fits) // 2
        elif not is_full(self._conversation_tokens, room):
            return False
        return await self._compact(room)

    async def compact_to_fit(self, refused: ContextTooLong) -> None:
        """Shorten a conversation that was refused as too long; `ModelError` if it cannot be shortened enough."""
        alone = refused.fits and self._preamble.tokens >= refused.fits
        room = self._preamble.room(refused.fits or self._request_tokens // 2)
        if alone or not await self._compact(min(room, self._conversation_tokens // 2)):
            raise ModelError(self._too_long_reason(refused.fits or self._request_tokens // 2)) from refused

    @property
    def truncated_answer(self) -> ModelAnswered | None:
        """The answer that was truncated by a full context window, if nothing was summarised since."""
        for record in reversed(self._context.view.records):
            if isinstance(record.entry, ModelAnswered):
                return record.entry if fills_window(record.entry, self._model.window) else None
            if isinstance(record.entry, ConversationCompacted):
                return None
        return None

    def _too_long_reason(self, fits: int) -> str:
        window, preamble = self._model.window, self._preamble
        if preamble.tokens >= fits:
            return texts.agents.instructions_too_long(window, preamble.prompt, preamble.tools, preamble.tool_count)
        now = [message for group in self._conversation.current for message in group.messages]
        return texts.agents.message_too_long(window, estimate_tokens(now), preamble.tokens)

    async def _compact(self, room: int) -> bool:
        """Let the model summarise as much as it can read at once. False: there is nothing to summarise."""
        readable = max(int(self._model.window * COMPACTION_THRESHOLD) - SUMMARY_PROMPT_TOKENS, MIN_SUMMARY_TOKENS)
        for _ in range(MAX_SUMMARY_REQUESTS):
            cut = find_cut(self._conversation, room, readable)
            if cut is None:
                return False
            try:
                summary = await self._ask_for_summary(cut)
            except ContextTooLong as refused:
                readable = max(min(readable, refused.fits or readable) // 2, MIN_SUMMARY_TOKENS)
                continue
            except ModelError as error:
                raise ModelError(texts.agents.compaction_failed(error.message)) from error
            text = clip_to_tokens(summary.text, max(int(room * RETAINED_FRACTION), MIN_SUMMARY_TOKENS))
            await self._context.append(ConversationCompacted(cut.through, text, summary.usage))
            return True
        raise ModelError(texts.agents.compaction_failed(texts.agents.COMPACTION_TRANSCRIPT_REFUSED))

    async def _ask_for_summary(self, cut: CompactionCut) -> ModelAnswered:
        await self._context.append(ModelAsked(self._step, self._model.name))
        messages = [UserMessage(texts.agents.compaction_request(cut.transcript))]
        request = ModelRequest(
            messages, self._step, system_prompt=texts.agents.COMPACTION_SYSTEM_PROMPT, purpose="summary"
        )
        summary = await self._ask_model(request)
        if not summary.text.strip() or not (is_final_response(summary) or is_length_limited(summary)):
            raise ModelError(texts.agents.EMPTY_SUMMARY)
        return summary
