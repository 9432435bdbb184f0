"""Trouble with a model's provider on the chat page: people see which try it is, and when the next one comes.

Drives `web/api/events` and `web/static`.
"""

from __future__ import annotations

from pathlib import Path

from playwright.sync_api import Browser, expect

from perdure.testing.providers import Fails, LocalProvider, Says
from support.browser import open_visitor
from support.gateway import gateway


def test_b88_failed_try_is_shown_while_it_lasts_and_after_a_reload(browser: Browser, tmp_path: Path) -> None:
    with LocalProvider([Fails(429, retry_after=50, message="Slow down.")]) as provider:
        settings = {"MODEL__NAME": "openai:local", "MODEL__BASE_URL": provider.openai_url}
        with (
            gateway(tmp_path / "home", MODEL__API_KEY=provider.key, **settings) as process,
            open_visitor(browser, process) as visitor,
        ):
            visitor.log_in().say("hello")
            for _ in ("as it happens", "as it is read again"):
                expect(visitor.turn).to_contain_text("Try 1 failed: HTTP 429: Slow down. Next try in 50 s.")
                expect(visitor.turn.locator("header")).to_contain_text("Trouble with the model: next try at")
                visitor.page.reload()
            assert visitor.accessibility_violations() == []
            provider.script = [Says("At last.")]
            process.kill()
            process.start()
            visitor.expect_answer("At last.")
            expect(visitor.turn.locator("summary").first).to_contain_text("1 failed call")
            expect(visitor.turn.locator("header")).not_to_contain_text("Trouble")
