"""The Helm chart: it is in step with the overlay `production`, and what it makes of values is as good."""

import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from deploy.helm.generate import stale
from deploy.make_secrets import make_secrets
from docs.site.endpoints import endpoints_of_services
from tests.contract.tree import ROOT
from tests.deployment.charts import CHART, NAMESPACE, objects, run, template
from tests.deployment.compose import SECRETS
from tests.deployment.kubernetes import NEWEST, OLDEST, Object, built, container, prices_of, variables
from tests.deployment.schemas import accept
from tests.deployment.services import DEMO, SERVICES, settings_of

from pallas_cli.broker_config.write import BrokerFolder
from pallas_cli.k8s.folders import read_folders
from pallas_cli.k8s.plan import Planner
from pallas_teams.prices import load_prices
from workspaces.http.console import ASSETS

SMALL: dict[str, Any] = {
    "image": {"registry": "localhost:5000/pallas", "tag": "try"},
    "auth": "off",
    "broker": {"replicas": 1, "storage": "5Gi", "storageClass": "fast"},
    "workers": {"max": 2, "slots": 8},
    "ingress": {"enabled": True, "className": "nginx", "tlsSecret": "certificate", "annotations": {"a.b/c": "d"}},
    "secrets": {"services": "from-vault"},
    "networks": {"postgres": "192.0.2.0/24", "proxies": "192.0.2.0/24,192.0.2.7"},
    "fleet": {"allow": "user,team:t1", "operators": "token:k1"},
    "namespaces": {"monitoring": "observability"},
    "prices": {"currency": "USD", "models": {"openai.gpt-5": {"input": 1.25, "output": 10}}},
}
type Key = tuple[str, str]

_OF_A_JOB = re.compile(r"-migrate-[0-9a-f]{8}(-[0-9a-f]{8})?$")


