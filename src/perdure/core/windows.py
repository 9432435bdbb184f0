"""How many tokens a model reads and writes in all: how servers tell, and what their refusals teach.

The table of wordings is what servers say of a request that is too long; the table of fields is where they say,
when they are asked, how large their window is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from msgspec import Struct

FILLED = 0.9  # of a window: an answer that was cut off here was cut off because the window was full


class Wording(Struct, frozen=True):
    """A sentence by which a server refuses what is too long; `sent` and `window` are numbers that it may name."""

    server: str
    pattern: str


WORDINGS = (
    Wording(
        "llama.cpp, Ollama",
        r"request (\((?P<sent>\d+) tokens\) )?exceeds the available context size( \((?P<window>\d+) tokens\))?",
    ),
    Wording("llama.cpp, Ollama", r"exceed_context_size_error"),
    Wording("llama.cpp, LM Studio", r"context size has been exceeded"),
    Wording("llama-cpp-python", r"requested tokens \((?P<sent>\d+)\) exceed context window of (?P<window>\d+)"),
    Wording(
        "vLLM", r"maximum context length (is|of) (?P<window>\d+).{0,90}?(has|contains at least) (?P<sent>\d+)"
    ),
    Wording("vLLM", r"maximum context length (is|of) (?P<window>\d+).{0,200}?\((?P<sent>\d+) in the messages"),
    Wording("vLLM", r"input \((?P<sent>\d+) tokens\) is longer than the model's context length \((?P<window>\d+)"),
    Wording("OpenAI", r"maximum context length (is|of) (?P<window>\d+).{0,60}? resulted in (?P<sent>\d+)"),
    Wording("OpenAI", r"maximum context length( (is|of) (?P<window>\d+))?"),
    Wording("OpenAI", r"reduce the length of the (input )?messages"),
    Wording("OpenAI", r"exceeds the context window"),
    Wording("OpenAI", r"context_length_exceeded"),
    Wording("Ollama", r"prompt too long; exceeded (max )?context length"),
    Wording("Ollama", r"input length exceeds the (available )?context length"),
    Wording(
        "LM Studio", r"greater than the context length( \(n_keep: (?P<sent>\d+) ?>= n_ctx: (?P<window>\d+)\))?"
    ),
    Wording(
        "LM Studio",
        r"keep the first (?P<sent>\d+) tokens when .{0,20}overflows.{0,60}context length of only (?P<window>\d+)",
    ),
    Wording("Anthropic", r"prompt is too long(: (?P<sent>\d+) tokens > (?P<window>\d+))?"),
    Wording(
        "Gemini",
        r"input token count( \((?P<sent>\d+)\))? exceeds the maximum number of tokens allowed"
        r"( \((?P<window>\d+)\))?",
    ),
)
FIELDS = {"sent": re.compile(r"\bn_prompt_tokens\W{1,5}(\d+)"), "window": re.compile(r"\bn_ctx\W{1,5}(\d+)")}
_READ = [re.compile(wording.pattern, re.IGNORECASE | re.DOTALL) for wording in WORDINGS]


class Refusal(Struct, frozen=True):
    """A request was refused as too long. The numbers are the server's own, in its own tokens; 0: not named."""

    sent: int = 0
    window: int = 0


def refusal(said: str) -> Refusal | None:
    """What a server says of an error, if it is that the request was too long."""
    for pattern in _READ:
        if found := pattern.search(said):
            named = found.groupdict()
            return Refusal(*(int(named.get(name) or _field(name, said)) for name in ("sent", "window")))
    return None


def _field(name: str, said: str) -> int:
    found = FIELDS[name].search(said)
    return int(found[1]) if found else 0


# ── where servers tell ──────────────────────────────────────────────────────────────────────────────────────


class Place(Struct, frozen=True):
    """A path at which some server tells the size of its window, and the fields that hold it there."""

    server: str
    path: str  # behind `model.base_url`; with a slash in front, behind its host
    fields: tuple[str, ...]  # of the model's entry, or of the whole answer; dots lead further in


PLACES = (
    Place("vLLM, OpenRouter, Groq", "models", ("max_model_len", "context_length", "context_window")),
    Place("llama.cpp", "models", ("meta.n_ctx",)),
    Place("llama.cpp", "/props", ("default_generation_settings.n_ctx",)),
    Place("Ollama", "/api/ps", ("context_length",)),
    Place("LM Studio", "/api/v0/models", ("loaded_context_length",)),
)


def told(path: str, model: str, answer: Any) -> int:
    """The window that a server's answer names for a model; 0: none."""
    if not isinstance(answer, dict):
        return 0
    entry = _entry(answer, model)
    values = [_value(entry, field) for place in PLACES if place.path == path for field in place.fields]
    return next((value for value in values if value), 0)


def _entry(answer: Mapping[str, Any], model: str) -> Mapping[str, Any]:
    """The model's own entry of a list. A server with one model serves it by any name."""
    listed = answer.get("data", answer.get("models"))
    if not isinstance(listed, list):
        return answer
    entries = [entry for entry in listed if isinstance(entry, dict)]
    named = [entry for entry in entries if model in _names(entry)]
    return (named or (entries if len(entries) == 1 else []) or [{}])[0]


def _names(entry: Mapping[str, Any]) -> Iterator[str]:
    for field in ("id", "model", "name"):
        if isinstance(name := entry.get(field), str):
            yield from (name, name.removesuffix(":latest"))


def _value(entry: Mapping[str, Any], field: str) -> int:
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
        self._most = tokens if configured else 0  # nobody wants more than what was configured
        self._proven = 0
        self._cut: tuple[int, int, int] | None = (
            None  # the newest answer that was cut off, and what was known then
        )
        self._longest_answer = 0  # the length at which all answers are cut off, if there is one

    def server_says(self, tokens: int) -> None:
        self.tokens = min(tokens, self._most) if self._most else tokens

    def was_refused(self, sent: int) -> None:
        """A request of so many tokens was refused as too long."""
        self.tokens = min(self.tokens, max(sent, self._proven))

    def was_answered(self, read: int, written: int) -> None:
        self._proven = max(self._proven, read + written)

    def was_cut_off(self, read: int, written: int) -> None:
        """An answer was cut off by its length: the window is full, or all answers are cut off at that length."""
        if written == self._longest_answer:
            return
        before = self._cut[2] if self._cut else self.tokens
        if self._cut and self._cut[1] == written and self._cut[0] != read:
            self.tokens, self._longest_answer = before, written
        else:
            self.was_refused(read + written)
        self._cut = (read, written, before)
