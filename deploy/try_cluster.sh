#!/usr/bin/env bash
# Needs Docker, kind, helm and kubectl; no test runs it. Builds the images, makes a cluster with KEDA, applies the overlay
# `local`, waits until every pod is ready, and removes the cluster.
set -euo pipefail
cd "$(dirname "$0")/.."

cluster=pallas-try
make secrets
trap 'kind delete cluster --name "$cluster"' EXIT
kind create cluster --name "$cluster"
for name in agent-gateway agent-worker auth-resolver data-pool fleet health-monitor library-search pipelines registry \
    team-lifecycle workspaces; do
    docker build --file deploy/Dockerfile --build-arg "PACKAGE=pallas-$name" --tag "pallas/$name:try" .
done
docker build --file deploy/Dockerfile --build-arg PACKAGE=pallas-demo --tag pallas/demo-tools:try .

overlay=$(mktemp -d -p deploy/k8s/overlays)
trap 'rm -r "$overlay"; kind delete cluster --name "$cluster"' EXIT
{
    printf 'resources: [../local]\nimages:\n'
    for image in $(docker images 'pallas/*:try' --format '{{.Repository}}'); do
        kind load docker-image --name "$cluster" "$image:try"
        printf '  - {name: %s, newTag: try}\n' "$image"
    done
} >"$overlay/kustomization.yaml"

helm repo add kedacore https://kedacore.github.io/charts
helm install keda kedacore/keda --namespace keda --create-namespace --wait
kubectl apply --filename deploy/k8s/base/namespace.yaml
kubectl config set-context --current --namespace=pallas
kubectl create secret generic pallas --dry-run=client --output=yaml --from-file=deploy/secrets \
    --from-file=deploy/secrets/nats-ca \
    --from-file=deploy/secrets/agent-gateway-nats-seed --from-file=deploy/secrets/auth-resolver-nats-seed \
    --from-file=deploy/secrets/data-pool-nats-seed --from-file=deploy/secrets/fleet-nats-seed \
    --from-file=deploy/secrets/health-monitor-nats-seed --from-file=deploy/secrets/library-search-nats-seed \
    --from-file=deploy/secrets/pipelines-nats-seed --from-file=deploy/secrets/registry-nats-seed \
    --from-file=deploy/secrets/team-lifecycle-nats-seed --from-file=deploy/secrets/workspaces-nats-seed \
    | kubectl apply --server-side --filename=-
kubectl create secret generic broker --dry-run=client --output=yaml --from-file=deploy/tls.conf \
    --from-file=deploy/secrets/nats/store.conf \
    --from-file=deploy/tls/server.pem --from-file=deploy/tls/server.key --from-file=deploy/secrets/nats-ca \
    | kubectl apply --server-side --filename=-
uv run pallas k8s apply teams/demo --manifests "$overlay" --broker deploy
uv run pallas k8s diff teams/demo --manifests "$overlay"
kubectl wait --for=condition=complete job --all --timeout=300s
kubectl rollout status statefulset/nats --timeout=300s
kubectl rollout status deployment --timeout=300s
echo "kubernetes: everything is ready"