def by_key(found: list[Object]) -> dict[Key, Object]:
    """The objects by kind and name; a Job's name without what follows from its image."""
    return {(it["kind"], _OF_A_JOB.sub("-migrate", it["metadata"]["name"])): it for it in found}


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the secrets that `make_secrets` makes."""
    folder = tmp_path_factory.mktemp("helm") / "secrets"
    make_secrets(folder)
    return folder


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> list[Object]:
    """What the chart makes of other values than its own."""
    return objects(SMALL, tmp_path_factory.mktemp("small"))


def test_the_templates_are_generated_from_the_overlay() -> None:
    assert stale(built("production")) == [], "run: make gen"


def test_left_over_and_missing_templates_are_found(tmp_path: Path) -> None:
    folder = tmp_path / "deploy/helm/pallas/templates"
    folder.mkdir(parents=True)
    (folder / "gone.yaml").write_text("x", "utf-8")
    assert {"gone.yaml", "nats.yaml"} <= set(stale(built("production"), tmp_path))


def test_with_its_own_values_the_chart_is_the_overlay_without_its_namespace(tmp_path: Path) -> None:
    made = by_key(objects({}, tmp_path))
    wanted = {key: each for key, each in by_key(built("production")).items() if key[0] != "Namespace"}
    assert made.keys() == wanted.keys()
    for key, each in wanted.items():
        assert made[key] | {"metadata": None} == each | {"metadata": None}, key
        assert made[key]["metadata"].get("labels") == each["metadata"].get("labels")


def test_helm_finds_no_fault_in_the_chart() -> None:
    checked = run("lint", "--strict", CHART)
    assert checked.returncode == 0, checked.stdout


def test_objects_fit_their_schemas(small: list[Object]) -> None:
    for each in small:
        for version in (OLDEST, NEWEST):
            accept(each, version)


def test_values_reach_every_place(small: list[Object]) -> None:
    made = by_key(small)
    broker = made["StatefulSet", "nats"]["spec"]
    assert (broker["replicas"], container(broker["template"])["args"][1]) == (1, "/etc/nats/guarded.conf")
    claim = broker["volumeClaimTemplates"][0]["spec"]
    assert (claim["storageClassName"], claim["resources"]["requests"]["storage"]) == ("fast", "5Gi")
    [trigger] = made["ScaledObject", "agent-worker"]["spec"]["triggers"]
    worker = container(made["Deployment", "agent-worker"]["spec"]["template"])
    assert trigger["metadata"]["targetValue"] == "8"
    assert {"name": "PALLAS_SLOTS", "value": "8"} in worker["env"]
    for name in ("agent-gateway", "workspaces"):
        given = variables(made["Deployment", name]["spec"]["template"])
        assert given["PALLAS_TRUSTED_PROXIES"] == "192.0.2.0/24,192.0.2.7"
    fleet = variables(made["Deployment", "fleet"]["spec"]["template"])
    assert (fleet["PALLAS_FLEET_ALLOW"], fleet["PALLAS_FLEET_OPERATORS"]) == ("user,team:t1", "token:k1")
    text = yaml.safe_dump_all(small)
    assert all(word in text for word in ("secretName: from-vault", "cidr: 192.0.2.0/24", "name: observability"))
    assert not any(word in text for word in ("registry.example.com", "secretName: pallas", "cidr: 10.0.0.0/8"))


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_a_service_accepts_its_variables(name: str, small: list[Object], secrets: Path) -> None:
    given = variables(by_key(small)["Deployment", name]["spec"]["template"])
    here = {variable: value.replace(SECRETS, f"{secrets}/") for variable, value in given.items()}
    assert settings_of(SERVICES[name]).from_env(here).port == 8080


def test_workers_know_the_prices_of_models(small: list[Object], tmp_path: Path) -> None:
    [prices] = [each for each in small if each["metadata"]["name"].startswith("prices-")]
    pod = by_key(small)["Deployment", "agent-worker"]["spec"]["template"]
    name, folder = prices_of(pod)
    assert (name, folder / "prices.yaml") == (prices["metadata"]["name"], Path(variables(pod)["PALLAS_PRICES"]))
    (tmp_path / "prices.yaml").write_text(prices["data"]["prices.yaml"], "utf-8")
    assert load_prices(tmp_path / "prices.yaml").currency == "USD"


def test_jobs_of_another_image_have_another_name(small: list[Object], tmp_path: Path) -> None:
    own = {each["metadata"]["name"] for each in objects({}, tmp_path) if each["kind"] == "Job"}
    other = {each["metadata"]["name"] for each in small if each["kind"] == "Job"}
    assert len(own) == len(other) == 3
    assert own.isdisjoint(other)


def led(rules: list[Object], host: str, path: str) -> str | None:
    """The service that an Ingress leads a path to: exact ones first, then the longest prefix, by parts of the path."""
    [found] = [rule["http"]["paths"] for rule in rules if rule["host"] == host]
    wanted = path.strip("/").split("/")
    fits: list[tuple[bool, int, str]] = []
    for each in found:
        parts, exact = each["path"].strip("/").split("/"), each["pathType"] == "Exact"
        if each["path"] == path if exact else wanted[: len(parts)] == parts:
            fits.append((exact, len(parts), each["backend"]["service"]["name"]))
    return max(fits)[-1] if fits else None


HOSTS = {
    "agent-gateway": "pallas.example.com",
    "registry": "pallas.example.com",
    "library-search": "library.pallas.example.com",
    "pipelines": "pipelines.pallas.example.com",
    "data-pool": "agents.pallas.example.com",
    "workspaces": "console.pallas.example.com",
}


def test_an_ingress_leads_every_route_to_its_service_and_publishes_no_probes(small: list[Object]) -> None:
    ingress = by_key(small)["Ingress", "pallas"]["spec"]
    rules, routes = ingress["rules"], endpoints_of_services()
    console = (ROOT / "services/workspaces/src/workspaces/console/app.js").read_text("utf-8")
    pages = re.findall(r'\{ path: "(/[^"]*)"', console)
    assert len(pages) > 5
    routes["workspaces"] += [("GET", f"`{path}`", "") for path in (*pages, f"{ASSETS}x/app.js")]
    for service, host in HOSTS.items():
        for _, quoted, _ in routes[service]:
            path = quoted.strip("`").partition("?")[0].replace("{team}", "demo")
            assert led(rules, host, path) == service, path
    for host in HOSTS.values():
        assert {led(rules, host, path.strip("`")) for _, path, _ in routes["every process"]} == {None}
    assert set(ingress["tls"][0]["hosts"]) == {rule["host"] for rule in rules} == set(HOSTS.values())


@pytest.mark.parametrize(
    ("values", "reason"),
    [
        ({"image": {"repository": "x"}}, "repository"),
        ({"auth": "sometimes"}, "auth"),
        ({"prices": {"models": {"openai.gpt-5": {"input": "free"}}}}, "input"),
        ({"broker": {"replicas": 2}}, "replicas"),
        ({"urls": {"platform": "pallas.example.com/"}}, "platform"),
        ({"resources": {"registry": {"limits": None}}}, "limits"),
        ({"colour": "red"}, "colour"),
        ({"resources": {"nats": {"limits": {"memory": "2Gig"}}}}, "resources.nats.limits.memory"),
        ({"image": {"tag": "a b"}}, "image.tag"),
        ({"secrets": {"services": "My_Secret"}}, "secrets.services"),
        ({"workers": {"min": 20}}, "workers.min is 20, which is more than workers.max (10)"),
        ({"image": {"registry": "https://registry.example.com"}}, "image.registry"),
        ({"namespaces": {"keda": "KEDA"}}, "namespaces.keda"),
        ({"urls": {"console": "https://pallas.example.com"}}, "urls.platform and urls.console are both"),
        ({"broker": {"goMemoryLimit": "2GiB"}}, "broker.goMemoryLimit (2GiB) has to be nine tenths"),
        ({"resources": {"nats": {"limits": {"memory": "1500Mi"}}}}, "resources.nats.limits.memory (1500Mi)"),
        ({"fleet": {"allow": "everybody"}}, "fleet.allow"),
        ({"networks": {"proxies": "ingress"}}, "networks.proxies"),
        ({"gateways": {"min": 9, "max": 3}}, "gateways.min is 9, which is more than gateways.max (3)"),
    ],
)
def test_values_that_mean_nothing_are_refused(values: Any, reason: str, tmp_path: Path) -> None:
    made = template(values, tmp_path)
    assert made.returncode != 0
    assert reason in made.stderr


def test_pallas_k8s_makes_teams_of_what_helm_prints(small: list[Object], tmp_path: Path) -> None:
    BrokerFolder(tmp_path).write_users([])
    plan = Planner(small, read_folders([DEMO], {}), lambda _kind, _name, _namespace: None, tmp_path).plan()
    made = by_key(plan.objects)
    assert ("Deployment", "agent-worker-demo") in made
    assert made["ScaledObject", "agent-worker-demo"]["spec"]["maxReplicaCount"] == 2
    assert ("Deployment", "agent-worker") not in made


def test_helm_runs_pallas_k8s_as_its_post_renderer(tmp_path: Path) -> None:
    BrokerFolder(tmp_path).write_users([])
    words = ("k8s", "render", "--manifests", "-", "--broker", str(tmp_path), str(DEMO))
    after = [f"--post-renderer-args={word}" for word in words]
    program = Path(sys.executable).with_name("pallas")
    made = run("template", "pallas", CHART, f"--namespace={NAMESPACE}", f"--post-renderer={program}", *after)
    assert made.returncode == 0, made.stderr
    assert ("Deployment", "agent-worker-demo") in by_key(list(yaml.safe_load_all(made.stdout)))


def test_the_version_of_the_chart_is_that_of_the_command() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text("utf-8"))
    project = (ROOT / "cli" / "pyproject.toml").read_text("utf-8")
    assert f'version = "{chart["appVersion"]}"' in project
    assert chart["kubeVersion"] == f">={OLDEST}.0-0"
