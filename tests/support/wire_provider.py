"""A model provider that truncates its answers at a chosen byte.

The provider speaks the APIs of OpenAI and Anthropic over plain sockets, validates nothing, and closes the
connection after each answer. A client must tell a truncated answer from a complete one at every cut and with every
framing of the body: `CUTS` and `FRAMINGS` list them all.
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
    "closed",  # no Content-Length: the end of the connection ends the body
    "chunked",  # chunked encoding with its final chunk
    "chunks without end",
    "short length",  # Content-Length counts the bytes that are sent
    "missing bytes",  # Content-Length counts the bytes of the complete answer
]
CUTS: tuple[Cut, ...] = get_args(Cut)
FRAMINGS: tuple[Framing, ...] = get_args(Framing)
DIALECTS: dict[str, ApiDialect] = {"/v1/chat/completions": openai, "/v1/messages": anthropic}


class Plays(Struct, frozen=True):
    """An answer and where it is truncated. With `unfinished`, only its finish reason is missing."""

    says: Says = Says("ok")
    cut: Cut | None = None
    framing: Framing = "chunked"
    unfinished: bool = False


class WireProvider:
    """Serves the answers of its script inside a `with` block, then "ok"; `requests` holds the request bodies."""

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
        """Return the bytes of the next answer."""
        self.requests.append(body)
        plays = self.script.pop(0) if self.script else Plays()
        return encode_played(plays, DIALECTS[path.partition("?")[0]], body)


class _RequestHandler(socketserver.StreamRequestHandler):
    """Reads one request and writes its answer."""

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
    """Encode the head and the truncated body of an answer."""
    asked = Asked(dialect.NAME, body, streamed=body.get("stream") is True)
    reply = prepare_reply(plays.says, asked, dialect)
    parts = _stream_parts(reply, dialect, plays) if asked.streamed else _whole_parts(reply, dialect, plays)
    sent = b"".join(parts) if plays.cut is None else _cut_parts(parts, plays.cut)
    kind = "text/event-stream" if asked.streamed else "application/json"
    return _frame_body(sent, len(b"".join(parts)), plays.framing, kind)


def _stream_parts(reply: PreparedReply, dialect: ApiDialect, plays: Plays) -> list[bytes]:
    """Split a streamed answer into its events before the finish, and the finish as one part."""
    before = [frame.body for frame in [*dialect.opening_frames(reply), *dialect.body_frames(reply)]]
    last = list(dialect.closing_frames(reply))
    finish = last[-1:] if plays.unfinished else last
    return [*before, b"".join(frame.body for frame in finish)]


def _whole_parts(reply: PreparedReply, dialect: ApiDialect, plays: Plays) -> list[bytes]:
    """Split a JSON answer into three parts; the last part holds the end of the JSON."""
    whole = dialect.encode_whole(reply)
    if plays.unfinished:
        value = msgspec.json.decode(whole)
        (value["choices"][0] if "choices" in value else value).update(finish_reason=None, stop_reason=None)
        whole = msgspec.json.encode(value)
    third = len(whole) // 3
    return [whole[:third], whole[third : 2 * third], whole[2 * third :]]


def _cut_parts(parts: list[bytes], cut: Cut) -> bytes:
    """Return the bytes before the cut; the last part of an answer is its finish."""
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
