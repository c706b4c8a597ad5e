"""Compiles, stores, lists and publishes pipelines (RFC-018, tool `compile` and "Cold Pipeline Namespacing")."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from pallas_contracts.agents import JsonObject
from pallas_contracts.catalog import PIPELINES_TEAM, PUBLISHED
from pallas_contracts.errors import Rejected
from pallas_contracts.pipelines import PipelineImage, PipelineVersion, StoredPipeline
from pallas_cst.faults import Code, Faulty
from pipelines.handlers.views import compiled
from pipelines.programs import Compiler, errors_of
from pipelines.storing.namespaces import Caller
from pipelines.storing.pipelines import StoredPipelines
from pipelines.storing.scopes import Scope, key_warnings


@dataclass(frozen=True)
class KeepPipelines:
    """The stored pipelines of all callers. Hashes are `sha256:` and 64 hex digits.

    What a caller may not see is `NotFound` as what does not exist; what its scope excludes is `Denied`.
    """

    compiler: Compiler
    store: StoredPipelines

    async def compile(self, caller: Caller, source: str, name: str | None = None) -> JsonObject:
        """The program as RFC-018 has it, stored if it has a name; `{success: false, errors}` with its first fault.

        A program without a name is kept for a day, so that its caller can refer to its hash.

        Raises:
            Rejected, Conflict: it cannot be stored under the name.
        """
        caller.check(Scope.READ if name is None else Scope.WRITE)
        try:
            program = await self.compiler.compile(source, caller.principal)
            answer = compiled(self.compiler, program)
        except Faulty as faulty:
            return {"success": False, "errors": errors_of(source, faulty, first=True), "warnings": []}
        if name is None:
            with suppress(Rejected):  # it is too large for a draft
                await self.store.keep_draft(caller, program.image())
            return answer
        try:
            stored = await self.store.store(caller, program.image(), name)
        except Rejected as error:
            if error.code != Code.CIRCULAR:
                raise
            message = error.message.removeprefix(f"{error.code}: ")
            fault = {"line": 1, "column": 1, "code": error.code, "message": message}
            return {"success": False, "errors": [fault], "warnings": answer["warnings"]}
        return answer | {
            "storedAs": stored.pipeline.name,
            "version": stored.version.version,
            "warnings": [*answer["warnings"], *key_warnings(program)],
        }

    def listed(self, caller: Caller, namespace: str | None = None) -> list[JsonObject]:
        """The caller's own pipelines and the shared ones, by name; all for an administrator."""
        seen = self.store.listed(caller, namespace)
        aliases = defaultdict[str, list[str]](list)
        for entry in seen if namespace is None else self.store.listed(caller):
            aliases[entry.active_version.structural_hash].append(entry.name)
        return [_summary(entry, aliases[entry.active_version.structural_hash]) for entry in seen]

    async def described(self, caller: Caller, ref: str) -> JsonObject:
        """Inputs, outputs and modules of a pipeline, its source if the caller may see it, and by name its versions."""
        found = await self.store.get(caller, ref)
        image, entry = found.image, found.pipeline
        aliases = self.store.names_of(caller, image.structural_hash)
        modules = [{"name": used.name, "signature": used.signature} for used in image.modules]
        source = {"source": image.source} if found.readable else {}
        if entry is None:
            return _program(image, image, image.compiled_at, aliases) | {"modules": modules} | source
        return _summary(entry, aliases) | {"modules": modules, "versions": versions_of(entry)} | source

    async def publish(self, caller: Caller, ref: str, tool: str, description: str = "") -> JsonObject:
        """Make a pipeline a tool of `pipelines/published`.

        Raises:
            Rejected, Conflict: it cannot be one, or not under this name.
        """
        entry = await self.store.publish(caller, ref, tool, description)
        module = f"{PIPELINES_TEAM}.{PUBLISHED}.{tool}"
        return {"name": entry.name, "tool": tool, "module": module, "inputs": entry.inputs, "outputs": entry.outputs}

    async def unpublish(self, caller: Caller, ref: str) -> JsonObject:
        """Remove a pipeline's tool."""
        return {"name": (await self.store.unpublish(caller, ref)).name}

    async def delete(self, caller: Caller, ref: str) -> JsonObject:
        """Remove a pipeline with its versions.

        Raises:
            Conflict: a hash that has names (`AliasConflict`).
        """
        await self.store.delete(caller, ref)
        return {"deleted": True}


def versions_of(entry: StoredPipeline) -> list[JsonObject]:
    """The versions of a pipeline, as the engine lists them."""
    return [
        {
            "version": each.version,
            "structuralHash": f"sha256:{each.structural_hash}",
            "createdAt": each.created_at.isoformat(),
            "active": each.version == entry.active,
        }
        for each in entry.versions
    ]


def _summary(entry: StoredPipeline, aliases: Sequence[str]) -> JsonObject:
    """A stored pipeline in a list: the fields of the engine, and those of RFC-018."""
    active = entry.active_version
    facts: Mapping[str, object] = {
        "published": entry.published and entry.published.tool,
        "broken": entry.broken,
        "expiresAt": entry.expires_at and entry.expires_at.isoformat(),
    }
    return {
        "name": entry.name,
        "namespace": entry.namespace,
        "version": entry.active,
        **_program(entry, active, active.created_at, aliases),
        **{name: fact for name, fact in facts.items() if fact is not None},
    }


def _program(
    of: StoredPipeline | PipelineImage,
    hashes: PipelineVersion | PipelineImage,
    compiled_at: datetime,
    aliases: Sequence[str],
) -> JsonObject:
    """What there is to say of a program, with a name or without one."""
    return {
        "structuralHash": f"sha256:{hashes.structural_hash}",
        "syntacticHash": f"sha256:{hashes.syntactic_hash}",
        "aliases": list(aliases),
        "compiledAt": compiled_at.isoformat(),
        "moduleCount": len(of.modules),
        "declaredOutputs": list(of.outputs),
        "inputs": of.inputs,
        "outputs": of.outputs,
    }
