"""The scripted answers of a local provider, and its received requests, independent of either API's format."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from itertools import islice, repeat
from typing import Any, Literal, TypeAlias

import msgspec
from msgspec import Struct, field

Api: TypeAlias = Literal["openai", "anthropic"]
Outcome: TypeAlias = Literal["open", "answered", "failed", "refused", "too long", "cut off", "left"]

ARGUMENT_PIECE_CHARS = 8  # characters per piece of a call's arguments


class Usage(Struct, frozen=True):
    """Token counts; `input` includes cached tokens, in either API."""

    input: int = 10
    output: int = 5
    cached: int = 0


class Wish(Struct, frozen=True):
    """A tool call of the model. Arguments given as a string are sent unchanged, valid JSON or not."""

    tool: str
    arguments: dict[str, Any] | str = field(default_factory=dict)
    id: str = ""  # generated unless given

    @property
    def spelled(self) -> str:
        """Return the arguments as JSON, or the given string unchanged."""
        return self.arguments if isinstance(self.arguments, str) else msgspec.json.encode(self.arguments).decode()


class Says(Struct, frozen=True, tag_field="kind", tag="says"):
    """An answer with text, calls or both; `finish` in the spelling of either API."""

    text: str = ""
    calls: Sequence[Wish] = ()
    pieces: Sequence[str] = ()  # the pieces of the text in a stream; by words unless given
    pause: float = 0.0  # seconds between pieces
    think: float = 0.0  # seconds before the first
    finish: str | None = None
    usage: Usage = Usage()

    def words(self) -> Iterable[str]:
        """Split the text into the pieces of a stream."""
        return self.pieces or re.findall(r"\S+\s*|\s+", self.text)


class Fails(Struct, frozen=True, tag_field="kind", tag="fails"):
    """An error in the API's format; with `after`, inside the stream, after that many pieces."""

    status: int
    retry_after: float | None = None
    message: str = "This is what the script says."
    type: str = ""  # the error's `type`, if not the usual one of the status
    code: str = ""  # the error's `code` (OpenAI), if not the usual one of the status
    after: int | None = None
    of: Says = Says("one two three four five")


class CutsOff(Struct, frozen=True, tag_field="kind", tag="cuts_off"):
    """The connection is closed after that many pieces; an unstreamed answer does not come at all."""

    after: int = 0
    of: Says = Says("one two three four five")


class Floods(Struct, frozen=True, tag_field="kind", tag="floods"):
    """An answer of `n` pieces, as fast as the client takes them."""

    n: int
    piece: str = "flood "


class NeverEnds(Struct, frozen=True, tag_field="kind", tag="never_ends"):
    """Endless pieces until the client leaves; an unstreamed answer never comes."""

    piece: str = "again "
    pause: float = 0.0


class Hangs(Struct, tag_field="kind", tag="hangs", dict=True, eq=False):
    """Pauses after that many pieces until `release()`, then sends the rest. One value may be used many times."""

    after: int = 1
    of: Says = Says("one two three four five")

    def __post_init__(self) -> None:
        self.reached = threading.Event()  # set when a client waits for the rest
        self.released: Future[None] = Future()

    def release(self) -> None:
        """Let all current and future clients of this answer continue."""
        if not self.released.done():
            self.released.set_result(None)


Answer: TypeAlias = Says | Fails | CutsOff | Floods | NeverEnds | Hangs


class Asked(Struct, eq=False):
    """A received request, and whether it was refused."""

    api: Api
    body: dict[str, Any]
    streamed: bool = False
    messages: list[dict[str, Any]] = field(default_factory=list)
    outcome: Outcome = "open"
    problem: str = ""  # reason of the refusal

    @property
    def tools(self) -> list[str]:
        """Return the names of the offered tools."""
        offered = self.body.get("tools") or []
        return [tool["function"]["name"] if self.api == "openai" else tool["name"] for tool in offered]

    @property
    def text(self) -> str:
        """Return the text of the last message, whoever wrote it."""
        content = self.messages[-1].get("content") if self.messages else ""
        if isinstance(content, list):
            return "".join(part.get("text", "") for part in content)
        return content or ""


class PreparedReply(Struct):
    """An answer ready to encode: every call has its id, and the pieces may be endless."""

    id: str
    model: str
    words: Iterable[str] = ()
    calls: list[Wish] = field(default_factory=list)
    finish: str | None = None
    usage: Usage = Usage()
    counted: bool = True  # the client asks for the usage


class StreamFrame(Struct, frozen=True):
    """Some bytes of a stream: a piece of the answer, or framing."""

    body: bytes
    piece: bool = False


Script: TypeAlias = "list[Answer] | Callable[[Asked], Answer]"


def flood_pieces(answer: Floods | NeverEnds) -> Iterator[str]:
    """Yield the pieces of a very long answer lazily."""
    endless = repeat(answer.piece)
    return islice(endless, answer.n) if isinstance(answer, Floods) else endless


def argument_pieces(arguments: str) -> Iterator[str]:
    """Split the arguments of a call into pieces."""
    for start in range(0, len(arguments), ARGUMENT_PIECE_CHARS):
        yield arguments[start : start + ARGUMENT_PIECE_CHARS]
