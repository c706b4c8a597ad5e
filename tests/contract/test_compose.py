"""`deploy/compose.yaml`: containers, secrets, variables and images of a whole stack that only this machine reaches."""

import json
import os
import re
import stat
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from deploy.make_secrets import make_secrets
from tests.contract.tree import ROOT, tracked
from tests.deployment import image
from tests.deployment.compose import PATH, SECRETS, compose, containers, environment, mounted_files
from tests.deployment.services import DEMO, SERVICES, named_by_teams, settings_of, unknown
from tests.embedded import nats_version

from pallas_cli.refused import Refused
from pallas_runtime.settings import FILE_SUFFIX
from pallas_runtime.span_export import FLUSH_SECONDS

MIGRATIONS = {name for name in containers() if name.endswith("-migrate")}
JOBS = {*MIGRATIONS, "demo-library"}
OURS = {*SERVICES, *JOBS, "demo-tools", "backup", "fast-agent-worker"}
HOSTED = ROOT / "deploy" / "demo-team"
MADE = {"deploy/users.conf", "deploy/tls.conf", "deploy/secrets/nats/store.conf", "deploy/tls"}
"""What `make secrets` makes for the broker alone."""
JWT = HOSTED / "fastagent.secrets.yaml"
each_service = pytest.mark.parametrize("name", sorted(SERVICES))


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the secrets that `make_secrets` makes."""
    folder = tmp_path_factory.mktemp("deploy") / "secrets"
    make_secrets(folder)
    return folder


def in_place(given: dict[str, str], secrets: Path) -> dict[str, str]:
    """The variables of a container, with its secrets in this folder."""
    return {name: value.replace(SECRETS, f"{secrets}/") for name, value in given.items()}


def test_the_compose_file_fits_the_compose_specification() -> None:
    schema: dict[str, Any] = json.loads((ROOT / "tests/data/compose-spec.schema.json").read_text("utf-8"))
    jsonschema.Draft7Validator.check_schema(schema)
    jsonschema.validate(compose(), schema, cls=jsonschema.Draft7Validator)


@each_service
def test_a_container_starts_the_module_of_its_service_from_its_own_image(name: str) -> None:
    container = containers()[name]
    assert container["command"] == [SERVICES[name].module]
    assert container["build"]["args"] == {"PACKAGE": f"pallas-{name}"}
    assert container["image"] == f"pallas/{name}"


@pytest.mark.parametrize("name", sorted(MIGRATIONS))
def test_a_migration_runs_before_its_service_from_the_same_image(name: str) -> None:
    service = name.removesuffix("-migrate")
    assert containers()[name]["image"] == containers()[service]["image"]
    assert containers()[name]["command"] == [f"{SERVICES[service].module}.migrate"]
    assert containers()[service]["depends_on"][name] == {"condition": "service_completed_successfully"}


def test_the_demo_library_job_keeps_the_jwt_where_workers_read_it() -> None:
    job, worker = containers()["demo-library"], containers()["agent-worker"]
    *_, folder = job["command"]
    assert folder == environment("agent-worker")["PALLAS_TEAMS"]
    assert [volume.removesuffix(":ro") for volume in worker["volumes"]] == [
        volume.removesuffix(":ro") for volume in job["volumes"]
    ]
    [kept] = [volume for volume in job["volumes"] if not volume.endswith(":ro")]
    assert os.path.normpath(f"{folder}/{JWT.readlink()}") == f"{kept.partition(':')[2]}/{JWT.name}"


def test_the_image_creates_the_folder_of_a_volume_for_its_own_user() -> None:
    ours = {volume for name in OURS for volume in containers()[name].get("volumes", [])}
    folders = {volume.split(":")[1] for volume in ours if not volume.startswith((".", "/"))}
    assert folders == {"/teams/secrets"}
    assert "install --directory --owner pallas --group pallas --mode 700 /teams/secrets" in image.text()


def test_the_hosted_demo_team_links_to_the_files_of_the_checkout() -> None:
    links = {path.name: path.readlink() for path in HOSTED.iterdir()}
    assert links.pop(JWT.name) == Path("../secrets") / JWT.name
    assert {(HOSTED / name).resolve() for name in links} == set(DEMO.resolve().iterdir())


@each_service
def test_a_service_gets_only_variables_that_it_knows(name: str) -> None:
    assert unknown(name, environment(name)) == set()


@pytest.mark.parametrize("name", ["agent-worker", "health-monitor"])
def test_a_reader_of_the_demo_team_gets_every_variable_that_the_team_names(name: str) -> None:
    assert named_by_teams(DEMO) <= set(environment(name))


@each_service
def test_a_service_accepts_the_values_of_its_variables(name: str, secrets: Path) -> None:
    settings = settings_of(SERVICES[name]).from_env(in_place(environment(name), secrets))
    assert (settings.host, settings.port) == ("0.0.0.0", 8080)


@each_service
def test_no_variable_holds_a_secret_itself(name: str) -> None:
    fields = settings_of(SERVICES[name]).model_fields
    secret = {f"PALLAS_{field.upper()}" for field, info in fields.items() if "SecretStr" in str(info.annotation)}
    assert secret & set(environment(name)) <= {"PALLAS_NATS_URL"}


@pytest.mark.parametrize("name", sorted(containers()))
def test_a_container_has_the_secrets_that_it_reads_and_no_others(name: str) -> None:
    container = containers()[name]
    texts = json.dumps([container.get("environment", {}), container.get("command", []), container.get("healthcheck")])
    texts += "".join(path.read_text("utf-8") for path in mounted_files(name) if path.suffix == ".sh")
    texts = texts.replace("${name//_/-}-postgres-password", " ".join(f"{each}-postgres-password" for each in SERVICES))
    read = {found for found in re.findall(r"[\w-]+", texts) if found in compose()["secrets"]}
    assert read == set(container.get("secrets", []))


def test_make_secrets_makes_every_secret_and_none_is_in_the_repository(secrets: Path) -> None:
    files = {ROOT / "deploy" / entry["file"] for entry in compose()["secrets"].values()}
    assert {path.parent for path in files} == {ROOT / "deploy" / "secrets"}
    assert {path.name for path in files} <= {path.name for path in secrets.iterdir()}
    assert [path for path in tracked() if path.startswith("deploy/secrets")] == []


def test_making_secrets_again_changes_nothing_and_their_folder_is_private(secrets: Path) -> None:
    before = {path: path.read_bytes() for path in secrets.parent.rglob("*") if path.is_file()}
    assert make_secrets(secrets) == []
    assert {path: path.read_bytes() for path in secrets.parent.rglob("*") if path.is_file()} == before
    assert stat.S_IMODE(secrets.stat().st_mode) == 0o700


def test_every_private_key_is_in_a_folder_of_its_owner_alone(secrets: Path) -> None:
    deploy = secrets.parent
    keys = [
        path for path in deploy.rglob("*") if path.is_file() and re.search(rb'key: "|PRIVATE KEY', path.read_bytes())
    ]
    assert {path.name for path in keys} >= {"store.conf", "server.key"}
    closed = {path for path in deploy.rglob("*") if path.is_dir() and not path.stat().st_mode & 0o077}
    assert [path for path in keys if closed.isdisjoint(path.parents)] == []


def test_the_key_of_the_brokers_store_is_not_replaced(tmp_path: Path) -> None:
    make_secrets(tmp_path / "secrets")
    path, beside = tmp_path / "secrets" / "nats" / "store.conf", tmp_path / "store.conf"
    text = path.read_text("utf-8")
    path.rename(beside)
    make_secrets(tmp_path / "secrets")
    assert path.read_text("utf-8") == text
    assert not beside.exists()
    path.unlink()
    with pytest.raises(Refused, match=f"is missing: put {path} back.* remove .*{tmp_path / 'store-key.sha256'}"):
        make_secrets(tmp_path / "secrets")
    for wrong, why in (("", "is empty"), (text.replace('key: "', 'key: "0'), "another key")):
        path.write_text(wrong, "utf-8")
        with pytest.raises(Refused, match=why):
            make_secrets(tmp_path / "secrets")


def test_a_password_that_was_beside_the_secrets_of_pods_is_moved_to_those_of_operators(tmp_path: Path) -> None:
    secrets = tmp_path / "secrets"
    secrets.mkdir()
    (secrets / "admin-password").write_text("kept", "ascii")
    make_secrets(secrets)
    assert (secrets / "admin-password").readlink() == Path("operators/admin-password")
    assert (secrets / "admin-password").read_text("ascii") == "kept"


@each_service
def test_a_service_gets_its_own_seed_and_the_ca_of_the_broker(name: str) -> None:
    given = environment(name)
    assert given["PALLAS_NATS_SEED_FILE"] == f"{SECRETS}{name}-nats-seed"
    assert given["PALLAS_NATS_CA_FILE"] == f"{SECRETS}nats-ca"


def test_workers_of_another_team_are_another_user_of_the_broker(tmp_path: Path) -> None:
    make_secrets(tmp_path / "secrets")
    other = tmp_path / "other"
    other.mkdir()
    (other / "agents.yaml").write_text(
        (DEMO / "agents.yaml").read_text("utf-8").replace("name: demo\n", "name: other\n")
    )
    (other / "fastagent.config.yaml").write_bytes((DEMO / "fastagent.config.yaml").read_bytes())
    seed = tmp_path / "secrets" / "agent-worker-nats-seed"
    assert seed.resolve().name == "agent-worker.demo.seed"
    assert make_secrets(tmp_path / "secrets", other) == ["agent-worker-nats-seed"]
    assert seed.resolve().name == "agent-worker.other.seed"
    assert "other__research" in (tmp_path / "users.conf").read_text("utf-8")
    assert "demo__research" not in (tmp_path / "users.conf").read_text("utf-8")


def test_ports_are_published_on_loopback_only() -> None:
    published = [port for container in containers().values() for port in container.get("ports", [])]
    assert published
    assert [port for port in published if not port.startswith("127.0.0.1:")] == []


@pytest.mark.parametrize("name", sorted(containers()))
def test_every_container_has_a_memory_limit_and_cannot_gain_privileges(name: str) -> None:
    assert re.fullmatch(r"\d+[mg]", containers()[name]["mem_limit"])
    assert "no-new-privileges:true" in containers()[name]["security_opt"]


@pytest.mark.parametrize("name", sorted(OURS))
def test_our_containers_are_read_only_and_have_no_capabilities(name: str) -> None:
    container = containers()[name]
    assert (container["read_only"], container["cap_drop"]) == (True, ["ALL"])


@pytest.mark.parametrize("name", sorted(containers()))
def test_a_container_waits_for_finished_jobs_and_healthy_containers(name: str) -> None:
    waits: dict[str, dict[str, str]] = containers()[name].get("depends_on", {})
    for other, how in waits.items():
        ends = other in JOBS
        assert how == {"condition": "service_completed_successfully" if ends else "service_healthy"}
        assert ends or "healthcheck" in containers()[other]


def test_the_stop_grace_period_covers_the_drain_of_the_service() -> None:
    for name in SERVICES:
        drain = settings_of(SERVICES[name]).from_env({}).drain_seconds
        assert float(containers()[name]["stop_grace_period"].removesuffix("s")) >= drain + FLUSH_SECONDS


def test_mounted_files_are_tracked_or_made_by_make_secrets() -> None:
    mounted = {path.relative_to(ROOT) for name in containers() for path in mounted_files(name)}
    assert {str(path) for path in mounted} - MADE <= tracked()
    assert [path for path in tracked() if path in MADE] == []


def test_images_of_others_are_pinned_and_the_broker_has_the_embedded_version() -> None:
    others = {name: container["image"] for name, container in containers().items() if name not in OURS}
    assert [name for name, reference in others.items() if not re.search(r":v?\d+\.?\d*", reference)] == []
    assert others["nats"] == f"nats:{nats_version()}-alpine"


def test_the_image_is_built_with_the_developers_uv_and_runs_as_a_non_root_user() -> None:
    wanted = re.search(r"^version=(\S+)$", (ROOT / "bootstrap").read_text("utf-8"), re.MULTILINE)
    assert wanted is not None
    assert f"ghcr.io/astral-sh/uv:{wanted[1]} " in image.text()
    last = image.text().rpartition("\nFROM ")[2]
    owner = re.search(r"^USER ([1-9]\d*):([1-9]\d*)$", last, re.MULTILINE)
    assert owner is not None
    user, group = owner.groups()
    assert f"groupadd --gid {group} pallas" in last
    assert f"useradd --uid {user} --gid {group} " in last


def test_the_build_context_holds_exactly_what_the_image_copies() -> None:
    ignored = (PATH.parent / "Dockerfile.dockerignore").read_text("utf-8")
    let_in = set(re.findall(r"^!(\S+)$", ignored, re.MULTILINE))
    assert let_in == {source for sources, _ in image.copies() for source in sources}


def test_the_image_holds_no_secrets_file() -> None:
    assert "**/fastagent.secrets.yaml" in (PATH.parent / "Dockerfile.dockerignore").read_text("utf-8").splitlines()
    assert FILE_SUFFIX not in image.text()
