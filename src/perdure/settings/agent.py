"""Settings of who answers: the agent, its model and its tools."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from perdure.core import texts
from perdure.core.roles import DEFAULT_TOOLS_BY_ROLE, Role
from perdure.settings.value_types import (
    TOOLS_BY_ROLE_EXPECTED,
    Duration,
    ModelName,
    Name,
    NonEmptyText,
    ObjectPath,
    PositiveCount,
    Secret,
    Url,
)


class AgentSettings(msgspec.Struct, frozen=True):
    """Who answers."""

    name: Annotated[
        Name,
        Meta(description="The agent's name in session keys. Sessions of another name are other sessions."),
    ] = "main"
    system_prompt: Annotated[
        str,
        Meta(
            description="What the model is told before every conversation.",
            examples=["You are a patient librarian."],
            extra={"default": "a built-in text"},
        ),
    ] = texts.agents.SYSTEM_PROMPT
    max_steps: Annotated[
        PositiveCount, Meta(description="The most model calls one turn may make before it is ended.")
    ] = 90
    max_tokens: Annotated[
        PositiveCount | None,
        Meta(
            description="The most tokens one turn may use, read and written, before it is ended.",
            examples=[200_000],
        ),
    ] = None
    tools: Annotated[
        list[NonEmptyText],
        Meta(
            description="The tools that the model may use, by name; `*` stands for any letters, so `files_*` "
            "means all whose names begin so.",
            examples=[["read_file", "search_files", "clarify"]],
        ),
    ] = msgspec.field(default_factory=lambda: ["*"])
    entrypoint: Annotated[
        ObjectPath | None,
        Meta(
            description="An agent of your own instead of the built-in one: an async function, a pydantic-ai "
            "`Agent`, or any object with the methods of `perdure.agents.Agent`.",
            examples=["my_agent:answer"],
        ),
    ] = None


class ModelSettings(msgspec.Struct, frozen=True):
    """Who thinks."""

    name: Annotated[
        ModelName,
        Meta(
            description="The model: `provider:model`, or `offline`, which needs no key and no network and follows "
            "scripts.",
            examples=["openai:gpt-5"],
        ),
    ] = "offline"
    base_url: Annotated[
        Url | None,
        Meta(
            description="Where the provider's API is, if not at its usual address: with `openai:…`, any server "
            "that speaks the same language.",
            examples=["http://127.0.0.1:11434/v1"],
        ),
    ] = None
    api_key: Annotated[
        Secret | None,
        Meta(
            description="The key for the provider. Without one, its usual variable counts, such as "
            "`OPENAI_API_KEY` or `ANTHROPIC_API_KEY`.",
            examples=["sk-…"],
            extra={"expected": "text", "secret": True},
        ),
    ] = None
    context: Annotated[
        PositiveCount | None,
        Meta(
            description="How many tokens the model reads and writes in all, at most; a longer conversation is "
            "summed up. Known by itself for most models, asked of your own server, and learnt from its refusals.",
            examples=[128_000],
            extra={"default": "what the model is known for, or 128000"},
        ),
    ] = None
    timeout: Annotated[Duration, Meta(description="The longest that one answer of the model may take in all.")] = (
        600.0
    )
    silence: Annotated[
        Duration, Meta(description="The longest that a model may say nothing in the middle of an answer.")
    ] = 120.0

    # The key must not end up in logs and tracebacks.
    def __repr__(self) -> str:
        return f"ModelSettings(name={self.name!r}, base_url={self.base_url!r}, api_key=(hidden))"

    def __rich_repr__(self) -> list[tuple[str, str | None]]:
        return [("name", self.name), ("base_url", self.base_url), ("api_key", "(hidden)")]


class McpServerSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An MCP server: a command to start, or the URL of one that runs, and what repeating its tools would mean."""

    command: list[NonEmptyText] = []
    url: Url | None = None
    env: Annotated[dict[NonEmptyText, str], Meta(extra={"secret": True})] = {}
    headers: Annotated[dict[NonEmptyText, str], Meta(extra={"secret": True})] = {}
    effects: dict[NonEmptyText, Literal["pure", "keyed", "once"]] = {}
    timeout: float = 120.0
    startup_timeout: float = 10.0
    sandbox: bool = True

    def __repr__(self) -> str:
        return "ServerSettings((hidden))"


