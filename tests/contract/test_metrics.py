"""The metrics that services expose agree with documents, rules, dashboards and the collector's configuration."""

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

RULES = [ROOT / "deploy" / "observability" / name for name in ("rules.yml", "slo.yml")]
RUNBOOK = ROOT / "docs" / "runbook.md"

BOUNDED = frozenset(
    {"team", "agent", "outcome", "code", "reason", "attempt", "kind", "name", "key", "folder", "stream", "server"}
    | {"model", "provider", "currency", "version", "revision"}
    | {"action", "cache", "tool", "method", "client", "how", "end", "status", "instance"}
)
"""Labels whose values are words of Pallas, or named by its catalogue and folders. Nothing that a caller
chooses. `instance` is a registered one."""

OF_PROMETHEUS = frozenset({"up"})
NAME = re.compile(r"\b(?:[a-z_]+:)?(?:pallas|mcp|daedalus|process|python)_\w+(?::\w+)?\b")
AGGREGATED = re.compile(r"\b(sum|avg|max|min)\s*(?:(?:by|without)\s*\([^)]*\)\s*)?\(\s*((?:pallas|mcp|daedalus)_\w+)")


def rules() -> list[dict[str, Any]]:
    """All rules, of records and of alerts."""
    groups: list[dict[str, Any]] = [
        group for path in RULES for group in yaml.safe_load(path.read_text("utf-8"))["groups"]
    ]
    return [rule for group in groups for rule in group["rules"]]


def expressions() -> dict[str, str]:
    """Every expression of a rule or of a panel, by what it is for."""
    named = {_name(rule): rule["expr"] for rule in rules()}
    assert len(named) == len(rules())
    return named | dashboard.expressions()


def _name(rule: dict[str, Any]) -> str:
    """The name of a rule. Records of the same series have different labels."""
    return rule.get("alert") or " ".join([rule["record"], *rule.get("labels", {}).values()])


EXPRESSIONS = expressions()
RECORDS = {rule["record"] for rule in rules() if "record" in rule}
ALERTS = [rule for rule in rules() if "alert" in rule]
each_expression = pytest.mark.parametrize("name", EXPRESSIONS)
each_alert = pytest.mark.parametrize("rule", ALERTS, ids=lambda rule: rule["alert"])


def test_generated_files_match_the_exposed_metrics() -> None:
    assert stale() == [], "run: make gen"


def test_missing_generated_files_are_found_stale(tmp_path: Path) -> None:
    assert stale(tmp_path) == list(files())


def test_metric_names_have_a_known_prefix_and_end_in_their_unit() -> None:
    for metric in exposed():
        assert metric.name.startswith(("pallas_", "mcp_", "daedalus_")), metric
        assert (metric.kind == "counter") == metric.name.endswith("_total"), metric
        assert metric.kind != "histogram" or metric.name.endswith(("_seconds", "_steps")), metric


def test_every_label_has_a_bounded_set_of_values() -> None:
    assert {label for metric in exposed() for label in metric.labels} <= BOUNDED


def test_a_metric_of_two_services_is_the_same_in_both() -> None:
    described = {(metric.name, metric.kind, metric.labels, metric.meaning) for metric in exposed()}
    assert len(described) == len({metric.name for metric in exposed()})


def test_every_gauge_says_how_replicas_are_aggregated() -> None:
    assert {metric.name for metric in exposed() if metric.kind == "gauge"} == set(GAUGES)


def test_every_process_says_whether_it_is_ready_and_what_runs_and_nothing_else_of_pallas() -> None:
    of_every_process = [metric.name for metric in exposed() if metric.service == EVERY_PROCESS]
    assert of_every_process == ["pallas_ready", "pallas_build_info"]


@each_expression
def test_an_expression_uses_only_exposed_or_recorded_metrics(name: str) -> None:
    known = {series for metric in exposed() for series in metric.series} | OF_PROMETHEUS
    known |= {"process_cpu_seconds_total", "process_resident_memory_bytes", "process_start_time_seconds"} | RECORDS
    used = set(NAME.findall(EXPRESSIONS[name]))
    assert used - known == set()
    assert used or "up" in EXPRESSIONS[name] or "vector" in EXPRESSIONS[name]


