# make demo: see a verdict. make test: run the suite. Everything lives in .venv, which scripts/bootstrap.py makes.
PYTHON ?= $(firstword $(foreach name,python3 python3.13 python3.12 python3.11,$(shell command -v $(name))) python3)
BIN = .venv/bin

.PHONY: demo test long lint bench lock env test-env clean

demo: env
	$(BIN)/splitbrain run --broker rabbitmq-quorum --on simulated --nemesis partition,kill --time 60s --seed 1

test: test-env
	scripts/install-test-tools.sh
	scripts/with-docker.sh scripts/test.sh

long: test-env
	scripts/install-test-tools.sh
	scripts/with-docker.sh $(BIN)/pytest -m long --timeout 3600

lint: test-env
	scripts/lint.sh

bench: test-env
	scripts/with-docker.sh $(BIN)/python -m benchmarks

lock: env
	scripts/lock.sh

env:
	@$(PYTHON) scripts/bootstrap.py

test-env:
	@$(PYTHON) scripts/bootstrap.py --test

clean:
	rm -rf .venv .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis build dist
