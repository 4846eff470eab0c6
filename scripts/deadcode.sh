#!/bin/sh
# Fails when a function is reached by no program: deadcode.sh MODULE@VERSION of deadcode.
# What only tests reach stands in packages for tests (mechtest, plantest, localpg/testing.go), but
# for the functions named here: they are methods of what the programs use too, or need
# its private fields.
set -eu
cd "$(dirname "$0")/.."
for_tests='System.In NewObservedSource'
found=$(go run "$1" ./cmd/... ./internal/localpg/installed ./scripts/... | grep -v -e '^internal/localpg/testing.go' -e '^internal/mech/mechtest/' -e '^internal/dpsco/plan/plantest/' || true)
for name in $for_tests; do
	found=$(printf '%s\n' "$found" | grep -v "unreachable func: $name\$" || true)
done
[ -z "$found" ] || {
	printf 'nothing reaches:\n%s\n' "$found" >&2
	exit 1
}
