# Penstock. `make` alone prints this list.
SHELL := /bin/bash
PYTHON ?= python3
BIN := .venv/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help setup demo test soak fast docs lint fmt bench clean

help:             ## print these lines
	@grep -hE '^[a-z]+: .*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /make \1\t/' | expand -t 14

setup: .venv/.java .venv/.jars ## set everything up: Java, a virtual environment, the jars; a second run costs nothing

demo: setup       ## real brokers and stores, trades, a killed driver that comes back; ends by itself, KEEP=1 stays up
	@$(BIN)/python examples/demo.py

test: setup .venv/.postgresql .venv/.chromium ## every test, with real brokers, stores and a browser
	@$(BIN)/python -m pytest -q -n 2 --dist loadfile --no-loadscope-reorder tests

soak: setup       ## a hundred times SIGKILL and a million records; about an hour
	@$(BIN)/python -m pytest -q -s -m soak tests

fast: .venv/.installed ## the tests that start no Spark
	@$(BIN)/python -m pytest -q tests/unit

docs: .venv/.installed ## the guide as static HTML in build/docs, and a manual page in build/man
	@$(BIN)/python -m sphinx -q -W --keep-going -d build/doctrees -b html docs build/docs
	@$(BIN)/python -m sphinx -q -W --keep-going -d build/doctrees -b man docs build/man
	@echo "build/docs/index.html"

lint: .venv/.installed ## ruff, mypy and the layers
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports

fmt: .venv/.installed ## format, and mend what can be mended
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix .

bench: setup      ## speed, as ratios against hand-written Spark in the same run
	@$(BIN)/python -m benchmarks

clean:            ## remove the virtual environment and what runs have left here
	rm -rf .venv .penstock build

.venv/.java: .venv/.installed
	@if ! command -v java >/dev/null && [ -z "$$JAVA_HOME" ]; then \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo "installing Java 17"; apt-get update -q && apt-get install -y -q --no-install-recommends openjdk-17-jre-headless; \
	  else echo "Java 17 is needed: install openjdk-17-jre-headless (or set JAVA_HOME) and run make again" >&2; exit 1; fi; fi
	@$(BIN)/python -c 'from penstock.java import find_java; find_java()' 2>&1 | tail -1
	@touch $@

.venv/.postgresql: .venv/.installed
	@if ! ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 && ! command -v initdb >/dev/null; then \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo "installing PostgreSQL"; apt-get update -q && apt-get install -y -q --no-install-recommends postgresql; \
	  else echo "the tests need PostgreSQL: install the package postgresql and run make again" >&2; exit 1; fi; fi
	@touch $@

.venv/.chromium: .venv/.installed
	@if ! command -v chromium >/dev/null; then \
	  if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	    echo "installing Chromium"; apt-get update -q && apt-get install -y -q --no-install-recommends chromium fonts-dejavu-core; \
	  else echo "the tests of the page need Chromium: install chromium and run make again" >&2; exit 1; fi; fi
	@touch $@

.venv/.locked: requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10) and "Python 3.10 or later is needed, this is " + sys.version)'
	@$(PYTHON) -m venv .venv
	@echo "installing Python packages (the first time takes a few minutes: pyspark is 450 MB)"
	@$(BIN)/python -m pip install --require-hashes -r requirements.lock
	@touch $@

.venv/.installed: .venv/.locked pyproject.toml
	@$(BIN)/python -m pip install -q --no-deps --no-build-isolation -e .
	@touch $@

.venv/.jars: .venv/.installed .venv/.java src/penstock/jars/jars.lock
	@$(BIN)/penstock jars fetch >/dev/null
	@$(BIN)/penstock jars warm >/dev/null
	@touch $@
