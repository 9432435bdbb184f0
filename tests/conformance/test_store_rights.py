"""Rights inside a transaction: whose words join a turn, and who may give a command, on both databases.

Drives `store/authorisation`, `store/claims`, `store/queue`, `store/answers` and `store/chat_commands`.
"""

from __future__ import annotations

import msgspec
import pytest

from perdure.core.address import Address
from perdure.core.journal import QuestionAsked, RecoveryDecided, TurnInterrupted, fold
from perdure.core.messages import Inbound, Pick, Sender, Stored, question_id
from perdure.core.queue import Fate, QueueMode, QueueRules
from perdure.core.recovery.decision import RecoveryChoice, RecoveryRule
from perdure.core.roles import AllowLists, Role, ToolRights
from perdure.core.states import TurnState
from perdure.store import session_verbs
from perdure.store.authorisation import Authorisation
from perdure.store.claims import Claim
from perdure.store.inbox import InboxKind
from perdure.store.people import Person
from perdure.store.processes import ProcessRequest
from perdure.store.transitions import Turn
from support.store_gateway import StoreGateway, chat_address, key_of, message

pytestmark = pytest.mark.anyio

KEY = key_of()
RIGHTS = Authorisation(lambda _: AllowLists(frozenset({"ada"})))  # ada owns everything


async def admit(gateway: StoreGateway, person: str = "gus", role: Role = "guest", chat: str = "") -> None:
    await gateway.store.people.admit(Person("web", person, "", role, 1, chat))


async def hears(
    gateway: StoreGateway, who: str, text: str, mode: QueueMode = "queue", kind: InboxKind = "message"
) -> Stored:
    inbound = msgspec.structs.replace(message(text), sender=Sender(who))
    return await gateway.store.inbox.receive(inbound, "", KEY, gateway.now(), kind, rules=QueueRules(mode))


async def claims(gateway: StoreGateway) -> Claim | None:
    return await gateway.store.turns.claim(KEY, gateway.run, gateway.now(), QueueRules(), RIGHTS.may_join)


async def begins(gateway: StoreGateway, who: str, text: str) -> Turn:
    await hears(gateway, who, text)
    return (await claimed(gateway)).turn


async def claimed(gateway: StoreGateway) -> Claim:
    claim = await claims(gateway)
    assert claim is not None, "nothing could be claimed"
    return claim


def texts_of(claim: Claim) -> list[str]:
    return [cause.text for cause in fold(claim.records).causes]


async def rights(gateway: StoreGateway, turn: Turn) -> ToolRights:
    return await gateway.store.database.read(lambda tx: RIGHTS.tool_rights(tx, turn))


# ── joining ─────────────────────────────────────────────────────────────────────────────────────────────────


async def test_b105_steering_words_join_unless_their_sender_may_less(gateway: StoreGateway) -> None:
    await admit(gateway)
    turn = await begins(gateway, "ada", "go")
    for who, text in (("gus", "mine"), ("ada", "left"), ("eve", "a stranger's")):
        await hears(gateway, who, text, "steer")
    joined = await gateway.store.queue.join(turn, QueueRules(), gateway.now(), RIGHTS.may_join)
    assert joined is not None
    assert [cause.text for cause in fold(joined).causes] == ["left"]
    assert await gateway.finishes_turn(turn)
    assert texts_of(await claimed(gateway)) == ["mine"]


async def test_b105_person_who_is_demoted_before_their_words_join_joins_nothing(gateway: StoreGateway) -> None:
    await admit(gateway, "bob", "member")
    turn = await begins(gateway, "ada", "go")
    await hears(gateway, "bob", "left", "steer")
    await admit(gateway, "bob", "guest")
    assert await gateway.store.queue.join(turn, QueueRules(), gateway.now(), RIGHTS.may_join) == []


async def test_b105_collected_words_share_a_turn_up_to_those_of_somebody_who_may_less(
    gateway: StoreGateway,
) -> None:
    await admit(gateway)
    for who, text in (("ada", "one"), ("ada", "two"), ("gus", "mine"), ("ada", "three")):
        await hears(gateway, who, text, "collect")
    found = []
    while (claim := await claims(gateway)) is not None:
        found.append((texts_of(claim), (await rights(gateway, claim.turn)).role))
        assert await gateway.finishes_turn(claim.turn)
    assert found == [(["one", "two"], "owner"), (["mine", "three"], "guest")]


