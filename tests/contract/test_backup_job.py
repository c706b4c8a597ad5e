"""The component `deploy/k8s/components/backup`: it builds on both overlays, and its job has no more than it needs."""

import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from deploy.make_secrets import make_secrets
from tests.contract.test_docs import fault_of
from tests.contract.tree import ROOT
from tests.debian_tools import tool
from tests.deployment.kubernetes import NEWEST, OLDEST, OVERLAYS, container, variables
from tests.deployment.schemas import accept

from pallas_contracts.catalog import DATABASES

type Object = dict[str, Any]

each_overlay = pytest.mark.parametrize("overlay", OVERLAYS)


@pytest.fixture(scope="module")
def deploy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the folder, for overlays with the component."""
    return shutil.copytree(ROOT / "deploy/k8s", tmp_path_factory.mktemp("deploy") / "k8s", symlinks=False)


def built(deploy: Path, overlay: str) -> list[Object]:
    """The objects of an overlay with the component."""
    folder = deploy / "overlays" / f"{overlay}-with-backup"
    folder.mkdir(exist_ok=True)
    wanted = {"resources": [f"../{overlay}"], "components": ["../../components/backup"], "namespace": "pallas"}
    (folder / "kustomization.yaml").write_text(yaml.safe_dump(wanted))
    run = subprocess.run(
        [tool("kubectl"), "kustomize", folder], capture_output=True, text=True, check=False, timeout=60
    )
    assert run.returncode == 0, run.stderr
    return list(yaml.safe_load_all(run.stdout))


@each_overlay
def test_the_component_builds_and_every_object_of_it_fits_its_schema(deploy: Path, overlay: str) -> None:
    names = {"backup", "backup-at-the-broker", "backup-at-postgres"}
    added = [each for each in built(deploy, overlay) if each["metadata"]["name"] in names]
    assert {each["kind"] for each in added} == {"CronJob", "ServiceAccount", "NetworkPolicy"}
    for each in added:
        for version in (OLDEST, NEWEST):
            accept(each, version)


def test_the_job_has_no_privileges_no_identity_and_only_secrets_that_are_made(deploy: Path, tmp_path: Path) -> None:
    [job] = [each for each in built(deploy, "production") if each["kind"] == "CronJob"]
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


def test_the_command_of_the_job_is_one_that_the_command_line_knows(deploy: Path) -> None:
    [job] = [each for each in built(deploy, "local") if each["kind"] == "CronJob"]
    module, *words = container(job["spec"]["jobTemplate"]["spec"]["template"])["args"]
    assert module == "pallas_cli"
    assert fault_of(words) is None
