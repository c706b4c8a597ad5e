"""`/modules`, `/namespaces` and `/signatures`: what programs can call; `/compile` and others, which check programs."""

import math
import time
from dataclasses import dataclass
from typing import Annotated
from urllib.parse import quote

from prometheus_client import CollectorRegistry
from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pallas_contracts.agents import JsonObject
from pallas_contracts.catalog import PIPELINES_TEAM, PUBLISHED
from pallas_contracts.pipelines import LONGEST_SOURCE
from pallas_cst.faults import Faulty
from pallas_cst.functions import Function
from pallas_cst.signatures import signature_json
from pallas_runtime.probes import Probes
from pipelines.handlers.keep_pipelines import KeepPipelines
from pipelines.handlers.views import ListModules, ViewPipelines, validate
from pipelines.http.answers import Refused, answer, bare, engine_outputs, engine_types
from pipelines.http.requests import body_of, caller_of, part_of
from pipelines.modules.catalogue import Modules
from pipelines.programs import Compiler, errors_of
from pipelines.storing.scopes import Scope


@dataclass(frozen=True)
class ModuleRoutes:
    """The routes."""

    listing: ListModules

    def routes(self) -> list[Route]:
        """The routes by path."""
        return [
            Route("/modules", self._list),
            Route("/modules/published", self._published),
            Route("/modules/{name}", self._describe),
            Route("/namespaces", self._namespaces),
            Route("/namespaces/{namespace}", self._namespace),
            Route("/signatures", self._signatures),
        ]

    async def _list(self, request: Request) -> Response:
        modules = self._modules(request)
        documents = self.listing.documents(caller_of(request).principal)
        return answer({"modules": [module_info(modules, each) for each in documents]})

    async def _published(self, request: Request) -> Response:
        modules = self._modules(request)
        published = [
            module_info(modules, module.document()) | {"endpoint": f"/modules/{quote(module.name, safe='')}/invoke"}
            for module in modules.by_basis.values()
            if (module.definition.team, module.definition.agent) == (PIPELINES_TEAM, PUBLISHED)
        ]
        return answer({"modules": published})

    async def _describe(self, request: Request) -> Response:
        caller = caller_of(request)
        caller.check(Scope.READ)
        return answer(self.listing.described(caller.principal, part_of(request, "name")))

    async def _namespaces(self, request: Request) -> Response:
        return answer({"namespaces": sorted(self._modules(request).functions.namespaces)})

    async def _namespace(self, request: Request) -> Response:
        modules, namespace = self._modules(request), part_of(request, "namespace")
        found = [each for each in _functions(modules) if each.namespace == namespace]
        if not found:
            raise Refused(404, "NamespaceNotFound", f"Namespace '{namespace[:300]}' not found")
        functions = [
            {
                "name": each.name,
                "qualifiedName": each.qualified,
                "params": [f"{name}: {kind}" for name, kind in each.parameters],
                "returns": str(each.returns),
            }
            for each in found
        ]
        return answer({"namespace": namespace, "functions": functions})

    async def _signatures(self, request: Request) -> Response:
        return answer({"functions": [signature_json(each) for each in _functions(self._modules(request))]})

    def _modules(self, request: Request) -> Modules:
        caller = caller_of(request)
        caller.check(Scope.READ)
        return self.listing.catalogue.of(caller.principal)


def module_info(modules: Modules, document: JsonObject) -> JsonObject:
    """A module as the engine lists it, from its document, with its tags and its signature."""
    function = modules.functions.by_qualified[document["name"]]
    return {
        "name": document["name"],
        "description": document["description"],
        "version": ".".join(document["version"].split(".")[:2]),
        "inputs": engine_types(dict(function.parameters)),
        "outputs": engine_outputs(function.returns),
        "tags": document["tags"],
        "signature": document["signature"],
        **({"unavailable": document["unavailable"]} if "unavailable" in document else {}),
    }


def _functions(modules: Modules) -> list[Function]:
    return [function for _, function in sorted(modules.functions.by_qualified.items())]


UNNAMED = "unnamed"
"""The engine's name of a program without one."""

type SourceText = Annotated[str, Field(max_length=LONGEST_SOURCE)]


class _Source(BaseModel):
    source: SourceText


class _Compile(_Source):
    name: str | None = None
    dag_name: Annotated[str | None, Field(alias="dagName")] = None


class _Diff(BaseModel):
    left: SourceText
    right: SourceText


@dataclass(frozen=True)
class ProgramRoutes:
    """The routes."""

    compiler: Compiler
    pipelines: KeepPipelines
    views: ViewPipelines

    def routes(self) -> list[Route]:
        """The routes by path."""
        return [
            Route("/validate", self._validate, methods=["POST"]),
            Route("/compile", self._compile, methods=["POST"]),
            Route("/diff", self._diff, methods=["POST"]),
        ]

    async def _validate(self, request: Request) -> Response:
        """All faults of a program; with `?syntax=only` those of its syntax."""
        caller, asked = caller_of(request), await body_of(request, _Source)
        caller.check(Scope.READ)
        only = request.query_params.get("syntax") == "only"
        return answer(await validate(self.compiler, asked.source, caller.principal, syntax_only=only))

    async def _compile(self, request: Request) -> Response:
        caller, asked = caller_of(request), await body_of(request, _Compile)
        name = asked.name if asked.name is not None else asked.dag_name
        found = await self.pipelines.compile(caller, asked.source, name)
        if not found["success"]:
            return _faults(found["errors"], "errors")
        named: JsonObject = {"dagName": name or UNNAMED, "name": name, "errors": []}
        return answer(bare(found) | named)

    async def _diff(self, request: Request) -> Response:
        asked = await body_of(request, _Diff)
        return answer(bare(await self.views.diff(caller_of(request), asked.left, asked.right)))


def faults_answer(source: str, faulty: Faulty) -> Response:
    """The answer about a program with faults that was to be run."""
    return _faults(errors_of(source, faulty), "compilationErrors")


def _faults(found: list[JsonObject], field: str) -> Response:
    """The texts of faults in `field`, and `diagnostics` with their places."""
    texts = [each["message"] for each in found]
    return answer({"success": False, field: texts, "diagnostics": found}, 400)


def public_answer(path: str, probes: Probes) -> Response | None:
    """The answer to a GET of a public path; None if there is no such path.

    `/metrics` as Prometheus reads it is answered by the process, where the `Accept` header asks for text.
    """
    match path:
        case "/health":
            return answer({"status": "draining"}, 503) if probes.draining else answer({"status": "ok"})
        case "/health/live":
            return answer({"status": "alive"})
        case "/health/ready":
            return answer({"status": "not_ready"}, 503) if probes.missing() else answer({"status": "ready"})
        case "/metrics":
            return answer({"timestamp": round(time.time() * 1000), "metrics": metrics_document(probes.metrics)})
        case _:
            return None


def metrics_document(registry: CollectorRegistry) -> JsonObject:
    """The metrics as JSON, by the names of their series."""
    found: JsonObject = {}
    for metric in registry.collect():
        for sample in metric.samples:
            value = sample.value if math.isfinite(sample.value) else None
            found.setdefault(sample.name, []).append({"labels": sample.labels, "value": value})
    return found
