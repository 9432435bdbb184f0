"""Chat requests of OpenAI's client, sent as they are given.

The SDK holds every message of a request against every type that a message may have, to rename its fields; of chat
requests no field has another name. It does so on the event loop: with a conversation of 1,000 messages for 0.2 s,
in which nobody else is served.
"""

from __future__ import annotations

from typing import Any

from openai import AsyncOpenAI, AsyncStream, NotGiven, Omit
from openai.resources.chat import AsyncCompletions
from openai.types.chat import ChatCompletion, ChatCompletionChunk

OPTIONS = {"extra_headers": "headers", "extra_query": "params", "extra_body": "extra_json", "timeout": "timeout"}


def send_as_given(client: AsyncOpenAI) -> None:
    """Let chat requests of a client go out as they are."""
    vars(client.chat)["completions"] = _Completions(client)  # where the property keeps what it has made once


class _Completions(AsyncCompletions):
    async def create(self, **given: Any) -> Any:
        """Post what is given, without what is left out."""
        body = {name: value for name, value in given.items() if not isinstance(value, NotGiven | Omit)}
        found = {name: body.pop(option, None) for option, name in OPTIONS.items()}
        options: Any = {name: value for name, value in found.items() if value is not None}
        return await self._client.post(
            "/chat/completions",
            body=body,
            options=options,
            cast_to=ChatCompletion,
            stream=bool(body.get("stream")),
            stream_cls=AsyncStream[ChatCompletionChunk],
        )
