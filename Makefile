# Everything a developer runs. `make help` prints the lines that begin with two hashes.
# The first target that needs Python installs uv (when there is none), Python and all packages; nothing needs root.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# uv itself: the one on PATH, else one in the project folder.
UV := $(or $(shell command -v uv),.tools/uv/bin/uv)
RUN := $(UV) run --frozen
INSTALLED := .venv/.installed
# The environment of fast-agent-worker, which has a lock of its own. `pallas up` and the tests make it when they need it.
FAST_AGENT_WORKER := .tools/fast-agent-worker
# Engines of durable workflows, beside which pipelines are measured. Later versions of FastAPI break this one of Prefect.
DURABLE := .tools/durable/.installed
# The server for the same tools, beside which the fleet is measured.
FLEET_MCP := .tools/setup-fleet-mcp/.installed
# Chats beside which the console is measured.
CHAINLIT := .tools/chainlit/.installed
OPEN_WEBUI := .tools/open-webui/.installed
# What builds the documentation as a site.
MKDOCS := .tools/docs/.installed
# Where PYTHONDONTWRITEBYTECODE is set, each process would compile at its start all of ours that it imports.
COMPILE := $(RUN) python -m compileall -q -x node_modules shared services clients cli demo deploy tests
# Three groups of tests (tests/groups.py) at once on two cores, since most tests wait most of the time. The assertions that
# pytest compiles are kept for the next run, also where PYTHONDONTWRITEBYTECODE is set.
PYTEST := PYTHONDONTWRITEBYTECODE= $(RUN) pytest -n 3 --no-loadscope-reorder
# What `make test` runs with the same seed each time.
RANDOM_TESTS := $(addprefix tests/, integration/stale integration/turn_life integration/team_lifecycle/test_fuzz.py unit)
# Here, where no test's time runs out; what cannot be had fails the tests that need it and no other.
FETCH_TOOLS := $(RUN) python -m tests.debian_tools || true; $(RUN) python -m tests.deployment.charts || true
# The same for the environment of fast-agent-worker, with the bytecode of what its processes import.
FETCH_FAST_AGENT := $(RUN) python -c "import os; from pallas_cli.processes.fast_agent import fast_agent_python; \
	fast_agent_python(os.environ, print)" && \
	PYTHONDONTWRITEBYTECODE= $(FAST_AGENT_WORKER)/bin/python -m fast_agent_worker.programs.fork_server < /dev/null > /dev/null || true

# Everything that the wheels need, with versions and hashes of the lock file, as CycloneDX.
SBOM := $(UV) export --quiet --frozen --no-dev --all-packages --format cyclonedx1.5

.PHONY: help dist install ready lint style types fmt check test tools fast-agent suite integration e2e conformance bench open-webui chaos up demo docs gen secrets sim

## help         print this list
help:
	@sed -n 's/^## /  make /p' $(MAKEFILE_LIST)

## install      install uv, Python 3.13 and all packages of the lock, where they are missing
install: ready

ready: $(INSTALLED)
	@$(COMPILE)

## up           start everything, send a first turn, stay until Ctrl-C (options: make up ARGS="--workers 2")
up: ready
	@$(RUN) pallas up $(ARGS)

## demo         the same without staying
demo: ready
	@$(RUN) pallas up --demo $(ARGS)

## lint         lint, format and types
lint: style types

style: $(INSTALLED)
	$(RUN) ruff check
	$(RUN) ruff format --check

types: $(INSTALLED)
	$(RUN) pyright
	@if [ -x $(FAST_AGENT_WORKER)/bin/python ]; then $(RUN) pyright -p services/fast-agent-worker; \
	else echo "types of fast-agent-worker are not checked: its packages are not installed"; fi

## test         lint, format, documents, then the whole suite with the types beside it; ends with the slowest 20 tests
test: ready
	@$(MAKE) -j4 style docs tools fast-agent
	@$(MAKE) -j2 types suite

tools: $(FLEET_MCP)
	@$(FETCH_TOOLS)

fast-agent: $(INSTALLED)
	@$(FETCH_FAST_AGENT)

suite:
	@$(PYTEST) --durations 20 $(ARGS)

## check        the quick subset: lint, format, types, unit and contract tests
check: ready lint
	@$(FETCH_TOOLS)
	@$(PYTEST) tests/unit tests/contract $(ARGS)

## integration  one adapter or service at a time against real servers
integration: ready
	@$(PYTEST) tests/integration $(ARGS)

