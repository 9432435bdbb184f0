"""A context window as self-hosted servers have it: refusals, truncation, and requests for its size."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias

from msgspec import Struct, json, structs

from perdure.testing.providers.answers import Says, Usage

ServerKind: TypeAlias = Literal["llama.cpp", "vllm", "ollama", "lm-studio", "openai"]

BYTES_PER_TOKEN = 4  # characters of the encoded request per token
MODEL_NAME = "local"


class Window(Struct, frozen=True):
    """The number of tokens that a model reads and writes in all, and the kind of its server.

    With `tells`, the server answers requests for the size; otherwise only its refusals name the size.
    """

    tokens: int
    server: ServerKind = "llama.cpp"
    tells: bool = True

    def count(self, body: Mapping[str, Any]) -> int:
        """Count the tokens of a request: its messages and its tools."""
        return len(json.encode([body.get("messages"), body.get("tools")])) // BYTES_PER_TOKEN

    def cut(self, says: Says, used: int) -> Says:
        """Truncate the answer to the room behind a request; a piece of the text is one token."""
        words = list(says.words())
        room = self.tokens - used
        usage = Usage(used, min(len(words), room))
        if len(words) <= room:
            return structs.replace(says, usage=usage)
        return structs.replace(says, text="".join(words[:room]), pieces=words[:room], finish="length", usage=usage)

    def refusal(self, used: int) -> dict[str, Any]:
        """Return the JSON refusal of a request that is too long."""
        return REFUSALS[self.server](used, self.tokens)

    def size_answer(self, path: str) -> dict[str, Any] | None:
        """Return the answer at a path where some servers tell the size of the window."""
        places = SIZE_ANSWERS[self.server] if self.tells else {}
        return places[path](self.tokens) if path in places else None


def _llama(used: int, window: int) -> dict[str, Any]:
    said = f"request ({used} tokens) exceeds the available context size ({window} tokens), try increasing it"
    kind = {"code": 400, "message": said, "type": "exceed_context_size_error"}
    return {"error": kind | {"n_prompt_tokens": used, "n_ctx": window}}


def _vllm(used: int, window: int) -> dict[str, Any]:
    said = (
        f"This model's maximum context length is {window} tokens. However, your request has {used} input tokens. "
        "Please reduce the length of the input messages."
    )
    return {"error": {"message": said, "type": "BadRequestError", "param": "input_tokens", "code": 400}}


def _ollama(used: int, window: int) -> dict[str, Any]:
    said = f"prompt too long; exceeded max context length by {used - window + 1} tokens"
    return {"error": {"message": said, "type": "invalid_request_error", "param": None, "code": None}}


def _lm_studio(used: int, window: int) -> dict[str, Any]:
    said = (
        "The number of tokens to keep from the initial prompt is greater than the context length "
        f"(n_keep: {used}>= n_ctx: {window}). Try to load the model with a larger context length, "
        "or provide a shorter input."
    )
    return {"error": said}


def _openai(used: int, window: int) -> dict[str, Any]:
    said = "Your input exceeds the context window of this model. Please adjust your input and try again."
    kind = {"message": said, "type": "invalid_request_error", "param": "messages"}
    return {"error": kind | {"code": "context_length_exceeded"}}


REFUSALS = {"llama.cpp": _llama, "vllm": _vllm, "ollama": _ollama, "lm-studio": _lm_studio, "openai": _openai}


def _model_list(**said: Any) -> dict[str, Any]:
    return {"object": "list", "data": [{"id": MODEL_NAME, "object": "model"} | said]}


SIZE_ANSWERS: dict[ServerKind, dict[str, Any]] = {
    "llama.cpp": {
        "/v1/models": lambda window: _model_list(meta={"n_ctx": window, "n_ctx_train": 8 * window}),
        "/props": lambda window: {"default_generation_settings": {"n_ctx": window}, "total_slots": 1},
    },
    "vllm": {"/v1/models": lambda window: _model_list(max_model_len=window)},
    "ollama": {
        "/v1/models": lambda _: _model_list(),
        "/api/ps": lambda window: {
            "models": [{"name": MODEL_NAME, "model": MODEL_NAME, "context_length": window}]
        },
    },
    "lm-studio": {
        "/v1/models": lambda _: _model_list(),
        "/api/v0/models": lambda window: _model_list(
            state="loaded", loaded_context_length=window, max_context_length=32 * window
        ),
    },
    "openai": {"/v1/models": lambda _: _model_list()},
}
SIZE_PATHS = sorted({path for places in SIZE_ANSWERS.values() for path in places})
