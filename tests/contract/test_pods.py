"""The pods of `deploy/k8s`: their privileges, limits, selectors, references and network policies."""

import pytest
from tests.contract.tree import ROOT
from tests.deployment.kubernetes import (
    ANYBODY,
    FOLDER,
    NAME,
    OVERLAYS,
    as_pods,
    built,
    container,
    let_in,
    let_out,
    of_kind,
    pods,
    ports_let,
)
from tests.deployment.services import SERVICES
from tests.journeys import BROKER, Connection, connections

each_overlay = pytest.mark.parametrize("overlay", OVERLAYS)
CLOSED = {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}
MADE_ELSEWHERE = {"pallas", "broker", "team", "agent-worker", "broker-users"}
"""The first two by documented commands, the others by `pallas k8s`."""
MIGRATIONS = {(f"{name}-migrate", "postgres") for name in ("library-search", "team-lifecycle", "workspaces")}


@each_overlay
def test_pods_have_no_privileges_and_a_read_only_root(overlay: str) -> None:
    for pod in pods(overlay).values():
        assert container(pod)["securityContext"] == CLOSED
        assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
        assert pod["spec"]["securityContext"]["runAsUser"] > 0
        assert pod["spec"]["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        assert pod["spec"]["automountServiceAccountToken"] is False


@each_overlay
def test_every_pod_has_a_memory_limit(overlay: str) -> None:
    assert [name for name, pod in pods(overlay).items() if "memory" not in container(pod)["resources"]["limits"]] == []


@each_overlay
def test_what_is_scaled_by_cpu_requests_some(overlay: str) -> None:
    scaled = [each["spec"]["scaleTargetRef"]["name"] for each in of_kind(overlay, "HorizontalPodAutoscaler").values()]
    assert scaled
    assert all("cpu" in container(pods(overlay)[name])["resources"]["requests"] for name in scaled)


@each_overlay
@pytest.mark.parametrize("name", sorted(SERVICES))
def test_a_service_has_probes_and_its_pods_are_spread_over_nodes_and_zones(overlay: str, name: str) -> None:
    pod = pods(overlay)[name]
    probes = {kind: container(pod)[f"{kind}Probe"]["httpGet"]["path"] for kind in ("startup", "liveness", "readiness")}
    assert probes == {"startup": "/livez", "liveness": "/livez", "readiness": "/readyz"}
    keys = {each["topologyKey"] for each in pod["spec"]["topologySpreadConstraints"]}
    assert keys == {"kubernetes.io/hostname", "topology.kubernetes.io/zone"}


@each_overlay
def test_every_selector_matches_a_pod(overlay: str) -> None:
    labels = [pod["metadata"]["labels"] for pod in pods(overlay).values()]
    services = [each["spec"]["selector"] for each in of_kind(overlay, "Service").values()]
    budgets = [each["spec"]["selector"]["matchLabels"] for each in of_kind(overlay, "PodDisruptionBudget").values()]
    for selector in (*services, *budgets):
        assert [label for label in labels if selector.items() <= label.items()], selector


@each_overlay
def test_accounts_and_volumes_of_a_pod_exist_or_are_made_by_commands(overlay: str) -> None:
    accounts = of_kind(overlay, "ServiceAccount")
    kept = {each["metadata"]["name"] for each in built(overlay) if each["kind"] in ("ConfigMap", "Secret")}
    for pod in pods(overlay).values():
        assert pod["spec"].get("serviceAccountName", "nats") in accounts
        for volume in pod["spec"].get("volumes", []):
            for source in volume.get("projected", {}).get("sources", [volume]):
                named = source.get("configMap", {}).get("name") or source.get("secret", {}).get("secretName")
                named = named or source.get("secret", {}).get("name")
                assert named is None or named in kept | MADE_ELSEWHERE


@each_overlay
def test_network_policies_deny_everything_by_default(overlay: str) -> None:
    policy = of_kind(overlay, "NetworkPolicy")["deny-all"]["spec"]
    assert policy == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}


def needed(overlay: str) -> set[Connection]:
    """The connections that pods need: those of the journeys, of migrations, and of brokers with each other."""
    pairs = as_pods(connections()) | MIGRATIONS | {(BROKER, BROKER)}
    if overlay != "local":
        pairs = {pair for pair in pairs if "demo-tools" not in pair}
    postgres = "postgres" if overlay == "local" else ANYBODY
    return {(source, postgres if destination == "postgres" else destination) for source, destination in pairs}


@each_overlay
def test_pods_may_open_the_connections_that_they_need_and_no_others(overlay: str) -> None:
    assert let_out(overlay) == {pair for pair in needed(overlay) if pair[0] != ANYBODY}


@each_overlay
def test_pods_accept_the_connections_that_others_need_and_no_others(overlay: str) -> None:
    for_anybody = {destination for source, destination in needed(overlay) if source == ANYBODY}
    wanted = {pair for pair in needed(overlay) if pair[1] not in for_anybody | {ANYBODY}}
    assert let_in(overlay) == wanted | {(ANYBODY, destination) for destination in for_anybody}


@each_overlay
def test_policies_open_only_ports_on_which_pods_listen(overlay: str) -> None:
    by_name = {pod["metadata"]["labels"][NAME]: container(pod) for pod in pods(overlay).values()}
    listening = {(name, port["containerPort"]) for name, pod in by_name.items() for port in pod.get("ports", [])}
    of_monitoring = {(name, 8080) for name in by_name}
    assert set(ports_let(overlay)) - of_monitoring <= listening
    demo = {"demo-tools"} if overlay == "local" else set[str]()
    assert {name for name, port in listening if port == 8080} == SERVICES.keys() | demo


def test_compose_and_kubernetes_share_broker_and_database_configuration() -> None:
    for name in ("nats.conf", "guarded.conf"):
        assert (ROOT / "deploy" / name).resolve() == FOLDER / "base" / name
    assert (ROOT / "deploy/postgres-init.sh").resolve() == FOLDER / "overlays/local/postgres-init.sh"
