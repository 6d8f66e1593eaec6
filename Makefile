# make setup    the environment .venv, every jar and the compiled models (the first time some minutes, then two seconds)
# make demo     the whole product on this machine, with a simulated fleet
# make test     what CI runs: lint, types, layers, tests
# make test-fast  what needs no JVM and takes no seconds, with a tenth of the random examples: about seven minutes on two cores
# make test-long  the tests that take too long for every change: replays in pieces, retention, savepoints
# make test-browser  the pages in a real Chromium, on what the jobs find; pictures go to docs/pictures
# make bench    throughput, replay, latency: tables and JSON
# make bench-peers    Flink, Bytewax, Quix Streams and river beside ours, in environments of their own (build/peers)
# make bench-million  a million gauges live: does each window's results come before the next one closes?
# make chaos    faults after a schedule (SEED=1 MINUTES=10), then every result against a run without faults of the same log
# make accuracy the detector on labelled data, beside baselines: one table (DATA=folder with data/ and score/)
# make lock     requirements/*.txt: every Python package by version and hash, after a change of pyproject.toml (PACKAGE=name upgrades one)
# make jar      app/embedded/own_jar.toml: the hash of the jar of our own Java classes, after a change of one of them
# make wheel    dist: the wheel, and requirements with which pip installs it and all that it needs, each by its hash
# make wheel-demo  the wheel in an environment and a folder of its own, and its demo until somebody was notified
# make sbom     what the product is made of, packages and jars: build/sbom.json, in the form of CycloneDX
# make docs     the pages that are generated from the code: docs/settings.md, docs/schemas, and the dashboard for Grafana
# make docs-site  the documents as a site, build/site: strict, so a link that leads nowhere is an error
# make lint     lint, types and layers alone;  make format  write the format
# make clean    remove what can be made again; data stay

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/kappa-setup
# By content, not by time: a fresh checkout gives every file a new time.
INPUTS := pyproject.toml requirements/build.txt requirements/dev.txt app/embedded/jars.toml app/embedded/ivy.xml

# What is installed has the hash that requirements/*.txt names, what it is built with included; of this folder there is none.
# This folder comes before its packages: pip would hold theirs against what it wanted when it was installed last, and print an error.
INSTALL = $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-build-isolation
LOCK = $(BIN)/uv pip compile --quiet --no-header --no-annotate --generate-hashes --universal --python-version 3.11 \
	$(if $(PACKAGE),--upgrade-package $(PACKAGE))

# Each process that a test starts, and each Python worker, would compile all modules again.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-fast test-long test-browser bench bench-peers bench-million chaos accuracy lock jar wheel wheel-demo sbom docs docs-site lint format clean

help:
	@sed -n 's/^# \(make .*\)/\1/p' Makefile

setup:
	@wanted=$$(cat $(INPUTS) | cksum); \
	if [ "$$(cat $(STAMP) 2>/dev/null)" = "$$wanted" ] && [ -x $(BIN)/python ]; then \
		$(BIN)/python -m app.embedded.jars && $(BIN)/python -m models; \
	else \
		$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
			echo "setup: $(PYTHON) is $$($(PYTHON) --version 2>&1 || echo missing), wanted Python 3.11 or newer:" \
				"make setup PYTHON=/path/to/python3" >&2; exit 1; }; \
		$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
			echo "setup: $(PYTHON) lacks the module venv: install it (Debian: python3-venv)" >&2; exit 1; }; \
		echo "setup: installing Python packages into $(VENV) (2 GB on disk, some minutes)" && \
		{ [ -x $(BIN)/python ] || $(PYTHON) -m venv $(VENV); } && \
		$(INSTALL) -r requirements/build.txt && $(INSTALL) --no-deps -e . && $(INSTALL) -r requirements/dev.txt && \
		$(BIN)/python -m app.embedded.jars && \
		$(BIN)/python -m models && \
		echo "$$wanted" > $(STAMP) && echo "setup: done"; \
	fi

