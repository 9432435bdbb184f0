"""The programs that the policy knows by their options, those that only read, and what to make of all others."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise

from msgspec.structs import replace

from perdure.tools.shell_policy.facts import ChangesPath, CommandFact, MentionsPath, RunsFile, SetsVariable
from perdure.tools.shell_policy.lexer import UNKNOWN_MARK, Word, Words, base_name
from perdure.tools.shell_policy.options import (
    option_kinds,
    option_values,
    possible_options,
    split_permuted_options,
)
from perdure.tools.shell_policy.rules import RiskReason

# Programs that change nothing, whatever they are given, except by options of `PROGRAM_OPTIONS`.
_READING_PROGRAMS = """
    : [ [[ test true false echo printf cd pushd popd dirs pwd exit return break continue shift times umask ulimit
    jobs fg bg disown wait set shopt unset read getopts type hash logout caller suspend unalias alias local declare
    typeset export readonly trap eval source . let history ls dir vdir cat tac head tail more grep egrep fgrep
    zgrep zcat bzcat xzcat zstdcat zdiff bzgrep xzgrep wc cut tr nl rev fold fmt pr paste join expand unexpand
    column comm cmp diff diff3 sdiff md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum cksum sum base32
    base64 basenc od hexdump hd strings size nm objdump readelf file stat du df free ps pgrep pidof pstree top htop
    uptime w who whoami id groups users logname last lastlog uname arch nproc lscpu lsblk lsusb lspci lsmod lsof
    lsns findmnt getconf getent locale localectl hostnamectl timedatectl tty stty tput date cal ncal sleep seq yes
    factor expr numfmt tsort basename dirname realpath readlink pathchk which whereis whatis apropos printenv
    vmstat iostat mpstat netstat ss ping traceroute tracepath dig nslookup host whois jq xq tree look cloc tokei
    exa eza bat batcat colordiff delta man info tldr help bc units ldd c++filt addr2line lsb_release apt-cache
    dpkg-query ldconfig-p sync clear reset cowsay figlet fortune sha3sum xxhsum ag ack rg fd fdfind find xargs"""
READERS = frozenset(_READING_PROGRAMS.split())

# The options of programs that run or load other programs, or write files; `options` explains the marks. A program
# without `<` may change what its operands name, so that none of them may lie outside.
_PROGRAM_OPTIONS = """
    # archives
    tar gtar bsdtar = < -C> -F! -I! -P! -f: -b: -g> -T: -X: -V: -N: -K: -H: -L: --directory> --checkpoint?
        --checkpoint-action! --to-command! --use-compress-program! --info-script! --new-volume-script!
        --rsh-command! --rmt-command! --absolute-names! --listed-incremental> --index-file> --volno-file>
        --one-top-level> --remove-files! --recursive-unlink! --files-from: --file:
    zip = -TT! --unzip-command! -m! --move! -T -b> --temp-path> -O> --out> --output-file> -lf> --logfile-path> -x:
        -i: -P:
    unzip = < -d> -x: -P:
    7z 7za 7zr = -o> -sdel! -w>
    ar = --plugin!
    split = --filter! --additional-suffix: -n: -l: -b: -C: -a: -t:
    gzip gunzip bzip2 xz zstd lz4 csplit unrar cpio pax = -o> -D: -F> --rsh-command!
    # texts
    sort = < -o> --output> --compress-program! -T> --temporary-directory> -k: -t: -S: --files0-from: --parallel:
        --key: --field-separator: --buffer-size: --batch-size:
    shuf = < -o> --output> -n: -i: -e
    tree = < -o> -L: -P: -I: -H: -T:
    uniq = -f: -s: -w:
    xxd = -l: -s: -c: -g: -n: -o:
    iconv = < -o> --output> -f: -t:
    rg = < --pre! --hostname-bin! --pre-glob: -e: -f: -g: -t: -A: -B: -C: -m: -r: -T: -j: -M: -d: -E:
    ag = < --pager!
    ack = < --pager! --ackrc! --output:
    grep zgrep = < -e: -f: -A: -B: -C: -m: -d: -D:
    bat batcat = < --pager! --map-syntax: --diff
    delta = < --pager! --config!
    diff = < --to-file: --from-file:
    sdiff = < -o> --output> --diff-program!
    diff3 = < --diff-program!
    date = < -s! --set! -d: -f: -r: --date: --file: --reference:
    hostname = -f -i -I -s -d -A -a -y
    file = < -C! --compile! -m! --magic-file! -f: -e: -F: -P:
    history = < -w! -a! -r! -n! -c! -s! -p!
    dmesg = < -n: -l: -f: -F: --console-on! --console-off! -D! -E!
    man = < -P! --pager! -H! --html! -C! --config-file! -M: -S: -s: -L: -m: -e: -l: -r! -X? -E: -R:
    less zless = < -o> -O> --log-file> --LOG-FILE> -k! --lesskey-file! --lesskey-src! --lesskey-content! +!
    more = < +!
    info = < -o> --output> --restore! --init-file!
    patch = -o> -d> -r> -i< -e! --ed! -B> --output> --directory> --reject-file> --input< -p: -D: -F: -V: -Y: -z:
    ctags = -o> -f> --options! --output-format:
    pandoc = -o> --output> -F! --filter! -L! --lua-filter! --pdf-engine! --log> --extract-media> -f: -t: -r: -w:
        -M: -V:
    tex latex pdflatex xelatex lualatex pdftex luatex = -shell-escape! --shell-escape! -enable-write18!
        --enable-write18! -output-directory> --output-directory> --lua! -halt-on-error -interaction:
    # editors
    vi vim nvim view vimdiff rvim gvim = -c! -S! -s! -u! -U! -w> -W> -q! -i! -T: --cmd! --startuptime>
        --luamod-dev! -l! -es! +!
    emacs = --eval! --execute! -l! --load! -f! --funcall! --script! --insert: -x! -q -Q -nw --batch
    nano = -s! --speller! -C> --backupdir>
    # networks
    curl = < -o> -D> -c> -K! -A: -b: -d: -e: -E: -F: -H: -m: -T: -u: -w: -x: -X: -C: -r: -t: -y: -Y: -z: --output>
        --output-dir> --dump-header> --cookie-jar> --config! --trace> --trace-ascii> --stderr> --libcurl>
        --etag-save> --hsts> --alt-svc> --engine! --unix-socket! --abstract-unix-socket! --cookie: --data:
        --trace-time --trace-ids --cert: --header: --head
    wget = < -O> -P> -o> -a> -e! --output-document> --directory-prefix> --output-file> --append-output>
        --save-cookies> --warc-file> --warc-tempdir> --hsts-file> --rejected-log> --use-askpass! --config!
        --execute! -U: -t: -T: -Q: -i: -A: -R: -D: -I: -X: -l: -w: --output-
    aria2c = < -d> -o> -l> --dir> --out> --log> --conf-path! --on-download-complete! --on-download-start!
        --on-download-error! --on-bt-download-complete! --on-download-pause! --on-download-stop! --save-session>
    http https = < -o> --output> -d --download --session: --check-status
    rsync = < -e! -M! -T> -f: -B: --rsh! --rsync-path! --remote-option! --log-file> --temp-dir> --partial-dir>
        --backup-dir> --write-batch> --only-write-batch> --daemon! --config! --copy-dest: --link-dest:
        --compare-dest:
    nc ncat netcat = < -e! -c! --exec! --sh-exec! --lua-exec! -o> --output> --hex-dump> -w: -s: -p: -q: -i: -x: -X:
        -I: -O: -T: -P:
    nmap = < --script! -sC! -A! -oN> -oX> -oG> -oA> -oS> -iL: --datadir! --servicedb! --stylesheet: --interactive!
        -p: -T?
    tcpdump = < -z! -w> -r: -F: -i: -c: -s: -C: -G: -W: -Z: -E: -y: -V:
    tshark dumpcap = < -w> -X! -i: -f: -r: -Y: -T: -e:
    openssl = -out> -keyout> -engine! -provider! -provider-path! -config! -writerand> -CAcreateserial! -in< -inkey<
        -CAfile< -CApath< -cert< -key<
    gpg gpg2 = -o> --output> --homedir! --options! --photo-viewer! --agent-program! --dirmngr-program!
        --gpg-agent-program! --keyserver-options: --delete-key! --delete-keys! --delete-secret-key!
        --delete-secret-keys! --yes --batch --exec-path! --logger-file> --status-file> -r: -u:
    ssh-keygen = -f> -D! -w! -s> -t: -b: -C: -N: -P: -O: -Z: -I: -n: -V: -l -R! -K!
    ssh-add = -s! -S!
    ftp = <
    mail mailx = < -S! -:! -A: -s: -c: -b: -a:
    mutt = -e! -F! -s: -a: -c: -b:
    # builders
    gcc cc c++ clang clang++ g++ gfortran tcc icc nvcc = < -o> -B! -wrapper! -fplugin! -specs! --specs! -MF>
        -Xclang! -load! -fuse-ld! --ld-path! -dumpdir> -D: -I: -L: -l: -x: -isystem: -include: -U: -W? -f? -m? -O?
        -g? -std: -s -c -S -E -v -pipe -shared -static -pthread
    ld gold lld ld.bfd ld.gold ld.lld = < -o> -plugin! --plugin! -Map> -L: -l: --output>
    as = < -o> -I: --MD>
    make gmake = -E! --eval! -f: -C: -I: -j? -l? -o: -W: -O? --file: --makefile: --directory: --include-dir:
        --old-file: --what-if:
    cmake = -P! -E! -C! -D? -B> -S: -G: -U: -T: -A: --build> --install> --toolchain! --trace-redirect> --preset:
        --prefix> --profiling-output> --open!
    ctest = -S! -SP! --script! --build-and-test! -O> --output-log> --output-junit> -R: -E: -L: -j: -C: -D: -I:
    ninja = -C> -f: -j: -k: -l: -t! -d: -w:
    meson = --native-file! --cross-file! --native! --cross! -C>
    configure = < --cache-file>
    go = -toolexec! -exec! -vettool! -o> -overlay! -modfile> --toolexec! --exec! -coverprofile> -cpuprofile>
        -memprofile> -trace> -outputdir> -C> -ldflags: -gcflags: -tags: -run: -timeout:
    cargo = --config! --target-dir> --root> --manifest-path: --path: -Z!
    rustc = < -o> -C! -Z! --out-dir> --codegen! --extern: -L: -l: --edition: --crate-type: --crate-name: --sysroot!
    java = < -javaagent! -agentlib! -agentpath! -XX! -Xrun! -cp: -classpath: -jar:
    javac = -d> -s> -h> -processor! -processorpath! --processor-path! -Xplugin! -cp: -classpath: -J!
    mvn mvnw = -f: -s! -gs! -t! -l> --settings! --global-settings! --log-file>
    gradle gradlew = -I! --init-script! -g! --gradle-user-home! -p: -b:
    npm pnpm yarn = --script-shell! --node-options! --prefix> --globalconfig! --userconfig! --shell! -C> --cache:
        --dir>
    pip pip3 uv pipx poetry pdm hatch rye conda mamba = -t> --target> --root> --prefix> --src> --log> --report>
        --cache-dir: --python! -r: -c: -e: -i: -f:
    pytest = < --basetemp> --junitxml> --junit-xml> --log-file> --pdbcls! --debug? --pastebin! --cov-report: -p:
        -k: -m: -n: -c: -o: -W: -r?
    tox nox ruff mypy black isort flake8 pylint pyright eslint prettier tsc jest vitest vite webpack rollup rustfmt
        rustup gofmt bundle gem rake rails composer dotnet swift zig bazel ant sbt just task terraform tofu helm
        alembic flask django-admin uvicorn gunicorn celery twine coverage sphinx-build mkdocs = --plugin!
        --plugins! --rulesdir! --resolve-plugins-relative-to! --init-hook! --load-plugins! --output-file> --output>
    # systems
    apt apt-get aptitude = < -o! -c! --option! --config-file! -t:
    dpkg rpm yum dnf zypper pacman apk brew snap flatpak = --root> --admindir> --instdir> --pre-invoke!
        --post-invoke! --hookdir! --config! --installroot> --define! -D! --eval! --pipe! -E!
    journalctl systemctl loginctl coredumpctl = < --pager!
    hg svn cvs = --config! --config-option! --config-dir! --editor-cmd! --diff-cmd! --merge-cmd! --diff3-cmd!
        --rsh! --ssh! -e!
    ip gh glab ps = <
    # databases
    psql = < -o> -L> --output> --log-file> -c: -d: -f: -h: -p: -U: -v: -F: -P: -R: -T:
    mysql mariadb = < --pager! --tee> --init-command! --plugin-dir! --defaults-file! --defaults-extra-file!
        --default-auth! -e: -u: -p? -h: -P: -D: -S:
    sqlite3 sqlite duckdb = -init! --init! -A! -vfs! --vfs! -unsigned!
    redis-cli = < --eval! --rdb> --pipe -h: -p: -a: -n: -u:
    pg_dump pg_dumpall mysqldump mongodump = -f> --file> --out> -o> -r> --result-file> -h: -U: -p:
"""


def _parse_table(text: str) -> dict[str, str]:
    """The options of each program of a text in which deeper lines continue the line above."""
    lines = [line for line in text.replace("\n        ", " ").splitlines() if "=" in line]
    entries = [line.split(" = ") for line in lines]
    return {name: table for names, table in entries for name in names.split()}


PROGRAM_OPTIONS = _parse_table(_PROGRAM_OPTIONS)

# Names of programs that are ordinary words of other programs: `foo install`.
_WORDS = """
    . : [ [[ at batch build command declare ex exec export fetch ftp go http https info init install ip let link
    local mail make mount patch pip printf r read readonly screen script service source split test time trap tree
    type uniq unset wait watch"""
_COMMON_WORDS = frozenset(_WORDS.split())
_TARS = frozenset({"tar", "gtar", "bsdtar"})
_TAR_WRITES = re.compile(r"-[A-Za-z]*[cruA].*|--(?:cr|ap|up|cat|conc|del).*")
_SHELL_SYNTAX = re.compile(r"[;&|<>`$()\n]")
_VERSION = re.compile(r"[-.0-9]+$")
_LATER_PROGRAM = re.compile(r"(?:^|[;&|(`!=:,%\n])\s*([\w./+-]+)")
_RUNNING_OPTION = re.compile(
    r"--?(?:[\w-]+-)?(?:exec|execute|eval|expr|command|cmd|program|pager|editor|rsh|askpass|preload|wrapper|launcher|shell"
    r"|hook)(?:-[\w-]+)?(?:=.*)?",
    re.DOTALL,
)
_CODE_OPTION = re.compile(r"-[beEcrx]")  # which evaluates what follows, in many programs
_CODE_SYNTAX = re.compile(r"[();`$!]")
_DESTROYING_WORD = re.compile(
    r"(?:--?[\w-]*|[\w-]+:)?(?:delete|destroy|erase|nuke|purge|terminate|uninstall|wipe)(?:[A-Z-][\w-]*|duplicates)?(?:=.*)?",
    re.DOTALL,
)
_SYSTEM_FOLDERS = ("/bin/", "/sbin/", "/usr/", "/opt/", "/snap/", "/nix/")


def program_name(path: str) -> str:
    """The name of a program as the tables have it, without path and version."""
    name = base_name(path)
    return name if name in PROGRAM_OPTIONS or name in READERS else _VERSION.sub("", name) or name


def is_installed_path(path: str) -> bool:
    """Whether a program is called by its name alone, or from a folder of the system."""
    return "/" not in path or path.startswith(_SYSTEM_FOLDERS)


def program_facts(name: str, words: Words) -> Iterator[CommandFact]:
    """What a program of `PROGRAM_OPTIONS` does."""
    table = PROGRAM_OPTIONS[name]
    if name in _TARS:
        if any(UNKNOWN_MARK in word.text for word in words[1:2]):
            yield RiskReason.UNKNOWN_WORDS  # its letters are options, also without a dash
        words = _dashed_letters(words, option_kinds(table))
        written = any(_TAR_WRITES.fullmatch(word.text) for word in words[1:])
        table = f"{table} -f> --file>" if written else table
    elif name in {"make", "gmake"}:
        yield from _make_facts(words, table)
    yield from option_facts(words, table)


def _dashed_letters(words: Words, kinds: dict[str, str]) -> Words:
    """The words of `tar xfC a b` as those of `tar -x -f a -C b`."""
    if not words[1:] or words[1].text.startswith("-") or not words[1].known:
        return words
    first, rest, found = words[1], list(words[2:]), list[Word]()
    for letter in first.text:
        found += [replace(first, text=f"-{letter}"), *(rest[:1] if kinds.get(f"-{letter}") else ())]
        rest = rest[1:] if kinds.get(f"-{letter}") else rest
    return [words[0], *found, *rest]


def _make_facts(words: Words, table: str) -> Iterator[CommandFact]:
    """A makefile may put the values of its variables into commands; `-f -` is a makefile that cannot be seen."""
    options, rest = split_permuted_options(words[1:], table)
    yield from (RunsFile(file) for file in option_values(options, "-f", "--file", "--makefile"))
    for word in (each for each in rest if "=" in each.text):
        name = word.text.partition("=")[0].rstrip(":?+!")
        yield SetsVariable(replace(word, text=f"{name}={word.text.partition('=')[2]}"))
        if _SHELL_SYNTAX.search(word.text):
            yield RiskReason.UNKNOWN_CODE


def option_facts(words: Words, table: str) -> Iterator[CommandFact]:
    """What the options of a program of `PROGRAM_OPTIONS` run, load and write, and the paths that it is given."""
    kinds, given = option_kinds(table), list(words[1:])
    if "!" in kinds.values() and any(word.splits or word.text.startswith(f"-{UNKNOWN_MARK}") for word in given):
        yield RiskReason.UNKNOWN_WORDS
    read = set[int]()
    for option in possible_options(given, table):
        if option.mark == "!" or (option.mark == ">" and option.value and option.value.text[:1] in {"|", "!"}):
            yield RiskReason.OPTION_PROGRAM
        elif option.mark == ">" and option.value and option.value.text != "-":
            yield ChangesPath(option.value)
        elif option.mark == "<":
            read.add(option.value_position)
    if kinds.get("") != "<":
        yield from (MentionsPath(word) for at, word in enumerate(given) if at not in read)


def unknown_program_facts(words: Words, listed: frozenset[str]) -> Iterator[CommandFact]:
    """What a program may do that is in no table: run a listed program that it is given, or change a path."""
    if not is_installed_path(words[0].text):
        yield MentionsPath(words[0])
    for before, word in pairwise(words):
        code = _CODE_OPTION.fullmatch(before.text) and _CODE_SYNTAX.search(word.text)
        if code or _RUNNING_OPTION.fullmatch(word.text):
            yield RiskReason.OPTION_PROGRAM
        elif _DESTROYING_WORD.fullmatch(word.text):
            yield RiskReason.REMOVES
        yield from passed_word_facts(_option_value(word), listed)
        yield MentionsPath(word)


def passed_word_facts(word: Word, listed: frozenset[str]) -> Iterator[CommandFact]:
    """What may become of a word that a program gets for an unknown purpose: a listed program in it may be run."""
    if any(names_program(found, listed) for found in _LATER_PROGRAM.findall(word.text)):
        yield RiskReason.PASSED_PROGRAM


def names_program(text: str, listed: frozenset[str]) -> bool:
    name = base_name(text)
    return name not in _COMMON_WORDS and (name in listed or _VERSION.sub("", name) in listed)


def _option_value(word: Word) -> Word:
    """The value in a word such as `--run=value`, or the word itself."""
    return replace(word, text=word.text.partition("=")[2]) if word.text.startswith("--") else word
