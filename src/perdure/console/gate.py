"""Who may come in: the login, the cookie that remembers it, and what needs it."""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterable
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from perdure.console.answers import Refusal
from perdure.console.chats import read_body
from perdure.console.pages import page
from perdure.console.routes import Call, Endpoint, call
from perdure.console.tokens import same_token
from perdure.core import notes
from perdure.store.ids import wall_clock

LASTS = 30 * 24 * 60 * 60  # seconds that a browser stays logged in
_COOKIE = re.compile(r"([0-9]{1,12})\.([0-9a-f]{64})")


class Gate:
    """Lets in whoever shows the token, or the cookie that it was once exchanged for."""

    def __init__(self, token: str) -> None:
        self._token = token
        # Browsers send a cookie to every port of a machine, and several gateways may be at home on one.
        self._cookie = f"perdure_{self._sign('name')[:8]}"

    def routes(self, calls: Iterable[tuple[Call, Endpoint]]) -> list[Route]:
        """One route for each path, so that a method which it has not is answered with those that it has."""
        doors = {"no": lambda endpoint: endpoint, "api": self.api, "page": self.page}
        paths: dict[str, dict[str, Endpoint]] = {}
        for each, endpoint in calls:
            paths.setdefault(each.path, {})[each.method] = doors[each.login](endpoint)
        return [Route(path, _by_method(methods), methods=[*methods]) for path, methods in paths.items()]

    def api(self, endpoint: Endpoint) -> Endpoint:
        """A call for programs: without a login it is refused in JSON."""

        async def guarded(request: Request) -> Response:
            if not self._is_known(request):
                raise Refusal(401, notes.LOGIN_NEEDED, notes.HOW_TO_LOG_IN)
            return await endpoint(request)

        return guarded

    def page(self, endpoint: Endpoint) -> Endpoint:
        """A page for people: without a login it leads to the form for it."""

        async def guarded(request: Request) -> Response:
            return await endpoint(request) if self._is_known(request) else _go("/login")

        return guarded

    @call("GET", "/login", "a form; or, with `token`, what the link does that the gateway prints", login="no")
    async def ask(self, request: Request) -> Response:
        """The link that the gateway prints logs in; without a token, there is a form."""
        given = request.query_params.get("token")
        return page("login.html", problem="") if given is None else self._admit(request, given)

    @call("POST", "/login", "logs a browser in, with the `token` of the form", login="no")
    async def log_in(self, request: Request) -> Response:
        """What the form sends."""
        fields = parse_qs((await read_body(request)).decode(errors="replace"))
        return self._admit(request, fields.get("token", [""])[0].strip())

    @call("POST", "/logout", "logs this browser out", login="no")
    async def log_out(self, _: Request) -> Response:
        """This browser forgets the login; others keep theirs."""
        response = _go("/login")
        response.delete_cookie(self._cookie, httponly=True, samesite="lax")
        return response

    def _admit(self, request: Request, given: str) -> Response:
        if not same_token(given, self._token):
            if "text/html" in request.headers.get("accept", ""):
                return page("login.html", 401, problem=notes.LOGIN_REFUSED)
            raise Refusal(401, notes.LOGIN_REFUSED, notes.WHERE_THE_LOGIN_IS)
        response = _go("/")
        response.set_cookie(
            self._cookie,
            self._stamp(wall_clock() // 1000),
            max_age=LASTS,
            httponly=True,
            secure=request.url.scheme == "https",
            # Not `strict`: a link to a page of ours, opened from another site, would then ask for a login.
            samesite="lax",
        )
        return response

    def _is_known(self, request: Request) -> bool:
        if "authorization" in request.headers:
            scheme, _, given = request.headers["authorization"].partition(" ")
            return scheme.lower() == "bearer" and same_token(given.strip(), self._token)
        return self._is_ours(request.cookies.get(self._cookie, ""))

    def _is_ours(self, cookie: str) -> bool:
        found = _COOKIE.fullmatch(cookie)
        if found is None or not same_token(cookie, self._stamp(int(found[1]))):
            return False
        return 0 <= wall_clock() // 1000 - int(found[1]) <= LASTS

    def _stamp(self, second: int) -> str:
        """What a browser keeps: the token cannot be found from it, and another token makes it void."""
        return f"{second}.{self._sign(f'login {second}')}"

    def _sign(self, text: str) -> str:
        return hmac.digest(self._token.encode(), f"perdure {text}".encode(), "sha256").hex()


def _go(path: str) -> RedirectResponse:
    return RedirectResponse(path, 303)


def _by_method(methods: dict[str, Endpoint]) -> Endpoint:
    async def chosen(request: Request) -> Response:
        return await methods["GET" if request.method == "HEAD" else request.method](request)

    return chosen
