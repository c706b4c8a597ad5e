#!/bin/sh
# Runs beside a broker: `reload.sh CONFIGURATION PIDFILE`. When users, configuration or certificates change, the broker is
# told to read them again, which interrupts no connection. It keeps the old ones if it cannot use the new ones.
set -eu

state() { cat "$1"/*.conf "$1"/tls/* | sha256sum; }

known=$(state "$1")
while sleep "${RELOAD_SECONDS:-2}"; do
    now=$(state "$1")
    if [ "$now" != "$known" ] && nats-server --signal "reload=$2"; then
        known=$now
    fi
done
