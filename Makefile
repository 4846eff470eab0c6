# dpsidecar: what a newcomer runs first is `make demo`, then `make test`.

GO          ?= go
STATICCHECK  = honnef.co/go/tools/cmd/staticcheck@v0.8.2
DEADCODE     = golang.org/x/tools/cmd/deadcode@v0.52.0
GORELEASER   = github.com/goreleaser/goreleaser/v2@v2.8.2

# Packages that have benchmarks.
BENCHES = $(sort $(dir $(shell grep -rl '^func Benchmark' --include='*_test.go' internal tests sql)))

# Fuzz targets, 20,000 inputs each in make test; its seeds are tests as well.
FUZZ = ./internal/arrowio:FuzzDecoder ./internal/arrowio:FuzzCategories ./internal/privacy:FuzzEvent ./internal/privacy:FuzzHistory ./internal/privacy:FuzzUnmarshalEventRoundTrips ./internal/dpsco:FuzzOptions

# Packages whose jobs and fits run on several goroutines, under the race detector: whole those that are quick; of those in
# which the exact sampler and whole fits take ten minutes, the tests that split work. `make race` has all of them whole.
RACE_CI  = ./internal/job ./internal/privacy ./internal/spill ./internal/dpsco/mean
RACE     = ./internal/mech ./internal/mech/expmech ./internal/dpsco ./internal/dpsco/describe ./internal/dpsco/moments ./internal/dpsco/score
RACE_RUN = OrderOrParts|Cores|PanicGroup|DrawStops|NotedOdds

.PHONY: help demo demo-picture test race race-ci audit crash mutants build bench bench-once experiments lint postgres postgres-versions release-snapshot

## help: this
help:
	@sed -n 's/^## //p' $(MAKEFILE_LIST)

## demo: the main job on a throw-away Postgres; leaves nothing behind
demo: postgres build
	@bin/dpsidecar demo

## demo-picture: draws docs/img/demo.svg from a run of the demo
demo-picture: postgres build
	@CLICOLOR_FORCE=1 bin/dpsidecar demo >bin/demo.txt
	@$(GO) run ./scripts/demosvg 3 5 <bin/demo.txt >bin/demo.svg
	@mv bin/demo.svg docs/img/demo.svg

## test: all tests, each package on a private throw-away Postgres
test: postgres
	@cd tests/compose && $(GO) test -count=1 ./... # reads files outside its module: never cached
	@for target in $(FUZZ); do $(GO) test -run '^$$' -fuzz "^$${target##*:}\$$" -fuzztime 20000x "$${target%%:*}" || exit 1; done
	@$(GO) test -timeout 70m ./tests ./... # the one that waits most begins first

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
	@$(GO) build -ldflags '-s -w' -o bin/dpsidecar ./cmd/dpsidecar

## bench: speed as ratios against ceilings and naive versions
bench: postgres
	@$(GO) test -p 1 -timeout 60m -run '^$$' -bench . $(addprefix ./,$(BENCHES))

## experiments: the studies of the papers as tables and plots; DPSIDECAR_DATA names the real tables
experiments: build
	@bin/dpsidecar experiments --out bin/experiments

## bench-once: every benchmark once, the largest on fewer rows, so that none rots
bench-once: postgres
	@$(GO) test -short -timeout 30m -run '^$$' -bench . -benchtime 1x $(addprefix ./,$(BENCHES)) >/dev/null

## race: jobs and fits, which run on several goroutines, under the race detector
race: postgres
	@$(GO) test -race -short -timeout 30m $(RACE_CI) $(RACE)

race-ci: postgres
	@$(GO) test -race -short -timeout 15m $(RACE_CI)
	@$(GO) test -race -short -timeout 15m -run '$(RACE_RUN)' $(RACE)

## lint: formatting, vet, staticcheck, and code that nothing reaches
lint:
	@test -z "$$(gofmt -l .)" || { gofmt -d .; exit 1; }
	@$(GO) vet ./...
	@$(GO) run $(STATICCHECK) ./...
	@scripts/deadcode.sh $(DEADCODE)

## postgres-versions: the tests on Postgres 14 to 18, servers from npm; see docs/reference/postgres-versions.md
postgres-versions:
	@scripts/test-postgres-versions.sh

## release-snapshot: what a release would hold, in dist/, but for the image
release-snapshot:
	@mkdir -p bin/tools && GOBIN=$(CURDIR)/bin/tools $(GO) install $(GORELEASER)
	@PATH=$(CURDIR)/bin/tools:$$PATH DPSIDECAR_VERSION=$$(sed -n 's/^const Number = "\(.*\)"/\1/p' internal/version/version.go) \
		goreleaser release --snapshot --clean --skip docker

postgres:
	@scripts/ensure-postgres.sh
