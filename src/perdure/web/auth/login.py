"""The login by token or cookie, and the checks on every request that needs one."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from perdure.core import texts
from perdure.core.logins import HOME_LOGIN, Login, Scope
from perdure.logs import Log
from perdure.runtime.gateway import Gateway
from perdure.web.auth.lookup import COOKIE_MAX_AGE_SECONDS, LoginLookup
from perdure.web.auth.origin import HostNames, is_cross_site, is_from_our_page
from perdure.web.auth.throttle import LoginThrottle
from perdure.web.connection_limits import mark_logged_in
from perdure.web.pages.rendering import render_page
from perdure.web.requests import read_body
from perdure.web.responses import HttpRefusal, accepts_html
from perdure.web.routes import FORM, HTML, Endpoint, LoginNeed, RouteSpec, route
from perdure.web.schemas import LoginForm

log = Log("login")


class Authenticator:
    """Accepts requests with a login: by a token, or by the cookie that a browser got for a token.

    A right token is always accepted, in a header, a link or the form: wrong tokens, from whichever address, do
    not lock its owner out. No other site can make a browser send the header. The cookie is accepted only from our
    own pages, under our own host names. What the login lets its holder do, its scopes say.
    """

    def __init__(self, gateway: Gateway, token: str, host_names: HostNames) -> None:
        self._logins = LoginLookup(gateway, token)
        self._host_names = host_names
        self._throttle = LoginThrottle()

    def build_routes(self, specs: Iterable[tuple[RouteSpec, Endpoint]]) -> list[Route]:
        """One Starlette route per path, so that the response to an unknown method lists the allowed ones."""
        paths: dict[str, dict[str, Endpoint]] = {}
        for each, endpoint in specs:
            guarded = endpoint if each.scope is None else self._require_login(endpoint, each.scope, each.login)
            paths.setdefault(each.path, {})[each.method] = guarded
        return [Route(path, _dispatch_by_method(methods), methods=[*methods]) for path, methods in paths.items()]

    def _require_login(self, endpoint: Endpoint, scope: Scope, need: LoginNeed) -> Endpoint:
        """Wrap an endpoint: without a login, the API refuses with 401, and a page leads to the login form."""

        async def guarded(request: Request) -> Response:
            login = await self._identify(request)
            if login is None and need == "page":
                return _redirect("/login")
            if login is None:
                raise HttpRefusal(401, texts.http.NEEDED, texts.http.HEADER_HINT)
            mark_logged_in(request)
            request.state.login = login
            request.state.is_logged_in = partial(self._is_logged_in, request)
            require_scope(request, scope)
            return await endpoint(request)

        return guarded

    @route(
        "GET",
        "/login",
        "a form; or, with `token`, what the link does that the gateway prints",
        login="no",
        query=("token",),
        media_type=HTML,
        statuses=(200, 303),
    )
    async def login_form(self, request: Request) -> Response:
        """Log in by the link that the gateway prints; without a token, show the form."""
        given = request.query_params.get("token")
        if given is None:
            return render_page("login.html", problem="")
        return await self._log_in_with_token(request, given)

    @route(
        "POST",
        "/login",
        "logs a browser in, with the `token` of the form",
        login="no",
        body=LoginForm,
        body_media_type=FORM,
        statuses=(303,),
    )
    async def log_in(self, request: Request) -> Response:
        """Log in by the token that the form sends."""
        fields = parse_qs((await read_body(request)).decode(errors="replace"))
        return await self._log_in_with_token(request, fields.get("token", [""])[0].strip())

    @route("POST", "/logout", "logs this browser out", login="no", statuses=(303,))
    async def log_out(self, request: Request) -> Response:
        """End the cookie of this browser, and of whoever has copied it; other browsers stay logged in."""
        self._check_origin(request, is_cross_site(request))
        await self._logins.end_cookie(request.cookies.get(self._logins.cookie_name, ""))
        response = _redirect("/login")
        response.delete_cookie(self._logins.cookie_name, httponly=True, samesite="lax")
        return response

    async def _log_in_with_token(self, request: Request, given: str) -> Response:
        # Before the token is counted: another site must not use up the tries of its visitors.
        self._check_origin(request, is_cross_site(request))
        login = await self._logins.by_token(given)
        if login is None:
            return self._reject_token(request, given)
        self._throttle.record_success(_client_address(request))
        response = _redirect("/")
        response.set_cookie(
            self._logins.cookie_name,
            await self._logins.issue_cookie(login),
            max_age=COOKIE_MAX_AGE_SECONDS,
            httponly=True,
            secure=request.url.scheme == "https",
            # Not `strict`: a link from another site to one of our pages would then ask for a login.
            samesite="lax",
        )
        return response

    def _reject_token(self, request: Request, given: str) -> Response:
        self._check_throttle(request)
        self._count_wrong_token(request, given)
        if accepts_html(request):
            return render_page("login.html", 401, problem=texts.http.REFUSED)
        raise HttpRefusal(401, texts.http.REFUSED, texts.http.LINK_HINT)

    async def _identify(self, request: Request) -> Login | None:
        """The login of a request; a wrong token is counted, and a cookie from another site is refused."""
        login, given = await self._find_login(request), _bearer_token(request)
        if given is not None and login is None:
            self._check_throttle(request)
            self._count_wrong_token(request, given)
        if login is not None and "authorization" not in request.headers:
            self._check_origin(request, not is_from_our_page(request))
        return login

    async def _find_login(self, request: Request) -> Login | None:
        if "authorization" not in request.headers:
            return await self._logins.by_cookie(request.cookies.get(self._logins.cookie_name, ""))
        given = _bearer_token(request)
        return None if given is None else await self._logins.by_token(given)

    async def _is_logged_in(self, request: Request) -> bool:
        """Whether the login of a request still counts, for a response that takes long."""
        return await self._find_login(request) is not None

    def _check_throttle(self, request: Request) -> None:
        """Refuse a client that has sent too many wrong tokens; only a wrong token gets here."""
        if wait := self._throttle.seconds_to_wait(_client_address(request)):
            raise HttpRefusal(
                429, texts.http.TOO_MANY_WRONG_TOKENS, texts.http.retry_later(wait), retry_after_seconds=wait
            )

    def _count_wrong_token(self, request: Request, given: str) -> None:
        if wait := self._throttle.record_failure(_client_address(request), given):
            log.warning("wrong_tokens_throttled", client=_client_address(request), seconds=wait)

    def _check_origin(self, request: Request, cross_site: bool) -> None:
        host = request.headers.get("host", "")
        if not self._host_names.allows(host):
            raise HttpRefusal(403, texts.http.unknown_host(host), texts.http.UNKNOWN_HOST_HINT)
        if cross_site:
            raise HttpRefusal(403, texts.http.CROSS_SITE, texts.http.CROSS_SITE_HINT)


def login_of(request: Request) -> Login:
    """The login that made the request; every endpoint with a scope has one."""
    login: Login = request.state.login
    return login


def require_scope(request: Request, scope: Scope) -> None:
    """Refuse a request whose login has not this scope."""
    login = login_of(request)
    if scope not in login.scopes:
        hint = texts.logins.missing_scope_hint(scope, of_home=login.name == HOME_LOGIN)
        raise HttpRefusal(403, texts.logins.missing_scope(login.name, scope), hint)


def _bearer_token(request: Request) -> str | None:
    scheme, _, given = request.headers.get("authorization", "").partition(" ")
    return given.strip() if scheme.lower() == "bearer" else None


def _redirect(path: str) -> RedirectResponse:
    return RedirectResponse(path, 303)


def _client_address(request: Request) -> str:
    return request.client.host if request.client else ""


def _dispatch_by_method(methods: dict[str, Endpoint]) -> Endpoint:
    async def chosen(request: Request) -> Response:
        return await methods["GET" if request.method == "HEAD" else request.method](request)

    return chosen
