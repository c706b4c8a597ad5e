"""`/pipelines`: stored pipelines, their versions and names, and pictures of them. A name may be percent-encoded."""

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pallas_contracts.agents import JsonObject
from pipelines.handlers.keep_pipelines import KeepPipelines, versions_of
from pipelines.handlers.views import ListModules, ViewPipelines
from pipelines.http.answers import Refused, answer, bare, engine_types_of, picture
from pipelines.http.modules import SourceText, module_info
from pipelines.http.requests import body_of, caller_of, natural, part_of
from pipelines.modules.catalogue import Modules
from pipelines.storing.scopes import Scope


class _Alias(BaseModel):
    structural_hash: Annotated[str, Field(alias="structuralHash")]


class _Reload(BaseModel):
    source: SourceText | None = None
    canary: Any = None


@dataclass(frozen=True)
class PipelineRoutes:
    """The routes."""

    modules: ListModules
    pipelines: KeepPipelines
    views: ViewPipelines

    def routes(self) -> list[Route]:
        """The routes by path."""
        one = "/pipelines/{ref}"
        canary = [f"{one}/canary", f"{one}/canary/promote", f"{one}/canary/rollback"]
        return [
            Route("/pipelines", self._list),
            Route(one, self._get),
            Route(one, self._delete, methods=["DELETE"]),
            Route(f"{one}/alias", self._alias, methods=["PUT"]),
            Route(f"{one}/versions", self._versions),
            Route(f"{one}/reload", self._reload, methods=["POST"]),
            Route(f"{one}/rollback", self._rollback, methods=["POST"]),
            Route(f"{one}/rollback/{{version}}", self._rollback, methods=["POST"]),
            Route(f"{one}/dag.mmd", self._mermaid),
            Route(f"{one}/dag.svg", self._svg),
            Route(canary[0], _no_canary, methods=["GET", "DELETE"]),
            *(Route(path, _no_canary, methods=["POST"]) for path in canary[1:]),
        ]

    async def _list(self, request: Request) -> Response:
        """Own and shared pipelines; with `?namespace=` those of one namespace."""
        found = self.pipelines.listed(caller_of(request), request.query_params.get("namespace"))
        return answer({"pipelines": [bare(each) for each in found]})

    async def _get(self, request: Request) -> Response:
        caller = caller_of(request)
        found = bare(await self.pipelines.described(caller, part_of(request, "ref")))
        modules = self.modules.catalogue.of(caller.principal)
        schemas = {"inputSchema": engine_types_of(found["inputs"]), "outputSchema": engine_types_of(found["outputs"])}
        return answer(found | schemas | {"modules": [_module(modules, each) for each in found["modules"]]})

    async def _delete(self, request: Request) -> Response:
        return answer(await self.pipelines.delete(caller_of(request), part_of(request, "ref")))

    async def _alias(self, request: Request) -> Response:
        caller, asked = caller_of(request), await body_of(request, _Alias)
        stored = await self.pipelines.store.alias(caller, part_of(request, "ref"), asked.structural_hash)
        return answer({"name": stored.name, "structuralHash": stored.active_version.structural_hash})

    async def _versions(self, request: Request) -> Response:
        entry = await self.pipelines.store.pipeline(caller_of(request), part_of(request, "ref"))
        versions = bare({"versions": versions_of(entry)})
        return answer({"name": entry.name, **versions, "activeVersion": entry.active})

    async def _reload(self, request: Request) -> Response:
        """Store another source as the next version; without one, check the source against the modules of now."""
        caller, asked = caller_of(request), await body_of(request, _Reload)
        caller.check(Scope.WRITE)
        if asked.canary is not None:
            return await _no_canary(request)
        before = await self.pipelines.store.get(caller, part_of(request, "ref"))
        if before.pipeline is None:
            raise Refused(400, "InvalidRequest", "Only a pipeline with a name can be reloaded.")
        source = asked.source if asked.source is not None else before.image.source
        program = await self.pipelines.compiler.compile_or_reject(source, caller.principal)
        stored = await self.pipelines.store.store(caller, program.image(), before.pipeline.name)
        return answer(
            {
                "success": True,
                "previousHash": before.image.structural_hash,
                "newHash": program.structural_hash,
                "name": stored.pipeline.name,
                "changed": stored.new,
                "version": stored.version.version,
            }
        )

    async def _rollback(self, request: Request) -> Response:
        caller, ref = caller_of(request), part_of(request, "ref")
        wanted = _version(part_of(request, "version")) if "version" in request.path_params else None
        caller.check(Scope.WRITE)
        before = await self.pipelines.store.pipeline(caller, ref)
        entry = await self.pipelines.store.rollback(caller, ref, wanted)
        return answer(
            {
                "success": True,
                "name": entry.name,
                "previousVersion": before.active,
                "activeVersion": entry.active,
                "structuralHash": entry.active_version.structural_hash,
            }
        )

    async def _mermaid(self, request: Request) -> Response:
        drawn = await self.views.mermaid(caller_of(request), part_of(request, "ref"))
        return Response(drawn, media_type="text/vnd.mermaid")

    async def _svg(self, request: Request) -> Response:
        return picture(await self.views.svg(caller_of(request), part_of(request, "ref")))


def _module(modules: Modules, used: JsonObject) -> JsonObject:
    """A module that a pipeline calls; one that the caller has no more only with its name and signature."""
    function = modules.functions.by_qualified.get(used["name"])
    return used if function is None else module_info(modules, modules.document(function))


async def _no_canary(request: Request) -> Response:
    raise Refused(400, "CanaryNotEnabled", "Canary releases are not supported.")


def _version(given: str) -> int:
    if (version := natural(given)) is None:
        raise Refused(400, "InvalidVersion", f"Invalid version: {given[:100]}")
    return version
