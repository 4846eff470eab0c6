#!/bin/sh
# The service is not started: it needs a database first; see
# docs/how-to/debian.md.
set -e
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	systemctl try-restart dpsidecar.service
fi
