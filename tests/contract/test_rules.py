"""Prometheus accepts its configuration and rules, and every alert fires and stays silent when it should."""

import os
import re
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from deploy.observability import dashboard, generate
from tests.contract.test_metrics import AGGREGATED, ALERTS, RULES
from tests.contract.tree import ROOT
from tests.debian_tools import pins, tool
from tests.deployment.compose import compose

FOLDER = ROOT / "deploy" / "observability"
TESTS = [FOLDER / "rules_test.yml", FOLDER / "slo_test.yml"]
ALERTMANAGER = FOLDER / "alertmanager.yml"
NAMES = [rule["alert"] for rule in ALERTS]


def promtool(*words: str | Path) -> tuple[int, str]:
    """Run promtool in the folder of the rules; returns its exit code and output. It collects garbage less often."""
    command, environ = [str(tool("promtool")), *map(str, words)], {**os.environ, "GOGC": "400"}
    ended = subprocess.run(command, cwd=FOLDER, env=environ, capture_output=True, text=True, check=False)
    return ended.returncode, ended.stdout + ended.stderr


def test_promtool_accepts_the_rules() -> None:
    code, output = promtool("check", "rules", "--lint-fatal", *RULES)
    assert code == 0, output


@pytest.mark.parametrize("name", ["prometheus.yml", "prometheus-kubernetes.yml"])
def test_promtool_accepts_the_configuration_of_prometheus(tmp_path: Path, name: str) -> None:
    config = (FOLDER / name).read_text("utf-8")
    here = tmp_path / name
    here.write_text(config.replace("/etc/prometheus/", f"{FOLDER}/"), "utf-8")
    code, output = promtool("check", "config", "--lint-fatal", here)
    assert code == 0, output
    assert all(path.name in output for path in RULES)


def test_every_alert_passes_its_promtool_tests() -> None:
    code, output = promtool("test", "rules", *TESTS)
    assert code == 0, output


def test_promtool_finds_a_wrong_expectation(tmp_path: Path) -> None:
    for name in ("slo.yml", "slo_test.yml"):
        (tmp_path / name).write_text((FOLDER / name).read_text("utf-8").replace("summary: 2%", "summary: 3%"), "utf-8")
    code, output = promtool("test", "rules", tmp_path / "slo_test.yml")
    assert code == 1
    assert "PallasErrorBudgetBurnsFast" in output


def test_promtool_is_of_the_release_that_compose_runs() -> None:
    release = compose()["services"]["prometheus"]["image"].rpartition(":v")[2].rpartition(".")[0]
    assert all(f"_{release}." in pins(name, "x86_64")[0].path for name in ("promtool", "prometheus"))
    alertmanager = compose()["services"]["alertmanager"]["image"].rpartition(":v")[2]
    assert f"_{alertmanager}+" in pins("prometheus-alertmanager", "x86_64")[0].path


@cache
def cases() -> list[dict[str, Any]]:
    """The tests of rules."""
    return [case for path in TESTS for case in yaml.safe_load(path.read_text("utf-8"))["tests"]]


def test_every_alert_has_a_case_that_fires_and_one_that_is_silent() -> None:
    seen: dict[str, set[bool]] = {name: set() for name in NAMES}
    for case in cases():
        for expected in case.get("alert_rule_test", ()):
            seen[expected["alertname"]].add(bool(expected["exp_alerts"]))
    assert {name: fires for name, fires in seen.items() if fires != {True, False}} == {}


def test_alerts_lead_to_the_runbook_that_operators_name(tmp_path: Path) -> None:
    for name in generate.ALERTS:
        (tmp_path / name).write_bytes((FOLDER / name).read_bytes())
    generate.lead_to("https://wiki.example.org/runbook", tmp_path)
    text = (tmp_path / "slo.yml").read_text("utf-8")
    assert text.count("runbook_url: https://wiki.example.org/runbook#pallas") == 2
    assert generate.main(["--runbook", "docs/runbook.md"]) == 2


def test_inhibition_names_alerts_that_there_are() -> None:
    rules: list[dict[str, list[str]]] = yaml.safe_load(ALERTMANAGER.read_text("utf-8"))["inhibit_rules"]
    words = [word for rule in rules for word in (*rule["source_matchers"], *rule["target_matchers"])]
    named = [part for word in words for part in word.partition('"')[2].strip('"').split("|") if "alertname" in word]
    assert len(named) > 50
    assert [part for part in named if not any(re.fullmatch(part, name) for name in NAMES)] == []


def test_a_gauge_that_is_summed_over_replicas_is_found() -> None:
    wrong = "sum by (team) (pallas_queue_turns_waiting) > sum(max by (stream) (pallas_stream_bytes))"
    assert AGGREGATED.findall(wrong) == [("sum", "pallas_queue_turns_waiting"), ("max", "pallas_stream_bytes")]


def test_promtool_accepts_the_expressions_of_the_dashboard(tmp_path: Path) -> None:
    # Grafana fills in its own names before it asks.
    asked = [text.replace("$__rate_interval", "5m") for text in dashboard.expressions().values()]
    rules = [{"record": f"panel:number{number}", "expr": text} for number, text in enumerate(asked)]
    here = tmp_path / "panels.yml"
    here.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}), "utf-8")
    code, output = promtool("check", "rules", "--lint-fatal", here)
    assert code == 0, output
    assert f"{len(rules)} rules found" in output
