"""The tool `fetch_url`, which reads pages at public IP addresses and nothing of the local network."""

from __future__ import annotations

import asyncio
import re
import socket
import zlib
from collections.abc import Callable
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import TYPE_CHECKING, Annotated

from msgspec import Struct
from msgspec.structs import replace

from perdure.core import texts
from perdure.core.effects import Effect
from perdure.core.tools import Tool
from perdure.errors import ToolFailed
from perdure.tools.blocking_jobs import run_in_thread, run_job
from perdure.tools.function_tools import tool
from perdure.version import __version__

if TYPE_CHECKING:
    import httpx


IpAddress = IPv4Address | IPv6Address
AddressCheck = Callable[[IpAddress], bool]

_GLOBAL_IPV6 = ip_network("2000::/3")  # all global unicast addresses
_NOT_PUBLIC = (
    # Older versions of Python take these for global, though they lead inside or through a translator.
    ip_network("192.0.0.0/24"),  # for protocols; some clouds serve secrets there
    ip_network("192.88.99.0/24"),  # relays to 6to4
    ip_network("168.63.129.16/32"),  # the host of a machine in Azure
    ip_network("2001::/23"),  # for protocols, Teredo among them
    ip_network("2001:db8::/32"),  # for examples
    ip_network("2002::/16"),  # 6to4: any address of IPv4, also a private one
    ip_network("3fff::/20"),  # for examples
)


def is_public(address: IpAddress) -> bool:
    """Whether this is an address of the public internet, and not a private one in another notation."""
    if address.version == 6 and address not in _GLOBAL_IPV6:
        return False  # among others those that hold an IPv4 address: ::ffff:…, ::…, 64:ff9b::…
    if any(address in network for network in _NOT_PUBLIC if network.version == address.version):
        return False
    special = address.is_multicast or address.is_reserved or address.is_unspecified or address.is_loopback
    return address.is_global and not (special or address.is_private or address.is_link_local)


async def resolve(host: str, port: int, permits: AddressCheck) -> list[IpAddress]:
    """The addresses of a host; `ToolFailed` if one of them is not permitted.

    A single forbidden address is enough: otherwise a name with a public and a private address would lead inside
    whenever the public one does not answer.
    """
    found = await run_in_thread(lambda: _addresses(host, port))
    for address in found:
        if not permits(address):
            raise ToolFailed(texts.tool_calls.fetch_not_public(host, str(address)))
    return found


def _addresses(host: str, port: int) -> list[IpAddress]:
    name = host.rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):  # always this machine, whatever DNS says
        return [IPv4Address("127.0.0.1"), IPv6Address("::1")]
    try:
        answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise ToolFailed(texts.tool_calls.fetch_unknown_host(host)) from error
    return list(dict.fromkeys(ip_address(answer[4][0]) for answer in answers))


CONNECT_SECONDS = 10.0
FETCH_SECONDS = 30.0  # for the whole call
MAX_BODY_BYTES = 2_000_000  # of a body
MAX_REDIRECTS = 5
MAX_ADDRESSES = 3  # of a host that are tried

_HEADERS = {
    "User-Agent": f"perdure/{__version__}",
    "Accept": "text/html, text/*, application/json, application/xml, */*;q=0.1",
    "Accept-Encoding": "gzip",
}
_TEXT = re.compile(r"text/.+|application/(.+\+)?(json|xml|javascript|yaml|x-ndjson|toml)")
_HTML = frozenset(("text/html", "application/xhtml+xml"))
_CHARSET = re.compile(rb"""<meta[^>]{0,200}charset\s{0,9}=\s{0,9}["']?([\w-]{1,40})""", re.IGNORECASE)


class FetchedResponse(Struct, frozen=True):
    """The response of a server, as far as it was read."""

    url: str
    status: str  # number and reason
    media_type: str
    charset: str
    size: str  # as the server says
    body: bytes = b""
    content_encoding: str = ""
    redirect: str = ""


def fetch_tool(*, allow_private: bool = False) -> Tool:
    """`fetch_url`, for the public internet, or for every address that this machine can reach."""
    permits: AddressCheck = (lambda _: True) if allow_private else is_public

    @tool(effect=Effect.PURE)
    async def fetch_url(url: Annotated[str, "The address, beginning with http:// or https://."]) -> str:
        """Get a page of the web as readable text. Text, HTML, JSON and XML are shown; of other files, the size."""
        return await fetch(url, permits=permits)

    return fetch_url.tool


async def fetch(url: str, *, permits: AddressCheck = is_public, timeout: float = FETCH_SECONDS) -> str:
    """The readable text of a page; redirects are followed, and checked like the first URL."""
    try:
        async with asyncio.timeout(timeout):
            answer = await _follow(url, permits)
            text, cut = await _response_text(answer, timeout / 3)
    except TimeoutError as error:
        raise ToolFailed(texts.tool_calls.fetch_timed_out(url, timeout)) from error
    if int(answer.status.split()[0]) >= 400:
        raise ToolFailed(texts.tool_calls.fetch_http_error(answer.url, answer.status, text))
    return texts.tool_calls.fetched_page(answer.url, answer.media_type, text, MAX_BODY_BYTES if cut else None)


