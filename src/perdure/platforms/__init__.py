"""The contract of a chat platform, and the adapters that come with Perdure."""

from perdure.platforms.api import Adapter, Capabilities, Event, MenuEntry, WebhookResponse

__all__ = ["Adapter", "Capabilities", "Event", "MenuEntry", "WebhookResponse"]
