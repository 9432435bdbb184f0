"""What the HTTP API answers: JSON, and errors that say what to do."""

from __future__ import annotations

import re
from typing import Any

import msgspec
from msgspec import Struct
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from perdure.errors import NotFound, NotTaken, PerdureError, Unavailable

OUR_ID = re.compile(r"[a-z]+_[0-9a-z]+")


class Problem(Struct, frozen=True):
    """What every error looks like."""

    error: str
    hint: str


class Refusal(PerdureError):
    """A request that cannot be served, and why."""

    def __init__(self, status: int, message: str, hint: str, *, again: int = 0) -> None:
        """`again` is in how many seconds the same may be asked with success."""
        super().__init__(message, hint=hint)
        self.status = status
        self.again = again


def answer(body: Any, status: int = 200) -> Response:
    return Response(msgspec.json.encode(body), status, media_type="application/json")


async def refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, Refusal)  # noqa: S101 reason: registered for this class alone
    response = answer({"error": error.message, "hint": error.hint}, error.status)
    if error.status == 401:
        response.headers["WWW-Authenticate"] = "Bearer"
    if error.again:
        response.headers["Retry-After"] = str(error.again)
    return response


async def unavailable(request: Request, error: Exception) -> Response:
    assert isinstance(error, Unavailable)  # noqa: S101 reason: registered for this class alone
    hint = "Ask again in a moment." if request.method in ("GET", "HEAD") else "Nothing was stored; send it again."
    return answer({"error": error.message, "hint": error.hint or hint}, 503)


async def not_found(_: Request, error: Exception) -> Response:
    assert isinstance(error, NotFound)  # noqa: S101 reason: registered for this class alone
    return answer({"error": error.message, "hint": error.hint}, 404)


async def not_taken(_: Request, error: Exception) -> Response:
    assert isinstance(error, NotTaken)  # noqa: S101 reason: registered for this class alone
    return answer({"error": error.message, "hint": error.hint}, 403)


async def http_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101 reason: registered for this class alone
    allowed = (error.headers or {}).get("Allow", "see docs/http.md")
    hints = {
        404: f"There is nothing at {request.url.path}; docs/http.md lists what there is.",
        405: f"{request.method} is not possible here; allowed: {allowed}.",
    }
    response = answer({"error": error.detail, "hint": hints.get(error.status_code, "")}, error.status_code)
    response.headers.update(error.headers or {})
    return response


async def crashed(_: Request, error: Exception) -> Response:
    """The traceback goes to the log, by whoever called us; the caller learns that it is there."""
    sentence = "something went wrong inside the gateway"
    return answer({"error": sentence, "hint": f"The gateway's log has the details ({type(error).__name__})."}, 500)
