"""What a supervisor tells the gateway of the deaths before it (`core/exit_report.py`).

Drives `core/exit_report`.
"""

from __future__ import annotations

import signal

import pytest

from perdure.core import texts
from perdure.core.exit_report import ExitReport, GatewayLaunch, decode_launch, encode_launch

LAUNCH = GatewayLaunch("b2", (ExitReport("a1", 1_700_000_000_000, -9), ExitReport("b1", 1_700_000_000_500, 1)))


def test_launch_is_read_as_it_was_written() -> None:
    assert decode_launch(encode_launch(LAUNCH)) == LAUNCH


def test_launch_of_this_version_is_still_read_in_every_later_one() -> None:
    written = '{"name":"b2","deaths":[{"launch":"a1","at":1700000000000,"code":-9}],"version":1,"more":"later"}'
    assert decode_launch(written) == GatewayLaunch("b2", LAUNCH.deaths[:1])


@pytest.mark.parametrize(
    "text",
    ["", "x", "7", "[]", '{"deaths":[]}', '{"name":"a","version":2}', '{"name":"a","deaths":[1]}', "\udcff"],
)
def test_launch_says_nothing_when_it_is_none_of_ours(text: str) -> None:
    assert decode_launch(text) is None


def test_death_is_told_in_words() -> None:
    assert texts.recovery.process_exit(-signal.SIGKILL) == "killed by SIGKILL"
    assert texts.recovery.process_exit(-63) == "killed by signal 63"
    assert texts.recovery.process_exit(1) == "exited with 1"
    assert texts.recovery.process_exit(None) is None
