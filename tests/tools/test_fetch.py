"""The tool that reads the web, against real servers: what it shows, what it refuses, and where it never goes.

Drives `tools/fetch` and `tools/html_text`.
"""

from __future__ import annotations

import gzip
import ipaddress
import ssl
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perdure.core.effects import Effect
from perdure.core.tools import Use
from perdure.errors import ToolFailed
from perdure.tools.blocking_jobs import run_job
from perdure.tools.fetch import MAX_BODY_BYTES, MAX_REDIRECTS, IpAddress, fetch, fetch_tool
from support.certificates import certificate_for
from support.page_server import PageServer, ServedPage, page_server

pytestmark = pytest.mark.anyio

HTML = "text/html; charset=utf-8"


def here_only(address: IpAddress) -> bool:
    """Permits the server of the test, and stands for the public internet."""
    return address == ipaddress.ip_address("127.0.0.1")


@pytest.fixture
def server() -> Iterator[PageServer]:
    with page_server() as server:
        yield server


async def read(url: str, *, allow_private: bool = True) -> str:
    return await fetch_tool(allow_private=allow_private).run(Use({"url": url}, "turn:call"))


async def refusal(url: str, *, allow_private: bool = True) -> str:
    with pytest.raises(ToolFailed) as refused:
        await read(url, allow_private=allow_private)
    return refused.value.message


def test_b61_fetching_may_be_repeated() -> None:
    assert fetch_tool().name == "fetch_url"
    assert fetch_tool().effect is Effect.PURE


# ── what is shown ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("page", "shown"),
    [
        (ServedPage(b"plain"), "plain"),
        (ServedPage(b'{"a": 1}', "application/json"), '{"a": 1}'),
        (ServedPage(b'{"a": 1}', "application/ld+json"), '{"a": 1}'),
        (ServedPage(b"<a>1</a>", "application/xml"), "<a>1</a>"),
        (ServedPage(b"<rss/>", "application/rss+xml"), "<rss/>"),
        (ServedPage(b"caf\xe9", "text/plain; charset=ISO-8859-1"), "café"),
        (ServedPage("café".encode(), "text/plain"), "café"),
        (ServedPage(b"caf\xe9", "text/plain; charset=no-such"), "caf\N{REPLACEMENT CHARACTER}"),
        (ServedPage(b"caf\xe9", "text/plain; charset=zlib"), "caf\N{REPLACEMENT CHARACTER}"),
        (ServedPage(b'<meta charset="latin1"><p>caf\xe9', "text/html"), "café"),
        (ServedPage(b"no type", None), "no type"),
        (ServedPage(b"", "text/plain"), "(nothing to read)"),
        (ServedPage(gzip.compress(b"packed", mtime=0), headers=(("Content-Encoding", "gzip"),)), "packed"),
        (ServedPage(zlib.compress(b"packed"), headers=(("Content-Encoding", "deflate"),)), "packed"),
        (ServedPage(b"?", headers=(("Content-Encoding", "br"),)), "cannot be unpacked: br."),
        (ServedPage(b"no gzip", headers=(("Content-Encoding", "gzip"),)), "cannot be unpacked: gzip."),
        (ServedPage(b"\x89PNG\0", "image/png"), "(This is not text but image/png, 5 bytes.)"),
        (ServedPage(b"PK\0", None), "(This is not text but something else, 3 bytes.)"),
        (ServedPage(b"\x7fELF\0", "text/plain"), "(This is not text but text/plain, 5 bytes.)"),
        (ServedPage(b"<p>x", "application/xhtml+xml"), "x"),
    ],
    ids=lambda case: f"{case.kind} {case.body[:12]!r}" if isinstance(case, ServedPage) else "",
)
async def test_text_is_shown_and_other_things_are_named(server: PageServer, page: ServedPage, shown: str) -> None:
    server.pages["/"] = page
    head, _, text = (await read(server.url())).partition(":\n\n")
    kind = page.kind.partition(";")[0] if page.kind else "no type given"
    assert head == f"`{server.url()}` ({kind})"
    assert shown in text


