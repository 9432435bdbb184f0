"""The gateway as a process: what it prints, how it stops, what it refuses, and what it leaves behind.

Drives `cli`, `web/server` and `runtime/gateway`.
"""

from __future__ import annotations

import os
import re
import signal
import socket
import sqlite3
import stat
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest

from perdure import __version__
from perdure.store.migrate import prepare_sqlite
from perdure.web.auth.token import ensure_token
from support.gateway import COMMAND, GatewayProcess, Person, gateway
from support.ports import free_port
from support.postgres import PostgresServer
from support.step_control import StepControl
from support.waiting import wait_for


def perdure(*arguments: str, home: Path, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run one command to its end."""
    environment = GatewayProcess(home, **settings).environment()
    return subprocess.run([*COMMAND, *arguments], env=environment, capture_output=True, text=True, timeout=60)


def is_refused(ran: subprocess.CompletedProcess[str], *words: str) -> None:
    """Exit code 78, nothing on standard output, and a sentence with these words on standard error."""
    assert (ran.returncode, ran.stdout) == (78, ""), ran
    assert "Traceback" not in ran.stderr
    assert all(word in ran.stderr for word in words), ran.stderr


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def readiness(process: GatewayProcess) -> tuple[int, dict[str, Any]]:
    response = httpx.get(f"{process.url}/readyz", timeout=30)
    return response.status_code, response.json()


def moves(person: Person, replies: int) -> list[tuple[str, str | None]]:
    """Every move of the chat's turns, with its reason, up to that many replies."""
    found = []
    for _, name, data in person.events():
        if name == "turn":
            found.append((data["move"], data.get("reason")))
        replies -= name == "message" and data["author"] == "agent"
        if not replies:
            return found
    raise AssertionError("the stream ended before the replies")


UNDISTURBED = [("claimed", None), ("finished", None)]
CUT_OFF = [("claimed", None), ("interrupted", "shutdown_timeout"), ("requeued", None), *UNDISTURBED]


# ── while it runs ───────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """A gateway that has answered; no test stops it. Its umask is the most careless there is."""
    before = os.umask(0)
    try:
        process = GatewayProcess(tmp_path_factory.mktemp("process") / "deep" / "home")
        process.home.parent.mkdir()
        process.start()
    finally:
        os.umask(before)
    try:
        person = Person(process)
        person.say("step one 0s\nsay: done")
        person.wait_for_replies(1)
        yield process
    finally:
        process.close()


def test_one_line_is_printed_when_the_gateway_is_ready(running: GatewayProcess) -> None:
    [line] = running.lines
    assert re.fullmatch(r"Perdure is ready: http://127\.0\.0\.1:\d+/login\?token=[A-Za-z0-9_-]{43}\n", line)
    assert line == f"Perdure is ready: {running.url}/login?token={running.token}\n"
    for event in ("run_began", "received", "claimed", "finished", "sent"):
        assert f" {event} " in running.log(), "logs go to standard error"
    assert running.token not in running.log()


def test_login_link_works_when_it_is_followed_as_printed(running: GatewayProcess) -> None:
    response = httpx.get(running.lines[0].split(": ")[1].strip(), follow_redirects=True)
    assert (response.status_code, response.url.path) == (200, "/")


def test_home_is_for_its_owner_alone(running: GatewayProcess) -> None:
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in running.home.iterdir()}
    folders = {path.name for path in running.home.iterdir() if path.is_dir()}
    assert stat.S_IMODE(running.home.stat().st_mode) == 0o700
    assert modes == {name: 0o700 if name in folders else 0o600 for name in modes}
    assert modes.keys() >= {"token", "lock", "perdure.db", "perdure.db-wal"}


def test_second_gateway_is_refused_when_the_home_is_in_use(running: GatewayProcess) -> None:
    assert running.process is not None
    before = [(running.home / name).read_bytes() for name in ("lock", "token")]
    ran = perdure("run", home=running.home)
    is_refused(ran, str(running.home / "lock"), f"process {running.process.pid}", "hint:", "PERDURE_HOME")
    assert [(running.home / name).read_bytes() for name in ("lock", "token")] == before
    assert readiness(running)[0] == 200


