"""What is said of long work, goals, and work in the background."""

from __future__ import annotations

import re
from collections.abc import Sequence

from perdure.core.goals import GOAL_GIVEN_UP, GOAL_REACHED
from perdure.core.notes.offline import NOTHING_TO_SAY
from perdure.core.notes.people import question
from perdure.core.notes.stopping import suspended
from perdure.core.notes.words import ago, clipped


def _at(tools: Sequence[str], milliseconds: int) -> str:
    step = f"the step {', '.join(tools)}" if tools else "the model is thinking,"
    return f"{step} for {ago(milliseconds)}"


def still_working(tools: Sequence[str], milliseconds: int) -> str:
    return f"I am still working on it: {_at(tools, milliseconds)}."


def silent(milliseconds: int, limit: int) -> str:
    """A warning; `limit` is how long the silence may be before the turn is ended, or 0 if it never is."""
    said = f"Nothing has been heard of this work for {ago(milliseconds)}."
    ends = f" After {ago(limit)} without a sign of life I end it." if limit else ""
    return f"{said}{ends} /stop ends it now."


def inactive(tools: Sequence[str], milliseconds: int) -> str:
    where = f"the step {', '.join(tools)}" if tools else "the model"
    return f"nothing was heard of {where} for {ago(milliseconds)}, so I ended it. Write again if it still matters."


def goal_note(number: int, budget: int) -> str:
    """Told to the model with the goal: what it is, and how it ends."""
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
        f"When the goal is reached, end your answer with the line {GOAL_REACHED}; if you can do nothing more for it, "
        f"with the line {GOAL_GIVEN_UP}, and say why."
    )
    return " ".join([*said, end])


def goal_set(budget: int, *, busy: bool) -> str:
    begin = "I begin with it as soon as what is under way here has ended" if busy else "I begin with it now"
    return f"The goal is set. {begin}, and go on by myself for at most {budget} turns. /goal off ends it."


_GOAL_STATES = {
    "active": "It has had {turns} of at most {budget} turns, and goes on after every turn that completes.",
    "reached": "It was reached in turn {turns}.",
    "given_up": "It was given up in turn {turns}.",
    "spent": "It has had its {budget} turns, and does not go on.",
    "ended": "It was ended after {turns} of at most {budget} turns.",
}


NO_GOAL = "There is no goal here. /goal TEXT sets one."


def goal(text: str, state: str, turns: int, budget: int) -> str:
    return f"Goal: {clipped(text, 500)}\n{_GOAL_STATES[state].format(turns=turns, budget=budget)}"


def goal_ended(ended: bool) -> str:
    return "The goal is ended; I do not go on with it." if ended else NO_GOAL


def goal_spent(budget: int) -> str:
    turns = "1 turn" if budget == 1 else f"{budget} turns"
    return f"The goal has had its {turns} and was not reached, so I stop here. /goal TEXT sets it again."


def of_work(number: int | None, text: str) -> str:
    """An answer or a failure; that of work in the background is marked, and never empty."""
    return text if number is None else f"[background {number}] {text.strip() or NOTHING_TO_SAY}"


def about_work(number: int | None, text: str) -> str:
    """Words of ours about a turn; of one in the background, with the commands that reach it there."""
    if number is None:
        return text
    return of_work(number, _reaching(number, text))


_REACHES = re.compile(r"/(stop|resume|drop|approve|deny)\b")


def _reaching(number: int, text: str) -> str:
    return _REACHES.sub(lambda found: command(found[1], number), text)


def command(verb: str, number: int | None, *words: str) -> str:
    """A command for a turn, by the number of its work if it is one in the background."""
    return " ".join((f"/{verb}" if number is None else f"/background {verb} {number}", *words))


def ask_here(number: int | None, text: str, options: Sequence[str]) -> str:
    """A question to a person."""
    if number is None:
        return question(text, options)
    return f"{of_work(number, question(text, options))}\nSay {command('answer', number, '…')} to answer."


def ask_approval(number: int | None, text: str) -> str:
    """The request for an approval; what the model wishes for stays in it as it is."""
    if number is None:
        return text
    wish, _, how = text.rpartition("\n")
    return f"{of_work(number, wish)}\n{_reaching(number, how)}"


def set_aside(number: int | None, why: str) -> str:
    if number is None:
        return suspended(why)
    return of_work(number, f"I have set this work aside, because {why}. {command('resume', number)} goes on.")


def work_begun(number: int) -> str:
    stop = command("stop", number)
    return f"I work on it in the background, as number {number}; the answer comes here. {stop} ends it."


def too_many_works(limit: int) -> str:
    going = "1 work goes" if limit == 1 else f"{limit} works go"
    return (
        f"I have not begun this: {going} on in the background here already, and that is the most. "
        "/background lists what goes on, and /background stop N ends one."
    )


NO_WORK = "Nothing is going on in the background."


def no_such_work(number: int) -> str:
    return f"Nothing with the number {number} was begun in the background here."


def work_line(number: int, state: str, text: str) -> str:
    return f"Background {number} {state}: {clipped(' '.join(text.split()), 100)}"


def work_answered(passed_on: bool) -> str:
    return "Passed on." if passed_on else "It asks nothing now."
