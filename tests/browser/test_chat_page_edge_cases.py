"""The chat page at awkward moments: people see what is there, and what they wrote goes where they wrote it.

Drives `web/static`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, FilePayload, Route, expect

from support.browser import Visitor, open_visitor
from support.gateway import GatewayProcess, Person, gateway

UPLOADS = re.compile("/api/attachments")
CHATS = re.compile("/api/chats$")
NOTES: FilePayload = {"name": "notes.txt", "mimeType": "text/plain", "buffer": b"Buy tea."}


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with gateway(tmp_path_factory.mktemp("moments") / "home", command="up") as process:
        yield process


@pytest.fixture
def visitor(browser: Browser, process: GatewayProcess) -> Iterator[Visitor]:
    with open_visitor(browser, process) as visitor:
        yield visitor.log_in()


def test_answer_is_seen_when_it_begins_like_the_question(visitor: Visitor) -> None:
    """The question itself is shown once, with its buttons."""
    visitor.say("ask: Go | Yes | No\nsay: Going now.")
    visitor.page.get_by_role("button", name="Yes").click()
    visitor.expect_answer("Going now.")
    visitor.page.reload()
    visitor.expect_answer("Going now.")
    expect(visitor.turn).not_to_contain_text("(Yes / No)")


def test_what_is_typed_as_an_answer_stands_above_what_comes_of_it(visitor: Visitor) -> None:
    """Also after a reload; and what was asked before stays where it was."""
    visitor.say("step look 0s\nask: What is your name?\nstep greet 0s\nsay: Good day.")
    expect(visitor.turn).to_contain_text("Write your answer below.")
    visitor.say("Ada")
    for _ in ("as it happens", "as it is read again"):
        visitor.expect_answer("Good day.")
        shown = visitor.page.locator("#log > *")
        expect(shown).to_have_count(4)
        expect(shown.nth(1)).to_contain_text("Answered: Ada")
        expect(shown.nth(2)).to_have_text("Ada")
        expect(shown.nth(3)).to_contain_text("greet")
        visitor.page.reload()


def test_stop_is_not_offered_in_a_chat_where_nothing_runs(visitor: Visitor) -> None:
    visitor.say("step endless 600s")
    stop = visitor.page.get_by_role("button", name="Stop")
    expect(stop).to_be_visible()
    visitor.new_chat()
    visitor.expect_connected()
    expect(stop).to_be_hidden()


def test_message_goes_to_the_chat_it_was_written_in_when_its_file_takes_long(visitor: Visitor) -> None:
    """Whoever opens another chat meanwhile, or presses Enter again, sends nothing twice and nothing elsewhere."""
    page = visitor.page
    visitor.say("say: the first one")
    visitor.expect_answer("the first one")
    first = page.url.rpartition("/")[2]
    held: list[Route] = []
    page.route(UPLOADS, lambda route: held.append(route))
    with page.expect_request(UPLOADS):
        page.locator("#files").set_input_files([NOTES])
    visitor.say("say: with a file")
    page.keyboard.press("Enter")
    visitor.new_chat()
    expect(page).to_have_url(f"{visitor.gateway.url}/")
    held[0].continue_()
    Person(visitor.gateway, first).wait_for_replies(2)
    expect(page.locator("#attached")).to_be_hidden()
    expect(page.locator(".mine")).to_have_count(0)
    page.locator("#chats a", has_text="say: the first one").first.click()
    expect(page.locator(".mine")).to_have_count(2)
    expect(page.locator(".mine").last.get_by_role("link")).to_have_text("notes.txt")


def test_chat_whose_address_is_no_good_encoding_is_shown_all_the_same(visitor: Visitor) -> None:
    visitor.open("/chats/100%").expect_connected()
    visitor.say("say: here")
    visitor.expect_answer("here")


def test_hostile_nesting_behind_a_paragraph_is_shown_and_breaks_nothing(visitor: Visitor) -> None:
    visitor.page.evaluate(
        "async (text) => { const { markdown } = await import('/static/markdown.js'); markdown(text) }",
        "a\n" + ">" * 100_000,
    )


def test_focus_stays_on_a_conversation_while_the_list_is_brought_up_to_date(visitor: Visitor) -> None:
    """Of three, the last one is used again: it moves up, and whoever is on it by keyboard moves with it."""
    page, links = visitor.page, visitor.page.locator("#chats a")
    for text in ("say: one", "say: two"):
        visitor.say(text)
        visitor.expect_answer(text.removeprefix("say: "))
        visitor.new_chat()
    visitor.say("step endless 600s")
    expect(links.first).to_contain_text("working")
    last = links.nth(2)
    chat = last.get_attribute("data-chat") or ""
    last.focus()
    person = Person(visitor.gateway, chat)
    person.say("say: again")
    person.wait_for_replies(2)
    page.get_by_role("button", name="Stop").evaluate("button => button.click()")
    expect(links.first).to_have_attribute("data-chat", chat)
    expect(links.first).to_be_focused()


def list_of_chats_arrives(visitor: Visitor, held: list[Route]) -> None:
    """Let the held answers through, and wait until the page has drawn what they say."""
    with visitor.page.expect_response(CHATS):
        for route in held:
            route.continue_()
    visitor.page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def test_click_opens_the_conversation_that_was_pressed_when_the_list_changes_meanwhile(visitor: Visitor) -> None:
    """Nothing moves under a pointer; when it has left the list, the order is that of the last use."""
    page, links, held = visitor.page, visitor.page.locator("#chats a"), list[Route]()
    visitor.say("say: older")
    visitor.expect_answer("older")
    older = page.url
    visitor.new_chat()
    visitor.say("say: newer")
    visitor.expect_answer("newer")
    newer = page.url
    visitor.open(older.removeprefix(visitor.gateway.url)).expect_connected()
    expect(links.first).to_have_attribute("href", newer.removeprefix(visitor.gateway.url))
    page.route(CHATS, lambda route: held.append(route))
    with page.expect_request(CHATS):
        visitor.say("say: older again")
    visitor.expect_answer("older again")
    links.first.hover()
    page.mouse.down()
    list_of_chats_arrives(visitor, held)
    page.mouse.up()
    expect(page).to_have_url(newer)
    visitor.expect_answer("newer")
    page.unroute(CHATS)
    page.locator("#words").hover()
    expect(links.first).to_have_attribute("href", older.removeprefix(visitor.gateway.url))


def test_conversation_stays_the_same_element_when_another_one_is_put_above_it(visitor: Visitor) -> None:
    """Whoever has found it in the list, by eye or as a program, clicks on it wherever it stands now."""
    page, links = visitor.page, visitor.page.locator("#chats a")
    visitor.say("say: found")
    visitor.expect_answer("found")
    found = page.url
    expect(page.locator("#chats [aria-current=page]")).to_contain_text("say: found")
    link = links.first.element_handle()
    visitor.new_chat()
    visitor.say("say: above")
    visitor.expect_answer("above")
    expect(links.first).to_contain_text("say: above")
    assert link is not None
    link.click()
    expect(page).to_have_url(found)


def test_words_are_not_lost_when_they_are_sent_before_the_page_is_ready(visitor: Visitor) -> None:
    """The script of the page takes long to come: what was typed meanwhile stays there, and is sent once it may."""
    page, held, send = visitor.page, list[Route](), visitor.page.get_by_role("button", name="Send")
    page.route("**/static/chat.js", lambda route: held.append(route))
    page.goto(f"{visitor.gateway.url}/chats/early", wait_until="commit")
    page.get_by_label("Message", exact=True).fill("say: early")
    expect(send).to_be_disabled()
    for route in held:
        route.continue_()
    send.click()
    visitor.expect_answer("early")


def test_message_is_kept_and_not_refused_when_the_login_has_ended(visitor: Visitor) -> None:
    page = visitor.page
    page.route("**/messages", lambda route: route.fulfill(status=401, json={"error": "no", "hint": "log in"}))
    visitor.say("say: after the login")
    expect(page).to_have_url(f"{visitor.gateway.url}/login")
    visitor.complaints.clear()  # the browser itself reports every 401
    page.unroute("**/messages")
    visitor.log_in()
    page.locator("#chats a", has_text="after the login").click()
    visitor.expect_answer("after the login")


def test_page_says_for_how_long_the_gateway_was_gone_also_in_another_chat(visitor: Visitor) -> None:
    visitor.say("say: one")
    visitor.expect_answer("one")
    visitor.kill()
    visitor.expect_gateway_back()
    said = visitor.page.locator("#banner").inner_text()
    visitor.new_chat()
    visitor.expect_connected()
    expect(visitor.page.locator("#banner")).to_have_text(said)
