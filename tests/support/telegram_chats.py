"""People with one Telegram chat each, the gateway that serves them, and readers of its journal."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from perdure.testing.telegram import LocalTelegram
from support.gateway import GatewayProcess
from support.telegram import (
    query_database,
    run_perdure,
    telegram_gateway,
    telegram_settings,
    wait_until_confirmed,
    wait_until_settled,
)
from support.waiting import wait_for

TIMEOUT_SECONDS = 60.0  # seconds; many chats are served at once
SHARED_WORKSPACE = {"TOOLS__WORKSPACES": "shared"}  # with the door for which all commands wait


class TelegramChats:
    """People with one chat each, and commands that run until the test opens a door."""

    def __init__(self, telegram: LocalTelegram, process: GatewayProcess, release_file: Path) -> None:
        self.telegram = telegram
        self.process = process
        self.release_file = release_file

    def blocking_action(self, who: str) -> str:
        """Return an action that records its start and runs until the door is opened."""
        door = self.release_file.name
        return f"run: touch {door}.{who}; until test -e {door}; do sleep 0.1; done"

    def write(self, who: str, text: str) -> None:
        self.telegram.write(text, sender=who)

    def texts(self, who: str) -> list[str]:
        return self.telegram.texts(self.telegram.person(who))

    def wait_for_texts(self, who: str, *texts: str) -> None:
        with suppress(AssertionError):  # the assertion below shows the actual texts
            wait_for(f"{who} sees {texts}", lambda: self.texts(who) == list(texts), TIMEOUT_SECONDS)
        assert self.texts(who) == list(texts), f"{who} sees {self.texts(who)}, not {texts}"

    def wait_for_last_text(self, who: str, text: str) -> None:
        wait_for(f"{who} sees {text!r}", lambda: self.texts(who)[-1:] == [text], TIMEOUT_SECONDS)

    def start_blocking_turns(self, *people: str) -> None:
        """Let everybody begin a blocking action, and wait until all of them run."""
        for who in people:
            self.write(who, f"once {who} 0s\n{self.blocking_action(who)}\nsay: {who} is done")
        self.wait_until_blocked(*people)

    def wait_until_blocked(self, *people: str) -> None:
        """Wait until the actions of these people run."""
        for who in people:
            wait_for(
                f"{who} has begun",
                self.release_file.with_name(f"{self.release_file.name}.{who}").exists,
                TIMEOUT_SECONDS,
            )

    def crash(self) -> None:
        """Kill the gateway while no send is in progress."""
        wait_until_confirmed(self.telegram)
        wait_until_settled(self.process)
        self.process.kill()

    def start(self, people: str, policies: Mapping[str, str] | None = None, /, **settings: str) -> None:
        """Start the gateway again, with exactly these people and settings."""
        ours = telegram_settings(self.telegram) | settings_for(self.telegram, people, policies or {})
        self.process.configure(**(ours | settings))
        self.process.start()

    # ── what is on record ───────────────────────────────────────────────────────────────────────────────────

    def key(self, who: str) -> str:
        return f"agent:main:telegram:dm:{self.telegram.person(who)}"

    def turn_states(self, who: str) -> list[str]:
        """Return the states of a person's turns, in order."""
        found = query_database(self.process, f"SELECT state FROM turns WHERE key = '{self.key(who)}' ORDER BY id")
        return [state for (state,) in found]

    def journal_entries(self, who: str, kind: str) -> list[dict[str, Any]]:
        """Return the journal entries of one kind of a person's turns, in order."""
        sql = (
            "SELECT j.body FROM journal j JOIN turns t ON t.id = j.turn "
            f"WHERE t.key = '{self.key(who)}' AND j.kind = '{kind}' ORDER BY j.session, j.seq"
        )
        return [json.loads(body) for (body,) in query_database(self.process, sql)]

    def decided_rules(self, who: str) -> list[str]:
        """Return the rules of all decisions about a person's turns, in order."""
        return [decided["rule"] for decided in self.journal_entries(who, "decided")]

    def wait_for_rule(self, who: str, rule: str) -> None:
        """Wait until the newest decision about a person's turns has this rule."""
        wait_for(f"{rule} is decided about {who}", lambda: self.decided_rules(who)[-1:] == [rule], TIMEOUT_SECONDS)

    def interruption_reasons(self, who: str) -> list[str]:
        """Return the reasons of the interruptions of a person's turns, in order."""
        return [mark["reason"] for mark in self.journal_entries(who, "interrupted")]

    # ── what is told ────────────────────────────────────────────────────────────────────────────────────

    def run_perdure(self, *arguments: str) -> str:
        """Run `perdure`; return its output."""
        return run_perdure(self.process, *arguments)

    def command_reply(self, who: str, command: str) -> str:
        """Let a person write a command in an idle chat; return the reply."""
        before = len(self.texts(who))
        self.write(who, command)
        return wait_for(f"{who} is told of {command}", lambda: self.texts(who)[before:], TIMEOUT_SECONDS)[0]


@contextmanager
def telegram_chats(
    tmp_path: Path, people: str, policies: Mapping[str, str] | None = None, /, **settings: str
) -> Iterator[TelegramChats]:
    """Run a gateway for these people; some chats have a recovery policy of their own."""
    with LocalTelegram() as telegram:
        given, door = (
            settings_for(telegram, people, policies or {}) | settings,
            tmp_path / "home" / "workspace" / "door",
        )
        try:
            with telegram_gateway(tmp_path / "home", telegram, **given) as process:
                yield TelegramChats(telegram, process, door)
        finally:
            door.touch()  # no command outlives its test, however that ended


def settings_for(telegram: LocalTelegram, people: str, policies: Mapping[str, str]) -> dict[str, str]:
    """Return settings that allow these people, with these recovery policies in their chats."""
    allowed = ",".join(str(telegram.person(who)) for who in people.split())
    chats = ",".join(f"{telegram.person(who)}={policy}" for who, policy in policies.items())
    named = {"ALLOW": allowed} | ({"RECOVERY_CHATS": chats} if chats else {})
    return {f"PLATFORMS__TELEGRAM__{name}": value for name, value in named.items()} | SHARED_WORKSPACE
