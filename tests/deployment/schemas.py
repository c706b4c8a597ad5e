"""The schemas of Kubernetes and KEDA, closed to fields that they do not name."""

import copy
import json
from functools import cache
from importlib.resources import files
from typing import Any

import jsonschema
import kubernetes_validate
import yaml
from jsonschema import Draft202012Validator
from referencing import Registry, Resource
from tests.contract.tree import ROOT
from tests.deployment.kubernetes import Object

_NEWER_THAN_2_17 = "scalingModifiers"
"""The only value in KEDA's definition, of the behavior of a fallback, that the oldest version does not have."""


def accept(thing: Object, version: str) -> None:
    """Check an object against its schema in a version of Kubernetes, or in the oldest version of KEDA.

    Raises:
        ValidationError: it has a field or a value that the schema does not know.
    """
    if thing["kind"] == "ScaledObject":
        jsonschema.validate(thing, _scaled_object())
    else:
        _validator(thing["kind"], thing["apiVersion"], version).validate(thing)


@cache
def _validator(kind: str, api: str, version: str) -> Any:
    """As kubernetes-validate makes it for every object again, which takes a tenth of a second."""
    group, _, of_group = api.rpartition("/")
    name = "-".join((kind.lower(), *filter(None, (group.partition(".")[0], of_group))))
    return Draft202012Validator(_schema(version, name), registry=_definitions(version))


@cache
def _definitions(version: str) -> Registry[Any]:
    return (Resource[Any].from_contents(_schema(version, "_definitions")) @ Registry[Any]()).crawl()


@cache
def _schema(version: str, name: str) -> Any:
    folder = files(kubernetes_validate) / "kubernetes-json-schema" / f"v{version}.0-local-strict"
    return json.loads((folder / f"{name}.json").read_text("utf-8"))


@cache
def _scaled_object() -> Any:
    definition = yaml.safe_load((ROOT / "tests/data/keda.sh_scaledobjects.crd.yaml").read_text("utf-8"))
    [version] = definition["spec"]["versions"]
    schema = copy.deepcopy(version["schema"]["openAPIV3Schema"])
    schema["properties"]["spec"]["properties"]["fallback"]["properties"]["behavior"]["enum"].remove(_NEWER_THAN_2_17)
    return _strict(schema)


def _strict(schema: Any) -> Any:
    match schema:
        case {"properties": fields}:
            own = {name: _strict(field) for name, field in fields.items()}
            return {**schema, "properties": own, "additionalProperties": False}
        case {"items": items}:
            return {**schema, "items": _strict(items)}
        case _:
            return schema
