"""Files of messages and of turns, on both databases: a message waits for its files, and each has one owner.

Drives `store/attachments` and `store/claims`.
"""

from __future__ import annotations

import pytest

from perdure.core import texts
from perdure.core.effects import Effect
from perdure.core.file_names import chat_folder
from perdure.core.journal import RecoveryDecided, ToolEnded, ToolStarted, TurnInterrupted
from perdure.core.messages import Attachment, Inbound, Sender, SentFile
from perdure.core.queue import QueueMode, QueueRules
from perdure.core.recovery.decision import RecoveryChoice, RecoveryRule
from perdure.store.attachments import PendingAttachment, StoredAttachment
from perdure.store.claims import Claim
from perdure.store.outbox import OutboxReply
from perdure.store.session_verbs import resume
from perdure.store.transitions import Turn
from support.store_gateway import StoreGateway, chat_address, key_of

pytestmark = pytest.mark.anyio

KEY = key_of()
PHOTO, NOTES = (
    Attachment("cat.jpg", "ref-1", "image/jpeg", 9),
    Attachment("no\x00tes.txt", "ref-2", "Text/Plain; x"),
)
SENT = SentFile("att_1", "plan.pdf", "application/pdf", 3, "attachments/att_1/plan.pdf", "Here it is.")


async def hears(
    gateway: StoreGateway, name: str, *files: Attachment, text: str = "look", mode: QueueMode = "queue"
) -> str:
    said = Inbound(chat_address(), name, Sender("ada"), text, attachments=files)
    stored = await gateway.store.inbox.receive(
        said, "raw", KEY, gateway.now(), rules=QueueRules(mode, await_files=True)
    )
    return stored.message


async def claims(gateway: StoreGateway) -> Claim | None:
    return await gateway.store.turns.claim(KEY, gateway.run, gateway.now(), QueueRules(await_files=True))


async def awaited(gateway: StoreGateway) -> list[PendingAttachment]:
    return await gateway.store.attachments.pending(gateway.run)


async def fetch(gateway: StoreGateway, one: PendingAttachment) -> bool:
    assert await gateway.store.attachments.hold_lease(one, gateway.run)
    return await gateway.store.attachments.record_fetched(one, f"attachments/{one.file.id}/{one.file.name}", 5)


async def upload(gateway: StoreGateway, name: str = "trip.txt") -> StoredAttachment:
    store, file = gateway.store.attachments, gateway.store.attachments.new_id()
    return await store.record_upload(name, "text/plain", f"attachments/{file}/{name}", 4, gateway.now(), id=file)


async def test_b70_turn_begins_when_every_file_is_here_or_given_up(gateway: StoreGateway) -> None:
    await hears(gateway, "1", PHOTO, NOTES)
    await hears(gateway, "2", text="and this")
    assert await claims(gateway) is None
    first, second = await awaited(gateway)
    assert (first.file.name, second.file.name, second.file.media_type) == ("cat.jpg", "no_tes.txt", "text/plain")
    assert await fetch(gateway, first)
    assert not await gateway.store.attachments.record_fetched(first, "elsewhere", 1), "once in effect"
    assert await claims(gateway) is None
    await gateway.store.attachments.record_failed(second, "it is gone", gateway.now())
    await gateway.store.attachments.record_failed(second, "it is gone", gateway.now())
    claim = await claims(gateway)
    assert claim is not None
    (cause,) = (await gateway.view(claim.turn)).causes
    assert [(file.path, file.size, file.problem) for file in cause.attachments] == [
        (f"attachments/{first.file.id}/cat.jpg", 5, None),
        (None, None, "it is gone"),
    ]
    told = [row.text for row in await gateway.outbox_heads()]
    assert told == [texts.files.attachment_not_fetched("no_tes.txt", "it is gone")]
    assert await awaited(gateway) == []


async def test_b70_tries_count_over_restarts(gateway: StoreGateway) -> None:
    await hears(gateway, "1", PHOTO)
    [one] = await awaited(gateway)
    await gateway.store.attachments.retry_later(one, 5_000, counts=True)
    await gateway.store.attachments.retry_later(one, 7_000, counts=False)
    await gateway.reopen()
    [again] = await awaited(gateway)
    assert (again.file.attempts, again.due_at) == (1, 7_000)


