"""Speaks to a cluster through `kubectl`, with the context, credentials and proxies that it is configured with."""

import asyncio
import json
import re
from asyncio.subprocess import PIPE
from collections.abc import Sequence
from pathlib import Path

import yaml

from pallas_cli.k8s.folders import Object
from pallas_cli.refused import Refused

MANAGER = "pallas"
"""The owner of the fields that are applied."""

_LOGGED = re.compile(r"[EWI]\d{4} \d\d:\d\d:")
"""The beginning of a line of kubectl's log."""

_AS_OWNER = ("--server-side", "--force-conflicts", f"--field-manager={MANAGER}", "--filename=-")


_CHANGED = "the object has been modified"
"""What the API server says of an object with a `resourceVersion` that is not the last."""


class Changed(Refused):
    """An object was changed since it was read."""


def read_manifests(path: str, given: str) -> list[Object]:
    """The manifests of a kustomization (a folder), of a file, or those in `given` (`-`).

    Raises:
        Refused: kubectl cannot build the folder, or these are no manifests.
    """
    if path != "-":
        source = Path(path)
        given = kubectl("kustomize", path) if source.is_dir() else _text(source)
    try:
        found = [each for each in yaml.safe_load_all(given) if each is not None]
    except (yaml.YAMLError, RecursionError) as error:
        raise Refused(f"{path}: not YAML: {str(error).splitlines()[0]}") from error
    if not found or not all(isinstance(each, dict) and "kind" in each and "metadata" in each for each in found):
        raise Refused(f"{path}: no manifests of Kubernetes")
    return found


def get(kind: str, name: str, namespace: str) -> Object | None:
    """An object of the cluster."""
    said = kubectl("get", kind, name, f"--namespace={namespace}", "--ignore-not-found", "--output=json")
    return json.loads(said) if said.strip() else None


def names(kind: str, selector: str, namespace: str) -> list[str]:
    """The names of the objects that a selector finds, as `KIND/NAME`."""
    return kubectl("get", kind, f"--namespace={namespace}", f"--selector={selector}", "--output=name").split()


def apply(objects: Sequence[Object]) -> str:
    """Apply the objects in their order, and return what kubectl says of each.

    Raises:
        Changed: one with a `resourceVersion` has another one now.
    """
    return kubectl("apply", *_AS_OWNER, given=_written(objects))


def diff(objects: Sequence[Object]) -> str:
    """What applying would change; empty if nothing. The values of Secrets are masked.

    kubectl ends with 1 for changes and for some errors, so an error that it tells counts, beside changes as well.
    """
    return kubectl("diff", *_AS_OWNER, given=_written(objects), accepted=(0, 1))


def delete(things: Sequence[str], namespace: str, *, within: float) -> str:
    """Delete objects (`KIND/NAME`) and wait until they, and pods that they own, are gone. `within` is in seconds."""
    waiting = ("--cascade=foreground", "--wait", f"--timeout={within:.0f}s", "--ignore-not-found")
    return kubectl("delete", *things, f"--namespace={namespace}", *waiting)


def kubectl(*words: str, given: str = "", accepted: Sequence[int] = (0,)) -> str:
    """Run kubectl, and return its output.

    Raises:
        Refused: it is not installed, or it failed; with what it said.
    """
    code, said, wrong = asyncio.run(_run(words, given.encode()))
    errors = [line for line in wrong.splitlines() if line.strip() and not line.startswith("Warning:")]
    if code not in accepted or (code and (errors or not said)):
        kind = Changed if _CHANGED in wrong else Refused
        raise kind(f"kubectl {words[0]} failed:", *_told(errors or wrong.splitlines()))
    return said


def _told(errors: Sequence[str]) -> Sequence[str]:
    """The errors without the lines of kubectl's own log, which repeat them."""
    return [line for line in errors if not _LOGGED.match(line)] or errors


async def _run(words: Sequence[str], given: bytes) -> tuple[int | None, str, str]:
    try:
        process = await asyncio.create_subprocess_exec("kubectl", *words, stdin=PIPE, stdout=PIPE, stderr=PIPE)
    except FileNotFoundError as error:
        raise Refused("kubectl is not installed, or not on PATH", word="not_installed") from error
    said, wrong = await process.communicate(given)
    return process.returncode, said.decode(), wrong.decode()


def _written(objects: Sequence[Object]) -> str:
    return yaml.safe_dump_all(objects, sort_keys=False, width=120)


def _text(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise Refused(f"cannot read {path}: {error}") from error