async def test_b105_words_of_somebody_who_may_less_answer_no_question(gateway: StoreGateway) -> None:
    await admit(gateway)
    turn = await begins(gateway, "ada", "go")
    await gateway.appends(turn, QuestionAsked("q", "Which?", ("Left", "Right")))
    await hears(gateway, "gus", "Left")
    assert await claims(gateway) is None
    pressed = Inbound(chat_address(), "press", Sender("gus"), "Left", kind="button")
    stored = await gateway.store.answers.answer_by_button(
        pressed,
        Pick(question_id(turn.id, "q"), 0),
        "",
        KEY,
        gateway.now(),
        resolve_key=lambda _: KEY,
        refuse=lambda _: None,
        may_join=RIGHTS.may_join,
    )
    assert stored is not None
    assert stored.fate is Fate.NOT_YOURS
    assert (await gateway.turn_row(turn)).state is TurnState.WAITING
    await hears(gateway, "ada", "Right")
    answer = fold((await claimed(gateway)).records).answer
    assert answer is not None
    assert (answer.text, answer.by.id) == ("Right", "ada")


async def test_b105_words_of_somebody_who_may_less_join_no_interrupted_turn(gateway: StoreGateway) -> None:
    await admit(gateway)
    turn = await begins(gateway, "ada", "go")
    held = RecoveryDecided(RecoveryChoice.ASK_USER, "asked", rule=RecoveryRule.ASK)
    await gateway.appends(turn, TurnInterrupted("restart_interrupted"))
    await gateway.appends(turn, held)
    await hears(gateway, "gus", "mine")
    assert await claims(gateway) is None
    waits = gateway.store.queue.has_joining_message
    assert not await waits(turn, 0, RIGHTS.may_join)
    await hears(gateway, "ada", "and that")
    assert await waits(turn, 0, RIGHTS.may_join)
    claim = await claimed(gateway)
    assert (claim.turn.id, texts_of(claim)) == (turn.id, ["go", "and that"])


async def test_b105_report_of_somebody_who_may_less_joins_no_turn_of_others(gateway: StoreGateway) -> None:
    await admit(gateway)
    turn = await begins(gateway, "gus", "go")
    process = await gateway.store.processes.record(
        ProcessRequest(turn.id, "c1", "d1", "sleep 9"), gateway.run, gateway.now()
    )
    assert process.person == "gus"
    await gateway.finishes_turn(turn)
    await hears(gateway, "gus", "output of a process", kind="aside")
    assert texts_of(await _next(gateway, "ada", "hello")) == ["hello"]
    assert texts_of(await _next(gateway, "gus", "and me")) == ["output of a process", "and me"]


async def _next(gateway: StoreGateway, who: str, text: str) -> Claim:
    await hears(gateway, who, text)
    claim = await claimed(gateway)
    await gateway.finishes_turn(claim.turn)
    return claim


async def test_b105_process_belongs_to_who_began_the_turn_not_to_who_joined_it(gateway: StoreGateway) -> None:
    await admit(gateway)
    turn = await begins(gateway, "gus", "go")
    await hears(gateway, "ada", "run it", "steer")
    await gateway.store.queue.join(turn, QueueRules(), gateway.now(), RIGHTS.may_join)
    request = ProcessRequest(turn.id, "c1", "d1", "sleep 9")
    assert (await gateway.store.processes.record(request, gateway.run, gateway.now())).person == "gus"
    assert (await rights(gateway, turn)).role == "guest"


async def test_b105_session_that_is_resumed_has_the_right_of_who_was_suspended(gateway: StoreGateway) -> None:
    await admit(gateway)
    turn = await begins(gateway, "gus", "go")
    store = gateway.store.chat_commands
    await store.execute_verb(KEY, session_verbs.suspend(KEY), at=gateway.now())
    wish = msgspec.structs.replace(message(""), sender=Sender("ada"))
    await store.execute_verb(KEY, session_verbs.resume(KEY, gateway.run, wish), at=gateway.now())
    claim = await claimed(gateway)
    assert claim.turn.id != turn.id
    assert await rights(gateway, claim.turn) == ToolRights("guest", ("clarify",), "gus")


