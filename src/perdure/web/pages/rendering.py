"""Renders the templates, serves the static files of the pages, and the chat page."""

from __future__ import annotations

import hashlib
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from perdure.core.logins import Scope, encode_scopes
from perdure.core.printable_text import printable_text
from perdure.runtime.gateway import Gateway
from perdure.web.pages.filters import FILTERS
from perdure.web.routes import route

if TYPE_CHECKING:
    from jinja2 import Environment


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

    @route("GET", "/", "the chat page, with a new chat", login="page", scope=Scope.READ, own=True)
    async def new(self, request: Request) -> Response:
        return self._render(request)

    @route("GET", "/chats/{chat:path}", "the chat page, with that chat", login="page", scope=Scope.READ, own=True)
    async def existing(self, request: Request) -> Response:
        """The page's script reads the name of the chat from the URL."""
        return self._render(request)

    def _render(self, request: Request) -> Response:
        scopes: frozenset[Scope] = request.state.login.scopes
        return render_page(
            "chat.html",
            for_owner=request.state.login.is_owner,
            demo=self._demo and scopes >= {Scope.CHAT, Scope.OPERATE},
            scopes=encode_scopes(scopes),
            supervised=self._supervised,
            commands=list(self._gateway.loops.commands.registry.values()),
        )
