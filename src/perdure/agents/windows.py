"""The window of a provider's model: the server is asked for it, and refused or full requests teach it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import httpx2
import msgspec
from httpx2 import URL, AsyncClient

from perdure.agents.api import ModelRequest
from perdure.core import notes
from perdure.core.compaction import instructions, weight
from perdure.core.journal import ModelAnswered
from perdure.core.windows import PLACES, KnownWindow, Refusal, told
from perdure.errors import ContextTooLong

PATIENCE_SECONDS = 3.0  # for all the places together
LARGEST_ANSWER = 4 * 1024 * 1024  # bytes
WORTH_ASKING = 1_000  # tokens; what is shorter is sent without asking for the window first
MOST_QUESTIONS = 3  # to a server that tells nothing; some tell only while the model is loaded


def size(request: ModelRequest) -> int:
    """About how many tokens a model reads of a request."""
    return instructions(request.system_prompt, request.tools).tokens + weight(request.messages)


class ModelWindow:
    """What is known of the window of one model, in one run of the gateway."""

    def __init__(self, known: KnownWindow, question: WindowQuestion | None = None) -> None:
        self._known = known
        self._question = question
        self._questions = 0
        self._told = False

    @property
    def tokens(self) -> int:
        return self._known.tokens

    async def check(self, request: ModelRequest) -> None:
        """Raise `ContextTooLong` if the server itself says that its window is smaller than this request.

        Some servers leave out the beginning of what is too long, and say nothing.
        """
        sent = size(request)
        if sent > WORTH_ASKING and not self._told:
            await self._ask()
        if self._told and sent > self.tokens:
            raise ContextTooLong(notes.TOO_LONG, fits=self.tokens)

    async def learn_from_refusal(self, request: ModelRequest, refusal: Refusal) -> ContextTooLong:
        """What is known after a request was refused as too long, as the error that says so."""
        sent = size(request)
        if refusal.window:
            self._known.server_says(refusal.window)
            fits = sent * refusal.window // max(refusal.sent, refusal.window)
            return ContextTooLong(notes.TOO_LONG, fits=fits if refusal.sent else min(refusal.window, sent))
        await self._ask()
        self._known.was_refused(sent)
        return ContextTooLong(notes.TOO_LONG)

    def learn_from_answer(self, request: ModelRequest, answer: ModelAnswered) -> None:
        read, written = max(answer.usage.input, size(request) // 2), answer.usage.output  # some count nothing
        if answer.finish == "length":
            self._known.was_cut_off(read, written)
        else:
            self._known.was_answered(read, written)

    async def _ask(self) -> None:
        if self._question is None or self._questions == MOST_QUESTIONS:
            return
        self._questions += 1
        if tokens := await self._question.ask():
            self._told, self._questions = True, 0
            self._known.server_says(tokens)


class WindowQuestion:
    """The question for the window of one model, to one server."""

    def __init__(self, client: AsyncClient, base_url: str, model: str, headers: Mapping[str, str]) -> None:
        self._client = client
        self._base = URL(base_url.rstrip("/") + "/")
        self._model = model
        self._headers = headers

    async def ask(self) -> int:
        """The window that the server tells; 0: it tells none."""
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                for path in dict.fromkeys(place.path for place in PLACES):
                    if found := told(path, self._model, await self._answer(path)):
                        return found
        except (TimeoutError, httpx2.HTTPError):
            pass  # a server that does not answer this is asked nothing more
        return 0

    async def _answer(self, path: str) -> object:
        body = b""
        async with self._client.stream("GET", self._base.join(path), headers=self._headers) as response:
            if not response.is_success:
                return None
            async for piece in response.aiter_bytes():
                body += piece
                if len(body) > LARGEST_ANSWER:
                    return None
        try:
            return msgspec.json.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None