async def test_b105_session_of_another_platform_has_the_right_of_its_person_there(gateway: StoreGateway) -> None:
    """The same id may be somebody else's on the platform to which an owner has moved the session."""
    await gateway.store.people.admit(Person("irc", "gus", "", "guest", 1))
    rights = Authorisation(lambda platform: AllowLists(frozenset({"gus", "ada"} if platform == "web" else ())))
    there, store = "agent:main:irc:dm:x", gateway.store.chat_commands
    await gateway.finishes_turn(await begins(gateway, "ada", "hello"))
    inbound = Inbound(Address("irc", "dm", "x"), "m", Sender("gus"), "go")
    await gateway.store.inbox.receive(inbound, "", there, gateway.now())
    claim = await gateway.store.turns.claim(there, gateway.run, gateway.now())
    assert claim is not None
    await store.execute_verb(there, session_verbs.suspend(there), at=gateway.now())
    wish = msgspec.structs.replace(message(""), sender=Sender("ada"))
    resume = session_verbs.resume(KEY, gateway.run, wish, session=claim.turn.session)
    assert (await store.execute_verb(KEY, resume, at=gateway.now())).outcome == "session"
    again = (await claimed(gateway)).turn
    assert again.key == KEY
    found = await gateway.store.database.read(lambda tx: rights.tool_rights(tx, again))
    assert found == ToolRights("guest", ("clarify",), "gus")
    request = ProcessRequest(again.id, "c1", "d1", "sleep 9")
    assert (await gateway.store.processes.record(request, gateway.run, gateway.now())).person == ""


# ── verbs ───────────────────────────────────────────────────────────────────────────────────────────────────


async def test_b106_command_is_judged_in_the_transaction_that_carries_it_out(gateway: StoreGateway) -> None:
    await admit(gateway, "bob", "member")
    turn = await begins(gateway, "ada", "go")
    await hears(gateway, "bob", "/stop", kind="command")
    (command,) = await gateway.store.chat_commands.waiting(gateway.run)
    command = msgspec.structs.replace(
        command, refusal=lambda tx: None if RIGHTS.may(tx, KEY, Sender("bob"), "end") else "You may not."
    )
    await gateway.store.people.remove("web", "bob")
    stop = session_verbs.stop(KEY, turn.id)
    done = await gateway.store.chat_commands.execute(command, stop, lambda _: "Stopped.", gateway.now())
    assert done is None
    assert (await gateway.turn_row(turn)).state is TurnState.RUNNING
    assert [row.text for row in (await gateway.snapshot()).outbox] == ["You may not."]
    assert await gateway.store.chat_commands.waiting(gateway.run) == [], "it was answered, and is over"


@pytest.mark.parametrize(
    ("who", "here", "there", "may"),
    [
        pytest.param("bob", "dm:bob", "dm:bob", True, id="their own chat"),
        pytest.param("bob", "dm:bob", "dm:ada", False, id="somebody else's direct chat"),
        pytest.param("bob", "group:g", "dm:bob", True, id="their own chat, from a group"),
        pytest.param("bob", "group:g", "dm:both", False, id="a direct chat that somebody else writes in, too"),
        pytest.param("bob", "group:g", "dm:empty", False, id="a direct chat that nobody has written in"),
        pytest.param("bob", "group:g", "group:g:3", True, id="another thread of the group"),
        pytest.param("bob", "group:g", "group:h", False, id="another group"),
        pytest.param("bob", "group:g::bob", "group:g", True, id="everybody's in the group"),
        pytest.param("bob", "group:g", "group:g::bob", True, id="their own in the group"),
        pytest.param("bob", "group:g", "group:g::mia", False, id="somebody else's in the group"),
        pytest.param("gus", "group:g::gus", "group:g", False, id="a guest, everybody's in the group"),
        pytest.param("ada", "dm:ada", "dm:bob", True, id="an owner of everything"),
        pytest.param("olga", "dm:o", "dm:ada", False, id="an owner of one place alone"),
        pytest.param("olga", "dm:ada", "dm:o", False, id="and from elsewhere"),
        pytest.param("eve", "dm:eve", "dm:eve", False, id="a stranger"),
    ],
)
async def test_b106_right_in_another_conversation(
    gateway: StoreGateway, who: str, here: str, there: str, may: bool
) -> None:
    for person, role in (("bob", "member"), ("mia", "member"), ("olga", "member"), ("gus", "guest")):
        await admit(gateway, person, role)  # type: ignore[arg-type]  # each is a role
    await admit(gateway, "olga", "owner", "o")
    for number, (chat, writer) in enumerate([("bob", "bob"), ("ada", "ada"), ("both", "bob"), ("both", "mia")]):
        inbound = Inbound(chat_address(chat), str(number), Sender(writer), "hello")
        await gateway.store.inbox.receive(inbound, "", key_of(chat), gateway.now())
    keys = [f"agent:main:web:{place}" for place in (here, there)]
    found = await gateway.store.database.read(
        lambda tx: RIGHTS.may_reach(tx, keys[0], keys[1], Sender(who), "command")
    )
    assert found is may
