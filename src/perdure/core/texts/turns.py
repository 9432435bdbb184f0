"""What people read about a turn: that it is still working, has failed, or is silent."""

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
