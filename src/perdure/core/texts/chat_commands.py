"""Answers to slash commands in the chat, and what is said of background sessions and goals."""

from __future__ import annotations

import re
from collections.abc import Sequence

from perdure.core.commands import GOAL_GIVEN_UP, GOAL_REACHED
from perdure.core.states import GoalState, SessionState
from perdure.core.texts import agents, phrases, questions, recovery


def unknown(name: str, meant: str | None) -> str:
    guess = f" Did you mean /{meant}?" if meant else ""
    return f"There is no command /{name}.{guess} /help lists them all."


def stopped(turn: str | None, waiting: int, dropped: int, withdrawn: int) -> str:
    said = ["Stopped." if turn or withdrawn else "Nothing was running."]
    if dropped:
        said.append(f"{phrases.message_count(dropped)} that waited {'was' if dropped == 1 else 'were'} dropped.")
    if waiting:
        them, are = ("it", "is") if waiting == 1 else ("them", "are")
        said.append(f"{phrases.message_count(waiting)} {are} still waiting; /stop all drops {them} too.")
    return " ".join(said)


def new_conversation(turn: str | None, dropped: int) -> str:
    said = ["This is a fresh conversation."]
    if turn:
        said.append("What was running was ended.")
    if dropped:
        said.append(f"{phrases.message_count(dropped)} that waited {'was' if dropped == 1 else 'were'} dropped.")
    return " ".join(said)


def usage(form: str, got: str) -> str:
    return f"Write it as {form}; I do not understand {got!r}."


NOTHING_HAPPENED = "Nothing has happened here yet."
TURN_OVER = "That work is over: nothing is left of it to go on with, or to give up."
RESUME_ANSWERS = {
    "turn": "Going on.",
    "session": "That conversation is here again, and goes on.",
    "running": "It is running already, or something else is; /status tells.",
    "nothing": "There is nothing to resume here.",
    "over": TURN_OVER,
    "unknown": "I know no conversation with that id; /sessions lists them.",
}


def dropped(gave_up: bool) -> str:
    return "Given up." if gave_up else "There is nothing interrupted here to give up."


_SESSION_STATES: dict[str, str] = {
    SessionState.OPEN: "this one",
    SessionState.SUSPENDED: "suspended",
    SessionState.CLOSED: "earlier",
}


def session_list(found: Sequence[tuple[str, str, int, str]]) -> str:
    """The conversations of a chat: id, state, how long ago it was last used, and its first words."""
    lines = [
        f"{name}  {_SESSION_STATES[state]}, {phrases.duration(age)} ago: "
        f"{f'“{phrases.first_words(words)}”' if words else 'nothing was said'}"
        for name, state, age, words in found
    ]
    if any(state != SessionState.OPEN for _, state, _, _ in found):
        lines.append("/resume ID brings one of them back.")
    return "\n".join(lines)


UNDO_REFUSALS = {
    "running": "The last turn has not ended yet. /stop ends it; then /{command} works.",
    "waiting": "Your last message still waits for its turn. /stop all drops it; then /{command} works.",
    "summed": "I cannot go further back: what came before stands in a summary now. /new begins afresh.",
    "nothing": "There is nothing here to take back.",
    "unasked": "The last turn was not begun by a message, so there is nothing to ask again. /undo takes it back.",
    "unrightful": "The last turn was begun by somebody who may do more here than you, so I do not ask it again "
    "for you.",
}


def undone(words: str, *, acted: bool, still_running: bool, goal: bool) -> str:
    said = [f"Taken back: {_quote(words)} I do not see it any more, nor my answer."]
    said += ["What its tools did stays done."] if acted else []
    said += ["A command that it began still runs; /status shows it."] if still_running else []
    said += ["The goal waits for your next message; /goal off ends it."] if goal else []
    return " ".join(said)


def retried(words: str, *, acted: bool, still_running: bool) -> str:
    said = [f"Asking again: {_quote(words)}"]
    said += ["What its tools did the first time stays done."] if acted else []
    said += ["A command that it began still runs; /status shows it."] if still_running else []
    return " ".join(said)


def _quote(words: str) -> str:
    """The first words of a message in quotes, as the end of a sentence."""
    return f"“{phrases.first_words(words)}”." if words.strip() else "a message without words."


FAILED = "This did not work: something went wrong inside the gateway. The details are in its log."


