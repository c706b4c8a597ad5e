"""Prometheus accepts its configuration and rules, and every alert fires and stays silent when it should."""

import json
import subprocess
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml
from deploy.observability import dashboard
from tests.contract.test_metrics import AGGREGATED, ALERTS, RULES
from tests.contract.tree import ROOT
from tests.debian_tools import tool

FOLDER = ROOT / "deploy" / "observability"
TESTS = FOLDER / "rules_test.yml"


def promtool(*words: str | Path) -> tuple[int, str]:
    """Run promtool in the folder of the rules; returns its exit code and output."""
    command = [str(tool("promtool")), *map(str, words)]
    ended = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, timeout=60, check=False)
    return ended.returncode, ended.stdout + ended.stderr


@cache
def suite() -> dict[str, Any]:
    """The tests of all alerts."""
    return yaml.safe_load(TESTS.read_text("utf-8"))


def test_promtool_accepts_the_rules() -> None:
    code, output = promtool("check", "rules", "--lint-fatal", RULES)
    assert code == 0, output


@pytest.mark.parametrize("name", ["prometheus.yml", "prometheus-kubernetes.yml"])
def test_promtool_accepts_the_configuration_of_prometheus(tmp_path: Path, name: str) -> None:
    config = (FOLDER / name).read_text("utf-8")
    here = tmp_path / name
    here.write_text(config.replace("/etc/prometheus/", f"{FOLDER}/"), "utf-8")
    code, output = promtool("check", "config", "--lint-fatal", here)
    assert code == 0, output
    assert "rules.yml" in output


def test_every_alert_passes_its_promtool_tests() -> None:
    code, output = promtool("test", "rules", TESTS)
    assert code == 0, output


def test_promtool_finds_a_wrong_expectation(tmp_path: Path) -> None:
    right = "150 turns of demo/harper wait."
    [case] = [text for it in suite()["tests"] if right in (text := json.dumps(it))]
    wrong = tmp_path / "wrong.json"  # which is YAML, too
    tests = suite() | {"rule_files": [str(RULES)], "tests": [json.loads(case.replace(right, f"1{right}"))]}
    wrong.write_text(json.dumps(tests), "utf-8")
    code, output = promtool("test", "rules", wrong)
    assert code == 1
    assert "PallasQueueDeep" in output


@pytest.mark.parametrize("alert", [rule["alert"] for rule in ALERTS])
def test_an_alert_has_a_case_that_fires_and_one_that_is_silent(alert: str) -> None:
    cases: list[dict[str, Any]] = suite()["tests"]
    seen = [bool(it["exp_alerts"]) for case in cases for it in case["alert_rule_test"] if it["alertname"] == alert]
    assert set(seen) == {True, False}


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
