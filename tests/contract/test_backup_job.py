"""The component `deploy/k8s/components/backup`: it builds on both overlays, and its job has no more than it needs."""

import os
from pathlib import Path

import pytest
import yaml
from deploy.make_secrets import make_secrets
from tests.contract.test_docs import fault_of
from tests.deployment.kubernetes import FOLDER, NEWEST, OLDEST, OVERLAYS, container, variables, with_component
from tests.deployment.schemas import accept

from pallas_contracts.catalog import DATABASES

each_overlay = pytest.mark.parametrize("overlay", OVERLAYS)


@each_overlay
def test_the_component_builds_and_every_object_of_it_fits_its_schema(tmp_path: Path, overlay: str) -> None:
    names = {"backup", "backup-at-the-broker", "backup-at-postgres"}
    added = [each for each in with_component(overlay, "backup", tmp_path) if each["metadata"]["name"] in names]
    assert {each["kind"] for each in added} == {"CronJob", "ServiceAccount", "NetworkPolicy"}
    for each in added:
        for version in (OLDEST, NEWEST):
            accept(each, version)


def test_production_names_the_image_of_the_job(tmp_path: Path) -> None:
    [job] = [each for each in with_component("production", "backup", tmp_path) if each["kind"] == "CronJob"]
    overlay = yaml.safe_load((FOLDER / "overlays/production/kustomization.yaml").read_text("utf-8"))
    image = container(job["spec"]["jobTemplate"]["spec"]["template"])["image"]
    assert image in {each["name"] for each in overlay["images"]}


def test_the_job_has_no_privileges_no_identity_and_only_secrets_that_are_made(tmp_path: Path) -> None:
    [job] = [each for each in with_component("production", "backup", tmp_path) if each["kind"] == "CronJob"]
    pod = job["spec"]["jobTemplate"]["spec"]["template"]
    only = container(pod)
    assert only["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert pod["spec"]["securityContext"]["runAsNonRoot"] is True
    assert pod["spec"]["automountServiceAccountToken"] is False
    make_secrets(tmp_path / "secrets")
    mounted = {item["key"] for each in pod["spec"]["volumes"] if "secret" in each for item in each["secret"]["items"]}
    assert mounted <= {path.name for path in (tmp_path / "secrets").iterdir()}
    assert not (tmp_path / "secrets/restore-nats-seed").exists()
    given = variables(pod)
    assert "PALLAS_BACKUP_IDENTITY_FILE" not in given
    assert {f"PALLAS_{name.upper()}_POSTGRES_URL_FILE" for name in DATABASES.values()} <= set(given)
    read = {os.path.basename(value) for name, value in given.items() if name.endswith("_FILE")}
    assert read == mounted


def test_the_command_of_the_job_is_one_that_the_command_line_knows(tmp_path: Path) -> None:
    [job] = [each for each in with_component("local", "backup", tmp_path) if each["kind"] == "CronJob"]
    module, *words = container(job["spec"]["jobTemplate"]["spec"]["template"])["args"]
    assert module == "pallas_cli"
    assert fault_of(words) is None
