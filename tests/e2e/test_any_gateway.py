"""Several gateways on one PostgreSQL: which of them a person reaches makes no difference.

The gateways look by themselves only once an hour, so that whatever happens here happens because of a wake-up.
Drives `runtime/wakeup_relay`, `runtime/attempt_stops`, `store/hints` and `store/backends/postgres_hints`.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import httpx
import psycopg
import pytest

from support.chat_folders import chat_workspace
from support.gateway import GatewayProcess, Person
from support.openapi_check import check_response
from support.postgres_proxy import CuttingProxy
from support.waiting import wait_for

KEY = "agent:main:web:dm:home"
RARELY = "1h"
COMMANDS_RUN = {"TOOLS__SANDBOX": "off", "TOOLS__APPROVALS": "off"}  # with a process id that we can look at
CONNECTIONS = "FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
LISTENERS = f"SELECT pid, query {CONNECTIONS} AND query LIKE 'LISTEN%'"

Event = tuple[str, str, dict[str, Any]]


def query(url: str, statement: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url, autocommit=True) as connection:
        return connection.execute(statement.encode()).fetchall()


class GatewayPair:
    """Gateway `a`, which has the chat `home`, and gateway `b`, which does not."""

    def __init__(self, folder: Path, url: str, a_url: str = "", **settings: str) -> None:
        self.url = url
        options = {"STORE__POLL": RARELY} | settings
        self.a = GatewayProcess(folder / "a", STORE__URL=a_url or url, **options)
        self.b = GatewayProcess(folder / "b", STORE__URL=url, **options)
        self.at_a, self.at_b = Person(self.a), Person(self.b)

    def start(self) -> None:
        self.a.start()
        self.at_a.say("say: hello", "first")
        self.at_a.wait_for_replies(1)
        self.b.start()
        self.wait_until_listening(2)

    def wait_until_listening(self, count: int) -> list[tuple[Any, ...]]:
        return wait_for(
            f"{count} gateways listen",
            lambda: found if len(found := query(self.url, LISTENERS)) == count else None,
        )

    def holder(self) -> str:
        """The run that has the chat."""
        return str(query(self.url, f"SELECT run FROM leases WHERE key = '{KEY}'")[0][0])

    def listener_of_holder(self) -> int:
        return next(int(pid) for pid, text in query(self.url, LISTENERS) if self.holder() in text)

    def close(self) -> None:
        self.a.close()
        self.b.close()


@contextmanager
def gateway_pair(folder: Path, url: str, a_url: str = "", **settings: str) -> Iterator[GatewayPair]:
    pair = GatewayPair(folder, url, a_url, **settings)
    try:
        pair.start()
        yield pair
    finally:
        pair.close()


def run_verb(process: GatewayProcess, verb: str) -> dict[str, Any]:
    headers = {"Authorization": f"Bearer {process.token}"}
    url = f"{process.url}/api/sessions/{quote(KEY, safe='')}/{verb}"
    response = httpx.post(url, headers=headers, timeout=30)
    check_response(response)
    found: dict[str, Any] = response.json()
    return found


def collect_until(events: Iterator[Event], is_last: Callable[[str, dict[str, Any]], bool]) -> list[Event]:
    """Read events up to the first that fits."""
    found: list[Event] = []
    for event in events:
        found.append(event)
        if is_last(event[1], event[2]):
            return found
    raise AssertionError(f"the stream ended: {found}")


def is_reply(text: str) -> Callable[[str, dict[str, Any]], bool]:
    return lambda name, data: name == "message" and data["author"] == "agent" and data["text"] == text


# ── wake-ups ────────────────────────────────────────────────────────────────────────────────────────────────


def test_b165_message_through_another_gateway_is_answered_by_the_one_that_has_the_chat(
    tmp_path: Path, postgres_url: str
) -> None:
    with gateway_pair(tmp_path, postgres_url) as pair:
        holder = pair.holder()
        pair.at_b.say("say: through b", "second")
        assert pair.at_b.wait_for_replies(2) == ["hello", "through b"]
        assert pair.holder() == holder
        pair.at_b.say("/status", "command")
        assert len(pair.at_b.wait_for_replies(3)) == 3
        pair.at_b.say("ask: Which? | Left | Right\nstep go 0s", "question")
        assert pair.at_b.wait_for_replies(4)[3].startswith("Which?")
        pair.at_b.say("Left", "answer")
        assert pair.at_b.wait_for_replies(5)[4] == "Left\ngo: done"


def test_b165_message_is_answered_after_the_listening_connection_was_killed(
    tmp_path: Path, postgres_url: str
) -> None:
    with gateway_pair(tmp_path, postgres_url) as pair:
        before = pair.listener_of_holder()
        assert query(postgres_url, f"SELECT pg_terminate_backend({before})") == [(True,)]
        pair.at_b.say("say: through b", "second")
        assert pair.at_b.wait_for_replies(2) == ["hello", "through b"]
        wait_for("it listens again", lambda: len(query(postgres_url, LISTENERS)) == 2)
        assert pair.listener_of_holder() != before
        pair.at_b.say("say: again", "third")
        assert pair.at_b.wait_for_replies(3)[2] == "again"


def test_b165_what_was_said_while_a_gateway_did_not_listen_is_found_when_it_listens_again(
    tmp_path: Path, postgres_url: str
) -> None:
    parts = urlsplit(postgres_url)
    assert parts.hostname is not None
    assert parts.port is not None
    with (
        CuttingProxy(parts.hostname, parts.port) as proxy,
        gateway_pair(tmp_path, postgres_url, proxy.through(postgres_url)) as pair,
    ):
        proxy.refuse = True
        query(postgres_url, f"SELECT pg_terminate_backend({pair.listener_of_holder()})")
        wait_for("it does not hear", lambda: "hints_not_heard" in pair.a.log())
        pair.at_b.say("say: unheard", "second")
        sent = (
            "SELECT 1 FROM pg_stat_activity WHERE query LIKE '%pg_notify%JOIN leases%' AND pid <> pg_backend_pid()"
        )
        wait_for("the hint was sent", lambda: query(postgres_url, sent))
        pair.wait_until_listening(1)
        assert pair.at_b.replies() == ["hello"]
        proxy.refuse = False
        assert pair.at_b.wait_for_replies(2) == ["hello", "unheard"]


def test_b165_hints_that_nobody_understands_are_ignored(tmp_path: Path, postgres_url: str) -> None:
    with gateway_pair(tmp_path, postgres_url) as pair:
        run = pair.holder()
        for payload in (
            "",
            "nonsense",
            '{"hint": "newer", "of": 1}',
            '{"hint": "wake", "key": "no key", "loops": ["runner", "newer"]}',
            '{"hint": "watch", "run": "run_unknown", "keys": ["agent:main:web:dm:home"]}',
            '{"hint": "stop", "turn": "t_unknown", "run": "run_unknown"}',
            '{"hint": "preview", "key": "no key", "turn": "t_1", "at": 5, "text": "…"}',
        ):
            query(postgres_url, f"SELECT pg_notify('perdure_{run}', '{payload}')")
            query(postgres_url, f"SELECT pg_notify('perdure', '{payload}')")
        pair.at_b.say("say: through b", "second")
        assert pair.at_b.wait_for_replies(2) == ["hello", "through b"]
        assert "failed" not in pair.a.log()


def test_b165_only_gateway_sends_no_hints(tmp_path: Path, postgres_url: str) -> None:
    """But the one that says that it lives."""
    sent = (
        "SELECT pid, query_start FROM pg_stat_activity WHERE query LIKE '%pg_notify%' AND pid <> pg_backend_pid()"
    )
    process = GatewayProcess(tmp_path / "a", STORE__URL=postgres_url)
    try:
        process.start()
        before = wait_for("it has said that it lives", lambda: query(postgres_url, sent))
        person = Person(process)
        person.say("step one 0s\nsay: done", "first")
        person.wait_for_replies(1)
        person.say("/status", "second")
        person.wait_for_replies(2)
        assert query(postgres_url, sent) == before
        assert process.stop() == 0
    finally:
        process.close()


# ── stopping ────────────────────────────────────────────────────────────────────────────────────────────────


def begin_command(pair: GatewayPair, person: Person) -> int:
    """Begin a turn whose shell command runs for long; return the id of the command's process."""
    folder = chat_workspace(pair.a.home, KEY)
    person.say("run: echo $$ > pid; exec sleep 600", "long")

    def read() -> int | None:
        path = folder / "pid"
        return int(text) if path.exists() and (text := path.read_text().strip()) else None

    return wait_for("the command runs", read)


