"""`/validate`, `/compile` and `/diff`: programs are checked, stored and compared, and nothing is executed."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pallas_contracts.agents import JsonObject
from pallas_contracts.pipelines import LONGEST_SOURCE
from pallas_cst.faults import Faulty
from pipelines.handlers.check_program import validate
from pipelines.handlers.keep_pipelines import KeepPipelines
from pipelines.handlers.view_pipelines import ViewPipelines
from pipelines.http.answers import answer
from pipelines.http.hashes import bare
from pipelines.http.requests import body_of, caller_of
from pipelines.programs.compiler import Compiler
from pipelines.programs.program import errors_of
from pipelines.storing.scopes import Scope

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
