"""Pages for people: templates that are filled in, and the files beside them."""

from __future__ import annotations

import hashlib
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from perdure.web.pages.filters import FILTERS
from perdure.web.routes import route

if TYPE_CHECKING:
    from jinja2 import Environment

WEB_DIRECTORY = Path(__file__).parents[1]
MEDIA_TYPES = {
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
}
_STATIC_FILE_NAME = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*(\.[a-z0-9]+)")


def render_page(template: str, status: int = 200, **values: Any) -> Response:
    """A template, filled in."""
    return HTMLResponse(_template_environment().get_template(template).render(values), status)


@cache
def _template_environment() -> Environment:
    # Whoever starts a gateway need not wait for it: the first page does.
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    loader = FileSystemLoader(WEB_DIRECTORY / "templates")
    made = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    made.filters.update(FILTERS)
    return made


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
        """Browsers keep it, and ask each time whether it is still the same."""
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
    """Only what lies right there, and is of a kind that we serve."""
    path = WEB_DIRECTORY / "static" / name
    if not _STATIC_FILE_NAME.fullmatch(name) or path.suffix not in MEDIA_TYPES or not path.is_file():
        return None
    return path.read_bytes()
