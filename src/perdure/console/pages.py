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

from perdure.console.routes import call
from perdure.console.wording import WORDS

if TYPE_CHECKING:
    from jinja2 import Environment

HERE = Path(__file__).parent
KINDS = {
    ".css": "text/css",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
    ".png": "image/png",
    ".ico": "image/x-icon",
    ".woff2": "font/woff2",
}
_FILE = re.compile(r"[a-z0-9_-]+(\.[a-z0-9_-]+)*(\.[a-z0-9]+)")


def page(template: str, status: int = 200, **values: Any) -> Response:
    """A template, filled in."""
    return HTMLResponse(_templates().get_template(template).render(values), status)


@cache
def _templates() -> Environment:
    # Whoever starts a gateway need not wait for it: the first page does.
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    loader = FileSystemLoader(HERE / "templates")
    made = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    made.filters.update(WORDS)
    return made


class Pages:
    @call(
        "GET", "/static/{name}", "a file that the pages are made with", login="no", kind="*/*", statuses=(200, 304)
    )
    async def static(self, request: Request) -> Response:
        """Browsers keep it, and ask each time whether it is still the same."""
        name = request.path_params["name"]
        content = _content(name)
        if content is None:
            raise HTTPException(404)
        tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
        headers = {"ETag": tag, "Cache-Control": "no-cache"}
        if tag in request.headers.get("if-none-match", ""):
            return Response(status_code=304, headers=headers)
        return Response(content, headers=headers, media_type=KINDS[Path(name).suffix])


def _content(name: str) -> bytes | None:
    """Only what lies right there, and is of a kind that we serve."""
    path = HERE / "static" / name
    if not _FILE.fullmatch(name) or path.suffix not in KINDS or not path.is_file():
        return None
    return path.read_bytes()
