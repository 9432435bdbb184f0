"""A model provider that plays its answers byte by byte, and cuts them where a test wants.

It speaks the APIs of OpenAI and Anthropic over plain sockets, checks nothing, and closes the connection after each
answer. Whoever reads a provider's answers has to tell half an answer from a whole one, wherever it was cut and
however its body was framed: `CUTS` and `FRAMINGS` are all the ways.
"""

from __future__ import annotations

import socketserver
import threading
from collections.abc import Iterable
from types import TracebackType
from typing import Any, Literal, Self, TypeAlias, get_args

import msgspec
from msgspec import Struct

from perdure.testing.providers import anthropic, openai
from perdure.testing.providers.answers import Asked, PreparedReply, Says
from perdure.testing.providers.dialect import ApiDialect
from perdure.testing.providers.playback import prepare_reply

Cut: TypeAlias = Literal[
    "after the head", "inside an event", "between events", "before the finish", "inside the finish"
]
Framing: TypeAlias = Literal[
    "closed",  # no length: the body ends with the connection
    "chunked",  # in chunks, with the last one
    "chunks without end",
    "short length",  # the length of what is sent
    "missing bytes",  # the length of the whole answer
]
CUTS: tuple[Cut, ...] = get_args(Cut)
FRAMINGS: tuple[Framing, ...] = get_args(Framing)
DIALECTS: dict[str, ApiDialect] = {"/v1/chat/completions": openai, "/v1/messages": anthropic}


class Plays(Struct, frozen=True):
    """An answer, and how much of it comes. With `unfinished`, only its finish reason is missing."""

    says: Says = Says("ok")
    cut: Cut | None = None
    framing: Framing = "chunked"
    unfinished: bool = False


class WireProvider:
    """Listens while its `with` block runs. Plays its script, then "ok"; `requests` is what it was asked."""

    def __init__(self, script: Iterable[Plays] = ()) -> None:
        self.script = list(script)
        self.requests: list[dict[str, Any]] = []
        self._server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), self._serve)
        self._server.daemon_threads = True

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    @property
    def openai_url(self) -> str:
        """The `base_url` for OpenAI's clients."""
        return f"{self.url}/v1"

    @property
    def anthropic_url(self) -> str:
        """The `base_url` for Anthropic's clients."""
        return self.url

    def _serve(self, *connection: Any) -> socketserver.BaseRequestHandler:
        return _RequestHandler(self, *connection)

    def answer(self, path: str, body: dict[str, Any]) -> bytes:
        """The bytes of the next answer."""
        self.requests.append(body)
        plays = self.script.pop(0) if self.script else Plays()
        return encode_played(plays, DIALECTS[path.partition("?")[0]], body)


class _RequestHandler(socketserver.StreamRequestHandler):
    """One request and its answer."""

    def __init__(self, provider: WireProvider, *connection: Any) -> None:
        self._provider = provider
        super().__init__(*connection)

    def handle(self) -> None:
        line = self.rfile.readline().decode()
        if not line:
            return
        size = 0
        while (header := self.rfile.readline().strip().lower()) != b"":
            name, _, value = header.partition(b":")
            size = int(value) if name == b"content-length" else size
        body = msgspec.json.decode(self.rfile.read(size), type=dict[str, Any])
        self.wfile.write(self._provider.answer(line.split()[1], body))


def encode_played(plays: Plays, dialect: ApiDialect, body: dict[str, Any]) -> bytes:
    """The head and the body of an answer, as far as they come."""
    asked = Asked(dialect.NAME, body, streamed=body.get("stream") is True)
    reply = prepare_reply(plays.says, asked, dialect)
    parts = _stream_parts(reply, dialect, plays) if asked.streamed else _whole_parts(reply, dialect, plays)
    sent = b"".join(parts) if plays.cut is None else _cut_parts(parts, plays.cut)
    kind = "text/event-stream" if asked.streamed else "application/json"
    return _frame_body(sent, len(b"".join(parts)), plays.framing, kind)


def _stream_parts(reply: PreparedReply, dialect: ApiDialect, plays: Plays) -> list[bytes]:
    """The events before the finish, and the finish as one part."""
    before = [frame.body for frame in [*dialect.opening_frames(reply), *dialect.body_frames(reply)]]
    last = list(dialect.closing_frames(reply))
    finish = last[-1:] if plays.unfinished else last
    return [*before, b"".join(frame.body for frame in finish)]


def _whole_parts(reply: PreparedReply, dialect: ApiDialect, plays: Plays) -> list[bytes]:
    """The answer in three parts, the last of which holds the end of the JSON."""
    whole = dialect.encode_whole(reply)
    if plays.unfinished:
        value = msgspec.json.decode(whole)
        (value["choices"][0] if "choices" in value else value).update(finish_reason=None, stop_reason=None)
        whole = msgspec.json.encode(value)
    third = len(whole) // 3
    return [whole[:third], whole[third : 2 * third], whole[2 * third :]]


def _cut_parts(parts: list[bytes], cut: Cut) -> bytes:
    """The first parts of an answer; the last part is its finish."""
    before, finish = parts[:-1], parts[-1]
    middle = len(before) // 2
    match cut:
        case "after the head":
            return b""
        case "inside an event":
            return b"".join(before[:middle]) + before[middle][: len(before[middle]) // 2]
        case "between events":
            return b"".join(before[: middle + 1])
        case "before the finish":
            return b"".join(before)
        case "inside the finish":
            return b"".join(before) + finish[: len(finish) // 8]


def _frame_body(sent: bytes, whole: int, framing: Framing, kind: str) -> bytes:
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nConnection: close\r\n".encode()
    match framing:
        case "closed":
            return head + b"\r\n" + sent
        case "short length" | "missing bytes":
            size = len(sent) if framing == "short length" else whole
            return head + f"Content-Length: {size}\r\n\r\n".encode() + sent
        case "chunked" | "chunks without end":
            chunk = b"%x\r\n%s\r\n" % (len(sent), sent) if sent else b""
            end = b"0\r\n\r\n" if framing == "chunked" else b""
            return head + b"Transfer-Encoding: chunked\r\n\r\n" + chunk + end