def background_label(number: int | None, text: str) -> str:
    """An answer or a failure; that of a background session is labelled and never empty."""
    return text if number is None else f"[background {number}] {text.strip() or agents.OFFLINE_DONE}"


def background_notice(number: int | None, text: str) -> str:
    """A notice about a turn; of a background session, with the commands that address it."""
    if number is None:
        return text
    return background_label(number, _address_commands(number, text))


_TURN_COMMANDS = re.compile(r"/(stop|resume|drop|approve|deny)\b")


def _address_commands(number: int, text: str) -> str:
    return _TURN_COMMANDS.sub(lambda found: background_command(found[1], number), text)


def background_command(verb: str, number: int | None, *words: str) -> str:
    """The command for a turn; of a background session, with its number."""
    return " ".join((f"/{verb}" if number is None else f"/background {verb} {number}", *words))


def background_question(number: int | None, text: str, options: Sequence[str]) -> str:
    """A question to a person, labelled if a background session asks it."""
    if number is None:
        return questions.format_question(text, options)
    return (
        f"{background_label(number, questions.format_question(text, options))}\nSay "
        f"{background_command('answer', number, '…')} to answer."
    )


def background_approval(number: int | None, text: str) -> str:
    """The request for an approval; the call in it stays unchanged."""
    if number is None:
        return text
    call, _, how = text.rpartition("\n")
    return f"{background_label(number, call)}\n{_address_commands(number, how)}"


def background_suspended(number: int | None, why: str) -> str:
    if number is None:
        return recovery.suspended(why)
    return background_label(
        number, f"I have suspended this work, because {why}. {background_command('resume', number)} continues it."
    )


def background_started(number: int) -> str:
    stop = background_command("stop", number)
    return f"I work on it in the background, as number {number}; the answer comes here. {stop} ends it."


def background_too_many(limit: int) -> str:
    going = "1 work goes" if limit == 1 else f"{limit} works go"
    return (
        f"I have not begun this: {going} on in the background here already, and that is the most. "
        "/background lists what goes on, and /background stop N ends one."
    )


NO_BACKGROUND_SESSION = "Nothing is going on in the background."


def background_unknown(number: int) -> str:
    return f"Nothing with the number {number} was begun in the background here."


def background_status_line(number: int, state: str, text: str) -> str:
    return f"Background {number} {state}: {phrases.clip(' '.join(text.split()), 100)}"


def background_answered(passed_on: bool) -> str:
    return "Passed on." if passed_on else "It asks nothing now."


def goal_turn_note(number: int, budget: int) -> str:
    """The note to the model with a goal: what the goal is, and how it ends."""
    said = (
        [
            "The words above are a goal that the user has set for you, not a single question.",
            f"You work towards it by yourself, in at most {budget} turns: when this one ends, the next begins.",
        ]
        if number == 1
        else [
            f"This is turn {number} of at most {budget} towards the goal above.",
            "Go on from where you are; do not repeat what is done.",
        ]
    )
    end = (
        f"When the goal is reached, end your answer with the line {GOAL_REACHED}; if you can do nothing "
        "more for it, "
        f"with the line {GOAL_GIVEN_UP}, and say why."
    )
    return " ".join([*said, end])


def goal_started(budget: int, *, busy: bool) -> str:
    begin = "I begin with it as soon as what is under way here has ended" if busy else "I begin with it now"
    return f"The goal is set. {begin}, and go on by myself for at most {budget} turns. /goal off ends it."


_GOAL_STATES = {
    GoalState.ACTIVE: "It has had {turns} of at most {budget} turns, and goes on after every turn that completes.",
    GoalState.REACHED: "It was reached in turn {turns}.",
    GoalState.GIVEN_UP: "It was given up in turn {turns}.",
    GoalState.SPENT: "It has had its {budget} turns, and does not go on.",
    GoalState.ENDED: "It was ended after {turns} of at most {budget} turns.",
}
NO_GOAL = "There is no goal here. /goal TEXT sets one."


def goal_status(text: str, state: GoalState, turns: int, budget: int) -> str:
    return f"Goal: {phrases.clip(text, 500)}\n{_GOAL_STATES[state].format(turns=turns, budget=budget)}"


def goal_ended(ended: bool) -> str:
    return "The goal is ended; I do not go on with it." if ended else NO_GOAL


def goal_budget_spent(budget: int) -> str:
    turns = "1 turn" if budget == 1 else f"{budget} turns"
    return f"The goal has had its {turns} and was not reached, so I stop here. /goal TEXT sets it again."
