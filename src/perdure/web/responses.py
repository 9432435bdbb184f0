"""Error responses, as JSON with a hint or a page for browsers, and security headers on every response."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from msgspec import Struct
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from perdure.core import texts
from perdure.errors import PerdureError, Unavailable
from perdure.web.pages.rendering import render_page
from perdure.web.routes import HTML, json_response


class ErrorResponse(Struct, frozen=True):
    """The body of every error response."""

    error: str
    hint: str


class HttpRefusal(PerdureError):
    """A request that the gateway refuses, with the status of the response."""

    def __init__(self, status: int, message: str, hint: str, *, retry_after_seconds: int = 0) -> None:
        """`retry_after_seconds` says when the same request may succeed; 0 leaves the header out."""
        super().__init__(message, hint=hint)
        self.status = status
        self.retry_after_seconds = retry_after_seconds


def accepts_html(request: Request) -> bool:
    return HTML in request.headers.get("accept", "")


def error_response(request: Request, error: str, hint: str | None, status: int) -> Response:
    """An error as a page, if a browser asks for one outside `/api/`, and otherwise as JSON."""
    if accepts_html(request) and not request.url.path.startswith("/api/"):
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
    hint = texts.http.READ_AGAIN if request.method in ("GET", "HEAD") else texts.http.WRITE_AGAIN
    return error_response(request, error.message, error.hint or hint, 503)


def error_responder(status: int) -> Callable[[Request, Exception], Awaitable[Response]]:
    """An exception handler that sends the message and hint of a `PerdureError` with this status."""

    async def respond(request: Request, error: Exception) -> Response:
        assert isinstance(error, PerdureError)  # noqa: S101 reason: registered for subclasses alone
        return error_response(request, error.message, error.hint, status)

    return respond


async def http_error_response(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 reason: registered for this class alone
    allowed = (error.headers or {}).get("Allow", texts.http.ALLOWED_METHODS_HINT)
    known = {
        404: (texts.http.unknown_path(request.url.path), texts.http.PATHS_HINT),
        405: (texts.http.method_not_allowed(request.method), texts.http.allowed_methods(allowed)),
    }
    problem, hint = known.get(error.status_code, (error.detail, ""))
    response = error_response(request, problem, hint, error.status_code)
    response.headers.update(error.headers or {})
    return response


async def crash_response(request: Request, error: Exception) -> Response:
    """An unexpected exception: Starlette raises it again for the log, and the client is told to look there."""
    return error_response(request, texts.http.CRASHED, texts.http.crash_details(type(error).__name__), 500)


CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
SECURITY_HEADERS = [
    (b"content-security-policy", CONTENT_SECURITY_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    # Not `no-referrer`: a browser would then hide the origin of our own forms from us too.
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
]
DEFAULT_CACHE_CONTROL = (b"cache-control", b"no-store")


class SecurityHeaders:
    """ASGI middleware that adds the security headers to every response.

    Not Starlette's base class for middleware, which costs a task for every open stream.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = message["headers"]
                cached = any(name.lower() == DEFAULT_CACHE_CONTROL[0] for name, _ in given)
                message["headers"] = [*given, *SECURITY_HEADERS, *([] if cached else [DEFAULT_CACHE_CONTROL])]
            await send(message)

        await self._app(scope, receive, send_with_headers)
