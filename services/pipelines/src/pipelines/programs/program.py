"""A program that was checked against the modules of a caller."""

from dataclasses import dataclass
from functools import cached_property

from pallas_contracts.agents import JsonObject
from pallas_contracts.message import utc_now
from pallas_contracts.pipelines import PipelineImage, UsedModule
from pallas_cst.canonical import source_hash, structural_hash
from pallas_cst.check import Checked
from pallas_cst.faults import Faulty, diagnostics
from pipelines.modules.catalogue import Modules, signature_of

_MOST_FAULTS = 10
"""Faults in one message."""


@dataclass(frozen=True)
class Program:
    """A program without faults."""

    source: str
    checked: Checked
    modules: Modules

    @cached_property
    def structural_hash(self) -> str:
        """SHA-256 of its canonical form, 64 hex digits."""
        return structural_hash(self.checked)

    @cached_property
    def inputs(self) -> dict[str, str]:
        """The types of the inputs by name."""
        return {name: str(kind) for name, kind in self.checked.inputs.items()}

    @cached_property
    def outputs(self) -> dict[str, str]:
        """The types of the outputs by name."""
        return {name: str(kind) for name, kind in self.checked.outputs.items()}

    @cached_property
    def used(self) -> tuple[UsedModule, ...]:
        """The modules that it calls, each once, by name."""
        tools = {
            function.qualified: signature_of(function)
            for called in self.checked.functions.values()
            for function in called
            if function is not None and function.tool
        }
        return tuple(UsedModule(name=name, signature=tools[name]) for name in sorted(tools))

    def image(self) -> PipelineImage:
        """The program as it is stored."""
        return PipelineImage(
            source=self.source,
            structural_hash=self.structural_hash,
            syntactic_hash=source_hash(self.source),
            inputs=self.inputs,
            outputs=self.outputs,
            modules=self.used,
            compiled_at=utc_now(),
        )

    def warnings(self) -> list[JsonObject]:
        """What is probably not meant, with its place in the source."""
        return diagnostics(self.source, self.checked.warnings)


def errors_of(source: str, faulty: Faulty, *, first: bool = False) -> list[JsonObject]:
    """The faults of a program that cannot be used; only the engine's one with `first`."""
    return diagnostics(source, faulty.faults[:1] if first else faulty.faults)


def faults_text(source: str, faulty: Faulty) -> str:
    """The faults of a program in one message, a line for each."""
    found = errors_of(source, faulty)
    lines = [f"line {it['line']}, column {it['column']}: {it['code']} {it['message']}" for it in found[:_MOST_FAULTS]]
    more = [f"and {len(found) - _MOST_FAULTS} more"] if len(found) > _MOST_FAULTS else []
    return "\n".join(["The program has faults:", *lines, *more])
