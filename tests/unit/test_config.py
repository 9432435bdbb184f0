"""The configuration: its defaults, where values come from, and how every mistake is told.

Drives `config` and `settings`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from perdure.config import SETTINGS_BY_KEY, Settings, load_settings, parse_duration
from perdure.core import texts
from perdure.errors import ConfigurationError
from perdure.settings import PlatformSettings

DEFAULTS = {
    "store.url": "sqlite:///<home>/perdure.db",
    "store.lease": "30s",
    "web.host": "127.0.0.1",
    "web.port": "8420",
    "web.names": "[]",
    "web.proxies": "[]",
    "web.max_connections": "2000",
    "web.request_timeout": "20s",
    "agent.name": "main",
    "agent.system_prompt": "a built-in text",
    "agent.max_steps": "90",
    "agent.max_tokens": "none",
    "agent.tools": '["*"]',
    "agent.entrypoint": "none",
    "model.name": "offline",
    "model.base_url": "none",
    "model.api_key": "none",
    "model.context": "what the model is known for, or 128000",
    "model.timeout": "10m",
    "model.silence": "2m",
    "tools.workspaces": "auto",
    "tools.directory": "<home>/workspace",
    "tools.load": "[]",
    "tools.mcp": "{}",
    "tools.env": '["PATH", "HOME", "LANG"]',
    "tools.approvals": "dangerous",
    "tools.ask": "[]",
    "tools.dangerous": "[]",
    "tools.safe": "[]",
    "tools.sandbox": "auto",
    "tools.sandbox_network": "web",
    "tools.sandbox_read": "[]",
    "tools.sandbox_write": "[]",
    "tools.sandbox_memory": "4000",
    "tools.sandbox_processes": "512",
    "tools.sandbox_file_size": "10000",
    "tools.approval_expires": "24h",
    "tools.by_role": '{ "owner" = ["*"], "member" = ["*"], "guest" = ["clarify"] }',
    "tools.private_addresses": "false",
    "tools.result_limit": "30000",
    "tools.timeout": "10m",
    "session.idle": "0s",
    "session.daily": "none",
    "session.groups": "shared",
    "turn.inactivity_warning": "15m",
    "turn.inactivity_limit": "30m",
    "notify.still_working": "3m",
    "goal.max_turns": "10",
    "background.at_once": "5",
    "queue.mode": "queue",
    "queue.cap": "100",
    "queue.quiet": "1500ms",
    "inbox.max_age": "24h",
    "inbox.max_file": "20",
    "attachments.max_total": "10000",
    "attachments.max_per_chat": "2000",
    "drain.deadline": "20s",
    "drain.teardown": "20s",
    "handover.wait": "1m",
    "recovery.policy": "auto",
    "recovery.freshness": "1h",
    "recovery.concurrency": "4",
    "recovery.max_without_progress": "3",
    "recovery.max_interruptions": "10",
    "recovery.max_tokens": "none",
    "delivery.unknown": "resend",
    "delivery.max_age": "24h",
    "retention.age": "none",
    "access.unknown": "pair",
    "platforms.web.enabled": "true",
    "platforms.web.allow": '["*"]',
    "platforms.web.allow_chats": "{}",
    "platforms.web.recovery": "none",
    "platforms.web.banner": "true",
    "platforms.web.model": "none",
    "platforms.web.system_prompt": "none",
    "platforms.web.tools": "none",
    "platforms.web.tools_by_role": "{}",
    "platforms.web.recovery_chats": "{}",
    "platforms.telegram.enabled": "true",
    "platforms.telegram.allow": "[]",
    "platforms.telegram.allow_chats": "{}",
    "platforms.telegram.recovery": "none",
    "platforms.telegram.banner": "true",
    "platforms.telegram.model": "none",
    "platforms.telegram.system_prompt": "none",
    "platforms.telegram.tools": "none",
    "platforms.telegram.tools_by_role": "{}",
    "platforms.telegram.recovery_chats": "{}",
    "platforms.telegram.token": "none",
    "platforms.telegram.webhook": "none",
    "platforms.telegram.stream": "true",
    "platforms.telegram.base_url": "https://api.telegram.org",
}


def configured(home: Path, toml: str | bytes, **environ: str) -> Settings:
    content = toml if isinstance(toml, bytes) else toml.encode()
    (home / "config.toml").write_bytes(content)
    return load_settings(home, environ)


def problems(home: Path, toml: str | bytes, **environ: str) -> list[str]:
    """The lines of the refusal, without its heading and numbers."""
    with pytest.raises(ConfigurationError) as caught:
        configured(home, toml, **environ)
    heading, *lines = str(caught.value).splitlines()
    count = "1 problem" if len(lines) == 1 else f"{len(lines)} problems"
    assert heading == f"The configuration has {count}; nothing was started:"
    assert [line.split(". ", 1)[0] for line in lines] == [f"  {n}" for n in range(1, len(lines) + 1)]
    return [line.split(". ", 1)[1] for line in lines]


def variable(key: str) -> str:
    return f"PERDURE_{key.upper().replace('.', '__')}"


# ── what holds without any mistake ──────────────────────────────────────────────────────────────────────────


def test_settings_are_the_defaults_when_there_is_no_file_and_no_home(tmp_path: Path) -> None:
    home = tmp_path / "not" / "made" / "yet"
    settings = load_settings(home, {})
    assert settings == Settings(home=home)
    assert settings.store_url == f"sqlite:///{home}/perdure.db"
    assert (settings.web.host, settings.web.port, settings.model.name) == ("127.0.0.1", 8420, "offline")
    assert (settings.drain.deadline, settings.recovery.freshness) == (20.0, 3600.0)
    assert (settings.delivery.max_age, settings.delivery.unknown) == (86400.0, "resend")
    assert settings.recovery.max_tokens is None
    assert settings.platforms.web == PlatformSettings(enabled=True, allow=["*"], recovery=None, banner=True)
    assert settings.agent.system_prompt == texts.agents.SYSTEM_PROMPT
    assert not home.exists()


def test_described_settings_are_those_of_the_contract() -> None:
    assert {key: setting.default for key, setting in SETTINGS_BY_KEY.items()} == DEFAULTS


def test_every_setting_has_a_type_and_a_sentence_in_words() -> None:
    for key, setting in SETTINGS_BY_KEY.items():
        assert setting.expected, key
        assert setting.description.endswith("."), key


def test_every_described_default_is_accepted_when_it_is_written_down(tmp_path: Path) -> None:
    in_words = ("store.url", "agent.system_prompt", "model.context", "tools.directory")
    written = {key: each for key, each in DEFAULTS.items() if key not in in_words and each != "none"}
    as_in_the_file = [f"{key} = {value}\n" for key, value in written.items() if value[0] in "[{"]
    environ = {variable(key): value for key, value in written.items() if value[0] not in "[{"}
    assert configured(tmp_path, "".join(as_in_the_file), **environ) == Settings(home=tmp_path)


def test_file_is_read_when_it_stands_in_the_home_of_the_environment(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("[web]\nport = 0\n[recovery]\nmax_tokens = 5\npolicy = 'off'\n")
    settings = load_settings(environ={"PERDURE_HOME": str(tmp_path)})
    assert settings.home == tmp_path
    assert settings.web.port == 0
    assert (settings.recovery.max_tokens, settings.recovery.policy) == (5, "off")
    assert settings.recovery.concurrency == 4


@pytest.mark.parametrize("chosen", [{}, {"PERDURE_HOME": ""}], ids=["unset", "empty"])
def test_home_is_in_the_users_directory_when_none_is_named(
    chosen: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    assert load_settings(environ=chosen).home == tmp_path / ".perdure"


def test_home_becomes_absolute_when_it_is_relative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    settings = load_settings(environ={"PERDURE_HOME": "here"})
    assert settings.home == tmp_path / "here"
    assert settings.store_url == f"sqlite:///{tmp_path}/here/perdure.db"


def test_process_environment_is_read_when_none_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERDURE_HOME", str(tmp_path))
    monkeypatch.setenv("PERDURE_RECOVERY__CONCURRENCY", "7")
    assert load_settings().recovery.concurrency == 7


def test_environment_wins_when_the_file_says_otherwise(tmp_path: Path) -> None:
    toml = "[web]\nport = 1111\nhost = '::1'\n"
    settings = configured(tmp_path, toml, PERDURE_WEB__PORT="2222")
    assert (settings.web.port, settings.web.host) == (2222, "::1")


def test_environment_is_parsed_by_the_type_of_its_setting(tmp_path: Path) -> None:
    environ = {
        "perdure_web__Port": " 0 ",
        "PERDURE_DRAIN__DEADLINE": "1.5",
        "PERDURE_DELIVERY__MAX_AGE": "7d",
        "PERDURE_AGENT__NAME": "42",
        "PERDURE_AGENT__SYSTEM_PROMPT": "",
        "PERDURE_DELIVERY__UNKNOWN": "drop",
    }
    settings = load_settings(tmp_path, environ)
    assert settings.web.port == 0
    assert (settings.drain.deadline, settings.delivery.max_age) == (1.5, 604800.0)
    assert (settings.agent.name, settings.agent.system_prompt) == ("42", "")
    assert settings.delivery.unknown == "drop"


def test_empty_variable_takes_back_what_the_file_says_when_there_may_be_none(tmp_path: Path) -> None:
    toml = "[recovery]\nmax_tokens = 5\n[store]\nurl = 'postgresql://db/perdure'\n"
    settings = configured(tmp_path, toml, PERDURE_RECOVERY__MAX_TOKENS="", PERDURE_STORE__URL="")
    assert settings.recovery.max_tokens is None
    assert settings.store_url == f"sqlite:///{tmp_path}/perdure.db"


def test_variables_without_a_double_underscore_are_no_settings(tmp_path: Path) -> None:
    environ = {
        "PERDURE_LIFELINE": "3",
        "PERDURE_QUIET_READY": "1",
        "PERDURE_WEB_PORT": "tcp://10.0.0.1:80",
        "A__B": "1",
    }
    assert load_settings(tmp_path, environ) == Settings(home=tmp_path)


@pytest.mark.parametrize(
    ("url", "resolved"),
    [
        pytest.param("sqlite:///chats.db", "sqlite:///{home}/chats.db", id="a relative path starts at home"),
        pytest.param("sqlite:///a b/é.db", "sqlite:///{home}/a b/é.db", id="a path stands as it is written"),
        pytest.param("sqlite:////srv/chats.db", "sqlite:////srv/chats.db", id="an absolute path stays"),
        pytest.param("postgresql://u:p@h:5/d?x=1", "postgresql://u:p@h:5/d?x=1", id="a server stays"),
    ],
)
def test_store_url_is_resolved(url: str, resolved: str, tmp_path: Path) -> None:
    settings = configured(tmp_path, f"[store]\nurl = '{url}'\n")
    assert settings.store_url == resolved.format(home=tmp_path)


def test_settings_hide_the_password_when_they_are_printed(tmp_path: Path) -> None:
    settings = configured(tmp_path, "[store]\nurl = 'postgresql://u:hunter2@h/d'\n")
    assert "hunter2" not in repr(settings)
    assert "hunter2" not in repr(settings.store.__rich_repr__())
    assert "hunter2" in settings.store_url


def test_file_is_read_when_an_editor_put_a_byte_order_mark_before_it(tmp_path: Path) -> None:
    assert configured(tmp_path, "\ufeff[web]\r\nport = 1\r\n").web.port == 1


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        *[(20, 20.0), (0, 0.0), (1.5, 1.5), ("20s", 20.0), ("15m", 900.0), ("24h", 86400.0), ("7d", 604800.0)],
        *[("500ms", 0.5), ("0s", 0.0), ("1.5h", 5400.0), ("20 s", 20.0), ("20", 20.0), ("36500d", 3153600000.0)],
        *[(-1, None), (-0.5, None), ("-5s", None), ("5x", None), ("", None), ("s", None), ("1h30m", None)],
        *[(True, None), (None, None), ([], None), (float("nan"), None), (float("inf"), None), (10**400, None)],
        *[("36501d", None), ("٣s", None), ("9" * 400 + "d", None)],
    ],
)
def test_duration_is_a_number_of_seconds_or_a_text_with_a_unit(written: object, meant: float | None) -> None:
    assert parse_duration(written) == meant


# ── platforms ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "toml",
    [
        pytest.param("[platforms.web]\nrecovery = 'ask'\nallow = ['ann']\n", id="a section"),
        pytest.param("[platforms]\nweb = {recovery = 'ask', allow = ['ann']}\n", id="a table on one line"),
        pytest.param("platforms.web.recovery = 'ask'\nplatforms.web.allow = ['ann']\n", id="dotted keys"),
    ],
)
def test_platform_is_read_from_the_file_however_it_is_written(toml: str, tmp_path: Path) -> None:
    settings = configured(tmp_path, toml)
    assert settings.platforms.web == PlatformSettings(recovery="ask", allow=["ann"])


def test_empty_group_of_sections_changes_nothing(tmp_path: Path) -> None:
    assert configured(tmp_path, "[platforms]\n[platforms.web]\n") == Settings(home=tmp_path)


@pytest.mark.parametrize(
    ("name", "text", "meant"),
    [
        pytest.param("ENABLED", "false", PlatformSettings(enabled=False), id="a truth"),
        pytest.param("BANNER", " False ", PlatformSettings(banner=False), id="a truth in capitals"),
        pytest.param("ALLOW", "ann,bob", PlatformSettings(allow=["ann", "bob"]), id="a list"),
        pytest.param("ALLOW", " 12 , Ann B. ,", PlatformSettings(allow=["12", "Ann B."]), id="a list with spaces"),
        pytest.param("ALLOW", "*", PlatformSettings(), id="a list of one"),
        pytest.param("ALLOW", "", PlatformSettings(allow=[]), id="an empty list"),
        pytest.param(
            "ALLOW_CHATS",
            '{"12": ["ann", "*"]}',
            PlatformSettings(allow_chats={"12": ["ann", "*"]}),
            id="a table of lists",
        ),
        pytest.param("RECOVERY", "off", PlatformSettings(recovery="off"), id="a word"),
        pytest.param("RECOVERY", "", PlatformSettings(), id="no word"),
        pytest.param(
            "RECOVERY_CHATS",
            "12=off, a=b = ask",
            PlatformSettings(recovery_chats={"12": "off", "a=b": "ask"}),
            id="a table",
        ),
        pytest.param("RECOVERY_CHATS", "", PlatformSettings(), id="an empty table"),
    ],
)
def test_platform_is_read_from_the_environment(
    name: str, text: str, meant: PlatformSettings, tmp_path: Path
) -> None:
    settings = load_settings(tmp_path, {f"PERDURE_PLATFORMS__WEB__{name}": text})
    assert settings.platforms.web == meant


def test_environment_replaces_a_list_and_a_table_when_the_file_has_them(tmp_path: Path) -> None:
    toml = "[platforms.web]\nallow = ['*']\nbanner = false\n[platforms.web.recovery_chats]\n12 = 'off'\n"
    environ = {"PERDURE_PLATFORMS__WEB__ALLOW": "ann", "PERDURE_PLATFORMS__WEB__RECOVERY_CHATS": "13=ask"}
    settings = configured(tmp_path, toml, **environ)
    assert settings.platforms.web == PlatformSettings(banner=False, allow=["ann"], recovery_chats={"13": "ask"})


def test_platform_has_its_settings_or_the_defaults_when_there_are_none(tmp_path: Path) -> None:
    settings = configured(tmp_path, "[platforms.web]\nbanner = false\n")
    assert settings.platform("web") == PlatformSettings(banner=False)
    assert settings.platform("simulated") == settings.platform("__class__") == PlatformSettings()


@pytest.mark.parametrize(
    ("toml", "platform", "chat", "policy"),
    [
        pytest.param("", "web", "1", "auto", id="the default"),
        pytest.param("recovery.policy = 'ask'", "web", "1", "ask", id="the general one"),
        pytest.param("recovery.policy = 'ask'", "other", "1", "ask", id="the general one for any platform"),
        pytest.param(
            "recovery.policy = 'off'\nplatforms.web.recovery = 'auto'", "web", "1", "auto", id="the platform's"
        ),
        pytest.param(
            "recovery.policy = 'off'\nplatforms.web.recovery = 'auto'",
            "other",
            "1",
            "off",
            id="not the platform's",
        ),
        pytest.param(
            "platforms.web = {recovery = 'off', recovery_chats = {1 = 'ask'}}", "web", "1", "ask", id="the chat's"
        ),
        pytest.param(
            "platforms.web = {recovery = 'off', recovery_chats = {1 = 'ask'}}",
            "web",
            "2",
            "off",
            id="not the chat's",
        ),
        pytest.param(
            "platforms.web.recovery_chats.1 = 'ask'", "other", "1", "auto", id="not the chat's of another platform"
        ),
    ],
)
def test_recovery_policy_is_the_chats_before_the_platforms_before_the_general_one(
    toml: str, platform: str, chat: str, policy: str, tmp_path: Path
) -> None:
    assert configured(tmp_path, toml).recovery_policy(platform, chat) == policy


# ── what is told of a mistake ───────────────────────────────────────────────────────────────────────────────

DURATION = 'a duration from 0 to 36500d, such as "500ms", "20s", "15m" or "24h" (a bare number is seconds)'
URL = "sqlite:///FILE or postgresql://USER@HOST/DATABASE"
NAME = 'a name of 1 to 64 letters, digits, "-" or "_"'
MODEL = '"offline", or a provider and its model, such as "openai:gpt-5" or "anthropic:claude-sonnet-5"'
BASE = "a URL that begins with http:// or https://"
OBJECTS = 'a list of objects in Python modules, each written "module:object"'
SERVERS = (
    "a table of servers, each a table with `command` or `url`, "
    "and perhaps `env`, `headers`, `effects`, `timeout`, `startup_timeout` and `sandbox`"
)
HOST = "a host name or an IP address without a port"
COUNT = "a whole number from 1 to 1000000000"
POLICY = 'one of "ask", "auto", "off"'
POLICIES = f"a table in which each value is {POLICY}"
PEOPLE = "a list of texts"
TOOLS_BY_ROLE = "a table of `owner`, `member` and `guest`, or some of them, each a list of names of tools"
TRUTH = "true or false"
SECTIONS = (
    "store, web, agent, model, tools, session, turn, notify, goal, background, queue, inbox, attachments, drain, "
    "handover, recovery, delivery, retention, access, platforms.web, platforms.telegram"
)
UNKNOWN_PLATFORM = (
    "unknown platform. Install the package that brings it, or remove this; the platforms are: web, telegram."
)
EXAMPLES = {
    "store.url": 'url = "sqlite:///perdure.db"',
    "web.host": 'host = "127.0.0.1"',
    "web.port": "port = 8420",
    "agent.name": 'name = "main"',
    "agent.system_prompt": 'system_prompt = "You are a patient librarian."',
    "agent.max_steps": "max_steps = 90",
    "model.name": 'name = "openai:gpt-5"',
    "model.base_url": 'base_url = "http://127.0.0.1:11434/v1"',
    "model.api_key": 'api_key = "sk-…"',
    "tools.load": 'load = ["my_tools:send_invoice"]',
    "tools.mcp": 'mcp = { "files" = { "command" = ["my-mcp-server", "--stdio"] } }',
    "tools.by_role": 'by_role = { "guest" = ["clarify", "fetch_url"] }',
    "session.daily": 'daily = "04:00"',
    "drain.deadline": 'deadline = "20s"',
    "drain.teardown": 'teardown = "20s"',
    "handover.wait": 'wait = "60s"',
    "recovery.policy": 'policy = "auto"',
    "recovery.concurrency": "concurrency = 4",
    "recovery.max_tokens": "max_tokens = 200000",
    "delivery.unknown": 'unknown = "resend"',
    "platforms.web.enabled": "enabled = true",
    "platforms.web.allow": 'allow = ["ann", "bob"]',
    "platforms.web.recovery": 'recovery = "ask"',
    "platforms.web.allow_chats": 'allow_chats = { "12" = ["ann", "bob"] }',
    "platforms.web.recovery_chats": 'recovery_chats = { "12" = "off", "13" = "ask" }',
}


@pytest.mark.parametrize(
    ("key", "value", "expected", "came"),
    [
        pytest.param("web.port", '"eighty"', "a whole number from 0 to 65535", '"eighty"', id="a port in words"),
        pytest.param("web.port", '"80"', "a whole number from 0 to 65535", '"80"', id="a port in quotes"),
        pytest.param("web.port", "65536", "a whole number from 0 to 65535", "65536", id="a port too high"),
        pytest.param("web.port", "-1", "a whole number from 0 to 65535", "-1", id="a port below zero"),
        pytest.param("web.port", "80.0", "a whole number from 0 to 65535", "80.0", id="a port with a fraction"),
        pytest.param("web.port", "true", "a whole number from 0 to 65535", "true", id="a port that is a truth"),
        pytest.param("web.port", "[80]", "a whole number from 0 to 65535", "a list", id="a list of ports"),
        pytest.param("web.port", "{a = 1}", "a whole number from 0 to 65535", "a table", id="a table for a port"),
        pytest.param(
            "web.port",
            "0x" + "f" * 9000,
            "a whole number from 0 to 65535",
            "a number too large to show",
            id="a port too large to print",
        ),
        pytest.param("web.host", '""', HOST, '""', id="no host"),
        pytest.param("web.host", '"http://me"', HOST, '"http://me"', id="a host that is a URL"),
        pytest.param("web.host", '"p://u:hunter2@me"', HOST, '"p://…"', id="a password in the wrong place"),
        pytest.param("agent.name", '"my agent"', NAME, '"my agent"', id="a name with a space"),
        pytest.param("agent.name", '"a:b"', NAME, '"a:b"', id="a name with a colon"),
        pytest.param("agent.name", '"bär"', NAME, '"bär"', id="a name with an umlaut"),
        pytest.param("agent.name", '""', NAME, '""', id="an empty name"),
        pytest.param("agent.name", '"ok\\n"', NAME, '"ok\\n"', id="a name with a line break"),
        pytest.param("agent.name", f'"{"a" * 65}"', NAME, f'"{"a" * 60}…"', id="a name of 65 letters"),
        pytest.param("agent.system_prompt", "3", "text", "3", id="a prompt that is a number"),
        pytest.param("agent.max_steps", "0", COUNT, "0", id="no steps at all"),
        pytest.param("recovery.concurrency", "1000000001", COUNT, "1000000001", id="a count beyond a billion"),
        pytest.param("recovery.max_tokens", '"none"', COUNT, '"none"', id="a limit spelled none"),
        pytest.param("model.name", '"gpt-5"', MODEL, '"gpt-5"', id="a model without its provider"),
        pytest.param("model.base_url", '"localhost:80"', BASE, '"localhost:80"', id="an address that is no URL"),
        pytest.param("model.api_key", "12", "text", "(hidden)", id="a key that is a number"),
        pytest.param("tools.load", '["my_tools"]', OBJECTS, 'a list with "my_tools" in it', id="a module alone"),
        pytest.param(
            "tools.mcp",
            '{x = {comand = ["hunter2"]}}',
            SERVERS,
            'a table in which "x" is wrong: Object contains unknown field `comand` - at `$.mcp[...]`',
            id="an MCP server with a slip of the pen",
        ),
        pytest.param(
            "session.daily", '"4am"', 'a time of the day, such as "04:00"', '"4am"', id="a time in other words"
        ),
        pytest.param("drain.deadline", "-3", DURATION, "-3", id="a deadline in the past"),
        pytest.param("drain.deadline", '"20 parsecs"', DURATION, '"20 parsecs"', id="a unit nobody knows"),
        pytest.param("drain.deadline", "nan", DURATION, "nan", id="a deadline that is no number"),
        pytest.param("drain.deadline", "inf", DURATION, "inf", id="a deadline that never comes"),
        pytest.param("drain.deadline", "2026-01-01", DURATION, "2026-01-01", id="a deadline that is a date"),
        pytest.param("recovery.policy", '"Auto"', POLICY, '"Auto"', id="a word in capitals"),
        pytest.param("recovery.policy", "false", POLICY, "false", id="off as a truth"),
        pytest.param("platforms.web.recovery", '"none"', POLICY, '"none"', id="a policy spelled none"),
        pytest.param("platforms.web.enabled", '"true"', TRUTH, '"true"', id="a truth in quotes"),
        pytest.param("platforms.web.enabled", "1", TRUTH, "1", id="a truth as a number"),
        pytest.param("platforms.web.allow", '"ann"', PEOPLE, '"ann"', id="one person without brackets"),
        pytest.param(
            "platforms.web.allow", '["ann", 12]', PEOPLE, "a list with 12 in it", id="a person as a number"
        ),
        pytest.param("platforms.web.allow", '["ann", ""]', PEOPLE, 'a list with "" in it', id="a person unnamed"),
        pytest.param("platforms.web.allow", "{ann = true}", PEOPLE, "a table", id="a table of people"),
        pytest.param(
            "platforms.web.allow", "[['hunter2']]", PEOPLE, "a list with a list in it", id="a list of lists"
        ),
        pytest.param(
            "tools.by_role",
            "{stranger = ['*']}",
            TOOLS_BY_ROLE,
            'a table with "stranger" = a list in it',
            id="a role that is none",
        ),
        pytest.param("platforms.web.recovery_chats", '"off"', POLICIES, '"off"', id="a word for a table"),
        pytest.param("platforms.web.recovery_chats", "['12']", POLICIES, "a list", id="a list for a table"),
        pytest.param(
            "platforms.web.recovery_chats",
            "{12 = 'off', 13 = 'maybe'}",
            POLICIES,
            'a table with "13" = "maybe" in it',
            id="a chat with a wrong word",
        ),
        pytest.param(
            "platforms.web.recovery_chats",
            "{room.7 = 'off'}",
            POLICIES,
            'a table with "room" = a table in it',
            id="a chat whose dot wants quotes",
        ),
        pytest.param("delivery.unknown", '"keep"', 'one of "drop", "resend"', '"keep"', id="a word not allowed"),
        pytest.param("store.url", '"mysql://u:hunter2@h/d"', URL, '"mysql://…"', id="another kind of database"),
        pytest.param("store.url", '"u:hunter2@h/d"', URL, "(hidden)", id="a database without a scheme"),
        pytest.param("store.url", '"sqlite://chats.db"', URL, '"sqlite://…"', id="a slash too few"),
        pytest.param("store.url", '"sqlite:///"', URL, '"sqlite:///…"', id="a database without a file"),
        pytest.param("store.url", '"sqlite:///chats/"', URL, '"sqlite:///…"', id="a directory for a file"),
        pytest.param("store.url", '"sqlite:///:memory:"', URL, '"sqlite:///…"', id="a database that forgets"),
        pytest.param("store.url", '"sqlite:///a.db?mode=ro"', URL, '"sqlite:///…"', id="options after the file"),
        pytest.param("store.url", '"postgresql://"', URL, '"postgresql://…"', id="a server without a name"),
        pytest.param("store.url", "3", URL, "(hidden)", id="a database that is a number"),
        pytest.param("store.url", '["postgresql://u:hunter2@h"]', URL, "a list", id="a list of databases"),
    ],
)
def test_wrong_value_is_told_with_its_place_and_a_remedy(
    key: str, value: str, expected: str, came: str, tmp_path: Path
) -> None:
    told = problems(tmp_path, f"{key} = {value}\n")
    remedy = f"Write for example: {EXAMPLES[key]}"
    assert told == [f"config.toml: {key}: expected {expected}, got {came}. {remedy}"]


@pytest.mark.parametrize(("key", "line"), EXAMPLES.items(), ids=EXAMPLES)
def test_remedy_is_accepted_when_it_is_followed(key: str, line: str, tmp_path: Path) -> None:
    configured(tmp_path, f"[{key.rpartition('.')[0]}]\n{line}\n")


@pytest.mark.parametrize("key", DEFAULTS)
def test_remedy_is_accepted_when_it_is_followed_in_the_environment(key: str, tmp_path: Path) -> None:
    (told,) = problems(tmp_path, "", **{variable(key): "\udce9"})
    name, _, value = told.partition("Write for example: ")[2].partition("=")
    assert name == variable(key)
    load_settings(tmp_path, {name: value})


@pytest.mark.parametrize(
    ("toml", "told"),
    [
        pytest.param(
            "[recovery]\npolcy = 1",
            "recovery.polcy: unknown key. Did you mean recovery.policy?",
            id="a slip of the pen",
        ),
        pytest.param("[web]\nPort = 1", "web.Port: unknown key. Did you mean web.port?", id="a key in capitals"),
        pytest.param(
            "[recovery]\nmax_steps = 1",
            "recovery.max_steps: unknown key. Did you mean agent.max_steps?",
            id="the right key in the wrong section",
        ),
        pytest.param("port = 1", "port: unknown key. Did you mean web.port?", id="a key outside its section"),
        pytest.param(
            "name = 'x'",
            "name: unknown key. Did you mean agent.name or model.name?",
            id="a key that two sections have",
        ),
        pytest.param(
            "home = '/x'", f"home: unknown key. Remove it; the sections are: {SECTIONS}.", id="home in the file"
        ),
        pytest.param(
            "[web]\nzzz = 1",
            "web.zzz: unknown key. Remove it; this section has: web.host, web.port, web.names, "
            "web.proxies, web.max_connections, web.request_timeout.",
            id="a key like no other",
        ),
        pytest.param(
            "[recvery]\npolicy = 1",
            "recvery: unknown section. Did you mean [recovery]?",
            id="a slip of the pen in a section",
        ),
        pytest.param(
            "[platforms.zulip]\ntoken = 'hunter2'",
            f"platforms.zulip: {UNKNOWN_PLATFORM}",
            id="a platform of a later version",
        ),
        pytest.param(
            "platforms.wbe.recovery = 'off'",
            "platforms.wbe: unknown section. Did you mean [platforms.web]?",
            id="a slip of the pen in a platform",
        ),
        pytest.param(
            "[platform.web]\nrecovery = 'off'",
            "platform.web: unknown section. Did you mean [platforms.web]?",
            id="one platform for platforms",
        ),
        pytest.param(
            "[platform.web.recovery_chats]\n12 = 'off'",
            "platform.web: unknown section. Did you mean [platforms.web]?",
            id="a table of a section with a slip",
        ),
        pytest.param(
            "[platform]\nrecovery = 'off'",
            "platform: unknown section. Did you mean [platforms.web] or [platforms.telegram]?",
            id="a platform without a name",
        ),
        pytest.param(
            "[platforms]\nrecovery = 'off'",
            "platforms.recovery: unknown key. Did you mean platforms.web.recovery or platforms.telegram.recovery?",
            id="a key of all platforms",
        ),
        pytest.param(
            "[platforms.web]\nalow = ['ann']",
            "platforms.web.alow: unknown key. Did you mean platforms.web.allow?",
            id="a slip of the pen in a platform's key",
        ),
        pytest.param(
            "[web]\nbanner = true",
            "web.banner: unknown key. Did you mean platforms.web.banner or platforms.telegram.banner?",
            id="a key of the platform in the section of the same name",
        ),
        pytest.param(
            "[platforms.web]\nzzz = 1",
            "platforms.web.zzz: unknown key. Remove it; this section has: platforms.web.enabled, "
            "platforms.web.allow, platforms.web.allow_chats, platforms.web.recovery, platforms.web.banner, "
            "platforms.web.model, platforms.web.system_prompt, platforms.web.tools, platforms.web.tools_by_role, "
            "platforms.web.recovery_chats.",
            id="a key like no other in a platform",
        ),
        pytest.param(
            "['platforms.web']\nrecovery = 'off'",
            '"platforms.web": unknown section. Did you mean [platforms.web]?',
            id="a section in quotes",
        ),
        pytest.param(
            "'web.port' = 1", '"web.port": unknown key. Did you mean web.port?', id="a dotted key in quotes"
        ),
        pytest.param(
            f"{'a.' * 5000}a = 1",
            f"a.a: unknown section. Remove it; the sections are: {SECTIONS}.",
            id="sections beyond any depth",
        ),
        pytest.param(
            "platforms = 'web'",
            "platforms: expected a section, got (hidden). "
            "Write [platforms.web] on a line of its own, and its keys beneath it.",
            id="a value for a group of sections",
        ),
        pytest.param(
            "[[platforms.web]]\nrecovery = 'off'",
            "platforms.web: expected a section, got a list. "
            "Write [platforms.web] on a line of its own, and its keys beneath it.",
            id="double brackets around a platform",
        ),
        pytest.param(
            "web = 3",
            "web: expected a section, got 3. Write [web] on a line of its own, and its keys beneath it.",
            id="a value for a section",
        ),
        pytest.param(
            "[[web]]\nport = 1",
            "web: expected a section, got a list. Write [web] on a line of its own, and its keys beneath it.",
            id="double brackets around a section",
        ),
        pytest.param(
            "store = 'postgresql://u:hunter2@h/d'",
            'store: expected a section, got "postgresql://…". '
            "Write [store] on a line of its own, and its keys beneath it.",
            id="a password for a section",
        ),
        pytest.param(
            '"\\u001b[31m\\n" = 1',
            f"\\x1b[31m\\n: unknown key. Remove it; the sections are: {SECTIONS}.",
            id="a key that would paint the terminal",
        ),
    ],
)
def test_unknown_or_misplaced_entry_is_told_with_what_was_meant(toml: str, told: str, tmp_path: Path) -> None:
    assert problems(tmp_path, toml) == [f"config.toml: {told}"]


@pytest.mark.parametrize(
    ("variable", "value", "told"),
    [
        pytest.param(
            "PERDURE_WEB__PORT",
            "eighty",
            'expected a whole number from 0 to 65535, got "eighty". Write for example: PERDURE_WEB__PORT=8420',
            id="a port in words",
        ),
        pytest.param(
            "perdure_web__port",
            "",
            'expected a whole number from 0 to 65535, got "". Write for example: PERDURE_WEB__PORT=8420',
            id="an empty port, spelled small",
        ),
        pytest.param(
            "PERDURE_RECOVERY__CONCURRENCY",
            "-1",
            f'expected {COUNT}, got "-1". Write for example: PERDURE_RECOVERY__CONCURRENCY=4',
            id="a count below one",
        ),
        pytest.param(
            "PERDURE_RECOVERY__CONCURRENCY",
            "9" * 5000,
            f'expected {COUNT}, got "{"9" * 60}…". Write for example: PERDURE_RECOVERY__CONCURRENCY=4',
            id="a count too long to be a number",
        ),
        pytest.param(
            "PERDURE_DRAIN__DEADLINE",
            "soon",
            f'expected {DURATION}, got "soon". Write for example: PERDURE_DRAIN__DEADLINE=20s',
            id="a deadline in words",
        ),
        pytest.param(
            "PERDURE_STORE__URL",
            "postgres://u:hunter2@h/d",
            f'expected {URL}, got "postgres://…". Write for example: PERDURE_STORE__URL=sqlite:///perdure.db',
            id="a password in a URL",
        ),
        pytest.param(
            "PERDURE_AGENT__SYSTEM_PROMPT",
            "caf\udce9",
            'expected text, got "caf\\udce9". '
            "Write for example: PERDURE_AGENT__SYSTEM_PROMPT=You are a patient librarian.",
            id="bytes that are no text",
        ),
        pytest.param(
            "PERDURE_WBE__PROT", "1", "unknown key. Did you mean PERDURE_WEB__PORT?", id="two slips of the pen"
        ),
        pytest.param(
            "PERDURE_WEB__ZZZ",
            "hunter2",
            "unknown key. Remove it; this section has: PERDURE_WEB__HOST, PERDURE_WEB__PORT, "
            "PERDURE_WEB__NAMES, PERDURE_WEB__PROXIES, PERDURE_WEB__MAX_CONNECTIONS, "
            "PERDURE_WEB__REQUEST_TIMEOUT.",
            id="a key like no other",
        ),
        pytest.param(
            "PERDURE_PLATFORMS__ZULIP__TOKEN",
            "hunter2",
            UNKNOWN_PLATFORM,
            id="a setting of a later version",
        ),
        pytest.param(
            "PERDURE_PLATFORMS__ZULIP__RECOVERY",
            "off",
            UNKNOWN_PLATFORM,
            id="a setting of a platform of a later version",
        ),
        pytest.param(
            "PERDURE_PLATFORMS__WBE__RECOVERY",
            "off",
            "unknown key. Did you mean PERDURE_PLATFORMS__WEB__RECOVERY?",
            id="a slip of the pen in a platform",
        ),
        pytest.param(
            "PERDURE_PLATFORM__WEB__RECOVERY",
            "off",
            "unknown key. Did you mean PERDURE_PLATFORMS__WEB__RECOVERY?",
            id="one platform for platforms",
        ),
        pytest.param(
            "PERDURE_PLATFORMS_WEB__RECOVERY",
            "off",
            "unknown key. Did you mean PERDURE_PLATFORMS__WEB__RECOVERY or PERDURE_PLATFORMS__TELEGRAM__RECOVERY?",
            id="an underscore too few",
        ),
        pytest.param(
            "PERDURE_PLATFORMS__WEB__RECOVERY_CHATS__12",
            "off",
            "unknown key. Did you mean PERDURE_PLATFORMS__WEB__RECOVERY_CHATS?",
            id="a variable for a single chat",
        ),
        pytest.param(
            "PERDURE_PLATFORMS__WEB",
            "off",
            "unknown key. Remove it; this section has: PERDURE_PLATFORMS__WEB__ENABLED, "
            "PERDURE_PLATFORMS__WEB__ALLOW, PERDURE_PLATFORMS__WEB__ALLOW_CHATS, "
            "PERDURE_PLATFORMS__WEB__RECOVERY, PERDURE_PLATFORMS__WEB__BANNER, PERDURE_PLATFORMS__WEB__MODEL, "
            "PERDURE_PLATFORMS__WEB__SYSTEM_PROMPT, PERDURE_PLATFORMS__WEB__TOOLS, "
            "PERDURE_PLATFORMS__WEB__TOOLS_BY_ROLE, PERDURE_PLATFORMS__WEB__RECOVERY_CHATS.",
            id="a variable for a section",
        ),
        pytest.param(
            "PERDURE_PLATFORMS__WEB__BANNER",
            "off",
            f'expected {TRUTH}, got "off". Write for example: PERDURE_PLATFORMS__WEB__BANNER=true',
            id="a truth in another word",
        ),
        pytest.param(
            "PERDURE_PLATFORMS__WEB__ENABLED",
            "",
            f'expected {TRUTH}, got "". Write for example: PERDURE_PLATFORMS__WEB__ENABLED=true',
            id="an empty truth",
        ),
        pytest.param(
            "PERDURE_PLATFORMS__WEB__ALLOW",
            "ann,caf\udce9",
            f'expected {PEOPLE}, got "ann,caf\\udce9". Write for example: PERDURE_PLATFORMS__WEB__ALLOW=ann,bob',
            id="bytes that are no text in a list",
        ),
        *[
            pytest.param(
                "PERDURE_PLATFORMS__WEB__RECOVERY_CHATS",
                text,
                f'expected {POLICIES}, got "{text}". '
                "Write for example: PERDURE_PLATFORMS__WEB__RECOVERY_CHATS=12=off,13=ask",
                id=what,
            )
            for text, what in (
                ("off", "a word for a table"),
                ("12=maybe", "a chat with a wrong word"),
                ("=off", "a chat without an id"),
                ("12=off,12=ask", "a chat that stands there twice"),
            )
        ],
    ],
)
def test_wrong_variable_is_told_with_its_name_and_a_remedy(
    variable: str, value: str, told: str, tmp_path: Path
) -> None:
    assert problems(tmp_path, "", **{variable: value}) == [f"environment: {variable}: {told}"]


def test_variable_is_refused_when_it_is_set_in_two_spellings(tmp_path: Path) -> None:
    told = problems(tmp_path, "", PERDURE_WEB__PORT="1", perdure_web__port="2")
    assert told == ["environment: perdure_web__port: PERDURE_WEB__PORT is set too. Unset one of the two."]


@pytest.mark.parametrize(
    ("toml", "place"),
    [
        pytest.param(
            "[web]\nhost = localhost\n", "line 2, column 8: this is not TOML: Invalid value", id="no quotes"
        ),
        pytest.param("[web]\nport 80\n", "line 2, column 6: this is not TOML: Expected '='", id="no equals sign"),
        pytest.param(
            "[web]\nhost = 'me", "line 2, column 11: this is not TOML: Expected", id="a quote never closed"
        ),
        pytest.param("[web]\n[web]\n", "line 2, column 5: this is not TOML: Cannot declare", id="a section twice"),
        pytest.param(b"[web]\nhost = 'caf\xe9'\n", "line 2, column 12: this is not UTF-8.", id="no UTF-8"),
        pytest.param("a = " + "9" * 5000, "it holds a number too long or brackets too deep", id="endless digits"),
        pytest.param(
            "a = " + "[" * 5000, "it holds a number too long or brackets too deep", id="endless brackets"
        ),
    ],
)
def test_file_that_makes_no_sense_is_one_problem_with_its_line(
    toml: str | bytes, place: str, tmp_path: Path
) -> None:
    (told,) = problems(tmp_path, toml)
    assert told.startswith(f"config.toml: {place}")


def test_file_that_cannot_be_read_is_told_with_its_path(tmp_path: Path) -> None:
    file = tmp_path / "config.toml"
    file.mkdir()
    with pytest.raises(ConfigurationError) as caught:
        load_settings(tmp_path, {})
    remedy = f"Make {file} a file that this user may read, or remove it."
    assert f"1. config.toml: it cannot be read: Is a directory. {remedy}" in str(caught.value)


def test_home_that_nobody_knows_is_told() -> None:
    with pytest.raises(ConfigurationError, match="Write for example: PERDURE_HOME=/var/lib/perdure"):
        load_settings(environ={"PERDURE_HOME": "~no-such-user/perdure"})


def test_all_problems_of_file_and_environment_are_told_at_once(tmp_path: Path) -> None:
    toml = "delivery = 1\n[web]\nport = 'eighty'\n[recovery]\npolcy = 'auto'\n[nowhere]\n"
    environ = {"PERDURE_WEB__PORT": "8420", "PERDURE_DRAIN__DEADLIN": "1", "PERDURE_RECOVERY__CONCURRENCY": "0"}
    told = problems(tmp_path, toml, **environ)
    assert [": ".join(line.split(": ")[:2]) for line in told] == [
        "config.toml: delivery",
        "config.toml: web.port",
        "config.toml: recovery.polcy",
        "config.toml: nowhere",
        "environment: PERDURE_DRAIN__DEADLIN",
        "environment: PERDURE_RECOVERY__CONCURRENCY",
    ]


def test_environment_is_checked_too_when_the_file_makes_no_sense(tmp_path: Path) -> None:
    told = problems(tmp_path, "[web", PERDURE_WEB__PORT="eighty")
    assert [line.split(":")[0] for line in told] == ["config.toml", "environment"]


def test_message_reads_as_promised(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError) as caught:
        configured(tmp_path, "[web]\nport = 'eighty'\n[recovery]\npolcy = 'auto'\n")
    assert str(caught.value) == (
        "The configuration has 2 problems; nothing was started:\n"
        '  1. config.toml: web.port: expected a whole number from 0 to 65535, got "eighty". '
        "Write for example: port = 8420\n"
        "  2. config.toml: recovery.polcy: unknown key. Did you mean recovery.policy?"
    )
    assert caught.value.exit_code == 78


# ── what a start pays for it ────────────────────────────────────────────────────────────────────────────────


def test_nothing_heavy_is_imported_when_settings_are_loaded(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("[web]\nport = 1\n")
    program = "import sys, perdure.config; perdure.config.load_settings(); print(*sys.modules)"
    environ = {**os.environ, "PERDURE_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", program], env=environ, capture_output=True, text=True, check=True)
    heavy = {"asyncio", "difflib", "pydantic", "sqlalchemy", "structlog", "httpx", "typer", "starlette"}
    assert heavy.isdisjoint(done.stdout.split())


def test_token_of_a_bot_is_shown_nowhere(tmp_path: Path) -> None:
    settings = configured(tmp_path, "[platforms.telegram]\ntoken = '1:hunter2'\n")
    assert settings.platforms.telegram.token == "1:hunter2"  # noqa: S105 reason: it opens nothing
    assert "hunter2" not in repr(settings)
    assert "hunter2" not in " ".join(problems(tmp_path, "[platforms.telegram]\ntoken = ['1:hunter2']\n"))
