# dpsidecar: what a newcomer runs first is `make demo`, then `make test`.

GO          ?= go
STATICCHECK  = honnef.co/go/tools/cmd/staticcheck@v0.8.2
VERSION      = $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)

# Packages that have benchmarks.
BENCHES = $(sort $(dir $(shell grep -rl '^func Benchmark' --include='*_test.go' internal tests sql)))

# Fuzz targets, each for three seconds in make test; its seeds are tests as well.
FUZZ = ./internal/arrowio:FuzzDecoder ./internal/privacy:FuzzEvent ./internal/privacy:FuzzHistory ./internal/dpsco:FuzzOptions

.PHONY: demo test audit crash mutants build bench experiments lint postgres

## demo: the main job on a throw-away Postgres; leaves nothing behind
demo: postgres build
	@bin/dpsidecar demo

## test: all tests, each package on a private throw-away Postgres
test: postgres
	@cd tests/compose && $(GO) test -count=1 ./... # reads files outside its module: never cached
	@for target in $(FUZZ); do $(GO) test -run '^$$' -fuzz "^$${target##*:}\$$" -fuzztime 3s "$${target%%:*}" || exit 1; done
	@$(GO) test -timeout 15m ./...

## crash: kills sidecars at every step 300 times, breaks what else can break, prints a table
crash: postgres
	@DPSIDECAR_CRASH=300 $(GO) test -count=1 -timeout 60m -v -run '^TestCrashes$$' ./tests

## audit: what mechanisms claim and what shows of it, in many runs, with pictures of that and of the mutants
audit: build
	@bin/dpsidecar audit --runs 100000 --plot bin/audit-mechanisms.png
	@$(GO) test -count=1 -v -run '^TestMutantsAreRefuted$$' ./internal/audit -plots $(CURDIR)/bin

## mutants: makes errors that would cost privacy, one at a time, and reports those that no test notices
mutants:
	@$(GO) run ./scripts/mutants

## build: bin/dpsidecar; the packages are compiled as for the tests, once
build:
	@$(GO) build -ldflags '-s -w -X main.version=$(VERSION)' -o bin/dpsidecar ./cmd/dpsidecar

## bench: speed as ratios against ceilings and naive versions
bench: postgres
	@$(GO) test -p 1 -timeout 60m -run '^$$' -bench . $(addprefix ./,$(BENCHES))

## experiments: the studies of the papers as tables and plots; DPSIDECAR_DATA names the real tables
experiments: build
	@bin/dpsidecar experiments --out bin/experiments

## lint: formatting, vet, staticcheck
lint:
	@test -z "$$(gofmt -l .)" || { gofmt -d .; exit 1; }
	@$(GO) vet ./...
	@$(GO) run $(STATICCHECK) ./...

postgres:
	@scripts/ensure-postgres.sh
