"""`perdure chat` as people and scripts use it: in a pipe, and in a real terminal.

Drives `cli/chat`.
"""

from __future__ import annotations

import ctypes
import http.server
import os
import re
import secrets
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from support.gateway import COMMAND, GatewayProcess, Person, gateway
from support.logins import add_login
from support.ports import free_port
from support.waiting import wait_for

# Makes the terminal on standard input the one that Ctrl-C comes from, then becomes the command.
IN_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, "-m", "perdure", *sys.argv[1:]])
"""


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with gateway(tmp_path_factory.mktemp("chat") / "home") as process:
        yield process


@pytest.fixture
def name() -> str:
    """A chat that nobody has used yet."""
    return f"chat {secrets.token_hex(4)}"


def chat(environment: dict[str, str], name: str, typed: str | bytes) -> subprocess.CompletedProcess[str]:
    """Pipe this into `perdure chat`."""
    command = [*COMMAND, "chat", "--name", name]
    piped = typed if isinstance(typed, bytes) else typed.encode()
    ran = subprocess.run(command, env=environment, input=piped, capture_output=True, timeout=60, check=False)
    return subprocess.CompletedProcess(command, ran.returncode, ran.stdout.decode(), ran.stderr.decode())


# ── in a pipe ───────────────────────────────────────────────────────────────────────────────────────────────


def test_every_line_is_answered_in_order_when_lines_are_piped(process: GatewayProcess, name: str) -> None:
    ran = chat(process.environment(), name, "say: one\n\n  \nsay: two\nstep quick 0s")
    assert (ran.returncode, ran.stdout) == (0, "one\ntwo\nquick: done\n")
    assert ran.stderr == "(step …)\n", "what is no answer is kept out of the pipe"


def test_only_new_answers_are_shown_when_the_chat_has_a_past(process: GatewayProcess) -> None:
    name = secrets.token_hex(4)
    person = Person(process, name)
    person.say("say: old")
    person.wait_for_replies(1)
    assert chat(process.environment(), name, "say: new\n").stdout == "new\n"


@pytest.mark.parametrize("end", ["\n", "\r\n"], ids=["LF", "CRLF"])
def test_lines_are_one_message_when_each_but_the_last_ends_with_a_backslash(
    process: GatewayProcess, end: str
) -> None:
    name = secrets.token_hex(4)
    ran = chat(process.environment(), name, f"step one 0s\\{end}step two 0s\\{end}say: both{end}say: next{end}")
    assert (ran.returncode, ran.stdout) == (0, "both\nnext\n")
    said = [message["text"] for message in Person(process, name).messages() if message["author"] == "user"]
    assert said == ["step one 0s\nstep two 0s\nsay: both", "say: next"]


def test_exit_code_is_1_when_a_message_could_not_be_answered(process: GatewayProcess, name: str) -> None:
    ran = chat(process.environment(), name, "fail: the provider is away\nsay: but this\n")
    assert ran.returncode == 1
    assert ran.stdout == "I could not finish this: the provider is away\nbut this\n"


def test_commands_are_answered_when_piped(process: GatewayProcess, name: str) -> None:
    ran = chat(process.environment(), name, "/nope\nsay: one\n/sessions\n")
    assert ran.returncode == 0
    assert "There is no command /nope." in ran.stdout
    assert "one\n" in ran.stdout


def test_b67_next_line_is_the_answer_when_the_agent_asks(process: GatewayProcess, name: str) -> None:
    ran = chat(process.environment(), name, "ask: Which? | A | B\\\nsay: fine\nA\nask: And now?\n")
    assert ran.stdout == "Which?\n(A / B)\nfine\nAnd now?\n"
    assert ran.returncode == 1, "a question is left open"


def test_b49_chat_ends_when_one_answer_is_for_two_messages(tmp_path: Path) -> None:
    with gateway(tmp_path / "home", RECOVERY__POLICY="off") as process:
        person = Person(process, "terminal")
        client = subprocess.Popen(
            [*COMMAND, "chat"],
            env=process.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            assert client.stdin is not None
            client.stdin.write("once long 3000s\n")
            client.stdin.flush()
            person.wait_for_event("the step runs", call="c1.1", state="started")
            process.kill()
            process.start()
            answers, _ = client.communicate("say: both\n", timeout=60)
        finally:
            client.kill()
        assert client.returncode == 0
        assert answers.endswith("both\n")
        assert len({message["turn"] for message in person.messages() if message["author"] == "user"}) == 1


def test_characters_stay_as_they_are_when_piped(process: GatewayProcess) -> None:
    odd = "👩‍👧 שלום \x1b[31m %s \\ é"
    breaks = "a\u2028b\u2029c\x85d"
    typed = f"{breaks}\nsay: {odd}\n".encode() + b"say: \xff\n"
    ran = chat(process.environment(), "../odd %2F: ü?#", typed)
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.endswith(f"\n{odd}\n\ufffd\n")


def test_proxy_is_not_asked_for_a_gateway_of_our_own(process: GatewayProcess, name: str) -> None:
    nowhere = f"http://127.0.0.1:{free_port()}"
    proxies = {"HTTP_PROXY": nowhere, "http_proxy": nowhere, "ALL_PROXY": nowhere, "NO_PROXY": "", "no_proxy": ""}
    assert chat(process.environment() | proxies, name, "say: one\n").stdout == "one\n"


# ── when it cannot ──────────────────────────────────────────────────────────────────────────────────────────


def is_told(ran: subprocess.CompletedProcess[str], code: int, *words: str) -> None:
    assert (ran.returncode, ran.stdout) == (code, ""), ran
    assert "Traceback" not in ran.stderr
    assert all(word in ran.stderr for word in words), ran.stderr


def test_exit_code_is_69_when_no_gateway_answers(tmp_path: Path) -> None:
    nobody = GatewayProcess(tmp_path / "home", WEB__PORT=str(free_port()))
    is_told(
        chat(nobody.environment(), "x", "hello\n"), 69, "no gateway answers at http://127.0.0.1:", "perdure up"
    )


def test_exit_code_is_69_when_something_else_answers(tmp_path: Path) -> None:
    with http.server.HTTPServer(("127.0.0.1", 0), http.server.BaseHTTPRequestHandler) as other:
        threading.Thread(target=other.serve_forever, daemon=True).start()
        stranger = GatewayProcess(tmp_path / "home", WEB__PORT=str(other.server_port))
        is_told(chat(stranger.environment(), "x", "hello\n"), 69, "is no gateway", "PERDURE_WEB__PORT")
        other.shutdown()


def test_b103_chat_ends_when_its_token_is_not_the_gateways(process: GatewayProcess, tmp_path: Path) -> None:
    stranger = GatewayProcess(tmp_path / "home", WEB__PORT=str(process.port))
    is_told(chat(stranger.environment(), "x", "hello\n"), 1, "token", "hint:")


def test_chat_ends_when_a_message_is_too_long(process: GatewayProcess, name: str) -> None:
    is_told(chat(process.environment(), name, f"{'x' * (1 << 20)}\n"), 1, "larger than", "hint:")


def with_login(process: GatewayProcess, home: Path, scopes: str) -> dict[str, str]:
    """The environment of somebody elsewhere, who was given a login of the gateway."""
    home.mkdir()
    (home / "token").write_text(add_login(process, home.name, scopes))
    return GatewayProcess(home, WEB__PORT=str(process.port)).environment()


def test_b107_chat_with_a_login_that_may_not_approve_is_told_so(
    process: GatewayProcess, name: str, tmp_path: Path
) -> None:
    environment = with_login(process, tmp_path / "piped", "read,chat")
    is_told(chat(environment, name, "/approve\n"), 1, "lacks the scope `approve`", "hint:")


# ── in a terminal ───────────────────────────────────────────────────────────────────────────────────────────


class Terminal:
    """`perdure chat` in a terminal of its own, and somebody who types and looks."""

    def __init__(self, environment: dict[str, str], name: str) -> None:
        self._keyboard, inside = os.openpty()
        os.set_blocking(self._keyboard, False)
        self.process = subprocess.Popen(
            [sys.executable, "-c", IN_TERMINAL, "chat", "--name", name],
            env=environment,
            stdin=inside,
            stdout=inside,
            stderr=inside,
            start_new_session=True,
        )
        os.close(inside)
        self._written = b""

    @property
    def screen(self) -> list[str]:
        """The lines that stand on the screen, the greeting first; at no moment was a prompt behind other words."""
        with suppress(OSError):  # nothing new, or nobody there any more
            self._written += os.read(self._keyboard, 1 << 16)
        lines, column = [""], 0
        for piece in re.findall(r"\r|\n|\x1b\[K|[^\r\n\x1b]+|\x1b", self._written.decode(errors="ignore")):
            match piece:
                case "\n":
                    lines.append("")  # and the terminal itself says `\r` before it
                case "\r":
                    column = 0
                case "\x1b[K":
                    lines[-1] = lines[-1][:column]
                case _:
                    lines[-1] = lines[-1][:column] + piece + lines[-1][column + len(piece) :]
                    column += len(piece)
            assert not re.match(r".+(you|\.\.\.)> ", lines[-1]), f"a prompt in the middle of a line: {lines}"
        return lines

    def shows(self, *lines: str) -> None:
        """Wait until exactly this stands below the greeting."""
        with suppress(AssertionError):  # what is there instead says more
            wait_for(f"the terminal shows {lines}", lambda: self.screen[1:] == list(lines))
        assert self.screen[1:] == list(lines)

    def types(self, keys: str) -> None:
        os.write(self._keyboard, keys.encode())

    def ends(self) -> int:
        def over() -> bool:
            _ = self.screen  # looked at, so that it never waits for a full screen
            return self.process.poll() is not None

        with suppress(AssertionError):  # what it shows instead says more
            wait_for("the chat ends", over)
        assert over(), f"the chat does not end, and shows {self.screen}"
        return self.process.wait()

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        os.close(self._keyboard)


@pytest.fixture
def terminal(process: GatewayProcess, name: str) -> Iterator[Terminal]:
    terminal = Terminal(process.environment(), name)
    try:
        yield terminal
    finally:
        terminal.close()


def test_conversation_goes_back_and_forth_until_ctrl_d(terminal: Terminal) -> None:
    terminal.shows("you> ")
    terminal.types("say: first answer\n")
    seen = ["you> say: first answer", "first answer"]
    terminal.shows(*seen, "you> ")
    terminal.types("step work 0s\\\n")
    seen += ["you> step work 0s\\"]
    terminal.shows(*seen, "...> ")
    terminal.types("fail: no luck\n")
    seen += ["...> fail: no luck", "(step …)", "I could not finish this: no luck"]
    terminal.shows(*seen, "you> ")
    terminal.types("say: red \x1b[31m\n")
    seen += ["you> say: red ^[[31m", "red \ufffd[31m"]
    terminal.shows(*seen, "you> ")
    terminal.types("step slow 60s\n")
    seen += ["you> step slow 60s", "(step …)"]
    terminal.shows(*seen, "you> ")
    terminal.types("\x04")
    assert terminal.ends() == 0, "a person who leaves does not wait for answers, and knows what failed"
    terminal.shows(*seen, "you> ", "")  # the shell's prompt begins a new line


def test_b107_person_who_may_not_approve_is_told_so_and_goes_on(
    process: GatewayProcess, name: str, tmp_path: Path
) -> None:
    terminal = Terminal(with_login(process, tmp_path / "typing", "read,chat"), name)
    try:
        terminal.shows("you> ")
        terminal.types("/approve\nsay: still here\n")
        wait_for("it goes on", lambda: terminal.screen[-2:] == ["still here", "you> "])
        assert any("lacks the scope `approve`" in line for line in terminal.screen)
    finally:
        terminal.close()


def test_prompt_stands_once_behind_the_answers_when_lines_are_pasted(terminal: Terminal) -> None:
    terminal.shows("you> ")
    terminal.types("say: one\nsay: two\nstep three 0s\\\nsay: three\n")
    pasted = ["you> say: one", "say: two", "step three 0s\\", "say: three"]
    terminal.shows(*pasted, "one", "two", "(step …)", "three", "you> ")


def test_prompt_stands_once_when_an_answer_comes_while_a_line_is_being_entered(
    process: GatewayProcess, terminal: Terminal, name: str
) -> None:
    """The line is entered, and the answer to somebody else is here, before the chat has looked at either."""
    terminal.shows("you> ")
    terminal.process.send_signal(signal.SIGSTOP)
    somebody = Person(process, name)
    somebody.say("say: theirs")
    somebody.wait_for_replies(1)
    terminal.types("say: mine\n")
    terminal.shows("you> say: mine", "")
    terminal.process.send_signal(signal.SIGCONT)
    terminal.shows("you> say: mine", "theirs", "mine", "you> ")


def test_ctrl_c_ends_the_conversation_without_a_traceback(terminal: Terminal) -> None:
    terminal.shows("you> ")
    terminal.types("half a li")
    terminal.shows("you> half a li")
    terminal.types("\x03")
    assert terminal.ends() == 128 + signal.SIGINT
    terminal.shows("you> half a li^C", "")  # and not a word more


def test_ctrl_c_is_heard_at_once_whichever_thread_gets_it(process: GatewayProcess, terminal: Terminal) -> None:
    """Nothing else happens that could wake the chat up: the gateway is held."""
    terminal.shows("you> ")
    threads = Path(f"/proc/{terminal.process.pid}/task")
    [reader] = [int(thread.name) for thread in threads.iterdir() if thread.name != threads.parent.name]
    process.signal(signal.SIGSTOP)
    try:
        assert ctypes.CDLL(None).tgkill(terminal.process.pid, reader, signal.SIGINT) == 0
        assert terminal.ends() == 128 + signal.SIGINT
    finally:
        process.signal(signal.SIGCONT)
