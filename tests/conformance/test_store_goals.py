"""Goals in the store: when one goes on is seen from what is there, on every database.

Drives `store/goals`.
"""

from __future__ import annotations

import pytest

from perdure.core import texts
from perdure.core.journal import TurnFinished
from perdure.store import session_verbs
from perdure.store.claims import Claim
from perdure.store.goals import end_goal, set_goal
from support.store_gateway import StoreGateway, key_of, message

pytestmark = pytest.mark.anyio


async def sets(gateway: StoreGateway, text: str = "tidy up", *, budget: int = 3, chat_name: str = "c1") -> bool:
    said = message(text, chat_name=chat_name, id="m1")
    work = set_goal(key_of(chat_name), said, budget)
    return await gateway.store.chat_commands.execute_verb(key_of(chat_name), work, at=gateway.now())


async def claimable(gateway: StoreGateway) -> list[str]:
    return await gateway.store.turns.claimable_keys(gateway.run)


async def goes_on(gateway: StoreGateway) -> Claim:
    """The goal's next turn."""
    assert await claimable(gateway) == [key_of()]
    claim = await gateway.claims()
    assert claim is not None
    return claim


async def state(gateway: StoreGateway) -> str:
    goal = await gateway.store.goals.of_key(key_of())
    assert goal is not None
    return goal.state


async def test_b84_goal_begins_a_turn_after_each_that_completed_until_its_budget_is_used(
    gateway: StoreGateway,
) -> None:
    assert not await sets(gateway)
    for number in (1, 2, 3):
        claim = await goes_on(gateway)
        assert claim.more_waiting, "the runner must look again"
        causes = [(cause.text, cause.note) for cause in (await gateway.view(claim.turn)).causes]
        assert causes == [("tidy up", False), (texts.chat_commands.goal_turn_note(number, 3), True)]
        assert await claimable(gateway) == []
        assert await gateway.claims() is None
        await gateway.finishes_turn(claim.turn, f"answer {number}")
    assert await claimable(gateway) == [key_of()], "it has yet to be closed"
    assert await gateway.claims() is None
    assert await claimable(gateway) == []
    assert await gateway.delivers(4) == [
        "answer 1",
        "answer 2",
        "answer 3",
        texts.chat_commands.goal_budget_spent(3),
    ]
    assert await state(gateway) == "spent"


async def test_b96_turns_of_a_goal_have_causes_of_their_own(gateway: StoreGateway) -> None:
    await sets(gateway)
    for _ in range(2):
        await gateway.finishes_turn((await goes_on(gateway)).turn, "done")
    rows = await gateway.query("SELECT event_key, state, kind FROM inbox ORDER BY position")
    goal = await gateway.store.goals.of_key(key_of())
    assert goal is not None
    assert rows == [(f"goal:{goal.id}:{number}", "taken", "wish") for number in (1, 2)]
    assert await gateway.store.inbox.chat_messages(key_of(), 0) == [], "nobody sees a cause in the chat"


@pytest.mark.parametrize("ending", ["failed", "stopped", "interrupted"])
async def test_b84_goal_does_not_go_on_after_a_turn_that_did_not_complete(
    gateway: StoreGateway, ending: str
) -> None:
    await sets(gateway)
    turn = (await goes_on(gateway)).turn
    match ending:
        case "failed":
            await gateway.fails_turn(turn)
        case "stopped":
            await gateway.cancels_turn(turn)
        case _:
            await gateway.reopen()
            assert await gateway.interrupts_turn(turn)
    assert await claimable(gateway) == []
    assert await gateway.claims() is None
    assert await state(gateway) == "active"


async def test_b84_message_and_command_go_before_a_goal(gateway: StoreGateway) -> None:
    await sets(gateway)
    await gateway.finishes_turn((await goes_on(gateway)).turn, "one")
    await gateway.store.inbox.receive(message("/goal off"), "raw", key_of(), gateway.now(), "command")
    assert await gateway.claims() is None, "the command may be about the goal"
    await gateway.receives("hello")
    (command,) = await gateway.store.chat_commands.waiting(gateway.run)
    await gateway.store.chat_commands.execute(command, lambda _: None, lambda _: "", gateway.now())
    claim = await gateway.claims()
    assert claim is not None
    assert [cause.text for cause in (await gateway.view(claim.turn)).causes] == ["hello"]
    await gateway.finishes_turn(claim.turn, "hello")
    await goes_on(gateway)


@pytest.mark.parametrize(("line", "outcome"), [("GOAL REACHED", "reached"), ("GOAL GIVEN UP", "given_up")])
async def test_b84_model_ends_a_goal_also_in_a_turn_of_a_message(
    gateway: StoreGateway, line: str, outcome: str
) -> None:
    await sets(gateway)
    await gateway.finishes_turn((await goes_on(gateway)).turn, "one")
    turn = await gateway.begins_turn("do it thus")
    await gateway.appends(turn, TurnFinished(f"I did.\n{line}"))
    assert await gateway.claims() is None
    assert await state(gateway) == outcome
    assert await claimable(gateway) == []


async def test_b84_line_from_before_a_goal_does_not_end_it(gateway: StoreGateway) -> None:
    await gateway.appends(await gateway.begins_turn("hello"), TurnFinished("GOAL REACHED"))
    await sets(gateway)
    await goes_on(gateway)


async def test_b84_goal_waits_while_something_is_under_way(gateway: StoreGateway) -> None:
    turn = await gateway.begins_turn("hello")
    assert await sets(gateway), "somebody must be told that it waits"
    assert await gateway.claims() is None
    await gateway.fails_turn(turn)
    await goes_on(gateway)


async def test_b84_goal_ends_once(gateway: StoreGateway) -> None:
    await sets(gateway)
    assert await gateway.store.chat_commands.execute_verb(key_of(), end_goal(key_of()))
    assert not await gateway.store.chat_commands.execute_verb(key_of(), end_goal(key_of()))
    assert await claimable(gateway) == []


async def test_b84_goal_ends_with_its_session_and_not_with_others(gateway: StoreGateway) -> None:
    await sets(gateway)
    await sets(gateway, chat_name="c2")
    await gateway.store.chat_commands.execute_verb(key_of(), session_verbs.renew(key_of()), at=gateway.now())
    assert await gateway.store.goals.of_key(key_of()) is None
    assert await claimable(gateway) == [key_of("c2")]
    active = "SELECT s.key FROM goals g JOIN sessions s ON s.id = g.session WHERE g.state = 'active'"
    assert await gateway.store.database.read(lambda tx: tx.all(active)) == [(key_of("c2"),)]


async def test_b84_goal_rests_while_its_session_is_set_aside(gateway: StoreGateway) -> None:
    await sets(gateway)
    await gateway.store.chat_commands.execute_verb(key_of(), session_verbs.suspend(key_of()), at=gateway.now())
    assert await claimable(gateway) == []
    assert await gateway.claims() is None
