"""Crash scenarios of files: received with a message, and sent by the agent."""

from __future__ import annotations

from perdure.core.journal import TurnView
from perdure.platforms.api import Capabilities
from perdure.store.api import Store
from support.chat_folders import chat_workspace
from support.crash_sweep import CrashScenario
from support.recovery import key_of


class FilesBothWays(CrashScenario):
    """A message with two files; the answer is a third file and text."""

    name = "files"
    writes = ("send: plan.txt\nsay: done",)
    sees = ("plan.txt", "done")
    can = Capabilities(idempotent_send=True, keeps_missed=True, files=True)

    def begin(self) -> None:
        (chat_workspace(self.home, key_of(self.platform)) / "plan.txt").write_text("a plan")
        self.platform.write(self.writes[0], files=["a.txt", "b.txt"])

    def check(self, views: list[TurnView]) -> None:
        assert [posted.file for posted in self.platform.posted] == [b"a plan", None]
        given = views[0].causes[0].attachments
        assert [(self.home / str(file.path)).read_text() for file in given] == ["a.txt", "b.txt"]
        kept = sorted(path.name for path in (self.home / "attachments").glob("*/*"))
        assert kept == ["a.txt", "b.txt", "plan.txt"], "each is there once, and nothing half"

    async def check_store(self, store: Store) -> None:
        rows = await store.database.read(lambda tx: tx.all("SELECT state FROM attachments"))
        assert rows == [("fetched",)] * 3


class MissingFile(CrashScenario):
    """A file cannot be fetched: the chat is told once, and the message is answered."""

    name = "a missing file"
    writes = ("say: done",)

    def begin(self) -> None:
        self.platform.missing.add("a.txt")
        self.platform.write(self.writes[0], files=["a.txt"])

    def has_seen(self) -> bool:
        told, *rest = self.platform.replies() or [""]
        return told.startswith("I could not get your file a.txt") and rest == ["done"]


SCENARIOS: list[type[CrashScenario]] = [FilesBothWays, MissingFile]
