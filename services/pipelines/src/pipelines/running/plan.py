"""What an execution would call (`execute` with `dry_run`)."""

from pallas_contracts.agents import JsonObject
from pallas_contracts.turns import Principal
from pallas_cst import syntax as s
from pallas_cst.faults import Lines
from pipelines.programs.program import Program


def plan_of(program: Program, caller: Principal) -> JsonObject:
    """The calls of tools in the order of the source: what is called, where, and what the tool says of its effects.

    All are made in the name of the caller, who has no module for a tool that it may not use. A call in a branch may
    not be made.
    """
    lines = Lines(program.source)
    calls: list[JsonObject] = []
    for expr, functions in program.checked.functions.items():
        module = program.modules.by_basis.get(functions[0].module) if functions[0] is not None else None
        if not isinstance(expr, s.Call) or module is None:
            continue
        line, column = lines.position(expr.span.start)
        hints = module.tool.annotations or {}
        calls.append(
            {
                "module": module.name,
                "agent": f"{module.definition.team}/{module.definition.agent}",
                "tool": module.tool.name,
                "line": line,
                "column": column,
                "readOnly": bool(hints.get("readOnlyHint")),
                "repeatable": module.repeatable,
                "timeoutSeconds": module.definition.limits.turn_timeout,
            }
        )
    calls.sort(key=lambda call: (call["line"], call["column"]))
    return {
        "caller": f"{caller.type}:{caller.name or caller.id}",
        "inputs": program.inputs,
        "outputs": program.outputs,
        "structuralHash": f"sha256:{program.structural_hash}",
        "calls": calls,
    }
