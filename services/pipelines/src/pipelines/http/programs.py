"""`/validate`, `/compile` and `/diff`: programs are checked, stored and compared, and nothing is executed."""

import asyncio
from dataclasses import dataclass
from typing import Annotated

from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pallas_contracts.agents import JsonObject
from pallas_contracts.pipelines import LONGEST_SOURCE
from pallas_cst.canonical import source_hash
from pallas_cst.compare import compare
from pallas_cst.dag import graph
from pallas_cst.faults import Faulty
from pipelines.handlers.check_program import CheckProgram
from pipelines.http.answers import answer
from pipelines.http.requests import body_of, caller_of
from pipelines.programs.program import Program, errors_of
from pipelines.storing.keys import key_warnings
from pipelines.storing.namespaces import Caller
from pipelines.storing.pipelines import StoredPipelines
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

    programs: CheckProgram
    store: StoredPipelines

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
        return answer(await self.programs.validate(asked.source, caller.identity, syntax_only=only))

    async def _compile(self, request: Request) -> Response:
        caller, asked = caller_of(request), await body_of(request, _Compile)
        name = asked.name if asked.name is not None else asked.dag_name
        caller.check(Scope.READ if name is None else Scope.WRITE)
        try:
            program = await self.programs.compile(asked.source, caller.identity)
        except Faulty as faulty:
            return faults_answer(asked.source, faulty, "errors")
        document = compiled(program, name)
        if name is None:
            await self.store.keep_draft(caller, program.image())
        else:
            stored = await self.store.store(caller, program.image(), name)
            document |= {"storedAs": stored.pipeline.name, "version": stored.version.version}
            document["warnings"] += key_warnings(program)
        return answer(document)

    async def _diff(self, request: Request) -> Response:
        caller, asked = caller_of(request), await body_of(request, _Diff)
        caller.check(Scope.READ)
        sides = list[Program]()
        for given in (asked.left, asked.right):
            source = await self._source(caller, given)
            try:
                sides.append(await self.programs.compile(source, caller.identity))
            except Faulty as faulty:
                return faults_answer(source, faulty, "errors")
        difference = await asyncio.to_thread(compare, sides[0].checked, sides[1].checked)
        return answer(difference.as_json())

    async def _source(self, caller: Caller, given: str) -> str:
        """A program: what has no blank is a reference, as no program is without one."""
        return (
            given if not given or any(map(str.isspace, given)) else (await self.store.get(caller, given)).image.source
        )


def compiled(program: Program, name: str | None) -> JsonObject:
    """What the engine says of a program, with its types, graph and warnings (RFC-018)."""
    return {
        "success": True,
        "structuralHash": program.structural_hash,
        "syntacticHash": source_hash(program.source),
        "dagName": name or UNNAMED,
        "name": name,
        "errors": [],
        "inputs": program.inputs,
        "outputs": program.outputs,
        "dag": graph(program.checked).as_json(),
        "warnings": program.warnings(),
    }


def faults_answer(source: str, faulty: Faulty, field: str) -> Response:
    """The answer about a program with faults: their texts in `field`, and `diagnostics` with their places."""
    found = errors_of(source, faulty)
    texts = [each["message"] for each in found]
    return answer({"success": False, field: texts, "diagnostics": found}, 400)
