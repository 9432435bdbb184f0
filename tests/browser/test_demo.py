"""The demo: a gateway is killed by the button on its page, and the page tells what became of everything.

Drives `web/api/gateway` and `web/static/demo.js`.
"""

from __future__ import annotations

import re
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from support.browser import PHONE, Visitor, open_visitor
from support.chat_folders import workspaces
from support.gateway import GatewayProcess, Person, gateway
from support.waiting import wait_for


@pytest.fixture
def visitor(browser: Browser, tmp_path: Path) -> Iterator[Visitor]:
    """Somebody at a gateway that is started again whenever it dies."""
    with gateway(tmp_path / "home", command="up") as process, open_visitor(browser, process) as visitor:
        yield visitor.log_in()


def runs(process: GatewayProcess) -> Counter[str]:
    """How often each step really ran, by its name."""
    trace = process.home / "rehearsal.log"
    return Counter(line.split()[0] for line in trace.read_text().splitlines()) if trace.exists() else Counter()


def has_begun(visitor: Visitor, step: str, times: int) -> None:
    wait_for(f"{step} has begun {times} times", lambda: runs(visitor.gateway)[step] == times)


WAITING = "run: until [ -e flag ]; do sleep 0.05; done; echo it ran on"  # until `let_go`


def let_go(process: GatewayProcess) -> None:
    """Let the commands that wait end."""
    for workspace in workspaces(process.home):
        (workspace / "flag").touch()


def test_b40_task_goes_on_where_it_was_when_the_gateway_is_killed(visitor: Visitor) -> None:
    """The page shows it back, cut off and resumed; what was done ran once, and the answer comes once."""
    page = visitor.page
    visitor.say(f"step research 0s\n{WAITING}\nonce send 0s\nsay: All done.")
    expect(visitor.step("c2.1")).to_have_attribute("data-state", "running")
    visitor.kill()
    visitor.expect_gateway_back()
    expect(visitor.turn.locator(".milestone.cut")).to_contain_text("the gateway died")
    expect(visitor.turn.locator(".milestone.resumed")).to_be_visible()
    expect(visitor.turn).to_contain_text("Working again")
    let_go(visitor.gateway)
    visitor.expect_answer("All done.")
    expect(visitor.step("c2.1")).to_contain_text("went on without the gateway")
    for call in ("c1.1", "c3.1"):
        expect(visitor.step(call)).to_contain_text("ran once")
    assert runs(visitor.gateway) == {"research": 1, "send": 1}
    page.reload()  # the same story from the beginning
    visitor.expect_answer("All done.")
    expect(visitor.turn.locator(".milestone")).to_have_count(2)
    assert visitor.accessibility_violations() == []


def test_step_that_was_cut_off_is_shown_to_run_again(visitor: Visitor) -> None:
    visitor.say("step endless 600s\nsay: never")
    has_begun(visitor, "endless", 1)
    expect(visitor.step("c1.1")).to_have_attribute("data-state", "running")
    visitor.kill()
    visitor.expect_gateway_back()
    has_begun(visitor, "endless", 2)
    visitor.page.get_by_role("button", name="Stop").click()
    expect(visitor.step("c1.1")).to_have_attribute("data-state", "cancelled")
    expect(visitor.step("c1.1")).to_contain_text("ran 2 times")


def test_b66_b67_question_and_approval_are_answered_after_a_restart(visitor: Visitor) -> None:
    page = visitor.page
    visitor.say("ask: Which way? | Left | Right\ndanger: echo it ran\nsay: Thank you.")
    expect(page.get_by_role("button", name="Left")).to_be_visible()
    visitor.kill()
    visitor.expect_gateway_back()
    page.get_by_role("button", name="Left").click()
    expect(page.get_by_role("button", name="Approve")).to_be_visible()
    visitor.kill()
    visitor.expect_gateway_back()
    page.reload()
    page.get_by_role("button", name="Approve").click()
    visitor.expect_answer("Thank you.")
    expect(visitor.turn).to_contain_text("Answered: Left")
    expect(visitor.turn).to_contain_text("Approved")


def test_b71_message_is_sent_once_when_it_was_written_while_the_gateway_was_gone(
    browser: Browser, tmp_path: Path
) -> None:
    with gateway(tmp_path / "home") as process, open_visitor(browser, process) as visitor:
        page = visitor.log_in().page
        visitor.say(f"{WAITING}\nsay: before")
        expect(visitor.step("c1.1")).to_have_attribute("data-state", "running")
        visitor.kill()
        assert process.wait() == -signal.SIGKILL
        expect(page.locator("#presence")).to_have_text("Gone")
        expect(page.locator("#banner")).to_contain_text("Start it again")
        expect(visitor.turn).to_contain_text("Waits for the gateway")
        assert visitor.accessibility_violations() == []
        visitor.say("once only 0s\nsay: after")
        expect(page.locator(".unsent")).to_contain_text("Kept here")
        process.start()
        visitor.expect_gateway_back()
        let_go(process)
        visitor.expect_answer("after")
        expect(page.locator(".said:not(.growing)")).to_have_text(["before", "after"])
        expect(page.locator(".unsent")).to_have_count(0)
        expect(page.locator(".mine")).to_have_count(2)
        assert runs(process) == {"only": 1}
        assert page.evaluate("Object.keys(localStorage).filter(key => key.includes('unsent'))") == []
        chat = Person(process, page.url.rpartition("/")[2])
        assert Counter(message["author"] for message in chat.messages()) == {"user": 2, "agent": 2}


def test_b53_page_says_so_when_it_was_killed_too_often_and_lifts_it(visitor: Visitor) -> None:
    page = visitor.page
    visitor.say("step endless 600s")
    for times in (1, 2, 3):
        has_begun(visitor, "endless", times)
        visitor.kill()
        visitor.expect_gateway_back()
    paused = page.locator("#paused")
    expect(paused).to_contain_text("Nothing goes on by itself")
    assert visitor.accessibility_violations() == []
    page.get_by_role("button", name="Resume the work").click()
    expect(paused).to_be_hidden()


def test_examples_of_the_demo_are_worth_a_picture(visitor: Visitor, tmp_path: Path) -> None:
    """First visit, work in progress, the kill and what follows; whenever the kill comes, the answer comes once."""
    page = visitor.page
    visitor.save_screenshot("first-visit", tmp_path)
    page.get_by_role("button", name="A task of several steps").click()
    expect(visitor.step("c2.1")).to_have_attribute("data-state", re.compile("running|ok"))
    expect(visitor.step("c1.1")).to_contain_text("ran once")
    visitor.save_screenshot("in-progress", tmp_path)
    visitor.kill()
    expect(page.locator("#banner")).to_contain_text(re.compile("[1-9] s|back"))
    visitor.save_screenshot("killed", tmp_path)
    visitor.expect_gateway_back()
    expect(
        visitor.turn.locator(".milestone.resumed").or_(visitor.turn.locator("[data-call='c4.1']"))
    ).to_be_visible()
    visitor.save_screenshot("resumed", tmp_path)
    visitor.expect_answer("The report is written, and was sent once.")
    expect(visitor.step("c4.1")).to_contain_text("ran once")
    assert runs(visitor.gateway)["send-report"] == 1
    page.emulate_media(color_scheme="dark")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    visitor.save_screenshot("dark", tmp_path)
    page.emulate_media(color_scheme="light")
    page.set_viewport_size(PHONE)
    visitor.save_screenshot("phone", tmp_path)
