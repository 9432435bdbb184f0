"""The context window of a model: where servers state it, and what is learnt from their refusals.

The table of wordings holds the sentences by which servers refuse a request that is too long; the table of
endpoints holds the paths and fields at which servers state the size of their window.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

FULL_WINDOW_FRACTION = 0.9  # of a window: an answer that ended early beyond this ended because the window was full


class RefusalPattern(Struct, frozen=True):
    """A sentence by which a server refuses a request as too long; it may name the numbers `sent` and `window`."""

    server: str
    pattern: str


REFUSAL_PATTERNS = (
    RefusalPattern(
        "llama.cpp, Ollama",
        r"request (\((?P<sent>\d+) tokens\) )?exceeds the available context size( \((?P<window>\d+) tokens\))?",
    ),
    RefusalPattern("llama.cpp, Ollama", r"exceed_context_size_error"),
    RefusalPattern("llama.cpp, LM Studio", r"context size has been exceeded"),
    RefusalPattern(
        "llama-cpp-python", r"requested tokens \((?P<sent>\d+)\) exceed context window of (?P<window>\d+)"
    ),
    RefusalPattern(
        "vLLM", r"maximum context length (is|of) (?P<window>\d+).{0,90}?(has|contains at least) (?P<sent>\d+)"
    ),
    RefusalPattern(
        "vLLM", r"maximum context length (is|of) (?P<window>\d+).{0,200}?\((?P<sent>\d+) in the messages"
    ),
    RefusalPattern(
        "vLLM", r"input \((?P<sent>\d+) tokens\) is longer than the model's context length \((?P<window>\d+)"
    ),
    RefusalPattern("OpenAI", r"maximum context length (is|of) (?P<window>\d+).{0,60}? resulted in (?P<sent>\d+)"),
    RefusalPattern("OpenAI", r"maximum context length( (is|of) (?P<window>\d+))?"),
    RefusalPattern("OpenAI", r"reduce the length of the (input )?messages"),
    RefusalPattern("OpenAI", r"exceeds the context window"),
    RefusalPattern("OpenAI", r"context_length_exceeded"),
    RefusalPattern("Ollama", r"prompt too long; exceeded (max )?context length"),
    RefusalPattern("Ollama", r"input length exceeds the (available )?context length"),
    RefusalPattern(
        "LM Studio", r"greater than the context length( \(n_keep: (?P<sent>\d+) ?>= n_ctx: (?P<window>\d+)\))?"
    ),
    RefusalPattern(
        "LM Studio",
        r"keep the first (?P<sent>\d+) tokens when .{0,20}overflows.{0,60}context length of only (?P<window>\d+)",
    ),
    RefusalPattern("Anthropic", r"prompt is too long(: (?P<sent>\d+) tokens > (?P<window>\d+))?"),
    RefusalPattern(
        "Gemini",
        r"input token count( \((?P<sent>\d+)\))? exceeds the maximum number of tokens allowed"
        r"( \((?P<window>\d+)\))?",
    ),
)
REFUSAL_FIELDS = {
    "sent": re.compile(r"\bn_prompt_tokens\W{1,5}(\d+)"),
    "window": re.compile(r"\bn_ctx\W{1,5}(\d+)"),
}
_COMPILED_PATTERNS = [re.compile(wording.pattern, re.IGNORECASE | re.DOTALL) for wording in REFUSAL_PATTERNS]


class ContextRefusal(Struct, frozen=True):
    """A request was refused as too long. The numbers are the server's own, in its own tokens; 0: not named."""

    sent: int = 0
    window: int = 0


def parse_refusal(said: str) -> ContextRefusal | None:
    """Read a server's error; None unless it says that the request was too long."""
    for pattern in _COMPILED_PATTERNS:
        if found := pattern.search(said):
            named = found.groupdict()
            return ContextRefusal(
                *(int(named.get(name) or _number_field(name, said)) for name in ("sent", "window"))
            )
    return None


def _number_field(name: str, said: str) -> int:
    found = REFUSAL_FIELDS[name].search(said)
    return int(found[1]) if found else 0


