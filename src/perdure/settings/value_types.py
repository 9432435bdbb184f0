"""The types of settings' values, and how messages describe them."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

# A hundred years: long enough to mean "never", short enough that no clock overflows when it is added.
MAX_DURATION_SECONDS = 36500 * 86400.0

DURATION_EXPECTED = (
    'a duration from 0 to 36500d, such as "500ms", "20s", "15m" or "24h" (a bare number is seconds)'
)
HOST_EXPECTED = "a host name or an IP address without a port"
NAME_EXPECTED = 'a name of 1 to 64 letters, digits, "-" or "_"'
MODEL_EXPECTED = '"offline", or a provider and its model, such as "openai:gpt-5" or "anthropic:claude-sonnet-5"'
OBJECT_EXPECTED = 'an object in a Python module, written "module:object"'
TOOLS_BY_ROLE_EXPECTED = "a table of `owner`, `member` and `guest`, or some of them, each a list of names of tools"
URL_EXPECTED = "a URL that begins with http:// or https://"
DATABASE_URL_PATTERN = r"\A(sqlite:///(?!:memory:)[^?\x00-\x1f]*[^?/\x00-\x1f]|postgresql://\S+)\Z"

PositiveCount = Annotated[int, Meta(ge=1, le=1_000_000_000)]
Duration = Annotated[float, Meta(ge=0, le=MAX_DURATION_SECONDS, extra={"expected": DURATION_EXPECTED})]
LeaseLength = Annotated[float, Meta(ge=1, le=3600, extra={"expected": 'a duration from 1s to 1h, such as "30s"'})]
PollInterval = Annotated[float, Meta(ge=1, le=3600, extra={"expected": 'a duration from 1s to 1h, such as "5s"'})]
DatabaseUrl = Annotated[str, Meta(pattern=DATABASE_URL_PATTERN)]
Host = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9._:%-]+\Z", extra={"expected": HOST_EXPECTED})]
Name = Annotated[str, Meta(pattern=r"\A[A-Za-z0-9_-]{1,64}\Z", extra={"expected": NAME_EXPECTED})]
NonEmptyText = Annotated[str, Meta(min_length=1)]
ModelName = Annotated[
    str, Meta(pattern=r"\A(offline|[a-z0-9/-]+:[^\s:][^\s]*)\Z", extra={"expected": MODEL_EXPECTED})
]
ObjectPath = Annotated[
    str, Meta(pattern=r"\A[A-Za-z_][\w.]*:[A-Za-z_][\w.]*\Z", extra={"expected": OBJECT_EXPECTED})
]
Url = Annotated[str, Meta(pattern=r"\Ahttps?://[^\s/]+\S*\Z", extra={"expected": URL_EXPECTED})]
TimeOfDay = Annotated[
    str,
    Meta(pattern=r"\A([01][0-9]|2[0-3]):[0-5][0-9]\Z", extra={"expected": 'a time of the day, such as "04:00"'}),
]
Secret = Annotated[str, Meta(min_length=1, extra={"secret": True})]
