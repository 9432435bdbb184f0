"""What the model is told when it summarises a long conversation, and how its summary is introduced."""

from __future__ import annotations

EMPTY_SUMMARY = "the model's summary was empty, or had no end. /new begins a fresh conversation."
TRANSCRIPT_REFUSED = "the model refused to read even a small part of it. /new begins a fresh conversation."
SYSTEM_PROMPT = (
    "You sum up conversations between a user and an assistant that uses tools, so that the assistant can go on "
    "with the summary instead of the original."
)


def request(transcript: str) -> str:
    return (
        "Sum up the conversation below. Keep what the user wants, what was decided, found and done, names, paths, "
        f"numbers and open points. Write the summary only.\n\n<conversation>\n{transcript}\n</conversation>"
    )


def summary_note(text: str) -> str:
    return f"[Gateway note: The conversation so far is too long to be shown. In short: {text}]"


CONVERSATION_TOO_LONG = "this conversation has grown longer than the model can read. /new begins a fresh one."


def instructions_too_long(window: int, prompt: int, tools: int, count: int) -> str:
    return (
        f"the model reads about {window} tokens at once, and what it must read before any message does not fit: "
        f"the system prompt has about {prompt}, the descriptions of {count} tools have about {tools}. Whoever "
        "runs this gateway has to choose a model with a larger context, fewer tools (`agent.tools`) or a shorter "
        "`agent.system_prompt`."
    )


def message_too_long(window: int, message: int, instructions: int) -> str:
    return (
        f"this message is too long for the model: it has about {message} tokens. The model reads about {window} "
        f"at once, and its instructions take about {instructions} of them. Send it again in shorter parts."
    )


def failed(why: str) -> str:
    return f"the conversation has grown too long for the model, and could not be summed up: {why}"
