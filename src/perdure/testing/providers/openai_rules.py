"""The rules of OpenAI's Chat Completions API for requests; a violation is refused as the service refuses it.

Blank texts and calls of unknown tools are refused too, although the service lets them pass: its models
answer them badly.
"""

from __future__ import annotations

from typing import Any

from perdure.testing.providers.dialect import (
    describe_value,
    expect_known_tool,
    expect_list,
    expect_model,
    expect_object,
    expect_schema,
    expect_text,
    expect_tool_name,
    refuse,
)

MAX_ID_CHARS = 40
MAX_NAME_CHARS = 64
CHOICES = ("none", "auto", "required")
PART_TYPES = {
    "system": ("text",),
    "developer": ("text",),
    "user": ("text", "image_url", "input_audio", "file"),
    "assistant": ("text", "refusal"),
    "tool": ("text",),
}


def check_request(body: dict[str, Any], known: set[str]) -> None:
    """Refuse a request that breaks a rule. `known` are tools beside those that the request offers."""
    expect_model(body)
    offered = _check_tools(body)
    _check_choice(body, offered)
    if body.get("stream_options") is not None and not body.get("stream"):
        refuse("stream_options", "these are for streams only; `stream` is not set.")
    _check_messages(expect_list("messages", body.get("messages")), known | offered)


def _check_tools(body: dict[str, Any]) -> set[str]:
    """Check the offered tools and return their names."""
    offered: set[str] = set()
    if body.get("tools") is None:
        return offered
    for index, tool in enumerate(expect_list("tools", body["tools"])):
        where = f"tools[{index}].function"
        if expect_object(f"tools[{index}]", tool).get("type") != "function":
            refuse(f"tools[{index}].type", f"expected 'function', got {describe_value(tool.get('type'))}.")
        function = expect_object(where, tool.get("function"))
        name = expect_tool_name(f"{where}.name", function.get("name"), MAX_NAME_CHARS)
        if name in offered:
            refuse(f"{where}.name", f"the tool {name!r} is offered twice.")
        if "parameters" in function:
            expect_schema(f"{where}.parameters", function["parameters"])
        offered.add(name)
    return offered


def _check_choice(body: dict[str, Any], offered: set[str]) -> None:
    for parameter in ("tool_choice", "parallel_tool_calls"):
        if body.get(parameter) is not None and not offered:
            refuse(parameter, "this is allowed only beside `tools`.")
    choice = body.get("tool_choice")
    if isinstance(choice, dict) and choice.get("type") == "function":
        name = expect_object("tool_choice.function", choice.get("function")).get("name")
        expect_known_tool("tool_choice.function.name", str(name), offered)
    elif choice is not None and not isinstance(choice, dict) and choice not in CHOICES:
        refuse("tool_choice", f"expected one of {', '.join(CHOICES)}, got {describe_value(choice)}.")


def _check_messages(messages: list[Any], known: set[str]) -> None:
    """Check that every call has exactly one result, directly after the message that made the call."""
    owed: dict[str, str] = {}  # the calls without a result so far, each with its position
    settled: set[str] = set()
    for index, message in enumerate(messages):
        where = f"messages[{index}]"
        role = expect_object(where, message).get("role")
        if role not in PART_TYPES:
            refuse(f"{where}.role", f"expected one of {', '.join(PART_TYPES)}, got {describe_value(role)}.")
        if role == "tool":
            _record_result(where, message, owed, settled)
        else:
            _expect_all_results(owed)
            settled.clear()
        _check_content(where, role, message)
        if role == "assistant" and message.get("tool_calls") is not None:
            owed.update(_check_calls(where, message["tool_calls"], known))
    _expect_all_results(owed)


def _expect_all_results(owed: dict[str, str]) -> None:
    if owed:
        where = next(iter(owed.values()))
        refuse(where, f"these tool calls have no result right after them: {', '.join(owed)}.")


def _record_result(where: str, message: dict[str, Any], owed: dict[str, str], settled: set[str]) -> None:
    call = message.get("tool_call_id")
    if not isinstance(call, str):
        refuse(f"{where}.tool_call_id", f"expected the id of a tool call, got {describe_value(call)}.")
    if call in settled:
        refuse(f"{where}.tool_call_id", f"the tool call {call!r} has a result already; it must have exactly one.")
    if call not in owed:
        refuse(f"{where}.tool_call_id", f"no message right before this one makes the tool call {call!r}.")
    del owed[call]
    settled.add(call)


def _check_content(where: str, role: str, message: dict[str, Any]) -> None:
    content = message.get("content")
    calls = role == "assistant" and message.get("tool_calls")
    if isinstance(content, list):
        for index, part in enumerate(expect_list(f"{where}.content", content)):
            _check_part(f"{where}.content[{index}]", role, part)
    elif role == "tool":
        # The result of a tool may be empty; a message of a person or a model may not.
        if not isinstance(content, str):
            refuse(f"{where}.content", f"expected a string or a list of parts, got {describe_value(content)}.")
    elif not (calls and content in (None, "")) and not (content is None and message.get("refusal")):
        expect_text(f"{where}.content", content)


def _check_part(where: str, role: str, part: object) -> None:
    kind = expect_object(where, part).get("type")
    if kind not in PART_TYPES[role]:
        refuse(
            f"{where}.type",
            f"{role} messages have parts of {', '.join(PART_TYPES[role])}; got {describe_value(kind)}.",
        )
    if kind in ("text", "refusal"):
        expect_text(f"{where}.{kind}", expect_object(where, part).get(kind))


def _check_calls(where: str, calls: object, known: set[str]) -> dict[str, str]:
    """Return the ids of a message's calls, each with its position."""
    made: dict[str, str] = {}
    for index, call in enumerate(expect_list(f"{where}.tool_calls", calls)):
        at = f"{where}.tool_calls[{index}]"
        identity = expect_object(at, call).get("id")
        if not isinstance(identity, str) or not 0 < len(identity) <= MAX_ID_CHARS:
            refuse(
                f"{at}.id", f"expected an id of 1 to {MAX_ID_CHARS} characters, got {describe_value(identity)}."
            )
        if identity in made:
            refuse(f"{at}.id", f"the id {identity!r} is given to two tool calls.")
        if call.get("type") != "function":
            refuse(f"{at}.type", f"expected 'function', got {describe_value(call.get('type'))}.")
        function = expect_object(f"{at}.function", call.get("function"))
        name = expect_tool_name(f"{at}.function.name", function.get("name"), MAX_NAME_CHARS)
        expect_known_tool(f"{at}.function.name", name, known)
        if not isinstance(function.get("arguments"), str):
            refuse(
                f"{at}.function.arguments",
                f"expected JSON in a string, got {describe_value(function.get('arguments'))}.",
            )
        made[identity] = at
    return made