async def test_message_that_waits_for_a_file_is_not_overtaken_when_it_steers(gateway: StoreGateway) -> None:
    turn = await gateway.begins_turn("work")
    await hears(gateway, "1", PHOTO, mode="steer")
    await hears(gateway, "2", text="go left", mode="steer")
    rules = QueueRules("steer", await_files=True)
    assert await gateway.store.queue.join(turn, rules, gateway.now()) == []
    [one] = await awaited(gateway)
    await fetch(gateway, one)
    assert await gateway.store.queue.join(turn, rules, gateway.now())
    assert [cause.message for cause in (await gateway.view(turn)).causes[1:]] == ["1", "2"]


@pytest.mark.parametrize("rule", [RecoveryRule.OFF, RecoveryRule.STALE], ids=["joins it", "takes its place"])
async def test_b49_message_does_nothing_to_a_turn_that_was_held_back_before_its_file_is_here(
    gateway: StoreGateway, rule: RecoveryRule
) -> None:
    """Or else the turn would go on for its sake and without it, and it would get another."""
    turn = await gateway.begins_turn("work")
    await gateway.appends(turn, TurnInterrupted("restart_interrupted", gateway.run))
    await gateway.appends(turn, RecoveryDecided(RecoveryChoice.SKIP, "it is held back", rule=rule))
    await hears(gateway, "1", PHOTO)
    before = await gateway.all_rows()
    assert await claims(gateway) is None
    assert await gateway.all_rows() == before
    [one] = await awaited(gateway)
    await fetch(gateway, one)
    claim = await claims(gateway)
    assert claim is not None
    assert (claim.turn.id == turn.id, claim.superseded) == (rule is RecoveryRule.OFF, rule is RecoveryRule.STALE)
    assert [file.name for file in (await gateway.view(claim.turn)).causes[-1].attachments] == ["cat.jpg"]


async def test_nothing_is_fetched_for_a_message_that_nobody_will_answer(gateway: StoreGateway) -> None:
    await hears(gateway, "1", PHOTO)
    [one] = await awaited(gateway)
    gone = Inbound(chat_address(), "1", Sender("ada"), "", kind="delete", version="1")
    await gateway.store.queue.amend(
        gone, "raw", KEY, gateway.now(), resolve_key=lambda tx: KEY, rules=QueueRules()
    )
    assert await awaited(gateway) == []
    assert await gateway.store.attachments.fetched_path(one) is None


async def test_same_reference_is_known_once_it_was_fetched(gateway: StoreGateway) -> None:
    await hears(gateway, "1", PHOTO)
    [one] = await awaited(gateway)
    await fetch(gateway, one)
    await hears(gateway, "2", PHOTO)
    [again] = await awaited(gateway)
    assert await gateway.store.attachments.fetched_path(again) == f"attachments/{one.file.id}/cat.jpg"


async def test_upload_belongs_to_the_first_message_that_names_it(gateway: StoreGateway) -> None:
    file = await upload(gateway)
    named = Attachment(file.name, file.id, file.media_type, file.size)
    first = await hears(gateway, "1", named)
    second = await hears(gateway, "2", named)
    stored = await gateway.store.attachments.get(file.id)
    assert stored is not None
    assert (stored.inbox, stored.state) == (first, "fetched")
    [copy] = await awaited(gateway)
    assert (copy.file.inbox, await gateway.store.attachments.fetched_path(copy)) == (second, file.path)
    seen = await gateway.store.inbox.chat_messages(KEY, 0)
    assert [[(each.name, each.state) for each in one.attachments] for one in seen] == [
        [("trip.txt", "fetched")],
        [("trip.txt", "referenced")],
    ]


async def test_unused_uploads_are_forgotten_by_age(gateway: StoreGateway) -> None:
    old, used = await upload(gateway), await upload(gateway)
    await hears(gateway, "1", Attachment(used.name, used.id))
    fresh = await upload(gateway)
    stored = await gateway.query("SELECT created_at FROM attachments WHERE id = :id", id=fresh.id)
    assert await gateway.store.attachments.delete_unused(stored[0][0]) == [old.id]
    assert await gateway.store.attachments.delete_unused(stored[0][0]) == []
    assert await gateway.store.attachments.ids_without_row([old.id, used.id, fresh.id]) == [old.id]


