"""Rules and what Prometheus is told are what Prometheus takes, and every alert fires and is silent when it should."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from deploy.observability import dashboard
from tests.contract.test_metrics import ALERTS, RULES, TOGETHER
from tests.contract.tree import ROOT
from tests.debian_tools import tool

FOLDER = ROOT / "deploy" / "observability"
TESTS = FOLDER / "rules_test.yml"


def promtool(*words: str | Path) -> tuple[int, str]:
    """Run promtool in the folder of the rules; returns its exit code and what it said."""
    command = [str(tool("promtool")), *map(str, words)]
    ended = subprocess.run(command, cwd=FOLDER, capture_output=True, text=True, timeout=60, check=False)
    return ended.returncode, ended.stdout + ended.stderr


def test_promtool_accepts_the_rules() -> None:
    code, said = promtool("check", "rules", "--lint-fatal", RULES)
    assert code == 0, said


@pytest.mark.parametrize("name", ["prometheus.yml", "prometheus-kubernetes.yml"])
def test_promtool_accepts_what_prometheus_is_told(tmp_path: Path, name: str) -> None:
    told = (FOLDER / name).read_text("utf-8")
    here = tmp_path / name
    here.write_text(told.replace("/etc/prometheus/", f"{FOLDER}/"), "utf-8")
    code, said = promtool("check", "config", "--lint-fatal", here)
    assert code == 0, said
    assert "rules.yml" in said


def test_every_alert_does_what_its_tests_say() -> None:
    code, said = promtool("test", "rules", TESTS)
    assert code == 0, said


def test_a_wrong_expectation_is_found(tmp_path: Path) -> None:
    told = TESTS.read_text("utf-8").replace("[rules.yml]", f"[{RULES}]")
    wrong = tmp_path / "wrong.yml"
    wrong.write_text(told.replace("150 turns of demo/harper wait.", "151 turns of demo/harper wait."), "utf-8")
    code, said = promtool("test", "rules", wrong)
    assert code == 1
    assert "PallasQueueDeep" in said


@pytest.mark.parametrize("alert", [rule["alert"] for rule in ALERTS])
def test_an_alert_is_seen_to_fire_and_to_be_silent(alert: str) -> None:
    cases: list[dict[str, Any]] = yaml.safe_load(TESTS.read_text("utf-8"))["tests"]
    seen = [bool(it["exp_alerts"]) for case in cases for it in case["alert_rule_test"] if it["alertname"] == alert]
    assert set(seen) == {True, False}


def test_what_each_replica_tells_would_be_found_if_it_were_summed() -> None:
    wrong = "sum by (team) (pallas_queue_turns_waiting) > sum(max by (stream) (pallas_stream_bytes))"
    assert TOGETHER.findall(wrong) == [("sum", "pallas_queue_turns_waiting"), ("max", "pallas_stream_bytes")]


def test_promtool_accepts_the_expressions_of_the_dashboard(tmp_path: Path) -> None:
    # Grafana fills in its own names before it asks.
    asked = [text.replace("$__rate_interval", "5m") for text in dashboard.expressions().values()]
    rules = [{"record": f"panel:number{number}", "expr": text} for number, text in enumerate(asked)]
    here = tmp_path / "panels.yml"
    here.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": rules}]}), "utf-8")
    code, said = promtool("check", "rules", "--lint-fatal", here)
    assert code == 0, said
    assert f"{len(rules)} rules found" in said
