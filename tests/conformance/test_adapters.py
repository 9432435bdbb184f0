"""Every adapter that comes with Perdure, put to the public suite.

Drives `testing/adapter_conformance` and `platforms/telegram`.

B41, B67, B70, B71, B72, B73, B74, B75, B76, B79 and B103 hold for each, as far as its platform claims.
"""

from __future__ import annotations

from pathlib import Path

from perdure.platforms.api import Capabilities
from perdure.testing import AdapterConformance, PlatformStage
from support.platform_stages import SimulatedStage, TelegramStage
from support.webhook_stage import WebhookStage


class TestRichPlatform(AdapterConformance):
    """One that can do everything."""

    def stage(self, folder: Path) -> PlatformStage:
        return SimulatedStage(
            Capabilities(
                idempotent_send=True,
                read_back=True,
                keeps_missed=True,
                threads=True,
                buttons=True,
                edit=True,
                typing_every=4.0,
                files=True,
                max_file=3_000_000,
                max_length=500,
            )
        )


class TestPlatformWithReadBack(AdapterConformance):
    def stage(self, folder: Path) -> PlatformStage:
        return SimulatedStage(Capabilities(read_back=True, live=True))


class TestPoorPlatform(AdapterConformance):
    """One that can do nothing."""

    def stage(self, folder: Path) -> PlatformStage:
        return SimulatedStage(Capabilities())


class TestPlatformThatPosts(AdapterConformance):
    """One that posts to us by itself."""

    def stage(self, folder: Path) -> PlatformStage:
        return WebhookStage(Capabilities(keeps_missed=True, typing_every=4.0, files=True))


class TestTelegram(AdapterConformance):
    def stage(self, folder: Path) -> PlatformStage:
        return TelegramStage()


class TestTelegramThatPosts(AdapterConformance):
    def stage(self, folder: Path) -> PlatformStage:
        return TelegramStage(posts=True)
