# `make` alone lists what there is. Everything runs from .venv, which the targets install first.
.DEFAULT_GOAL := help
.PHONY: coverage tokens outage help demo up test check format install install-run migration-check quality readme-figures fairness schemas settings lock clean

BIN := .venv/bin
# They wait more than they compute, so five do on two cores; `make test WORKERS=0` runs them in one process. In their
# own order the long ones come first, and the short ones fill up the end.
WORKERS ?= 5
SPREAD = -n $(WORKERS) --dist loadscope --no-loadscope-reorder
# What `make faults` was asked for, where it was: the words that a failing storm prints.
FAULTS_ASKED = $(if $(SEED),--seed $(SEED)) $(if $(DATABASE),--database $(DATABASE)) $(if $(REDIS),--redis $(REDIS)) \
	$(if $(FAULTS),--faults $(FAULTS)) $(if $(EVENTS),--events $(EVENTS)) \
	$(if $(LATE_AGAIN),--late-again)

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: install-run ## Play three conversations through the whole pipeline, and show what is remembered
	@$(BIN)/takeaways demo

up: install-run ## The same pipeline as a server that stays: Redis, both pools, one data folder
	@$(BIN)/takeaways up

test: check ## All checks, then all tests
	@$(BIN)/pytest $(SPREAD) --durations 10

coverage: install ## All tests with coverage, which takes half as long again: build/coverage.xml
	@$(BIN)/pytest $(SPREAD) --cov --cov-report term --cov-report xml:build/coverage.xml

check: install ## Lint, format, types, import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: install ## Put imports and layout right
	$(BIN)/ruff check --fix-only --quiet .
	$(BIN)/ruff format .

quality: install ## Score what is remembered on LoCoMo, and what the pipeline itself loses (DATA=folder)
	@$(BIN)/python -m benchmarks.quality $(if $(DATA),--data $(DATA))
	@$(BIN)/python -m benchmarks.memory_quality $(if $(DATA),--data $(DATA))

readme-figures: install ## Put the figures of the last `make quality` into the README
	@$(BIN)/python -m benchmarks.readme_figures

tokens: install ## Count the tokens sent for each token of a LoCoMo conversation (DATA=folder)
	@$(BIN)/python -m benchmarks.tokens $(if $(DATA),--data $(DATA))

outage: install ## Let the model's provider fail for a minute in every way, and count what is lost and asked twice
	@$(BIN)/python -m benchmarks.outage

fairness: install ## Measure what one hot agent costs 1,000 quiet ones
	@$(BIN)/python -m benchmarks.fairness

faults: install ## Kill, freeze, cut off and fill up everything under load, and check what was promised (SEED=n replays)
	@$(BIN)/python -m tests.faults --control $(FAULTS_ASKED)

faults-long: install ## Every combination of databases and servers, with new seeds, for SECONDS (default an hour)
	@$(BIN)/python -m tests.faults --control --for-seconds $(or $(SECONDS),3600) $(FAULTS_ASKED)

schemas: install ## Write the JSON Schemas of the wire from the models
	@$(BIN)/python -m takeaways.schemas.wire

settings: install ## Write docs/settings.md from the settings in the code
	@$(BIN)/python -m takeaways.workers.settings.page docs/settings.md

migration-check: install ## Do the migrations make the tables that the code names? (both databases)
	@$(BIN)/pytest -q tests/integration/test_migrations.py

lock: ## Write requirements/*.txt again from pyproject.toml (UPGRADE=1: newest versions; needs uv)
	@scripts/lock.sh

install: ## Install everything into .venv, if that has not been done
	@scripts/install.sh dev

install-run:
	@scripts/install.sh run

clean: ## Remove .venv, caches and what was built
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .coverage coverage.xml
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
