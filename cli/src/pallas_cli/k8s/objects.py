"""Objects of Kubernetes as plain values, and the labels and annotations by which `pallas k8s` finds its own."""

from collections.abc import Mapping
from typing import Any

type Object = dict[str, Any]

FOR_EACH = "pallas.dev/for-each"
"""The annotation of a manifest from which one object is made for each team."""

TEAM = "pallas.dev/team"
"""The label of what belongs to one team."""

FAST_AGENT_TEAM = "pallas.dev/fast-agent-team"
"""The same of the pods of fast-agent-workers: two Deployments of a team must not select each other's pods."""

FAST_AGENT_IMAGE = "pallas.dev/fast-agent-image"
"""The annotation of a worker's manifest with the image of fast-agent-worker, if it is not named like agent-worker's."""

MIGRATION = "pallas.dev/migration"
"""The label of a Job that is made anew when its content changes, because a Job cannot be changed."""

PART_OF = {"app.kubernetes.io/part-of": "pallas"}

LARGEST = 1024 * 1024
"""Bytes that a ConfigMap or a Secret may hold. The API server refuses more."""


def metadata(name: str, namespace: str, team: str | None = None) -> Object:
    """The metadata of an object that is not made of a manifest."""
    return {"name": name, "namespace": namespace, "labels": PART_OF | ({TEAM: team} if team else {})}


def config_map(about: Object, texts: Mapping[str, str], binaries: Mapping[str, str] | None = None) -> Object:
    """A ConfigMap. `binaries` are in base64."""
    made: Object = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": about, "data": dict(texts)}
    return made | ({"binaryData": dict(binaries)} if binaries else {})


def secret(about: Object, values: Mapping[str, str]) -> Object:
    """A Secret. `values` are in base64."""
    return {"apiVersion": "v1", "kind": "Secret", "metadata": about, "type": "Opaque", "data": dict(values)}
