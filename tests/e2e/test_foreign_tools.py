"""Tools of packages and of MCP servers, in a real gateway: for those whose role has them, and for nobody else.

Drives `plugins`, `runtime/tool_factory`, `tools/mcp` and `agents/tool_calls`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.hostile_stage import HostileStage, hostile_stage, refusal
from support.mcp_process import HttpServer
from support.obedient_model import call

SOURCE = """
from pathlib import Path

from perdure import tool


@tool(effect="once")
def ring(who: str) -> str:
    'Ring the bell.'
    Path(__file__).with_name(f"rung_by_{who}").touch()
    return "it rang"
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a package that brings a tool, as `pip install` leaves it."""
    folder = tmp_path / "packages"
    about = folder / "bell-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: bell\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[perdure.tools]\nring = bell:ring\n")
    (folder / "bell.py").write_text(SOURCE)
    monkeypatch.setenv("PYTHONPATH", str(folder))
    return folder


@pytest.fixture
def mcp() -> Iterator[HttpServer]:
    with HttpServer() as server:
        yield server


def try_both(stage: HostileStage, name: str, folder: Path) -> dict[str, str]:
    """Let somebody order the tool of the package and that of the server; return what they see of each."""
    orders = {
        "ring": call("ring", who=name),
        "files_put": call("files_put", file=str(folder / f"put_by_{name}"), text="x"),
    }
    return {tool: "\n".join(stage.say(name, order)) for tool, order in orders.items()}


def test_b105_tools_of_packages_and_servers_are_for_those_whose_role_has_them(
    tmp_path: Path, package: Path, mcp: HttpServer
) -> None:
    servers = {"files": {"url": mcp.url, "startup_timeout": 60}}
    by_role = json.dumps({"member": ["clarify", "ring"]})
    with hostile_stage(tmp_path / "home", TOOLS__MCP=json.dumps(servers), TOOLS__BY_ROLE=by_role) as stage:
        for name, role in (("eve", "guest"), ("bob", "member")):
            stage.let_in(name, role)
        by_owner, by_member, by_guest = (try_both(stage, name, package) for name in ("ann", "bob", "eve"))

    assert all(refusal(tool, "guest") in said for tool, said in by_guest.items())
    assert refusal("files_put", "member") in by_member["files_put"]
    assert "it rang" in by_owner["ring"]
    assert "it rang" in by_member["ring"]
    done = {each.name for each in package.iterdir()} - {"bell.py", "bell-1.0.dist-info", "__pycache__"}
    assert done == {"rung_by_ann", "rung_by_bob", "put_by_ann"}