def test_gateway_is_refused_when_the_port_is_busy(running: GatewayProcess, tmp_path: Path) -> None:
    ran = perdure("run", home=tmp_path / "home", WEB__PORT=str(running.port))
    is_refused(ran, "127.0.0.1", f"port {running.port}", "hint:", "PERDURE_WEB__PORT")
    assert list(tmp_path.iterdir()) == []


def test_token_is_printed_when_asked_for(running: GatewayProcess) -> None:
    ran = perdure("token", home=running.home)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, f"{running.token}\n", "")


def test_nothing_heavy_is_imported_when_the_gateway_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONPROFILEIMPORTTIME", "1")
    with gateway(tmp_path / "home") as process:
        person = Person(process)
        person.say("say: done")
        person.wait_for_replies(1)
        assert process.stop() == 0
        imported = re.findall(r"^import time:.*\| +(\S+)$", process.log(), re.MULTILINE)
    assert "perdure.web.server" in imported
    heavy = {"sqlalchemy", "alembic", "pydantic", "httpx", "psycopg", "rich", "structlog"}
    assert {name.partition(".")[0] for name in imported} & heavy == set()


# ── how it stops ────────────────────────────────────────────────────────────────────────────────────────────


class Watch:
    """Reads a chat's events in the background, to the end of the stream."""

    def __init__(self, person: Person) -> None:
        self._told: list[tuple[str, dict[str, Any]]] = []
        self._thread = threading.Thread(target=self._read, args=(person,), daemon=True)
        self._thread.start()
        wait_for("the stream begins", lambda: self._told)

    def _read(self, person: Person) -> None:
        for _, name, data in person.events():
            self._told.append((name, data))

    def end(self) -> list[tuple[str, dict[str, Any]]]:
        wait_for("the stream ends", lambda: not self._thread.is_alive())
        return self._told


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_b29_gateway_ends_well_when_it_is_asked_to(tmp_path: Path, number: signal.Signals) -> None:
    (tmp_path / "home").mkdir(mode=0o700)
    (tmp_path / "home" / "token").touch(mode=0o600)  # as a crash at the very first start may leave it
    with gateway(tmp_path / "home") as process:
        assert len(process.token) == 43
        person = Person(process)
        person.say("say: one")
        person.wait_for_replies(1)
        process.signal(number)
        assert process.wait() == 0
        assert len(process.lines) == 1
        assert " run_ended " in process.log()
        assert "Traceback" not in process.log()


def test_b20_b21_drain_lets_a_turn_end_and_keeps_what_comes_meanwhile(tmp_path: Path) -> None:
    control = StepControl(tmp_path / "home")
    control.install()
    control.block("slow")
    with gateway(tmp_path / "home", AGENT__ENTRYPOINT="step_control:agent") as process:
        person = Person(process)
        person.say("step slow 0s\nsay: one")
        person.wait_for_event("the step runs", call="c1.1", state="started")
        watch = Watch(person)
        process.signal(signal.SIGTERM)
        refusal = wait_for("it drains", lambda: found if (found := readiness(process))[0] == 503 else None)
        assert refusal[1] == {"ready": False, "reasons": ["the gateway is draining"]}
        assert httpx.get(f"{process.url}/healthz").status_code == 200
        assert person.say("say: two").status_code == 202
        control.release("slow")
        assert process.wait() == 0
        told = watch.end()
        assert [data["phase"] for name, data in told if name == "gateway"] == ["ready", "draining"]
        assert process.log().count(" sent ") == 1, "a reply is sent before the end"
        process.start()
        assert person.wait_for_replies(2) == ["one", "two"]
        assert moves(person, 2) == [*UNDISTURBED, *UNDISTURBED]
        assert process.stop() == 0
        assert not re.search(" (taken_over|decided|interrupted) ", process.log())


