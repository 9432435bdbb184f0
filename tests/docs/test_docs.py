"""The documentation tells the truth: whatever it names is there, and what can be generated is.

Drives `config`, `core/states` and `web/routes`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from perdure import __version__, errors
from perdure.config import SECTIONS, SETTINGS_BY_KEY, load_settings
from perdure.core.logins import SCOPE_MEANINGS
from perdure.core.recovery.decision import InterruptionReason, RecoveryChoice
from perdure.core.roles import DEFAULT_TOOLS_BY_ROLE, RIGHT_MEANINGS, Role, ToolRights, has_right
from perdure.core.states import FINAL_STATES, INITIAL_STATE, TURN_MOVES
from perdure.settings import DURATION_EXPECTED
from perdure.web.api.metrics import METRIC_FAMILIES
from support.markdown import ROOT, Page, page, pages
from support.openapi_check import all_api_calls
from support.promises import counts

SOURCE = ROOT / "src" / "perdure"
NUMBERED = re.compile(r"(\d{4})-[a-z0-9-]+")

every_page = pytest.mark.parametrize("each", pages(), ids=str)


def named(pattern: str, each: Page) -> set[str]:
    """What a page names in its code, by a pattern with one group."""
    return {found for code in each.code() for found in re.findall(pattern, code)}


# ── generated parts ─────────────────────────────────────────────────────────────────────────────────────────


def settings() -> str:
    """The reference of the settings."""
    lines: list[str] = []
    for key, setting in SETTINGS_BY_KEY.items():
        if f"## `[{setting.section}]`" not in lines:
            lines += ["", f"## `[{setting.section}]`", "", str(SECTIONS[setting.section].cls.__doc__), ""]
            lines += ["| key | default | expected | meaning |", "|---|---|---|---|"]
        kind = "a duration" if setting.expected == DURATION_EXPECTED else setting.expected
        lines.append(f"| `{key}` | {_default(setting.default)} | {kind} | {setting.description} |")
    return "\n".join([*lines, ""])


def _default(default: str) -> str:
    return default if default == "none" or default.startswith("a ") else f"`{default}`"


def turn() -> str:
    lines = ["```mermaid", "stateDiagram-v2", f"    [*] --> {INITIAL_STATE}"]
    for state, moves in TURN_MOVES.items():
        lines += [f"    {state} --> {to}: {move}" for move, to in moves.items()]
        if state in FINAL_STATES:
            lines.append(f"    {state} --> [*]")
    return "\n".join([*lines, "```"])


def roles() -> str:
    """What each role may do."""
    shown: list[Role] = ["guest", "member", "owner"]
    lines = [f"| | {' | '.join(shown)} |", f"|---|{'---|' * len(shown)}"]
    for verb, meaning in RIGHT_MEANINGS.items():
        lines.append(f"| {meaning} | {' | '.join('yes' if has_right(role, verb) else '' for role in shown)} |")
    return "\n".join(lines)


KINDS_OF_TOOLS = {
    "ask back: `clarify`": ["clarify"],
    "run commands: `shell`, `process`": ["shell", "process"],
    "use files: `read_file`, `write_file`, `edit_file`, `search_files`, `send_file`": [
        *("read_file", "write_file", "edit_file", "search_files", "send_file"),
    ],
    "read the web: `fetch_url`": ["fetch_url"],
    "use tools of MCP servers, of packages and your own": ["files_list", "any_other_name"],
}


def tools_by_role() -> str:
    """Which kind of tool is for whom by default."""
    shown: list[Role] = ["guest", "member", "owner"]
    rights = [ToolRights(role, tuple(DEFAULT_TOOLS_BY_ROLE[role])) for role in shown]
    lines = ["| the agent may, in a turn of | a guest | a member | an owner |", f"|---|{'---|' * len(shown)}"]
    for kind, names in KINDS_OF_TOOLS.items():
        cells = ["yes" if all(map(each.allows, names)) else "" for each in rights]
        assert all(cell or not any(map(each.allows, names)) for cell, each in zip(cells, rights, strict=True))
        lines.append(f"| {kind} | {' | '.join(cells)} |")
    return "\n".join(lines)


def routes() -> str:
    """What can be asked over HTTP."""
    words = {"api": "yes", "page": "page", "no": "no"}
    lines = [
        f"| `{row.method} {row.documented_path}` | {words[row.login]} | {row.scope or ''} | {row.summary} |"
        for row in all_api_calls()
    ]
    return "\n".join(["| call | login | scope | answer |", "|---|---|---|---|", *lines])


def scopes() -> str:
    """What each scope of a login is for."""
    lines = [f"| `{scope}` | {meaning} |" for scope, meaning in SCOPE_MEANINGS.items()]
    return "\n".join(["| scope | what it lets a login do |", "|---|---|", *lines])


def metrics() -> str:
    """The figures for Prometheus."""
    lines = [f"| `{name}` | {kind} | {meaning} |" for name, (kind, meaning) in METRIC_FAMILIES.items()]
    return "\n".join(["| name | kind | meaning |", "|---|---|---|", *lines])


def module_list() -> str:
    """Every module with the first line of its docstring, by room."""
    lines: list[str] = []
    for path in (each for each in modules() if each.endswith(".py")):
        room = path.rpartition("/")[0] or "perdure"
        if f"## `{room}`" not in lines:
            lines += ["", f"## `{room}`", ""]
            if (package := SOURCE / room / "__init__.py").exists():
                lines += [_first_line(package), ""]
            lines += ["| module | what it holds |", "|---|---|"]
        lines.append(f"| `{path}` | {_first_line(SOURCE / path)} |")
    return "\n".join([*lines, ""])


def _first_line(path: Path) -> str:
    """The first line of a module's docstring, read as text: parsing hundreds of modules takes longer."""
    found = re.match(r'"""(.*?)(?:"""|\n)', path.read_text())
    return (found[1] if found else "").replace("|", "\\|")


