"""The chat page."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from perdure.runtime.gateway import Gateway
from perdure.web.pages.rendering import render_page
from perdure.web.routes import route


class ChatPage:
    def __init__(self, gateway: Gateway, *, demo: bool, supervised: bool) -> None:
        self._gateway = gateway
        self._demo = demo
        self._supervised = supervised  # whether a supervisor restarts the gateway when its process dies

    @route("GET", "/", "the chat page, with a new chat", login="page")
    async def new(self, _: Request) -> Response:
        return self._render()

    @route("GET", "/chats/{chat:path}", "the chat page, with that chat", login="page")
    async def existing(self, _: Request) -> Response:
        """The page's script reads the name of the chat from the URL."""
        return self._render()

    def _render(self) -> Response:
        return render_page(
            "chat.html",
            demo=self._demo,
            supervised=self._supervised,
            commands=list(self._gateway.loops.commands.registry.values()),
        )
