"""Finds the context window of a model: asks the server, and learns from refused and truncated requests."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import httpx2
import msgspec
from httpx2 import URL, AsyncClient

from perdure.agents.api import ModelRequest
from perdure.core import texts
from perdure.core.compaction import estimate_tokens, measure_instructions
from perdure.core.context_window import WINDOW_ENDPOINTS, ContextRefusal, KnownWindow, window_in_answer
from perdure.core.journal import ModelAnswered
from perdure.errors import ContextTooLong

PROBE_TIMEOUT_SECONDS = 3.0  # for all endpoints together
MAX_ANSWER_BYTES = 4 * 1024 * 1024
MIN_PROBED_TOKENS = 1_000  # a shorter request is sent without asking for the window
MAX_PROBES = 3  # of a server that does not tell; some tell only while the model is loaded


def request_tokens(request: ModelRequest) -> int:
    """An estimate of the tokens that a model reads of a request."""
    return measure_instructions(request.system_prompt, request.tools).tokens + estimate_tokens(request.messages)


class ModelWindow:
    """The context window of one model, as far as this run of the gateway knows it."""

    def __init__(self, known: KnownWindow, probe: WindowProbe | None = None) -> None:
        self._known = known
        self._probe = probe
        self._failed_probes = 0
        self._confirmed = False

    @property
    def tokens(self) -> int:
        return self._known.tokens

    async def check(self, request: ModelRequest) -> None:
        """Raise `ContextTooLong` if the server itself says that its window is smaller than this request.

        Some servers drop the beginning of a request that is too long, and do not say so.
        """
        sent = request_tokens(request)
        if sent > MIN_PROBED_TOKENS and not self._confirmed:
            await self._probe_server()
        if self._confirmed and sent > self.tokens:
            raise ContextTooLong(texts.agents.CONVERSATION_TOO_LONG, fits=self.tokens)

    async def learn_from_refusal(self, request: ModelRequest, refusal: ContextRefusal) -> ContextTooLong:
        """Learn from a request that was refused as too long; return the error to raise."""
        sent = request_tokens(request)
        if refusal.window:
            self._known.learn_from_server(refusal.window)
            fits = sent * refusal.window // max(refusal.sent, refusal.window)
            return ContextTooLong(
                texts.agents.CONVERSATION_TOO_LONG, fits=fits if refusal.sent else min(refusal.window, sent)
            )
        await self._probe_server()
        self._known.learn_from_refusal(sent)
        return ContextTooLong(texts.agents.CONVERSATION_TOO_LONG)

    def learn_from_answer(self, request: ModelRequest, answer: ModelAnswered) -> None:
        # Some providers report no input tokens.
        read, written = max(answer.usage.input, request_tokens(request) // 2), answer.usage.output
        if answer.finish == "length":
            self._known.learn_from_truncation(read, written)
        else:
            self._known.learn_from_answer(read, written)

    async def _probe_server(self) -> None:
        if self._probe is None or self._failed_probes == MAX_PROBES:
            return
        self._failed_probes += 1
        if tokens := await self._probe.ask():
            self._confirmed, self._failed_probes = True, 0
            self._known.learn_from_server(tokens)


class WindowProbe:
    """Asks one server for the context window of one model."""

    def __init__(self, client: AsyncClient, base_url: str, model: str, headers: Mapping[str, str]) -> None:
        self._client = client
        self._base = URL(base_url.rstrip("/") + "/")
        self._model = model
        self._headers = headers

    async def ask(self) -> int:
        """The context window that the server reports, in tokens; 0 if it reports none."""
        try:
            async with asyncio.timeout(PROBE_TIMEOUT_SECONDS):
                for path in dict.fromkeys(endpoint.path for endpoint in WINDOW_ENDPOINTS):
                    if found := window_in_answer(path, self._model, await self._get_json(path)):
                        return found
        except (TimeoutError, httpx2.HTTPError):
            pass  # no endpoint of this server is tried after a failure
        return 0

    async def _get_json(self, path: str) -> object:
        body = b""
        async with self._client.stream("GET", self._base.join(path), headers=self._headers) as response:
            if not response.is_success:
                return None
            async for piece in response.aiter_bytes():
                body += piece
                if len(body) > MAX_ANSWER_BYTES:
                    return None
        try:
            return msgspec.json.decode(body)
        except (msgspec.DecodeError, UnicodeDecodeError):
            return None
