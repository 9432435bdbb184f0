"""What makes a message a command.

Drives `core/commands`.
"""

from __future__ import annotations

import pytest

from perdure.core.commands import (
    BackgroundRequest,
    ParsedCommand,
    is_background_verb,
    nearest_command,
    read_background_request,
    read_command,
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("/stop", ParsedCommand("stop"), id="a bare command"),
        pytest.param("  /stop \n", ParsedCommand("stop"), id="blanks around it"),
        pytest.param("/STOP", ParsedCommand("stop"), id="in capitals"),
        pytest.param("/stop all", ParsedCommand("stop", "all"), id="with an argument"),
        pytest.param("/stop@our_bot all", ParsedCommand("stop", "all"), id="meant for one bot of several"),
        pytest.param("/retry one\ntwo", ParsedCommand("retry", "one\ntwo"), id="with several lines"),
        pytest.param("stop", None, id="no slash"),
        pytest.param("/", None, id="only a slash"),
        pytest.param("/ stop", None, id="a blank behind the slash"),
        pytest.param("/etc/hosts is broken", None, id="a path"),
        pytest.param("/2", None, id="a number"),
        pytest.param("please /stop", None, id="words before it"),
    ],
)
def test_message_is_a_command_or_not(text: str, words: ParsedCommand | None) -> None:
    assert read_command(text) == words


def test_nearest_command_is_found_when_misspelt() -> None:
    known = ["help", "resume", "restart", "stop"]
    assert [nearest_command(word, known) for word in ("resme", "halp", "xyzzy")] == ["resume", "help", None]


@pytest.mark.parametrize(
    ("text", "aim"),
    [
        pytest.param("stop 2", BackgroundRequest("stop", 2), id="a verb and a number"),
        pytest.param("Stop #12", BackgroundRequest("stop", 12), id="in capitals, with a sign"),
        pytest.param(
            "answer 1 the left one",
            BackgroundRequest("answer", 1, "the left one"),
            id="an answer of several words",
        ),
        pytest.param("approve 1 t_1.c1.1", BackgroundRequest("approve", 1, "t_1.c1.1"), id="a button's approval"),
        pytest.param("resume 3 t_1", BackgroundRequest("resume", 3, "t_1"), id="a button's wish to go on"),
        pytest.param("resume 3 reports", None, id="work that begins like that"),
        pytest.param("stop the music", None, id="work with a verb"),
        pytest.param("stop 0", None, id="no such number"),
        pytest.param("stop", None, id="no number"),
    ],
)
def test_words_reach_a_work_or_begin_one(text: str, aim: BackgroundRequest | None) -> None:
    assert read_background_request(text) == aim


def test_bare_verb_is_no_work() -> None:
    assert [is_background_verb(text) for text in ("stop", " Answer ", "stop it", "")] == [True, True, False, False]
