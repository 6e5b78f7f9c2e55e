# `make run` and `make test` work from a fresh clone; everything else is a part of them.
#
# The heavy dependencies (DataFusion) are compiled once, in the release profile, and serve the
# program, the Python package and the tests of the crates that use them. The lower crates are
# tested in the dev profile, with debug assertions.

SHELL := /bin/bash
TARGET := $(or $(CARGO_TARGET_DIR),$(CURDIR)/target)
PYTHON := $(CURDIR)/.venv/bin/python
UPPER := -p atoll-sql -p atoll-adbc -p atoll-server -p atoll-cli
UPPER_NAMES := atoll-sql atoll-adbc atoll-server atoll-cli atolldb
LOOM_FLAGS := --cfg loom
# Of `make fuzz`: for each target so long, and which (by default all).
SECONDS ?= 60
TARGETS ?= $(basename $(notdir $(sort $(wildcard fuzz/fuzz_targets/*.rs))))
# Memory of the process and of one allocation in MiB, and seconds that an input may take.
FUZZ_LIMITS := -rss_limit_mb=2048 -malloc_limit_mb=512 -timeout=20 -max_len=4096 -len_control=0

# Of `make differential`: how many queries, statements in transactions, schedules, and which.
STATEMENTS ?= 100000
TRANSACTIONS ?= 30000
INTERLEAVINGS ?= 1000
SEED ?= 1

# Of `make clients`: which clients or folders of them (by default all), and the server.
ONLY ?=
AGAINST ?= atoll
# Tests that cannot run here note it in this file.
export ATOLL_SKIPPED := $(abspath $(TARGET))/skipped-tests.txt

.PHONY: run test forget-skipped setup build release wheel check test-lower test-upper test-python \
  test-console test-differential differential dumps clients postgres browser loom fuzz torture clean

run:
	@scripts/built.sh $(TARGET)/release/atoll $(MAKE) --no-print-directory build wheel
	@echo "== $$(date +%T) running the demonstration"
	$(TARGET)/release/atoll demo --python $(PYTHON)

test: forget-skipped setup test-lower loom test-upper test-python test-differential
	@echo "== $$(date +%T) all tests passed"
	@cargo run --locked --quiet -p xtask -- skipped $(ATOLL_SKIPPED)

forget-skipped:
	@mkdir -p $(TARGET) && rm -f $(ATOLL_SKIPPED)

setup:
	@scripts/setup.sh

build: setup
	@echo "== $$(date +%T) building atoll (the first time DataFusion too: 25 to 32 CPU minutes)"
	cargo build --locked --release $(UPPER)

# The fastest there is: DataFusion as above, the rest three times.
release: setup
	@echo "== $$(date +%T) building atoll with a profile of itself (some minutes after \`make build\`)"
	scripts/pgo.sh

wheel: setup
	@echo "== $$(date +%T) building and installing the Python package"
	@# maturin builds into the same target folder, so nothing is compiled twice.
	. .venv/bin/activate && maturin develop --quiet --locked --release -m python/Cargo.toml

check:
	@echo "== $$(date +%T) checking format, lints and the order of the crates"
	cargo fmt --all --check
	cargo run --locked --quiet -p xtask -- check
	cargo clippy --locked --workspace --all-targets --release -- -D warnings

# Without `torture`, which explores schedules of the schemes: compiling the schemes for its machine
# and running it take as long as all the others together.
test-lower:
	@echo "== $$(date +%T) testing the lower crates"
	cargo test --locked --workspace $(foreach crate,$(UPPER_NAMES) atoll-torture,--exclude $(crate))

# Some minutes; every change of a scheme, of the gate or of recovery is tested by it.
torture:
	@echo "== $$(date +%T) exploring schedules and crashes under every scheme"
	cargo test --locked -p atoll-torture

loom:
	@echo "== $$(date +%T) exploring the interleavings of the gate and of sleepers"
	RUSTFLAGS="$(LOOM_FLAGS)" cargo test --locked --release -p atoll-memory -p atoll-txn \
	  --test loom_gate --test loom_parking --target-dir $(TARGET)/loom

fuzz:
	@command -v cargo-fuzz > /dev/null || \
	  { echo "cargo-fuzz is missing: cargo install cargo-fuzz --locked"; exit 1; }
	cd fuzz && for target in $(TARGETS); do \
	  echo "== fuzzing $$target"; \
	  if [ $$target = sql ]; then features="--features sql"; else features=; fi; \
	  cargo +nightly fuzz run --sanitizer none $$features $$target -- \
	    -max_total_time=$(SECONDS) -print_final_stats=1 $(FUZZ_LIMITS) || exit 1; \
	done

test-upper: setup
	@echo "== $$(date +%T) testing SQL and the command line"
	cargo test --locked --release $(UPPER)

test-python: wheel postgres
	@echo "== $$(date +%T) testing the Python package, and the server with clients of PostgreSQL"
	cargo build --locked --release -p atoll-cli
	$(PYTHON) -m pytest -q -rs python/tests --ignore python/tests/test_console.py

# The web console as a person sees it, in a headless browser, which it installs.
test-console: setup postgres browser
	@echo "== $$(date +%T) looking at the web console"
	cargo build --locked --release -p atoll-cli
	$(PYTHON) -m pytest -q -rs python/tests/test_console.py

test-differential: wheel postgres
	@echo "== $$(date +%T) comparing queries, transactions and sessions with PostgreSQL"
	$(PYTHON) -m differential --statements 1000 --transactions 1500 --interleavings 60 \
	  --seed 1 --minimise

# Dumps between Atoll and PostgreSQL, there and back.
dumps: setup postgres
	@echo "== $$(date +%T) loading dumps into PostgreSQL, and those of PostgreSQL here"
	cargo build --locked --release -p atoll-cli
	$(PYTHON) -m differential.dumps $${CARGO_TARGET_DIR:-target}/release/atoll

# Programs that use clients of PostgreSQL; `clients/README.md` has more.
clients: setup postgres
	@echo "== $$(date +%T) running clients of PostgreSQL against $(AGAINST)"
	@[ $(AGAINST) = postgres ] || cargo build --locked --release -p atoll-cli
	$(PYTHON) clients/run.py --against $(AGAINST) $(if $(ONLY),--only $(ONLY))

# Some minutes; differences are made small and shown, `--keep` adds them to the kept tests.
differential: wheel postgres
	@echo "== $$(date +%T) comparing $(STATEMENTS) queries, $(TRANSACTIONS) statements in transactions and" \
	  "$(INTERLEAVINGS) schedules with PostgreSQL"
	$(PYTHON) -m differential --statements $(STATEMENTS) --transactions $(TRANSACTIONS) \
	  --interleavings $(INTERLEAVINGS) --seed $(SEED) --minimise

postgres: setup
	@scripts/setup.sh postgres

browser: setup
	@scripts/setup.sh browser

clean:
	cargo clean
	rm -rf .venv
