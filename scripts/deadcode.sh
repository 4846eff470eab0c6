#!/bin/sh
# Fails when a function is reached by no command: deadcode.sh MODULE@VERSION of deadcode.
# What only tests of other packages use lives in packages for that.
set -eu
cd "$(dirname "$0")/.."
found=$(go run "$1" ./cmd/... | grep -v -e '^internal/localpg/testing.go' -e '^internal/localpg/cluster.go' -e '^internal/dev/' -e 'test/' || true)
[ -z "$found" ] || {
	printf 'nothing reaches:\n%s\n' "$found" >&2
	exit 1
}
