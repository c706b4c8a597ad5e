"""A small API server for kubectl: it stores what is applied, and checks every object against the schemas of Kubernetes.

It knows server-side apply of one owner, dry runs, lists by label and deletion. It knows no defaults, no conflicts of
owners, no admission and no controllers: nothing is started by what is stored.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from jsonschema import ValidationError
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from tests.deployment.kubernetes import OLDEST, Object
from tests.deployment.schemas import accept
from tests.workspaces_world.served import Served

KINDS = {
    "v1": {
        "namespaces": "Namespace",
        "configmaps": "ConfigMap",
        "secrets": "Secret",
        "services": "Service",
        "serviceaccounts": "ServiceAccount",
    },
    "apps/v1": {"deployments": "Deployment", "statefulsets": "StatefulSet"},
    "batch/v1": {"jobs": "Job"},
    "policy/v1": {"poddisruptionbudgets": "PodDisruptionBudget"},
    "autoscaling/v2": {"horizontalpodautoscalers": "HorizontalPodAutoscaler"},
    "networking.k8s.io/v1": {"networkpolicies": "NetworkPolicy"},
    "keda.sh/v1alpha1": {"scaledobjects": "ScaledObject"},
}
_CLUSTER_WIDE = {"namespaces"}


@dataclass
class ApiServer:
    """What is stored, by plural and name, and how often each object was written. `refused` are faults of objects."""

    objects: dict[tuple[str, str], Object] = field(default_factory=dict[tuple[str, str], Object])
    written: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    deleted: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])
    applied_by: set[str] = field(default_factory=set[str])

    def changes(self) -> set[tuple[str, str]]:
        """What has been written or deleted since this was asked last."""
        changed = {*self.written, *self.deleted}
        self.written.clear()
        self.deleted.clear()
        return changed

    async def one(self, request: Request) -> Response:
        """Get, apply or delete an object."""
        key = request.path_params["plural"], request.path_params["name"]
        match request.method:
            case "PATCH":
                return self._apply(key, yaml.safe_load(await request.body()), request)
            case "DELETE" if key in self.objects:
                self.deleted.append(key)
                return JSONResponse(self.objects.pop(key))
            case "GET" if key in self.objects:
                return JSONResponse(self.objects[key])
            case _:
                return _failure(404, "NotFound", f"{key[0]} {key[1]!r} not found")

    def _apply(self, key: tuple[str, str], wanted: Object, request: Request) -> Response:
        assert request.headers["content-type"] == "application/apply-patch+yaml"
        self.applied_by.add(request.query_params["fieldManager"])
        try:
            accept(wanted, OLDEST)
        except ValidationError as error:
            return _failure(422, "Invalid", f"{key}: {error.message}")
        before = self.objects.get(key)
        expected = wanted["metadata"].get("resourceVersion")
        if expected is not None and (before is None or before["metadata"]["resourceVersion"] != expected):
            return _failure(409, "Conflict", f"{key}: the object has been modified")
        about = before["metadata"] if before else {"uid": f"{len(self.written)}-{key[1]}", "resourceVersion": "0"}
        own = {name: about[name] for name in ("uid", "resourceVersion")}
        stored = wanted | {"metadata": wanted["metadata"] | own}
        if stored != before and "dryRun" not in request.query_params:
            stored["metadata"]["resourceVersion"] = str(int(own["resourceVersion"]) + 1)
            self.objects[key] = stored
            self.written.append(key)
        return JSONResponse(stored, 200 if before else 201)

    async def many(self, request: Request) -> Response:
        """List the objects that a selector finds."""
        plural, api = request.path_params["plural"], _api(request)
        wanted = dict(each.split("=", 1) for each in request.query_params.get("labelSelector", "").split(",") if each)
        names = {
            each.removeprefix("metadata.name=") for each in [request.query_params.get("fieldSelector", "")] if each
        }
        found = [
            each
            for (of, name), each in self.objects.items()
            if of == plural
            and wanted.items() <= each["metadata"].get("labels", {}).items()
            and (not names or name in names)
        ]
        kind = KINDS[api][plural]
        return JSONResponse({"apiVersion": api, "kind": f"{kind}List", "metadata": {}, "items": found})


def _api(request: Request) -> str:
    group = request.path_params.get("group")
    return f"{group}/{request.path_params['version']}" if group else "v1"


def _failure(code: int, reason: str, message: str) -> Response:
    status = {"apiVersion": "v1", "kind": "Status", "status": "Failure", "code": code, "reason": reason}
    return JSONResponse(status | {"message": message}, code)


async def _core(_: Request) -> Response:
    return JSONResponse({"kind": "APIVersions", "versions": ["v1"]})


async def _groups(_: Request) -> Response:
    groups: list[dict[str, Any]] = []
    for api in KINDS:
        if (group := api.rpartition("/")[0]) != "":
            version = {"groupVersion": api, "version": api.rpartition("/")[2]}
            groups.append({"name": group, "versions": [version], "preferredVersion": version})
    return JSONResponse({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})


async def _resources(request: Request) -> Response:
    api = _api(request)
    resources = [
        {
            "name": plural,
            "singularName": kind.lower(),
            "namespaced": plural not in _CLUSTER_WIDE,
            "kind": kind,
            "verbs": ["get", "list", "patch", "delete"],
        }
        for plural, kind in KINDS[api].items()
    ]
    return JSONResponse({"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": api, "resources": resources})


async def _described(_: Request) -> Response:
    """Where each version of the API is described."""
    return JSONResponse({"paths": {_path(api)[1:]: {"serverRelativeURL": f"/openapi/v3{_path(api)}"} for api in KINDS}})


async def _description(request: Request) -> Response:
    """What kubectl looks for: that objects can be applied, tried, and checked here for unknown fields."""
    api, paths = _api(request), dict[str, Any]()
    parameters = [{"name": name, "in": "query"} for name in ("dryRun", "fieldManager", "fieldValidation", "force")]
    for plural, kind in KINDS[api].items():
        about = {"group": api.rpartition("/")[0], "version": api.rpartition("/")[2], "kind": kind}
        patch = {"parameters": parameters, "x-kubernetes-group-version-kind": about}
        paths[f"{_path(api)}/namespaces/{{namespace}}/{plural}/{{name}}"] = {"patch": patch}
    return JSONResponse({"openapi": "3.0.0", "info": {"title": "API", "version": "1"}, "paths": paths})


def _path(api: str) -> str:
    return f"/apis/{api}" if "/" in api else f"/api/{api}"


@asynccontextmanager
async def api_server(folder: Path) -> AsyncGenerator[ApiServer]:
    """The server. kubectl finds it by the file `kubeconfig` in `folder`."""
    server = ApiServer()
    async with Served(Starlette(routes=_routes(server))) as served:
        config: Object = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "here", "cluster": {"server": served.base}}],
            "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
            "users": [{"name": "me", "user": {}}],
            "current-context": "here",
        }
        (folder / "kubeconfig").write_text(yaml.safe_dump(config), "utf-8")
        yield server


def _routes(server: ApiServer) -> list[Route]:
    routes = [Route("/api", _core), Route("/apis", _groups), Route("/openapi/v3", _described)]
    for base in ("/api/{version}", "/apis/{group}/{version}"):
        routes += [Route(base, _resources), Route(f"/openapi/v3{base}", _description)]
        for place in (base, f"{base}/namespaces/{{namespace}}"):
            routes.append(Route(f"{place}/{{plural}}", server.many))
            routes.append(Route(f"{place}/{{plural}}/{{name}}", server.one, methods=["GET", "PATCH", "DELETE"]))
    return routes