async def test_b104_files_of_a_session_go_with_it(gateway: StoreGateway) -> None:
    await hears(gateway, "1", PHOTO)
    [one] = await awaited(gateway)
    await fetch(gateway, one)
    claim = await claims(gateway)
    assert claim is not None
    await send(gateway, claim.turn)
    begun = await gateway.store.erasure.begin(claim.turn.session, gateway.now())
    assert begun is not None
    paths = {f"attachments/{one.file.id}/cat.jpg", SENT.path}
    assert set(begun.files) == paths
    erased = await gateway.store.erasure.finish(claim.turn.session, gateway.now())
    assert erased is not None
    assert erased.attachments == 2
    assert (await gateway.store.erasure.files_to_remove())[1] == {*paths, chat_folder(KEY)}
    assert await gateway.query("SELECT id FROM attachments") == []


async def test_b180_files_belong_to_the_conversation_in_which_they_came_or_were_sent(
    gateway: StoreGateway,
) -> None:
    await hears(gateway, "1", PHOTO, NOTES)
    for one in await awaited(gateway):
        await fetch(gateway, one)
    claim = await claims(gateway)
    assert claim is not None
    await send(gateway, claim.turn)
    await upload(gateway)  # no message names it yet
    ours = await gateway.store.attachments.of_conversation(KEY)
    assert sorted(path.rpartition("/")[2] for path in ours) == ["cat.jpg", "no_tes.txt", "plan.pdf"]
    assert await gateway.store.attachments.of_conversation(key_of("c2")) == []


async def test_b180_files_go_with_their_session_into_another_chat(gateway: StoreGateway) -> None:
    await hears(gateway, "1", PHOTO)
    [one] = await awaited(gateway)
    await fetch(gateway, one)
    claim = await claims(gateway)
    assert claim is not None
    await send(gateway, claim.turn)
    await gateway.finishes_turn(claim.turn)
    request = Inbound(chat_address("c2"), "2", Sender("ada"), f"/resume {claim.turn.session}")
    moved = await gateway.store.database.write(
        resume(key_of("c2"), gateway.run, request, session=claim.turn.session), key=key_of("c2"), at=gateway.now()
    )
    assert moved.outcome == "session"
    there = await gateway.store.attachments.of_conversation(key_of("c2"))
    assert sorted(path.rpartition("/")[2] for path in there) == ["cat.jpg", "plan.pdf"]


async def send(gateway: StoreGateway, turn: Turn) -> bool:
    await gateway.appends(turn, ToolStarted("c1.1", "send_file", Effect.PURE, "k"))
    ended = ToolEnded("c1.1", "ok", "on its way", files=(SENT,))
    owed = OutboxReply(chat_address(), f"{turn.id}.sends.c1.1.0", (SENT.caption,), file=SENT)
    written = await gateway.store.turns.append(turn, [ended], gateway.now(), replies=[owed])
    return written is not None


async def test_file_is_owed_together_with_the_result_that_sends_it(gateway: StoreGateway) -> None:
    turn = await gateway.begins_turn("send it")
    assert await send(gateway, turn)
    [row] = await gateway.outbox_heads()
    assert (row.sent_file, row.text, row.turn) == (SENT, "Here it is.", turn.id)
    assert (await gateway.turn_row(turn)).state == "running"
    stored = await gateway.store.attachments.get(SENT.id)
    assert stored is not None
    assert (stored.turn, stored.path) == (turn.id, SENT.path)
    await gateway.delivers()
    seen = await gateway.store.inbox.chat_messages(KEY, 0)
    assert [file.id for file in seen[-1].attachments] == [SENT.id]


async def test_file_is_not_owed_when_the_turn_has_ended(gateway: StoreGateway) -> None:
    turn = await gateway.begins_turn("send it")
    await gateway.cancels_turn(turn)
    before = await gateway.all_rows()
    assert not await send(gateway, turn)
    assert await gateway.all_rows() == before
