"""Chat requests of OpenAI's kind, sent as they are given, and their answers read as they are.

The SDK holds every message of a request against every type that a message may have, to rename its fields; of chat
requests no field has another name. It does so on the event loop: with a conversation of 1,000 messages for 0.2 s,
in which nobody else is served. What comes back it puts together field by field, twenty times as slowly as pydantic
reads it.
"""

from __future__ import annotations

import json
from typing import Any

import httpx2
import msgspec
from httpx2 import AsyncClient, Request, Response, Timeout
from openai import APIConnectionError, APIStatusError, APITimeoutError, AsyncOpenAI, NotGiven, Omit
from openai.resources.chat import AsyncCompletions
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from pydantic import ValidationError

from perdure.agents.providers.openai_stream import ChatCompletionStream


def install_direct_completions(client: AsyncOpenAI, http: AsyncClient) -> None:
    """Let chat requests of a client go out as they are."""
    vars(client.chat)["completions"] = _Completions(client, http)  # where the property keeps what it has made once


class _Completions(AsyncCompletions):
    def __init__(self, client: AsyncOpenAI, http: AsyncClient) -> None:
        super().__init__(client)
        self._http = http
        self._url = client.base_url.join("chat/completions")
        known = {**client.default_headers, **client.auth_headers}
        self._headers = {name: value for name, value in known.items() if isinstance(value, str)}

    async def create(self, **given: Any) -> Any:
        """Post what is given, without what is left out."""
        body = {name: value for name, value in given.items() if not isinstance(value, NotGiven | Omit)}
        headers, more, timeout = (body.pop(name, None) for name in ("extra_headers", "extra_body", "timeout"))
        request = Request(
            "POST",
            self._url,
            headers=self._headers | (headers or {}),
            content=msgspec.json.encode(body | (more or {})),
            extensions={"timeout": Timeout(timeout).as_dict()},
        )
        streamed = bool(body.get("stream"))
        response = await self._sent(request, streamed)
        if not response.is_success:
            raise _refusal(response)
        if streamed:
            return ChatCompletionStream(cast_to=ChatCompletionChunk, response=response, client=self._client)
        return _completion(response)

    async def _sent(self, request: Request, streamed: bool) -> Response:
        try:
            response = await self._http.send(request, stream=streamed)
            if not response.is_success:
                await response.aread()
        except httpx2.TimeoutException as error:
            raise APITimeoutError(request) from error
        except httpx2.RequestError as error:
            raise APIConnectionError(request=request) from error
        return response


def _completion(response: Response) -> Any:
    """What is not as it should be is put together leniently, if it can be, for pydantic-ai to judge."""
    try:
        return ChatCompletion.model_validate_json(response.content)
    except ValidationError:
        data = _data(response)
        return ChatCompletion.construct(**data) if isinstance(data, dict) else data


def _refusal(response: Response) -> APIStatusError:
    data = _data(response)
    body = data.get("error", data) if isinstance(data, dict) else data
    return APIStatusError(f"{response.status_code}: {body}", response=response, body=body)


def _data(response: Response) -> Any:
    try:
        return json.loads(response.content)
    except ValueError:
        return response.text