PAGE = """<!doctype html>
<html><head><title>A &amp; B</title><style>p { color: red }</style><script>alert("<p>no</p>")</script></head>
<body><nav><a href="/start">Start</a> <a href="#top">Top</a> <a href="javascript:x()">Click</a></nav>
<h1>The   first
heading</h1><p>Some <b>bold</b> text&nbsp;with a <a href="../other?a=1&amp;b=2">link <i>in</i> it</a>.</p>
<svg><text>drawn</text></svg><noscript>Without scripts.</noscript>
<ul><li>one<li>two</ul><pre>  keep
    this</pre><table><tr><td>1</td><td>2</td></tr><tr><td>3</td></tr></table>
<img src="x.png" alt="a cat"><br>end</body></html>"""

READABLE = """A & B

[Start](http://HOST/start) Top Click

# The first heading

Some bold text with a [link in it](http://HOST/other?a=1&b=2).

Without scripts.

- one
- two

  keep
    this

1 2
3

[image: a cat]
end"""


async def test_html_is_reduced_to_what_a_person_reads(server: PageServer) -> None:
    server.pages["/docs/page"] = ServedPage(PAGE.encode(), HTML)
    shown = await read(server.url("/docs/page"))
    assert shown.partition(":\n\n")[2] == READABLE.replace("HOST", f"127.0.0.1:{server.port}")


@pytest.mark.parametrize("piece", ["<div ", "<!--", "<![", "<svg>", "<a href=x>y"])
async def test_page_that_is_made_to_take_for_ever_is_given_up(piece: str) -> None:
    work = await run_job("html_text.py", (piece * 200_000).encode(), "http://localhost/", "0.5")
    assert work.timed_out or work.error or len(work.output) <= 400_000


async def test_page_is_shown_as_it_is_when_it_cannot_be_reduced(server: PageServer) -> None:
    server.pages["/"] = ServedPage(b"<div " * 100_000, HTML)
    shown = await fetch(server.url(), permits=here_only, timeout=9.0)
    assert shown.startswith(f"`{server.url()}` (text/html")


async def test_body_is_cut_when_it_is_too_long(server: PageServer) -> None:
    server.pages["/"] = ServedPage(b"x" * (MAX_BODY_BYTES + 1_000_000))
    shown = await read(server.url())
    assert f"(text/plain, only the first {MAX_BODY_BYTES} bytes)" in shown
    assert shown.endswith(f":\n\n{'x' * MAX_BODY_BYTES}")


async def test_body_that_unpacks_to_something_huge_is_cut(server: PageServer) -> None:
    server.pages["/"] = ServedPage(
        gzip.compress(b"%" * 100_000_000, 1, mtime=0), headers=(("Content-Encoding", "gzip"),)
    )
    assert (await read(server.url())).count("%") == MAX_BODY_BYTES


@pytest.mark.parametrize(
    ("page", "sentence"),
    [
        (ServedPage(b"no such page", status=404), "answered 404 Not Found. Its answer begins:\nno such page"),
        (
            ServedPage(b"<h1>Broken</h1>", HTML, status=500),
            "answered 500 Internal Server Error. Its answer begins:\n# Broken",
        ),
        (ServedPage(b"", status=503), "answered 503 Service Unavailable."),
        (ServedPage(b"z" * 100_000, status=403), "characters left out"),
    ],
    ids=lambda case: str(case.status) if isinstance(case, ServedPage) else "",
)
async def test_refusal_of_the_server_is_told(server: PageServer, page: ServedPage, sentence: str) -> None:
    server.pages["/x"] = page
    said = await refusal(server.url("/x"))
    assert sentence in said
    assert len(said) < 2000


# ── how it asks ─────────────────────────────────────────────────────────────────────────────────────────────


async def test_server_is_asked_by_the_name_in_the_url(server: PageServer) -> None:
    server.pages["/p?q=1"] = ServedPage(b"found")
    await read(server.url("/p?q=1#part", host="name.localhost"))
    [asked] = server.requests
    assert asked.path == "/p?q=1"
    assert asked.headers["Host"] == f"name.localhost:{server.port}"
    assert asked.headers["User-Agent"].startswith("perdure/")


