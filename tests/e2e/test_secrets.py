"""Secrets show up nowhere (B103): put wherever one can be, and looked for in all that can be read.

Drives `core/printable_text`, `config/secrets` and `logs`.
"""

from __future__ import annotations

import json
import re
import ssl
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from perdure.testing.providers import Fails, LocalProvider, Says
from perdure.testing.telegram import LocalTelegram
from support.gateway import COMMAND, GatewayProcess, Person, gateway
from support.mcp_process import stdio_command
from support.openapi_check import all_api_calls
from support.waiting import wait_for

NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # and no reading of certificates for each request
MODEL = "sk-hush-model-key-4711"
VARIABLE = "sk-hush-variable-key-4712"
TELEGRAM = "7000002:hush-telegram-token-4713"
DATABASE = "hush-database-word-4714"
SERVER = "hush-mcp-variable-4715"
TOKEN = "hush-login-token-4716"  # noqa: S105 reason: opens nothing but this test's gateway


@pytest.fixture(scope="module")
def provider() -> Iterator[LocalProvider]:
    with LocalProvider(key=MODEL) as running:
        yield running


@pytest.fixture(scope="module")
def telegram() -> Iterator[LocalTelegram]:
    with LocalTelegram(token=TELEGRAM) as running:
        yield running


@contextmanager
def secretive(home: Path, url: str, provider: LocalProvider, telegram: LocalTelegram) -> Iterator[GatewayProcess]:
    """A gateway that has a secret wherever one can be, and tells as much as it can."""
    home.mkdir(mode=0o700)
    (home / "token").touch(mode=0o600)
    (home / "token").write_text(TOKEN)
    servers = {
        "good": {"command": stdio_command(), "env": {"API_WORD": SERVER}},
        "bad": {
            "command": ["/bin/sh", "-c", "echo failed with $API_WORD >&2; exit 1"],
            "env": {"API_WORD": SERVER},
        },
    }
    parts = urlsplit(url)
    settings = {
        "LOG": "debug",
        "STORE__URL": parts._replace(netloc=parts.netloc.replace("@", f":{DATABASE}@")).geturl(),
        "MODEL__NAME": "openai:local",
        "MODEL__BASE_URL": provider.openai_url,
        "MODEL__API_KEY": MODEL,
        "PLATFORMS__TELEGRAM__TOKEN": TELEGRAM,
        "PLATFORMS__TELEGRAM__BASE_URL": telegram.url,
        "TOOLS__MCP": json.dumps(servers),
    }
    with gateway(home, **settings) as process:
        yield process


def test_b103_secrets_show_up_nowhere(
    tmp_path: Path, postgres_url: str, provider: LocalProvider, telegram: LocalTelegram
) -> None:
    with secretive(tmp_path / "home", postgres_url, provider, telegram) as process:
        code = everything_goes_wrong(process, provider, telegram)
        secrets = [MODEL, TELEGRAM, DATABASE, SERVER, TOKEN, code, code.replace("-", "")]
        for where, text in everything_readable(process):
            found = [secret for secret in secrets if secret in text]
            assert not found, f"{where} shows {found}: …{around(text, found[0])}…"


def around(text: str, secret: str) -> str:
    place = text.index(secret)
    return text[max(0, place - 200) : place + 100]


def everything_goes_wrong(process: GatewayProcess, provider: LocalProvider, telegram: LocalTelegram) -> str:
    """Errors that repeat a secret, a message that is answered, and a stranger who is told a code."""
    person = Person(process)
    provider.script = [Fails(400, message=f"what is {MODEL} supposed to mean?"), Says("All is well.")]
    person.say("hello")
    assert "***" in person.wait_for_replies(1)[0], "the provider's own words, without the key"
    person.say("hello again")
    person.wait_for_replies(2)
    for wrong in (f"{TOKEN}x", "hush"):
        httpx.get(f"{process.url}/login", params={"token": wrong})
        httpx.get(f"{process.url}/api/status", headers={"Authorization": f"Bearer {wrong}"})
    eve = telegram.person("eve")
    telegram.write("let me in", sender="eve", chat=eve)
    said = wait_for("the stranger is told a code", lambda: telegram.texts(eve))
    code = re.search(r"perdure pair ([A-Z0-9-]+)", said[0])
    assert code is not None
    wait_for("the code counts as told", lambda: "sent" in states(process))
    return code[1]


def states(process: GatewayProcess) -> list[str]:
    rows = ask(process, "GET", "/api/outbox").json()["outbox"]
    return [row["state"] for row in rows if row["lane"].startswith("telegram:")]


def ask(process: GatewayProcess, method: str, path: str) -> httpx.Response:
    headers = {"Authorization": f"Bearer {TOKEN}"}
    return httpx.request(method, process.url + path, headers=headers, timeout=60, verify=NO_TLS)


def everything_readable(process: GatewayProcess) -> Iterator[tuple[str, str]]:
    """Whatever somebody can read of a gateway: what it logs, answers, prints and exports."""
    yield "the log", process.log()
    listed = {
        "{session}": ask(process, "GET", "/api/sessions").json()["sessions"][0]["id"],
        "{chat}": "home",
        "{id}": "nothing",
        "{name}": "perdure.css",
        "{verb}": "fly",
    }
    for call in all_api_calls():
        if call.path.endswith("/events") or call.path == "/api/demo/kill":
            continue
        path = re.sub(r"{\w+}", lambda found: listed.get(found[0], "nothing"), call.documented_path)
        answer = ask(process, call.method, path)
        assert answer.status_code < 500, f"{call.method} {path}"
        yield f"{call.method} {path}", f"{answer.headers} {answer.text}"
    for words in (["export"], ["config", "check"], ["status", "--json"]):
        ran = subprocess.run([*COMMAND, *words], env=process.environment(), capture_output=True, text=True)
        assert ran.returncode == 0, ran.stderr
        yield f"perdure {' '.join(words)}", ran.stdout + ran.stderr


def test_b103_errors_of_the_configuration_show_no_secret(tmp_path: Path) -> None:
    settings = {
        "PERDURE_STORE__URL": f"postgres://me:{DATABASE}@nowhere/x",
        "PERDURE_MODEL__API_KEY": "",
        "PERDURE_PLATFORMS__TELEGRAM__TOKN": TELEGRAM,
        "PERDURE_TOOLS__MCP": f'{{"bad": {{"env": {{"WORD": "{SERVER}"}}, "x": 1}}}}',
        "PERDURE_WEB__HOST": f"http://me:{DATABASE}@here",
        "PERDURE_HOME": str(tmp_path / "home"),
        "OPENAI_API_KEY": VARIABLE,
    }
    for words in (["config", "check"], ["run"]):
        ran = subprocess.run([*COMMAND, *words], env=settings, capture_output=True, text=True, timeout=60)
        assert ran.returncode == 78
        shown = ran.stdout + ran.stderr
        assert [secret for secret in (DATABASE, TELEGRAM, SERVER, VARIABLE) if secret in shown] == []