# ── where servers state their window ────────────────────────────────────────────────────────────────────────


class WindowEndpoint(Struct, frozen=True):
    """A path at which some servers state the size of their window, and the fields that hold it."""

    server: str
    path: str  # relative to `model.base_url`; with a leading slash, to its host
    fields: tuple[str, ...]  # of the model's entry, or of the whole answer; dots separate nested names


WINDOW_ENDPOINTS = (
    WindowEndpoint("vLLM, OpenRouter, Groq", "models", ("max_model_len", "context_length", "context_window")),
    WindowEndpoint("llama.cpp", "models", ("meta.n_ctx",)),
    WindowEndpoint("llama.cpp", "/props", ("default_generation_settings.n_ctx",)),
    WindowEndpoint("Ollama", "/api/ps", ("context_length",)),
    WindowEndpoint("LM Studio", "/api/v0/models", ("loaded_context_length",)),
)


def window_in_answer(path: str, model: str, answer: Any) -> int:
    """The window that a server's answer states for a model; 0 if it states none."""
    if not isinstance(answer, dict):
        return 0
    entry = _model_entry(answer, model)
    values = [
        _positive_number(entry, field)
        for place in WINDOW_ENDPOINTS
        if place.path == path
        for field in place.fields
    ]
    return next((value for value in values if value), 0)


def _model_entry(answer: Mapping[str, Any], model: str) -> Mapping[str, Any]:
    """The model's own entry of a list. A server with one model serves it by any name."""
    listed = answer.get("data", answer.get("models"))
    if not isinstance(listed, list):
        return answer
    entries = [entry for entry in listed if isinstance(entry, dict)]
    named = [entry for entry in entries if model in _model_names(entry)]
    return (named or (entries if len(entries) == 1 else []) or [{}])[0]


def _model_names(entry: Mapping[str, Any]) -> Iterator[str]:
    for field in ("id", "model", "name"):
        if isinstance(name := entry.get(field), str):
            yield from (name, name.removesuffix(":latest"))


def _positive_number(entry: Mapping[str, Any], field: str) -> int:
    found: Any = entry
    for name in field.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    return found if isinstance(found, int) and not isinstance(found, bool) and found > 0 else 0


# ── what is known ───────────────────────────────────────────────────────────────────────────────────────────


class KnownWindow:
    """The window of a model as far as it is known: configured or assumed at first, and then what happens teaches.

    A refusal or a full window can only make it smaller, and never smaller than what was answered before. Nothing
    of it is stored: a server that was started again may have another window, and to learn it again costs one
    question, or one request that is refused.
    """

    def __init__(self, tokens: int, *, configured: bool = False) -> None:
        self.tokens = tokens
        self._configured_tokens = tokens if configured else 0  # the window never grows past the configured one
        self._proven_tokens = 0
        # The newest answer that ended early, and the window known then.
        self._last_truncation: tuple[int, int, int] | None = None
        self._answer_limit = 0  # the length at which every answer ends early; 0: there is none

    def learn_from_server(self, tokens: int) -> None:
        self.tokens = min(tokens, self._configured_tokens) if self._configured_tokens else tokens

    def learn_from_refusal(self, sent: int) -> None:
        """Learn from a request of so many tokens that was refused as too long."""
        self.tokens = min(self.tokens, max(sent, self._proven_tokens))

    def learn_from_answer(self, read: int, written: int) -> None:
        self._proven_tokens = max(self._proven_tokens, read + written)

    def learn_from_truncation(self, read: int, written: int) -> None:
        """Learn from an answer that ended at a length limit: of the window, or of every answer."""
        if written == self._answer_limit:
            return
        before = self._last_truncation[2] if self._last_truncation else self.tokens
        if self._last_truncation and self._last_truncation[1] == written and self._last_truncation[0] != read:
            self.tokens, self._answer_limit = before, written
        else:
            self.learn_from_refusal(read + written)
        self._last_truncation = (read, written, before)
