"""The system's chromium, driven by Playwright, and a visitor of the gateway's pages."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Locator,
    Page,
    ViewportSize,
    expect,
    sync_playwright,
)

from support.gateway import GatewayProcess
from support.waiting import DEADLINE_FACTOR

SCREENSHOTS = "PERDURE_SCREENSHOTS"  # a folder for screenshots
NETWORK_ERROR_PREFIX = "Failed to load resource: net::ERR_"  # the browser reports it while the gateway is down
DESKTOP: ViewportSize = {"width": 1280, "height": 800}
PHONE: ViewportSize = {"width": 320, "height": 640}

expect.set_options(timeout=30_000 * DEADLINE_FACTOR)


@contextmanager
def chromium() -> Iterator[Browser]:
    """Run a browser until the end of the block.

    Not for a whole session: Playwright's event loop would disturb the tests that have one of their own.
    """
    path = shutil.which("chromium")
    assert path is not None, "chromium is missing; `make test` installs it, or says how"
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []  # chromium refuses a sandbox for root
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=[*sandbox, "--disable-dev-shm-usage"])
        try:
            yield browser
        finally:
            browser.close()


class Visitor:
    """A visitor of the pages, who records all errors of the browser."""

    def __init__(self, context: BrowserContext, gateway: GatewayProcess) -> None:
        self.gateway = gateway
        self.page: Page = context.new_page()
        self.page.set_default_timeout(30_000 * DEADLINE_FACTOR)
        self.complaints: list[str] = []
        self.page.on("console", self._record_complaint)
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on("dialog", lambda dialog: self.complaints.append(f"dialog: {dialog.message}"))

    def _record_complaint(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning") and not message.text.startswith(NETWORK_ERROR_PREFIX):
            self.complaints.append(message.text)

    def log_in(self) -> Visitor:
        """Log in by the link that the gateway printed."""
        self.page.goto(f"{self.gateway.url}/login?token={self.gateway.token}")
        return self.expect_connected()

    def open(self, path: str) -> Visitor:
        self.page.goto(f"{self.gateway.url}{path}")
        return self

    def expect_connected(self) -> Visitor:
        expect(self.page.locator("#presence")).to_have_text("Connected")
        return self

    def say(self, text: str) -> None:
        self.page.get_by_label("Message", exact=True).fill(text)
        self.page.keyboard.press("Enter")

    def new_chat(self) -> None:
        self.page.get_by_role("link", name="New chat").click()
        expect(self.page.locator("#welcome")).to_be_visible()

    @property
    def turn(self) -> Locator:
        """Return the newest turn on the page."""
        return self.page.locator(".turn").last

    def step(self, call: str) -> Locator:
        return self.turn.locator(f"[data-call='{call}']")

    def expect_interrupted_step(self, call: str) -> None:
        """Expect that the step is interrupted and that nothing on the page claims to run."""
        expect(self.step(call)).to_have_attribute("data-state", "cut")
        expect(self.step(call)).to_contain_text("interrupted")
        expect(self.page.locator(".talk .badge.busy")).to_have_count(0)
        expect(self.page.locator(".talk [data-state=running][data-call]")).to_have_count(0)

    def expect_answer(self, text: str) -> None:
        expect(self.turn.locator(".said:not(.growing)")).to_have_text(text)

    def kill(self) -> None:
        """Press the kill button, and expect the page to report the death and the return of the gateway."""
        self.page.get_by_role("button", name="Kill the gateway").click()
        expect(self.page.locator("#banner")).to_contain_text(re.compile("The gateway is (dead|back after)"))

    def expect_gateway_back(self) -> None:
        expect(self.page.locator("#banner[data-state=back]")).to_be_attached()
        self.expect_connected()

    def fits_width(self) -> bool:
        """Tell whether the page fits the width of the window."""
        wide: bool = self.page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        return wide

    def accessibility_violations(self) -> list[str]:
        """Return the accessibility violations that axe finds."""
        found: dict[str, Any] = Axe().run(self.page).response
        return [
            f"{rule['id']}: {node['html'][:200]} {node['failureSummary']}"
            for rule in found["violations"]
            for node in rule["nodes"]
        ]

    def save_screenshot(self, name: str, folder: Path) -> None:
        """Save a screenshot to the folder that the environment names, or to the folder of the test."""
        wanted = Path(os.environ.get(SCREENSHOTS) or folder)
        self.page.screenshot(path=wanted / f"{name}.png", animations="disabled")


@contextmanager
def open_visitor(browser: Browser, gateway: GatewayProcess, **options: Any) -> Iterator[Visitor]:
    """Open a fresh browser profile; at the end, check that the browser reported no error."""
    context = browser.new_context(**{"viewport": DESKTOP, "locale": "en-GB", "reduced_motion": "reduce"} | options)
    try:
        visitor = Visitor(context, gateway)
        yield visitor
        assert visitor.complaints == []
    finally:
        context.close()
