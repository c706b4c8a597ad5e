"""What `pallas k8s` makes of an overlay and team folders, without a cluster."""

from collections.abc import Sequence
from pathlib import Path

from tests.deployment.kubernetes import Object, built
from tests.deployment.services import DEMO

from pallas_cli.k8s.folders import read_folders
from pallas_cli.k8s.plan import Planner


def planned(overlay: str, broker: Path, folders: Sequence[Path] = (DEMO,)) -> list[Object]:
    """All objects. `broker` is a folder in which `make secrets` was run."""
    return Planner(built(overlay), read_folders(folders, {}), _nothing, broker).plan().objects


def _nothing(kind: str, name: str, namespace: str) -> None:
    """There is no cluster."""


def named(objects: Sequence[Object], kind: str, name: str) -> Object:
    [found] = [each for each in objects if (each["kind"], each["metadata"]["name"]) == (kind, name)]
    return found
