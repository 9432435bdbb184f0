"""Chats beside each other: none sees the files of another, and old homes go on as they were.

Drives `runtime/chat_folders`, `store/attachments` and `tools/workspace`.
"""

from __future__ import annotations

import json
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from perdure.core.file_names import chat_folder
from perdure.testing.providers import Asked, LocalProvider, Says, Wish
from support.chat_folders import chat_workspace
from support.gateway import COMMAND, GatewayProcess, Person, gateway
from support.waiting import wait_for

RESULT = "It says: "
ALONE = "marzipan for Ann alone"


def answers(asked: Asked) -> Says:
    """A model that uses the tool that a message names, and repeats what it reads."""
    last = asked.messages[-1]
    if last["role"] == "tool":
        return Says(f"{RESULT}{last['content']}")
    name, arguments = json.loads(last["content"].splitlines()[0])
    return Says(calls=[Wish(name, arguments)])


class Chat(Person):
    """A chat in which tools are used by messages."""

    def __init__(self, process: GatewayProcess, name: str) -> None:
        super().__init__(process, name)
        self.key = f"agent:main:web:dm:{name}"
        self._process = process

    def use(self, name: str, /, *files: str, **arguments: Any) -> str:
        """What the model reads when it uses a tool; the message has these files."""
        before = len(self._results())
        self._count += 1
        body = {"id": f"m{self._count}", "text": json.dumps([name, arguments]), "attachments": list(files)}
        assert self.request("POST", "/messages", json=body).status_code == 202
        return wait_for("the tool has answered", lambda: self._results()[before:])[-1]

    def _results(self) -> list[str]:
        return [text for text in self.replies() if text.startswith(RESULT)]

    def upload(self, name: str, content: str) -> str:
        headers = {"Authorization": f"Bearer {self._process.token}", "Content-Type": "text/plain"}
        url = f"{self._process.url}/api/attachments?name={name}"
        return str(httpx.post(url, content=content, headers=headers, timeout=30).json()["id"])


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    """One gateway for all tests: each has chats of its own."""
    with LocalProvider(answers) as provider:
        model = {"NAME": "openai:local", "BASE_URL": provider.openai_url, "API_KEY": provider.key}
        settings = {f"MODEL__{name}": value for name, value in model.items()}
        with gateway(tmp_path_factory.mktemp("chats") / "home", **settings) as process:
            yield process


def test_b180_chat_sees_no_file_of_another_by_any_file_tool(process: GatewayProcess) -> None:
    ann, ben = Chat(process, "ann"), Chat(process, "ben")
    assert "Wrote" in ann.use("write_file", path="notes/plan.txt", content=ALONE)
    file = chat_workspace(process.home, ann.key) / "notes" / "plan.txt"
    assert file.read_text() == ALONE
    for path in (str(file), f"../../{Path(chat_folder(ann.key)).name}/workspace/notes/plan.txt"):
        assert "leads out of" in ben.use("read_file", path=path)
        assert "leads out of" in ben.use("write_file", path=path, content="changed")
        assert "leads out of" in ben.use("edit_file", path=path, old="marzipan", new="changed")
        assert "leads out of" in ben.use("search_files", path=path, pattern="marzipan")
        assert "leads out of" in ben.use("send_file", path=path)
    assert "does not exist" in ben.use("read_file", path="notes/plan.txt")
    assert "No match" in ben.use("search_files", pattern="marzipan")
    assert "leads out of" in ben.use("read_file", path="../..")
    assert ALONE in ann.use("read_file", path="notes/plan.txt")
    before = len(ann.replies())
    ann.say("/new")
    ann.wait_for_replies(before + 1)
    assert ALONE in ann.use("read_file", path="notes/plan.txt"), "a fresh session has the chat's files"
    modes = {stat.S_IMODE(each.stat().st_mode) for each in (process.home / "chats").glob("**/workspace")}
    assert modes | {stat.S_IMODE((process.home / "chats").stat().st_mode)} == {0o700}
    assert ALONE not in json.dumps(ben.messages())


def test_b180_chat_reads_its_own_attachments_and_no_others(process: GatewayProcess) -> None:
    ann, ben = Chat(process, "cleo"), Chat(process, "dora")
    uploaded = ann.upload("list.txt", ALONE)
    path = str(process.home / "attachments" / uploaded / "list.txt")
    assert "leads out of" in ann.use("read_file", path=path), "nobody has sent it yet"
    assert ALONE in ann.use("read_file", uploaded, path=path)
    assert "leads out of" in ben.use("read_file", path=path)
    assert "leads out of" in ben.use("search_files", path=path, pattern="marzipan")
    assert "leads out of" in ben.use("send_file", path=path)
    assert "1 match" in ann.use("search_files", path=path, pattern="marzipan")
    for folder in (Path(path).parent, Path(path).parent.parent):
        assert "leads out of" in ann.use("read_file", path=str(folder))
        assert "leads out of" in ann.use("search_files", path=str(folder), pattern="marzipan")
    ann.use("send_file", path=path)
    wait_for("it is sent", lambda: any("goes to the user" in each for each in ann.replies()))
    [copy] = set((process.home / "attachments").glob("*/list.txt")) - {Path(path)}
    assert ALONE in ann.use("read_file", path=str(copy)), "what was sent here can be read here"
    assert "leads out of" in ben.use("read_file", path=str(copy))


