# Two commands do everything on a machine that has Python 3.11+ and make:
#   make demo   makes .venv, installs Advisor, diagnoses a real log that ships with it
#   make test   makes .venv with the development tools and runs the whole test suite
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
LOG    := tests/fixtures/logs/qwen35-hybrid-default.log

.PHONY: demo test lint format docs clean

demo: $(VENV)/.installed
	$(BIN)/advisor diagnose $(LOG)

test: $(VENV)/.developing
	$(BIN)/python -m pytest -q -n auto --dist loadgroup

lint: $(VENV)/.developing
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/advisor rules docs docs/rules --check
	$(BIN)/python tools/write_report_schema.py --check

format: $(VENV)/.developing
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: $(VENV)/.installed
	$(BIN)/advisor rules docs docs/rules

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip

$(VENV)/.installed: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet -e .
	$(BIN)/python -m compileall -q advisor
	touch $@

$(VENV)/.developing: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --group dev -e '.[verify]'
	$(BIN)/python -m compileall -q advisor
	touch $(VENV)/.installed $@

clean:
	rm -rf $(VENV) dist build .pytest_cache .mypy_cache .ruff_cache
