"""What a command cannot reach from its sandbox: as root, as an ordinary user, and where namespaces are refused.

Drives `tools/sandbox/in_force`, `tools/sandbox/bubblewrap`, `tools/sandbox/landlock`,
`tools/sandbox/system_calls`, `tools/sandbox/choice`, `tools/keeper/confinement`, `tools/keeper/proxied_network`
and `tools/keeper/proxy`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from fcntl import LOCK_EX, flock
from functools import cache
from typing import Any

import pytest

from support.escape_attempts import ATTEMPTS, PROXY_ATTEMPTS
from support.sandbox_worlds import SECRET, run_world

WORLDS = {"own": "bwrap", "user": "bwrap", "no-namespaces": "landlock"}  # with the layer that is to be had there
# Without a sandbox these come to nothing by themselves: the kernel protects them from everybody, or from a user.
REFUSED_TO_ALL = {"remount_of_etc"}
PUBLIC_WORLDS = ("own", "user")
REFUSED_TO_USERS = {"writing_to_the_system", "core_pattern", "device"}

World = Callable[..., dict[str, Any]]


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    """What happened in a world. Each takes some seconds and is only looked at, so that workers share it."""
    shared = tmp_path_factory.getbasetemp()
    shared = shared.parent if os.environ.get("PYTEST_XDIST_WORKER") else shared

    def look(name: str, mode: str = "auto", network: str = "web") -> dict[str, Any]:
        with (shared / f"world-{name}-{mode}-{network}.json").open("a+") as file:
            flock(file, LOCK_EX)
            file.seek(0)
            found: dict[str, Any] = json.loads(file.read() or "null") or run_world(name, mode, network)
            file.truncate(0)
            file.write(json.dumps(found))
            return found

    return cache(look)


@pytest.mark.parametrize("name", WORLDS)
def test_b181_best_sandbox_of_a_world_is_chosen(world: World, name: str) -> None:
    found = world(name)
    assert (found["layer"], found["network"]) == (WORLDS[name], "web")
    assert ("bubblewrap cannot be used" in found["reason"]) == (name == "no-namespaces")


@pytest.mark.parametrize("attempt", ATTEMPTS)
@pytest.mark.parametrize("name", WORLDS)
def test_b180_b182_command_does_not_reach(world: World, name: str, attempt: str) -> None:
    said = world(name)["attempts"][attempt]
    assert said.startswith("refused: "), said
    assert SECRET not in said


@pytest.mark.parametrize("attempt", [each for each in ATTEMPTS if each != "port_of_ones_own"])
@pytest.mark.parametrize("name", PUBLIC_WORLDS)
def test_b182_command_with_the_public_network_does_not_reach(world: World, name: str, attempt: str) -> None:
    found = world(name, network="public")
    assert found["network"] == "public"
    assert found["attempts"][attempt].startswith("refused: ")
    assert SECRET not in found["attempts"][attempt]


@pytest.mark.parametrize("name", PUBLIC_WORLDS)
def test_b182_command_with_the_public_network_has_a_loopback_of_its_own(world: World, name: str) -> None:
    found = world(name, network="public")
    assert found["attempts"]["port_of_ones_own"].startswith("reached: ")
    assert found["stopped"] == {"signal": 15, "stopped": True, "left": []}


@pytest.mark.parametrize("attempt", PROXY_ATTEMPTS)
@pytest.mark.parametrize("name", PUBLIC_WORLDS)
def test_b182_proxy_refuses(world: World, name: str, attempt: str) -> None:
    said = world(name, network="public")["proxy_attempts"][attempt]
    assert said.startswith("refused: HTTP/1.1 403 Forbidden"), said
    assert ("is not elsewhere on the public internet" in said) == (attempt != "port_of_the_gateway")


def test_attempts_are_real_because_they_succeed_without_a_sandbox(world: World) -> None:
    found = world("own", "off")
    refused = {attempt for attempt, said in found["attempts"].items() if not said.startswith("reached: ")}
    assert refused == REFUSED_TO_ALL | (REFUSED_TO_USERS if found["user"] else set())


@pytest.mark.parametrize("name", WORLDS)
def test_b184_stop_also_ends_a_child_in_a_session_of_its_own(world: World, name: str) -> None:
    stopped = world(name)["stopped"]
    assert stopped == {"signal": 15, "stopped": True, "left": []}


def limited(world: World, name: str, limit: str) -> dict[str, Any]:
    result: dict[str, Any] = world(name)["limits"][limit]
    return result


@pytest.mark.parametrize("name", WORLDS)
def test_b183_file_ends_at_its_limit_and_the_result_says_so(world: World, name: str) -> None:
    found = limited(world, name, "file size")
    assert (found["exit"], found["said"].split()[-1]) == (153, "2000000")
    assert "tools.sandbox_file_size" in found["problem"]


@pytest.mark.parametrize("name", WORLDS)
def test_b183_memory_ends_at_its_limit(world: World, name: str) -> None:
    found = limited(world, name, "memory")
    assert found["exit"] == 1
    assert "MemoryError" in found["said"]


@pytest.mark.parametrize("name", WORLDS)
def test_b183_processes_end_at_their_limit_unless_they_are_of_root(world: World, name: str) -> None:
    found = limited(world, name, "processes")
    assert (found["exit"] == 0) == (world(name)["user"] == 0)


@pytest.mark.parametrize("name", WORLDS)
def test_b183_command_within_its_limits_runs_as_ever(world: World, name: str) -> None:
    assert limited(world, name, "within") == {"exit": 0, "signal": None, "problem": "", "said": "1000000\n"}
