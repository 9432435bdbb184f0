"""A second client library reads what the emulator of Telegram says: aiogram, whose models know the newest Bot API.

Drives `testing/telegram`.

It wants an older pydantic than we have, so it lives in an environment of its own, which `make test` sets up.
"""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import httpx
import pytest

from perdure.testing.telegram import BOT_NAME, Fault, LocalTelegram, too_many_requests

HERE = Path(__file__).parent
REFUSED = 4  # of the calls below
PYTHON = HERE / ".aiogram" / "bin" / "python"


def answers(telegram: LocalTelegram) -> list[tuple[str, Any]]:
    """Everything that the emulator can say, each as the method that was called and the body that came."""
    said: list[tuple[str, Any]] = []

    def call(method: str, **params: Any) -> Any:
        given = {"files": params.pop("files"), "data": params} if "files" in params else {"json": params}
        body = httpx.post(f"{telegram.url}/bot{telegram.token}/{method}", **given).json()
        said.append((method, body))
        return body.get("result")

    call("getMe")
    call("setMyCommands", commands=[{"command": "stop", "description": "end what is running"}])
    call("sendChatAction", chat_id=telegram.ann, action="typing")
    keys = {"inline_keyboard": [[{"text": "Left", "callback_data": "left"}]]}
    bold = [{"type": "bold", "offset": 0, "length": 5}]
    first = telegram.write(f"hello @{BOT_NAME} /stop")
    sent = call(
        "sendMessage",
        chat_id=telegram.ann,
        text="Which way?",
        entities=bold,
        reply_markup=keys,
        reply_parameters={"message_id": first},
    )
    query = telegram.press("Left")
    call("answerCallbackQuery", callback_query_id=query, text="Noted.")
    call("editMessageText", chat_id=telegram.ann, message_id=sent["message_id"], text="Left it is")
    forum = telegram.group("Forum", forum=True)
    telegram.write("in a topic", chat=forum, thread=telegram.topic(forum), reply_to=None)
    telegram.edit(telegram.write("wrogn"), "wrong")
    for kind in ("photo", "document", "voice"):
        telegram.share(kind, "a.file", caption="look", album="a1" if kind != "voice" else None)
    small = telegram.group("Small", basic=True)
    telegram.migrate(small)
    updates = call("getUpdates")
    files = [each["message"]["document"] for each in updates if "document" in each.get("message", {})]
    call("getFile", file_id=files[0]["file_id"])
    call("getWebhookInfo")
    call("setWebhook", url="https://127.0.0.1:9/hook", secret_token="s", allowed_updates=["message"])  # noqa: S106
    call("getWebhookInfo")
    call("deleteWebhook")
    for kind in ("photo", "document", "voice"):
        call(f"send{kind.title()}", chat_id=telegram.ann, files={kind: ("a.file", b"what is in it")})
    call("sendMessage", chat_id=42, text="to nobody")
    call("sendMessage", chat_id=small, text="to where the chat was")
    telegram.befall("sendMessage", Fault(refusal=too_many_requests(7)))
    call("sendMessage", chat_id=telegram.ann, text="too soon")
    telegram.block("ann")
    call("sendMessage", chat_id=telegram.ann, text="to whoever does not want it")
    return said + [("update", update) for update in updates]


def test_everything_that_the_emulator_says_is_read_by_aiogram(tmp_path: Path) -> None:
    if not PYTHON.exists():
        pytest.fail("aiogram is not installed beside the tests: run `make test`, which does that")
    with LocalTelegram() as telegram:
        said = answers(telegram)
    lines = tmp_path / "answers"
    lines.write_text("\n".join(json.dumps({"method": method, "body": body}) for method, body in said))
    done = subprocess.run(
        [PYTHON, HERE / "aiogram_reads.py", lines], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.split() == [f"{len(said)}", f"{REFUSED}"]
