"""`deploy/k8s`: both overlays build, every object fits its schema, and services get variables that they know."""

import copy
from functools import reduce
from operator import getitem
from pathlib import Path

import pytest
from deploy.make_secrets import make_secrets
from deploy.observability.exposed import exposed
from jsonschema import ValidationError
from tests.contract.tree import ROOT
from tests.deployment import compose
from tests.deployment.kubernetes import (
    NEWEST,
    OLDEST,
    OLDEST_KEDA,
    OVERLAYS,
    Object,
    built,
    container,
    of_kind,
    pods,
    variables,
)
from tests.deployment.schemas import accept
from tests.deployment.secrets import mounted_secrets
from tests.deployment.services import DEMO, SERVICES, named_by_teams, settings_of, unknown

from pallas_cli.k8s.stamp import gateway_urls
from pallas_runtime.span_export import FLUSH_SECONDS
from pallas_teams import load_team
from pallas_teams.schema import AgentSection

SECRETS = compose.SECRETS
each_overlay = pytest.mark.parametrize("overlay", OVERLAYS)
each_service = pytest.mark.parametrize("name", sorted(SERVICES))


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the secrets that `make_secrets` makes."""
    folder = tmp_path_factory.mktemp("k8s") / "secrets"
    make_secrets(folder)
    return folder


@each_overlay
def test_every_object_fits_its_schema_without_unknown_fields(overlay: str) -> None:
    for thing in built(overlay):
        for version in (OLDEST, NEWEST):
            accept(thing, version)


@pytest.mark.parametrize(
    ("kind", "place", "newer"),
    [
        ("Deployment", "spec template spec", {"resources": {"limits": {"memory": "1Gi"}}}),  # Kubernetes 1.32
        ("ScaledObject", "spec fallback", {"behavior": "scalingModifiers"}),  # KEDA 2.18
    ],
)
def test_a_field_newer_than_the_oldest_versions_is_rejected(kind: str, place: str, newer: Object) -> None:
    thing = copy.deepcopy(of_kind("local", kind)["agent-worker"])
    accept(thing, OLDEST)
    reduce(getitem, place.split(), thing).update(newer)
    with pytest.raises(ValidationError):
        accept(thing, OLDEST)


def test_the_readme_names_the_oldest_versions() -> None:
    readme = (ROOT / "deploy/README.md").read_text("utf-8")
    assert f"Kubernetes {OLDEST} or newer and KEDA {OLDEST_KEDA} or newer" in readme


@pytest.mark.parametrize("kind", ["Deployment", "ScaledObject"])
def test_a_misspelt_field_is_rejected(kind: str) -> None:
    wrong = copy.deepcopy(of_kind("local", kind)["agent-worker"])
    wrong["spec"]["maxReplicaCounts"] = 3
    with pytest.raises(ValidationError):
        accept(wrong, OLDEST)


@each_overlay
@each_service
def test_every_service_has_all_kinds_of_objects(overlay: str, name: str) -> None:
    for kind in ("Deployment", "Service", "ServiceAccount", "PodDisruptionBudget", "NetworkPolicy"):
        assert name in of_kind(overlay, kind), kind


@each_overlay
@each_service
def test_a_pod_starts_the_module_of_its_service(overlay: str, name: str) -> None:
    pod = container(pods(overlay)[name])
    assert pod["args"] == [SERVICES[name].module]
    assert pod["image"].partition(":")[0].removeprefix("registry.example.com/") == f"pallas/{name}"


@each_overlay
@each_service
def test_a_service_gets_only_variables_that_it_knows_and_accepts_their_values(
    overlay: str, name: str, secrets: Path
) -> None:
    given = variables(pods(overlay)[name])
    assert unknown(name, given) == set()
    here = {variable: value.replace(SECRETS, f"{secrets}/") for variable, value in given.items()}
    settings = settings_of(SERVICES[name]).from_env(here)
    assert (settings.host, settings.port, settings.instance) == ("0.0.0.0", 8080, "metadata.name")


@each_overlay
def test_every_service_that_callers_reach_gets_its_public_url(overlay: str) -> None:
    reached = [name for name, package in SERVICES.items() if "public_url" in settings_of(package).model_fields]
    urls = {name: variables(pods(overlay)[name]).get("PALLAS_PUBLIC_URL") for name in reached}
    assert None not in urls.values(), urls
    assert urls["registry"] == urls["agent-gateway"] != urls["library-search"]


@each_overlay
def test_the_addresses_of_the_gateways_are_those_of_their_service_and_of_callers(overlay: str) -> None:
    given = variables(pods(overlay)["agent-gateway"])
    [port] = of_kind(overlay, "Service")["agent-gateway"]["spec"]["ports"]
    assert gateway_urls(built(overlay)) == [f"http://agent-gateway:{port['port']}", given["PALLAS_PUBLIC_URL"]]


@pytest.mark.parametrize("name", ["agent-worker", "health-monitor"])
def test_a_reader_of_the_demo_team_gets_every_variable_that_the_team_names(name: str) -> None:
    assert named_by_teams(DEMO) <= set(variables(pods("local")[name]))


def test_production_has_nothing_of_the_demo() -> None:
    assert [each["metadata"]["name"] for each in built("production") if "demo" in str(each)] == []


@each_overlay
@each_service
def test_a_service_gets_the_same_secrets_as_in_compose(overlay: str, name: str) -> None:
    in_files = {variable: value for variable, value in variables(pods(overlay)[name]).items() if SECRETS in value}
    assert in_files == {variable: value for variable, value in compose.environment(name).items() if SECRETS in value}


@each_overlay
def test_a_pod_mounts_the_secrets_that_it_reads_and_no_others(overlay: str) -> None:
    for name, pod in pods(overlay).items():
        secrets = mounted_secrets(pod)
        mounted = {item["path"] for name in ("pallas", "agent-worker") for item in secrets.get(name) or ()}
        texts = [*variables(pod).values(), *container(pod).get("command", [])]
        read = {secret for secret in mounted if any(f"{SECRETS}{secret}" in word for word in texts)}
        by_script = {f"{service}-postgres-password" for service in SERVICES} if name == "postgres" else set[str]()
        assert mounted == read | (mounted & by_script)
        assert {value.removeprefix(SECRETS) for value in variables(pod).values() if SECRETS in value} <= mounted


@each_overlay
@each_service
def test_the_termination_grace_period_covers_the_drain_of_the_service(overlay: str, name: str) -> None:
    pod = pods(overlay)[name]
    before = container(pod).get("lifecycle", {}).get("preStop", {}).get("sleep", {}).get("seconds", 0)
    drain = float(variables(pod).get("PALLAS_DRAIN_SECONDS") or settings_of(SERVICES[name]).from_env({}).drain_seconds)
    assert pod["spec"]["terminationGracePeriodSeconds"] >= before + drain + FLUSH_SECONDS


@each_overlay
def test_a_worker_drains_longer_than_the_longest_turn_timeout(overlay: str) -> None:
    longest = max(agent.limits.turn_timeout for agent in load_team(DEMO, {}).agents.values())
    assert longest == AgentSection.model_fields["turn_timeout"].default
    assert float(variables(pods(overlay)["agent-worker"])["PALLAS_DRAIN_SECONDS"]) > longest


@each_overlay
def test_a_worker_is_wanted_for_as_many_turns_as_it_has_slots(overlay: str) -> None:
    [trigger] = of_kind(overlay, "ScaledObject")["agent-worker"]["spec"]["triggers"]
    assert trigger["metadata"]["targetValue"] == variables(pods(overlay)["agent-worker"])["PALLAS_SLOTS"]


@each_overlay
def test_the_autoscaler_reads_a_metric_that_the_monitor_exposes(overlay: str) -> None:
    [trigger] = of_kind(overlay, "ScaledObject")["agent-worker"]["spec"]["triggers"]
    name, _, labels = trigger["metadata"]["valueLocation"].partition("{")
    [metric] = [each for each in exposed() if each.name == name]
    assert (metric.service, list(metric.labels), labels) == ("health-monitor", ["team"], 'team="team"}')


@each_overlay
def test_the_autoscaler_may_reach_the_monitor(overlay: str) -> None:
    [trigger] = of_kind(overlay, "ScaledObject")["agent-worker"]["spec"]["triggers"]
    assert trigger["metadata"]["url"] == "http://health-monitor.pallas.svc.cluster.local:8080/metrics"
    peer = {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "keda"}}}
    rules = of_kind(overlay, "NetworkPolicy")["health-monitor"]["spec"]["ingress"]
    assert {"from": [peer], "ports": [{"port": 8080}]} in rules


@each_overlay
def test_a_scaled_deployment_sets_no_replica_count(overlay: str) -> None:
    scalers = of_kind(overlay, "ScaledObject", "HorizontalPodAutoscaler").values()
    scaled = {scaler["spec"]["scaleTargetRef"]["name"] for scaler in scalers}
    assert scaled == {"agent-gateway", "agent-worker"}
    deployments = of_kind(overlay, "Deployment")
    assert [name for name in scaled if "replicas" in deployments[name]["spec"]] == []
