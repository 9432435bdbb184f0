"""Crash scenarios of background processes: each runs once, and its end is reported once."""

from __future__ import annotations

from pathlib import Path

from perdure.core.journal import TurnView
from perdure.store.api import Store
from support.crash_sweep import CrashScenario, open_rows

WAITING_SQL = "SELECT 1 FROM inbox WHERE state = 'waiting' AND kind <> 'aside'"


class ProcessExitReport(CrashScenario):
    """A process writes a line to a file in its workspace and ends; then people see one more message."""

    name = "process, told"
    script = "background: echo ran >> trace\nsay: begun"
    report_count = 1

    def __init__(self, home: Path) -> None:
        self.writes = (self.script,)
        self.turns = 1 + self.report_count
        super().__init__(home)

    @property
    def trace(self) -> Path:
        return self.commands.workspace / "trace"

    def has_seen(self) -> bool:
        return len(self.platform.replies()) >= 1 + self.report_count

    async def is_over(self, store: Store) -> bool:
        waiting = await store.database.read(lambda tx: tx.all(WAITING_SQL))
        return not (waiting or await open_rows(store) or await store.processes.live())

    def check(self, views: list[TurnView]) -> None:
        texts = self.platform.replies()
        assert texts[0] == "begun"
        assert len(texts) == 1 + self.report_count, texts
        assert all("ended with exit code 0" in text for text in texts[1:])
        assert self.trace.read_text() == "ran\n", "the process was started twice"

    async def check_store(self, store: Store) -> None:
        [process] = await store.processes.page()
        assert process.told == ("report" if self.report_count else "seen")


class ProcessExitSeen(ProcessExitReport):
    """The agent has waited for the end of the process: it is not reported again."""

    name = "process, seen"
    script = "background: echo ran >> trace\nprocess: wait\nsay: begun"
    report_count = 0


class ProcessOutputWatched(ProcessExitReport):
    """B93: a process with watched output: each match is reported once, its end is not."""

    name = "process, watched"
    script = "watch: ERROR echo ran >> trace; until [ -e trace.go ]; do sleep 0.02; done; echo ERROR one; "
    script += "until [ -e trace.end ]; do sleep 0.02; done\nsay: begun"

    def react(self) -> None:
        for seen, switch in enumerate(("go", "end"), 1):
            if len(self.platform.replies()) == seen:
                self.trace.with_name(f"{self.trace.name}.{switch}").touch()

    def check(self, views: list[TurnView]) -> None:
        begun, told = self.platform.replies()
        assert begun == "begun"
        assert "ERROR one" in told
        assert self.trace.read_text() == "ran\n", "the process was started twice"

    async def check_store(self, store: Store) -> None:
        [process] = await store.processes.page()
        assert process.state == "ended"


SCENARIOS: list[type[CrashScenario]] = [ProcessExitReport, ProcessExitSeen, ProcessOutputWatched]
