"""What `pallas broker config` writes, and what it leaves unchanged."""

import stat
from pathlib import Path

import pytest
from typer.testing import CliRunner

from pallas_bus.access import public_key
from pallas_cli.broker_config.users import WorkerTeams
from pallas_cli.broker_config.write import BrokerFolder
from pallas_cli.main import commands
from pallas_cli.refused import Refused
from pallas_contracts.catalog import SPEAKERS, WORKER

ALPHA = WorkerTeams({"alpha": ["harper"]})
BOTH = WorkerTeams({"beta": ["argos"], "alpha": ["harper"]})


def users(folder: BrokerFolder) -> str:
    """The users as they are written."""
    return (folder.folder / "users.conf").read_text("utf-8")


def test_each_service_has_a_user_and_each_kind_of_worker_has_one(tmp_path: Path) -> None:
    names = BrokerFolder(tmp_path).write_users([ALPHA, BOTH])
    others = [name for name in SPEAKERS if name != WORKER]
    assert names == [*others, "agent-worker.alpha", "agent-worker.alpha.beta", "system"]


def test_the_pool_is_denied_the_queue_of_every_agent_of_every_kind_of_worker(tmp_path: Path) -> None:
    folder = BrokerFolder(tmp_path)
    folder.write_users([ALPHA, WorkerTeams({"alpha": ["echo"], "beta": ["argos"]})])
    pool = users(folder).partition("# data-pool\n")[2].partition("# ")[0]
    denied = pool.partition("deny: [")[2].partition("]")[0]
    for queue in ("alpha__harper", "alpha__echo", "beta__argos"):
        assert f"$JS.API.CONSUMER.MSG.NEXT.TURN_QUEUE.{queue}" in denied


def test_the_users_are_public_keys_and_hold_no_seed(tmp_path: Path) -> None:
    folder = BrokerFolder(tmp_path)
    for name in folder.write_users([ALPHA]):
        seed = folder.seeds.path(name).read_text("ascii")
        assert public_key(seed) in users(folder)
        assert seed not in users(folder)


@pytest.mark.parametrize(("containers", "mode"), [(False, 0o600), (True, 0o444)])
def test_seeds_are_private_or_for_containers_at_least_their_folder_is(
    tmp_path: Path, containers: bool, mode: int
) -> None:
    folder = BrokerFolder(tmp_path, containers)
    for name in folder.write_users([ALPHA]):
        assert stat.S_IMODE(folder.seeds.path(name).stat().st_mode) == mode
    assert stat.S_IMODE(folder.seeds.folder.stat().st_mode) == 0o700


def test_writing_the_configuration_again_changes_nothing(tmp_path: Path) -> None:
    folder = BrokerFolder(tmp_path)
    folder.write_users([ALPHA])
    folder.write_tls(["broker"])
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    folder.write_users([ALPHA])
    folder.write_tls(["broker"])
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


def test_a_rotated_user_has_two_seeds_until_the_old_one_is_removed(tmp_path: Path) -> None:
    folder = BrokerFolder(tmp_path)
    folder.write_users([ALPHA])
    old = folder.seeds.kept("registry")
    folder.seeds.rotate("registry")
    folder.write_users([ALPHA])
    fresh = folder.seeds.kept("registry")
    assert fresh != old
    assert public_key(old) in users(folder)
    assert public_key(fresh) in users(folder)
    with pytest.raises(Refused, match="is still valid"):
        folder.seeds.rotate("registry")
    folder.seeds.path("registry").with_name("registry.seed.old").unlink()
    folder.write_users([ALPHA])
    assert public_key(old) not in users(folder)


def test_the_command_prints_the_paths_of_seeds_and_refuses_unknown_users(tmp_path: Path) -> None:
    written = CliRunner().invoke(commands, ["broker", "config", "--out", str(tmp_path), "--teams", "teams/demo"])
    assert written.exit_code == 0, written.output
    assert f"{tmp_path}/secrets/nats/agent-worker.demo.seed" in written.output.splitlines()
    refused = CliRunner().invoke(commands, ["broker", "rotate", "nobody", "--out", str(tmp_path)])
    assert isinstance(refused.exception, Refused)
    assert "registry" in str(refused.exception)
