#!/usr/bin/env bash
# Needs Docker with Compose; no test runs it. Builds the images, starts everything as compose.yaml says, asks an agent
# of the demo team, lets another one search its library, and takes all of it down again, volumes included.
set -euo pipefail
cd "$(dirname "$0")/.."

compose() { docker compose --project-name pallas-try --file deploy/compose.yaml "$@"; }

make secrets
trap 'compose logs --tail 20; compose down --volumes' EXIT
# `--wait` takes a job that has ended for one that has failed.
mapfile -t staying < <(compose config --services | grep --invert-match --line-regexp demo-library)
compose build
compose up --detach --wait --wait-timeout 300 "${staying[@]}"
compose run --rm demo-library
curl --fail --silent http://127.0.0.1:23030/.well-known/mcp/server.json >/dev/null
curl --fail --silent --show-error http://127.0.0.1:23050/mcp/harper \
    -H 'content-type: application/json' -H 'accept: application/json, text/event-stream' \
    -d '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"try","version":"1"}}}' \
    | grep -q '"serverInfo"'
found() { .venv/bin/pallas chat research --message '/tool search {"query": "workspace"}' | grep -q libraries.md; }
timeout 60 bash -c "$(declare -f found); until found; do sleep 1; done"
.venv/bin/pallas workspaces show demo --data deploy | grep -q 'Harper: ok'
echo "compose: everything is ready, harper answers, research searches, and the console reaches both"
trap 'compose down --volumes' EXIT
