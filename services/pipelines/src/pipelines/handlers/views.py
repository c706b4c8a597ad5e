"""What can be seen without running: the faults of a program, its graph, what differs between two, modules (RFC-018)."""

import asyncio
from dataclasses import dataclass

from pallas_contracts.agents import JsonObject
from pallas_contracts.errors import NotFound
from pallas_contracts.turns import Principal
from pallas_cst.canonical import source_hash
from pallas_cst.compare import compare
from pallas_cst.dag import graph
from pallas_cst.faults import Faulty, Warned, diagnostics
from pallas_cst.functions import Function
from pallas_cst.mermaid import mermaid
from pallas_cst.parse import parse
from pallas_cst.svg import svg
from pipelines.modules.catalogue import Catalogue, Modules
from pipelines.programs import Compiler, Program, errors_of
from pipelines.storing.namespaces import Caller, not_found
from pipelines.storing.pipelines import StoredPipelines
from pipelines.storing.scopes import Scope


@dataclass(frozen=True)
class ViewPipelines:
    """Shows pipelines that a caller may see.

    Raises:
        NotFound: the caller has no such pipeline.
        Rejected: a program has faults, with the modules that the caller may use now (`faulty_program`).
    """

    compiler: Compiler
    store: StoredPipelines

    async def mermaid(self, caller: Caller, ref: str) -> str:
        """The graph of a pipeline as a Mermaid flowchart."""
        program = await self._program(caller, ref)
        return await asyncio.to_thread(lambda: mermaid(graph(program.checked)))

    async def svg(self, caller: Caller, ref: str) -> str:
        """The graph of a pipeline as an SVG picture."""
        program = await self._program(caller, ref)
        return await asyncio.to_thread(lambda: svg(graph(program.checked), ref))

    async def diff(self, caller: Caller, left: str, right: str) -> JsonObject:
        """What differs between two pipelines, each given by a reference or its source."""
        programs = [await self._program(caller, each) for each in (left, right)]
        found = await asyncio.to_thread(lambda: compare(*(program.checked for program in programs)).as_json())
        return found | {side: f"sha256:{found[side]}" for side in ("left", "right")}

    async def _program(self, caller: Caller, given: str) -> Program:
        """A program by a reference or its source: a source has white space, a reference has none."""
        caller.check(Scope.READ)
        is_source = any(char.isspace() for char in given.strip())
        source = given if is_source else await readable_source(self.store, caller, given.strip())
        return await self.compiler.compile_or_reject(source, caller.principal)


async def readable_source(store: StoredPipelines, caller: Caller, ref: str) -> str:
    """The source behind a reference, if the caller may see it.

    Raises:
        NotFound: the caller has no such pipeline, or may only execute it.
    """
    found = await store.get(caller, ref)
    if not found.readable:
        raise not_found(ref)
    return found.image.source


@dataclass(frozen=True)
class ListModules:
    """The tools of agents and the standard library, as documents."""

    catalogue: Catalogue

    def documents(self, caller: Principal) -> list[JsonObject]:
        """The documents of all modules, by name."""
        modules = self.catalogue.of(caller)
        return [self._document(modules, each) for _, each in sorted(modules.functions.by_qualified.items())]

    def described(self, caller: Principal, name: str) -> JsonObject:
        """The document of one module.

        Raises:
            NotFound: the caller has no such module.
        """
        modules = self.catalogue.of(caller)
        if (function := modules.function(name)) is None:
            raise NotFound(f"There is no module {name!r}.", code="unknown_module")
        return self._document(modules, function)

    def _document(self, modules: Modules, function: Function) -> JsonObject:
        """The document of a function; `unavailable` has the reason if it cannot be called now."""
        module = modules.by_basis.get(function.module)
        why = self.catalogue.away(module) if module is not None else None
        return modules.document(function) | ({"unavailable": why} if why is not None else {})


async def validate(compiler: Compiler, source: str, caller: Principal, *, syntax_only: bool = False) -> JsonObject:
    """`{valid, warnings}`, or `{valid: false, errors, warnings}` with all faults."""
    try:
        if syntax_only:
            parse(source)
            return {"valid": True, "warnings": []}
        program = await compiler.compile(source, caller)
    except Faulty as faulty:
        return {"valid": False, "errors": errors_of(source, faulty), "warnings": []}
    return {"valid": True, "warnings": warnings_of(compiler, program)}


def warnings_of(compiler: Compiler, program: Program) -> list[JsonObject]:
    """What is probably not meant, and what cannot be called now, with its place in the source."""
    away = dict[str, Warned]()
    for call in program.checked.numbers:
        module = program.modules.by_basis.get(program.checked.function(call).module)
        if module is not None and (why := compiler.catalogue.away(module)) is not None:
            away.setdefault(module.basis, Warned(f"{module.name} cannot be called now: {why}", call.span))
    return [*program.warnings(), *diagnostics(program.source, away.values())]


def compiled(compiler: Compiler, program: Program) -> JsonObject:
    """The answer of `compile` about a program (RFC-018)."""
    return {
        "success": True,
        "structuralHash": f"sha256:{program.structural_hash}",
        "syntacticHash": f"sha256:{source_hash(program.source)}",
        "inputs": program.inputs,
        "outputs": program.outputs,
        "dag": graph(program.checked).as_json(),
        "warnings": warnings_of(compiler, program),
    }
