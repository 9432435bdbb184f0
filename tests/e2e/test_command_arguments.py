"""What is written behind a command: whatever a person gets wrong, the answer says how it is meant.

Drives `runtime/commands/registry`.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from msgspec import Struct

from perdure.core import texts
from perdure.errors import NotConnected
from perdure.platforms.api import MenuEntry
from perdure.testing import SimulatedPlatform
from perdure.testing.simulated_platform import SimulatedAdapter
from support.inprocess import serving
from support.recovery import wait_for_replies
from support.waiting import eventually

pytestmark = pytest.mark.anyio


class Words(Struct, frozen=True):
    """What a command answers when nothing has happened yet: without words, and with words that make no sense."""

    bare: str  # a pattern
    odd: str = ""  # a pattern; empty: it takes no words, and says so


# One row for every command there is: whoever adds one says here what it answers.
TABLE = {
    "help": Words(r"/help +list the commands\n.*"),
    "status": Words(r"The gateway is ready.*"),
    "whoami": Words(r".*ann.*"),
    "stop": Words(r"Nothing was running\.", r"Write it as /stop \[all\]; I do not understand 'zzz zzz'\."),
    "new": Words(r"This is a fresh conversation\."),
    "reset": Words(r"This is a fresh conversation\."),
    "resume": Words(r"There is nothing to resume here\.", r"I know no conversation with that id.*"),
    "drop": Words(r"There is nothing interrupted.*", r"Write it as /drop \[ID\]; .*'zzz zzz'\."),
    "undo": Words(re.escape(texts.chat_commands.UNDO_REFUSALS["nothing"])),
    "retry": Words(re.escape(texts.chat_commands.UNDO_REFUSALS["nothing"])),
    "approve": Words(r"Nothing waits for your approval here\.", r"Write it as /approve \[ID\]; .*'zzz zzz'\."),
    "deny": Words(r"Nothing waits for your approval here\.", r"Write it as /deny \[ID\]; .*'zzz zzz'\."),
    "sessions": Words(r"s_\w+  this one, \d+ s ago: nothing was said"),
    "why": Words(r"Nothing has happened here yet\."),
    "goal": Words(r".*goal.*", r".*goal.*"),
    "queue": Words(r".+", r".+"),
    "steer": Words(r".*/steer.*", r".+"),
    "background": Words(r".*background.*", r".*background.*"),
    "restart": Words(""),  # only with words: without them, it does what it says
}


async def test_b81_every_command_answers_helpfully_whatever_its_words_are(tmp_path: Path) -> None:
    platform = SimulatedPlatform("web")
    async with serving(tmp_path, platform, PLATFORMS__WEB__ALLOW="ann") as gateway:
        registry = gateway.loops.commands.registry
        assert set(TABLE) == set(registry), "the table has a row for every command"
        for name, words in TABLE.items():
            superfluous = re.escape(texts.chat_commands.usage(registry[name].usage, "zzz zzz"))
            if words.bare:
                await answers(platform, f"/{name}", words.bare, f"{name} bare")
            await answers(platform, f"/{name} zzz zzz", words.odd or superfluous, f"{name} odd")
            typo = f"/{name[0]}{name}"
            if typo[1:] not in registry:
                await answers(
                    platform, typo, rf"There is no command {typo}\. Did you mean /\w+\?.*", f"{name} typo"
                )


async def answers(platform: SimulatedPlatform, text: str, pattern: str, chat: str) -> None:
    platform.write(text, chat=chat)
    [answer, *_] = await eventually(f"{text} is answered", lambda: platform.replies(chat))
    assert re.fullmatch(pattern, answer, re.DOTALL), f"{text}: {answer}"


async def test_b81_sessions_are_listed_readably_and_brought_back_by_their_id(tmp_path: Path) -> None:
    platform = SimulatedPlatform()
    async with serving(tmp_path, platform):
        long = "the first of many words that nobody wants to read in a list"
        platform.write(f"say: {long}")
        await wait_for_replies(platform, long)
        platform.write("/new")
        platform.write("say: second")
        await eventually("all is answered", lambda: platform.replies()[-1:] == ["second"])
        platform.write("/sessions")
        await eventually("they are listed", lambda: "/resume ID" in platform.replies()[-1])
        new, old, hint = platform.replies()[-1].splitlines()
        assert re.fullmatch(r"s_\w+  this one, \d+ s ago: “say: second”", new)
        assert re.fullmatch(r"s_\w+  earlier, \d+ s ago: “say: the first of many words that nobody…”", old)
        assert hint == "/resume ID brings one of them back."
        platform.write(f"/resume {old.split()[0]}")
        platform.write("/sessions")
        await eventually("it is back", lambda: "“say: the first" in platform.replies()[-1].split("this one")[-1])


class Stubborn(SimulatedPlatform):
    """A platform that shows no menu at first."""

    refuses = 1

    def adapter(self) -> SimulatedAdapter:
        return _StubbornAdapter(self)


class _StubbornAdapter(SimulatedAdapter):
    def __init__(self, platform: Stubborn) -> None:
        super().__init__(platform)
        self._stubborn = platform

    async def menu(self, commands: list[MenuEntry]) -> None:  # type: ignore[override]
        if self._stubborn.refuses:
            self._stubborn.refuses -= 1
            raise NotConnected("no menu today")
        await super().menu(commands)


async def test_b81_menu_is_published_once_and_its_failure_harms_nobody(tmp_path: Path) -> None:
    platform = Stubborn()
    async with serving(tmp_path, platform):
        platform.write("say: hello")
        await wait_for_replies(platform, "hello")
        assert platform.menus == []
        for _ in range(2):
            platform.disconnect()
            await eventually("it is published", lambda: platform.menus)
        platform.write("say: again")
        await wait_for_replies(platform, "hello", "again")
    assert len(platform.menus) == 1
