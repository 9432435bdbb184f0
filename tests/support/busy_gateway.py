"""A gateway with every kind of session, turn, reply and process that an operator may meet."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct

from perdure.testing.telegram import Fault, LocalTelegram
from support.chat_folders import chat_workspace
from support.gateway import GatewayProcess, Person
from support.keepers import kill_all_processes
from support.operator_client import Operator
from support.telegram import telegram_gateway
from support.waiting import wait_for

UNREACHABLE_URL = "http://127.0.0.1:9"  # no server listens there


class BusyGateway(Struct):
    """The ids of the busy gateway's sessions, turns and replies."""

    process: GatewayProcess
    operator: Operator
    pairing_code: str  # the pairing code of Bob
    job_pipe: Path  # a pipe to the output of the background process

    def session(self, chat: str) -> str:
        found: str = self.operator.get(f"/sessions/agent:main:web:dm:{chat}")["id"]
        return found

    def turn(self, chat: str) -> str:
        found: str = self.operator.last_turn(chat)["id"]
        return found


@contextmanager
def busy_gateway(folder: Path) -> Iterator[BusyGateway]:
    """Make a busy gateway: killed once in the middle, with Telegram unreachable since then."""
    with LocalTelegram() as telegram:
        with telegram_gateway(folder / "home", telegram) as process:
            job, work = (
                chat_workspace(process.home, f"agent:main:web:dm:{chat}") / "pipe" for chat in ("jobs", "work")
            )
            for pipe in (job, work):
                os.mkfifo(pipe)
            _prepare_before_kill(process, telegram)
            process.kill()
        with telegram_gateway(folder / "home", telegram, PLATFORMS__TELEGRAM__BASE_URL=UNREACHABLE_URL) as process:
            (told,) = telegram.texts(telegram.person("bob"))
            scenario = BusyGateway(
                process, Operator(process), re.findall(r"[0-9A-Z]{4}-[0-9A-Z]{4}", told)[0], job
            )
            _prepare_after_kill(scenario, work)
            try:
                yield scenario
            finally:
                kill_all_processes(folder)


def _prepare_before_kill(process: GatewayProcess, telegram: LocalTelegram) -> None:
    person = Person(process, "home")
    person.say("step look 0s\nsay: All done.")
    person.wait_for_replies(1)
    _start_questions_and_jobs(process)
    telegram.write("let me in", sender="bob")
    wait_for("Bob was told a code", lambda: telegram.texts(telegram.person("bob")))
    telegram.write("step long 1000s", thread=telegram.topic())
    lost = Fault(hold=True)
    wait_for("both chats are here", lambda: len(Operator(process).get("/sessions", turn="running")["sessions"]))
    telegram.befall("sendMessage", lost)
    telegram.write("say: The report is ready.")
    assert lost.reached.wait(30), "a reply is on its way"
    busy = Person(process, "work")
    busy.say("step look 0s\nstep compare 0s\nrun: cat pipe\nstep check 0s\nsay: Compared.")
    busy.wait_for_event("the command runs", tool="shell", state="started")


def _start_questions_and_jobs(process: GatewayProcess) -> None:
    jobs, asking, danger = Person(process, "jobs"), Person(process, "asking"), Person(process, "danger")
    jobs.say("background: echo begun; cat pipe")
    asking.say("ask: Which way? | Left | Right")
    danger.say("danger: rm -rf /srv/old")
    jobs.wait_for_replies(1)
    asking.wait_for_replies(1)
    danger.wait_for_replies(1)
    aside = Person(process, "aside")
    aside.say("say: hello")
    aside.wait_for_replies(1)
    assert Operator(process).post("/sessions/agent:main:web:dm:aside/suspend")["done"]


def _prepare_after_kill(scenario: BusyGateway, work: Path) -> None:
    wait_for("the turn goes on", lambda: scenario.operator.last_turn("work")["attempt"] == 2)
    work.write_text("the same\n")
    Person(scenario.process, "work").wait_for_replies(1)
    scenario.operator.wait_for_reply("unknown")
    wait_for("Telegram is missed", lambda: scenario.operator.get("/status")["problems"])
    wait_for("the other turn is held", lambda: scenario.operator.get("/status")["counts"]["interrupted"])
