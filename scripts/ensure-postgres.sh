#!/bin/sh
# Installs a Postgres server with apt-get if this machine has none. Elsewhere
# it says what to install. Nothing of an existing installation is touched.
set -eu
cd "$(dirname "$0")/.."

found() { go run ./internal/localpg/installed; }

found && exit 0
command -v apt-get >/dev/null || exit 1
sudo=
if [ "$(id -u)" != 0 ]; then
	command -v sudo >/dev/null || exit 1
	sudo=sudo
fi
echo 'Installing Postgres with apt-get ...'
$sudo apt-get -q update
$sudo env DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends postgresql
found
