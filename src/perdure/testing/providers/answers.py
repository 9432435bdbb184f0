"""What a local provider is told to answer, and what it was asked: values, without any of the wire's spelling."""

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

ARGUMENT_PIECE_CHARS = 8  # characters of a call's arguments that a stream sends at a time


class Usage(Struct, frozen=True):
    """Tokens as counted by us: `input` includes what came from the cache, in either API."""

    input: int = 10
    output: int = 5
    cached: int = 0


class Wish(Struct, frozen=True):
    """A tool call that the model makes. Arguments given as a string go out as they are, valid JSON or not."""

    tool: str
    arguments: dict[str, Any] | str = field(default_factory=dict)
    id: str = ""  # made up by the provider unless given

    @property
    def spelled(self) -> str:
        """The arguments as JSON, or what stands for it."""
        return self.arguments if isinstance(self.arguments, str) else msgspec.json.encode(self.arguments).decode()


class Says(Struct, frozen=True, tag_field="kind", tag="says"):
    """An answer: words, calls, or both; `finish` in the spelling of either API."""

    text: str = ""
    calls: Sequence[Wish] = ()
    pieces: Sequence[str] = ()  # how a stream cuts the text; by words unless given
    pause: float = 0.0  # seconds between pieces
    think: float = 0.0  # seconds before the first
    finish: str | None = None
    usage: Usage = Usage()

    def words(self) -> Iterable[str]:
        """The text as a stream sends it."""
        return self.pieces or re.findall(r"\S+\s*|\s+", self.text)


class Fails(Struct, frozen=True, tag_field="kind", tag="fails"):
    """An error in the API's own format; with `after`, one inside the stream, after so many pieces."""

    status: int
    retry_after: float | None = None
    message: str = "This is what the script says."
    type: str = ""  # the error's `type`, if not the usual one of the status
    code: str = ""  # the error's `code` (OpenAI), if not the usual one of the status
    after: int | None = None
    of: Says = Says("one two three four five")


class CutsOff(Struct, frozen=True, tag_field="kind", tag="cuts_off"):
    """The connection ends after so many pieces; a whole answer does not come at all."""

    after: int = 0
    of: Says = Says("one two three four five")


class Floods(Struct, frozen=True, tag_field="kind", tag="floods"):
    """An answer of `n` pieces, as fast as the client takes them."""

    n: int
    piece: str = "flood "


class NeverEnds(Struct, frozen=True, tag_field="kind", tag="never_ends"):
    """Pieces without end, until the client leaves; a whole answer never comes."""

    piece: str = "again "
    pause: float = 0.0


class Hangs(Struct, tag_field="kind", tag="hangs", dict=True, eq=False):
    """So many pieces and then nothing, until it is released: then the rest comes. One may be used many times."""

    after: int = 1
    of: Says = Says("one two three four five")

    def __post_init__(self) -> None:
        self.reached = threading.Event()  # set as soon as a client waits for the rest
        self.released: Future[None] = Future()

    def release(self) -> None:
        """Let everybody who hangs here go on, now and in future."""
        if not self.released.done():
            self.released.set_result(None)


Answer: TypeAlias = Says | Fails | CutsOff | Floods | NeverEnds | Hangs


class Asked(Struct, eq=False):
    """A request as it came, and what became of it."""

    api: Api
    body: dict[str, Any]
    streamed: bool = False
    messages: list[dict[str, Any]] = field(default_factory=list)
    outcome: Outcome = "open"
    problem: str = ""  # why it was refused

    @property
    def tools(self) -> list[str]:
        """The names of the tools that were offered."""
        offered = self.body.get("tools") or []
        return [tool["function"]["name"] if self.api == "openai" else tool["name"] for tool in offered]

    @property
    def text(self) -> str:
        """The words of the last message, whoever wrote it."""
        content = self.messages[-1].get("content") if self.messages else ""
        if isinstance(content, list):
            return "".join(part.get("text", "") for part in content)
        return content or ""


class PreparedReply(Struct):
    """An answer made ready for the wire: every call has its id, and the pieces may be without end."""

    id: str
    model: str
    words: Iterable[str] = ()
    calls: list[Wish] = field(default_factory=list)
    finish: str | None = None
    usage: Usage = Usage()
    counted: bool = True  # the client wants to know the usage


class StreamFrame(Struct, frozen=True):
    """Some bytes of a stream; a piece carries a part of the answer, anything else is its framing."""

    body: bytes
    piece: bool = False


Script: TypeAlias = "list[Answer] | Callable[[Asked], Answer]"


def flood_pieces(answer: Floods | NeverEnds) -> Iterator[str]:
    """The pieces of an answer that is too long, without making them all at once."""
    endless = repeat(answer.piece)
    return islice(endless, answer.n) if isinstance(answer, Floods) else endless


def argument_pieces(arguments: str) -> Iterator[str]:
    """A call's arguments in pieces."""
    for start in range(0, len(arguments), ARGUMENT_PIECE_CHARS):
        yield arguments[start : start + ARGUMENT_PIECE_CHARS]