async def _follow(url: str, permits: AddressCheck) -> FetchedResponse:
    first = url
    for _ in range(MAX_REDIRECTS + 1):
        answer = await _get(_parse(url), permits)
        if not answer.redirect:
            return answer
        url = answer.redirect
    raise ToolFailed(texts.tool_calls.fetch_too_many_redirects(first, MAX_REDIRECTS))


def _parse(url: str) -> httpx.URL:
    import httpx

    try:
        target = httpx.URL(url.strip())
    except httpx.InvalidURL as error:
        raise ToolFailed(texts.tool_calls.fetch_bad_url(url, str(error))) from error
    if target.scheme not in ("http", "https"):
        raise ToolFailed(texts.tool_calls.fetch_bad_url(url, "only http:// and https:// are fetched"))
    if not target.host:
        raise ToolFailed(texts.tool_calls.fetch_bad_url(url, "it names no host"))
    if target.userinfo:
        raise ToolFailed(texts.tool_calls.fetch_bad_url(url, "no user name or password may stand in it"))
    return target


async def _get(target: httpx.URL, permits: AddressCheck) -> FetchedResponse:
    """Request a URL from the first address of its host that can be reached."""
    import httpx

    host = target.raw_host.decode("ascii")
    port = target.port or (443 if target.scheme == "https" else 80)
    problems: list[str] = []
    for address in (await resolve(host, port, permits))[:MAX_ADDRESSES]:
        try:
            return await _ask(target, address, host)
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            problems.append(str(error) or type(error).__name__)
        except (httpx.HTTPError, httpx.InvalidURL) as error:  # it answered, so another address would not help
            problems.append(str(error) or type(error).__name__)
            break
    raise ToolFailed(texts.tool_calls.fetch_failed(str(target), problems))


async def _ask(target: httpx.URL, address: IpAddress, host: str) -> FetchedResponse:
    """Request a URL from an IP address that was checked: by now the name might resolve to another one.

    Each request has a connection of its own, whose certificate is checked for this host.
    """
    import httpx

    limits = httpx.Timeout(FETCH_SECONDS, connect=CONNECT_SECONDS)
    secure = httpx.create_ssl_context()
    async with (
        httpx.AsyncClient(verify=secure, timeout=limits, trust_env=False) as client,
        client.stream(
            "GET",
            target.copy_with(host=str(address)),
            headers={**_HEADERS, "Host": target.netloc.decode("ascii")},
            extensions={"sni_hostname": host.rstrip(".")},
        ) as response,
    ):
        return await _read_response(target, response)


async def _read_response(target: httpx.URL, response: httpx.Response) -> FetchedResponse:
    headers = response.headers
    kind = headers.get("Content-Type", "").partition(";")[0].strip().lower()
    answer = FetchedResponse(
        url=str(target),
        status=f"{response.status_code} {response.reason_phrase}".strip(),
        media_type=kind,
        charset=response.charset_encoding or "",
        size=headers.get("Content-Length", ""),
    )
    if response.has_redirect_location:
        return replace(answer, redirect=str(target.join(headers["Location"])))
    if not _is_text(kind):
        return answer
    return replace(
        answer, body=await _body(response), content_encoding=headers.get("Content-Encoding", "").strip().lower()
    )


def _is_text(media_type: str) -> bool:
    return not media_type or _TEXT.fullmatch(media_type) is not None


async def _body(response: httpx.Response) -> bytes:
    """The body as it is sent, or a little more of it than the limit."""
    body = bytearray()
    async for chunk in response.aiter_raw(65536):
        body += chunk
        if len(body) > MAX_BODY_BYTES:
            break
    return bytes(body)


# ── as text ─────────────────────────────────────────────────────────────────────────────────────────────────


async def _response_text(answer: FetchedResponse, seconds: float) -> tuple[str, bool]:
    """The text of a response, and whether it is truncated."""
    body = _decompress(answer)
    if body is None:
        return texts.tool_calls.fetch_unknown_encoding(answer.content_encoding), False
    if not _is_text(answer.media_type) or b"\0" in body[:1024]:
        return texts.tool_calls.fetch_not_text(answer.media_type, answer.size), False
    text = _decode(body[:MAX_BODY_BYTES], answer.charset)
    if answer.media_type in _HTML:
        text = await _html_to_text(text, answer.url, seconds)
    return text, len(body) > MAX_BODY_BYTES


def _decompress(answer: FetchedResponse) -> bytes | None:
    """The decompressed body, no longer than a little more than the limit; None for an unknown encoding."""
    if answer.content_encoding in ("", "identity"):
        return answer.body
    if answer.content_encoding not in ("gzip", "x-gzip", "deflate"):
        return None
    try:
        return zlib.decompressobj(wbits=47).decompress(answer.body, MAX_BODY_BYTES + 1)  # 47: gzip or zlib
    except zlib.error:
        return None


def _decode(body: bytes, charset: str) -> str:
    found = _CHARSET.search(body[:2048])
    named = charset or (found[1].decode("ascii", "replace") if found else "utf-8")
    try:
        return body.decode(named, "replace")
    except (LookupError, ValueError):  # an unknown charset, or one that is no text encoding
        return body.decode("utf-8", "replace")


async def _html_to_text(page: str, url: str, seconds: float) -> str:
    job = await run_job("html_text.py", page.encode(errors="replace"), url, str(seconds))
    return texts.tool_calls.fetched_raw_page(page) if job.timed_out or job.error else job.output.decode()
