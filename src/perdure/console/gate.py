"""Who may come in: the login, and what is asked of everybody who shows one."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from perdure.console.answers import Refusal
from perdure.console.bodies import read_body
from perdure.console.pages import page
from perdure.console.routes import FORM, PAGE, Call, Endpoint, call
from perdure.console.seal import LASTS, Seal
from perdure.console.shapes import Token
from perdure.console.sites import Names, is_foreign, is_ours
from perdure.console.tokens import same_token
from perdure.console.tries import Tries
from perdure.core import notes
from perdure.logs import Log
from perdure.store.ids import wall_clock

log = Log("gate")


class Gate:
    """Lets in whoever shows the token, or the cookie that it was once exchanged for.

    A header with the right token counts always: nobody can send it for somebody else, and no stranger's wrong ones
    keep its owner out. The cookie counts only if a page of ours sends it, under a name of ours.
    """

    def __init__(self, token: str, names: Names) -> None:
        self._token = token
        self._names = names
        self._seal = Seal(token)
        self._tries = Tries()

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

    @call(
        "GET",
        "/login",
        "a form; or, with `token`, what the link does that the gateway prints",
        login="no",
        query=("token",),
        kind=PAGE,
        statuses=(200, 303),
    )
    async def ask(self, request: Request) -> Response:
        """The link that the gateway prints logs in; without a token, there is a form."""
        given = request.query_params.get("token")
        return page("login.html", problem="") if given is None else self._admit(request, given)

    @call(
        "POST",
        "/login",
        "logs a browser in, with the `token` of the form",
        login="no",
        body=Token,
        takes=FORM,
        statuses=(303,),
    )
    async def log_in(self, request: Request) -> Response:
        """What the form sends."""
        fields = parse_qs((await read_body(request)).decode(errors="replace"))
        return self._admit(request, fields.get("token", [""])[0].strip())

    @call("POST", "/logout", "logs this browser out", login="no", statuses=(303,))
    async def log_out(self, request: Request) -> Response:
        """This browser forgets the login; others keep theirs."""
        self._check_site(request, is_foreign(request))
        response = _go("/login")
        response.delete_cookie(self._seal.name, httponly=True, samesite="lax")
        return response

    def _admit(self, request: Request, given: str) -> Response:
        # Before it is counted: no other site must use up the tries of whoever visits it.
        self._check_site(request, is_foreign(request))
        if wait := self._tries.wait(_client(request)):
            raise Refusal(429, notes.TOO_MANY_LOGINS, notes.log_in_later(wait), again=wait)
        if not same_token(given, self._token):
            return self._reject(request, given)
        self._tries.succeeded(_client(request))
        response = _go("/")
        response.set_cookie(
            self._seal.name,
            self._seal.stamp(wall_clock() // 1000),
            max_age=LASTS,
            httponly=True,
            secure=request.url.scheme == "https",
            # Not `strict`: a link to a page of ours, opened from another site, would then ask for a login.
            samesite="lax",
        )
        return response

    def _reject(self, request: Request, given: str) -> Response:
        self._count(request, given)
        if "text/html" in request.headers.get("accept", ""):
            return page("login.html", 401, problem=notes.LOGIN_REFUSED)
        raise Refusal(401, notes.LOGIN_REFUSED, notes.WHERE_THE_LOGIN_IS)

    def _is_known(self, request: Request) -> bool:
        if "authorization" in request.headers:
            return self._has_token(request)
        if not self._seal.is_good(request.cookies.get(self._seal.name, ""), wall_clock() // 1000):
            return False
        self._check_site(request, not is_ours(request))
        return True

    def _has_token(self, request: Request) -> bool:
        scheme, _, given = request.headers["authorization"].partition(" ")
        if scheme.lower() != "bearer":
            return False
        if same_token(given.strip(), self._token):
            return True
        if wait := self._tries.wait(_client(request)):
            raise Refusal(429, notes.TOO_MANY_LOGINS, notes.log_in_later(wait), again=wait)
        self._count(request, given)
        return False

    def _count(self, request: Request, given: str) -> None:
        if wait := self._tries.failed(_client(request), given):
            log.warning("logins_refused", client=_client(request), seconds=wait)

    def _check_site(self, request: Request, foreign: bool) -> None:
        host = request.headers.get("host", "")
        if not self._names.has(host):
            raise Refusal(403, notes.not_our_name(host), notes.USE_OUR_NAME)
        if foreign:
            raise Refusal(403, notes.OTHER_SITE, notes.USE_OUR_PAGES)


def _go(path: str) -> RedirectResponse:
    return RedirectResponse(path, 303)


def _client(request: Request) -> str:
    return request.client.host if request.client else ""


def _by_method(methods: dict[str, Endpoint]) -> Endpoint:
    async def chosen(request: Request) -> Response:
        return await methods["GET" if request.method == "HEAD" else request.method](request)

    return chosen
