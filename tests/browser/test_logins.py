"""Logins with scopes in a real browser: who may decide an approval sees buttons, and who may not is told who may.

Drives `web/auth`, `web/pages/actions` and `web/static/turn-view.js`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect

from perdure.core import texts
from support.approvals import GUARDED
from support.browser import PHONE, Visitor, open_visitor
from support.gateway import GatewayProcess, Person, gateway
from support.logins import add_login, run_token


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with gateway(tmp_path_factory.mktemp("scopes") / "home") as process:
        yield process


def enter(visitor: Visitor, token: str, path: str) -> Visitor:
    """Log in by the form, as a person does who was given a token, and go to a page."""
    visitor.open("/login")
    visitor.page.get_by_label("Token").fill(token)
    visitor.page.get_by_role("button", name="Log in").click()
    visitor.page.wait_for_url("**/")
    return visitor.open(path)


def wait_for_question(process: GatewayProcess, chat: str) -> str:
    """Write a message whose call waits for approval; return the turn."""
    person = Person(process, chat)
    person.say(GUARDED)
    turn: str = next(data for _, name, data in person.events() if name == "approval")["turn"]
    return turn


@pytest.mark.parametrize("options", [{}, {"viewport": PHONE}], ids=["desktop", "phone"])
def test_b107_who_may_not_approve_sees_the_call_and_who_may(
    browser: Browser, process: GatewayProcess, options: dict[str, object], tmp_path: Path
) -> None:
    name = f"reader-{len(options)}"
    turn = wait_for_question(process, name)
    with open_visitor(browser, process, **options) as visitor:
        enter(visitor, add_login(process, name, "read,chat"), f"/chats/{name}")
        card = visitor.page.locator(".asking")
        expect(card).to_contain_text("danger(command=")
        expect(card).to_contain_text("This login may not decide it.")
        expect(card.get_by_role("button")).to_have_count(0)
        expect(visitor.page.locator("#words")).to_be_visible()
        expect(visitor.page.locator("#kill")).to_have_count(0)
        assert visitor.accessibility_violations() == []
        assert visitor.fits_width()
        visitor.save_screenshot(f"login-chat-{len(options)}", tmp_path)
        visitor.open(f"/console/turns/{turn}")
        expect(visitor.page.locator("main")).to_contain_text(texts.logins.WHO_MAY_APPROVE)
        expect(visitor.page.get_by_role("button", name="Approve")).to_have_count(0)
        expect(visitor.page.get_by_role("button", name="Stop")).to_have_count(0)
        visitor.open("/console")
        expect(visitor.page.locator("main")).to_contain_text(texts.logins.WHO_MAY_APPROVE)
        visitor.save_screenshot(f"login-console-{len(options)}", tmp_path)


def test_b107_who_may_approve_does_it_by_the_button_and_the_card_says_who_did(
    browser: Browser, process: GatewayProcess, tmp_path: Path
) -> None:
    wait_for_question(process, "deciding")
    with open_visitor(browser, process) as visitor:
        enter(visitor, add_login(process, "approver", "read,approve"), "/chats/deciding")
        expect(visitor.page.locator("#words")).to_be_hidden()
        expect(visitor.page.get_by_text("This login may read, and not write.")).to_be_visible()
        visitor.page.get_by_role("button", name="Approve").click()
        expect(visitor.page.locator(".asking")).to_contain_text("Approved, by owner on web, login approver")
        visitor.save_screenshot("login-approved", tmp_path)


def test_b103_revoked_login_leads_back_to_the_form(browser: Browser, process: GatewayProcess) -> None:
    with open_visitor(browser, process) as visitor:
        enter(visitor, add_login(process, "leaving", "read"), "/console")
        expect(visitor.page.get_by_role("heading", name="Overview")).to_be_visible()
        run_token(process, "revoke", "leaving")
        visitor.open("/console")
        expect(visitor.page.get_by_role("heading", name="Log in")).to_be_visible()