GENERATED: list[tuple[str, str, Callable[[], str]]] = [
    ("docs/configuration.md", "settings", settings),
    ("docs/architecture.md", "turn", turn),
    ("docs/modules.md", "modules", module_list),
    ("docs/promises.md", "counts", counts),
    ("docs/people.md", "roles", roles),
    ("docs/people.md", "tools", tools_by_role),
    ("docs/http.md", "calls", routes),
    ("docs/http.md", "scopes", scopes),
    ("docs/operations.md", "metrics", metrics),
]


@pytest.mark.parametrize(("name", "region", "render"), GENERATED, ids=[region for _, region, _ in GENERATED])
def test_generated_part_is_what_its_source_says(name: str, region: str, render: Callable[[], str]) -> None:
    found, fresh = page(name), page(name).rendered(region, render())
    if os.environ.get("PERDURE_WRITE_DOCS"):
        found.path.write_text(fresh)
    assert found.text == fresh, f"{name} is out of date; CONTRIBUTING.md says how to write it anew"


# ── what pages name ─────────────────────────────────────────────────────────────────────────────────────────


@every_page
def test_links_lead_somewhere(each: Page) -> None:
    for target in each.links():
        if "://" in target:
            continue
        path, _, anchor = target.partition("#")
        there = Page((each.path.parent / path).resolve() if path else each.path)
        assert there.path.exists(), f"{each} links to {target}"
        assert not anchor or anchor in there.anchors(), f"{each} links to {target}: no such heading"


def test_new_names_of_what_was_renamed_are_in_the_source() -> None:
    source = "\n".join(path.read_text() for path in SOURCE.rglob("*.py"))
    words = set(re.findall(r"\w+", source))
    rows = re.findall(r"^\| `[^`]+` \| (.+) \|$", page("docs/renamed.md").text, re.MULTILINE)
    assert [name for row in rows for name in re.findall(r"`(\w+)`", row) if name not in words] == []


@every_page
def test_make_targets_exist(each: Page) -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert named(r"\bmake ([a-z]+)", each) <= targets


