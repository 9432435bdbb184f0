"""The login by token or cookie, and the checks on every request that needs one."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import Route

from perdure.core import texts
from perdure.logs import Log
from perdure.store.ids import wall_clock
from perdure.web.auth.cookie import COOKIE_MAX_AGE_SECONDS, LoginCookie
from perdure.web.auth.origin import HostNames, is_cross_site, is_from_our_page
from perdure.web.auth.throttle import LoginThrottle
from perdure.web.auth.token import tokens_match
from perdure.web.connection_limits import mark_logged_in
from perdure.web.pages.rendering import render_page
from perdure.web.requests import read_body
from perdure.web.responses import HttpRefusal, accepts_html
from perdure.web.routes import FORM, HTML, Endpoint, RouteSpec, route
from perdure.web.schemas import LoginForm

log = Log("login")


class Authenticator:
    """Accepts requests with the login token, or with the cookie that a browser got for the token.

    The right token is always accepted, in a header, a link or the form: wrong tokens, from whichever address, do
    not lock its owner out. No other site can make a browser send the header. The cookie is accepted only from our
    own pages, under our own host names.
    """

    def __init__(self, token: str, host_names: HostNames) -> None:
        self._token = token
        self._host_names = host_names
        self._cookie = LoginCookie(token)
        self._throttle = LoginThrottle()

    def build_routes(self, specs: Iterable[tuple[RouteSpec, Endpoint]]) -> list[Route]:
        """One Starlette route per path, so that the response to an unknown method lists the allowed ones."""
        guards = {"no": lambda endpoint: endpoint, "api": self.require_api_login, "page": self.require_page_login}
        paths: dict[str, dict[str, Endpoint]] = {}
        for each, endpoint in specs:
            paths.setdefault(each.path, {})[each.method] = guards[each.login](endpoint)
        return [Route(path, _dispatch_by_method(methods), methods=[*methods]) for path, methods in paths.items()]

    def require_api_login(self, endpoint: Endpoint) -> Endpoint:
        """Wrap an endpoint of the API: without a login, the request is refused with 401."""

        async def guarded(request: Request) -> Response:
            if not self._is_logged_in(request):
                raise HttpRefusal(401, texts.http.NEEDED, texts.http.HEADER_HINT)
            mark_logged_in(request)
            return await endpoint(request)

        return guarded

    def require_page_login(self, endpoint: Endpoint) -> Endpoint:
        """Wrap a page: without a login, the browser is redirected to the login form."""

        async def guarded(request: Request) -> Response:
            if not self._is_logged_in(request):
                return _redirect("/login")
            mark_logged_in(request)
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
        return render_page("login.html", problem="") if given is None else self._log_in_with_token(request, given)

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
        return self._log_in_with_token(request, fields.get("token", [""])[0].strip())

    @route("POST", "/logout", "logs this browser out", login="no", statuses=(303,))
    async def log_out(self, request: Request) -> Response:
        """Delete the cookie of this browser; other browsers stay logged in."""
        self._check_origin(request, is_cross_site(request))
        response = _redirect("/login")
        response.delete_cookie(self._cookie.name, httponly=True, samesite="lax")
        return response

    def _log_in_with_token(self, request: Request, given: str) -> Response:
        # Before the token is counted: another site must not use up the tries of its visitors.
        self._check_origin(request, is_cross_site(request))
        if not tokens_match(given, self._token):
            return self._reject_token(request, given)
        self._throttle.record_success(_client_address(request))
        response = _redirect("/")
        response.set_cookie(
            self._cookie.name,
            self._cookie.issue(wall_clock() // 1000),
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

    def _is_logged_in(self, request: Request) -> bool:
        if "authorization" in request.headers:
            return self._has_bearer_token(request)
        if not self._cookie.is_valid(request.cookies.get(self._cookie.name, ""), wall_clock() // 1000):
            return False
        self._check_origin(request, not is_from_our_page(request))
        return True

    def _has_bearer_token(self, request: Request) -> bool:
        scheme, _, given = request.headers["authorization"].partition(" ")
        if scheme.lower() != "bearer":
            return False
        if tokens_match(given.strip(), self._token):
            return True
        self._check_throttle(request)
        self._count_wrong_token(request, given)
        return False

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


def _redirect(path: str) -> RedirectResponse:
    return RedirectResponse(path, 303)


def _client_address(request: Request) -> str:
    return request.client.host if request.client else ""


def _dispatch_by_method(methods: dict[str, Endpoint]) -> Endpoint:
    async def chosen(request: Request) -> Response:
        return await methods["GET" if request.method == "HEAD" else request.method](request)

    return chosen