class ToolsSettings(msgspec.Struct, frozen=True):
    """What the agent can do."""

    workspaces: Annotated[
        Literal["auto", "chat", "shared"],
        Meta(
            description="Whether each `chat` has a workspace and a home directory [of its own](tools.md#files), "
            "or all chats share one (`shared`). `auto`: each has its own, unless `tools.directory` is set or "
            "`workspace` in the home has files from before 0.3.0."
        ),
    ] = "auto"
    directory: Annotated[
        str | None,
        Meta(
            description="The directory that all chats share, in which the agent reads and writes files, and "
            "outside of which it does not; a relative path starts in the home directory. `/` is the whole "
            "machine, except for the gateway's home, and needs `tools.sandbox` to be `off`.",
            examples=["/srv/perdure"],
            extra={"default": "<home>/workspace"},
        ),
    ] = None
    load: Annotated[
        list[ObjectPath],
        Meta(
            description="Tools of your own: functions with `@perdure.tool`, each as `module:object`.",
            examples=[["my_tools:send_invoice"]],
            extra={"expected": 'a list of objects in Python modules, each written "module:object"'},
        ),
    ] = []
    mcp: Annotated[
        dict[Name, McpServerSettings],
        Meta(
            description="MCP servers whose tools the agent may use, by name. Each has a `command` or a `url`; "
            "`env` and `headers` go to it; `effects` says which tools are `pure`, `keyed` or `once`; `timeout` is "
            "how many seconds a call may take, `startup_timeout` how many a turn waits for the server to connect; "
            "`sandbox` (true unless you say false) says whether its command runs in the sandbox.",
            examples=[{"files": {"command": ["my-mcp-server", "--stdio"]}}],
            extra={
                "expected": "a table of servers, each a table with `command` or `url`, and perhaps `env`, "
                "`headers`, `effects`, `timeout`, `startup_timeout` and `sandbox`",
                "secret": True,
            },
        ),
    ] = {}
    env: Annotated[
        list[NonEmptyText],
        Meta(
            description="The names of the variables that commands are given; no other of the gateway's.",
            examples=[["PATH", "HOME", "LANG", "SSH_AUTH_SOCK"]],
        ),
    ] = msgspec.field(default_factory=lambda: ["PATH", "HOME", "LANG"])
    approvals: Annotated[
        Literal["dangerous", "all", "off"],
        Meta(
            description="Which calls a person must approve first: dangerous shell commands; all calls of every "
            "tool but `clarify`; or none but those of `tools.ask`."
        ),
    ] = "dangerous"
    ask: Annotated[
        list[NonEmptyText],
        Meta(
            description="Tools of which a person must approve every call, by name; `*` stands for any letters, "
            "and `mcp:NAME` for all tools of an MCP server.",
            examples=[["mcp:pay", "write_file"]],
        ),
    ] = []
    dangerous: Annotated[
        list[NonEmptyText],
        Meta(
            description="Commands that need approval beside [those that always do](approvals.md), word by word; "
            "`*` stands for any word, and as the last one for any rest.",
            examples=[["terraform *", "kubectl delete *"]],
        ),
    ] = []
    safe: Annotated[
        list[NonEmptyText],
        Meta(
            description="Commands that need no approval though the rules say so, written in the same way.",
            examples=[["rm -rf build"]],
        ),
    ] = []
    sandbox: Annotated[
        Literal["auto", "bwrap", "landlock", "off"],
        Meta(
            description="The [sandbox](sandbox.md) of commands: the best that works here, one that must work, or "
            "none. Without one, every command asks."
        ),
    ] = "auto"
    sandbox_network: Annotated[
        Literal["web", "public", "none", "full"],
        Meta(
            description="What sandboxed commands reach of the network: TCP ports 22, 53, 80 and 443 and UDP; "
            "public addresses alone (not built yet, and refused); nothing; or everything."
        ),
    ] = "web"
    sandbox_read: Annotated[
        list[NonEmptyText],
        Meta(
            description="Further folders or files that sandboxed commands may read; a relative path starts in the "
            "home directory.",
            examples=[["/opt/toolchain"]],
        ),
    ] = []
    sandbox_write: Annotated[
        list[NonEmptyText],
        Meta(
            description="Further folders that sandboxed commands may read and change.",
            examples=[["/srv/shared"]],
        ),
    ] = []
    sandbox_memory: Annotated[
        PositiveCount, Meta(description="How much memory each process of a sandboxed command may use, in MB.")
    ] = 4000
    sandbox_processes: Annotated[
        PositiveCount,
        Meta(
            description="How many processes and threads sandboxed commands may have at a time; root has no limit."
        ),
    ] = 512
    sandbox_file_size: Annotated[
        PositiveCount, Meta(description="How large a file may grow that a sandboxed command writes, in MB.")
    ] = 10_000
    approval_expires: Annotated[
        Duration, Meta(description="An approval that comes later than this counts no more, and nothing is run.")
    ] = 86400.0
    by_role: Annotated[
        dict[Role, list[NonEmptyText]],
        Meta(
            description="The tools that a turn may use, by the [role](people.md#tools) of the person whose words "
            "began it, written as in `agent.tools`. A role that is not named keeps its default.",
            examples=[{"guest": ["clarify", "fetch_url"]}],
            extra={"expected": TOOLS_BY_ROLE_EXPECTED},
        ),
    ] = msgspec.field(default_factory=lambda: dict(DEFAULT_TOOLS_BY_ROLE))
    private_addresses: Annotated[
        bool, Meta(description="Whether `fetch_url` may reach this machine and its private networks.")
    ] = False
    result_limit: Annotated[
        PositiveCount,
        Meta(description="The most characters of one result that the model reads; the middle is left out."),
    ] = 30_000
    timeout: Annotated[
        Duration, Meta(description="The longest that one use of a tool may take, unless the tool says otherwise.")
    ] = 600.0