def is_running(command: int) -> bool:
    return Path(f"/proc/{command}").exists()


def test_b166_stop_through_another_gateway_ends_the_command_before_it_says_done(
    tmp_path: Path, postgres_url: str
) -> None:
    with gateway_pair(tmp_path, postgres_url, **COMMANDS_RUN) as pair:
        command = begin_command(pair, pair.at_b)
        answer = run_verb(pair.b, "stop")
        assert not is_running(command)
        assert answer == {"session": answer["session"], "verb": "stop", "done": True}
        assert run_verb(pair.b, "stop") == answer | {"done": False}


@pytest.mark.parametrize("how", ["command", "interrupt", "suspend"])
def test_b166_whatever_ends_a_turn_through_another_gateway_ends_its_command(
    tmp_path: Path, postgres_url: str, how: str
) -> None:
    mode = "interrupt" if how == "interrupt" else "queue"
    with gateway_pair(tmp_path, postgres_url, QUEUE__MODE=mode, **COMMANDS_RUN) as pair:
        command = begin_command(pair, pair.at_b)
        if how == "command":
            pair.at_b.say("/stop", "stop")
        elif how == "interrupt":
            pair.at_b.say("say: instead", "instead")
        else:
            assert run_verb(pair.b, "suspend")["done"]
        wait_for("the command has ended", lambda: not is_running(command))
        if how == "interrupt":
            assert pair.at_b.wait_for_replies(2)[-1] == "instead"


