"""The schemas of tools, as providers get them.

A schema goes out without what says nothing to a model. OpenAI can hold a model to a schema (`strict`): that is
asked for where the schema allows it as it stands, so that no argument changes its meaning.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

Schema = dict[str, Any]

UNIONS = ("allOf", "anyOf", "oneOf")
MEANINGLESS_FIELDS = ("title", "$schema")
DEFINITION_FIELDS = ("$defs", "definitions")
# Fields that OpenAI refuses in a strict schema.
NOT_STRICT_FIELDS = frozenset(
    (
        "contains", "default", "maxContains", "maxLength", "maxProperties", "minContains", "minLength",
        "minProperties", "oneOf", "patternProperties", "propertyNames", "unevaluatedItems",
        "unevaluatedProperties", "uniqueItems",
    )
)  # fmt: skip
STRICT_FORMATS = frozenset(("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"))
TYPE_FIELDS = ("type", "$ref", "anyOf", "oneOf", "allOf", "enum", "const")  # of which a typed schema has one
MAX_STRICT_SCHEMAS = 1_000  # inside of one; OpenAI allows 5,000 properties
MAX_STRICT_DEPTH = 10  # objects inside of objects
LOOKAROUND = re.compile(r"(?<!\\)(?:\\\\)*\(\?(?:[=!]|<[=!])")
DEFINITION_REFERENCE = re.compile(r"#/(\$defs|definitions)/[^/]+")


def clean_schema(schema: Mapping[str, Any]) -> Schema:
    """A schema without titles, as Anthropic gets it."""
    cleaned: Schema = _mapped(schema, _without_titles)
    return cleaned


def strict_schema(schema: Mapping[str, Any]) -> tuple[Schema, bool]:
    """A schema as OpenAI gets it, and whether the model can be held to it."""
    cleaned = _mapped(schema, lambda node: _closed(_without_titles(node)))
    nodes = _nodes(cleaned)
    fits = len(nodes) <= MAX_STRICT_SCHEMAS and _depth(cleaned) <= MAX_STRICT_DEPTH
    return cleaned, fits and all(_allows_strict(node) for node in nodes)


def _without_titles(node: Schema) -> Schema:
    return {name: value for name, value in node.items() if name not in MEANINGLESS_FIELDS}


def _closed(node: Schema) -> Schema:
    """An object with a list of its properties, which allows no others unless it says so."""
    node.pop("discriminator", None)
    if node.get("type") == "object":
        node.setdefault("properties", {})
        if node.get("additionalProperties") in (None, False):
            node["additionalProperties"] = False
    return node


def _allows_strict(node: Schema) -> bool:
    pattern, reference = node.get("pattern"), node.get("$ref")
    if not NOT_STRICT_FIELDS.isdisjoint(node) or node.get("format", "date") not in STRICT_FORMATS:
        return False
    if isinstance(pattern, str) and LOOKAROUND.search(pattern):
        return False
    if reference is not None and (len(node) > 1 or not DEFINITION_REFERENCE.fullmatch(str(reference))):
        return False
    if node.get("type") == "object":
        named = node.get("required")
        return node["additionalProperties"] is False and named is not None and {*node["properties"]} <= {*named}
    items = node.get("items")
    return node.get("type") != "array" or (isinstance(items, dict) and any(name in items for name in TYPE_FIELDS))


# ── walking ─────────────────────────────────────────────────────────────────────────────────────────────────


def _mapped(node: Any, change: Any) -> Any:
    """A schema with `change` made to it and to every schema inside of it."""
    if not isinstance(node, Mapping):
        return node
    copy = dict(node)
    for name, value in copy.items():
        if name in ("properties", "patternProperties", *DEFINITION_FIELDS) and isinstance(value, Mapping):
            copy[name] = {key: _mapped(each, change) for key, each in value.items()}
        elif name in (*UNIONS, "prefixItems") and isinstance(value, list):
            copy[name] = [_mapped(each, change) for each in value]
        elif name in ("items", "additionalProperties"):
            copy[name] = (
                [_mapped(each, change) for each in value] if isinstance(value, list) else _mapped(value, change)
            )
    return change(copy)


def _nodes(schema: Schema) -> list[Schema]:
    """A schema and every schema inside of it."""
    found: list[Schema] = []

    def note(node: Schema) -> Schema:
        found.append(node)
        return node

    _mapped(schema, note)
    return found


def _depth(node: Any) -> int:
    """How many objects stand inside of each other in a schema."""
    if isinstance(node, Mapping):
        return (node.get("type") == "object") + max(map(_depth, node.values()), default=0)
    return max(map(_depth, node), default=0) if isinstance(node, list) else 0
