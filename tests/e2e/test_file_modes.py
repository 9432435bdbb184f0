"""Every file in the home is its owner's alone, whatever the umask is.

Drives `store/backends/sqlite`, `store/locks`, `tools/attachments`, `tools/keeper`, `web/auth/token` and
`operations/transfer`.
"""

from __future__ import annotations

import stat
import subprocess
from pathlib import Path

import httpx

from support.gateway import COMMAND, GatewayProcess, Person
from support.waiting import wait_for

NO_UMASK = ("sh", "-c", 'umask 000; exec "$@"', "sh")


def mode(path: Path) -> str:
    return f"{stat.S_IMODE(path.lstat().st_mode):04o}"


def open_to_others(home: Path) -> dict[str, str]:
    """The files of a home that others than their owner may use, with their modes."""
    everything = [
        home,
        *(each for each in home.rglob("*") if not {"workspace", "home"} & {*each.relative_to(home).parts}),
    ]
    return {
        str(each.relative_to(home)): mode(each)
        for each in everything
        if not each.is_symlink() and stat.S_IMODE(each.lstat().st_mode) & 0o077
    }


def test_b103_files_of_the_home_are_private_when_nothing_masks_their_modes(tmp_path: Path) -> None:
    process = GatewayProcess(tmp_path / "home")
    try:
        process.start(*NO_UMASK)
        person = Person(process)
        person.say("run: echo one")
        person.wait_for_replies(1)
        person.say("background: sleep 600")
        person.wait_for_replies(2)
        headers = {"Authorization": f"Bearer {process.token}"}
        upload = httpx.post(f"{process.url}/api/attachments?name=a.txt", content=b"a", headers=headers)
        assert upload.status_code == 201
        written = tmp_path / "export.json"
        subprocess.run(
            [*NO_UMASK, *COMMAND, "export", "--output", str(written)], env=process.environment(), check=True
        )
        assert mode(written) == "0600"
        names = {each.name for each in process.home.rglob("*")}
        assert {
            "perdure.db",
            "perdure.db-wal",
            "perdure.db-shm",
            "token",
            "lock",
            "attachments",
            "keepers",
        } <= names
        assert open_to_others(process.home) == {}
        process.kill()
        process.start(*NO_UMASK)
        wait_for("it answers again", lambda: person.say("say: there").status_code == 202)
        assert open_to_others(process.home) == {}
        assert process.stop() == 0
        assert open_to_others(process.home) == {}
    finally:
        process.close()
