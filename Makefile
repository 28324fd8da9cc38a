# Threadtalk: everything a person or a machine calls. `make help` lists it.
#
# One cargo profile (`release`) builds and tests everything; only the injected engine has its own
# (`agent`: it must abort on panic). Debian packages come from packages.txt, the report's page from
# web/ through npm before cargo embeds it.

PREFIX ?= /usr/local
DESTDIR ?=
SHARE = $(DESTDIR)$(PREFIX)/share
CARGO ?= cargo

# Nothing here may ask questions, and rules share cargo's lock anyway.
.NOTPARALLEL:
.SUFFIXES:

STAMPS := target/stamps
OUT := target/release
WEB_SOURCES := $(shell find web -type d \( -name node_modules -o -name dist \) -prune -o -type f -print 2>/dev/null)

# The crates that cargo tests itself: all but the injected engine, which cannot carry a test
# harness, and the end-to-end tests, which need everything built first.
TESTED := --workspace --exclude threadtalk-e2e

.PHONY: help build test lab try-lab check check-web hooks test-web page-types test-rust test-e2e test-browser stress soak fuzz demo bench \
	screenshots bench-findings bench-online bench-pairs bench-placement bench-sampling bench-simulate bench-streams \
	bench-tune bench-windows install clean packages

help: ## this list
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | while IFS='	' read -r n t; do \
		printf '  make %-16s %s\n' "$$n" "$$t"; done

build: packages web/dist/report.html ## build target/release/threadtalk and its injected libraries
	$(CARGO) build --release
	$(CARGO) build --profile agent -p threadtalk-agent
	@install -C -m 755 target/agent/libthreadtalk_agent.so $(OUT)/libthreadtalk_agent.so

packages:
	@make/packages.sh $(STAMPS)/packages-build build
	@make/rust.sh

packages-%:
	@make/packages.sh $(STAMPS)/packages-$* build $*

web/dist/report.html: $(STAMPS)/npm $(WEB_SOURCES)
	cd web && npm run --silent build
	@touch $@

$(STAMPS)/npm: web/package-lock.json | packages
	cd web && npm ci --no-audit --no-fund --loglevel=error
	@mkdir -p $(STAMPS) && touch $@

test: packages-test build try-lab check test-web test-rust test-e2e test-browser ## run all checks and tests
	@echo "make test: everything passed"

lab: packages-test ## get what tests in a virtual NUMA machine need: QEMU and a kernel
	@make/lab.sh

try-lab: packages-test
	@make/lab.sh || echo "going on without the virtual NUMA machine: its tests are skipped" >&2

check: packages-test check-web ## formatting, lints, layering, licences, file sizes, documents and words
	$(CARGO) fmt --all --check
	$(CARGO) clippy --release --workspace --exclude threadtalk-agent --all-targets --quiet -- -D warnings
	$(CARGO) clippy --profile agent -p threadtalk-agent --all-targets --quiet -- -D warnings
	$(CARGO) xtask check
	make/check-c.sh

check-web: $(STAMPS)/npm # what Biome refuses, `web/node_modules/.bin/biome check --write` mends as far as it can
	web/node_modules/.bin/biome ci --error-on-warnings --colors=off

hooks: ## let git run `make check` before each push
	@hook=$$(git rev-parse --git-path hooks)/pre-push; \
	if [ -e "$$hook" ] && ! grep -q 'make check' "$$hook"; then \
		echo "$$hook exists already; add 'make check' to it" >&2; exit 1; \
	fi; \
	mkdir -p "$$(dirname "$$hook")" && printf '#!/bin/sh\nexec make check\n' > "$$hook" && \
	chmod 755 "$$hook" && echo "git push runs 'make check' first: $$hook"

test-web: web/dist/report.html
	cd web && npm test --silent

page-types: ## write the TypeScript types of the page's data again, after a change of the Rust types
	THREADTALK_WRITE_PAGE_TYPES=1 $(CARGO) test --release --quiet -p threadtalk-report --lib typescript

test-rust: build
	$(CARGO) test --release --no-fail-fast $(TESTED)

test-e2e: packages-test build try-lab ## end-to-end tests: real programs through the binary
	CARGO='$(CARGO)' make/test-e2e.sh

test-browser: packages-test build ## the report's page in a headless browser
	cd web && npm run --silent test:browser

stress: packages-test build ## the stress mix, 1000 runs, 8 at once
	THREADTALK_STRESS_RUNS=1000 $(CARGO) test --release -p threadtalk-e2e --test stress -- --nocapture

soak: packages-test build ## 200 mixed runs of the distribution's programs, 4 at once; then with a cache too small, and in windows
	THREADTALK_SOAK_SHORT=10000 THREADTALK_SOAK_RUNS=200 $(CARGO) test --release -p threadtalk-e2e --test soak -- --nocapture
	THREADTALK_CACHE_KIB=6144 $(CARGO) test --release -p threadtalk-e2e --test soak -- --nocapture
	for budget in 5% 2x; do THREADTALK_SOAK_BUDGET=$$budget THREADTALK_SOAK_RUNS=100 \
		$(CARGO) test --release -p threadtalk-e2e --test soak mixed -- --nocapture || exit 1; done

