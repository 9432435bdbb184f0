"""Renders the templates with their Jinja filters, serves the static files of the pages, and the chat page."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from perdure.core import texts
from perdure.core.address import split_session_key
from perdure.core.logins import Scope, encode_scopes
from perdure.core.printable_text import printable_text
from perdure.runtime.gateway import Gateway
from perdure.store.ids import wall_clock
from perdure.web.routes import route

if TYPE_CHECKING:
    from jinja2 import Environment


BADGE_LEVELS = {
    "good": ("open", "running", "done", "sent", "connected", "ready", "live", "resume", "deliver", "ok"),
    "warn": ("waiting", "interrupted", "suspended", "unknown", "draining", "skip", "ask_user", "cut", "lost"),
    "bad": ("failed", "refused", "expired", "suspend", "error"),
}
_LEVEL_OF = {word: level for level, words in BADGE_LEVELS.items() for word in words}


def relative_time(at: int) -> str:
    """How long ago a moment was, or how long until it comes."""
    now = wall_clock()
    return (
        f"in {texts.phrases.duration(at - now)}" if at > now + 1_000 else f"{texts.phrases.duration(now - at)} ago"
    )


def exact_time(at: int) -> str:
    """A moment in UTC with milliseconds, to compare with a log."""
    return _utc(at).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3] + " UTC"


def iso_time(at: int) -> str:
    return _utc(at).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _utc(at: int) -> datetime:
    return datetime.fromtimestamp(at / 1000, UTC)


def duration(milliseconds: int) -> str:
    """A length of time in its largest fitting unit; below 100 seconds with one decimal place."""
    if milliseconds < 1_000:
        return f"{max(0, milliseconds)} ms"
    seconds = milliseconds / 1000
    if seconds < 100:
        return f"{seconds:.1f} s".replace(".0 ", " ")
    minutes, hours = seconds / 60, seconds / 3600
    return f"{minutes:.0f} min" if minutes < 100 else f"{hours:.0f} h" if hours < 72 else f"{hours / 24:.0f} d"


def chat_label(key: str) -> str:
    """The platform, chat and thread of a session key, for people."""
    address = split_session_key(key)[1]
    thread = f" · {address.thread}" if address.thread else ""
    return f"{address.platform} · {address.chat}{thread}"


def badge_level(word: str) -> str:
    """The colour of the badge for a state: `good`, `warn`, `bad`, or none."""
    return _LEVEL_OF.get(word, "")


def underscores_as_spaces(word: str) -> str:
    return word.replace("_", " ")


def backticks_as_code(text: str) -> Any:
    """The text as HTML: words between backticks as `<code>`, everything else escaped."""
    from markupsafe import Markup, escape  # jinja2 brings it, and is loaded with the first page

    parts = text.split("`")
    shown = [
        escape(part) if index % 2 == 0 else Markup("<code>%s</code>") % part for index, part in enumerate(parts)
    ]
    return Markup("").join(shown) if len(parts) % 2 else escape(text)


def capitalised(text: str) -> str:
    return text[:1].upper() + text[1:]


def with_full_stop(text: str) -> str:
    """The text with a full stop: messages of errors have none."""
    return text if text.endswith((".", "!", "?")) else f"{text}."


FILTERS: dict[str, Callable[..., Any]] = {
    each.__name__: each
    for each in (
        relative_time,
        exact_time,
        iso_time,
        duration,
        chat_label,
        badge_level,
        underscores_as_spaces,
        backticks_as_code,
        capitalised,
        with_full_stop,
    )
}


WEB_DIRECTORY = Path(__file__).parents[1]
MEDIA_TYPES = {
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
_STATIC_FILE_NAME = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*(\.[a-z0-9]+)")


def render_page(template: str, status: int = 200, **values: Any) -> Response:
    """The response with a rendered template."""
    return HTMLResponse(_template_environment().get_template(template).render(values), status)


@cache
def _template_environment() -> Environment:
    # Jinja loads slowly: the first page waits for it, the start of the gateway does not.
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    loader = FileSystemLoader(WEB_DIRECTORY / "templates")
    environment = Environment(
        loader=loader,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown_value,
    )
    environment.filters.update(FILTERS)
    return environment


def _shown_value(value: Any) -> Any:
    """A value as a page shows it: no text that others chose may turn the direction of what stands beside it."""
    if not isinstance(value, str):
        return value
    shown = printable_text(value)
    return value if shown == value else type(value)(shown)  # what is marked as HTML stays so


class StaticFileApi:
    @route(
        "GET",
        "/static/{name}",
        "a file that the pages are made with",
        login="no",
        media_type="*/*",
        statuses=(200, 304),
    )
    async def get(self, request: Request) -> Response:
        """Browsers cache the file, and revalidate it by its ETag each time."""
        name = request.path_params["name"]
        content = _static_content(name)
        if content is None:
            raise HTTPException(404)
        tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
        headers = {"ETag": tag, "Cache-Control": "no-cache"}
        if tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(content, headers=headers, media_type=MEDIA_TYPES[Path(name).suffix])


def _static_content(name: str) -> bytes | None:
    """The content of a file directly in `static/`, if its media type is one that we serve."""
    path = WEB_DIRECTORY / "static" / name
    if not _STATIC_FILE_NAME.fullmatch(name) or path.suffix not in MEDIA_TYPES or not path.is_file():
        return None
    return path.read_bytes()


class ChatPage:
    def __init__(self, gateway: Gateway, *, demo: bool, supervised: bool) -> None:
        self._gateway = gateway
        self._demo = demo
        self._supervised = supervised  # whether a supervisor restarts the gateway when its process dies

    @route("GET", "/", "the chat page, with a new chat", login="page", scope=Scope.READ)
    async def new(self, request: Request) -> Response:
        return self._render(request)

    @route("GET", "/chats/{chat:path}", "the chat page, with that chat", login="page", scope=Scope.READ)
    async def existing(self, request: Request) -> Response:
        """The page's script reads the name of the chat from the URL."""
        return self._render(request)

    def _render(self, request: Request) -> Response:
        scopes: frozenset[Scope] = request.state.login.scopes
        return render_page(
            "chat.html",
            demo=self._demo and scopes >= {Scope.CHAT, Scope.OPERATE},
            scopes=encode_scopes(scopes),
            supervised=self._supervised,
            commands=list(self._gateway.loops.commands.registry.values()),
        )
