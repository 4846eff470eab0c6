#!/bin/sh
set -e
# On an upgrade the new package restarts it.
if [ "$1" = remove ] && [ -d /run/systemd/system ]; then
	systemctl disable --now dpsidecar.service
fi
