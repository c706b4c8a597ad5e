"""Inputs of an execution: their values, those that are missing, the form that asks a person for them, the plan."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from pallas_contracts.agents import JsonObject
from pallas_contracts.errors import Rejected
from pallas_contracts.turns import InputRequired, Principal
from pallas_cst import syntax as s
from pallas_cst import types as t
from pallas_cst.check import Checked
from pallas_cst.faults import Lines
from pallas_cst.values import Unfit, Value, from_json
from pipelines.programs import Program
from pipelines.running.answers import worked_on

_QUESTION = "inputs"
"""The name of the question in `input_requests` and of its answer in `input_responses`."""

_FIELDS: Mapping[t.Type, JsonObject] = {
    t.STRING: {"type": "string"},
    t.INT: {"type": "integer"},
    t.FLOAT: {"type": "number"},
    t.BOOLEAN: {"type": "boolean"},
}


@dataclass(frozen=True, slots=True)
class Inputs:
    """The values by name, and the types of those that are missing."""

    values: dict[str, Value]
    missing: dict[str, t.Type]


async def read_inputs(checked: Checked, given: Mapping[str, Any]) -> Inputs:
    """The inputs of a program, without what it does not have. One that is Optional is never missing.

    Raises:
        Rejected: one is no value of its type (`invalid_input`).
    """
    return await worked_on(given, partial(_read, checked, given), *checked.inputs.values())


async def read_all_inputs(checked: Checked, given: Mapping[str, Any]) -> dict[str, Value]:
    """The inputs of a program, of which none is missing.

    Raises:
        Rejected: one is missing or no value of its type (`invalid_input`).
    """
    inputs = await read_inputs(checked, given)
    if inputs.missing:
        raise _invalid(f"missing: {', '.join(inputs.missing)}")
    return inputs.values


def _read(checked: Checked, given: Mapping[str, Any]) -> Inputs:
    inputs = Inputs({}, {})
    for name, kind in checked.inputs.items():
        if name not in given and not isinstance(kind, t.OptionalOf):
            inputs.missing[name] = kind
            continue
        try:
            inputs.values[name] = from_json(given.get(name), kind)
        except Unfit as error:
            raise _invalid(f"{name}: {error}") from None
    return inputs


def ask_for(missing: Mapping[str, t.Type]) -> InputRequired:
    """Ask the caller's client for inputs, by a form. What a form cannot have is asked for as JSON."""
    fields = {
        name: {**_FIELDS[kind], "title": name}
        if kind in _FIELDS
        else {"type": "string", "title": name, "description": f"JSON of the type {kind}"}
        for name, kind in missing.items()
    }
    schema = {"type": "object", "properties": fields, "required": list(fields)}
    params = {"mode": "form", "message": "The pipeline needs these inputs.", "requestedSchema": schema}
    return InputRequired(input_requests={_QUESTION: {"method": "elicitation/create", "params": params}})


def answered(missing: Mapping[str, t.Type], responses: JsonObject | None) -> JsonObject | None:
    """The inputs in the answer to `ask_for`; None if there is no answer, or the person has declined.

    Raises:
        Rejected: an input is no JSON (`invalid_input`).
    """
    match (responses or {}).get(_QUESTION):
        case {"action": "accept", "content": {**content}}:
            return {
                name: content[name] if kind in _FIELDS else _parsed(name, content[name])
                for name, kind in missing.items()
                if name in content
            }
        case _:
            return None


def _parsed(name: str, text: Any) -> Any:
    try:
        return json.loads(text)
    except (TypeError, ValueError):
        raise _invalid(f"{name}: the answer is no JSON") from None


def _invalid(message: str) -> Rejected:
    return Rejected(f"Input error: {message}", code="invalid_input")


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
