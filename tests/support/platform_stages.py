"""The stages of the built-in adapters: the simulated platform and the Telegram emulator."""

from __future__ import annotations

from types import MappingProxyType

import msgspec

from perdure.platforms.api import Adapter, Capabilities
from perdure.platforms.telegram import TelegramAdapter
from perdure.platforms.telegram.bot_api import HttpClient
from perdure.platforms.telegram.webhook import SECRET_HEADER, WEBHOOK_PATH
from perdure.testing import CutLine, Mishap, PlatformStage, Seen, SimulatedPlatform
from perdure.testing.simulated_platform import PostedMessage
from perdure.testing.telegram import BLOCKED, Fault, LocalTelegram, too_many_requests

MARK_ROOM_CHARS = 96  # characters beside the longest message, for a mark
PUBLIC_URL = "https://bot.example.org"  # the public URL of the gateway
UNREACHABLE_URL = "http://127.0.0.1:9"
ANSWER_TIMEOUT_SECONDS = 60.0  # seconds to wait for the answer to a post


class SimulatedStage(PlatformStage):
    def __init__(self, capabilities: Capabilities) -> None:
        self.platform = SimulatedPlatform(capabilities=capabilities)
        self.platform.longest = capabilities.max_length and capabilities.max_length + MARK_ROOM_CHARS

    def adapter(self) -> Adapter:
        return self.platform.adapter()

    async def write(self, text: str, chat: str = "ann", thread: str | None = None) -> None:
        self.platform.write(text, chat=chat, thread=thread)

    async def seen(self, chat: str = "ann", thread: str | None = None) -> list[Seen]:
        return [_seen_message(each) for each in self.platform.posted if _chat_and_thread(each) == (chat, thread)]

    async def share(self, name: str, chat: str = "ann") -> bytes | None:
        self.platform.write("Look.", chat=chat, files=[name])
        return name.encode()

    async def press(self, label: str, chat: str = "ann") -> None:
        shown = [
            button for each in self.platform.posted for button in each.buttons if _chat_and_thread(each)[0] == chat
        ]
        self.platform.press(next(button.command for button in reversed(shown) if button.label == label), chat=chat)

    async def glimpses(self, chat: str = "ann") -> list[str]:
        return [text for address, text in self.platform.glimpses if address.chat == chat]

    async def typed(self, chat: str = "ann", thread: str | None = None) -> int:
        return sum((address.chat, address.thread) == (chat, thread) for address in self.platform.typings)

    async def unconfirmed(self) -> int:
        return len(self.platform.pending()) + len(self.platform.garbled_events())

    async def garble(self) -> bool:
        self.platform.garble("}{")
        return True

    async def befall(self, mishap: Mishap) -> bool:
        switch = {Mishap.LOST_ANSWER: "lose_answers", Mishap.WAIT: "wait", Mishap.REFUSED: "refuse"}[mishap]
        setattr(self.platform, switch, 1)
        return True

    async def cut(self) -> None:
        self.platform.reachable = False
        self.platform.disconnect()

    async def mend(self) -> None:
        self.platform.reachable = True


def _chat_and_thread(posted: PostedMessage) -> tuple[str, str | None]:
    return posted.address.chat, posted.address.thread


def _seen_message(posted: PostedMessage) -> Seen:
    return Seen(posted.text, tuple(button.label for button in posted.buttons), posted.file)


class TelegramStage(PlatformStage):
    """The Telegram emulator behind a line that can be cut; it is polled, or posts to the gateway."""

    settings = MappingProxyType({"PLATFORMS__TELEGRAM__ALLOW": "*"})

    def __init__(self, *, posts: bool = False) -> None:
        self.telegram = LocalTelegram()
        self._webhook = PUBLIC_URL if posts else None
        self._webhook_url = UNREACHABLE_URL
        self._line: CutLine
        self._topics: dict[tuple[int, str], int] = {}

    async def open(self) -> None:
        self.telegram.__enter__()
        self._line = CutLine(int(self.telegram.url.rsplit(":", 1)[1]))
        await self._line.mend()

    async def close(self) -> None:
        await self._line.cut()
        self.telegram.__exit__(None, None, None)

    def adapter(self) -> Adapter:
        url = f"http://127.0.0.1:{self._line.port}"
        return TelegramAdapter(self.telegram.token, url, self._webhook, webhook_check_seconds=0.05)

    def _chat_and_topic(self, chat: str, thread: str | None) -> tuple[int, int | None]:
        number = self.telegram.person(chat)
        if thread is None:
            return number, None
        if (number, thread) not in self._topics:
            self._topics[number, thread] = self.telegram.topic(number, thread)
        return number, self._topics[number, thread]

    async def write(self, text: str, chat: str = "ann", thread: str | None = None) -> None:
        number, topic = self._chat_and_topic(chat, thread)
        self.telegram.write(text, chat=number, sender=chat, thread=topic)

    async def seen(self, chat: str = "ann", thread: str | None = None) -> list[Seen]:
        number, topic = self._chat_and_topic(chat, thread)
        there = [each for each in self.telegram.seen(number) if each.thread == topic]
        return [Seen(each.text, tuple(each.labels()), each.file[2] if each.file else None) for each in there]

    async def share(self, name: str, chat: str = "ann") -> bytes | None:
        self.telegram.share("document", name, b"some content", chat=self.telegram.person(chat), sender=chat)
        return b"some content"

    async def press(self, label: str, chat: str = "ann") -> None:
        self.telegram.press(label, chat=self.telegram.person(chat), sender=chat)

    async def typed(self, chat: str = "ann", thread: str | None = None) -> int:
        number, topic = self._chat_and_topic(chat, thread)
        shown = [call for call in self.telegram.calls if (call.method, call.status) == ("sendChatAction", 200)]
        places = [(int(call.params["chat_id"]), call.params.get("message_thread_id")) for call in shown]
        return places.count((number, topic))

    async def publish(self, url: str) -> None:
        self._webhook_url = self.telegram.methods.webhook_poster.published[PUBLIC_URL] = url

    async def forge(self, text: str, chat: str = "ann") -> list[int]:
        number = self.telegram.person(chat)
        person = {"id": number, "is_bot": False, "first_name": chat}
        said = {"message_id": 999, "chat": {"id": number, "type": "private"}, "date": 0, "text": text}
        update = {"update_id": 999, "message": said | {"from": person}}
        body, door = msgspec.json.encode(update), HttpClient(self._webhook_url)
        wrong: list[list[tuple[str, str]]] = [[], [(SECRET_HEADER, "")], [(SECRET_HEADER, "wrong")]]
        answers = [await door.post(WEBHOOK_PATH, body, ANSWER_TIMEOUT_SECONDS, headers) for headers in wrong]
        await door.close()
        return [status for status, _ in answers]

    async def unconfirmed(self) -> int:
        return len(self.telegram.unconfirmed())

    async def garble(self) -> bool:
        self.telegram.happen({"message": {"message_id": "not a number"}})
        return True

    async def befall(self, mishap: Mishap) -> bool:
        faults = {
            Mishap.LOST_ANSWER: Fault(effect=True, cut=True),
            Mishap.WAIT: Fault(refusal=too_many_requests(1)),
            Mishap.REFUSED: Fault(refusal=BLOCKED),
        }
        self.telegram.befall("sendMessage", faults[mishap])
        return True

    async def cut(self) -> None:
        self.telegram.methods.webhook_poster.published[PUBLIC_URL] = UNREACHABLE_URL
        await self._line.cut()

    async def mend(self) -> None:
        self.telegram.methods.webhook_poster.published[PUBLIC_URL] = self._webhook_url
        await self._line.mend()
