"""`/pipelines`: stored pipelines, their versions and names, and pictures of them. A name may be percent-encoded."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pallas_contracts.agents import JsonObject
from pallas_contracts.pipelines import StoredPipeline
from pallas_cst.dag import Graph, graph
from pallas_cst.faults import Faulty
from pallas_cst.mermaid import mermaid
from pallas_cst.svg import svg
from pipelines.handlers.check_program import CheckProgram
from pipelines.handlers.list_modules import ListModules
from pipelines.http.answers import Refused, answer
from pipelines.http.engine_types import engine_types_of
from pipelines.http.modules import module_info
from pipelines.http.programs import SourceText
from pipelines.http.requests import body_of, caller_of, part_of
from pipelines.programs.program import Program
from pipelines.storing.namespaces import Caller
from pipelines.storing.pipelines import Found, StoredPipelines
from pipelines.storing.scopes import Scope

_SVG = {"content-security-policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox"}
"""A picture has no scripts; a browser that opens it runs none."""


class _Alias(BaseModel):
    structural_hash: Annotated[str, Field(alias="structuralHash")]


class _Reload(BaseModel):
    source: SourceText | None = None
    canary: Any = None


@dataclass(frozen=True)
class PipelineRoutes:
    """The routes."""

    programs: CheckProgram
    listing: ListModules
    store: StoredPipelines

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
        found = self.store.listed(caller_of(request), request.query_params.get("namespace"))
        return answer({"pipelines": [_summary(each) for each in found]})

    async def _get(self, request: Request) -> Response:
        caller = caller_of(request)
        found = await self.store.get(caller, part_of(request, "ref"))
        return answer(self._document(caller, found))

    def _document(self, caller: Caller, found: Found) -> JsonObject:
        image, modules = found.image, self.listing.catalogue.of(caller.identity)
        known = {each.name: modules.find(each.name) for each in image.modules}
        infos: list[JsonObject] = [
            module_info(modules, module.document()) if module is not None else {"name": name}
            for name, module in known.items()
        ]
        entry = found.pipeline
        return {
            "structuralHash": image.structural_hash,
            "syntacticHash": image.syntactic_hash,
            "aliases": self.store.names_of(caller, image.structural_hash),
            "compiledAt": image.compiled_at.isoformat(),
            "modules": infos,
            "declaredOutputs": list(image.outputs),
            "inputSchema": engine_types_of(image.inputs),
            "outputSchema": engine_types_of(image.outputs),
            "name": entry.name if entry is not None else None,
            "inputs": image.inputs,
            "outputs": image.outputs,
            "source": image.source,
            **(_of_entry(entry) if entry is not None else {}),
        }

    async def _delete(self, request: Request) -> Response:
        await self.store.delete(caller_of(request), part_of(request, "ref"))
        return answer({"deleted": True})

    async def _alias(self, request: Request) -> Response:
        caller, asked = caller_of(request), await body_of(request, _Alias)
        stored = await self.store.alias(caller, part_of(request, "ref"), asked.structural_hash)
        return answer({"name": stored.name, "structuralHash": stored.active_version.structural_hash})

    async def _versions(self, request: Request) -> Response:
        entry = await self.store.pipeline(caller_of(request), part_of(request, "ref"))
        versions = [
            {
                "version": each.version,
                "structuralHash": each.structural_hash,
                "createdAt": each.created_at.isoformat(),
                "active": each.version == entry.active,
            }
            for each in entry.versions
        ]
        return answer({"name": entry.name, "versions": versions, "activeVersion": entry.active})

    async def _reload(self, request: Request) -> Response:
        """Store another source as the next version; without one, check the source against the modules of now."""
        caller, asked = caller_of(request), await body_of(request, _Reload)
        caller.check(Scope.WRITE)
        if asked.canary is not None:
            return await _no_canary(request)
        before = await self.store.get(caller, part_of(request, "ref"))
        if before.pipeline is None:
            raise Refused(400, "InvalidRequest", "Only a pipeline with a name can be reloaded.")
        source = asked.source if asked.source is not None else before.image.source
        program = await self._compiled(caller, source)
        stored = await self.store.store(caller, program.image(), before.pipeline.name)
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
        before = await self.store.pipeline(caller, ref)
        entry = await self.store.rollback(caller, ref, wanted)
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
        return Response(await self._drawn(request, mermaid), media_type="text/vnd.mermaid")

    async def _svg(self, request: Request) -> Response:
        return Response(await self._drawn(request, svg), headers=_SVG, media_type="image/svg+xml")

    async def _drawn(self, request: Request, draw: Callable[[Graph], str]) -> str:
        caller = caller_of(request)
        found = await self.store.get(caller, part_of(request, "ref"))
        program = await self._compiled(caller, found.image.source)
        return await asyncio.to_thread(lambda: draw(graph(program.checked)))

    async def _compiled(self, caller: Caller, source: str) -> Program:
        try:
            return await self.programs.compile(source, caller.identity)
        except Faulty as faulty:
            raise Refused(400, "CompilationError", faulty.faults[0].message) from None


async def _no_canary(request: Request) -> Response:
    raise Refused(400, "CanaryNotEnabled", "Canary releases are not supported.")


def _version(given: str) -> int:
    if not given.isascii() or not given.isdecimal() or len(given) > 9:
        raise Refused(400, "InvalidVersion", f"Invalid version: {given[:100]}")
    return int(given)


def _summary(entry: StoredPipeline) -> JsonObject:
    active = entry.active_version
    return {
        "structuralHash": active.structural_hash,
        "syntacticHash": active.syntactic_hash,
        "aliases": [entry.name],
        "compiledAt": active.created_at.isoformat(),
        "moduleCount": len(entry.modules),
        "declaredOutputs": list(entry.outputs),
        "name": entry.name,
        "inputs": entry.inputs,
        "outputs": entry.outputs,
        **_of_entry(entry),
    }


def _of_entry(entry: StoredPipeline) -> JsonObject:
    """What only a pipeline with a name has."""
    published = entry.published
    return {
        "version": entry.active,
        "published": published.tool if published is not None else None,
        "broken": entry.broken,
        "expiresAt": entry.expires_at.isoformat() if entry.expires_at is not None else None,
    }
