"""`/run`, `/execute`, `/batch` and `/modules/{name}/invoke`: executions, each a turn.

Programs are compiled and inputs are read here before there is a turn, so that their faults are answered with 400.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

from pydantic import BaseModel, Field
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from pallas_contracts.agents import JsonObject
from pallas_contracts.errors import NotFound, Rejected
from pallas_cst import types as t
from pallas_cst.check import check
from pallas_cst.faults import Faulty
from pallas_cst.functions import Functions
from pallas_cst.parse import parse
from pipelines.agent.schemas import MOST_ITEMS
from pipelines.http.answers import Refused, answer, engine_types_of
from pipelines.http.modules import SourceText, faults_answer
from pipelines.http.requests import body_of, caller_of, part_of, received_of
from pipelines.http.turns import Ended, Turns
from pipelines.modules.catalogue import Modules
from pipelines.modules.module import language_names
from pipelines.programs import Compiler, Program
from pipelines.running.inputs import read_inputs
from pipelines.storing.namespaces import Caller
from pipelines.storing.pipelines import StoredPipelines
from pipelines.storing.scopes import Scope

type _Ref = Annotated[str, Field(min_length=1, max_length=300)]


class _Run(BaseModel):
    source: SourceText
    inputs: dict[str, Any] = {}


class _Execute(BaseModel):
    ref: _Ref | None = None
    dag_name: Annotated[_Ref | None, Field(alias="dagName")] = None
    inputs: dict[str, Any] = {}


class _Batch(BaseModel):
    source: SourceText | None = None
    ref: _Ref | None = None
    inputs: Annotated[list[dict[str, Any]], Field(min_length=1, max_length=MOST_ITEMS)]
    concurrency: Annotated[int | None, Field(ge=1, le=64)] = None


class _Arguments(BaseModel, extra="allow"):
    """The arguments of a module by name."""


@dataclass(frozen=True)
class RunRoutes:
    """The routes."""

    compiler: Compiler
    store: StoredPipelines
    turns: Turns

    def routes(self) -> list[Route]:
        """The routes by path."""
        return [
            Route("/run", self._run, methods=["POST"]),
            Route("/execute", self._execute, methods=["POST"]),
            Route("/batch", self._batch, methods=["POST"]),
            Route("/modules/{name}/invoke", self._invoke, methods=["POST"]),
        ]

    async def _run(self, request: Request) -> Response:
        caller, asked = caller_of(request), await body_of(request, _Run)
        caller.check(Scope.EXECUTE)
        try:
            program = await self.compiler.compile(asked.source, caller.principal)
        except Faulty as faulty:
            return faults_answer(asked.source, faulty)
        if (wrong := await _input_error(request, program, asked.inputs)) is not None:
            return wrong
        return self._started(
            request,
            {"source": asked.source, "inputs": asked.inputs},
            {"structuralHash": program.structural_hash, "compilationErrors": []},
        )

    async def _execute(self, request: Request) -> Response:
        caller, asked = caller_of(request), await body_of(request, _Execute)
        caller.check(Scope.EXECUTE)
        ref = asked.ref if asked.ref is not None else asked.dag_name
        if ref is None:
            raise Refused(400, "InvalidRequest", "ref: give the name of a pipeline, or sha256: and its hash")
        found = await self._stored(caller, ref)
        if isinstance(found, Response):
            return found
        if (wrong := await _input_error(request, found, asked.inputs)) is not None:
            return wrong
        return self._started(request, {"ref": ref, "inputs": asked.inputs}, {})

    async def _batch(self, request: Request) -> Response:
        caller, asked = caller_of(request), await body_of(request, _Batch)
        caller.check(Scope.EXECUTE)
        if (asked.source is None) == (asked.ref is None):
            raise Refused(400, "InvalidRequest", "give either source or ref")
        if asked.ref is not None and isinstance(found := await self._stored(caller, asked.ref), Response):
            return found
        if asked.source is not None:
            try:
                await self.compiler.compile(asked.source, caller.principal)
            except Faulty as faulty:
                return faults_answer(asked.source, faulty)
        arguments = asked.model_dump(exclude_none=True)
        return self.turns.execution(received_of(request), "batch_execute", arguments, _batch_told)

    async def _invoke(self, request: Request) -> Response:
        caller, asked = caller_of(request), await body_of(request, _Arguments)
        caller.check(Scope.EXECUTE)
        given, name = asked.model_extra or {}, part_of(request, "name")
        invocation = invocation_of(self.compiler.catalogue.of(caller.principal), name, given)
        if invocation is None:
            raise NotFound(f"Module '{name[:300]}' not found")
        try:
            program = await self.compiler.compile(invocation.source, caller.principal)
        except Faulty as faulty:
            return faults_answer(invocation.source, faulty)
        inputs = await read_inputs(program.checked, invocation.inputs)
        if inputs.missing:
            missing = ", ".join(invocation.parameters[name] for name in inputs.missing)
            raise Refused(400, "InvalidRequest", f"Input error: missing: {missing}")

        def tell(ended: Ended) -> tuple[int, JsonObject]:
            if ended.answer is None:
                return 200, {"success": False, "outputs": {}, "error": ended.message, "module": invocation.name}
            outputs = invocation.outputs_of(ended.answer["outputs"])
            return 200, {"success": True, "outputs": outputs, "error": None, "module": invocation.name}

        arguments = {"source": invocation.source, "inputs": invocation.inputs}
        return self.turns.execution(received_of(request), "execute", arguments, tell)

    async def _stored(self, caller: Caller, ref: str) -> Program | Response:
        """A stored program, or the answer that it has faults now."""
        source = (await self.store.get(caller, ref)).image.source
        try:
            return await self.compiler.compile(source, caller.principal)
        except Faulty as faulty:
            return faults_answer(source, faulty)

    def _started(self, request: Request, arguments: JsonObject, also: JsonObject) -> Response:
        tell = partial(execution_told, also=also)
        return self.turns.execution(received_of(request), "execute", arguments, tell)


def execution_told(ended: Ended, *, also: JsonObject) -> tuple[int, JsonObject]:
    """How an execution ended, as the engine says it, with the metrics of RFC-018."""
    found = ended.answer or {}
    missing: dict[str, str] | None = found.get("missingInputs")
    return 200, {
        "success": ended.answer is not None,
        "outputs": found.get("outputs", {}),
        **also,
        "error": None if ended.answer is not None else ended.message,
        "status": found.get("status", "failed"),
        "executionId": found.get("executionId", ended.execution_id),
        "missingInputs": engine_types_of(missing) if missing is not None else None,
        "pendingOutputs": found.get("pendingOutputs"),
        "resumptionCount": found.get("resumptionCount", 0),
        "metrics": found.get("metrics"),
    }


def _batch_told(ended: Ended) -> tuple[int, JsonObject]:
    if ended.answer is not None:
        return 200, ended.answer
    return 200, {"success": False, "executionId": ended.execution_id, "results": [], "error": ended.message}


async def _input_error(request: Request, program: Program, given: JsonObject) -> Response | None:
    """The answer that inputs do not fit a program, or None."""
    try:
        await read_inputs(program.checked, given)
    except Rejected as error:
        return answer({"success": False, "error": error.message}, 400)
    return None


_RESULT = "result"
_LARGEST, _MOST_TYPED = 200, 50
"""Parts of a type that the program has in full, and parameters that have types."""


@dataclass(frozen=True, slots=True)
class Invocation:
    """A program that calls one module. `parameters` has the module's names of the inputs."""

    name: str
    source: str
    inputs: JsonObject
    parameters: Mapping[str, str]
    returns: t.Type

    def outputs_of(self, outputs: JsonObject) -> JsonObject:
        """The fields of the record that the module returns; any other value is `out`."""
        value = outputs[_RESULT]
        return value if isinstance(self.returns, t.Record) else {"out": value}