async def test_proxies_of_the_environment_are_ignored(server: PageServer, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    server.pages["/"] = ServedPage(b"found")
    assert "found" in await read(server.url())


async def test_cookies_are_not_carried_along(server: PageServer) -> None:
    server.pages["/a"] = ServedPage(status=302, headers=(("Location", "/b"), ("Set-Cookie", "who=me")))
    server.pages["/b"] = ServedPage(b"found")
    await read(server.url("/a"))
    assert [asked.headers["Cookie"] for asked in server.requests] == [None, None]


async def test_silent_server_is_given_up(server: PageServer) -> None:
    server.pages["/"] = ServedPage(b"begun", endless=True)
    with pytest.raises(ToolFailed, match=r"was not read to its end within 0\.5 s"):
        await fetch(server.url(), permits=here_only, timeout=0.5)


async def test_failures_of_the_network_are_told() -> None:
    with page_server() as server:
        url = server.url()
    assert "could not be fetched: All connection attempts failed" in await refusal(url)
    assert "There is no host `no.such.host.invalid`" in await refusal("http://no.such.host.invalid/")
    assert "There is no host" in await refusal(f"http://{'a' * 64}.example/")


# ── redirects ───────────────────────────────────────────────────────────────────────────────────────────────


def chain(server: PageServer, hops: int) -> None:
    for hop in range(hops):
        server.pages[f"/{hop}"] = ServedPage(status=302, headers=(("Location", f"{hop + 1}"),))
    server.pages[f"/{hops}"] = ServedPage(b"the end")


async def test_redirects_are_followed_and_the_last_address_is_named(server: PageServer) -> None:
    chain(server, MAX_REDIRECTS)
    assert await read(server.url("/0")) == f"`{server.url(f'/{MAX_REDIRECTS}')}` (text/plain):\n\nthe end"


async def test_redirects_are_not_followed_for_ever(server: PageServer) -> None:
    chain(server, MAX_REDIRECTS + 1)
    assert f"more than {MAX_REDIRECTS} redirects" in await refusal(server.url("/0"))
    assert len(server.requests) == MAX_REDIRECTS + 1


@pytest.mark.parametrize(
    "target",
    [
        "http://127.0.0.2:PORT/secret",
        "//127.0.0.2:PORT/secret",
        "http://2130706434:PORT/secret",
        "http://0x7f000002:PORT/secret",
        "http://[::1]:PORT/secret",
        "http://[::ffff:127.0.0.1]:PORT/secret",
        "http://localhost:PORT/secret",
        "http://0.0.0.0:PORT/secret",
        "http://169.254.169.254/latest/meta-data/",
        "http://user:password@127.0.0.1:PORT/secret",
        "file:///etc/passwd",
        "gopher://127.0.0.1:PORT/_secret",
        "ftp://127.0.0.1:PORT/secret",
        "http://[::1",
    ],
)
async def test_redirect_is_not_followed_where_the_first_address_could_not_lead(
    server: PageServer, target: str
) -> None:
    server.pages["/"] = ServedPage(status=301, headers=(("Location", target.replace("PORT", str(server.port))),))
    server.pages["/secret"] = ServedPage(b"secret")
    with pytest.raises(ToolFailed, match=r"not on the public internet|cannot be fetched|could not be fetched"):
        await fetch(server.url(), permits=here_only)
    assert [asked.path for asked in server.requests] == ["/"]


# ── the guard ───────────────────────────────────────────────────────────────────────────────────────────────

INSIDE = [
    "http://127.0.0.1:PORT/secret",
    "http://127.1:PORT/secret",
    "http://127.0.1:PORT/secret",
    "http://2130706433:PORT/secret",
    "http://0x7f000001:PORT/secret",
    "http://0x7f.1:PORT/secret",
    "http://017700000001:PORT/secret",
    "http://0177.0.0.1:PORT/secret",
    "http://0x7f.0x0.0x0.0x1:PORT/secret",
    "http://0:PORT/secret",
    "http://0.0.0.0:PORT/secret",
    "http://127.0.0.1.:PORT/secret",
    "http://localhost:PORT/secret",
    "http://localhost.:PORT/secret",
    "http://LOCALHOST:PORT/secret",
    "http://a.b.localhost:PORT/secret",
    "https://localhost:PORT/secret",
    "http://[::1]:PORT/secret",
    "http://[0:0:0:0:0:0:0:1]:PORT/secret",
    "http://[::]:PORT/secret",
    "http://[::ffff:127.0.0.1]:PORT/secret",
    "http://[::ffff:7f00:1]:PORT/secret",
    "http://[::127.0.0.1]:PORT/secret",
    "http://[64:ff9b::127.0.0.1]:PORT/secret",
    "http://[2002:7f00:1::]:PORT/secret",
    "http://[fe80::1]:PORT/secret",
    "http://[fd00:ec2::254]/latest/",
    "http://169.254.169.254/latest/meta-data/",
    "http://2852039166/latest/meta-data/",
    "http://100.100.100.200/latest/",
    "http://10.0.0.1/",
    "http://192.168.0.1/",
    "http://172.16.0.1/",
    "http://224.0.0.1/",
    "http://255.255.255.255/",
]
NO_URLS = [
    "http://example.org@127.0.0.1:PORT/secret",
    "http://127.0.0.1@example.org/",
    "http://example.org\\@127.0.0.1:PORT/secret",
    "http://user:password@example.org/",
    "http://127.0.0.1:PORT:80/secret",
    "http://①②⑦.⓪.⓪.①:PORT/secret",
    "http://exa\tmple.org/",
    "http://[::1",
    "http:///secret",
    "http:127.0.0.1:PORT",
    "//127.0.0.1:PORT/secret",
    "127.0.0.1:PORT/secret",
    "file:///etc/passwd",
    "file://localhost/etc/passwd",
    "gopher://127.0.0.1:PORT/_secret",
    "ftp://127.0.0.1/",
    "dict://127.0.0.1:PORT/",
    "data:text/plain,secret",
    "javascript:alert(1)",
    "unix:///var/run/docker.sock",
    "",
    "secret",
]


@pytest.mark.parametrize("url", INSIDE)
async def test_address_that_is_not_public_is_never_asked(server: PageServer, url: str) -> None:
    server.pages["/secret"] = ServedPage(b"secret")
    sentence = await refusal(url.replace("PORT", str(server.port)), allow_private=False)
    assert (
        "is not on the public internet" in sentence or "cannot be fetched: " in sentence or "no host" in sentence
    )
    assert server.requests == []


@pytest.mark.parametrize("url", NO_URLS)
async def test_what_is_no_address_of_the_web_is_refused_always(server: PageServer, url: str) -> None:
    sentence = await refusal(url.replace("PORT", str(server.port)))
    assert "cannot be fetched: " in sentence
    assert server.requests == []


async def test_every_address_of_a_host_must_be_permitted(server: PageServer) -> None:
    with pytest.raises(ToolFailed, match=r"`localhost` \(::1\) is not on the public internet"):
        await fetch(server.url(host="localhost"), permits=here_only)
    assert server.requests == []


# ── certificates ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A certificate for one name, and for no address, with its key."""
    return certificate_for("named.localhost", tmp_path_factory.mktemp("tls"))


@pytest.fixture
def secure(certificate: Path) -> Iterator[tuple[PageServer, list[Any]]]:
    """A server with that certificate, and the names by which it is addressed."""
    names: list[Any] = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    context.sni_callback = lambda _, name, __: names.append(name)
    with page_server(context) as server:
        server.pages["/"] = ServedPage(b"found")
        yield server, names


async def test_certificate_is_checked_for_the_name_though_the_address_is_asked(
    secure: tuple[PageServer, list[Any]], certificate: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    server, names = secure
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    assert "found" in await read(server.url(host="named.localhost", scheme="https"))
    assert names == ["named.localhost"]
    assert "could not be fetched" in await refusal(server.url(host="other.localhost", scheme="https"))
    assert "could not be fetched" in await refusal(server.url(scheme="https"))
    assert len(server.requests) == 1


async def test_certificate_is_refused_when_nobody_vouches_for_it(secure: tuple[PageServer, list[Any]]) -> None:
    server, _ = secure
    assert "CERTIFICATE_VERIFY_FAILED" in await refusal(server.url(host="named.localhost", scheme="https"))
    assert server.requests == []
