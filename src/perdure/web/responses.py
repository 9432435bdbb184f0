"""What the HTTP API answers: JSON, and errors that say what to do; in a browser, as a page."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec import Struct
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from perdure.errors import PerdureError, Unavailable
from perdure.web.pages.rendering import render_page
from perdure.web.routes import json_response


class ErrorResponse(Struct, frozen=True):
    """What every error looks like."""

    error: str
    hint: str


class HttpRefusal(PerdureError):
    """A request that cannot be served, and why."""

    def __init__(self, status: int, message: str, hint: str, *, retry_after_seconds: int = 0) -> None:
        """`again` is in how many seconds the same may be asked with success."""
        super().__init__(message, hint=hint)
        self.status = status
        self.retry_after_seconds = retry_after_seconds


def error_response(request: Request, error: str, hint: str | None, status: int) -> Response:
    """An error: a page for whoever wanted one, and JSON for programs."""
    if "text/html" in request.headers.get("accept", "") and not request.url.path.startswith("/api/"):
        return render_page("error.html", status, error=error, hint=hint)
    return json_response(ErrorResponse(error, hint or ""), status)


async def refusal_response(request: Request, error: Exception) -> Response:
    assert isinstance(error, HttpRefusal)  # noqa: S101 reason: registered for this class alone
    response = error_response(request, error.message, error.hint, error.status)
    if error.status == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    if error.retry_after_seconds:
        response.headers["Retry-After"] = str(error.retry_after_seconds)
    return response


async def unavailable_response(request: Request, error: Exception) -> Response:
    assert isinstance(error, Unavailable)  # noqa: S101 reason: registered for this class alone
    hint = "Ask again in a moment." if request.method in ("GET", "HEAD") else "Nothing was stored; send it again."
    return error_response(request, error.message, error.hint or hint, 503)


def error_responder(status: int) -> Callable[[Request, Exception], Awaitable[Response]]:
    """Answers errors of ours, which say themselves what is wrong, with a status."""

    async def said(request: Request, error: Exception) -> Response:
        assert isinstance(error, PerdureError)  # noqa: S101 reason: registered for classes of ours alone
        return error_response(request, error.message, error.hint, status)

    return said


async def http_error_response(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 reason: registered for this class alone
    allowed = (error.headers or {}).get("Allow", "see docs/http.md")
    known = {
        404: (f"there is nothing at {request.url.path}", "docs/http.md lists what there is."),
        405: (f"{request.method} is not possible here", f"Allowed: {allowed}."),
    }
    sentence, hint = known.get(error.status_code, (error.detail, ""))
    response = error_response(request, sentence, hint, error.status_code)
    response.headers.update(error.headers or {})
    return response


async def crash_response(request: Request, error: Exception) -> Response:
    """The traceback goes to the log, by whoever called us; the caller learns that it is there."""
    hint = f"The gateway's log has the details ({type(error).__name__})."
    return error_response(request, "something went wrong inside the gateway", hint, 500)
