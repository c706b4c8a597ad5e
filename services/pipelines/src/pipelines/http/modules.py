"""`/modules`, `/namespaces` and `/signatures`: what programs can call."""

from dataclasses import dataclass
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pallas_contracts.agents import JsonObject
from pallas_contracts.catalog import PIPELINES_TEAM, PUBLISHED
from pallas_cst.functions import Function
from pallas_cst.signatures import signature_json
from pipelines.handlers.list_modules import ListModules
from pipelines.http.answers import Refused, answer
from pipelines.http.engine_types import engine_outputs, engine_types
from pipelines.http.requests import caller_of, part_of
from pipelines.modules.catalogue import Modules
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