def commands(*prefix: str) -> set[str]:
    """The commands that the command line says it has."""
    shown = subprocess.run(
        [sys.executable, "-m", "perdure", *prefix, "--help"], capture_output=True, text=True, check=True
    )
    return set(re.findall(r"^  ([a-z]+) ", shown.stdout.partition("Commands:")[2], re.MULTILINE))


def test_commands_exist() -> None:
    known, of_config = commands(), commands("config")
    for each in pages():
        assert named(r"(?:^|[ /])perdure ([a-z]+)", each) <= known, f"{each} names a command that is not there"
        assert named(r"\bperdure config ([a-z]+)", each) <= of_config, f"{each}: no such `config` command"


@every_page
def test_settings_exist(each: Page) -> None:
    keys = named(rf"^((?:{'|'.join(map(re.escape, SECTIONS))})\.[a-z_]+)$", each)
    variables = named(r"\bPERDURE_([A-Z_]+?__[A-Z_]+)", each)
    assert keys | {name.lower().replace("__", ".") for name in variables} <= set(SETTINGS_BY_KEY)


@every_page
def test_examples_of_configuration_are_accepted(each: Page, tmp_path: Path) -> None:
    for example in each.blocks("toml"):
        (tmp_path / "config.toml").write_text(example)
        assert load_settings(tmp_path, {}) != load_settings(tmp_path / "without", {}), (
            "the example changes nothing"
        )


def test_exit_codes_are_those_of_the_errors() -> None:
    rows = re.findall(r"^\| (\d+) \|.*\|([^|]*)\|$", page("docs/operations.md").text, re.MULTILINE)
    told = {int(code): set(re.findall(r"`(\w+)`", names)) for code, names in rows}
    known: dict[int, set[str]] = {}
    for name, error in vars(errors).items():
        if isinstance(error, type) and issubclass(error, errors.PerdureError) and not error.__subclasses__():
            known.setdefault(getattr(error, "exit_code", 1), set()).add(name)
    known.pop(1)
    assert {code: names for code, names in told.items() if names} == known
    assert set(told) == {0, 1, 2, 75} | set(known)


# ── the architecture ────────────────────────────────────────────────────────────────────────────────────────


def modules() -> list[str]:
    """Every file of ours, by its path in the package; of a room's own file, only one that holds code."""
    files = sorted([*SOURCE.rglob("*.py"), *SOURCE.rglob("*.sql")])
    return [str(path.relative_to(SOURCE)) for path in files if path.name != "__init__.py" or _holds_code(path)]


def _holds_code(path: Path) -> bool:
    return re.search(r"^(class|def|async def) ", path.read_text(), re.MULTILINE) is not None


def test_architecture_names_only_modules_that_exist() -> None:
    assert named(r"^([\w/]+\.(?:py|sql))$", page("docs/architecture.md")) <= set(modules())


def test_architecture_names_every_decision_and_reason() -> None:
    told = set(page("docs/architecture.md").code())
    assert {str(word) for word in (*RecoveryChoice, *InterruptionReason)} <= told


# ── records ─────────────────────────────────────────────────────────────────────────────────────────────────


def test_decision_records_are_numbered_without_gaps_and_have_three_parts() -> None:
    records = [each for each in pages() if each.path.parent.name == "adr"]
    numbers = [int(found[1]) for each in records if (found := NUMBERED.fullmatch(each.path.stem))]
    assert numbers == list(range(1, len(records) + 1))
    for number, each in zip(numbers, records, strict=True):
        assert each.text.startswith(f"# {number}. "), f"{each} has another number in its title"
        assert {"context", "decision", "consequences"} <= each.anchors(), f"{each} lacks a part"


def test_changelog_begins_with_this_version() -> None:
    newest = re.search(r"^## (\S+)", page("CHANGELOG.md").text, re.MULTILINE)
    assert newest is not None
    assert newest[1] == __version__.removesuffix(".dev0")