def test_b22_b23_only_the_turn_that_is_too_slow_is_marked_when_the_drain_runs_into_its_deadline(
    tmp_path: Path,
) -> None:
    control = StepControl(tmp_path / "home")
    control.install()
    control.block("long", "short")
    with gateway(tmp_path / "home", AGENT__ENTRYPOINT="step_control:agent", DRAIN__DEADLINE="6s") as process:
        slow, quick = Person(process, "slow"), Person(process, "quick")
        slow.say("step long 0s\nsay: slow")
        slow.wait_for_event("the long step runs", call="c1.1", state="started")
        quick.say("step short 0s\nsay: quick")
        quick.wait_for_event("the short step runs", call="c1.1", state="started")
        process.signal(signal.SIGTERM)
        control.release("short")
        assert process.wait() == 0
        control.release("long")
        process.start()
        assert slow.wait_for_replies(1) == ["slow"]
        assert moves(slow, 1) == CUT_OFF
        assert quick.wait_for_replies(1) == ["quick"]
        assert moves(quick, 1) == UNDISTURBED


def test_b29_drain_ends_at_once_when_a_second_signal_comes(tmp_path: Path) -> None:
    with gateway(tmp_path / "home", DRAIN__DEADLINE="1h") as process:
        person = Person(process)
        person.say("once long 3000s\nsay: done")
        person.wait_for_event("the long step runs", call="c1.1", state="started")
        process.signal(signal.SIGTERM)
        wait_for("it drains", lambda: readiness(process)[0] == 503)
        process.signal(signal.SIGINT)
        assert process.wait() == 0
        assert " run_ended " in process.log()
        process.start()
        assert person.wait_for_replies(1) == ["done"]
        assert moves(person, 1) == CUT_OFF


def test_gateway_ends_well_and_leaves_its_home_when_its_supervisor_is_killed(tmp_path: Path) -> None:
    with gateway(tmp_path / "home", command="up", DRAIN__DEADLINE="1h") as process:
        person = Person(process)
        person.say("once long 3000s\nsay: done")
        person.wait_for_event("the long step runs", call="c1.1", state="started")
        watch = Watch(person)
        with closing(socket.create_connection(("127.0.0.1", process.port))) as stalled:
            stalled.sendall(b"POST /api/chats/home/messages HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n")
            process.kill()
            process.start()  # right behind it, at the same port
        watch.end()
        assert process.log().count(" run_ended ") == 1
        assert person.wait_for_replies(1) == ["done"]
        assert moves(person, 1) == CUT_OFF
        assert process.stop() == 0
        assert "Traceback" not in process.log()


# ── what it refuses ─────────────────────────────────────────────────────────────────────────────────────────

BAD_CONFIGURATION = """
[web]
port = "many"
[drain]
dedline = "20s"
[stoer]
url = "x"
"""


@pytest.mark.parametrize("command", ["up", "config check"])
def test_b29_every_problem_is_listed_when_the_configuration_is_wrong(tmp_path: Path, command: str) -> None:
    home = tmp_path / "home"
    home.mkdir()
    (home / "config.toml").write_text(BAD_CONFIGURATION)
    ran = perdure(*command.split(), home=home, RECOVERY__POLICY="maybe", WEB__PORT="0")
    is_refused(ran, "4 problems", "web.port", "drain.dedline", "stoer", "PERDURE_RECOVERY__POLICY")
    assert [*contents(home)] == ["config.toml"]


