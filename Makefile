# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
export OPENBLAS_NUM_THREADS := 1

.PHONY: install demo docs test check slow clean

install: $(STAMP)

$(STAMP): requirements.txt pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -r requirements.txt
	$(BIN)/python -m pip install --quiet --no-deps -e .
	touch $(STAMP)

demo: install
	$(BIN)/pacoh demo --out demo

docs: install
	$(BIN)/sphinx-build -E -W --keep-going -n -q -b html docs build/docs

check: install
	$(BIN)/ruff check src tests benchmarks examples docs/*.py
	$(BIN)/ruff format --check src tests benchmarks examples docs/*.py
	$(BIN)/pyright
	$(BIN)/lint-imports

test: check
	$(BIN)/pytest -n 2 -m "not slow"
	bash tests/wheel.sh $(BIN)/python

slow: install
	$(BIN)/pytest -n 2 -m slow

clean:
	rm -rf $(VENV) demo dist build
