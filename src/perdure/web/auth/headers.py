"""What every answer says to browsers: whose scripts may run, who may show it, who may keep it."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
SECURITY_HEADERS = [
    (b"content-security-policy", CONTENT_SECURITY_POLICY.encode()),
    (b"x-content-type-options", b"nosniff"),
    # Not `no-referrer`: a browser then hides from us, too, that a form of ours was sent by a page of ours.
    (b"referrer-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
]
DEFAULT_CACHE_CONTROL = (b"cache-control", b"no-store")


class SecurityHeaders:
    """The application behind, with these headers on every answer.

    Written for the server's interface itself: it costs an open stream one function, and no task.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def say(message: Message) -> None:
            if message["type"] == "http.response.start":
                given = message["headers"]
                said = any(name.lower() == DEFAULT_CACHE_CONTROL[0] for name, _ in given)
                message["headers"] = [*given, *SECURITY_HEADERS, *([] if said else [DEFAULT_CACHE_CONTROL])]
            await send(message)

        await self._app(scope, receive, say)
