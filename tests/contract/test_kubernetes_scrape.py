"""Prometheus in a cluster: its scrape job finds every service by labels and annotations, and policies let it in."""

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


def target_of(pod: Object, phase: str = "Running") -> dict[str, str] | None:
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
        given: dict[str, str] = about.get(f"{kind}s", {})
        labels |= {f"__meta_kubernetes_pod_{kind}_{re.sub(r'[^a-zA-Z0-9]', '_', key)}": given[key] for key in given}
    return labels if all(relabel(rule, labels) for rule in JOB["relabel_configs"]) else None


def relabel(rule: dict[str, Any], labels: dict[str, str]) -> bool:
    """Apply one rule to the labels, as Prometheus does; False when the target is dropped."""
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
def test_prometheus_scrapes_every_service_on_its_port_and_nothing_else(overlay: str) -> None:
    targets = {name: target for name, pod in pods(overlay).items() if (target := target_of(pod)) is not None}
    assert targets.keys() == SERVICES.keys()
    for name, target in targets.items():
        port = variables(pods(overlay)[name])["PALLAS_PORT"]
        assert (target["job"], target["__address__"]) == (name, f"10.1.2.3:{port}")
        assert (target["__metrics_path__"], target["namespace"], target["pod"]) == ("/metrics", "pallas", "a-pod")


@each_overlay
def test_a_terminated_pod_is_not_scraped(overlay: str) -> None:
    assert [name for name, pod in pods(overlay).items() if target_of(pod, "Succeeded") is not None] == []


@each_overlay
def test_policies_let_prometheus_reach_the_annotated_ports_only(overlay: str) -> None:
    monitoring = of_kind(overlay, "NetworkPolicy")["monitoring"]["spec"]
    [rule] = monitoring["ingress"]
    assert rule["from"] == [{"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}}]
    assert monitoring["podSelector"] == {}
    ports = {pod["metadata"].get("annotations", {}).get("prometheus.io/port") for pod in pods(overlay).values()}
    assert {str(port["port"]) for port in rule["ports"]} == ports - {None}


def test_the_scrape_job_searches_the_namespace_of_the_pods() -> None:
    [where] = JOB["kubernetes_sd_configs"]
    assert where == {"role": "pod", "namespaces": {"names": ["pallas"]}}
    namespaces = {each["metadata"].get("namespace") for each in built("production") if each["kind"] == "Deployment"}
    assert namespaces == {"pallas"}
    assert {pod["metadata"]["labels"][NAME] for pod in pods("production").values()} >= SERVICES.keys()
