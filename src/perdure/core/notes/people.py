"""What people read of a turn and its replies."""

from __future__ import annotations

from collections.abc import Sequence

from perdure.core.delivery import fitting_length
from perdure.core.notes.words import clipped


def turn_failed(error: str) -> str:
    return f"I could not finish this: {error}"


def question(text: str, options: Sequence[str]) -> str:
    return f"{text}\n({' / '.join(options)})" if options else text


NEWER_ENTRY = (
    "I cannot go on with this conversation: a newer version of Perdure has written in it, and I cannot read that. "
    "It is kept as it is. With that version it goes on; with /new you begin a fresh conversation here."
)


NOT_BEGUN = "something went wrong before I could begin. The details are in the gateway's log. Please write again."


COMMAND_FAILED = "This did not work: something went wrong inside the gateway. The details are in its log."


AGENT_CRASHED = "something went wrong inside the agent. The details are in the gateway's log."


def too_many_steps(limit: int) -> str:
    return f"I stopped after {limit} steps without reaching an answer. Ask again, perhaps for something smaller."


def too_many_tokens(used: int, limit: int) -> str:
    return f"I stopped after {used} tokens; {limit} are allowed for one answer. Ask again, perhaps for less."


def no_whole_answer(finish: str | None, text: str) -> str:
    """A model that never comes to an end, or whose provider withholds the end."""
    if finish in ("content_filter", "refusal", "safety"):
        return "the model's provider withheld the answer. Say it in other words, perhaps."
    begun = f" It began: {clipped(text, 1000)}" if text.strip() else ""
    return f"the model's answer was cut off several times in a row ({finish or 'no end'}).{begun}"


EMPTY_ANSWER = "The model gave an empty answer: neither words nor a tool call. Ask again, perhaps in other words."


ANSWER_CUT = "(The answer ends here because it reached the model's length limit. Ask me to go on.)"


def model_reply(text: str, *, cut: bool = False) -> str:
    """A model's answer as people read it: never silence, and marked if it ends at the length limit."""
    if not text.strip():
        return EMPTY_ANSWER
    return f"{text}\n\n{ANSWER_CUT}" if cut else text


def going_in_circles(times: int) -> str:
    return f"I wished for the very same {times} times in a row, and gave up. Ask again, in other words perhaps."


def recovery_cost(tokens: int, limit: int) -> str:
    return (
        f"it was cut off and went on by itself, and has used {tokens} tokens, of which {limit} were allowed. "
        "Write again if it should be taken up."
    )


def maybe_duplicate(text: str) -> str:
    return f"{text}\n\n(This may be a duplicate: the first try was not confirmed.)"


def growing(text: str, limit: int | None) -> str:
    """An answer that is not finished, marked as such, and cut to what one message holds."""
    mark = " …"
    return f"{text if limit is None else text[: fitting_length(text, limit - len(mark))]}{mark}"


PREVIEW_ENDED = "(What stood here was not finished.)"


EXPIRED_REPLY = (
    "An earlier answer could not be delivered in time, and is too old to be sent now. Ask again if you need it."
)
DROPPED_REPLY = (
    "An earlier reply may not have arrived: the platform did not confirm it, and it was not sent again."
)


def queue_full(cap: int) -> str:
    return (
        f"{_waiting(cap)} here already, so this one was not taken, and neither are those behind it until I have "
        "caught up. Send them again a little later."
    )


def queue_was_full(cap: int) -> str:
    return f"{_waiting(cap)} already"


def _waiting(count: int) -> str:
    return "1 message is waiting" if count == 1 else f"{count} messages are waiting"


def too_old(count: int) -> str:
    messages, them = ("1 message was", "it") if count == 1 else (f"{count} messages were", "them")
    return f"{messages} too old to answer when I got to {them}. Send again whatever still matters."


# ── who may ─────────────────────────────────────────────────────────────────────────────────────────────────


def pairing_code(code: str) -> str:
    return (
        f"I don't know you yet. Ask whoever runs me to enter: perdure pair {code}. The code is good for one hour."
    )


CODE_NOT_SHOWN = "(A code to be let in with. Only the person whom it is for may see it.)"


PAIRED = "You're in. Say hello!"


RIGHTS = {
    "owner": "You may do everything here, and restart me.",
    "member": "You may talk to me, use the commands, and approve what I ask about. Only an owner may restart me.",
    "guest": "You may talk to me, look at what is going on, and end your own work.",
}


def who_you_are(person: str, name: str, role: str, *, shared: bool, alone: bool) -> str:
    """Who somebody is, what they may do, and with whom they share the conversation."""
    known = f"{name} ({person})" if name and name != person else person
    said = [f"You are {known}, {'an' if role == 'owner' else 'a'} {role} here.", RIGHTS[role]]
    if not alone:
        said.append(
            "Everybody here shares one conversation with me."
            if shared
            else "Here you have a conversation of your own."
        )
    return " ".join(said)