def invocation_of(modules: Modules, name: str, given: Mapping[str, Any]) -> Invocation | None:
    """The program that calls a module with arguments by name. None: there is no such module.

    Raises:
        Rejected: the module has no parameter of a name that is given.
    """
    function = modules.function(name)
    if function is None:
        return None
    names = language_names(name for name, _ in function.parameters)
    if unknown := [each for each in given if each not in names]:
        raise Rejected(f"Input error: there is no parameter {unknown[0][:100]!r}", code="invalid_input")
    # An output is not called like an input.
    names = {original: f"{name}_" if name == _RESULT else name for original, name in names.items()}
    lines = [f"in {names[name]}: {_written(kind)}" for name, kind in function.parameters[:_MOST_TYPED]]
    lines += [f"in {names[name]}: Json" for name, _ in function.parameters[_MOST_TYPED:]]
    call = f"{_RESULT} = {function.qualified}({', '.join(names[name] for name, _ in function.parameters)})"
    return Invocation(
        function.qualified,
        "\n".join([*lines, call, f"out {_RESULT}"]),
        {names[each]: value for each, value in given.items()},
        {name: original for original, name in names.items()},
        function.returns,
    )


def _written(kind: t.Type) -> str:
    """A type as a program writes it: what it cannot write is `Json`, and checked when the module is called.

    So is a large one: the program would be too long, and reading it would take time.
    """
    if kind.size > _LARGEST:
        return "Json"
    if isinstance(kind, t.OptionalOf):
        return f"Optional<{_written(kind.inner)}>"
    try:
        read = check(parse(f"in x: {kind}\nout x"), Functions(())).inputs["x"]
    except Faulty:
        return "Json"
    return str(kind) if read == kind else "Json"
