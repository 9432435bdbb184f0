"""What the chat page says of an interrupted turn: what was decided about it, and nothing that nobody knows.

Drives `web/api/events`, `web/static/turn-view.js`, `web/static/step-view.js` and
`web/static/connection-status.js`.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from support.browser import PHONE, Visitor, open_visitor
from support.gateway import Person, gateway
from support.operator_client import Operator
from support.waiting import wait_for

OFF = "It does not go on by itself, because automatic resume is switched off here."
ASK = "It waits for your word: /resume goes on with it, /drop gives it up."
PAUSED = "It does not go on by itself, because automatic resume is paused: the gateway keeps crashing."
STALE = "It does not go on by itself, because it is too old: the last sign of life was"


@contextmanager
def killed_in_a_step(browser: Browser, home: Path, **settings: str) -> Iterator[Visitor]:
    """A page that saw its gateway die in the middle of a step, and come back with these settings."""
    with gateway(home) as process, open_visitor(browser, process) as visitor:
        visitor.log_in().say("step endless 600s")
        expect(visitor.step("c1.1")).to_have_attribute("data-state", "running")
        process.kill()
        expect(visitor.turn).to_contain_text("Waits for the gateway")
        process.configure(**settings)
        process.start()
        visitor.expect_connected()
        yield visitor


@pytest.mark.parametrize(
    ("settings", "badge", "text"),
    [
        ({"RECOVERY__POLICY": "off"}, "Interrupted", OFF),
        ({"RECOVERY__POLICY": "ask"}, "Waits for you", ASK),
        ({"RECOVERY__FRESHNESS": "1ms"}, "Interrupted", STALE),
    ],
    ids=["off", "ask", "stale"],
)
def test_b42_page_says_why_a_turn_does_not_go_on_until_it_does(
    browser: Browser, tmp_path: Path, settings: dict[str, str], badge: str, text: str
) -> None:
    """As it happens, and as it is read again."""
    with killed_in_a_step(browser, tmp_path / "home", **settings) as visitor:
        held, page = visitor.turn.locator(".milestone.held"), visitor.page
        for _ in ("as it happens", "as it is read again"):
            expect(held).to_contain_text(text)
            expect(visitor.turn.locator("header .badge")).to_have_text(badge)
            visitor.expect_interrupted_step("c1.1")
            expect(page.locator("#banner")).not_to_contain_text("goes on")
            assert visitor.accessibility_violations() == []
            page.reload()
            visitor.expect_connected()
        visitor.save_screenshot(f"held-{badge.lower().replace(' ', '-')}", tmp_path)
        visitor.say("/resume")
        expect(visitor.step("c1.1")).to_have_attribute("data-state", "running")
        expect(visitor.step("c1.1")).to_contain_text("runs again")
        expect(held).to_have_count(0)
        expect(visitor.turn).to_contain_text("Working again")


def test_b52_page_says_that_a_conversation_was_set_aside(browser: Browser, tmp_path: Path) -> None:
    """Nothing is shown to run, and nothing says that it was stopped."""
    with killed_in_a_step(browser, tmp_path / "home", RECOVERY__MAX_WITHOUT_PROGRESS="1") as visitor:
        for _ in ("as it happens", "as it is read again"):
            expect(visitor.turn.locator("header .badge")).to_have_text("Suspended")
            expect(visitor.step("c1.1")).to_have_attribute("data-state", "cancelled")
            expect(visitor.turn.locator(".milestone.held")).to_have_count(0)
            expect(visitor.turn.locator(".busy")).to_have_count(0)
            visitor.page.reload()
            visitor.expect_connected()
        expect(visitor.turn).to_contain_text("I have suspended this conversation")


def test_page_shows_a_turn_as_cut_off_while_it_waits_for_a_place_to_go_on(
    browser: Browser, tmp_path: Path
) -> None:
    """Two turns were cut off, and one at a time goes on: the other one says only that it was cut off."""
    with gateway(tmp_path / "home", RECOVERY__CONCURRENCY="1") as process:
        chats = {name: Person(process, name) for name in ("one", "two")}
        for chat in chats.values():
            chat.say("step endless 600s")
            chat.wait_for_event("the step runs", state="started")
        process.kill()
        process.start()
        operator = Operator(process)
        first = wait_for("one of them goes on", lambda: goes_on(operator))
        other = "two" if first == "one" else "one"
        with open_visitor(browser, process, viewport=PHONE) as visitor:
            visitor.log_in().open(f"/chats/{other}").expect_connected()
            expect(visitor.turn.locator("header .badge")).to_have_text("Interrupted")
            visitor.expect_interrupted_step("c1.1")
            expect(visitor.turn.locator(".milestone.held")).to_have_count(0)
            assert visitor.fits_width()
            visitor.save_screenshot("waits-for-a-place", tmp_path)
            chats[first].say("/stop")
            expect(visitor.step("c1.1")).to_have_attribute("data-state", "running")
            expect(visitor.turn).to_contain_text("Working again")


def goes_on(operator: Operator) -> str | None:
    """The chat whose turn runs again."""
    found = [chat for chat in ("one", "two") if operator.last_turn(chat)["attempt"] == 2]
    return found[0] if found else None


def test_b53_page_says_one_thing_while_the_crash_loop_breaker_holds(browser: Browser, tmp_path: Path) -> None:
    """Nothing goes on by itself; the step that was cut off is not shown to run until somebody lifts the pause."""
    patient = {"RECOVERY__MAX_WITHOUT_PROGRESS": "9"}
    with gateway(tmp_path / "home", command="up", **patient) as process, open_visitor(browser, process) as visitor:
        page = visitor.log_in().page
        visitor.say("step endless 600s")
        for times in ("", "runs again", "runs again"):
            expect(visitor.step("c1.1")).to_have_attribute("data-state", "running")
            expect(visitor.step("c1.1")).to_contain_text(times)
            visitor.kill()
            visitor.expect_gateway_back()
        held = visitor.turn.locator(".milestone.held")
        expect(held).to_have_text(PAUSED)
        expect(page.locator("#paused")).to_contain_text("Nothing goes on by itself")
        expect(page.locator("#banner")).not_to_contain_text("goes on")
        visitor.expect_interrupted_step("c1.1")
        assert visitor.accessibility_violations() == []
        visitor.save_screenshot("paused", tmp_path)
        page.get_by_role("button", name="Resume the work").click()
        expect(page.locator("#paused")).to_be_hidden()
        expect(held).to_have_count(0)
        expect(visitor.step("c1.1")).to_have_attribute("data-state", "running")


def test_b53_pages_of_every_chat_hear_that_the_pause_is_over(browser: Browser, tmp_path: Path) -> None:
    """Also where nothing was cut off, and whoever lifted it."""
    with gateway(tmp_path / "home") as process:
        chat = Person(process, "work")
        chat.say("step endless 600s")
        for _ in range(3):
            chat.wait_for_event("the step runs", state="started")
            process.kill()
            process.start()
        assert Operator(process).get("/status")["resume_paused"]
        with open_visitor(browser, process) as visitor:
            paused = visitor.log_in().page.locator("#paused")
            expect(paused).to_be_visible()
            assert Operator(process).post("/resume")["done"]
            expect(paused).to_be_hidden()
