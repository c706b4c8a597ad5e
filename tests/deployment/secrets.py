"""The Secrets of a cluster as documents say that they are made, and the volumes that pods see of them.

The commands are carried out by kubectl itself, which needs no cluster for it. What `pallas k8s` makes has the names
that the manifests give it.
"""

import base64
import os
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path

import yaml
from tests.contract.tree import ROOT
from tests.debian_tools import tool
from tests.deployment.kubernetes import Object, of_kind, pods
from tests.deployment.services import DEMO
from tests.deployment.teams import named, planned

DOCUMENTS = ("deploy/README.md", "deploy/try_cluster.sh")
"""The page that says how Secrets are made."""

_WORDS = ("kubectl", "create", "secret")

type Files = dict[str, bytes]


def made_by(document: str, checkout: Path, team: Path = DEMO) -> dict[str, Files]:
    """What the commands of a document make of the files in a checkout: keys and contents by Secret."""
    return dict(_made(command, checkout) for command in _commands(document)) | _of_team(checkout, team)


def _of_team(checkout: Path, team: Path) -> dict[str, Files]:
    """The seed of the workers, and the broker's users, which are in a ConfigMap."""
    objects = planned("local", checkout / "deploy", [team])
    [seed] = [each["data"] for each in objects if each["kind"] == "Secret"]
    users: dict[str, str] = named(objects, "ConfigMap", "broker-users")["data"]
    return {
        "agent-worker": {key: base64.b64decode(value) for key, value in seed.items()},
        "broker-users": {key: text.encode() for key, text in users.items()},
    }


def mounted_secrets(pod: Object) -> dict[str, list[Object] | None]:
    """The keys that a pod's volumes have of each Secret; None means all."""
    found: dict[str, list[Object] | None] = {}
    for volume in pod["spec"].get("volumes", []):
        for source in volume.get("projected", {}).get("sources", [volume]):
            if secret := source.get("secret"):
                found[secret.get("name") or secret["secretName"]] = secret.get("items")
    return found


def broker_files(overlay: str, secrets: dict[str, Files]) -> Files:
    """The files of the broker's volume of configuration, by their path in it."""
    [volume] = [each for each in pods(overlay)["nats"]["spec"]["volumes"] if each["name"] == "config"]
    files: Files = {}
    for source in volume["projected"]["sources"]:
        match source:
            case {"configMap": {"name": "broker-users" as name, "items": items}}:
                files |= {item["path"]: secrets[name][item["key"]] for item in items}
            case {"configMap": {"name": name}}:
                texts: dict[str, str] = of_kind(overlay, "ConfigMap")[name]["data"]
                files |= {key: text.encode() for key, text in texts.items()}
            case {"secret": {"name": name, "items": items}}:
                files |= {item["path"]: secrets[name][item["key"]] for item in items}
            case other:
                raise AssertionError(f"cannot lay out {other}")
    return files


def _commands(document: str) -> Iterator[list[str]]:
    for line in (ROOT / document).read_text("utf-8").replace("\\\n", " ").splitlines():
        words = shlex.split(line.partition(" | ")[0]) if line.startswith(_WORDS[0]) else []
        if tuple(words[:3]) == _WORDS:
            yield words


def _made(command: list[str], checkout: Path) -> tuple[str, Files]:
    _, *words = command
    nowhere = os.environ | {"KUBECONFIG": os.devnull}
    run = subprocess.run(
        [tool("kubectl"), *words], cwd=checkout, env=nowhere, capture_output=True, text=True, check=False, timeout=20
    )
    assert run.returncode == 0, run.stderr
    secret = yaml.safe_load(run.stdout)
    return secret["metadata"]["name"], {key: base64.b64decode(value) for key, value in secret["data"].items()}
