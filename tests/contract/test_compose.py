"""`deploy/compose.yaml`: what it starts is whole, closed to the outside, and told only what it can be told."""

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

from pallas_runtime.settings import FILE_SUFFIX
from pallas_runtime.span_export import FLUSH_SECONDS

MIGRATIONS = {name for name in containers() if name.endswith("-migrate")}
JOBS = {*MIGRATIONS, "demo-library"}
OURS = {*SERVICES, *JOBS, "demo-tools"}
HOSTED = ROOT / "deploy" / "demo-team"
MADE = {"deploy/users.conf", "deploy/tls.conf", "deploy/tls"}
"""What `make secrets` makes beside the secrets."""
JWT = HOSTED / "fastagent.secrets.yaml"
each_service = pytest.mark.parametrize("name", sorted(SERVICES))


@pytest.fixture(scope="module")
def secrets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The secrets, made."""
    folder = tmp_path_factory.mktemp("deploy") / "secrets"
    make_secrets(folder)
    return folder


def in_place(given: dict[str, str], secrets: Path) -> dict[str, str]:
    """The variables of a container, where its secrets lie in this folder."""
    return {name: value.replace(SECRETS, f"{secrets}/") for name, value in given.items()}


def test_the_file_fits_the_compose_specification() -> None:
    schema: dict[str, Any] = json.loads((ROOT / "tests/data/compose-spec.schema.json").read_text("utf-8"))
    jsonschema.Draft7Validator.check_schema(schema)
    jsonschema.validate(compose(), schema, cls=jsonschema.Draft7Validator)


def test_every_service_runs_in_compose() -> None:
    assert set(SERVICES) <= set(containers())


@each_service
def test_a_container_starts_the_module_of_its_service_from_its_own_image(name: str) -> None:
    container = containers()[name]
    assert container["command"] == [SERVICES[name].module]
    assert container["build"]["args"] == {"PACKAGE": f"pallas-{name}"}
    assert container["image"] == f"pallas/{name}"


@pytest.mark.parametrize("name", sorted(MIGRATIONS))
def test_a_migration_is_the_module_of_its_service_and_is_over_before_the_service_starts(name: str) -> None:
    service = name.removesuffix("-migrate")
    assert containers()[name]["image"] == containers()[service]["image"]
    assert containers()[name]["command"] == [f"{SERVICES[service].module}.migrate"]
    assert containers()[service]["depends_on"][name] == {"condition": "service_completed_successfully"}


def test_the_demo_s_library_is_made_for_the_team_that_is_hosted_and_its_jwt_is_kept_where_workers_read_it() -> None:
    job, worker = containers()["demo-library"], containers()["agent-worker"]
    *_, folder = job["command"]
    assert folder == environment("agent-worker")["PALLAS_TEAMS"]
    assert [volume.removesuffix(":ro") for volume in worker["volumes"]] == [
        volume.removesuffix(":ro") for volume in job["volumes"]
    ]
    [kept] = [volume for volume in job["volumes"] if not volume.endswith(":ro")]
    assert os.path.normpath(f"{folder}/{JWT.readlink()}") == f"{kept.partition(':')[2]}/{JWT.name}"


def test_a_folder_that_is_kept_in_a_volume_belongs_to_who_writes_it() -> None:
    ours = {volume for name in OURS for volume in containers()[name].get("volumes", [])}
    folders = {volume.split(":")[1] for volume in ours if not volume.startswith((".", "/"))}
    assert folders == {"/teams/secrets"}
    assert "install --directory --owner pallas --group pallas --mode 700 /teams/secrets" in image.text()


def test_the_hosted_demo_team_is_that_of_the_checkout() -> None:
    links = {path.name: path.readlink() for path in HOSTED.iterdir()}
    assert links.pop(JWT.name) == Path("../secrets") / JWT.name
    assert {(HOSTED / name).resolve() for name in links} == set(DEMO.iterdir())


@each_service
def test_a_service_is_told_nothing_that_it_does_not_know(name: str) -> None:
    assert unknown(name, environment(name)) == set()


@pytest.mark.parametrize("name", ["agent-worker", "health-monitor"])
def test_who_hosts_the_demo_team_is_told_where_its_servers_are(name: str) -> None:
    assert named_by_teams(DEMO) <= set(environment(name))


@each_service
def test_a_service_accepts_what_it_is_told(name: str, secrets: Path) -> None:
    told = settings_of(SERVICES[name]).from_env(in_place(environment(name), secrets))
    assert (told.host, told.port) == ("0.0.0.0", 8080)


@each_service
def test_no_secret_is_told_by_the_environment_itself(name: str) -> None:
    fields = settings_of(SERVICES[name]).model_fields
    secret = {f"PALLAS_{field.upper()}" for field, info in fields.items() if "SecretStr" in str(info.annotation)}
    assert secret & set(environment(name)) <= {"PALLAS_NATS_URL"}


@pytest.mark.parametrize("name", sorted(containers()))
def test_a_container_has_the_secrets_that_it_reads_and_no_others(name: str) -> None:
    container = containers()[name]
    said = json.dumps([container.get("environment", {}), container.get("command", []), container.get("healthcheck")])
    said += "".join(path.read_text("utf-8") for path in mounted_files(name) if path.suffix == ".sh")
    said = said.replace("${name//_/-}-postgres-password", " ".join(f"{each}-postgres-password" for each in SERVICES))
    read = {found for found in re.findall(r"[\w-]+", said) if found in compose()["secrets"]}
    assert read == set(container.get("secrets", []))


def test_every_secret_is_made_and_none_is_in_the_repository(secrets: Path) -> None:
    files = {ROOT / "deploy" / entry["file"] for entry in compose()["secrets"].values()}
    assert {path.parent for path in files} == {ROOT / "deploy" / "secrets"}
    assert {path.name for path in files} <= {path.name for path in secrets.iterdir()}
    assert [path for path in tracked() if path.startswith("deploy/secrets")] == []


def test_secrets_are_made_once_and_their_folder_is_for_its_owner(secrets: Path) -> None:
    before = {path: path.read_bytes() for path in secrets.parent.rglob("*") if path.is_file()}
    assert make_secrets(secrets) == []
    assert {path: path.read_bytes() for path in secrets.parent.rglob("*") if path.is_file()} == before
    assert stat.S_IMODE(secrets.stat().st_mode) == 0o700


@each_service
def test_a_service_has_a_seed_of_its_own_and_knows_who_vouches_for_the_broker(name: str) -> None:
    told = environment(name)
    assert told["PALLAS_NATS_SEED_FILE"] == f"{SECRETS}{name}-nats-seed"
    assert told["PALLAS_NATS_CA_FILE"] == f"{SECRETS}nats-ca"


def test_another_team_s_workers_are_another_user(tmp_path: Path) -> None:
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


def test_only_this_machine_reaches_what_is_published() -> None:
    published = [port for container in containers().values() for port in container.get("ports", [])]
    assert published
    assert [port for port in published if not port.startswith("127.0.0.1:")] == []


@pytest.mark.parametrize("name", sorted(containers()))
def test_every_container_has_a_limit_of_memory_and_cannot_gain_privileges(name: str) -> None:
    assert re.fullmatch(r"\d+[mg]", containers()[name]["mem_limit"])
    assert "no-new-privileges:true" in containers()[name]["security_opt"]


@pytest.mark.parametrize("name", sorted(OURS))
def test_our_containers_can_write_nothing_and_have_no_capabilities(name: str) -> None:
    container = containers()[name]
    assert (container["read_only"], container["cap_drop"]) == (True, ["ALL"])


@pytest.mark.parametrize("name", sorted(containers()))
def test_who_waits_waits_for_the_end_of_a_job_or_for_a_healthy_container(name: str) -> None:
    waits: dict[str, dict[str, str]] = containers()[name].get("depends_on", {})
    for other, how in waits.items():
        ends = other in JOBS
        assert how == {"condition": "service_completed_successfully" if ends else "service_healthy"}
        assert ends or "healthcheck" in containers()[other]


def test_a_container_is_given_longer_to_end_than_its_service_takes() -> None:
    for name in SERVICES:
        drain = settings_of(SERVICES[name]).from_env({}).drain_seconds
        assert float(containers()[name]["stop_grace_period"].removesuffix("s")) >= drain + FLUSH_SECONDS


def test_what_is_mounted_is_there() -> None:
    mounted = {path.relative_to(ROOT) for name in containers() for path in mounted_files(name)}
    assert {str(path) for path in mounted} - MADE <= tracked()
    assert [path for path in tracked() if path in MADE] == []


def test_images_of_others_are_pinned_and_the_broker_is_the_embedded_one() -> None:
    others = {name: container["image"] for name, container in containers().items() if name not in OURS}
    assert [name for name, reference in others.items() if not re.search(r":v?\d+\.?\d*", reference)] == []
    assert others["nats"] == f"nats:{nats_version()}-alpine"


def test_the_image_is_built_with_the_uv_that_developers_have_and_runs_as_nobody_special() -> None:
    wanted = re.search(r"^version=(\S+)$", (ROOT / "bootstrap").read_text("utf-8"), re.MULTILINE)
    assert wanted is not None
    assert f"ghcr.io/astral-sh/uv:{wanted[1]} " in image.text()
    last = image.text().rpartition("\nFROM ")[2]
    assert re.search(r"^USER [1-9]\d*:[1-9]\d*$", last, re.MULTILINE)


def test_the_image_is_built_of_what_its_context_lets_in() -> None:
    ignored = (PATH.parent / "Dockerfile.dockerignore").read_text("utf-8")
    let_in = set(re.findall(r"^!(\S+)$", ignored, re.MULTILINE))
    assert let_in == {source for sources, _ in image.copies() for source in sources}


def test_a_file_of_secrets_is_not_of_the_image() -> None:
    assert "**/fastagent.secrets.yaml" in (PATH.parent / "Dockerfile.dockerignore").read_text("utf-8").splitlines()
    assert FILE_SUFFIX not in image.text()