demo: setup
	@$(BIN)/kappa demo

LINT = $(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/lint-imports
lint: setup
	$(LINT)

# Tests that share a Spark session; those of servers, of which a few have a Spark session for themselves; and all others: side by side, as each
# often waits. They begin beside lint, which uses one core.
KEPT := not long and not browser
SPARK := spark and not beside
SERVERS := stack and (beside or not spark)
BESIDE = $(BIN)/pytest -rs -p no:cacheprovider -m "$(KEPT) and $(1)" > build/tests-$(2).txt 2>&1 &
test: setup
	@mkdir -p build; $(call BESIDE,$(SERVERS),servers) servers=$$!; \
	$(call BESIDE,not spark and not stack,others) others=$$!; \
	trap 'kill -INT $$servers $$others 2> /dev/null && wait $$servers $$others' EXIT; \
	$(LINT) || exit; \
	$(BIN)/pytest -rs -m "$(KEPT) and $(SPARK)"; code=$$?; \
	wait $$servers; code=$$((code + $$?)); cat build/tests-servers.txt; \
	wait $$others; code=$$((code + $$?)); cat build/tests-others.txt; exit $$code

FAST := not spark and not stack and not slow and not long and not browser
test-fast: setup
	@$(BIN)/pytest -m "$(FAST)" --hypothesis-profile=fast -p no:cacheprovider tests/models & models=$$!; \
	$(BIN)/pytest -m "$(FAST)" --hypothesis-profile=fast -p no:cacheprovider tests/unit; unit=$$?; \
	wait $$models && exit $$unit

# And the properties once more, on examples that nobody has seen.
test-long: setup
	$(BIN)/pytest -m long
	$(BIN)/pytest -m "$(FAST)" --hypothesis-profile=random

test-browser: setup
	$(BIN)/pytest tests/browser -m browser --pictures docs/pictures

bench: setup
	$(BIN)/python -m benchmarks

bench-peers: setup
	$(BIN)/python -m benchmarks.peers

bench-million: setup
	$(BIN)/python -m benchmarks.million

chaos: setup
	@$(BIN)/python -m benchmarks.chaos --seed $(or $(SEED),1) --minutes $(or $(MINUTES),10)

accuracy: setup
	@$(BIN)/python -m benchmarks.accuracy $(if $(DATA),--data $(DATA))

lock:
	echo 'setuptools>=80' | $(LOCK) - -o requirements/build.txt
	$(LOCK) pyproject.toml -o requirements/run.txt
	$(LOCK) pyproject.toml --extra dev -o requirements/dev.txt -c requirements/run.txt
	$(LOCK) pyproject.toml --extra docs -o requirements/docs.txt -c requirements/dev.txt

jar: setup
	$(BIN)/python -m app.embedded.java_compiler .kappa/jars

# Setuptools takes over what an earlier build has left.
wheel: setup
	rm -rf dist build/lib build/bdist.*
	$(BIN)/python -m pip wheel --quiet --no-deps --no-build-isolation --no-index --wheel-dir dist .
	cp requirements/build.txt dist/build.txt
	@cd dist && wheel=$$(echo *.whl) && cp ../requirements/run.txt requirements.txt && \
		echo "./$$wheel --hash=sha256:$$(sha256sum $$wheel | cut -d' ' -f1)" >> requirements.txt && echo "dist/$$wheel"

wheel-demo: wheel
	@deploy/wheel_demo.sh dist $(BIN)/python

sbom: setup
	$(BIN)/python deploy/sbom.py build/sbom.json

docs: setup
	$(BIN)/python -m app.cli.settings_page
	$(BIN)/python -m app.cli.schema_files
	$(BIN)/python -m dashboards.grafana

docs-site: setup
	@$(INSTALL) -r requirements/docs.txt
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --quiet
	@echo build/site/index.html

format: setup
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache spark-warehouse
	find . -name __pycache__ -type d -not -path './$(VENV)/*' -prune -exec rm -rf {} +
