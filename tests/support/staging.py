"""Stages for the adapters that come with Perdure: the simulated platform, and Telegram on this machine."""

from __future__ import annotations

from types import MappingProxyType

from perdure.platforms.api import Adapter, Capabilities
from perdure.platforms.telegram import TelegramAdapter
from perdure.testing import CutLine, Mishap, PlatformStage, Seen, SimulatedPlatform
from perdure.testing.platform import Posted
from perdure.testing.telegram import BLOCKED, Fault, LocalTelegram, too_many

ROOM = 96  # characters beside the longest message, for a mark


class SimulatedStage(PlatformStage):
    def __init__(self, capabilities: Capabilities) -> None:
        self.platform = SimulatedPlatform(capabilities=capabilities)
        self.platform.longest = capabilities.max_length and capabilities.max_length + ROOM

    def adapter(self) -> Adapter:
        return self.platform.adapter()

    async def write(self, text: str, chat: str = "ann", thread: str | None = None) -> None:
        self.platform.write(text, chat=chat, thread=thread)

    async def seen(self, chat: str = "ann", thread: str | None = None) -> list[Seen]:
        return [_shown(each) for each in self.platform.posted if _place(each) == (chat, thread)]

    async def share(self, name: str, chat: str = "ann") -> bytes | None:
        self.platform.write("Look.", chat=chat, files=[name])
        return name.encode()

    async def press(self, label: str, chat: str = "ann") -> None:
        shown = [button for each in self.platform.posted for button in each.buttons if _place(each)[0] == chat]
        self.platform.press(next(button.command for button in reversed(shown) if button.label == label), chat=chat)

    async def glimpses(self, chat: str = "ann") -> list[str]:
        return [text for address, text in self.platform.glimpses if address.chat == chat]

    async def unconfirmed(self) -> int:
        return len(self.platform.pending()) + len(self.platform.garbage())

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


def _place(posted: Posted) -> tuple[str, str | None]:
    return posted.address.chat, posted.address.thread


def _shown(posted: Posted) -> Seen:
    return Seen(posted.text, tuple(button.label for button in posted.buttons), posted.file)


class TelegramStage(PlatformStage):
    """The emulator, behind a line that can be cut."""

    settings = MappingProxyType({"PLATFORMS__TELEGRAM__ALLOW": "*"})

    def __init__(self) -> None:
        self.telegram = LocalTelegram()
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
        return TelegramAdapter(self.telegram.token, f"http://127.0.0.1:{self._line.port}")

    def _place(self, chat: str, thread: str | None) -> tuple[int, int | None]:
        number = self.telegram.person(chat)
        if thread is None:
            return number, None
        if (number, thread) not in self._topics:
            self._topics[number, thread] = self.telegram.topic(number, thread)
        return number, self._topics[number, thread]

    async def write(self, text: str, chat: str = "ann", thread: str | None = None) -> None:
        number, topic = self._place(chat, thread)
        self.telegram.write(text, chat=number, sender=chat, thread=topic)

    async def seen(self, chat: str = "ann", thread: str | None = None) -> list[Seen]:
        number, topic = self._place(chat, thread)
        there = [each for each in self.telegram.seen(number) if each.thread == topic]
        return [Seen(each.text, tuple(each.labels()), each.file[2] if each.file else None) for each in there]

    async def share(self, name: str, chat: str = "ann") -> bytes | None:
        self.telegram.share("document", name, b"some content", chat=self.telegram.person(chat), sender=chat)
        return b"some content"

    async def press(self, label: str, chat: str = "ann") -> None:
        self.telegram.press(label, chat=self.telegram.person(chat), sender=chat)

    async def unconfirmed(self) -> int:
        return len(self.telegram.unconfirmed())

    async def garble(self) -> bool:
        self.telegram.happen({"message": {"message_id": "not a number"}})
        return True

    async def befall(self, mishap: Mishap) -> bool:
        faults = {
            Mishap.LOST_ANSWER: Fault(effect=True, cut=True),
            Mishap.WAIT: Fault(refusal=too_many(1)),
            Mishap.REFUSED: Fault(refusal=BLOCKED),
        }
        self.telegram.befall("sendMessage", faults[mishap])
        return True

    async def cut(self) -> None:
        await self._line.cut()

    async def mend(self) -> None:
        await self._line.mend()
