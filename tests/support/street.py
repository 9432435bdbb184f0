"""A street in Telegram: people with a chat each, one gateway that serves them all, and what its journal tells."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from perdure.testing.telegram import LocalTelegram
from support.gateway import GatewayProcess
from support.telegram import (
    perdure,
    rows,
    telegram_gateway,
    telegram_settings,
    wait_until_confirmed,
    wait_until_settled,
)
from support.waiting import wait_for

PATIENCE = 60.0  # seconds: many are served at once


class Street:
    """People with a chat each, and one door: a command that runs until it is opened."""

    def __init__(self, telegram: LocalTelegram, process: GatewayProcess, door: Path) -> None:
        self.telegram = telegram
        self.process = process
        self.door = door

    def held(self, who: str) -> str:
        """An action that goes on until the door is opened, and says when it has begun."""
        return f"run: touch {self.door}.{who}; until test -e {self.door}; do sleep 0.1; done"

    def write(self, who: str, text: str) -> None:
        self.telegram.write(text, sender=who)

    def texts(self, who: str) -> list[str]:
        return self.telegram.texts(self.telegram.person(who))

    def sees(self, who: str, *texts: str) -> None:
        with suppress(AssertionError):  # what is seen instead says more
            wait_for(f"{who} sees {texts}", lambda: self.texts(who) == list(texts), PATIENCE)
        assert self.texts(who) == list(texts), f"{who} sees {self.texts(who)}, not {texts}"

    def sees_last(self, who: str, text: str) -> None:
        wait_for(f"{who} sees {text!r}", lambda: self.texts(who)[-1:] == [text], PATIENCE)

    def hold(self, *people: str) -> None:
        """Let everybody begin something that goes on until the door is opened, and wait until it does."""
        for who in people:
            self.write(who, f"once {who} 0s\n{self.held(who)}\nsay: {who} is done")
        self.holds(*people)

    def holds(self, *people: str) -> None:
        """Wait until these stand before the door."""
        for who in people:
            wait_for(f"{who} has begun", self.door.with_name(f"{self.door.name}.{who}").exists, PATIENCE)

    def crash(self) -> None:
        """Kill the gateway; no send is under way whose receipt would be lost."""
        wait_until_confirmed(self.telegram)
        wait_until_settled(self.process)
        self.process.kill()

    def start(self, people: str, policies: Mapping[str, str] | None = None, /, **settings: str) -> None:
        """Start the gateway again, with these people and these settings and no others."""
        ours = telegram_settings(self.telegram) | settings_for(self.telegram, people, policies or {})
        self.process.configure(**(ours | settings))
        self.process.start()

    # ── what is on record ───────────────────────────────────────────────────────────────────────────────────

    def key(self, who: str) -> str:
        return f"agent:main:telegram:dm:{self.telegram.person(who)}"

    def turns(self, who: str) -> list[str]:
        """The states of somebody's turns, in order."""
        found = rows(self.process, f"SELECT state FROM turns WHERE key = '{self.key(who)}' ORDER BY id")
        return [state for (state,) in found]

    def journal(self, who: str, kind: str) -> list[dict[str, Any]]:
        """What the journal of somebody's turns says of one kind, in order."""
        sql = (
            "SELECT j.body FROM journal j JOIN turns t ON t.id = j.turn "
            f"WHERE t.key = '{self.key(who)}' AND j.kind = '{kind}' ORDER BY j.session, j.seq"
        )
        return [json.loads(body) for (body,) in rows(self.process, sql)]

    def rules(self, who: str) -> list[str]:
        """The rules that spoke about somebody's turns, in order."""
        return [decided["rule"] for decided in self.journal(who, "decided")]

    def decided(self, who: str, rule: str) -> None:
        """Wait until this rule is the last that spoke about somebody."""
        wait_for(f"{rule} is decided about {who}", lambda: self.rules(who)[-1:] == [rule], PATIENCE)

    def reasons(self, who: str) -> list[str]:
        """Why somebody's turns were cut off, in order."""
        return [mark["reason"] for mark in self.journal(who, "interrupted")]

    # ── what is told ────────────────────────────────────────────────────────────────────────────────────

    def perdure(self, *arguments: str) -> str:
        """What a command of ours prints."""
        return perdure(self.process, *arguments)

    def asks(self, who: str, command: str) -> str:
        """What somebody is told who writes a command, where nothing else is said."""
        before = len(self.texts(who))
        self.write(who, command)
        return wait_for(f"{who} is told of {command}", lambda: self.texts(who)[before:], PATIENCE)[0]


@contextmanager
def street(
    tmp_path: Path, people: str, policies: Mapping[str, str] | None = None, /, **settings: str
) -> Iterator[Street]:
    """A street whose people may talk to its gateway; some of them have a policy of recovery of their own."""
    with LocalTelegram() as telegram:
        given, door = settings_for(telegram, people, policies or {}) | settings, tmp_path / "door"
        try:
            with telegram_gateway(tmp_path / "home", telegram, **given) as process:
                yield Street(telegram, process, door)
        finally:
            door.touch()  # no command outlives its test, however that ended


def settings_for(telegram: LocalTelegram, people: str, policies: Mapping[str, str]) -> dict[str, str]:
    """Settings by which these people may talk, with these policies of recovery in their chats."""
    allowed = ",".join(str(telegram.person(who)) for who in people.split())
    chats = ",".join(f"{telegram.person(who)}={policy}" for who, policy in policies.items())
    named = {"ALLOW": allowed} | ({"RECOVERY_CHATS": chats} if chats else {})
    return {f"PLATFORMS__TELEGRAM__{name}": value for name, value in named.items()}
