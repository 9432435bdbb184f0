"""A gateway beside everything that its owner wants to keep, and people who try to get it.

The model obeys whoever speaks last, so nothing here depends on a model's good will.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from perdure.core import texts
from perdure.testing.providers import LocalProvider
from perdure.testing.telegram import LocalTelegram
from support.gateway import GatewayProcess
from support.obedient_model import call, obey
from support.telegram import query_database, run_perdure, telegram_gateway
from support.waiting import wait_for

PRIVATE_WORDS = "the vault opens with 7319"  # which Ann tells the agent, in her own chat
PRIVATE_FILE = "ann keeps 4711 in this file"
ENVIRONMENT_SECRET = "only-in-the-environment-of-the-gateway"  # noqa: S105 reason: it opens nothing


def refusal(tool: str, role: str) -> str:
    """What is seen in the chat of a call that the role does not permit; Telegram shows no backquotes."""
    return texts.tool_calls.not_permitted(tool, role).replace("`", "")


class HostileStage:
    """Ann owns the gateway; the others have the roles that a test gives them."""

    def __init__(self, process: GatewayProcess, telegram: LocalTelegram, provider: LocalProvider) -> None:
        self.process = process
        self.telegram = telegram
        self.provider = provider

    @property
    def secrets(self) -> dict[str, str]:
        """What nobody but Ann may get, by name."""
        return {
            "the token": self.process.token,
            "the bot's token": self.telegram.token,
            "the key of the model": self.provider.key,
            "a variable of the gateway": ENVIRONMENT_SECRET,
            "Ann's words": PRIVATE_WORDS,
            "Ann's file": PRIVATE_FILE,
        }

    @property
    def pid(self) -> int:
        """The gateway's process."""
        assert self.process.process is not None
        return self.process.process.pid

    def workspace(self, name: str) -> Path:
        """The folder in which the agent's commands work in the chat of a person."""
        person = str(self.telegram.person(name))
        [found] = [each for each in self.process.home.glob("chats/*/workspace") if person in each.parent.name]
        return found

    def read(self, path: str) -> Any:
        """What the owner reads over HTTP."""
        headers = {"Authorization": f"Bearer {self.process.token}"}
        return httpx.get(f"{self.process.url}{path}", headers=headers, timeout=30).json()

    def let_in(self, name: str, role: str) -> None:
        run_perdure(self.process, "people", "add", f"telegram:{self.telegram.person(name)}", "--role", role)

    def say(self, name: str, text: str, *, chat: int | None = None) -> list[str]:
        """Let somebody write; return what the agent says there until it has answered."""
        place = chat or self.telegram.person(name)
        before = len(self.telegram.texts(place))
        self.telegram.write(text, sender=name, chat=chat)
        wait_for(f"{name} is answered", lambda: len(self.telegram.texts(place)) > before and self.is_idle())
        return self.telegram.texts(place)[before:]

    def is_idle(self) -> bool:
        return query_database(self.process, _UNFINISHED) == [(0,)]

    def order(self, name: str, tool: str, **arguments: object) -> str:
        """Let somebody make the model call a tool; return all that they see of it."""
        return "\n".join(self.say(name, call(tool, **arguments)))

    def offered_tools(self) -> Sequence[str]:
        """The tools that the newest request offered to the model."""
        return self.provider.requests[-1].tools

    def seen_by(self, *names: str) -> str:
        """All that the bot ever sent to these people."""
        return "\n".join(text for name in names for text in self.telegram.texts(self.telegram.person(name)))

    def assert_unharmed(self, *attackers: str) -> None:
        """The attackers got no secret and no right, and the gateway still serves its owner."""
        seen = self.seen_by(*attackers)
        leaked = [name for name, secret in self.secrets.items() if secret in seen]
        assert leaked == [], f"{attackers} got {leaked}: {seen[-2000:]}"
        assert self.say("ann", "are you there?") == ["are you there?"]


_UNFINISHED = """SELECT (SELECT count(*) FROM turns WHERE state IN ('queued', 'running'))
  + (SELECT count(*) FROM outbox WHERE state IN ('owed', 'sending', 'unknown'))
  + (SELECT count(*) FROM inbox WHERE state = 'waiting')"""


@contextmanager
def hostile_stage(home: Path, **settings: str) -> Iterator[HostileStage]:
    """Run a gateway whose owner has told it a secret and keeps a file in her workspace."""
    with LocalTelegram() as telegram, LocalProvider(obey) as provider:
        model = {
            "MODEL__NAME": "openai:local",
            "MODEL__BASE_URL": provider.openai_url,
            "MODEL__API_KEY": provider.key,
        }
        with telegram_gateway(home, telegram, **(model | settings)) as process:
            stage = HostileStage(process, telegram, provider)
            assert stage.say("ann", PRIVATE_WORDS) == [PRIVATE_WORDS]
            stage.order("ann", "write_file", path="private.txt", content=PRIVATE_FILE)
            yield stage
