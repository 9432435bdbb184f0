"""Assesses commands of git: the programs that they run, the paths that they change, the work that they discard.

Only subcommands and settings that are known pass; another one may be an alias, or run a program.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from msgspec.structs import replace

from perdure.tools.shell_policy.facts import ChangesPath, CommandFact, RunsCode
from perdure.tools.shell_policy.lexer import UNKNOWN_MARK, Word, Words
from perdure.tools.shell_policy.options import (
    option_names,
    option_values,
    possible_options,
    split_options,
    split_permuted_options,
)
from perdure.tools.shell_policy.parser import Redirects
from perdure.tools.shell_policy.rules import RiskReason

_GLOBAL = (
    "-c: -C> -p -P --git-dir> --work-tree> --namespace: --exec-path? --config-env: --paginate --no-pager --bare "
    "--no-replace-objects --literal-pathspecs --glob-pathspecs --noglob-pathspecs --icase-pathspecs "
    "--no-optional-locks --no-lazy-fetch --no-advice --version --help --html-path --man-path --info-path -h -v"
)
# The options of any subcommand that run a program or write a file.
_RISKS = (
    "--upload-pack! --receive-pack! --exec! --extcmd! --open-files-in-pager! --ext-diff! --template! --tool! "
    "--unsafe-paths! ext::! --output> --output-directory> --export-marks> --separate-git-dir>"
)
_MORE_RISKS = {
    "archive": "-o>",
    "clone": "-u! -c:",
    "difftool": "-x! -t!",
    "format-patch": "-o>",
    "grep": "-O!",
    "mergetool": "-t!",
    "rebase": "-x!",
}
_COMMON_COMMANDS = """
    add am annotate apply archive bisect blame branch bundle cat-file check-attr check-ignore check-mailmap
    checkout checkout-index cherry cherry-pick clean clone commit commit-tree config count-objects describe diff
    diff-files diff-index diff-tree difftool fetch fmt-merge-msg for-each-ref format-patch fsck gc grep hash-object
    help init lfs log ls-files ls-remote ls-tree maintenance merge merge-base merge-file merge-tree mergetool mktag
    mktree mv name-rev notes pack-refs patch-id pull push range-diff read-tree rebase reflog remote repack
    request-pull rerere reset restore rev-list rev-parse revert rm shortlog show show-branch show-ref
    sparse-checkout stash status stripspace submodule switch symbolic-ref tag unpack-objects update-index
    update-server-info var verify-commit verify-pack verify-tag version whatchanged worktree write-tree"""
_HARMLESS_COMMANDS = frozenset(_COMMON_COMMANDS.split())
_HARMLESS_SETTINGS = re.compile(
    r"(?:user|color|advice|log|status|pull|rebase|rerere|fetch|init|column|i18n|gc|pack|http\.(?:postbuffer|version))\..*|"
    r"core\.(?:abbrev|autocrlf|bare|compression|eol|filemode|ignorecase|longpaths|precomposeunicode|quotepath|safecrlf|"
    r"symlinks|untrackedcache|whitespace)|(?:push|commit|merge|diff|tag)\.(?:default|autosetupremote|followtags|"
    r"verbose|conflictstyle|ff|algorithm|renames|colormoved|mnemonicprefix|noprefix|sort|gpgsign|forcesignannotated|stat)|"
    r"branch\..*\.(?:merge|remote|rebase)|remote\..*\.(?:url|fetch|pushurl)|safe\.directory|init\.defaultbranch|"
    r"submodule\.recurse|protocol\.version|feature\..*",
    re.IGNORECASE,
)
_EXECUTED_SETTINGS = re.compile(
    r"alias\..*|(?:core|pager)\..*pager|pager\..*|(?:core|sequence)\.editor", re.IGNORECASE
)
_TEMPLATE = re.compile(r"init\.templatedir|rebase\.instructionformat|gc\..*command", re.IGNORECASE)
_CONFIG = (
    "-f> -t: --file> --blob: --type: --default: --comment: --value: --url: --global --system --local --worktree"
)
_CONFIG_READS = {
    "-l",
    "--list",
    "--get",
    "--get-all",
    "--get-regexp",
    "--get-urlmatch",
    "--show-origin",
    "--show-scope",
}
_CHECKOUT = "-b: -B: --orphan: --conflict: --recurse-submodules? --track? -t? --pathspec-from-file:"
_PATHLIKE = re.compile(r"[*?\[]|^\.|^:|/$|\.[A-Za-z][A-Za-z0-9_]*$")


def git_facts(words: Words, _: Redirects) -> Iterator[CommandFact]:
    """What a command of git runs, changes and discards."""
    options, rest = split_options(words[1:], _GLOBAL)
    for setting in option_values(options, "-c"):
        yield from _setting_facts(setting, *setting.text.partition("=")[::2])
    if {"--exec-path", "--config-env"} & option_names([each for each in options if each[1]]):
        yield RiskReason.OPTION_PROGRAM
    yield from (ChangesPath(path) for path in option_values(options, "-C", "--git-dir", "--work-tree"))
    if not rest:
        return
    command, given = rest[0], rest[1:]
    if not command.known:
        yield RiskReason.UNKNOWN_WORDS
    elif command.text not in _HARMLESS_COMMANDS:
        yield RiskReason.RARE_COMMAND
    else:
        yield from _risk_facts(command.text, given)
        if command.text in _COMMANDS:
            yield from _COMMANDS[command.text](given)


def _risk_facts(command: str, given: Words) -> Iterator[CommandFact]:
    for option in possible_options(given, f"{_RISKS} {_MORE_RISKS.get(command, '')}"):
        if option.mark == "!":
            yield RiskReason.OPTION_PROGRAM
        elif option.mark == ">" and option.value:
            yield ChangesPath(option.value)


# ── settings ────────────────────────────────────────────────────────────────────────────────────────────────


def _setting_facts(word: Word, key: str, value: str) -> Iterator[CommandFact]:
    """A setting that is a command is read; one that is not known may be a command."""
    if UNKNOWN_MARK in key or word.splits:
        yield RiskReason.UNKNOWN_WORDS
    elif _EXECUTED_SETTINGS.fullmatch(key):
        code = (
            value[1:] if value.startswith("!") else f"git {value}" if key.lower().startswith("alias.") else value
        )
        yield RunsCode(replace(word, text=code))
    elif not _HARMLESS_SETTINGS.fullmatch(key) or _TEMPLATE.fullmatch(key) or value.startswith("ext::"):
        yield RiskReason.OPTION_PROGRAM


def _config(given: Words) -> Iterator[CommandFact]:
    options, rest = split_permuted_options(given, _CONFIG)
    if rest and rest[0].text in {"get", "list"}:
        return
    rest = rest[1:] if rest and rest[0].text == "set" else rest
    reads = option_names(options) & _CONFIG_READS or (len(rest) < 2 and not option_names(options) - {"--global"})
    if reads and not any(word.splits for word in given):
        return
    if option_names(options) & {"--global", "--system", "-e", "--edit"}:
        yield RiskReason.OUTSIDE
    yield from (ChangesPath(path) for path in option_values(options, "-f", "--file"))
    if rest:
        value = rest[1] if rest[1:] else rest[0]
        yield from _setting_facts(value, rest[0].text, value.text if rest[1:] else "")


# ── what is changed or discarded ────────────────────────────────────────────────────────────────────────────


def _clone(given: Words) -> Iterator[CommandFact]:
    options, rest = split_permuted_options(
        given, "-b: -o: -j: -c: --branch: --origin: --depth: --config: --reference:"
    )
    for setting in option_values(options, "-c", "--config"):
        yield from _setting_facts(setting, *setting.text.partition("=")[::2])
    yield from (ChangesPath(path) for path in rest[1:])


def _init(given: Words) -> Iterator[CommandFact]:
    yield from (ChangesPath(path) for path in split_permuted_options(given, "-b: --initial-branch:")[1])


def _worktree(given: Words) -> Iterator[CommandFact]:
    if given and given[0].text in {"add", "move"}:
        yield from (ChangesPath(path) for path in split_permuted_options(given[1:], "-b: -B: --reason:")[1])


def _bundle(given: Words) -> Iterator[CommandFact]:
    if given and given[0].text == "create":
        yield from (ChangesPath(path) for path in split_permuted_options(given[1:], "")[1][:1])


def _checkout(given: Words) -> Iterator[CommandFact]:
    """`git checkout` of paths discards what was changed in them; of a branch it does not."""
    options, rest = split_permuted_options(given, _CHECKOUT)
    starts = option_names(options) & {"-b", "--orphan"}
    paths = len(rest) > 1 or any(not word.known or _PATHLIKE.search(word.text) for word in rest)
    if "--pathspec-from-file" in option_names(options) or (paths and not starts):
        yield RiskReason.DISCARDS


def _restore(given: Words) -> Iterator[CommandFact]:
    names = option_names(split_permuted_options(given, "-s: -S -W --source: --conflict: --staged --worktree")[0])
    if not names & {"-S", "--staged"} or names & {"-W", "--worktree"}:
        yield RiskReason.DISCARDS


def _clean(given: Words) -> Iterator[CommandFact]:
    if not option_names(split_permuted_options(given, "-e: -n --exclude: --dry-run")[0]) & {"-n", "--dry-run"}:
        yield RiskReason.DISCARDS


_COMMANDS = {
    "bundle": _bundle,
    "checkout": _checkout,
    "clean": _clean,
    "clone": _clone,
    "config": _config,
    "init": _init,
    "restore": _restore,
    "worktree": _worktree,
}
