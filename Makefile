# Every verb sets up .venv by itself: python3 (3.11 or newer) and make are all it takes.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready
PEERS := .venv-peers/ready
# Tests compile with little optimisation, except these, which run the programs that users run. They
# are distributed one by one, the longest first, so that no core waits for the other at the end.
AS_SHIPPED := tests/studies/test_kill_study.py tests/training/test_kill.py
AS_SHIPPED += tests/training/test_learning.py tests/training/test_training.py

.PHONY: demo test slow fuzz lint types docs check bench reproduce-small clean

demo: $(READY)  ## train TD3 on a task that it solves only by exploring, and draw the curves
	$(BIN)/python examples/demo.py

test: $(READY)  ## the tests, all but the slow ones
	$(BIN)/python -m pytest -n 2 --dist loadgroup -m "not slow"

slow: $(READY)  ## the slow tests: learning, and every cell of the matrix
	$(BIN)/python -m pytest -n 2 --dist loadgroup -m slow $(addprefix --ignore=,$(AS_SHIPPED))
	XLA_FLAGS= $(BIN)/python -m pytest -n 2 --maxschedchunk 1 -m slow $(AS_SHIPPED)

fuzz: $(READY)  ## hostile command lines and files, other ones each time: 29,000, in ten minutes
	FUZZ=15 $(BIN)/python -m pytest -n 2 -m slow tests/test_fuzz.py tests/test_fuzz_runs.py

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY)
	$(BIN)/pyright

# MkDocs is not told to be quiet: it would not see its own warnings, and none would be an error.
docs: $(READY)  ## the documentation as a site, in site/; fails on a dead link or a command that does not parse
	$(BIN)/python -m pytest tests/test_documentation.py -m "not slow" -k "not example"
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build

check: lint types test  ## what must pass before a change lands

bench: $(READY) $(PEERS)  ## environment steps per second, here and of peers; BEFORE=CHECKOUT, and there
	$(BIN)/python benchmarks/bench.py --peers .venv-peers/bin/python $(if $(BEFORE),--before $(BEFORE))

reproduce-small: $(READY)  ## the beginning of one published cell once more, compared with its records
	$(BIN)/python results/reproduce.py

# Peers need packages that we do not, PyTorch among them, and live apart.
$(PEERS): Makefile
	$(PYTHON) -m venv .venv-peers
	.venv-peers/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt "torch==2.13.0" "stable-baselines3==2.9.2" "sbx-rl==0.28.0" "gymnasium[mujoco]"
	@touch $(PEERS)

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "python3 is %d.%d; discover_rl needs 3.11 or newer (make PYTHON=python3.12 …)" % sys.version_info[:2])'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt "pip>=25.1"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt --group dev -e ".[all]"
	@touch $(READY)

clean:
	rm -rf .venv .venv-peers
