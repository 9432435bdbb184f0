"""What people read about a turn: that it works, failed or is silent; and about messages that wait for theirs."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.core.texts import phrases


def failed(error: str) -> str:
    return f"I could not finish this: {error}"


NEWER_ENTRY = (
    "I cannot go on with this conversation: a newer version of Perdure has written in it, and I cannot read that. "
    "It is kept as it is. With that version it goes on; with /new you begin a fresh conversation here."
)
NOT_STARTED = (
    "something went wrong before I could begin. The details are in the gateway's log. Please write again."
)
AGENT_CRASHED = "something went wrong inside the agent. The details are in the gateway's log."


def too_many_steps(limit: int) -> str:
    return f"I stopped after {limit} steps without reaching an answer. Ask again, perhaps for something smaller."


def too_many_tokens(used: int, limit: int) -> str:
    return f"I stopped after {used} tokens; {limit} are allowed for one answer. Ask again, perhaps for less."


def incomplete_answer(finish: str | None, text: str) -> str:
    """The failure of a turn whose model never completes its answer, or whose provider withholds it."""
    if finish in ("content_filter", "refusal", "safety"):
        return "the model's provider withheld the answer. Say it in other words, perhaps."
    begun = f" It began: {phrases.clip(text, 1000)}" if text.strip() else ""
    return f"the model's answer was cut off several times in a row ({finish or 'no end'}).{begun}"


EMPTY_ANSWER = "The model gave an empty answer: neither words nor a tool call. Ask again, perhaps in other words."
ANSWER_TRUNCATED = "(The answer ends here because it reached the model's length limit. Ask me to go on.)"


def model_reply(text: str, *, cut: bool = False) -> str:
    """A model's answer as people read it: never silence, and marked if it ends at the length limit."""
    if not text.strip():
        return EMPTY_ANSWER
    return f"{text}\n\n{ANSWER_TRUNCATED}" if cut else text


def repeated_calls(times: int) -> str:
    return f"I wished for the very same {times} times in a row, and gave up. Ask again, in other words perhaps."


def recovery_tokens_spent(tokens: int, limit: int) -> str:
    return (
        f"it was interrupted and went on by itself, and has used {tokens} tokens, of which {limit} were allowed. "
        "Write again if it should be taken up."
    )


def _current_step(tools: Sequence[str], milliseconds: int) -> str:
    step = f"the step {', '.join(tools)}" if tools else "the model is thinking,"
    return f"{step} for {phrases.duration(milliseconds)}"


def still_working(tools: Sequence[str], milliseconds: int) -> str:
    return f"I am still working on it: {_current_step(tools, milliseconds)}."


def inactivity_warning(milliseconds: int, limit: int) -> str:
    """A warning; `limit` is how long the silence may be before the turn is ended, or 0 if it never is."""
    said = f"Nothing has been heard of this work for {phrases.duration(milliseconds)}."
    ends = f" After {phrases.duration(limit)} without a sign of life I end it." if limit else ""
    return f"{said}{ends} /stop ends it now."


def ended_by_inactivity(tools: Sequence[str], milliseconds: int) -> str:
    where = f"the step {', '.join(tools)}" if tools else "the model"
    return (
        f"nothing was heard of {where} for {phrases.duration(milliseconds)}, so I ended it. Write again "
        "if it still matters."
    )


def queue_full(cap: int) -> str:
    return (
        f"{_messages_waiting(cap)} here already, so this one was not taken, and neither are those behind "
        "it until I have "
        "caught up. Send them again a little later."
    )


def refused_as_queue_full(cap: int) -> str:
    return f"{_messages_waiting(cap)} already"


def _messages_waiting(count: int) -> str:
    return "1 message is waiting" if count == 1 else f"{count} messages are waiting"


def messages_expired(count: int) -> str:
    messages, them = ("1 message was", "it") if count == 1 else (f"{count} messages were", "them")
    return f"{messages} too old to answer when I got to {them}. Send again whatever still matters."


QUEUE_MODES = {
    "queue": "a message that comes while I work waits for a turn of its own",
    "steer": "a message that comes while I work joins what I am doing, at the next step",
    "interrupt": "a message that comes while I work ends what I am doing, and takes its place",
    "collect": "messages that come while I work wait, and are answered together",
}
QUEUE_USAGE = "/queue [queue | steer | interrupt | collect | TEXT]"
STEER_USAGE = "/steer TEXT"


def queue_status(mode: str, waiting: int) -> str:
    """The mode of a chat, and how many messages wait there."""
    others = [f"/queue {name}" for name in QUEUE_MODES if name != mode]
    waits = (
        phrases.message_count(waiting) + (" waits." if waiting == 1 else " wait.") if waiting else "Nothing waits."
    )
    return f"The mode here is `{mode}`: {QUEUE_MODES[mode]}. {waits} Switch it with {', '.join(others)}."


def queue_mode_changed(mode: str) -> str:
    return f"From now on, {QUEUE_MODES[mode]}. What waits already stays as it is."


def queue_mode_line(mode: str) -> str:
    """One line of `/status`."""
    return f"The mode of the queue is `{mode}`: {QUEUE_MODES[mode]}."


def message_queued(*, busy: bool, before: int) -> str:
    """The answer to a message that waits for its own turn; empty if the turn begins at once."""
    if not busy and not before:
        return ""
    behind = f", behind {phrases.message_count(before)}" if before else ""
    return f"That waits for a turn of its own{behind}."


def message_steered(*, busy: bool) -> str:
    return "I take that in at my next step." if busy else ""


STEER_TEXT_MISSING = "Write what I should take in behind it: /steer TEXT."


def message_not_waiting(*, known: bool) -> str:
    """Why a message cannot be changed."""
    return "this message is not waiting any more" if known else "there is no such message of yours in this chat"