def test_b180_background_session_works_in_the_folder_of_its_chat(process: GatewayProcess) -> None:
    ann = Chat(process, "emma")
    ann.use("write_file", path="plan.txt", content=ALONE)
    uploaded = ann.upload("list.txt", "almonds")
    path = str(process.home / "attachments" / uploaded / "list.txt")
    ann.use("read_file", uploaded, path=path)
    for number, (file, words) in enumerate({"plan.txt": ALONE, path: "almonds"}.items()):
        before = len(ann.replies())
        ann.say(f"/background {json.dumps(['read_file', {'path': file}])}", f"background{number}")
        said = ann.wait_for_replies(before + 2)[before:]
        assert words in "".join(said)
    assert len(list((process.home / "chats").glob("*emma*"))) == 1


def test_b180_command_sees_the_attachments_of_its_chat_and_nothing_of_another(tmp_path: Path) -> None:
    with gateway(tmp_path / "home", TOOLS__APPROVALS="off") as process:
        ann, ben = Chat(process, "ann"), Chat(process, "ben")
        uploaded = ann.upload("list.txt", ALONE)
        path = process.home / "attachments" / uploaded / "list.txt"
        script = f"run: cat {path}; cat {path} > plan.txt; echo changed > {path}"
        ann.request("POST", "/messages", json={"id": "1", "text": script, "attachments": [uploaded]})
        [said] = ann.wait_for_replies(1)
        plan = chat_workspace(process.home, ann.key) / "plan.txt"
        assert ALONE in said and plan.read_text() == ALONE
        assert path.read_text() == ALONE, "a command can read it, and not change it"
        ben.say(f"run: cat {path} {plan}; ls {process.home}/chats {process.home}/attachments")
        [said] = ben.wait_for_replies(1)
        assert ALONE not in said and "main~web~dm~ann" not in said.replace(str(plan), "")
        path.unlink()
        ann.say("run: echo well")
        assert "well" in ann.wait_for_replies(2)[-1], "a file that is gone keeps no command from running"


# ── homes of earlier versions ───────────────────────────────────────────────────────────────────────────────


def reads(process: GatewayProcess, chat: str, file: str) -> bool:
    """Whether the commands and tools of a chat have a file."""
    person = Person(process, chat)
    person.say(f"send: {file}\nrun: cat {file}")
    person.wait_for_replies(1)
    sent = [message for message in person.messages() if message.get("attachments")]
    read = ALONE in person.wait_for_replies(1 + len(sent))[-1]
    assert read == bool(sent)
    return read


@pytest.mark.parametrize("folder", ["workspace", "files"])
def test_b180_home_with_files_of_an_earlier_version_goes_on_sharing_them(tmp_path: Path, folder: str) -> None:
    """In 0.2.0 all chats had `workspace`, or what `tools.directory` names; that stays, and is said."""
    home = tmp_path / "home"
    (home / folder).mkdir(parents=True)
    (home / folder / "old.txt").write_text(ALONE)
    with gateway(home, **({} if folder == "workspace" else {"TOOLS__DIRECTORY": folder})) as process:
        assert reads(process, "ann", "old.txt") and reads(process, "ben", "old.txt")
        assert "workspace_shared" in process.log() and "tools.workspaces" in process.log()
        assert not (home / "chats").exists()
        assert process.stop() == 0
        process.configure(TOOLS__WORKSPACES="chat")
        process.start()
        assert not reads(process, "cleo", "old.txt")
        assert process.stop() == 0
        process.configure()  # whoever has changed over stays there
        process.start()
        assert not reads(process, "dora", "old.txt")


def test_b180_home_without_files_of_an_earlier_version_gives_each_chat_its_own(tmp_path: Path) -> None:
    (tmp_path / "home" / "workspace").mkdir(parents=True)
    with gateway(tmp_path / "home") as process:
        (chat_workspace(process.home, "agent:main:web:dm:ann") / "plan.txt").write_text(ALONE)
        assert reads(process, "ann", "plan.txt") and not reads(process, "ben", "plan.txt")
        assert "workspace_shared" not in process.log()


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"TOOLS__DIRECTORY": "."}, "where the gateway keeps its own files"),
        ({"TOOLS__DIRECTORY": "attachments"}, "where the gateway keeps its own files"),
        ({"TOOLS__DIRECTORY": "files", "TOOLS__WORKSPACES": "chat"}, "is one folder for all chats"),
    ],
    ids=["the home", "the attachments", "both"],
)
def test_b185_directory_that_cannot_be_the_agents_is_refused(
    tmp_path: Path, settings: dict[str, str], words: str
) -> None:
    process = GatewayProcess(tmp_path / "home", **settings)
    done = subprocess.run(
        [*COMMAND, "run"], env=process.environment(), capture_output=True, text=True, check=False
    )
    assert (done.returncode, words in done.stderr) == (78, True)
