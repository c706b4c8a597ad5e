"""What is measured, and what is said of it in documents, rules and dashboards, are the same."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from deploy.observability import dashboard
from deploy.observability.exposed import EVERY_PROCESS, GAUGES, exposed
from deploy.observability.generate import files, stale
from tests.contract.tree import ROOT
from tests.deployment.compose import environment
from tests.deployment.services import SERVICES

RULES = ROOT / "deploy" / "observability" / "rules.yml"
RUNBOOK = ROOT / "docs" / "runbook.md"

BOUNDED = frozenset(
    {"team", "agent", "outcome", "code", "reason", "attempt", "kind", "name", "key", "folder", "stream"}
    | {"action", "cache", "tool"}
)
"""Labels whose values are words of Pallas, or named by its catalogue and folders. Nothing that a caller chooses."""

OF_PROMETHEUS = frozenset({"up"})
NAME = re.compile(r"\b(?:[a-z_]+:)?(?:pallas|mcp|process|python)_\w+(?::\w+)?\b")
TOGETHER = re.compile(r"\b(sum|avg|max|min)\s*(?:(?:by|without)\s*\([^)]*\)\s*)?\(\s*((?:pallas|mcp)_\w+)")


def rules() -> list[dict[str, Any]]:
    """All rules, of records and of alerts."""
    groups: list[dict[str, Any]] = yaml.safe_load(RULES.read_text("utf-8"))["groups"]
    return [rule for group in groups for rule in group["rules"]]


def expressions() -> dict[str, str]:
    """Every expression of a rule or of a panel, by what it is for."""
    return {rule.get("alert") or rule["record"]: rule["expr"] for rule in rules()} | dashboard.expressions()


EXPRESSIONS = expressions()
RECORDS = {rule["record"] for rule in rules() if "record" in rule}
ALERTS = [rule for rule in rules() if "alert" in rule]
each_expression = pytest.mark.parametrize("name", EXPRESSIONS)
each_alert = pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])


def test_what_is_generated_is_what_the_services_expose() -> None:
    assert stale() == [], "run: make gen"


def test_what_is_generated_is_found_stale_when_it_is_another(tmp_path: Path) -> None:
    assert stale(tmp_path) == list(files())


def test_names_end_in_their_unit_and_begin_with_what_they_are_of() -> None:
    for metric in exposed():
        assert metric.name.startswith(("pallas_", "mcp_")), metric
        assert (metric.kind == "counter") == metric.name.endswith("_total"), metric
        assert metric.kind != "histogram" or metric.name.endswith("_seconds"), metric


def test_no_label_can_have_more_values_than_the_platform_has_things() -> None:
    assert {label for metric in exposed() for label in metric.labels} <= BOUNDED


def test_a_metric_of_two_services_is_the_same_in_both() -> None:
    described = {(metric.name, metric.kind, metric.labels, metric.meaning) for metric in exposed()}
    assert len(described) == len({metric.name for metric in exposed()})


def test_of_every_gauge_it_is_said_how_replicas_are_taken_together() -> None:
    assert {metric.name for metric in exposed() if metric.kind == "gauge"} == set(GAUGES)


def test_every_process_says_whether_it_is_ready() -> None:
    assert [metric.name for metric in exposed() if metric.service == EVERY_PROCESS] == ["pallas_ready"]


@each_expression
def test_what_an_expression_uses_is_exposed_or_recorded(name: str) -> None:
    known = {series for metric in exposed() for series in metric.series} | OF_PROMETHEUS
    known |= {"process_cpu_seconds_total", "process_resident_memory_bytes", "process_start_time_seconds"} | RECORDS
    used = set(NAME.findall(EXPRESSIONS[name]))
    assert used - known == set()
    assert used or "up" in EXPRESSIONS[name]


@each_expression
def test_replicas_are_taken_together_as_the_metric_wants(name: str) -> None:
    wanted = {metric.name: metric.together for metric in exposed() if metric.kind == "gauge"}
    taken = {metric: how for how, metric in TOGETHER.findall(EXPRESSIONS[name]) if metric in wanted}
    assert taken == {metric: wanted[metric] for metric in taken}


def test_names_of_metrics_are_found_in_expressions() -> None:
    found = NAME.findall('a:pallas_x:rate5m / sum by (le) (rate(pallas_y_bucket{code="pallas"}[5m])) > mcp_z_total')
    assert found == ["a:pallas_x:rate5m", "pallas_y_bucket", "mcp_z_total"]


@each_alert
def test_an_alert_says_how_bad_it_is_and_leads_to_its_part_of_the_runbook(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in ("critical", "warning")
    assert rule["annotations"]["summary"].endswith(".")
    assert rule["annotations"]["runbook"] == f"docs/runbook.md#{rule['alert'].lower()}"


def test_the_runbook_has_a_part_for_every_alert_and_each_says_what_is_seen_where_to_look_and_how_to_act() -> None:
    parts = RUNBOOK.read_text("utf-8").split("\n## ")[1:]
    said = {part.partition("\n")[0]: re.findall(r"^- \*\*(\w+)\*\*: ", part, re.MULTILINE) for part in parts}
    assert {name: said[name] for name in said if name.startswith("Pallas")} == {
        rule["alert"]: ["Symptom", "Look", "Act"] for rule in ALERTS
    }


def test_every_metric_of_pallas_is_in_a_rule_or_on_the_dashboard() -> None:
    used = {word for text in EXPRESSIONS.values() for word in NAME.findall(text)}
    assert [metric.name for metric in exposed() if not metric.series & used] == []


def test_no_two_panels_have_one_title_and_no_legend_is_there_twice() -> None:
    panels = [panel for row in dashboard.ROWS.values() for panel in row]
    assert len({panel.title for panel in panels}) == len(panels)
    assert len(dashboard.expressions()) == sum(len(panel.lines) for panel in panels)


def test_prometheus_scrapes_every_service_of_compose_where_it_listens() -> None:
    told = yaml.safe_load((ROOT / "deploy" / "observability" / "prometheus.yml").read_text("utf-8"))
    scraped = {job["job_name"]: job["dns_sd_configs"] for job in told["scrape_configs"]}
    assert scraped.keys() == SERVICES.keys()
    for name, [found] in scraped.items():
        assert found["names"] == [name]
        assert str(found["port"]) == environment(name)["PALLAS_PORT"]


@pytest.mark.parametrize("name", ["collector.yaml", "jaeger.yaml"])
def test_a_pipeline_has_only_parts_that_are_configured(name: str) -> None:
    told = yaml.safe_load((ROOT / "deploy" / "observability" / name).read_text("utf-8"))
    assert set(told["service"].get("extensions", [])) == set(told.get("extensions", {}))
    for pipeline in told["service"]["pipelines"].values():
        assert {part: set(pipeline[part]) for part in pipeline} == {part: set(told[part]) for part in pipeline}


def test_services_send_their_spans_to_where_the_collector_listens() -> None:
    environ = (ROOT / "deploy" / "observability.env").read_text("utf-8")
    collector, jaeger = (
        yaml.safe_load((ROOT / "deploy" / "observability" / name).read_text("utf-8"))
        for name in ("collector.yaml", "jaeger.yaml")
    )
    # Unless they are told another protocol, services send by HTTP.
    port = collector["receivers"]["otlp"]["protocols"]["http"]["endpoint"].rpartition(":")[2]
    assert f"OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:{port}\n" in environ
    assert "OTEL_EXPORTER_OTLP_PROTOCOL" not in environ
    port = jaeger["receivers"]["otlp"]["protocols"]["grpc"]["endpoint"].rpartition(":")[2]
    assert collector["exporters"]["otlp/jaeger"]["endpoint"] == f"jaeger:{port}"
