"""The ready file that `pallas up` writes."""

import json
from pathlib import Path

from pallas_cli.stack.ready_file import Addresses, remove, write

ADDRESSES = Addresses(
    registry="http://127.0.0.1:1",
    gateway="http://127.0.0.1:2",
    gateways=["http://127.0.0.1:2"],
    nats="nats://127.0.0.1:3",
    nats_seed_file="/data/secrets/nats/cli.seed",
    redis=None,
    postgres=None,
    team_lifecycle=None,
    library_search=None,
    pipelines="http://127.0.0.1:5",
    data_pool="http://127.0.0.1:4",
    coder="http://127.0.0.1:6",
    fleet="http://127.0.0.1:7",
    workspaces=None,
    data="/data",
    log="/data/log",
)


def test_the_ready_file_has_exactly_the_promised_keys(tmp_path: Path) -> None:
    path = tmp_path / "new" / "ready.json"
    write(path, ADDRESSES, {"agent-worker": [1, 2]})
    content = json.loads(path.read_text())
    servers, services = (
        ("nats", "nats_seed_file", "redis", "postgres"),
        ("team_lifecycle", "library_search", "pipelines", "data_pool", "coder", "fleet", "workspaces"),
    )
    assert set(content) == {"registry", "gateway", "gateways", *servers, *services, "data", "log", "pids"}
    assert content["pids"] == {"agent-worker": [1, 2]}
    assert content["redis"] is None


def test_rewriting_replaces_the_file_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "ready.json"
    write(path, ADDRESSES, {"registry": [1]})
    first = path.stat().st_ino
    write(path, ADDRESSES, {"registry": [2]})
    assert path.stat().st_ino != first
    assert json.loads(path.read_text())["pids"] == {"registry": [2]}
    assert list(tmp_path.iterdir()) == [path]


def test_only_the_owner_can_read_the_ready_file(tmp_path: Path) -> None:
    path = tmp_path / "ready.json"
    write(path, ADDRESSES, {})
    assert path.stat().st_mode & 0o077 == 0


def test_removing_a_missing_ready_file_raises_nothing(tmp_path: Path) -> None:
    remove(tmp_path / "ready.json")
