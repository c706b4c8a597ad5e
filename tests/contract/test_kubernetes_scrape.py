"""Prometheus in a cluster: its scrape job finds every service by what its pods say, and the policies let it in."""

import re
from typing import Any

import pytest
import yaml
from tests.contract.tree import ROOT
from tests.deployment.kubernetes import NAME, OVERLAYS, Object, built, container, of_kind, pods, variables
from tests.deployment.services import SERVICES

JOB: Object = yaml.safe_load((ROOT / "deploy/observability/prometheus-kubernetes.yml").read_text("utf-8"))[
    "scrape_configs"
][0]
each_overlay = pytest.mark.parametrize("overlay", OVERLAYS)


def found(pod: Object, phase: str = "Running") -> dict[str, str] | None:
    """The labels with which Prometheus would scrape a pod; None when it would not."""
    about = pod["metadata"]
    port = container(pod).get("ports", [{"containerPort": 80}])[0]["containerPort"]
    labels = {
        "__address__": f"10.1.2.3:{port}",
        "__metrics_path__": "/metrics",
        "job": JOB["job_name"],
        "__meta_kubernetes_pod_phase": phase,
        "__meta_kubernetes_namespace": "pallas",
        "__meta_kubernetes_pod_name": "a-pod",
    }
    for kind in ("label", "annotation"):
        said: dict[str, str] = about.get(f"{kind}s", {})
        labels |= {f"__meta_kubernetes_pod_{kind}_{re.sub(r'[^a-zA-Z0-9]', '_', key)}": said[key] for key in said}
    return labels if all(relabelled(rule, labels) for rule in JOB["relabel_configs"]) else None


def relabelled(rule: dict[str, Any], labels: dict[str, str]) -> bool:
    """Carry out one rule, as Prometheus does; False when the target is dropped."""
    value = ";".join(labels.get(name, "") for name in rule["source_labels"])
    match = re.fullmatch(rule.get("regex", "(.*)"), value)
    match rule.get("action", "replace"):
        case "keep":
            return match is not None
        case "drop":
            return match is None
        case "replace":
            if match is not None:
                labels[rule["target_label"]] = match.expand(rule.get("replacement", "$1").replace("$", "\\"))
            return True
        case other:
            raise AssertionError(other)


@each_overlay
def test_every_service_is_scraped_where_it_listens_under_its_own_name_and_nothing_else_is(overlay: str) -> None:
    targets = {name: target for name, pod in pods(overlay).items() if (target := found(pod)) is not None}
    assert targets.keys() == SERVICES.keys()
    for name, target in targets.items():
        port = variables(pods(overlay)[name])["PALLAS_PORT"]
        assert (target["job"], target["__address__"]) == (name, f"10.1.2.3:{port}")
        assert (target["__metrics_path__"], target["namespace"], target["pod"]) == ("/metrics", "pallas", "a-pod")


@each_overlay
def test_a_pod_that_has_ended_is_not_scraped(overlay: str) -> None:
    assert [name for name, pod in pods(overlay).items() if found(pod, "Succeeded") is not None] == []


@each_overlay
def test_whoever_scrapes_is_let_in_to_every_pod_that_says_so_and_to_no_other_port(overlay: str) -> None:
    monitoring = of_kind(overlay, "NetworkPolicy")["monitoring"]["spec"]
    [rule] = monitoring["ingress"]
    assert rule["from"] == [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]
    assert monitoring["podSelector"] == {}
    said = {pod["metadata"].get("annotations", {}).get("prometheus.io/port") for pod in pods(overlay).values()} - {None}
    assert {str(port["port"]) for port in rule["ports"]} == said


def test_the_job_looks_where_the_pods_are() -> None:
    [where] = JOB["kubernetes_sd_configs"]
    assert where == {"role": "pod", "namespaces": {"names": ["pallas"]}}
    namespaces = {each["metadata"].get("namespace") for each in built("production") if each["kind"] == "Deployment"}
    assert namespaces == {"pallas"}
    assert {pod["metadata"]["labels"][NAME] for pod in pods("production").values()} >= SERVICES.keys()
