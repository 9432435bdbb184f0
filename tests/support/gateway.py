"""A gateway as a process of its own, and a person who writes to it over HTTP."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from support.openapi_check import check_response
from support.ports import free_port
from support.waiting import DEADLINE_FACTOR, wait_for

COMMAND = [sys.executable, "-m", "perdure"]


class GatewayProcess:
    """`perdure run` (or `up`) in a home of its own, on a free port that stays the same over restarts."""

    def __init__(self, home: Path, *, command: str = "run", **settings: str) -> None:
        self.home = home
        self._command = command
        self.configure(**settings)
        self._log = home.with_name(f"{home.name}.stderr")
        self.port = free_port()
        self.lines: list[str] = []
        self.process: subprocess.Popen[str] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def token(self) -> str:
        return (self.home / "token").read_text().strip()

    def configure(self, **settings: str) -> None:
        """Replace the settings from the next start on."""
        self._settings = {f"PERDURE_{name}": value for name, value in settings.items()}

    def environment(self) -> dict[str, str]:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("PERDURE_")}
        return inherited | {"PERDURE_HOME": str(self.home), "PERDURE_WEB__PORT": str(self.port)} | self._settings

    def start(self, *prefix: str) -> GatewayProcess:
        """Start the process, and wait for its ready line."""
        with self._log.open("a") as log:
            self.process = subprocess.Popen(
                [*prefix, *COMMAND, self._command],
                env=self.environment(),
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        self.lines = []
        threading.Thread(target=self._read_lines, args=(self.process,), daemon=True).start()
        line = wait_for("the gateway prints its line", lambda: self.lines or self._exit_text())
        assert isinstance(line, list), f"the gateway ended with {line}: {self.log()[-2000:]}"
        self.port = int(line[0].split("/login")[0].rsplit(":", 1)[1])
        return self

    def _read_lines(self, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        with process.stdout as lines:
            for line in lines:
                self.lines.append(line)

    def _exit_text(self) -> str | None:
        code = self.process.poll() if self.process else None
        return None if code is None else f"exit code {code}"

    def log(self) -> str:
        return self._log.read_text()

    def signal(self, number: int) -> None:
        assert self.process is not None
        self.process.send_signal(number)

    def wait(self) -> int:
        assert self.process is not None
        return self.process.wait(60 * DEADLINE_FACTOR)

    def kill(self) -> None:
        """Kill the process with SIGKILL."""
        self.signal(signal.SIGKILL)
        assert self.wait() == -signal.SIGKILL

    def stop(self) -> int:
        self.signal(signal.SIGTERM)
        return self.wait()

    def close(self) -> None:
        if self.process is not None and self.process.poll() is None:
            self.process.kill()
            self.process.wait()


@contextmanager
def gateway(home: Path, *, command: str = "run", **settings: str) -> Iterator[GatewayProcess]:
    """Run a gateway process, which is ended at the end of the block in any case."""
    process = GatewayProcess(home, command=command, **settings)
    try:
        yield process.start()
    finally:
        process.close()


class Person:
    """A person in one chat."""

    def __init__(self, gateway: GatewayProcess, chat: str = "home") -> None:
        self._gateway = gateway
        self._chat = chat
        self._count = 0

    def request(self, method: str, path: str, **options: Any) -> httpx.Response:
        headers = {"Authorization": f"Bearer {self._gateway.token}"} | options.pop("headers", {})
        response = httpx.request(
            method, f"{self._gateway.url}/api/chats/{self._chat}{path}", headers=headers, timeout=30, **options
        )
        check_response(response)
        return response

    def say(self, text: str, name: str | None = None) -> httpx.Response:
        self._count += 1
        return self.request("POST", "/messages", json={"id": name or f"n{self._count}", "text": text})

    def messages(self) -> list[dict[str, Any]]:
        messages: list[dict[str, Any]] = self.request("GET", "/messages").json()["messages"]
        return messages

    def replies(self) -> list[str]:
        return [message["text"] for message in self.messages() if message["author"] == "agent"]

    def wait_for_replies(self, count: int) -> list[str]:
        return wait_for(f"{count} replies", lambda: found if len(found := self.replies()) >= count else None)

    def events(self, last: str = "") -> Iterator[tuple[str, str, dict[str, Any]]]:
        """Yield (id, name, data) of each event until the stream ends."""
        headers = {"Authorization": f"Bearer {self._gateway.token}"} | ({"Last-Event-ID": last} if last else {})
        url = f"{self._gateway.url}/api/chats/{self._chat}/events"
        with httpx.stream("GET", url, headers=headers, timeout=60) as response:
            assert response.status_code == 200
            fields: dict[str, str] = {}
            for line in response.iter_lines():
                if line and not line.startswith(":"):
                    name, _, value = line.partition(": ")
                    fields[name] = value
                elif not line and "event" in fields:
                    yield fields.get("id", ""), fields["event"], json.loads(fields["data"])
                    fields = {}

    def wait_for_event(self, fact: str, **wanted: Any) -> dict[str, Any]:
        """Wait for an event with these fields."""
        for _, _, data in self.events():
            if wanted.items() <= data.items():
                return data
        raise AssertionError(f"the stream ended before: {fact}")
