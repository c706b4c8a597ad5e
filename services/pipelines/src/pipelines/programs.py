"""A program that was checked against the modules of a caller, and the compiler that keeps those it has checked."""

import asyncio
from dataclasses import dataclass
from functools import cached_property

from cachetools import LRUCache

from pallas_contracts.agents import JsonObject
from pallas_contracts.errors import Rejected
from pallas_contracts.message import utc_now
from pallas_contracts.pipelines import LONGEST_SOURCE, PipelineImage, UsedModule
from pallas_contracts.turns import Principal
from pallas_cst import syntax as s
from pallas_cst.canonical import source_hash, structural_hash
from pallas_cst.check import Checked, check
from pallas_cst.faults import Code, Fault, Faulty, Span, diagnostics
from pallas_cst.parse import parse
from pipelines.modules.catalogue import Catalogue, Modules, signature_of

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


MOST_CALLS = 2000
"""Calls in a program."""

_OVERHEAD = 100
"""What a program takes in memory besides its source, as characters of one: each of these takes 100 bytes or more."""

_LONG = 2000
"""Characters from which a source is checked in a thread, so that others do not wait for it."""


@dataclass
class Compiler:
    """Makes programs. A program is good for one set of modules, so a change of the catalogue forgets it.

    Programs of `room` characters are kept, those that were used last.
    """

    catalogue: Catalogue
    room: int = 500_000

    def __post_init__(self) -> None:
        self._kept = LRUCache[tuple[str, Modules], Program](self.room, _size)
        self.catalogue.on_change(self._kept.clear)

    async def compile(self, source: str, caller: Principal) -> Program:
        """The program of a source.

        Raises:
            Faulty: it has faults: all of them, the one of the engine first.
        """
        modules = self.catalogue.of(caller)
        if (known := self._kept.get((source, modules))) is not None:
            return known
        if len(source) <= _LONG:
            program = checked_program(source, modules)
        else:
            program = await asyncio.to_thread(checked_program, source, modules)
        self._kept[source, modules] = program
        return program

    async def compile_or_reject(self, source: str, caller: Principal) -> Program:
        """The program of a source.

        Raises:
            Rejected: it has faults, which are in the message (`faulty_program`).
        """
        try:
            return await self.compile(source, caller)
        except Faulty as faulty:
            raise Rejected(faults_text(source, faulty), code="faulty_program") from None


def _size(program: Program) -> int:
    return _OVERHEAD + len(program.source)


def checked_program(source: str, modules: Modules) -> Program:
    """Parse and check a source.

    Raises:
        Faulty: it has faults, or is too long or has too many calls.
    """
    if len(source) > LONGEST_SOURCE:
        raise _too_large(f"the source has {len(source)} characters; the limit is {LONGEST_SOURCE}")
    checked = check(parse(source), modules.functions)
    calls = sum(isinstance(expr, s.Call) for expr in checked.types)
    if calls > MOST_CALLS:
        raise _too_large(f"the program has {calls} calls; the limit is {MOST_CALLS}")
    return Program(source, checked, modules)


def _too_large(message: str) -> Faulty:
    return Faulty(Fault(Code.SYNTAX, f"Syntax error: {message}", Span(0, 0)))
