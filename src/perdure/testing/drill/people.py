"""The simulated people of a drill: they write messages and answer questions, approvals and offers to resume."""

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

    conversation: DrillChat
    event_key: str
    mark: str


class DrillPeople:
    """All people of a drill, on all of its platforms."""

    def __init__(self, platforms: Mapping[str, SimulatedPlatform]) -> None:
        self._platforms = platforms
        self._read_counts = dict.fromkeys(platforms, 0)  # how many posts of each platform were read
        self._answered_keys: set[str] = set()  # delivery keys of the messages that they have answered
        self.written: list[WrittenMessage] = []
        self.by_hand = 0  # how often they had to say /resume

    def write_first(self, conversations: Sequence[DrillChat]) -> None:
        for conversation in conversations:
            self._write(conversation, conversation.texts, conversation.marks)

    def write_late(self, conversations: Sequence[DrillChat]) -> None:
        """Write the messages that people write while the gateway is down."""
        for conversation in conversations:
            self._write(conversation, conversation.late, conversation.marks[len(conversation.texts) :])

    def _write(self, conversation: DrillChat, messages: Sequence[str], marks: Sequence[str]) -> None:
        for text, mark in zip(messages, marks, strict=False):
            message = self._platforms[conversation.platform].write(text, chat=conversation.chat)
            key = join_parts(conversation.platform, "default", "message", conversation.chat, message)
            self.written.append(WrittenMessage(conversation, key, mark))

    def react(self) -> None:
        """Answer the new messages of the gateway; a question that is shown twice is answered once."""
        for name, platform in self._platforms.items():
            new, self._read_counts[name] = platform.posted[self._read_counts[name] :], len(platform.posted)
            for posted in new:
                if posted.key not in self._answered_keys and self._answer(platform, posted):
                    self._answered_keys.add(posted.key)

    def _answer(self, platform: SimulatedPlatform, posted: PostedMessage) -> bool:
        """Answer a message of the gateway; tell whether the message wanted an answer."""
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
        """Press the button with that label; where the platform has no buttons, write the words."""
        buttons = posted.buttons if platform.capabilities.buttons else ()
        command = next((button.command for button in buttons if button.label == label), None)
        if command is None:
            platform.write(words, chat=posted.address.chat)
        else:
            platform.press(command, chat=posted.address.chat)

    def has_unread(self) -> bool:
        """Tell whether people have unread messages, or the gateway has not acknowledged theirs."""
        return any(
            platform.pending() or self._read_counts[name] < len(platform.posted)
            for name, platform in self._platforms.items()
        )

    def activity_count(self) -> int:
        """Count the visible acts of the gateways: messages posted and acknowledged."""
        return sum(len(each.posted) + len(each.acknowledged) for each in self._platforms.values())

    def seen(self, conversation: DrillChat) -> list[PostedMessage]:
        """Return the messages that people see in a chat, without unfinished previews."""
        return [
            each
            for each in self._shown(conversation)
            if not each.preview and each.text != texts.delivery.PREVIEW_UNFINISHED
        ]

    def exit_reports(self, conversation: DrillChat) -> list[str]:
        """Return the texts that report the end of a background process in a chat."""
        return [each.text for each in self.seen(conversation) if "background process" in each.text]

    def has_reply_about(self, written: WrittenMessage, key_prefix: str) -> bool:
        """Tell whether people saw a reply to a message whose delivery key has that prefix."""
        return any(each.key.startswith(key_prefix) for each in self.seen(written.conversation))

    def leftover_previews(self, conversation: DrillChat) -> list[PostedMessage]:
        """Return the previews in a chat that no final answer replaced."""
        return [each for each in self._shown(conversation) if each.preview]

    def _shown(self, conversation: DrillChat) -> list[PostedMessage]:
        return [
            each
            for each in self._platforms[conversation.platform].posted
            if each.address.chat == conversation.chat
        ]

    def stray_messages(self, chats: set[str]) -> list[PostedMessage]:
        """Return the messages of the gateways in chats in which nobody has written."""
        posts = [posted for platform in self._platforms.values() for posted in platform.posted]
        return [posted for posted in posts if posted.address.chat not in chats]


class SilenceWatch:
    """Measures the longest time that somebody waited for an answer and heard nothing at all."""

    def __init__(self, people: DrillPeople) -> None:
        self._people = people
        self._since: dict[str, tuple[int, float]] = {}  # by chat: messages so far, of both sides, and since when
        self.longest = 0.0
        self.where = ""

    def look(self, conversations: Sequence[DrillChat], now: float, cause: object) -> None:
        """Look at the chats; `cause` says what has been done to the gateways."""
        for each in conversations:
            seen = self._people.seen(each)
            written = [message.mark for message in self._people.written if message.conversation == each]
            signs = len(seen) + len(written)
            if all(any(mark in posted.text for posted in seen) for mark in written):
                self._since.pop(each.chat, None)
                continue
            known, since = self._since.get(each.chat, (-1, now))
            if known != signs:
                since = now
            self._since[each.chat] = signs, since
            if now - since > self.longest:
                self.longest, self.where = now - since, f"{each.chat} ({cause})"
