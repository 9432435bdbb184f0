"""Command lines of the kinds that need approval, made from kinds, programs and ways to spell and wrap them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from itertools import product

PREFIXES = [
    "", "sudo ", "sudo -u ada -- ", "doas ", "command ", "builtin ", "exec ", "env ", "env A=1 B=2 ", "nohup ",
    "nice ", "nice -n 10 ", "timeout 5 ", "timeout -k 1 -s KILL 5 ", "time ", "/usr/bin/time -v ", "stdbuf -oL ",
    "setsid -f ", "busybox ", "A=1 ", ">log ", "2>&1 ", "xargs ", "xargs -0r -n1 ", "uv run ", "strace -f -o log ",
    "ionice -c3 ", "flock lock ", "! ", "if ", "true; ", "true && ", "true | ", "true &\n", "# no\n",
]  # fmt: skip

AROUND = {
    "sh -c": "sh -c {quoted}",
    "bash -lc": "bash -lc {quoted}",
    "bash with options": "/bin/bash -euo pipefail -c {quoted} name",
    "env and sh": "env -i A=1 sh -c {quoted}",
    "sh in sh": "sh -c {twice}",
    "eval": "eval {quoted}",
    "ssh": "ssh -i key host {quoted}",
    "trap": "trap {quoted} EXIT",
    "watch": "watch -n 5 {quoted}",
    "xargs and sh": "ls | xargs -I% sh -c {quoted}",
    "find and sh": "find . -exec sh -c {quoted} \\;",
    "a container": "docker exec -u root web sh -c {quoted}",
    "a here-document": "sh <<'END-OF-IT'\n{line}\nEND-OF-IT\n",
    "a here-string": "bash <<< {quoted}",
    "a pipe": "true | (\n{line}\n)",
    "a subshell": "(\n{line}\n)",
    "a group": "{{\n{line}\n}}",
    "a substitution": "echo $(\n{line}\n)",
    "a substitution in quotes": 'echo "a $(\n{line}\n) b"',
    "a substitution in a here-document": "cat <<END-OF-IT\n$(\n{line}\n)\nEND-OF-IT\n",
    "backquotes": "echo `{backquoted}\n`",
    "an assignment": "x=$(\n{line}\n)",
    "a default": "echo ${{x:-$(\n{line}\n)}}",
    "a process": "cat <(\n{line}\n)",
    "a condition": "if true\nthen\n{line}\nfi",
    "a loop": "for i in 1 2\ndo\n{line}\ndone",
    "a loop with a condition": "while\n{line}\ndo\ntrue\ndone",
    "a case": "case x in\nx)\n{line}\n;;\nesac",
    "a function": "f() {{\n{line}\n}}\nf",
    "what follows": "true\n{line}\ntrue",
}


def around(form: str, line: str) -> str:
    escaped = "".join(f"\\{char}" if char in "\\`$" else char for char in line)
    quoted = shlex.quote(line)
    twice = shlex.quote(f"sh -c {quoted}")
    return form.format(line=line, quoted=quoted, twice=twice, backquoted=escaped)


def _words(text: str) -> list[str]:
    return text.split()


# ── kinds of lines ──────────────────────────────────────────────────────────────────────────────────────────

OUTSIDE = ["/etc/x", "../x", "~/x", "/tmp/../etc/x", "sub/../../x", "//etc/x"]

# Programs with operands, and their options that run the program which stands in them.
RUNNING_OPTIONS = {
    "tar -cf a.tar src": "-F -I --to-command --checkpoint-action --use-compress-program --info-script "
    "--rsh-command --new-volume-script --rmt-command",
    "split big": "--filter",
    "sort names": "--compress-program",
    "zip a.zip src": "-TT --unzip-command",
    "make all": "-E --eval",
    "rsync a b": "-e -M --rsh --rsync-path --remote-option",
    "scp host:a .": "-S -F -oProxyCommand= -oLocalCommand=",
    "ssh host ls": "-F -I -oProxyCommand= -oKnownHostsCommand=",
    "curl https://example.org": "-K --config --engine",
    "wget https://example.org": "-e --execute --use-askpass --config",
    "man ls": "-P -H -C --pager --html --config-file",
    "vim notes": "-c -S -u --cmd",
    "emacs notes": "-l -f --eval --load --funcall --execute",
    "tcpdump": "-z",
    "nmap host": "--script --datadir",
    "gcc a.c": "-B -wrapper -fplugin -specs --specs -fuse-ld",
    "ld a.o": "-plugin --plugin",
    "cmake": "-P -E -C --toolchain",
    "go test": "-exec -toolexec -vettool",
    "cargo build": "--config",
    "rg name": "--pre --hostname-bin",
    "pandoc a.md": "-F -L --filter --lua-filter --pdf-engine",
    "apt-get update": "-o -c --option --config-file",
    "hg status": "--config",
    "svn status": "--config-option --editor-cmd --diff-cmd",
    "openssl version": "-engine -provider -config",
    "mysql shop -e 'select 1'": "--pager --init-command --plugin-dir",
    "sqlite3 a.db .tables": "-init -A",
    "git fetch origin": "--upload-pack",
    "git push origin": "--receive-pack --exec",
    "git clone a b": "-u --upload-pack --template",
    "git init": "--template",
    "git grep name": "-O --open-files-in-pager",
    "git ls-remote origin": "--upload-pack --exec",
    "git rebase main": "-x --exec",
    "git difftool": "-x --extcmd",
    "git archive HEAD": "--exec",
    "journalctl -n 5": "--pager",
    "node a.js": "-r -e --require --import --eval --loader",
    "ruby a.rb": "-r -e",
    "perl a.pl": "-e -E -d:",
    "python a.py": "-c",
    "php a.php": "-r -d -z",
    "java Main": "-javaagent: -agentlib: -agentpath:",
    "less notes": "-k --lesskey-src",
    "mvn test": "-s --settings",
    "gradle test": "-I --init-script",
}
# Interpreters take only the options that stand before their script.
LEADING_OPTIONS = frozenset({"node", "ruby", "perl", "python", "php", "ssh"})
# Long options with one dash, and those of these programs, have no abbreviations.
UNABBREVIATED = frozenset(
    {"node", "go", "gcc", "openssl", "sqlite3", "java", "curl", "vim", "man", "cmake", "cargo", "rg"}
)

WRITING_OPTIONS = {
    "tar -xf a.tar": "-C -g --directory --listed-incremental --index-file",
    "sort names": "-o -T --output --temporary-directory",
    "shuf names": "-o --output",
    "tree": "-o",
    "curl https://example.org": "-o -D -c --output --output-dir --dump-header --cookie-jar --trace --stderr",
    "wget https://example.org": "-O -P -o -a --output-document --directory-prefix --output-file --append-output",
    "unzip a.zip": "-d",
    "rsync a b": "-T --log-file --temp-dir --partial-dir --backup-dir --write-batch",
    "patch": "-o -d -r --output --directory --reject-file",
    "gcc a.c": "-o",
    "go build": "-o",
    "iconv names": "-o --output",
    "pandoc a.md": "-o --output",
    "cp a": "-t --target-directory",
    "mv a": "-t --target-directory",
    "install a": "-t --target-directory",
    "git diff": "--output",
    "git log": "--output",
    "git format-patch -1": "-o --output-directory",
    "git archive HEAD": "-o --output",
    "tcpdump": "-w",
    "pytest": "--basetemp --junitxml --log-file",
    "pip install a": "-t --target --root --prefix",
    "openssl rand 9": "-out",
    "nmap host": "-oN -oX",
    "/usr/bin/time ls": "-o --output",
    "strace ls": "-o",
    "psql -c 'select 1'": "-o -L --output --log-file",
    "pg_dump shop": "-f --file",
}
LEADING_WRITERS = frozenset({"/usr/bin/time", "strace"})

LOADING_VARIABLES = _words(
    """
    PATH LD_PRELOAD LD_LIBRARY_PATH LD_AUDIT PYTHONPATH PYTHONSTARTUP PYTHONHOME PERL5LIB PERL5OPT RUBYOPT
    RUBYLIB NODE_OPTIONS NODE_PATH TAR_OPTIONS GIT_CONFIG_COUNT GIT_CONFIG_KEY_0 GIT_CONFIG_GLOBAL
    GIT_CONFIG_PARAMETERS GIT_DIR GIT_EXEC_PATH GIT_TEMPLATE_DIR MAKEFLAGS MAKEFILES BASH_ENV ENV SHELLOPTS
    BASHOPTS PS4 SHELL HOME XDG_CONFIG_HOME CDPATH JAVA_TOOL_OPTIONS CLASSPATH GOFLAGS RUSTFLAGS CARGO_HOME
    LUA_INIT LUA_PATH R_PROFILE_USER JULIA_LOAD_PATH DOTNET_STARTUP_HOOKS PHPRC PHP_INI_SCAN_DIR OPENSSL_CONF
    GCONV_PATH LESSKEY ZIPOPT GREP_OPTIONS WGETRC CURL_HOME PIP_INDEX_URL npm_config_script_shell
    ANSIBLE_CONFIG KUBECONFIG GNUPGHOME INPUTRC VIMINIT EXINIT EMACSLOADPATH
    """
)
EXPORTED_VARIABLES = _words(
    """
    MAVEN_OPTS SBT_OPTS FROB_OPTIONS FROB_FLAGS FROB_HOME FROBPATH FROB_PRELOAD FROBRC
    """
)
COMMAND_VARIABLES = _words(
    """
    PAGER GIT_PAGER MANPAGER EDITOR VISUAL GIT_EDITOR GIT_SSH_COMMAND GIT_EXTERNAL_DIFF BROWSER SSH_ASKPASS
    LESSOPEN RSYNC_RSH CC RUSTC_WRAPPER PROMPT_COMMAND KUBE_EDITOR CMAKE_C_COMPILER_LAUNCHER
    """
)
EXPORTING_FORMS = [
    "{name}={value} ls", "export {name}={value}", "env {name}={value} ls", "declare -x {name}={value}",
    "env -i A=1 {name}={value} ls", "A=1 {name}={value} make", "export A=1 {name}={value}",
]  # fmt: skip
SETTING_FORMS = [
    *EXPORTING_FORMS, "{name}={value}", "readonly {name}={value}", "{name}+={value}", "read -r {name} < notes",
    "for {name} in {value}; do ls; done", ": ${{{name}:={value}}}", "make {name}={value}",
]  # fmt: skip

EVALUATED_LATER = [
    "alias {name}=ls", "alias a=ls {name}=ls", "echo $(({name}))", "echo $((1 + {name} * 2))",
    "echo $((${name}))", "{name}=$(({name}+1))", "echo ${{{name}@P}}", 'echo "${{{name}@P}}"',
    "echo ${{!{name}}}", "echo ${{{name}:{name}}}", "echo ${{{name}[{name}]}}", "printf -v {name} %s ls",
    "printf -v{name} ls", "let {name}=1", "declare -i {name}=a", "declare -n {name}=a", "typeset -n {name}=a",
    "local -n {name}=a", "unset '{name}[a]'", "{name}[a]=1", "read '{name}[a]'", "test -v '{name}[a]'",
    '[ -v "${name}" ]', "(({name}++))", "echo $[{name}]", "mapfile -C ls {name}", "enable -f ./{name} a",
    "shopt -s expand_aliases", "set -k", "set -o keyword", 'eval "${name}"', 'trap "${name}" EXIT',
    "cat <<E\n$(({name}))\nE", 'export "${name}"', 'declare "${name}=1"', "hash -p ./{name} ls",
    "complete -C ./{name} ls", "bind -x ./{name}", "wait '{name}[a]'", "getopts ab '{name}[a]'",
    "coproc ls {name}", "select {name} in a; do ls; done", "set -a; {name}=1", "source <(echo {name})",
    ". /dev/stdin",
]  # fmt: skip

GIT_DESTRUCTION = {
    "push": "--force -f --mirror --delete -d --prune --force-with-lease +main :main --force-if-includes",
    "reset": "--hard --merge --keep",
    "clean": "-f -d -x --force",
    "checkout": "-f --force -B --ours --theirs .",
    "switch": "-f -C --force --discard-changes --force-create",
    "restore": "notes.txt . --worktree --source=HEAD~1",
    "branch": "-D -M -f --force",
    "tag": "-d -f --delete --force",
    "stash": "drop clear",
    "reflog": "expire delete",
    "gc": "--prune --prune=now",
    "rm": "-f --force",
    "mv": "-f --force",
    "worktree remove a": "-f --force",
    "remote": "remove rm prune",
    "submodule": "foreach",
    "submodule deinit a": "-f --force",
    "read-tree": "--reset -u",
    "checkout-index": "-f --force",
    "bisect": "run",
    "update-ref": "-d a",
    "filter-branch": "--all",
    "replace": "a",
    "fast-import": "--force",
}
GIT_PREFIXES = [
    "git", "git -C sub", "git --no-pager", "git -c color.ui=never", "/usr/bin/git",
    "git -C sub -c user.name=a -P",
]  # fmt: skip
GIT_RUNNING_SETTINGS = _words(
    """
    core.fsmonitor core.sshCommand core.hooksPath core.askPass core.gitProxy core.attributesFile core.worktree
    diff.external diff.a.command diff.a.textconv filter.a.clean filter.a.smudge filter.a.process
    merge.a.driver mergetool.a.cmd difftool.a.cmd credential.helper credential.https://a.helper gpg.program
    gpg.ssh.program sendemail.smtpServer uploadpack.packObjectsHook remote.a.uploadpack remote.a.receivepack
    remote.a.vcs protocol.ext.allow init.templateDir sequence.editor.a interactive.diffFilter browser.a.cmd
    man.a.cmd trailer.a.command include.path includeIf.a.path submodule.a.update url.ext::a.insteadOf
    http.proxy http.sslKey receive.procReceiveRefs guitool.a.cmd
    """
)

HIDING_WRAPPERS = [
    "setarch x86_64", "setarch -R", "linux32", "linux64", "setpriv --reuid=0",
    "start-stop-daemon --start --exec", "capsh --user=me --", "/lib64/ld-linux-x86-64.so.2",
    "ld-linux-aarch64.so.1 --preload ./a.so", "/lib/ld-musl-x86_64.so.1", "prlimit --nofile=9", "numactl -N 0",
    "ltrace -f", "valgrind -q", "faketime yesterday", "eatmydata", "dbus-run-session", "xvfb-run -a", "tini --",
    "dumb-init", "gosu me", "unshare -r", "nsenter -t 1", "chroot .", "runuser -u me --", "su-exec me", "proot",
    "bwrap --bind / /", "firejail", "choom -n 5 --", "cpulimit -l 5 --", "chrt -o 0", "taskset 1", "perf stat",
    "conda run -n a", "poetry run", "uv run", "uv --directory a run", "npm exec --", "pnpm exec", "yarn run",
    "npm x", "bunx", "bundle exec", "direnv exec .", "ssh-agent", "systemd-run", "systemd-inhibit", "sg me",
    "frobnicate",
    "frobnicate -x 5", "./frobnicate", "frobnicate --", "frobnicate a b", "cgexec -g a", "rlwrap", "ccache",
    "torsocks", "doas", "pkexec", "strace", "fakeroot", "parallel", "entr", "at now", "run0", "aa-exec",
    "ip netns exec a",
]  # fmt: skip


KEYWORDS = frozenset({"coproc", "select", "for", "in", "do", "done"})


def option_spellings(option: str, value: str, *, abbreviates: bool = True, flag: str = "v") -> list[str]:
    """The ways in which a program understands an option with a value."""
    if option.endswith(("=", ":")):  # such as `-oProxyCommand=`
        return [f"{option}{value}"]
    if option.startswith("--"):
        shorter = (
            [option[:length] for length in range(max(len(option) - 3, 6), len(option))] if abbreviates else []
        )
        return [f"{each}{sign}{value}" for each in (option, *shorter) for sign in "= "]
    if len(option) > 2:
        return [f"{option} {value}", f"{option}={value}"]
    return [f"{option} {value}", f"{option}{value}", f"-{flag}{option[1]}{value}", f"-{flag}{option[1]} {value}"]


def option_lines(table: dict[str, str], values: list[str], leading: frozenset[str]) -> Iterator[str]:
    """Every option of a table in every spelling, before and behind the other words of its program."""
    for command, options in table.items():
        program, _, rest = command.partition(" ")
        first, *others = rest.split(" ") if program == "git" else ("", rest)
        for option, value in product(options.split(), values):
            flag = "q" if program == "psql" else "v"  # an option without a value, to stand before it in a word
            for spelling in option_spellings(option, value, abbreviates=program not in UNABBREVIATED, flag=flag):
                yield " ".join(filter(None, (program, first, spelling, *others)))
                if program not in leading:
                    yield f"{command} {spelling}"


def git_destruction() -> Iterator[str]:
    for git, (command, words) in product(GIT_PREFIXES, GIT_DESTRUCTION.items()):
        for word in words.split():
            yield f"{git} {command} {word}"
            yield f"{git} {command} {word} a"


def git_settings() -> Iterator[str]:
    for setting in GIT_RUNNING_SETTINGS:
        yield f"git -c {setting}=./mine status"
        yield f"git -C sub -c user.name=a -c {setting}=./mine fetch"
        yield f"git config {setting} ./mine"
        yield f"git config --add {setting} ./mine"
        yield f"git clone -c {setting}=./mine a b"
        yield f"git clone --config={setting}=./mine a b"
        yield f"git --config-env={setting}=MINE status"


def variable_lines() -> Iterator[str]:
    for name, form in product(LOADING_VARIABLES, SETTING_FORMS):
        yield form.format(name=name, value="./mine")
    for name, form in product(EXPORTED_VARIABLES, EXPORTING_FORMS):
        yield form.format(name=name, value="./mine")
    for name, form in product(COMMAND_VARIABLES, EXPORTING_FORMS):
        yield form.format(name=name, value="'rm -rf build'")


def unknown_variable_lines() -> Iterator[str]:
    """Variables that nobody knows, with a path outside or a program that does harm."""
    values = [*OUTSIDE, "'rm -rf build'", "'a; kill 1'", "a:/etc", "'sh -c ls'", "/bin/dd"]
    for name, value, form in product(["GOBIN", "FROB_TARGET", "TMPDIR", "x"], values, EXPORTING_FORMS):
        yield form.format(name=name, value=value)


def unknown_program_lines() -> Iterator[str]:
    for path in OUTSIDE:
        yield from (
            f"frobnicate{each}{path}" for each in (" ", " a ", " --log=", " --log ", " -o ", " -o", " a=", " -- ")
        )
    for program in (
        "rm",
        "sh",
        "python3",
        "git",
        "/bin/rm",
        "xargs",
        "env",
        "curl",
        "kill",
        "node",
        "perl",
        "dd",
        "mv",
    ):
        yield from (
            f"frobnicate{each}{program} a" for each in (" ", " a ", " --run=", " --run ", " -x ", " -- ", " a=")
        )
        yield from (
            f"frobnicate {each}" for each in (f"'{program} a'", f"'true; {program} a'", f'"--do={program} a"')
        )
    yield from (
        f"frobnicate --{each} ./mine"
        for each in ("exec", "command", "pager", "pre-command", "shell", "eval=a", "hook", "python-expr")
    )
    for option, code in product(("-e", "-c", "-x", "-b", "-r"), ("'f(1)'", "'a; b'", "'$x'", "'!a'")):
        yield f"frobnicate {option} {code}"
        yield f"frobnicate -q {option} {code} notes"
    for word in (
        "delete",
        "destroy",
        "purge",
        "wipe",
        "apps:destroy",
        "--delete",
        "-deleteduplicates",
        "--erase-all",
    ):
        yield from (
            f"frobnicate {each}" for each in (word, f"apps {word} a", f"a {word}", f"{word}=a"[: len(word) + 2])
        )


def gnu_lines() -> Iterator[str]:
    """Programs as macOS calls those of GNU."""
    for line in (
        "rm -rf build",
        "mv a /etc/x",
        "dd of=/dev/sda",
        "find . -delete",
        "tar -xf a -C /etc",
        "tee /etc/x",
    ):
        yield from (
            f"{prefix}g{line}" for prefix in ("", "sudo ", "env A=1 ", "gtimeout 5 ", "gnice ", "genv A=1 ")
        )
    yield from (
        f"g{wrapper} rm -rf build" for wrapper in ("timeout 5", "nice", "env", "xargs", "nohup", "stdbuf -oL")
    )
    yield from (
        f"g{line}" for line in ("chmod -R 777 /", "cp a ~/x", "ln -s a ../x", "shred a", "truncate -s 0 /etc/x")
    )
    yield from (f"gsed -i s/a/b/ {path}" for path in OUTSIDE)


def lines_of_all_kinds() -> dict[str, list[str]]:
    """The lines of every kind, each of which needs approval."""
    return {
        "a program in an option": list(option_lines(RUNNING_OPTIONS, ["./mine"], LEADING_OPTIONS)),
        "a write outside by an option": list(option_lines(WRITING_OPTIONS, OUTSIDE[:4], LEADING_WRITERS)),
        "a variable that loads code": list(variable_lines()),
        "what is evaluated later": [
            form.format(name=name) for form in EVALUATED_LATER for name in ("x", "PATH_2", "_")
        ],
        "destruction by git": list(git_destruction()),
        "a setting of git": list(git_settings()),
        "an unknown program": list(unknown_program_lines()),
        "an unknown variable": list(unknown_variable_lines()),
        "a wrapper": [f"{each} rm -rf build" for each in HIDING_WRAPPERS],
        "a program of GNU by its other name": list(gnu_lines()),
    }


def quoted_otherwise(word: str, way: int) -> str:
    """The same word for a shell, with other quotes; keywords, assignments and odd words stay as they are."""
    if not re.fullmatch(r"[A-Za-z0-9/._=-]{2,}", word) or "=" in word.split("-")[0] or word in KEYWORDS:
        return word
    middle = len(word) // 2
    return [
        word,
        f"'{word}'",
        f'"{word}"',
        f"{word[:middle]}''{word[middle:]}",
        f"{word[:middle]}'{word[middle:]}'",
        f"\\{word}",
        f"{word[:middle]}\\\n{word[middle:]}",
        f'{word[:1]}"{word[1:]}"',
    ][way]
