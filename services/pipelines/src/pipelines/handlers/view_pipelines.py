"""Views of pipelines: their graph as text and as a picture, and what differs between two of them (RFC-018, phase 4)."""

import asyncio
from dataclasses import dataclass

from pallas_contracts.agents import JsonObject
from pallas_cst.compare import compare
from pallas_cst.dag import graph
from pallas_cst.mermaid import mermaid
from pallas_cst.svg import svg
from pipelines.programs.compiler import Compiler
from pipelines.programs.program import Program
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
