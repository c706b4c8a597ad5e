"""Calls of one module by name: a program of one call, whose inputs are the module's parameters."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from pallas_contracts.agents import JsonObject
from pallas_contracts.errors import Rejected
from pallas_cst import types as t
from pallas_cst.check import check
from pallas_cst.faults import Faulty
from pallas_cst.functions import Functions
from pallas_cst.parse import parse
from pipelines.modules.catalogue import Modules
from pipelines.modules.names import language_names

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
