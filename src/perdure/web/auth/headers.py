"""Security headers on every response: which scripts may run, who may embed it, who may cache it."""

from __future__ import annotations

from starlette.types import ASGIApp, Message, Receive, Scope, Send

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
