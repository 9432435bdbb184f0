"""Where a drill kills, and which settings hold in it.

Drives `testing/drill`.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from perdure.config import load_settings
from perdure.core import texts
from perdure.core.entries import Entry, ModelAsked, RecoveryNoted, TurnClaimed, TurnInterrupted
from perdure.store.audit import TurnEpochs
from perdure.testing.drill import Point, random_points, sweep_points
from perdure.testing.drill.gateway_spawner import decode_settings, encode_settings
from perdure.testing.drill.points import WEIGHTS, group_into_rounds
from perdure.testing.drill.report import find_stale_epochs, find_wrong_notes
from perdure.testing.drill.scenarios import PLATFORMS, SCENARIOS, chats_of_round
from perdure.testing.drill.settings import clock_step_seconds, drill_settings

OURS = Path("/ours")


def test_seed_decides_the_points() -> None:
    assert random_points(7, 50) == random_points(7, 50)
    assert random_points(7, 50) != random_points(8, 50)
    assert random_points(7, 50)[:12] == random_points(7, 12)


@pytest.mark.parametrize("seed", range(20))
def test_start_is_killed_only_where_there_is_something_to_recover(seed: int) -> None:
    rounds = group_into_rounds(random_points(seed, 200))
    assert all(first.place != "start" for first, *_ in rounds)
    assert all(len(points) <= 2 for points in rounds)


def test_every_kind_of_point_is_drawn() -> None:
    assert {point.place for point in random_points(1, 500)} == set(WEIGHTS)


def test_sweep_goes_before_and_after_each_call() -> None:
    assert [str(point) for point in sweep_points(4)] == [
        "before store call 1",
        "after store call 1",
        "before store call 2",
        "after store call 2",
    ]
    assert str(Point("step", 3)) == "in the middle of step or command 3"
    assert str(Point("ack", 2, after=True)) == "after the record of acknowledgement 2"


def test_conversations_take_their_turns_on_every_platform() -> None:
    where = {
        (talk.chat.partition("-")[2], talk.platform) for number in range(3) for talk in chats_of_round(number)
    }
    assert len(where) == len(SCENARIOS) * len(PLATFORMS)


def test_drill_has_the_users_rules_and_none_of_their_places(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text(
        '[store]\nurl = "postgresql://me@here/mine"\n'
        '[recovery]\npolicy = "ask"\nmax_without_progress = 1\n'
        '[queue]\nmode = "collect"\n'
        '[tools]\napprovals = "all"\ndirectory = "/mine"\nload = ["mine:tool"]\nenv = ["MY_SECRET"]\n'
        '[model]\nname = "openai:gpt-5"\napi_key = "sk-mine"\n'
        '[agent]\nmax_steps = 7\nentrypoint = "mine:agent"\ntools = ["clarify"]\n'
        '[platforms.web]\nallow = ["ann"]\n[retention]\nage = "1d"\n'
    )
    found = drill_settings(load_settings(tmp_path, {}), OURS)
    assert (found.recovery.policy, found.queue.mode, found.tools.approvals) == ("ask", "collect", "all")
    assert found.agent.max_steps == 7
    assert found.recovery.max_without_progress == 3
    ours = load_settings(OURS, {})
    assert found.store_url == ours.store_url
    assert found.shared_workspace == ours.shared_workspace
    assert (found.model, found.platforms, found.retention) == (ours.model, ours.platforms, ours.retention)
    assert (found.tools.load, found.tools.env) == (ours.tools.load, ours.tools.env)
    assert (found.agent.entrypoint, found.agent.tools) == (ours.agent.entrypoint, ours.agent.tools)
    assert decode_settings(encode_settings(found)) == found


@pytest.mark.parametrize(
    ("freshness", "moves"),
    [
        pytest.param(3600.0, True, id="an hour"),
        pytest.param(0.0, True, id="for ever"),
        pytest.param(60.0, False, id="a minute"),
    ],
)
def test_clock_moves_on_with_every_kill_unless_work_would_go_stale(freshness: float, moves: bool) -> None:
    settings = load_settings(OURS, {})
    settings = replace(settings, recovery=replace(settings.recovery, freshness=freshness))
    assert (clock_step_seconds(settings) > 300) == moves


# ── what the journal must say ───────────────────────────────────────────────────────────────────────────────

CRASH = TurnInterrupted("crash", "r_1")
NOTE = RecoveryNoted(texts.recovery.note_resumed("crash"))
ASKED = ModelAsked(2, "offline")


@pytest.mark.parametrize(
    ("entries", "wrong"),
    [
        pytest.param([ASKED], 0, id="no interruption"),
        pytest.param([CRASH, NOTE, ASKED], 0, id="one note"),
        pytest.param([CRASH, CRASH, NOTE, ASKED], 0, id="cut off again before the note"),
        pytest.param([CRASH], 0, id="not asked again"),
        pytest.param([CRASH, ASKED], 1, id="no note"),
        pytest.param([CRASH, NOTE, NOTE, ASKED], 1, id="two notes"),
        pytest.param([NOTE, ASKED], 1, id="a note of nothing"),
        pytest.param([TurnInterrupted("restart_timeout", "r_1"), NOTE, ASKED], 1, id="another cause"),
        pytest.param([CRASH, NOTE, ASKED, CRASH, ASKED], 1, id="no second note"),
    ],
)
def test_b47_exactly_one_note_with_the_cause_is_due_after_an_interruption(
    entries: list[Entry], wrong: int
) -> None:
    assert len(list(find_wrong_notes(("t_1", entry) for entry in entries))) == wrong


@pytest.mark.parametrize(
    ("epoch", "entries", "wrong"),
    [
        pytest.param(1, [TurnClaimed("r_1", 1, 1)], False, id="claimed"),
        pytest.param(2, [TurnClaimed("r_1", 1, 1), CRASH], False, id="taken over"),
        pytest.param(1, [TurnClaimed("r_1", 1, 1), CRASH], True, id="taken over with the old epoch"),
        pytest.param(3, [TurnClaimed("r_1", 1, 1), CRASH, TurnClaimed("r_2", 3, 2)], False, id="claimed again"),
        pytest.param(
            1, [TurnClaimed("r_1", 1, 1), CRASH, TurnClaimed("r_2", 1, 2)], True, id="claimed with the old one"
        ),
    ],
)
def test_turn_that_was_taken_over_has_a_new_epoch(epoch: int, entries: list[Entry], wrong: bool) -> None:
    assert bool(find_stale_epochs([TurnEpochs("t_1", epoch, tuple(entries))])) == wrong
