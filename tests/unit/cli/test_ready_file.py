"""The ready file that `pallas up` writes."""

import json
from pathlib import Path

from tests.unit.cli.test_table import PLAN

from pallas_cli.stack.run import write_ready_file

LOGS = Path("/data/log")


def test_the_ready_file_has_exactly_the_promised_keys(tmp_path: Path) -> None:
    path = tmp_path / "new" / "ready.json"
    write_ready_file(path, PLAN, LOGS, {"agent-worker": [1, 2]})
    content = json.loads(path.read_text())
    servers, services = (
        ("nats", "nats_seed_file", "redis", "postgres"),
        ("team_lifecycle", "library_search", "pipelines", "data_pool", "coder", "fleet", "workspaces"),
    )
    assert set(content) == {"registry", "gateway", "gateways", *servers, *services, "data", "log", "pids"}
    assert content["pids"] == {"agent-worker": [1, 2]}
    assert content["redis"] is None


def test_a_ready_file_is_replaced_for_its_owner_alone_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "ready.json"
    write_ready_file(path, PLAN, LOGS, {"registry": [1]})
    first = path.stat().st_ino
    write_ready_file(path, PLAN, LOGS, {"registry": [2]})
    assert path.stat().st_ino != first
    assert json.loads(path.read_text())["pids"] == {"registry": [2]}
    assert list(tmp_path.iterdir()) == [path]
    assert path.stat().st_mode & 0o077 == 0