@each_expression
def test_an_expression_aggregates_replicas_as_the_gauge_says(name: str) -> None:
    wanted = {metric.name: metric.together for metric in exposed() if metric.kind == "gauge"}
    taken = {metric: how for how, metric in AGGREGATED.findall(EXPRESSIONS[name]) if metric in wanted}
    assert taken == {metric: wanted[metric] for metric in taken}


def test_metric_names_are_found_in_expressions() -> None:
    found = NAME.findall('a:pallas_x:rate5m / sum by (le) (rate(pallas_y_bucket{code="pallas"}[5m])) > mcp_z_total')
    assert found == ["a:pallas_x:rate5m", "pallas_y_bucket", "mcp_z_total"]


@each_alert
def test_an_alert_has_a_severity_a_summary_and_a_link_to_the_runbook(rule: dict[str, Any]) -> None:
    assert rule["labels"]["severity"] in ("critical", "warning")
    assert rule["annotations"]["summary"].endswith(".")
    base, _, part = rule["annotations"]["runbook_url"].partition("#")
    assert part == rule["alert"].lower()
    assert base == "https://docs.pallas.example.com/runbook/"


def test_the_runbook_has_symptom_look_and_act_for_every_alert() -> None:
    parts = RUNBOOK.read_text("utf-8").split("\n## ")[1:]
    labels = {part.partition("\n")[0]: re.findall(r"^- \*\*(\w+)\*\*: ", part, re.MULTILINE) for part in parts}
    assert {name: labels[name] for name in labels if name.startswith("Pallas")} == {
        rule["alert"]: ["Symptom", "Look", "Act"] for rule in ALERTS
    }


def test_every_metric_of_pallas_is_in_a_rule_or_on_the_dashboard() -> None:
    used = {word for text in EXPRESSIONS.values() for word in NAME.findall(text)}
    assert [metric.name for metric in exposed() if not metric.series & used] == []


def test_panel_titles_and_legends_are_unique() -> None:
    panels = [panel for row in dashboard.ROWS.values() for panel in row]
    assert len({panel.title for panel in panels}) == len(panels)
    assert len(dashboard.expressions()) == sum(len(panel.lines) for panel in panels)


def test_prometheus_scrapes_every_compose_service_on_its_port() -> None:
    config = yaml.safe_load((ROOT / "deploy" / "observability" / "prometheus.yml").read_text("utf-8"))
    scraped = {job["job_name"]: job["dns_sd_configs"] for job in config["scrape_configs"]}
    assert scraped.keys() == SERVICES.keys()
    for name, [found] in scraped.items():
        assert found["names"] == [name]
        assert str(found["port"]) == environment(name)["PALLAS_PORT"]


@pytest.mark.parametrize("name", ["collector.yaml", "jaeger.yaml"])
def test_a_pipeline_uses_exactly_the_configured_parts(name: str) -> None:
    config = yaml.safe_load((ROOT / "deploy" / "observability" / name).read_text("utf-8"))
    assert set(config["service"].get("extensions", [])) == set(config.get("extensions", {}))
    for pipeline in config["service"]["pipelines"].values():
        assert {part: set(pipeline[part]) for part in pipeline} == {part: set(config[part]) for part in pipeline}


def test_services_send_their_spans_to_where_the_collector_listens() -> None:
    environ = (ROOT / "deploy" / "observability.env").read_text("utf-8")
    collector, jaeger = (
        yaml.safe_load((ROOT / "deploy" / "observability" / name).read_text("utf-8"))
        for name in ("collector.yaml", "jaeger.yaml")
    )
    # Services send by HTTP unless another protocol is set.
    port = collector["receivers"]["otlp"]["protocols"]["http"]["endpoint"].rpartition(":")[2]
    assert f"OTEL_EXPORTER_OTLP_ENDPOINT=http://collector:{port}\n" in environ
    assert "OTEL_EXPORTER_OTLP_PROTOCOL" not in environ
    port = jaeger["receivers"]["otlp"]["protocols"]["grpc"]["endpoint"].rpartition(":")[2]
    assert collector["exporters"]["otlp/jaeger"]["endpoint"] == f"jaeger:{port}"
