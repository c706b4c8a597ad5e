#!/bin/sh
# Starts a broker: `start.sh ARGUMENTS`. It waits for room on the disk of the store, because a broker that starts on a full
# disk removes the streams for which it cannot write a file.
set -eu

trap 'exit 0' TERM INT
until [ "$(df -Pk "${STORE:-/data}" | awk 'NR == 2 { print $4 }')" -ge "${ROOM_KIB:-16384}" ]; do
    echo "the disk of ${STORE:-/data} is full: waiting for room" >&2
    sleep 5 &
    wait $!
done
exec nats-server "$@"
