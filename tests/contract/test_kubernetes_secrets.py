"""The Secrets of `deploy/k8s`: the documented commands make every key, and a pod mounts only its own keys."""

import os
import subprocess
from pathlib import Path

import pytest
from deploy.make_secrets import make_secrets
from tests.deployment.kubernetes import OVERLAYS, container, pods
from tests.deployment.secrets import DOCUMENTS, broker_files, made_by, mounted_secrets
from tests.deployment.services import SERVICES
from tests.embedded import nats_binary

each_overlay = pytest.mark.parametrize("overlay", OVERLAYS)
each_document = pytest.mark.parametrize("document", DOCUMENTS)
OF_THE_TEAM = "team"
SEED = "-nats-seed"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which `make secrets` was run."""
    folder = tmp_path_factory.mktemp("checkout")
    make_secrets(folder / "deploy" / "secrets")
    return folder


@each_overlay
def test_a_pod_mounts_the_nats_seed_of_its_own_service_only(overlay: str) -> None:
    for name, pod in pods(overlay).items():
        items = [item for each in mounted_secrets(pod).values() for item in each or ()]
        seeds = {(item["key"], item["path"]) for item in items if SEED in item["key"]}
        assert seeds == ({(f"{name}{SEED}", f"{name}{SEED}")} if name in SERVICES else set())


@each_overlay
def test_only_the_team_secret_is_mounted_as_a_whole(overlay: str) -> None:
    whole = {secret for pod in pods(overlay).values() for secret, items in mounted_secrets(pod).items() if not items}
    assert whole == {OF_THE_TEAM}


@each_overlay
def test_only_the_broker_mounts_the_broker_secret(overlay: str) -> None:
    assert [name for name, pod in pods(overlay).items() if "broker" in mounted_secrets(pod)] == ["nats"]


@each_overlay
@each_document
def test_the_documented_commands_make_every_key_that_pods_mount(overlay: str, document: str, checkout: Path) -> None:
    made = made_by(document, checkout)
    for pod in pods(overlay).values():
        for secret, items in mounted_secrets(pod).items():
            assert {item["key"] for item in items or ()} <= set(made.get(secret, ()))


@each_document
def test_the_cluster_secret_has_the_seed_of_each_service_and_not_of_the_cli(document: str, checkout: Path) -> None:
    made = made_by(document, checkout)
    seeds = checkout / "deploy" / "secrets" / "nats"
    for name in SERVICES:
        [seed] = seeds.glob(f"{name}*.seed")
        secret = made["agent-worker" if name == "agent-worker" else "pallas"]
        assert secret[f"{name}{SEED}"] == seed.read_bytes()
    assert (seeds / "cli.seed").read_bytes() not in [content for files in made.values() for content in files.values()]


@each_document
def test_what_people_have_and_no_pod_needs_stays_outside_of_the_cluster(document: str, checkout: Path) -> None:
    of_operators = {path.name for path in (checkout / "deploy" / "secrets" / "operators").iterdir()}
    assert of_operators == {"admin-password"}
    assert of_operators & made_by(document, checkout)["pallas"].keys() == set()


@each_overlay
def test_the_broker_accepts_its_configuration_and_arguments(overlay: str, checkout: Path, tmp_path: Path) -> None:
    binary = nats_binary()
    assert binary is not None
    for path, content in broker_files(overlay, made_by(DOCUMENTS[0], checkout)).items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_bytes(content.replace(b"/etc/nats/", f"{tmp_path}/".encode()))
    arguments = [word.replace("/etc/nats/", f"{tmp_path}/") for word in container(pods(overlay)["nats"])["args"]]
    environ = os.environ | {"SERVER_NAME": "nats-0"}
    checked = subprocess.run(
        [binary, *arguments, "-t"], cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=20, check=False
    )
    assert checked.returncode == 0, checked.stderr
