"""What an operator can ask and do over HTTP: lives of turns, decisions, replies, processes, the configuration.

Drives `web/api` and `runtime/operator_verbs`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import httpx
import pytest

from perdure.core import texts
from perdure.testing.telegram import BLOCKED, Fault, LocalTelegram
from support.chat_folders import chat_workspace
from support.gateway import GatewayProcess, Person, gateway
from support.inprocess import serving
from support.operator_client import Operator
from support.pairing import api_request
from support.telegram import telegram_gateway, wait_for_texts
from support.waiting import wait_for

NOWHERE = "http://127.0.0.1:9"  # nobody listens there


@pytest.fixture
def telegram() -> Iterator[LocalTelegram]:
    with LocalTelegram() as running:
        yield running


def test_life_of_a_turn_is_told_from_its_message_to_its_receipt_when_killed_in_between(tmp_path: Path) -> None:
    with gateway(tmp_path / "home") as process:
        person, operator, signal = Person(process), Operator(process), chat_workspace(process.home) / "signal"
        os.mkfifo(signal)
        # It runs until somebody opens the pipe: the kill cannot come too late.
        person.say("step look 0s\nrun: cat signal\nsay: done")
        person.wait_for_event("the command runs", tool="shell", state="started")
        process.kill()
        process.start()
        wait_for("it goes on", lambda: operator.last_turn("home")["attempt"] == 2)
        signal.write_text("hello\n")
        person.wait_for_replies(1)
        life = operator.last_turn("home")
        _is_whole(life)
        decided = operator.get("/decisions")["decisions"]
        assert [(each["turn"], each["choice"], each["rule"]) for each in decided] == [
            (life["id"], "resume", "resume")
        ]
        assert decided[0]["words"] == life["decisions"][0]["words"]
        assert decided[0]["words"][0].startswith("Found: a gateway interruption (restart_interrupted)")
        assert operator.get("/sessions", turn="running")["sessions"] == []
        assert len(operator.get("/sessions", state="open", order="newest")["sessions"]) == 1
        assert operator.get("/status")["counts"]["interrupted"] == 0


def _is_whole(life: Any) -> None:
    assert life["state"] == "done" and life["whole"]
    (message,), (reply,) = life["messages"], life["replies"]
    first, second = life["attempts"]
    (cut,) = life["interruptions"]
    calls = [(call["name"], call["outcome"], call["attempt"]) for call in life["calls"]]
    assert calls == [("step", "ok", 1), ("shell", "ok", 1)], "the command is one, through the downtime"
    assert (first["ending"], first["reason"]) == ("interrupted", "restart_interrupted")
    assert (second["ending"], reply["state"]) == ("finished", "sent") and reply["receipt"]
    moments = [message["received_at"], message["taken_at"], first["at"], first["until"], cut["found_at"]]
    moments += [life["decisions"][0]["at"], second["at"], second["until"], reply["updated_at"]]
    assert moments == sorted(moments)
    runs = [run["ending"] for run in life["runs"]]
    assert runs == ["lost", None]


def test_b74_reply_that_was_given_up_is_sent_again_once_when_an_operator_says_so(
    tmp_path: Path, telegram: LocalTelegram
) -> None:
    fault = Fault(hold=True, effect=True)
    with telegram_gateway(tmp_path / "home", telegram, DELIVERY__UNKNOWN="drop") as process:
        operator = Operator(process)
        wait_for("it polls", lambda: telegram.count("getUpdates"))
        telegram.befall("sendMessage", fault)
        telegram.write("say: done")
        assert fault.reached.wait(30), "the answer is on its way"
        process.kill()
        process.start()
        row = operator.wait_for_reply("expired")
        assert row["can"] == ["resend"]
        wait_for_texts(telegram, "done", texts.delivery.REPLY_DROPPED)
        operator.post(f"/outbox/{row['id']}/drop", 409)
        done = operator.post(f"/outbox/{row['id']}/resend")
        assert done["done"] and done["again"] in done["said"]
        seen = ["done", texts.delivery.REPLY_DROPPED, texts.delivery.maybe_duplicate("done")]
        wait_for_texts(telegram, *seen)
        wait_for("its receipt is there", lambda: done["again"] in [one["id"] for one in operator.replies("sent")])
        process.kill()
        process.start()
        again = operator.post(f"/outbox/{row['id']}/resend")
        assert (again["done"], again["again"]) == (False, done["again"])
        operator.post(f"/outbox/{done['again']}/resend", 409)
        told = [(one["id"], one["state"]) for one in operator.last_turn(str(telegram.ann), "telegram")["replies"]]
        assert told == [(row["id"], "expired"), (done["again"], "sent")]
        assert telegram.texts() == seen


def test_b74_reply_of_unknown_outcome_is_dropped_for_good_when_an_operator_says_so(
    tmp_path: Path, telegram: LocalTelegram
) -> None:
    home, fault = tmp_path / "home", Fault(hold=True)
    with telegram_gateway(home, telegram) as process:
        wait_for("it polls", lambda: telegram.count("getUpdates"))
        telegram.befall("sendMessage", fault)
        telegram.write("say: done")
        assert fault.reached.wait(30), "the answer is on its way"
        process.kill()
    with telegram_gateway(home, telegram, PLATFORMS__TELEGRAM__BASE_URL=NOWHERE) as process:
        operator = Operator(process)
        row = operator.wait_for_reply("unknown")
        assert row["can"] == ["resend", "drop"] and operator.get("/status")["counts"]["unknown"] == 1
        assert operator.post(f"/outbox/{row['id']}/drop")["done"]
        assert operator.replies("withdrawn")[0]["problem"] == texts.delivery.DROPPED_BY_OPERATOR
        process.kill()
    with telegram_gateway(home, telegram) as process:
        telegram.write("say: next")
        wait_for_texts(telegram, "next")
        wait_until_settled_but(process, row["id"])


def wait_until_settled_but(process: GatewayProcess, row: str) -> None:
    wait_for("the next reply is sent", lambda: Operator(process).replies("sent"))
    assert [one["id"] for one in Operator(process).replies("withdrawn")] == [row]


def test_refused_reply_goes_out_when_resent_after_its_reason_is_gone(
    tmp_path: Path, telegram: LocalTelegram
) -> None:
    with telegram_gateway(tmp_path / "home", telegram) as process:
        operator = Operator(process)
        telegram.befall("sendMessage", Fault(refusal=BLOCKED))
        telegram.write("say: hello")
        row = operator.wait_for_reply("refused")
        assert operator.post(f"/outbox/{row['id']}/resend")["done"]
        wait_for_texts(telegram, "hello")
        assert len(operator.get("/outbox")["outbox"]) == 2


def test_output_of_a_process_can_be_followed_while_it_runs(tmp_path: Path) -> None:
    with gateway(tmp_path / "home") as process:
        person, operator, signal = Person(process), Operator(process), chat_workspace(process.home) / "signal"
        os.mkfifo(signal)
        person.say("background: echo begun; cat signal")
        person.wait_for_replies(1)
        (listed,) = operator.get("/processes", order="newest")["processes"]
        path = f"/processes/{listed['id']}"
        first = wait_for("it has begun", lambda: seen if (seen := operator.get(path))["output"] else None)
        assert (first["output"], first["state"], first["here"]) == ("begun\n", "live", True)
        assert operator.get(path, offset=str(first["next"]))["output"] == ""
        signal.write_text("and ended\n")
        wait_for("it has ended", lambda: operator.get(path)["state"] == "ended")
        rest = operator.get(path, offset=str(first["next"]))
        assert (rest["output"], rest["next"], rest["exit_code"]) == ("and ended\n", rest["size"], 0)


def test_b103_configuration_is_shown_without_its_secrets(tmp_path: Path, telegram: LocalTelegram) -> None:
    with telegram_gateway(tmp_path / "home", telegram, MODEL__API_KEY="sk-hidden-one") as process:
        found = Operator(process).get("/config")
        settings = {each["key"]: each for each in found["settings"]}
        assert settings["platforms.telegram.token"]["changed"] and settings["web.host"]["value"] == "127.0.0.1"
        assert telegram.token not in str(found) and "sk-hidden-one" not in str(found)


def test_verbs_for_a_closed_session_leave_the_one_after_it_alone(tmp_path: Path) -> None:
    with gateway(tmp_path / "home") as process:
        operator, person = Operator(process), Person(process)
        person.say("say: one")
        person.wait_for_replies(1)
        closed = operator.get("/sessions/agent:main:web:dm:home")["id"]
        person.say("/new")
        person.wait_for_replies(2)
        person.say("step long 1000s")
        person.wait_for_event("it runs", tool="step", state="started")
        for verb in ("stop", "drop", "suspend"):
            assert not operator.post(f"/sessions/{closed}/{verb}")["done"], verb
        now = operator.get("/sessions/agent:main:web:dm:home")
        assert (now["state"], now["turns"][0]["state"]) == ("open", "running")
        page, headers = f"{process.url}/console/sessions/{closed}", {"Authorization": f"Bearer {process.token}"}
        assert "data-act" not in httpx.get(page, headers=headers).text, (
            "it cannot come back while another one works"
        )
        assert operator.post(f"/sessions/{now['id']}/stop")["done"]
        assert texts.console.ACTIONS["bring_back"][2] in httpx.get(page, headers=headers).text
        assert operator.post(f"/sessions/{closed}/resume")["done"]
        assert operator.get("/sessions/agent:main:web:dm:home")["id"] == closed


@pytest.mark.anyio
async def test_what_cannot_be_read_is_said_to_people_on_a_page_and_to_programs_in_json(tmp_path: Path) -> None:
    async with serving(tmp_path / "home") as stopped:
        pass
    for path in ("/console", "/console/sessions", "/console/turns/t_0"):
        shown = await api_request(stopped, "GET", path)
        assert (shown.status_code, shown.headers["content-type"]) == (503, "text/html; charset=utf-8")
        assert texts.console.ERROR_TITLES[503] in shown.text
    refused = await api_request(stopped, "GET", "/api/sessions")
    assert (refused.status_code, refused.json()["hint"]) == (503, "Ask again in a moment.")


WRONG = [
    ("/turns/t_0", 404),
    ("/turns/%00", 404),
    ("/outbox?state=lost", 400),
    ("/outbox?after=x", 400),
    ("/decisions?after=1.2.3", 400),
    ("/sessions?state=lost", 400),
    ("/sessions?turn=done", 400),
    ("/sessions/s_0?after=t_0", 404),
    ("/processes/p_0", 404),
    ("/processes/p_0?offset=-1", 404),
]


BODIES = [
    b"",
    b'{"answer": "\xff"}',
    b'{"approve": "\xff"}',
    b'{"text": "\xff"}',
    b"[" * 100_000,
    b'{"x": ' + b"[" * 100_000,
]
TAKE_JSON = ["/questions/t_0.c/answer", "/approvals/t_0.c", "/people/pair", "/chats/home/messages"]


def test_what_cannot_be_found_or_understood_is_said_with_a_hint(tmp_path: Path) -> None:
    with gateway(tmp_path / "home") as process:
        operator = Operator(process)
        headers = {"Authorization": f"Bearer {process.token}"}
        for path, body in product(TAKE_JSON, BODIES):
            refused = httpx.post(f"{process.url}/api{path}", content=body, headers=headers)
            assert (refused.status_code, bool(refused.json()["hint"])) == (400, True), (path, body[:20])
        for path, status in WRONG:
            answer = operator.get(path, status)
            assert answer["error"] and answer["hint"], path
        assert (
            operator.post("/outbox/out_0/resend", 404)["hint"] == operator.post("/outbox/out_0/drop", 404)["hint"]
        )
        assert "resend" in operator.post("/outbox/out_0/fly", 404)["hint"]
        assert operator.get("/outbox") == {"outbox": [], "more": False, "next": None}
        assert operator.get("/decisions") == {"decisions": [], "more": False, "next": None}
