"""Checks a program without executing it (RFC-018, tools `validate` and `compile`)."""

from pallas_contracts.agents import JsonObject
from pallas_contracts.turns import Principal
from pallas_cst.canonical import source_hash
from pallas_cst.dag import graph
from pallas_cst.faults import Faulty, Warned, diagnostics
from pallas_cst.parse import parse
from pipelines.programs.compiler import Compiler
from pipelines.programs.program import Program, errors_of


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
