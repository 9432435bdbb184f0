"""The console in a real browser: every page with real data, and every act by keyboard, confirmed before.

Drives `web/pages/console`, `web/pages/actions` and `web/static/console.js`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from playwright.sync_api import Browser, Locator, expect

from perdure.core import texts
from support.browser import PHONE, Visitor, open_visitor
from support.busy_gateway import BusyGateway, busy_gateway
from support.gateway import Person, gateway
from support.waiting import wait_for


@pytest.fixture(scope="module")
def busy(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BusyGateway]:
    with busy_gateway(tmp_path_factory.mktemp("busy")) as busy:
        yield busy


@pytest.fixture
def visitor(browser: Browser, busy: BusyGateway) -> Iterator[Visitor]:
    with open_visitor(browser, busy.process) as visitor:
        yield visitor.log_in()


def pages(busy: BusyGateway) -> dict[str, str]:
    """A page of each kind, and something that is to be seen there."""
    process = busy.operator.get("/processes")["processes"][0]["id"]
    return {
        "/console": "Needs you",
        "/console/sessions": "web · work",
        f"/console/sessions/{busy.session('work')}": "The last turn is done (attempt 2).",
        f"/console/turns/{busy.turn('work')}": "It was interrupted and can continue",
        f"/console/turns/{busy.turn('asking')}": "waits for an answer",
        "/console/decisions": "Found: a gateway interruption (restart_interrupted)",
        "/console/outbox": "The report is ready.",
        "/console/processes": "echo begun",
        f"/console/processes/{process}": "begun",
        "/console/people": "Let somebody in",
        "/console/gateways": "this one",
        "/console/config": "platforms.telegram.token",
    }


@pytest.mark.parametrize(
    "options", [{}, {"color_scheme": "dark"}, {"viewport": PHONE}], ids=["light", "dark", "phone"]
)
def test_b103_every_page_can_be_read_by_everybody_and_breaks_no_policy(
    browser: Browser, busy: BusyGateway, options: dict[str, object], tmp_path: Path
) -> None:
    kind = next(iter(options), "light")
    with open_visitor(browser, busy.process, **options) as visitor:
        visitor.log_in()
        for path, seen in pages(busy).items():
            visitor.open(path)
            expect(visitor.page.locator("main")).to_contain_text(seen)
            assert visitor.accessibility_violations() == [], path
            assert visitor.fits_width(), path
            visitor.save_screenshot(
                f"console-{kind}-{path.split('/')[2] if path.count('/') > 1 else 'overview'}", tmp_path
            )
            json = visitor.page.get_by_role("link", name="JSON").get_attribute("href")
            assert visitor.page.request.get(f"{busy.process.url}{json}").ok, json


def test_b103_console_needs_a_login_and_says_what_is_not_there(busy: BusyGateway) -> None:
    for path in pages(busy):
        assert httpx.get(f"{busy.process.url}{path}").headers["location"].startswith("/login"), path
    headers = {"Authorization": f"Bearer {busy.process.token}"}
    for path in ("/console/turns/t_0", "/console/sessions/s_0", "/console/processes/p_0", "/console/turns/%00"):
        missing = httpx.get(f"{busy.process.url}{path}", headers=headers)
        assert missing.status_code == 404 and "That is not here" in missing.text
    assert httpx.get(f"{busy.process.url}/console/outbox?state=x", headers=headers).status_code == 400


def test_life_of_a_resumed_turn_is_drawn_to_scale(visitor: Visitor, busy: BusyGateway) -> None:
    life = busy.operator.last_turn("work")
    visitor.open(f"/console/turns/{life['id']}")
    whole = visitor.page.locator("#drawing-1 svg")
    down, shell = whole.locator(".down"), whole.locator(".bar-tool").last
    (cut,), call = life["interruptions"], next(each for each in life["calls"] if each["name"] == "shell")
    shares = _width(down) / _width(whole.locator(".bar-tool").nth(2)), cut["found_at"] - cut["at"]
    assert shares[0] == pytest.approx(shares[1] / (call["until"] - call["at"]), rel=0.05)
    expect(whole.locator(".cut")).to_have_count(1)
    expect(whole.locator(".decided")).to_have_count(1)
    expect(shell).to_be_attached()
    rows = visitor.page.locator("table").first.locator("tbody tr")
    expect(rows.filter(has_text="interrupted: a gateway interruption")).to_have_count(1)
    assert rows.count() == 1 + 2 + len(life["steps"]) + len(life["calls"]) + 2 + 1


def _width(bar: Locator) -> float:
    return float(bar.get_attribute("width") or 0)


def confirms(visitor: Visitor, button: Locator, answer: str = "Enter") -> None:
    """Press a button by keyboard; a question comes, and is answered by keyboard too."""
    button.focus()
    visitor.page.keyboard.press("Enter")
    expect(visitor.page.get_by_role("dialog")).to_be_visible()
    visitor.page.keyboard.press(answer)
    expect(visitor.page.get_by_role("dialog")).to_be_hidden()


def need(visitor: Visitor, text: str) -> Locator:
    return visitor.page.locator(".need").filter(has_text=text)


def test_acts_are_done_by_keyboard_once_they_are_confirmed(visitor: Visitor, busy: BusyGateway) -> None:
    """Nothing happens when the question is left with Escape; what was done vanishes from what needs somebody."""
    choosing = Person(busy.process, "choosing")
    choosing.say("ask: Tea? | Green | Black\nsay: It is drawing.")
    choosing.wait_for_replies(1)
    visitor.open("/console")
    expect(need(visitor, "telegram is not connected")).to_be_visible()
    assert len(busy.operator.get("/overview")["attention"]) == visitor.page.locator(".need").count()
    unknown = need(visitor, texts.console.REPLY_UNKNOWN)
    confirms(visitor, unknown.get_by_role("button", name=re.compile("^Drop")), "Escape")
    assert busy.operator.get("/status")["counts"]["unknown"] == 1
    for text, name, said in (
        (texts.console.APPROVAL_WAITS, "Deny", "The call is denied."),
        (texts.console.SESSION_SUSPENDED, "Resume", "Done."),
        (texts.console.REPLY_UNKNOWN, "Resend", "It is sent again as"),
        ("Tea?", "Green", "Done."),
        (texts.console.QUESTION_WAITS, "Stop", "Done."),
        (texts.console.TURN_INTERRUPTED, "Drop", "Done."),
    ):
        confirms(visitor, need(visitor, text).get_by_role("button", name=re.compile(f"^{name}")))
        expect(visitor.page.get_by_role("status")).to_contain_text(said)
        expect(need(visitor, text)).to_have_count(0)
    counts = busy.operator.get("/status")["counts"]
    assert [counts[name] for name in ("unknown", "suspended", "interrupted", "waiting")] == [0, 0, 0, 0]
    assert counts["owed"] == 1, "what was sent again waits for its platform"
    assert "denied" in Person(busy.process, "danger").wait_for_replies(2)[-1]
    assert choosing.wait_for_replies(2)[-1] == "It is drawing."


def test_b100_stranger_is_let_in_with_the_code_that_they_were_told(visitor: Visitor, busy: BusyGateway) -> None:
    page = visitor.open("/console/people").page
    expect(page.locator("#people")).to_contain_text("Bob")
    page.get_by_label("Code").fill("AAAA-AAAA")
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.get_by_role("status")).to_contain_text("nobody was told that code")
    assert [said for said in visitor.complaints if "404" not in said] == []
    visitor.complaints.clear()  # the browser itself tells of the answer that we wanted
    page.get_by_label("Code").fill(busy.pairing_code)
    confirms(visitor, page.get_by_role("button", name="Pair"))
    expect(page.get_by_role("status")).to_contain_text("is now a member")
    expect(page.locator("#people")).to_contain_text("Nobody asks to be let in.")
    confirms(visitor, page.get_by_role("button", name="Remove"))
    expect(page.get_by_role("status")).to_contain_text("is removed")


def test_output_of_a_process_grows_on_its_page_and_its_end_is_seen(visitor: Visitor, busy: BusyGateway) -> None:
    visitor.open("/console/processes").page.get_by_role("link", name="echo begun").click()
    output = visitor.page.get_by_role("log")
    expect(output).to_have_text("begun\n")
    busy.job_pipe.write_text("<b>and ended</b>\n")
    expect(output).to_have_text("begun\n<b>and ended</b>\n")
    expect(visitor.page.locator("#process-state")).to_have_text("ended")
    expect(visitor.page.locator("#process-code")).to_have_text("code 0")


def test_page_stays_fresh_and_whoever_uses_it_is_not_disturbed(browser: Browser, tmp_path: Path) -> None:
    with gateway(tmp_path / "home") as process, open_visitor(browser, process) as visitor:
        page = visitor.log_in().open("/console").page
        expect(page.locator("#live")).to_contain_text(texts.console.NOTHING_WAITS)
        figure = page.get_by_role("link", name="Wait for a person")
        figure.focus()
        Person(process, "<i>chat").say("ask: Which way? | Left | Right")
        expect(figure).to_contain_text("1")
        expect(need(visitor, texts.console.QUESTION_WAITS)).to_contain_text("Which way?")
        expect(figure).to_be_focused()
        page.keyboard.press("Enter")
        expect(page).to_have_url(re.compile("turn=waiting$"))
        expect(page.get_by_role("group", name="Sessions")).to_contain_text("web · <i>chat")
        visitor.open("/console/outbox?state=unknown")
        expect(page.locator("main")).to_contain_text("No reply is unknown.")


def test_press_leads_to_the_row_that_was_pressed_when_the_page_is_refreshed_meanwhile(
    browser: Browser, tmp_path: Path
) -> None:
    """New sessions come on top: rows keep their place under a pressed pointer, and their focus anywhere."""
    with gateway(tmp_path / "home") as process, open_visitor(browser, process) as visitor:
        Person(process, "old").say("say: one")
        Person(process, "old").wait_for_replies(1)
        page = visitor.log_in().open("/console/sessions").page
        row = page.get_by_role("link", name="web · old")
        wanted = row.get_attribute("href") or ""
        row.focus()
        Person(process, "new").say("say: two")
        expect(page.locator("tbody tr").first).to_contain_text("web · new")
        expect(row).to_be_focused()
        row.hover()
        page.mouse.down()
        Person(process, "newer").say("say: three")
        Person(process, "newer").wait_for_replies(1)
        for _ in range(2):  # the first one may have been asked for before
            page.wait_for_event("response", lambda response: response.url.endswith("/console/sessions"))
        page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
        page.mouse.up()
        expect(page).to_have_url(f"{process.url}{wanted}")


def test_page_says_that_it_is_old_when_the_gateway_is_gone_and_leads_to_the_login(
    browser: Browser, tmp_path: Path
) -> None:
    with gateway(tmp_path / "home") as process, open_visitor(browser, process) as visitor:
        page = visitor.log_in().open("/console").page
        process.kill()
        expect(page.locator("#stale")).to_contain_text("The gateway does not answer. What you see is from")
        process.start()
        expect(page.locator("#stale")).to_be_hidden()
        page.context.clear_cookies()
        expect(page).to_have_url(f"{process.url}/login")


def test_json_beside_a_page_begins_where_the_page_does(visitor: Visitor, busy: BusyGateway) -> None:
    for path, after in (
        ("decisions", "1.s_0.1"),
        ("processes", "p_z"),
        (f"sessions/{busy.session('work')}", "t_z"),
        ("people", "telegram:1"),
        ("outbox", "out_z"),
    ):
        visitor.open(f"/console/{path}?after={after}")
        link = visitor.page.get_by_role("link", name="JSON").get_attribute("href") or ""
        assert re.search(f"[?&]after={quote(after, safe='')}(&|$)", link), link
        assert visitor.page.request.get(f"{busy.process.url}{link}").ok, link


def test_tab_of_the_page_is_in_sight_on_a_phone(browser: Browser, busy: BusyGateway) -> None:
    with open_visitor(browser, busy.process, viewport=PHONE) as visitor:
        page = visitor.log_in().open("/console/config").page
        expect(page.get_by_role("link", name="Configuration")).to_be_in_viewport(ratio=0.9)


def test_b53_console_says_that_automatic_resume_is_paused_and_a_button_lifts_it(
    browser: Browser, tmp_path: Path
) -> None:
    with gateway(tmp_path / "home", RECOVERY__MAX_WITHOUT_PROGRESS="9") as process:
        Person(process).say("step long 1000s\nsay: done")
        for run in range(3):
            wait_for(f"run {run} works", lambda: _runs(process.home))
            (process.home / "rehearsal.log").unlink()
            process.kill()
            process.start()
        with open_visitor(browser, process) as visitor:
            page = visitor.log_in().open("/console").page
            expect(need(visitor, texts.recovery.RESUME_PAUSED)).to_be_visible()
            confirms(visitor, page.get_by_role("button", name="Let everything go on"))
            expect(page.get_by_role("status")).to_contain_text("Done.")
            expect(need(visitor, texts.recovery.RESUME_PAUSED)).to_have_count(0)
            expect(page.get_by_role("link", name="Running")).to_contain_text("1")


def _runs(home: Path) -> bool:
    log = home / "rehearsal.log"
    return log.exists() and bool(log.read_text())
