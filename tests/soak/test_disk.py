"""Real disks that fail: full, and unable to sync.

Drives `store/backends`.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from support.gateway import GatewayProcess, Person, gateway
from support.waiting import wait_for

CHUNK = b"x" * 4096


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of three megabytes."""
    place = tmp_path / "disk"
    place.mkdir()
    subprocess.run(["/bin/mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(place)], check=True)
    try:
        yield place
    finally:
        subprocess.run(["/bin/umount", "-l", str(place)], check=True)


def fill(disk: Path) -> Path:
    filler = disk / "filler"
    with filler.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(CHUNK)
        except OSError:
            return filler


def health(process: GatewayProcess) -> tuple[int, list[str]]:
    response = httpx.get(f"{process.url}/healthz")
    return response.status_code, response.json()["reasons"]


def test_b60_full_disk_means_not_done_and_is_said(small_disk: Path) -> None:
    with gateway(small_disk / "home") as process:
        person = Person(process)
        person.say("step before 0s\nsay: before")
        person.wait_for_replies(1)
        filler = fill(small_disk)
        refused = wait_for("a message is refused", lambda: _refusal(person))
        assert refused["error"] == "not written: the disk is full"
        assert health(process) == (503, ["not written: the disk is full"])
        filler.unlink()
        wait_for("the gateway is healthy again", lambda: health(process)[0] == 200)
        seen = len(person.replies())
        assert person.say("say: after", "after").status_code == 202
        assert wait_for("the answer", lambda: person.replies()[seen:])[-1] == "after"
        assert process.stop() == 0


def _refusal(person: Person) -> dict[str, str] | None:
    """Write until the log has no room left in its last page."""
    response = person.say("say: " + "filling " * 500)
    found: dict[str, str] = response.json()
    return found if response.status_code == 503 else None


def test_failed_sync_ends_the_gateway_and_is_read_again_at_the_next_start(tmp_path: Path) -> None:
    process = GatewayProcess(tmp_path / "home")
    try:
        process.start("strace", "-f", "-qq", "-o", "/dev/null", "-e", "inject=fdatasync:error=EIO:when=40+")
        person = Person(process)
        accepted = [text for n in range(40) if _say(person, text := f"say: {n}")]
        assert process.wait() != 0
        assert "disk I/O error" in process.log()
        process.start()
        replies = wait_for("every accepted message is answered", lambda: _answers(person, len(accepted)))
        assert [text.removeprefix("say: ") for text in accepted] == replies[: len(accepted)]
        assert len(set(replies)) == len(replies), "a message was answered twice"
    finally:
        process.close()


def _say(person: Person, text: str) -> bool:
    try:
        return person.say(text, text).status_code == 202
    except httpx.TransportError:
        return False


def _answers(person: Person, count: int) -> list[str] | None:
    replies = person.replies()
    return replies if len(replies) >= count else None