fuzz: ## random instruction bytes natively and through the engine, FUZZ_SECONDS (600), FUZZ_SEED
	THREADTALK_FUZZ_SECONDS=$(or $(FUZZ_SECONDS),600) THREADTALK_FUZZ_SEED=$(or $(FUZZ_SEED),$(shell date +%j%H%M)) \
		$(CARGO) test --release -p threadtalk-engine --test fuzz -- --nocapture

demo: build ## record, place and run two programs, and leave reports in demo/
	@make/demo.sh

screenshots: packages-test build ## take the pictures in docs/images/ from a real report page
	@node make/screenshots.mjs

bench: packages-test build ## CPU time and memory of recorded against native runs (BENCH_ARGS=--help)
	@make/packages.sh $(STAMPS)/packages-bench bench || echo "going on without them" >&2
	$(CARGO) run --release --quiet -p threadtalk-benches -- $(BENCH_ARGS)

bench-findings: packages-test build ## what the report says of programs with known flaws, and what mending them gains (BENCH_ARGS=--help)
	$(CARGO) run --release --quiet -p threadtalk-benches --bin findings -- $(BENCH_ARGS)

bench-online: packages-test build ## what auto gains and costs beside other policies, in 15 minutes (BENCH_ARGS=--quick: 3)
	$(CARGO) run --release --quiet -p threadtalk-benches --bin online -- $(BENCH_ARGS)

bench-pairs: packages-test build ## is the computed placement of the example the best there is?
	$(CARGO) run --release --quiet -p threadtalk-benches --bin pairs -- $(BENCH_ARGS)

bench-placement: packages ## time and quality of the placement policies, with Scotch if it can be installed (BENCH_ARGS=--help)
	@make/packages.sh $(STAMPS)/packages-bench-placement bench-placement || echo "going on without Scotch" >&2
	$(CARGO) run --release --quiet -p threadtalk-bench-placement \
		$$(ls /usr/include/scotch/scotch.h >/dev/null 2>&1 && echo --features scotch) -- $(BENCH_ARGS)

bench-sampling: packages-test build ## counted, exact and sampled volumes side by side, and what sampling costs (BENCH_ARGS=--help)
	@make/packages.sh $(STAMPS)/packages-bench bench || echo "going on without them" >&2
	$(CARGO) run --release --quiet -p threadtalk-benches --bin sampling -- $(BENCH_ARGS)

bench-simulate: packages-test build ## is what place predicts what simulate finds, and what does simulating cost? (BENCH_ARGS=--quick, --help)
	$(CARGO) run --release --quiet -p threadtalk-benches --bin simulate -- $(BENCH_ARGS)

bench-streams: packages-test ## windows tried on the event streams of real programs (BENCH_ARGS=--help)
	$(CARGO) run --release --quiet -p threadtalk-benches --bin streams -- $(BENCH_ARGS)

bench-tune: packages-test build ## how often tune decides wrongly where the truth is known (BENCH_ARGS=--help)
	$(CARGO) run --release --quiet -p threadtalk-benches --bin tune -- $(BENCH_ARGS)

bench-windows: packages-test build ## recording in windows: what it costs, and how near the exact recording it comes (BENCH_ARGS=--help)
	$(CARGO) run --release --quiet -p threadtalk-benches --bin windows -- $(BENCH_ARGS)

install: build ## install under PREFIX (default /usr/local), DESTDIR honoured
	install -D -m 755 $(OUT)/threadtalk $(DESTDIR)$(PREFIX)/bin/threadtalk
	install -D -m 755 $(OUT)/libthreadtalk_agent.so $(DESTDIR)$(PREFIX)/lib/threadtalk/libthreadtalk_agent.so
	install -D -m 755 $(OUT)/libthreadtalk_shim.so $(DESTDIR)$(PREFIX)/lib/threadtalk/libthreadtalk_shim.so
	install -D -m 755 $(OUT)/libthreadtalk_watch.so $(DESTDIR)$(PREFIX)/lib/threadtalk/libthreadtalk_watch.so
	install -D -m 755 $(OUT)/libthreadtalk_blocks.so $(DESTDIR)$(PREFIX)/lib/threadtalk/libthreadtalk_blocks.so
	install -D -m 755 $(OUT)/libthreadtalk_data.so $(DESTDIR)$(PREFIX)/lib/threadtalk/libthreadtalk_data.so
	install -d $(DESTDIR)$(PREFIX)/lib/systemd/system
	sed 's|@BIN@|$(PREFIX)/bin|' make/threadtalk-auto.service > $(DESTDIR)$(PREFIX)/lib/systemd/system/threadtalk-auto.service
	install -d $(SHARE)/bash-completion/completions $(SHARE)/zsh/site-functions $(SHARE)/fish/vendor_completions.d
	$(OUT)/threadtalk completions bash > $(SHARE)/bash-completion/completions/threadtalk
	$(OUT)/threadtalk completions zsh > $(SHARE)/zsh/site-functions/_threadtalk
	$(OUT)/threadtalk completions fish > $(SHARE)/fish/vendor_completions.d/threadtalk.fish
	$(OUT)/threadtalk man --force --output $(SHARE)/man/man1

clean: ## remove everything that was built
	rm -rf target demo web/dist web/node_modules
