"""What makes a message a command."""

from __future__ import annotations

import pytest

from perdure.core.commands import Words, nearest, read_command


@pytest.mark.parametrize(
    ("text", "words"),
    [
        pytest.param("/stop", Words("stop"), id="a bare command"),
        pytest.param("  /stop \n", Words("stop"), id="blanks around it"),
        pytest.param("/STOP", Words("stop"), id="in capitals"),
        pytest.param("/stop all", Words("stop", "all"), id="with an argument"),
        pytest.param("/stop@our_bot all", Words("stop", "all"), id="meant for one bot of several"),
        pytest.param("/retry one\ntwo", Words("retry", "one\ntwo"), id="with several lines"),
        pytest.param("stop", None, id="no slash"),
        pytest.param("/", None, id="only a slash"),
        pytest.param("/ stop", None, id="a blank behind the slash"),
        pytest.param("/etc/hosts is broken", None, id="a path"),
        pytest.param("/2", None, id="a number"),
        pytest.param("please /stop", None, id="words before it"),
    ],
)
def test_message_is_a_command_or_not(text: str, words: Words | None) -> None:
    assert read_command(text) == words


def test_nearest_command_is_found_when_misspelt() -> None:
    known = ["help", "resume", "restart", "stop"]
    assert [nearest(word, known) for word in ("resme", "halp", "xyzzy")] == ["resume", "help", None]
