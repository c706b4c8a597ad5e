"""Checks sources against the modules of a caller, and keeps the last programs."""

import asyncio
from dataclasses import dataclass

from cachetools import LRUCache

from pallas_contracts.errors import Rejected
from pallas_contracts.pipelines import LONGEST_SOURCE
from pallas_contracts.turns import Principal
from pallas_cst import syntax as s
from pallas_cst.check import check
from pallas_cst.faults import Code, Fault, Faulty, Span
from pallas_cst.parse import parse
from pipelines.modules.catalogue import Catalogue, Modules
from pipelines.programs.program import Program, faults_text

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
