"""The Secrets of a cluster as documents say that they are made, and the volumes that pods see of them.

The commands are carried out by kubectl itself, which needs no cluster for it.
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

DOCUMENTS = ("deploy/README.md", "deploy/try_cluster.sh")
"""The page that says how Secrets are made."""

_WORDS = ("kubectl", "create", "secret")

type Files = dict[str, bytes]


def made_by(document: str, checkout: Path) -> dict[str, Files]:
    """What the commands of a document make of the files in a checkout: keys and contents by Secret."""
    return dict(_made(command, checkout) for command in _commands(document))


def mounted_secrets(pod: Object) -> dict[str, list[Object] | None]:
    """The keys that a pod's volumes have of each Secret; None means all."""
    return {
        source["secret"].get("name") or source["secret"]["secretName"]: source["secret"].get("items")
        for volume in pod["spec"].get("volumes", [])
        for source in volume.get("projected", {}).get("sources", [volume])
        if "secret" in source
    }


def broker_files(overlay: str, secrets: dict[str, Files]) -> Files:
    """The files of the broker's volume of configuration, by their path in it."""
    [volume] = [each for each in pods(overlay)["nats"]["spec"]["volumes"] if each["name"] == "config"]
    files: Files = {}
    for source in volume["projected"]["sources"]:
        match source:
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
