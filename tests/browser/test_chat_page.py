"""The chat page in a real browser, while its gateway lives.

Drives `web/pages/rendering`, `web/static/chat.js` and `web/static/composer.js`.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import httpx
import pytest
from playwright.sync_api import Browser, FilePayload, expect

from perdure.config import load_settings
from perdure.web.api.gateway import uses_only_offline_model
from perdure.web.auth.token import ensure_token
from support.browser import PHONE, Visitor, open_visitor
from support.gateway import GatewayProcess, Person, gateway

EVERYWHERE = "0.0.0.0"  # noqa: S104 reason: a gateway that others may reach
DOT = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
HOSTILE = [
    "<img src=x onerror=window.broken=1>",
    "<script>window.broken=1</script>",
    "[click](javascript:window.broken=1)",
    "**<b onmouseover=window.broken=1>bold</b>**",
    "| <svg onload=window.broken=1> | b |\n|---|---|\n| `<i>` | [x](data:text/html,<script>broken</script>) |",
    'https://example.org/"onmouseover="window.broken=1',
]


@pytest.fixture(scope="module")
def process(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GatewayProcess]:
    with gateway(tmp_path_factory.mktemp("page") / "home") as process:
        yield process


@pytest.fixture
def visitor(browser: Browser, process: GatewayProcess) -> Iterator[Visitor]:
    with open_visitor(browser, process) as visitor:
        yield visitor.log_in()


def test_printed_link_leads_to_the_chat_page_with_examples(visitor: Visitor) -> None:
    """The address keeps no token; one click sends a script, and the chat shows what was sent."""
    page = visitor.page
    assert page.url == f"{visitor.gateway.url}/"
    expect(page.get_by_role("button", name="A question")).to_be_visible()
    assert visitor.accessibility_violations() == []
    page.get_by_role("button", name="A question").click()
    expect(page.get_by_role("article", name="You")).to_contain_text("ask: Which way shall we go? | Left | Right")
    expect(page).to_have_url(re.compile("/chats/.+"))
    expect(page.locator("#chats [aria-current=page]")).to_contain_text("ask: Which way")
    expect(page).to_have_title(re.compile("^ask: Which way.* · Perdure$"))
    page.get_by_role("button", name="Right").click()
    expect(visitor.turn).to_contain_text("Answered: Right")
    visitor.expect_answer("Thank you, off we go.")
    page.reload()
    expect(visitor.turn).to_contain_text("Answered: Right")
    expect(page.get_by_role("button", name="Right")).to_have_count(0)
    visitor.expect_answer("Thank you, off we go.")


def test_b76_answer_grows_and_its_message_takes_the_place_of_the_preview(visitor: Visitor) -> None:
    visitor.say("stream: one two three four five six seven eight")
    expect(visitor.turn.locator(".growing")).to_contain_text("one two")
    visitor.expect_answer("one two three four five six seven eight")
    expect(visitor.turn.locator(".growing")).to_be_hidden()


def test_steps_show_their_state_and_their_result_on_demand(visitor: Visitor) -> None:
    visitor.say("step look 0s\nrun: echo found it\nrun: exit 3\nparallel: a, b\nsay: all done")
    visitor.expect_answer("all done")
    work = visitor.turn.locator(".work > summary")
    expect(work).to_contain_text("5 steps")
    work.click()
    expect(visitor.step("c1.1")).to_contain_text("look")
    expect(visitor.step("c1.1")).to_contain_text("ran once")
    expect(visitor.step("c2.1").locator("pre")).to_be_hidden()
    visitor.step("c2.1").locator("summary").click()
    expect(visitor.step("c2.1").locator("pre")).to_contain_text("found it")
    assert [visitor.step(call).get_attribute("data-state") for call in ("c1.1", "c4.1", "c4.2")] == ["ok"] * 3
    assert visitor.accessibility_violations() == []


def test_dangerous_command_runs_when_it_is_approved_and_only_then(visitor: Visitor) -> None:
    visitor.say("danger: echo it ran")
    visitor.page.get_by_role("button", name="Deny").click()
    expect(visitor.turn).to_contain_text("Denied")
    expect(visitor.step("c1.1")).to_have_attribute("data-state", "error")
    visitor.say("danger: echo it ran")
    visitor.page.get_by_role("button", name="Approve").click()
    expect(visitor.step("c1.1")).to_have_attribute("data-state", "ok")
    expect(visitor.turn).to_contain_text("Approved")


def test_question_is_shown_as_answered_when_somebody_else_was_faster(visitor: Visitor) -> None:
    visitor.say("ask: Which way? | Left | Right\nsay: ok")
    expect(visitor.page.get_by_role("button", name="Left")).to_be_enabled()
    Person(visitor.gateway, visitor.page.url.rpartition("/")[2]).say("Left")
    expect(visitor.page.get_by_label("The agent asks")).to_contain_text("Answered: Left")
    visitor.expect_answer("ok")


def test_turn_ends_when_stop_is_pressed(visitor: Visitor) -> None:
    visitor.say("step endless 600s")
    expect(visitor.step("c1.1")).to_have_attribute("data-state", "running")
    visitor.page.get_by_role("button", name="Stop").click()
    expect(visitor.step("c1.1")).to_have_attribute("data-state", "cancelled")
    expect(visitor.page.get_by_role("article", name="Gateway")).to_contain_text("Stopped.")
    expect(visitor.page.get_by_role("button", name="Stop")).to_be_hidden()


def test_what_people_and_models_say_stays_text(visitor: Visitor) -> None:
    """Neither the messages nor their title nor the name of a chat become part of the page."""
    page, said = visitor.page, "\n\n".join(HOSTILE)
    visitor.open(f"/chats/{quote('<img src=x onerror=window.broken=1>', safe='')}").expect_connected()
    visitor.say(HOSTILE[0])  # the offline model greets; its words come back below
    expect(visitor.turn.locator(".said")).to_contain_text(["offline model", ""])
    expect(page.locator("#chats")).to_contain_text(HOSTILE[0])
    for text in HOSTILE:
        visitor.say(f"say: {text.partition(chr(10))[0]}")
    visitor.say("run: cat <<'END'\n" + said.replace("\n", "\\n") + "\nEND")
    expect(page.locator(".mine")).to_have_count(2 + len(HOSTILE))
    expect(page.locator(".turn[data-state=finished]")).to_have_count(2 + len(HOSTILE))
    shown = page.evaluate(
        "async (text) => { const { renderMarkdown } = await import('/static/markdown.js');"
        " const box = document.createElement('div'); box.append(renderMarkdown(text)); document.body.append(box);"
        " return [...box.querySelectorAll('*')].map(e => e.tagName + [...e.attributes].map(a => ' ' + a.name)) }",
        said,
    )
    assert {tag.split()[0] for tag in shown}.isdisjoint({"IMG", "SCRIPT", "SVG", "B", "I"})
    assert all("on" not in name for tag in shown for name in tag.split()[1:])
    assert page.locator("#log :is(img, script, svg, [onerror], [href^=javascript], [href^=data])").count() == 0
    assert page.evaluate("window.broken") is None


MARKDOWN = {
    "a **bold** and *soft* `code`": "<p>a <strong>bold</strong> and <em>soft</em> <code>code</code></p>",
    "# One\ntwo": "<h3>One</h3><p>two</p>",
    "- a\n- b\n  - c": "<ul><li>a</li><li>b<ul><li>c</li></ul></li></ul>",
    "3. c\n4. d": '<ol start="3"><li>c</li><li>d</li></ol>',
    "> said\n> so": "<blockquote><p>said<br>so</p></blockquote>",
    "```py\n<b> **x**\n```": '<pre tabindex="0"><code>&lt;b&gt; **x**</code></pre>',
    "snake_case_name and 2 * 3 * 4": "<p>snake_case_name and 2 * 3 * 4</p>",
    "[x](ftp://a)": "<p>[x](ftp://a)</p>",
    "```\nnever closed": '<pre tabindex="0"><code>never closed</code></pre>',
    "> " * 40 + "deep": None,
    "[" * 40_000: None,
    "**a" * 4000: None,
    "# a" + " " * 200_000 + "b": None,
    "a | b\n" + "-" * 200_000 + "x": None,
}


def test_markdown_becomes_elements_and_nothing_is_too_much_for_it(visitor: Visitor) -> None:
    made = visitor.page.evaluate(
        "async (texts) => { const { renderMarkdown } = await import('/static/markdown.js');"
        " return texts.map(text => { const box = document.createElement('div'); box.append(renderMarkdown(text));"
        " return box.innerHTML }) }",
        list(MARKDOWN),
    )
    for (text, expected), html in zip(MARKDOWN.items(), made, strict=True):
        assert html == expected if expected is not None else html, text


def test_files_are_sent_along_and_can_be_had_again(visitor: Visitor) -> None:
    """A picture is shown, anything else is a link; a file that was removed is not sent."""
    page = visitor.page
    chosen = [
        ("notes.txt", "text/plain", b"Buy tea."),
        ("dot.png", "image/png", DOT),
        ("wrong.txt", "text/plain", b"x"),
    ]
    given: list[FilePayload] = [{"name": name, "mimeType": kind, "buffer": body} for name, kind, body in chosen]
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Attach files").click()
    chooser.value.set_files(given)
    expect(page.locator("#attached")).to_contain_text("8 B")
    page.get_by_role("button", name="Remove wrong.txt").click()
    visitor.say("say: Thank you.")
    visitor.expect_answer("Thank you.")
    for _ in ("as it was sent", "as it is read again"):
        mine = page.get_by_role("article", name="You")
        expect(mine.get_by_role("link")).to_have_text(["notes.txt", "dot.png"])
        expect(mine.locator("img")).to_have_js_property("naturalWidth", 1)
        with page.expect_download() as download:
            mine.get_by_role("link", name="notes.txt").click()
        assert download.value.suggested_filename == "notes.txt"
        assert download.value.path().read_bytes() == b"Buy tea."
        page.reload()
    assert visitor.accessibility_violations() == []


def test_links_open_elsewhere_and_tell_nothing_of_us(visitor: Visitor) -> None:
    visitor.say("say: see [the page](https://example.org/a_(b)) or https://example.org/c.")
    expect(visitor.turn.get_by_role("link")).to_have_count(2)
    for link, target in zip(visitor.turn.get_by_role("link").all(), ("a_(b)", "c"), strict=True):
        assert link.get_attribute("href") == f"https://example.org/{target}"
        assert link.get_attribute("rel") == "noopener noreferrer"


def test_page_is_used_by_keyboard_alone(visitor: Visitor) -> None:
    page, keys = visitor.page, visitor.page.keyboard
    expect(page.locator("#words")).to_be_focused()
    keys.type("first line")
    keys.press("Shift+Enter")
    keys.type("second line")
    keys.press("Enter")
    expect(page.get_by_role("article", name="You")).to_have_text("first line\nsecond line")
    keys.type("/he")
    expect(page.get_by_role("option", selected=True)).to_contain_text("/help")
    keys.press("Escape")
    expect(page.locator("#commands")).to_be_hidden()
    keys.type("l")
    keys.press("Tab")
    expect(page.locator("#words")).to_have_value("/help")
    keys.press("Enter")
    expect(page.get_by_role("article", name="Gateway")).to_contain_text("/whoami")
    keys.type("ask: Which way? | Left | Right\n")
    right = page.get_by_role("button", name="Right")
    expect(right).to_be_visible()
    for _ in range(30):
        keys.press("Shift+Tab")
        if right.evaluate("button => button === document.activeElement"):
            break
    expect(right).to_be_focused()
    assert right.evaluate("button => getComputedStyle(button).outlineStyle") == "solid"
    keys.press("Enter")
    expect(visitor.turn).to_contain_text("Answered: Right")
    expect(page.locator("#words")).to_be_focused()


def test_everything_fits_on_a_narrow_phone(browser: Browser, process: GatewayProcess) -> None:
    with open_visitor(browser, process, viewport=PHONE) as visitor:
        page = visitor.log_in().page
        assert visitor.fits_width()
        visitor.say(
            "step a-step-with-a-rather-long-name 0s\nrun: echo one; echo two\nask: Which way? | Left | Right"
        )
        expect(page.get_by_role("button", name="Right")).to_be_in_viewport()
        assert visitor.fits_width()
        assert visitor.accessibility_violations() == []
        conversations = page.get_by_role("button", name="Conversations")
        conversations.click()
        expect(page.get_by_role("link", name="New chat")).to_be_focused()
        expect(page.locator("#main")).to_have_js_property("inert", True)
        assert visitor.accessibility_violations() == []
        page.keyboard.press("Escape")
        expect(conversations).to_be_focused()
        expect(page.get_by_role("link", name="New chat")).to_be_hidden()


def test_dark_is_what_the_system_says_until_somebody_chooses(browser: Browser, process: GatewayProcess) -> None:
    with open_visitor(browser, process, color_scheme="dark") as visitor:
        page = visitor.log_in().page
        visitor.say("step research 0s\nrun: echo 42\nask: May I go on? | Yes | No")
        expect(page.get_by_role("button", name="Yes")).to_be_visible()
        assert visitor.accessibility_violations() == []
        page.get_by_role("button", name="Switch to the light theme").click()
        page.reload()
        expect(page.locator("html")).to_have_attribute("data-theme", "light")
        page.get_by_role("button", name="Switch to the dark theme").click()
        expect(page.locator("html")).to_have_attribute("data-theme", "dark")


def test_login_page_lets_everybody_in_who_has_the_token(browser: Browser, process: GatewayProcess) -> None:
    with open_visitor(browser, process) as visitor:
        page = visitor.open("/").page
        expect(page).to_have_url(f"{process.url}/login")
        assert visitor.accessibility_violations() == []
        page.keyboard.type(process.token)
        page.keyboard.press("Enter")
        visitor.expect_connected()
        page.get_by_role("button", name="Log out").click()
        expect(page).to_have_url(f"{process.url}/login")


def test_conversations_are_kept_apart_and_found_again(visitor: Visitor) -> None:
    page = visitor.page
    visitor.say("say: the first one")
    visitor.expect_answer("the first one")
    first = page.url
    visitor.new_chat()
    visitor.say("say: the second one")
    visitor.expect_answer("the second one")
    page.locator("#chats a", has_text="say: the first one").first.click()
    visitor.expect_answer("the first one")
    assert page.url == first
    page.go_back()
    visitor.expect_answer("the second one")


def test_tab_that_nobody_looks_at_lets_go_and_misses_nothing(visitor: Visitor) -> None:
    """Browsers open only six connections to one place: with a stream in each, a seventh tab would stay blank."""
    page = visitor.page
    visitor.say("say: seen")
    visitor.expect_answer("seen")
    look = "state => { Object.defineProperty(document, 'visibilityState', { value: state, configurable: true });"
    look += " document.dispatchEvent(new Event('visibilitychange')) }"
    with page.expect_event("requestfailed", lambda request: request.url.endswith("/events")):
        page.evaluate(look, "hidden")
    chat = Person(visitor.gateway, page.url.rpartition("/")[2])
    chat.say("say: unseen")
    chat.wait_for_replies(2)
    expect(page.locator(".turn")).to_have_count(1)
    page.evaluate(look, "visible")
    visitor.expect_answer("unseen")
    expect(page.locator("#banner")).to_be_hidden()


def test_page_says_why_when_a_chat_cannot_be(visitor: Visitor) -> None:
    visitor.open(f"/chats/{'x' * 201}")
    expect(visitor.page.locator(".notice")).to_contain_text("the name of the chat cannot be used")
    visitor.complaints.clear()  # the browser itself reports every 400


def test_files_of_the_page_are_kept_by_browsers_until_they_change(process: GatewayProcess) -> None:
    for name, kind in (("chat.js", "text/javascript"), ("perdure.css", "text/css"), ("icon.svg", "image/svg+xml")):
        given = httpx.get(f"{process.url}/static/{name}")
        assert given.headers["content-type"].startswith(kind)
        again = httpx.get(f"{process.url}/static/{name}", headers={"If-None-Match": given.headers["etag"]})
        assert (again.status_code, again.content) == (304, b"")


def test_demo_is_nowhere_when_others_may_reach_the_gateway(tmp_path: Path) -> None:
    """It cannot be killed over HTTP, and its page has no button for it."""
    ensure_token(tmp_path / "home")  # a gateway that others may reach does not start without one
    with gateway(tmp_path / "home", WEB__HOST=EVERYWHERE) as process:
        headers = {"Authorization": f"Bearer {process.token}"}
        assert httpx.post(f"{process.url}/api/demo/kill", headers=headers).status_code == 404
        assert httpx.get(f"{process.url}/api/demo/runs", headers=headers).status_code == 404
        shown = httpx.get(f"{process.url}/", headers=headers).text
        assert "Kill the gateway" not in shown
        assert 'id="examples"' not in shown


@pytest.mark.parametrize("name", ["MODEL__NAME", "PLATFORMS__WEB__MODEL", "AGENT__ENTRYPOINT"])
def test_demo_is_nowhere_when_something_real_answers(tmp_path: Path, name: str) -> None:
    assert uses_only_offline_model(load_settings(tmp_path, {}))
    assert not uses_only_offline_model(
        load_settings(tmp_path, {f"PERDURE_{name}": "openai:x", "PERDURE_MODEL__API_KEY": "k"})
    )
