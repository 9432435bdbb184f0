"""The platforms that the configuration asks for."""

from __future__ import annotations

from perdure.config import Settings
from perdure.platforms.api import Adapter
from perdure.platforms.web import WebAdapter


def configured_adapters(settings: Settings) -> list[Adapter]:
    """An adapter for each platform in use. One that is not costs nothing, not even its import."""
    adapters: list[Adapter] = [WebAdapter()]
    telegram = settings.platforms.telegram
    if telegram.enabled and telegram.token is not None:
        from perdure.platforms.telegram import TelegramAdapter

        adapter = TelegramAdapter(telegram.token, telegram.base_url, telegram.webhook, grows=telegram.stream)
        adapters.append(adapter)
    return [*adapters, *_plugin_adapters(settings)]


def _plugin_adapters(settings: Settings) -> list[Adapter]:
    """Those that other packages bring. No code of theirs is loaded unless the configuration names them."""
    enabled = {name: there for name, there in settings.plugged.items() if there.enabled}
    if not enabled:
        return []
    from perdure.runtime.plugin_platforms import make_plugin_adapter

    return [make_plugin_adapter(name, there, settings.home) for name, there in enabled.items()]