def test_b166_stop_is_asked_for_while_the_gateway_of_the_turn_does_not_answer(
    tmp_path: Path, postgres_url: str
) -> None:
    with gateway_pair(tmp_path, postgres_url, **COMMANDS_RUN) as pair:
        command = begin_command(pair, pair.at_a)
        pair.a.signal(signal.SIGSTOP)
        try:
            answer = run_verb(pair.b, "stop")
            assert is_running(command)
            assert answer == {"session": answer["session"], "verb": "stop", "done": False, "asked": True}
        finally:
            pair.a.signal(signal.SIGCONT)
        wait_for("the command has ended", lambda: not is_running(command))


def test_b166_stop_that_no_hint_tells_of_is_found_by_looking(tmp_path: Path, postgres_url: str) -> None:
    parts = urlsplit(postgres_url)
    assert parts.hostname is not None
    assert parts.port is not None
    with (
        CuttingProxy(parts.hostname, parts.port) as proxy,
        gateway_pair(
            tmp_path,
            postgres_url,
            proxy.through(postgres_url),
            STORE__POLL="1s",
            QUEUE__MODE="interrupt",
            **COMMANDS_RUN,
        ) as pair,
    ):
        command = begin_command(pair, pair.at_a)
        proxy.refuse = True
        query(postgres_url, f"SELECT pg_terminate_backend({pair.listener_of_holder()})")
        wait_for("it does not hear", lambda: "hints_not_heard" in pair.a.log())
        pair.at_b.say("say: instead", "instead")
        wait_for("the command has ended", lambda: not is_running(command))
        assert pair.at_b.wait_for_replies(2)[-1] == "instead"


# ── events ──────────────────────────────────────────────────────────────────────────────────────────────────


def test_b165_steps_and_previews_of_a_turn_are_seen_through_another_gateway(
    tmp_path: Path, postgres_url: str
) -> None:
    words = " ".join(f"word{number}" for number in range(40))
    with gateway_pair(tmp_path, postgres_url) as pair:
        events = pair.at_b.events()
        collect_until(events, is_reply("hello"))
        pair.at_a.say(f"step one 0.2s\nstream: {words}", "second")
        seen = collect_until(events, is_reply(words))
        names = [name for _, name, _ in seen]
        previews = [data["text"] for _, name, data in seen if name == "preview"]
        assert len(previews) > 1
        assert all(words.startswith(text) for text in previews)
        assert names.index("step") < names.index("preview")
        moves = [data["move"] for _, name, data in seen if name == "turn"]
        assert moves[-1] == "finished"


def test_b165_who_comes_in_the_middle_of_an_answer_sees_it_from_its_beginning(
    tmp_path: Path, postgres_url: str
) -> None:
    words = " ".join(f"wörd{number}\n" for number in range(60))
    with gateway_pair(tmp_path, postgres_url) as pair:
        pair.at_a.say(f"stream: {' '.join(words.split())}", "second")
        collect_until(pair.at_a.events(), lambda name, _: name == "preview")
        seen = collect_until(pair.at_b.events(), lambda name, _: name == "preview")
        assert " ".join(words.split()).startswith(seen[-1][2]["text"])


def test_b165_reader_who_changes_gateways_in_the_middle_of_a_turn_misses_nothing(
    tmp_path: Path, postgres_url: str
) -> None:
    is_all_done = is_reply("all done")

    def is_end_of_step_or_turn(name: str, data: dict[str, Any]) -> bool:
        return (name == "step" and data["state"] == "ended") or is_all_done(name, data)

    steps = [f"step s{number} 0.2s" for number in range(8)]
    with gateway_pair(tmp_path, postgres_url) as pair:
        last, events = "", list[Event]()
        people = [pair.at_a, pair.at_b]
        pair.at_b.say("\n".join([*steps, "say: all done"]), "second")
        while not any(is_all_done(name, data) for _, name, data in events):
            person = people[0]
            people.reverse()
            some = collect_until(
                person.events(last),
                lambda name, data: (
                    (name == "step" and data["state"] == "ended") or is_reply("all done")(name, data)
                ),
            )
            events += [event for event in some if event[0]]
            last = events[-1][0]
        whole = [event for event in collect_until(pair.at_b.events(), is_all_done) if event[0]]
        assert [(name, data) for _, name, data in events] == [(name, data) for _, name, data in whole]
        assert [identity for identity, _, _ in events] == [identity for identity, _, _ in whole]