def make_foreign(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE cats (name TEXT)")


def make_newer(path: Path) -> None:
    prepare_sqlite(path)
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")


def make_truncated(path: Path) -> None:
    prepare_sqlite(path)
    os.truncate(path, path.stat().st_size // 2)


DATABASES = {"another program": make_foreign, "newer Perdure": make_newer, "truncated": make_truncated}


@pytest.mark.parametrize("words", DATABASES)
def test_b6_gateway_is_refused_when_its_database_is(tmp_path: Path, words: str) -> None:
    home = tmp_path / "home"
    home.mkdir()
    DATABASES[words](home / "perdure.db")
    before = contents(home)
    is_refused(perdure("run", home=home), words, "perdure.db", "hint:")
    after = contents(home)
    assert after.keys() - before.keys() == {"lock", "token"}
    assert after["perdure.db"] == before["perdure.db"]


def test_b164_gateway_is_refused_when_postgresql_does_not_let_it_in(
    tmp_path: Path, postgres_server: PostgresServer, postgres_url: str
) -> None:
    postgres_server.require_password("guarded", "the-right-word")
    server = postgres_url.partition("@")[2]
    urls = {
        "password authentication failed": f"postgresql://guarded:hidden-word@{server}",
        "does not exist": postgres_server.url("nowhere").replace("test@", "test:hidden-word@"),
        "invalid": f"{postgres_url}?hidden=word",
    }
    for words, url in urls.items():
        ran = perdure("run", home=tmp_path / "home", STORE__URL=url)
        is_refused(ran, words, "hint:", "store.url")
        assert "hidden-word" not in ran.stderr


def test_b164_gateway_waits_at_its_start_while_postgresql_is_away(
    tmp_path: Path, postgres_server: PostgresServer, postgres_url: str
) -> None:
    process = GatewayProcess(tmp_path / "home", STORE__URL=postgres_url)
    log = tmp_path / "home.stderr"
    log.touch()
    postgres_server.stop()
    starting = threading.Thread(target=process.start)
    starting.start()
    try:
        wait_for("it says what it waits for", lambda: "cannot be reached" in log.read_text())
        postgres_server.start()
        starting.join()
        assert Person(process).say("say: here").status_code == 202
        assert Person(process).wait_for_replies(1) == ["here"]
        assert process.stop() == 0
    finally:
        process.close()


def test_b164_gateway_that_waits_for_postgresql_can_be_stopped(tmp_path: Path) -> None:
    url = f"postgresql://perdure:hidden-word@127.0.0.1:{free_port()}/perdure"
    environment = GatewayProcess(tmp_path / "home", STORE__URL=url).environment()
    log = tmp_path / "log"
    with log.open("w") as stderr, subprocess.Popen([*COMMAND, "run"], env=environment, stderr=stderr) as waiting:
        wait_for("it says what it waits for", lambda: "cannot be reached" in log.read_text())
        waiting.send_signal(signal.SIGTERM)
        assert waiting.wait(60) == 0
    assert "hidden-word" not in log.read_text()
    assert "Traceback" not in log.read_text()


@pytest.mark.parametrize("host", ["192.0.2.1", f"{'a' * 64}.b"])
def test_gateway_is_refused_when_it_cannot_listen_there(tmp_path: Path, host: str) -> None:
    is_refused(perdure("run", home=tmp_path / "home", WEB__HOST=host), host, "hint:", "web.host")
    assert list(tmp_path.iterdir()) == []


def test_home_is_refused_when_it_cannot_be_made() -> None:
    is_refused(perdure("run", home=Path("/proc/perdure/home")), "/proc/perdure/home", "hint:", "PERDURE_HOME")


# ── the other commands ──────────────────────────────────────────────────────────────────────────────────────


def test_token_is_made_anew_when_it_was_lost_or_is_empty(tmp_path: Path) -> None:
    path = tmp_path / "home" / "token"
    tokens = [perdure("token", home=path.parent).stdout.strip()]
    path.unlink()
    tokens.append(ensure_token(path.parent))
    path.write_text(" \n")
    tokens.append(ensure_token(path.parent))
    assert ensure_token(path.parent) == path.read_text().strip() == tokens[-1]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [len(token) for token in tokens] == [43] * 3
    assert len({*tokens}) == 3


def test_version_is_printed_when_asked_for(tmp_path: Path) -> None:
    ran = perdure("version", home=tmp_path / "home")
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, f"perdure {__version__}\n", "")


def test_configuration_is_found_fine_when_there_is_none(tmp_path: Path) -> None:
    ran = perdure("config", "check", home=tmp_path / "home")
    assert (ran.returncode, ran.stderr) == (0, "")
    assert ran.stdout == f"The configuration is fine. Home: {tmp_path / 'home'}\n"
    assert list(tmp_path.iterdir()) == []


def test_help_is_printed_when_there_is_nothing_to_do(tmp_path: Path) -> None:
    ran = perdure(home=tmp_path / "home")
    assert ran.returncode == 2
    assert all(word in ran.stdout + ran.stderr for word in ("Usage: ", "run ", "up ", "chat ", "token "))


@pytest.mark.parametrize("arguments", [["fly"], ["run", "--fast"]], ids=" ".join)
def test_exit_code_is_2_when_a_command_is_misspelt(tmp_path: Path, arguments: list[str]) -> None:
    ran = perdure(*arguments, home=tmp_path / "home")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert arguments[-1] in ran.stderr
    assert list(tmp_path.iterdir()) == []
