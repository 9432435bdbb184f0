"""The people of a drill: they write, answer what they are asked, and do what they are told to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from msgspec import Struct

from perdure.core import texts
from perdure.core.address import join_parts
from perdure.testing.drill.scenarios import DrillChat
from perdure.testing.simulated_platform import PostedMessage, SimulatedPlatform

QUESTION_ANSWER = "Right"
RESUME_COMMAND = "/resume"


class WrittenMessage(Struct, frozen=True):
    """A message that must be answered."""

    talk: DrillChat
    event_key: str
    mark: str


class DrillPeople:
    def __init__(self, platforms: Mapping[str, SimulatedPlatform]) -> None:
        self._platforms = platforms
        self._read_counts = dict.fromkeys(platforms, 0)  # how many posts of each platform were read
        self._answered_keys: set[str] = set()  # delivery keys of what they have reacted to
        self.written: list[WrittenMessage] = []
        self.by_hand = 0  # how often they had to ask that something go on

    def write_first(self, talks: Sequence[DrillChat]) -> None:
        for talk in talks:
            self._write(talk, talk.texts, talk.marks)

    def write_late(self, talks: Sequence[DrillChat]) -> None:
        """Write what is written while the gateway is down."""
        for talk in talks:
            self._write(talk, talk.late, talk.marks[len(talk.texts) :])

    def _write(self, talk: DrillChat, messages: Sequence[str], marks: Sequence[str]) -> None:
        for text, mark in zip(messages, marks, strict=False):
            message = self._platforms[talk.platform].write(text, chat=talk.chat)
            key = join_parts(talk.platform, "default", "message", talk.chat, message)
            self.written.append(WrittenMessage(talk, key, mark))

    def react(self) -> None:
        """Answer whatever is new, each question once, however often it is shown."""
        for name, platform in self._platforms.items():
            new, self._read_counts[name] = platform.posted[self._read_counts[name] :], len(platform.posted)
            for posted in new:
                if posted.key not in self._answered_keys and self._answer(platform, posted):
                    self._answered_keys.add(posted.key)

    def _answer(self, platform: SimulatedPlatform, posted: PostedMessage) -> bool:
        """Whether there was something to answer."""
        if posted.text.startswith("May I do this?"):
            self._press(platform, posted, "Approve", "/approve")
        elif posted.text.startswith("Which way"):
            self._press(platform, posted, QUESTION_ANSWER, QUESTION_ANSWER)
        elif f"Say {RESUME_COMMAND}" in posted.text or f"{RESUME_COMMAND} brings this one back" in posted.text:
            self.by_hand += 1
            self._press(platform, posted, "Resume", RESUME_COMMAND)
        else:
            return False
        return True

    def _press(self, platform: SimulatedPlatform, posted: PostedMessage, label: str, words: str) -> None:
        """Press the button of that label; without it, write the words."""
        buttons = posted.buttons if platform.capabilities.buttons else ()
        command = next((button.command for button in buttons if button.label == label), None)
        if command is None:
            platform.write(words, chat=posted.address.chat)
        else:
            platform.press(command, chat=posted.address.chat)

    def has_unread(self) -> bool:
        """Whether there is something that nobody has read, or something written that nobody has taken."""
        return any(
            platform.pending() or self._read_counts[name] < len(platform.posted)
            for name, platform in self._platforms.items()
        )

    def activity_count(self) -> int:
        """Grows whenever a gateway has done something that people can see."""
        return sum(len(each.posted) + len(each.acknowledged) for each in self._platforms.values())

    def seen(self, talk: DrillChat) -> list[PostedMessage]:
        """What they see in a chat, but for what is left of answers that were growing."""
        return [
            each
            for each in self._shown(talk)
            if not each.preview and each.text != texts.delivery.PREVIEW_UNFINISHED
        ]

    def leftover_previews(self, talk: DrillChat) -> list[PostedMessage]:
        """Answers that were growing, and grow no more."""
        return [each for each in self._shown(talk) if each.preview]

    def _shown(self, talk: DrillChat) -> list[PostedMessage]:
        return [each for each in self._platforms[talk.platform].posted if each.address.chat == talk.chat]

    def stray_messages(self, chats: set[str]) -> list[PostedMessage]:
        """What was said in chats that nobody has written in."""
        posts = [posted for platform in self._platforms.values() for posted in platform.posted]
        return [posted for posted in posts if posted.address.chat not in chats]