## e2e          the public surface of a whole stack
e2e: ready
	@$(PYTEST) tests/e2e $(ARGS)

## conformance  the official MCP conformance suites (downloaded with npm the first time)
conformance: ready $(FLEET_MCP)
	@$(PYTEST) tests/conformance $(ARGS)

## bench        measure against other servers, side by side; results go to bench/results/
bench: ready $(DURABLE) $(FLEET_MCP) $(CHAINLIT)
	@$(RUN) --group bench python -m tests.bench $(ARGS)

## open-webui   install open-webui (7 GB), which make bench then measures as well
open-webui: $(OPEN_WEBUI)

## sim          workers started and stopped by load as KEDA would, three minutes; results go to bench/results/
sim: ready
	@$(RUN) --group bench python -m tests.sim.scale

## chaos        calls in a storm of killed processes, then the log is checked (make chaos ARGS="--seed 7"); random tests
chaos: ready
	@$(RUN) python -m tests.chaos $(ARGS)
	@PALLAS_TEST_CONVERSATIONS=50 PALLAS_TEST_TURNS=20 $(RUN) pytest -q tests/integration/fast_agent_worker/test_isolation.py
	@PALLAS_TEST_LOOKUPS=10000 PALLAS_TEST_SEED=$${PALLAS_TEST_SEED:-$$RANDOM} $(RUN) pytest $(RANDOM_TESTS)

## secrets      make the secrets of compose and Kubernetes that are missing, in deploy/secrets
secrets: $(INSTALLED)
	@$(RUN) python -m deploy.make_secrets

## fmt          put the code into its format and fix what can be fixed
fmt: $(INSTALLED)
	$(RUN) ruff check --fix
	$(RUN) ruff format

## docs         build the documentation as a site, and check its links; open .tools/docs/site/docs/index.html
docs: $(MKDOCS)
	@.tools/docs/env/bin/python docs/site/build.py

## dist         wheels of all packages in dist/, with a list of all that they need (SBOM); they install without a checkout
dist: $(INSTALLED)
	@$(UV) build --all-packages --wheel --out-dir dist --clear
	@$(SBOM) --output-file dist/pallas.cdx.json

## gen          write the generated documents, schemas and Helm templates again
gen: $(INSTALLED)
	@$(RUN) python -m pallas_contracts.generate
	@$(RUN) python -m deploy.observability.generate
	@$(RUN) python -m pallas_cli.reference
	@$(RUN) python -m docs.site.reference
	@$(RUN) python -m deploy.helm.generate

$(DURABLE): $(INSTALLED)
	@$(UV) venv --quiet --clear --python .venv/bin/python $(@D)
	@$(UV) pip install --quiet --python $(@D) dbos==3.4.0 langgraph==1.2.22 langgraph-checkpoint-sqlite==3.1.2 \
		prefect==3.8.8 fastapi==0.139.0
	@touch $@

$(FLEET_MCP): $(INSTALLED)
	@$(UV) venv --quiet --clear --python .venv/bin/python $(@D)
	@$(UV) pip install --quiet --python $(@D) setup-fleet-mcp==0.12.1
	@touch $@

$(MKDOCS): $(INSTALLED)
	@$(UV) venv --quiet --clear --python .venv/bin/python $(@D)/env
	@$(UV) pip install --quiet --python $(@D)/env mkdocs-material==9.8.1
	@touch $@

$(CHAINLIT): $(INSTALLED)
	@$(UV) venv --quiet --clear --python .venv/bin/python $(@D)
	@$(UV) pip install --quiet --python $(@D) chainlit==2.12.0
	@touch $@

# It does not run on a later Python. Compiled here, since each start would do it where PYTHONDONTWRITEBYTECODE is set.
$(OPEN_WEBUI): $(INSTALLED)
	@$(UV) venv --quiet --clear --python 3.11 $(@D)
	@$(UV) pip install --quiet --compile-bytecode --python $(@D) open-webui==0.12.4 torch==2.13.0
	@touch $@

# Not synced exactly: `make bench` adds packages that need not be removed again.
$(INSTALLED): $(UV) uv.lock pyproject.toml .python-version $(wildcard shared/*/pyproject.toml services/*/pyproject.toml clients/*/pyproject.toml) cli/pyproject.toml demo/pyproject.toml $(wildcard redis-server/*.*)
	@$(UV) sync --frozen --inexact --compile-bytecode
	@touch $@

.tools/uv/bin/uv:
	@./bootstrap
